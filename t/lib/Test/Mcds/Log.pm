package Test::Mcds::Log;

# Copyright (C) mcds authors

# Logs as seen by tests: the answers of mcds_log_api, and the frames (batches of
# lines) that memcached stores.
#
#     my @events = events($host, '/log?limit=10');  # { time, host, line, id }
#     my @lines = lines($host, '/log');
#     my $r = post($host, '/log?time=-60', 'one', 'two');  # lines without "
#     my @frames = frames($memcached, 'name');
#     $memcached->mc('ms ...', frame(writer => 7, seq => 1, host => 'a',
#         lines => [[$milliseconds, 'text'], ...]));
#
# A query without "last" gets last=9999999999, so that it includes the lines of
# this moment.

use warnings;
use strict;

use Exporter ();
use JSON::PP ();

use Test::Mcds ();

our @ISA = qw/ Exporter /;
our @EXPORT_OK = qw/ events lines post frames frame crc32 /;

my @table = map {
    my $c = $_;
    $c = $c & 1 ? 0xedb88320 ^ ($c >> 1) : $c >> 1 for 1 .. 8;
    $c;
} 0 .. 255;


sub events {
    my ($host, $uri) = @_;

    $uri .= ($uri =~ /\?/ ? '&' : '?') . 'last=9999999999'
        if $uri !~ /last=/;

    my $r = $host->get($uri);

    return if $r->status() != 200;
    return map { JSON::PP::decode_json($_) } split /\n/, $r->body();
}


# the lines that mcds_log_api returns for a log, as bytes

sub lines {
    my ($host, $uri) = @_;

    return map { my $line = $_->{line}; utf8::encode($line); $line }
        events($host, $uri);
}


sub post {
    my ($host, $uri, @lines) = @_;

    return Test::Mcds::http_post($host->port(), $uri,
        join('', map { "\"$_\"\n" } @lines),
        headers => { 'Content-Type' => 'application/x-ndjson' });
}


# all frames (batches of lines) of a log in memcached, sorted by the numbers in
# the keys of their items, "name:chunk:part" or "name:chunk": { chunk, part,
# host, writer, seq, lines => [...], times => [...] }

sub frames {
    my ($m, $name) = @_;

    my %key = map { /^\Q$name\E:(\d+)(?::(\d+))?$/ ? ($_ => [$1, $2 // 0])
        : () } $m->keys();
    my @frames;

    for my $key (sort { $key{$a}[0] <=> $key{$b}[0]
        || $key{$a}[1] <=> $key{$b}[1] } keys %key)
    {
        my $value = $m->get($key) // '';

        while (length $value) {
            my ($magic, $len, $crc, $format, $host, $n, $writer, $seq)
                = unpack 'a4VVCCx2VQ<Q<', $value;

            die "torn: $key\n" if $magic ne 'MCDL' || $format != 1
                || $len > length $value
                || crc32(substr $value, 12, $len - 12) != $crc;

            my @lines = unpack "x36 x$host (Q< V/a)$n", $value;

            push @frames, { chunk => $key{$key}[0], part => $key{$key}[1],
                host => substr($value, 36, $host), writer => $writer,
                seq => $seq, lines => [map { $lines[2 * $_ + 1] } 0 .. $n - 1],
                times => [map { $lines[2 * $_] } 0 .. $n - 1] };

            $value = substr $value, $len;
        }
    }

    return @frames;
}


sub frame {
    my (%o) = @_;

    my $body = pack('CCx2VQ<Q<', 1, length $o{host}, scalar @{ $o{lines} },
        $o{writer}, $o{seq}) . $o{host}
        . join '', map { pack 'Q< V/a', @$_ } @{ $o{lines} };

    return pack('a4VV', 'MCDL', 12 + length $body, crc32($body)) . $body;
}


sub crc32 {
    my ($bytes) = @_;

    my $crc = 0xffffffff;

    $crc = $table[($crc ^ $_) & 0xff] ^ ($crc >> 8) for unpack 'C*', $bytes;

    return $crc ^ 0xffffffff;
}


1;
