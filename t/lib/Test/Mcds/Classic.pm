package Test::Mcds::Classic;

# Copyright (C) mcds authors

# The replies of memcached 1.6.18 to the classic commands, for Fake.pm.  With
# item_cas => 1 the CAS value of an item is the number of its changes, as in
# yrmcds: an item that was deleted and stored again has its first CAS value.

use warnings;
use strict;

use Time::HiRes qw/ time /;


my $error = 'cannot increment or decrement non-numeric value';


# returns the reply to a line of the classic protocol, as bytes; undef if the
# line is not one of the implemented commands

sub answer {
    my ($f, $line, $value) = @_;

    my ($cmd, $key, @rest) = split / /, $line;

    if ($cmd eq 'get' || $cmd eq 'gets') {
        my $item = $f->item($key) or return "END\r\n";

        return "VALUE $key $item->{flags} " . length($item->{value})
            . ($cmd eq 'gets' ? " $item->{cas}" : '')
            . "\r\n$item->{value}\r\nEND\r\n";
    }

    if ($cmd =~ /^(?:set|add|cas|append)$/) {
        return store($f, $cmd, $key, $value, @rest);
    }

    if ($cmd eq 'incr' || $cmd eq 'decr') {
        my $item = $f->item($key) or return "NOT_FOUND\r\n";
        my ($n) = $item->{value} =~ /^(\d+) *$/
            or return "CLIENT_ERROR $error\r\n";

        $n = $cmd eq 'incr' ? $n + $rest[0] : $n > $rest[0] ? $n - $rest[0] : 0;

        $item->{value} = $n;
        $item->{cas} = $f->{item_cas} ? $item->{cas} + 1 : $f->{next_cas}++;

        return "$n\r\n";
    }

    if ($cmd eq 'delete') {
        $f->item($key) or return "NOT_FOUND\r\n";
        delete $f->{store}{$key};

        return "DELETED\r\n";
    }

    if ($cmd eq 'touch') {
        my $item = $f->item($key) or return "NOT_FOUND\r\n";
        $item->{expires} = ends($rest[0]);

        return "TOUCHED\r\n";
    }

    return;
}


sub store {
    my ($f, $cmd, $key, $value, $flags, $ttl, $len, $cas) = @_;

    my $old = $f->item($key);

    return "NOT_STORED\r\n" if $cmd eq 'add' && $old;
    return "NOT_STORED\r\n" if $cmd eq 'append' && !$old;

    if ($cmd eq 'cas') {
        return "NOT_FOUND\r\n" if !$old;
        return "EXISTS\r\n" if $old->{cas} != $cas;
    }

    my $item = $f->put_item($key, $cmd eq 'append' ? "$old->{value}$value"
        : $value, 0, $flags);

    $item->{expires} = $cmd eq 'append' ? $old->{expires} : ends($ttl);
    $item->{cas} = ($old ? $old->{cas} : 0) + 1 if $f->{item_cas};

    return "STORED\r\n";
}


# the time when an item expires, from its time to live in seconds: 0 is never;
# more than 30 days are seconds since the epoch

sub ends {
    my ($ttl) = @_;
    return !$ttl ? 0 : $ttl < 0 ? 1 : $ttl > 2592000 ? $ttl : time() + $ttl;
}


1;
