package Test::Mcds::Http;

# Copyright (C) mcds authors

# The HTTP client of the tests; Test::Mcds documents its functions.

use warnings;
use strict;

use Errno qw/ EAGAIN EINTR EWOULDBLOCK /;
use Exporter qw/ import /;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use List::Util qw/ max min /;
use Scalar::Util qw/ weaken /;
use Socket qw/ SOL_SOCKET SO_LINGER IPPROTO_TCP TCP_NODELAY SOCK_STREAM /;
use Time::HiRes qw/ time /;

our @EXPORT_OK = qw/
    http_get http_head http_post http_request http_raw start_get finish
    many conn close_all
/;

our $TIMEOUT = 60;

# undef, or a sub that returns how many seconds the test's processes have waited
# for a processor; the durations that calm() returns do not include this wait

our $LOST;

# the maximum number of concurrent requests of many()

our $MOST = 1e6;

my %open;


sub conn {
    my ($where, %o) = @_;

    my $c = bless {
        where => $where, in => '', eof => 0, methods => [],
    }, __PACKAGE__;

    $c->{sock} = connect_to($where, %o);
    $open{$c + 0} = $c;
    weaken($open{$c + 0});

    return $c;
}


sub connect_to {
    my ($where, %o) = @_;
    my $s;

    if ($where =~ m{^(?:unix:)?(/.*)}) {
        $s = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $1);

    } else {
        my ($host, $port) = $where =~ /^(.*):(\d+)$/
            ? ($1, $2) : ('127.0.0.1', $where);

        $s = IO::Socket::INET->new(Proto => 'tcp', PeerAddr => $host,
            PeerPort => $port, Timeout => $o{connect_timeout} // 10,
            ($o{local} ? (LocalAddr => $o{local}) : ()));

        setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1) if $s;
    }

    die "cannot connect to $where: $!\n" if !$s;

    if (defined $o{preface}) {
        syswrite($s, $o{preface});
    }

    if ($o{ssl}) {
        require IO::Socket::SSL;
        my %ssl = ref $o{ssl} ? %{$o{ssl}} : ();
        my $sn = $o{host} // 'localhost';

        IO::Socket::SSL->start_SSL($s, SSL_verify_mode => 0,
            SSL_hostname => $sn, %ssl)
            or die "no TLS with $where: $IO::Socket::SSL::SSL_ERROR\n";
    }

    $s->blocking(0);

    return $s;
}


sub send {
    my ($c, $data, $timeout) = @_;

    my $end = time() + ($timeout // $TIMEOUT);

    while (length $data) {
        my $n = syswrite($c->{sock}, $data);

        if (defined $n) {
            substr($data, 0, $n, '');
            next;
        }

        if ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) {
            $c->{error} = "$!";
            return 0;
        }

        my $left = $end - time();
        return 0 if $left <= 0;
        IO::Select->new($c->{sock})->can_write($left);
    }

    return 1;
}


# returns the method and the bytes of a request, by the options of http_get()

