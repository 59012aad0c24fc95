package Test::Mcds::Dns;

# Copyright (C) mcds authors

# A name server over UDP, controlled by the test.
#
#     my $d = $t->forked('Test::Mcds::Dns', 'd', ttl => 60);  default 0
#     $d->names('localhost', '127.0.0.2', '::1');  sets the addresses of a name
#     $d->forget('localhost');                     removes the name
#     $d->tell('silent');                          or servfail, refused,
#                                                  garbage, foreign; '': normal
#     $d->count('localhost')                       questions for an IPv4
#                                                  address since mark()
#
# A name without addresses does not exist.

use warnings;
use strict;

use base qw/ Test::Mcds::Server /;

use IO::Socket::INET;
use Socket qw/ AF_INET6 inet_aton inet_pton /;


sub names {
    my ($self, $name, @addresses) = @_;
    return $self->call('names', $name, @addresses);
}


sub forget {
    my ($self, $name) = @_;
    return $self->call('forget', $name);
}


sub count {
    my ($self, $name, $type) = @_;

    return scalar grep {
        $_->{event} eq 'question' && $_->{type} == ($type // 1)
            && $_->{name} eq $name
    } $self->records();
}


# opens the UDP socket; called in the process of the name server

sub open_listener {
    my ($self) = @_;

    return IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1',
        LocalPort => $self->{port})
        // die "cannot listen for $self->{name}: $!\n";
}


sub do_names {
    my ($self, $name, @addresses) = @_;

    $self->{names}{$name} = \@addresses;

    return 1;
}


sub do_forget {
    my ($self, $name) = @_;

    delete $self->{names}{$name};

    return 1;
}


# answers the questions that have arrived at the UDP socket, which has no
# connections to accept

sub accept_all {
    my ($self) = @_;

    while (my $peer = recv $self->{listen}, my $question, 4096, 0) {
        my $answer = $self->answer($question);
        send $self->{listen}, $answer, 0, $peer if defined $answer;
    }
}


sub answer {
    my ($self, $question) = @_;

    my ($id, undef, undef, undef, undef, undef, $rest)
        = unpack 'n6 a*', $question;
    my @labels;

    while ($rest =~ s/\A([\x01-\x3f])//) {
        push @labels, substr($rest, 0, ord $1, '');
    }

    my ($type) = unpack 'x n', $rest;
    my $name = lc join '.', @labels;

    $self->put(event => 'question', name => $name, type => $type);

    my $mode = $self->mode();

    return if $mode eq 'silent';
    return pack('n', $id) . "\xff" x 40 if $mode eq 'garbage';

    my $code = { servfail => 2, refused => 5 }->{$mode} // 0;
    my $list = $self->{names}{$name};
    my @data;

    $code = 3 if !$code && !$list;

    if (!$code) {
        @data = $type == 1 ? map { inet_aton($_) } grep { !/:/ } @$list
            : $type == 28 ? map { inet_pton(AF_INET6, $_) } grep { /:/ } @$list
            : ();
    }

    # in the mode "foreign" the answer has the id of another question

    $id ^= 1 if $mode eq 'foreign';

    return pack('n6', $id, 0x8180 | $code, 1, scalar @data, 0, 0)
        . substr($question, 12)
        . join '', map {
            pack('n n n N n/a*', 0xc00c, $type, 1, $self->{ttl} // 0, $_)
        } @data;
}


1;
