package Test::Mcds::Jepsen::History;

# Copyright (C) mcds authors

# The results of a long chaos run in its folder: lines of histories (described
# in t/jepsen/roles.c, origin.c and Jepsen.pm) and the injected faults.
#
#     $h = Test::Mcds::Jepsen::History->new(folder)
#     $h->{profile}               the profile of the faults, see Nemesis.pm
#     $h->{crowd}{N}              requests of the crowd of clients: a list of
#                                 the lines that begin with "N"; lines of pages
#                                 ("P") are only in the file, which
#                                 each_page(sub) reads
#     $h->{origin}, $h->{log}, $h->{reader}   lists of lines of other histories
#     $h->ill(host, from, to)     whether a fault affected this host between
#                                 two times or shortly before; '*': any host
#     $h->faults(re, from, to)    the faults whose type matches the regex,
#                                 between two times
#     $h->lost(from, to)          number of memcached that have lost data
#     $h->apart(from, to)         the maximum difference between the clocks of
#                                 hosts, in seconds
#     $h->given_up(host, uri)     whether a request for the page no longer
#                                 waited for memcached, as the host's log says
#
# Times are microseconds.

use warnings;
use strict;

# the maximum time until all workers consider a memcached server healthy again,
# microseconds

my $back = 3.5e6;

my %fields = (
    P => [qw/ cache reason verdict version n /], X => [],
    N => [qw/ number /], L => [qw/ owner got token ttl /], K => [],
    G => [qw/ id /], T => [qw/ value /],
);


sub new {
    my ($class, $dir) = @_;

    my $self = bless { dir => $dir, profile => 'net', crowd => {}, origin => [],
        faults => [], log => [], reader => [], count => {} }, $class;

    $self->read_faults();
    $self->read_crowd();
    $self->read_origin();
    $self->read_end('log', 'end.history');
    $self->read_end('reader', 'reader.history');

    return $self;
}


sub open_file {
    my ($self, $name) = @_;

    open my $fh, '<', "$self->{dir}/$name" or die "$name: $!\n";

    return $fh;
}


sub parse {
    my ($line) = @_;

    chomp $line;

    my ($letter, $begin, $end, $host, $client, $op, $uri, $status, @more)
        = split / /, $line;
    my %r = (letter => $letter, begin => $begin, end => $end, host => $host,
        client => $client, op => $op, uri => $uri, status => $status,
        line => $line);

    @r{@{$fields{$letter}}} = @more;

    return \%r;
}


sub read_crowd {
    my ($self) = @_;

    my $fh = $self->open_file('crowd.history');

    while (<$fh>) {
        my $letter = substr $_, 0, 1;
        $self->{count}{$letter}++;
        push @{$self->{crowd}{$letter}}, parse($_) if $letter ne 'P';
    }
}


sub each_page {
    my ($self, $code) = @_;

    my $fh = $self->open_file('crowd.history');

    while (<$fh>) {
        $code->(parse($_)) if substr($_, 0, 1) eq 'P';
    }
}


sub read_origin {
    my ($self) = @_;

    my $fh = $self->open_file('origin.history');

    while (<$fh>) {
        my (undef, $begin, $end, $uri, $token, $how) = split ' ';
        push @{$self->{origin}}, { begin => $begin, end => $end, uri => $uri,
            token => $token, how => $how, line => $_ =~ s/\n//r };
    }
}


sub read_end {
    my ($self, $what, $name) = @_;

    return if !-f "$self->{dir}/$name";

    my $fh = $self->open_file($name);

    while (<$fh>) {
        if (/^N/) {
            push @{$self->{crowd}{N}}, parse($_);
            next;
        }

        my (undef, @word) = split ' ';
        push @{$self->{$what}}, \@word;
    }
}


sub read_faults {
    my ($self) = @_;

    my $fh = $self->open_file('faults');

    while (<$fh>) {
        $self->{profile} = $1 if /^# profile (\w+)/;
        next if /^#/;
        my %f;
        (@f{qw/ begin end type what host memcached how /}) = split ' ';
        $f{line} = $_ =~ s/\n//r;
        push @{$self->{faults}}, \%f;
    }

    @{$self->{faults}} = sort { $a->{begin} <=> $b->{begin} }
        @{$self->{faults}};
}


sub faults {
    my ($self, $types, $from, $to) = @_;

    return grep { $_->{begin} <= $to && $_->{end} >= $from
        && $_->{type} =~ $types } @{$self->{faults}};
}


sub ill {
    my ($self, $host, $from, $to) = @_;

    return scalar grep { $host eq '*' || $_->{host} eq '*'
        || $_->{host} eq $host }
        $self->faults(qr/^(?:net|death|host|corrupt)$/, $from - $back, $to);
}


# whether a host has logged that a request for $uri no longer waits for
# memcached

sub given_up {
    my ($self, $host, $uri) = @_;

    $self->{given_up}{$host} //= $self->read_log($host);

    return $self->{given_up}{$host}{$uri};
}


sub read_log {
    my ($self, $host) = @_;

    my %uris;

    open my $fh, '<', "$self->{dir}/h$host/error.log" or return \%uris;

    while (<$fh>) {
        $uris{$1} = 1 if /no longer waits for memcached.* "\w+ (\S+) HTTP/;
    }

    return \%uris;
}


sub lost {
    my ($self, $from, $to) = @_;

    my %which = map { $_->{memcached} => 1 }
        $self->faults(qr/^death$/, $from, $to);

    return scalar keys %which;
}


sub apart {
    my ($self, $from, $to) = @_;

    my ($low, $high) = (0, 0);

    for ($self->faults(qr/^clock$/, $from, $to)) {
        $low = $_->{how} if $_->{how} < $low;
        $high = $_->{how} if $_->{how} > $high;
    }

    return $high - $low;
}


1;