sub format_request {
    my ($uri, %o) = @_;

    my $method = $o{method} // (defined $o{body} ? 'POST' : 'GET');
    my $version = $o{version} // '1.1';
    my @h = ref $o{headers} eq 'HASH'
        ? %{$o{headers}} : @{$o{headers} // []};
    my %seen;
    my $out = '';

    for (my $i = 0; $i < @h; $i += 2) {
        $seen{lc $h[$i]} = 1;
        my @values = ref $h[$i + 1] ? @{$h[$i + 1]} : ($h[$i + 1]);
        $out .= "$h[$i]: $_\r\n" for @values;
    }

    my $head = "$method $uri HTTP/$version\r\n";

    if (!$seen{host}) {
        $head .= 'Host: ' . ($o{host} // 'localhost') . "\r\n";
    }

    if (!$seen{connection} && $version eq '1.1' && !$o{keepalive}) {
        $out .= "Connection: close\r\n";
    }

    if (defined $o{body} && !$seen{'content-length'}) {
        $out .= 'Content-Length: ' . length($o{body}) . "\r\n";
    }

    return ($method, "$head$out\r\n" . ($o{body} // ''));
}


sub request {
    my ($c, $uri, %o) = @_;

    my ($method, $bytes) = format_request($uri, keepalive => 1, %o);

    push @{$c->{methods}}, $method;
    $c->begin();
    $c->send($bytes);

    return $c;
}


# notes the start of a request, from which note_times() computes its duration

sub begin {
    my ($c) = @_;

    $c->{lost} = $LOST->() if $LOST;
    $c->{start} = time();
}


sub note_times {
    my ($c, $res) = @_;

    $res->{start} = $c->{start};
    $res->{end} = time();
    $res->{time} = $res->{end} - ($c->{start} // $res->{end});
    $res->{calm} = max(0, $res->{time} - ($LOST->() - $c->{lost})) if $LOST;
}


# returns the next response on the connection, or the part of it that was
# received until the timeout or the end of the connection

sub response {
    my ($c, $timeout) = @_;

    my $end = time() + ($timeout // $TIMEOUT);
    my $method = shift @{$c->{methods}} // 'GET';
    my $res;

    while (1) {
        $res = parse(\$c->{in}, $method, $c->{eof});
        last if $res;

        my $left = $end - time();

        if ($left <= 0 || $c->{eof}) {
            $res = broken(\$c->{in}, $c->{eof}
                ? ($c->{error} || 'closed') : 'timed out');
            last;
        }

        $c->fill($left);
    }

    $c->note_times($res);

    return $res;
}


sub fill {
    my ($c, $left) = @_;

    if (!($c->{sock}->can('pending') && $c->{sock}->pending())) {
        IO::Select->new($c->{sock})->can_read($left) or return;
    }

    my $n = sysread($c->{sock}, $c->{in}, 65536, length $c->{in});

    if (defined $n) {
        $c->{eof} = 1 if $n == 0;

    } elsif ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) {
        $c->{error} = "$!";
        $c->{eof} = 1;
    }
}


sub get {
    my ($c, $uri, %o) = @_;

    return $c->request($uri, %o)->response($o{timeout});
}


# returns all bytes that arrive up to the end of the connection, or the timeout

sub slurp {
    my ($c, $timeout) = @_;

    my $end = time() + ($timeout // $TIMEOUT);

    while (!$c->{eof}) {
        my $left = $end - time();
        last if $left <= 0;
        $c->fill($left);
    }

    my $all = $c->{in};
    $c->{in} = '';

    return $all;
}


# true once the peer has closed the connection; waits up to the timeout

sub closed {
    my ($c, $timeout) = @_;

    my $end = time() + ($timeout // 0);

    while (!$c->{eof}) {
        my $left = $end - time();
        $c->fill($left > 0 ? $left : 0);
        last if $left <= 0;
    }

    return $c->{eof};
}


sub close {
    my ($c) = @_;

    if ($c->{sock}) {
        CORE::close($c->{sock});
        $c->{sock} = undef;
    }

    delete $open{$c + 0};
}


sub reset {
    my ($c) = @_;

    if ($c->{sock}) {
        setsockopt($c->{sock}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
        $c->close();
    }
}


sub DESTROY {
    my ($c) = @_;
    delete $open{$c + 0};
}


sub close_all {
    $_->close() for grep { $_ } values %open;
}


# takes the first response off the buffer; undef if it is incomplete

sub parse {
    my ($in, $method, $eof) = @_;

    my $skip = 0;
    my $pos;

    while (1) {
        $pos = index($$in, "\r\n\r\n", $skip);
        return undef if $pos < 0;

        last if substr($$in, $skip, 16) !~ m{^HTTP/1\.\d 1(\d\d)}
            || $1 eq '01';
        $skip = $pos + 4;
    }

    my $res = parse_head(substr($$in, $skip, $pos + 2 - $skip));
    my $body = $pos + 4;
    my $h = $res->{headers};

    if ($method eq 'HEAD' || $res->{status} == 204 || $res->{status} == 304) {
        $res->{body} = '';
        substr($$in, 0, $body, '');

    } elsif (($h->{'transfer-encoding'} // '') =~ /chunked/i) {
        my ($data, $end) = parse_chunks($in, $body);

        return undef if !defined $data;

        $res->{body} = $data;
        substr($$in, 0, $end, '');

    } elsif (defined $h->{'content-length'}) {
        my $len = $h->{'content-length'};

        return undef if length($$in) - $body < $len;

        $res->{body} = substr($$in, $body, $len);
        substr($$in, 0, $body + $len, '');

    } else {
        return undef if !$eof;

        $res->{body} = substr($$in, $body);
        $$in = '';
    }

    $res->{complete} = 1;

    return $res;
}


sub parse_head {
    my ($text) = @_;

    my ($line, @lines) = split /\r\n/, $text;
    my %h;

    for (@lines) {
        my ($name, $value) = /^([^:]*):[ \t]*(.*)$/ or next;
        $name = lc $name;
        $value =~ s/[ \t]+\z//;
        $h{$name} = defined $h{$name} ? "$h{$name}, $value" : $value;
    }

    my ($status, $reason)
        = ($line // '') =~ m{^HTTP/\d\.\d (\d{3})(?: (.*))?$};

    return bless {
        status => $status // 0, reason => $reason // '', headers => \%h,
        head => $text, body => '', complete => 0,
    }, 'Test::Mcds::Response';
}


sub parse_chunks {
    my ($in, $pos) = @_;
    my $data = '';

    while (1) {
        my $end = index($$in, "\r\n", $pos);
        return if $end < 0;

        my ($size) = substr($$in, $pos, $end - $pos) =~ /^([0-9a-fA-F]+)/
            or return;
        $size = hex $size;
        $pos = $end + 2;

        return if length($$in) < $pos + $size + 2;

        if ($size == 0) {
            $end = index($$in, "\r\n", $pos);
            return ($data, $end + 2) if $end == $pos;

            $end = index($$in, "\r\n\r\n", $pos);
            return if $end < 0;
            return ($data, $end + 4);
        }

        $data .= substr($$in, $pos, $size);
        $pos += $size + 2;
    }
}


sub broken {
    my ($in, $why) = @_;

    my $pos = index($$in, "\r\n\r\n");
    my $res = parse_head($pos < 0 ? '' : substr($$in, 0, $pos + 2));

    $res->{body} = $pos < 0 ? $$in : substr($$in, $pos + 4);
    $res->{error} = $why;
    $$in = '';

    return $res;
}


# sends a request on a connection of its own; returns the response

sub http_request {
    my ($where, $uri, %o) = @_;

    return finish(start_get($where, $uri, %o), $o{timeout});
}


sub http_get {
    return http_request(@_);
}


sub http_head {
    my ($where, $uri, %o) = @_;
    return http_request($where, $uri, %o, method => 'HEAD');
}


sub http_post {
    my ($where, $uri, $body, %o) = @_;
    return http_request($where, $uri, %o, method => 'POST', body => $body);
}


# sends the bytes and returns all bytes received up to the end of the connection

sub http_raw {
    my ($where, $bytes, %o) = @_;

    my $c = conn($where, %o);
    $c->send($bytes);

    return $c->slurp($o{timeout});
}


sub start_get {
    my ($where, $uri, %o) = @_;

    my $c = conn($where, %o);
    my ($method, $bytes) = format_request($uri, %o);

    push @{$c->{methods}}, $method;
    $c->begin();
    $c->send($bytes);

    return $c;
}


sub finish {
    my ($c, $timeout) = @_;

    my $res = $c->response($timeout);

    $c->close();

    return $res;
}


# sends concurrent requests: many($n, sub { [$where, $uri, %o] }, %opts)

sub many {
    my ($n, $what, %o) = @_;

    my $width = min($o{concurrency} // 200, $MOST);
    my $timeout = $o{timeout} // $TIMEOUT;
    my $end = time() + $timeout;
    my $select = IO::Select->new();
    my (@res, %active);
    my $next = 0;

    my $finish = sub {
        my ($i, $res) = @_;
        my $c = delete $active{$i};

        $c->note_times($res);
        $res[$i] = $res;
        $select->remove($c->{sock});
        $c->close();
    };

    while ($next < $n || %active) {

        while ($next < $n && keys %active < $width) {
            my $r = ref $what eq 'CODE' ? $what->($next) : $what->[$next];
            my ($where, $uri, %ro) = ref $r ? @$r : ($r);
            my $c = start_get($where, $uri, %ro);

            $c->{i} = $next;
            $active{$next++} = $c;
            $select->add([$c->{sock}, $c]);
        }

        my $left = $end - time();

        if ($left <= 0) {
            $finish->($_, broken(\$active{$_}{in}, 'timed out'))
                for keys %active;
            last;
        }

        for my $ready ($select->can_read($left)) {
            my $c = $ready->[1];

            $c->fill(0);

            my $res = parse(\$c->{in}, $c->{methods}[0], $c->{eof});

            if (!$res && $c->{eof}) {
                $res = broken(\$c->{in}, $c->{error} || 'closed');
            }

            $finish->($c->{i}, $res) if $res;
        }
    }

    return @res;
}


package Test::Mcds::Response;

use warnings;
use strict;

sub status { $_[0]{status} }
sub body { $_[0]{body} }
sub time { $_[0]{time} }
sub calm { $_[0]{calm} // die "this test has no calm => 1\n" }
sub head { $_[0]{head} }
sub error { $_[0]{error} }
sub complete { $_[0]{complete} }
sub header { $_[0]{headers}{lc $_[1]} }


# the values of the lines of a header, in their order

sub all {
    my ($r, $name) = @_;

    return map { /^\Q$name\E:[ \t]*(.*?)[ \t]*$/i ? $1 : () }
        split /\r\n/, $r->{head};
}


1;
