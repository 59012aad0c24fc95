package Test::Mcds::Http2;

# Copyright (C) mcds authors

# A simple HTTP/2 client: one connection, whose frames the test controls.
#
#     $h = Test::Mcds::Http2->new(where, window => bytes of a stream's window)
#     $id = $h->request(uri, headers => [name => value, ..])  opens a stream
#     $r = $h->response(id, timeout)  waits for its end: status, body, complete,
#                                     error; names and values of headers are not
#                                     decoded, use curl for these
#     $h->begun(id, timeout)          true once a part of the response came
#     $h->rst(id)                     RST_STREAM
#     $h->ping(timeout)               true once nginx has handled all frames
#     $h->close, $h->reset            FIN, RST of the connection

use warnings;
use strict;

use Test::Mcds::Http ();
use Time::HiRes qw/ time /;


my %static_status = (8 => 200, 9 => 204, 10 => 206, 11 => 304, 12 => 400,
    13 => 404, 14 => 500);


sub new {
    my ($class, $where, %o) = @_;

    my $h = bless {
        c => Test::Mcds::Http::conn($where), next => 1, streams => {},
        pongs => 0, pings => 0,
    }, $class;

    # SETTINGS: no server push, and the given window for a stream; and
    # WINDOW_UPDATE: the maximum window for the connection

    $h->{c}->send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        . frame(4, 0, 0, pack('nNnN', 2, 0, 4, $o{window} // 0x7fffffff))
        . frame(8, 0, 0, pack('N', 0x7fff0000)));

    return $h;
}


sub frame {
    my ($type, $flags, $id, $payload) = @_;

    return substr(pack('N', length $payload), 1)
        . pack('CCN', $type, $flags, $id) . $payload;
}


# takes a complete HTTP/2 frame off the received bytes, and returns its type,
# flags, stream and payload; or nothing

sub next_frame {
    my ($in) = @_;

    return if length $$in < 9;

    my $len = unpack('N', "\0" . substr($$in, 0, 3));
    return if length $$in < 9 + $len;

    my ($type, $flags, $id) = unpack('CCN', substr($$in, 3, 6));
    my $payload = substr($$in, 9, $len);

    substr($$in, 0, 9 + $len, '');

    return ($type, $flags, $id & 0x7fffffff, $payload);
}


# the HPACK code of a header: a literal without indexing and Huffman code

sub literal {
    my ($name, $value) = @_;
    return "\0" . string($name) . string($value);
}


sub string {
    my ($text) = @_;

    my $n = length $text;
    return pack('C', $n) . $text if $n < 127;

    $n -= 127;
    my $bytes = pack('C', 127);

    while ($n >= 128) {
        $bytes .= pack('C', 128 | $n & 127);
        $n >>= 7;
    }

    return $bytes . pack('C', $n) . $text;
}


sub request {
    my ($h, $uri, %o) = @_;

    my $id = $h->{next};
    my @more = @{$o{headers} // []};
    my $block = literal(':method', $o{method} // 'GET')
        . literal(':scheme', 'http') . literal(':path', $uri)
        . literal(':authority', $o{host} // 'localhost');

    while (my ($name, $value) = splice @more, 0, 2) {
        $block .= literal(lc $name, $value);
    }

    $h->{next} += 2;
    $h->{streams}{$id} = { body => '', start => time() };
    $h->{c}->send(frame(1, 0x5, $id, $block));

    return $id;
}


sub rst {
    my ($h, $id) = @_;
    return $h->{c}->send(frame(3, 0, $id, pack('N', 8)));
}


# receives and handles HTTP/2 frames; false at the end of the connection

sub take {
    my ($h, $left) = @_;

    my $c = $h->{c};

    $c->fill($left);

    while (my @frame = next_frame(\$c->{in})) {
        $h->handle(@frame);
    }

    return !$c->{eof};
}


sub handle {
    my ($h, $type, $flags, $id, $payload) = @_;

    my $s = $h->{streams}{$id};

    if ($type == 0) {
        $s->{body} .= $payload if $s;
        $h->{c}->send(frame(8, 0, 0, pack('N', length $payload)))
            if length $payload;

    } elsif ($type == 1) {
        $s->{status} //= status($payload) if $s;

    } elsif ($type == 3) {
        $s->{error} = 'reset ' . unpack('N', $payload) if $s;

    } elsif ($type == 4) {
        $h->{c}->send(frame(4, 1, 0, '')) if !($flags & 1);

    } elsif ($type == 6) {
        $h->{pongs}++ if $flags & 1;

    } elsif ($type == 7) {
        $h->{goaway} = 1;
    }

    $s->{complete} = 1 if $s && $type < 2 && $flags & 1;
}


# the status in a header block: the first field, but for an update of the size
# of the dynamic table

sub status {
    my ($block) = @_;

    $block =~ s/\A[\x20-\x3f]+//;

    my $first = unpack('C', $block);

    return $static_status{$first & 0x7f} // 0 if $first & 0x80;
    return $1 if $block =~ /\A[\x08\x18\x48]\x03(\d{3})/;
    return 0;
}


sub until_true {
    my ($h, $code, $timeout) = @_;

    my $end = time() + ($timeout // $Test::Mcds::Http::TIMEOUT);

    while (!$code->()) {
        my $left = $end - time();
        return 0 if $left <= 0 || !$h->take($left) && !$code->();
    }

    return 1;
}


sub response {
    my ($h, $id, $timeout) = @_;

    my $s = $h->{streams}{$id};

    if (!$h->until_true(sub { $s->{complete} || $s->{error} }, $timeout)) {
        $s->{error} = $h->{c}{eof} ? 'closed' : 'timed out';
    }

    return bless {
        head => '', headers => {}, %$s, status => $s->{status} // 0,
        time => time() - $s->{start}, complete => $s->{complete} // 0,
    }, 'Test::Mcds::Response';
}


sub begun {
    my ($h, $id, $timeout) = @_;

    my $s = $h->{streams}{$id};

    return $h->until_true(sub { length $s->{body} || $s->{error} }, $timeout);
}


sub ping {
    my ($h, $timeout) = @_;

    my $n = ++$h->{pings};

    $h->{c}->send(frame(6, 0, 0, 'mcdsmcds'));

    return $h->until_true(sub { $h->{pongs} >= $n }, $timeout);
}


sub close { $_[0]{c}->close() }
sub reset { $_[0]{c}->reset() }


1;
