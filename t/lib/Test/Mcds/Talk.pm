package Test::Mcds::Talk;

# Copyright (C) mcds authors

# Sends commands to a memcached, real or fake, on its own connection.

use warnings;
use strict;

use IO::Select;
use Time::HiRes qw/ time /;

use Test::Mcds::Http;


# sends one command and returns its whole reply: mc("mg key v"), and with a
# value mc("ms key 3 T60", "abc")

sub mc {
    my ($self, $line, $value) = @_;

    my $out = "$line\r\n" . (defined $value ? "$value\r\n" : '');

    for my $try (1, 2) {
        my $fresh = !$self->{talk};

        $self->{talk} //= Test::Mcds::Http::conn($self->where());
        $self->{talk}->send($out);

        my $reply = $self->reply($line);

        # after a bad command line, memcached takes the value for a command,
        # with a reply of its own

        $self->hang_up() if !defined $reply || $reply =~ /^\w*ERROR/;

        return $reply if defined $reply;
        last if $fresh;
    }

    die "$self->{name}: no reply to \"$line\"\n";
}


# returns 1 if the reply to a command matches $re, else 0 after closing the
# connection: yrmcds may never read from a connection that was opened before the
# workers of yrmcds started, so the caller's next attempt needs a new one

sub says {
    my ($self, $line, $re) = @_;

    my ($start, $asks) = (time(), $self->{asks} // 0.2);

    local $self->{patience} = $asks;

    return 1 if eval { $self->mc($line) =~ $re };

    $self->{asks} = 2 * $asks if time() - $start >= $asks;
    $self->hang_up();

    return 0;
}


sub hang_up {
    my ($self) = @_;

    $self->{talk}->close() if $self->{talk};
    delete $self->{talk};
}


sub reply {
    my ($self, $line) = @_;

    my $c = $self->{talk};
    my $end = time() + ($self->{patience} // 30);

    while (1) {
        my $len = whole($c->{in}, $line);

        return substr($c->{in}, 0, $len, '') if $len;

        my $left = $end - time();
        return if $left <= 0 || $c->{eof};
        $c->fill($left);
    }
}


# the length of memcached's reply to a command if it is complete, else 0

sub whole {
    my ($in, $line) = @_;

    my $pos = index($in, "\n");
    return 0 if $pos < 0;

    if ($in =~ /\AVA (\d+)/) {
        my $len = $pos + 1 + $1 + 2;
        return length $in >= $len ? $len : 0;
    }

    # recent versions of memcached send "OK" before a dump of keys

    if ($in =~ /\A(?:STAT|VALUE|key=|END)/
        || $line =~ /^lru_crawler metadump/ && $in =~ /\AOK/)
    {
        return $in =~ /(?:\A|\n)END\r?\n\z/ ? length $in : 0;
    }

    return $pos + 1;
}


# the value that memcached has for a key, undef if the key does not exist

sub get {
    my ($self, $key) = @_;

    my $r = $self->mc("mg $key v");

    return $r =~ /\AVA (\d+).*?\r\n/ ? substr($r, $+[0], $1) : undef;
}


sub set {
    my ($self, $key, $value, $ttl) = @_;

    return $self->mc("ms $key " . length($value) . ' T' . ($ttl // 0), $value)
        =~ /\AHD/;
}


sub delete {
    my ($self, $key) = @_;
    return $self->mc("md $key") =~ /\AHD/;
}


# the seconds until a key expires, -1 if never, undef if the key does not exist

sub ttl {
    my ($self, $key) = @_;
    return $self->mc("mg $key t") =~ / t(-?\d+)/ ? $1 : undef;
}


sub flush {
    my ($self) = @_;
    return $self->mc('flush_all') =~ /\AOK/;
}


1;
