package Test::Mcds::Http3;

# Copyright (C) mcds authors

# An HTTP/3 client, t/lib/http3.c: one connection, whose streams the test
# controls.
#
#     Test::Mcds::Http3::needed($t)   skips the file if the client cannot be
#                                     built or nginx has no HTTP/3
#     $h = Test::Mcds::Http3->new($t, port, name => server name, window => bytes
#         of a stream's window, session => file)  with the session of a previous
#                                     client the requests before the first wait
#                                     are sent as early data
#     $id = $h->request(uri, method, host (undef: not sent), body, headers =>
#         [name => value, ..], paused => 1: the window of the stream does not
#         grow)
#     $r = $h->response(id, timeout)  waits for its end: a response as in
#                                     Test::Mcds::Http
#     $r = $h->get(uri, %o)           request() and response()
#     $h->begun(id, timeout)          true once the header was received
#     $h->rst(id)                     RESET_STREAM and STOP_SENDING
#     $h->stop(id)                    only STOP_SENDING, as browsers do
#     $h->resume(id)                  continues a paused stream
#     $h->early()                     true if requests were sent as early data
#     $h->close, $h->abandon          CONNECTION_CLOSE; kills the client

use warnings;
use strict;

use IO::Select;
use POSIX ();
use Time::HiRes qw/ time /;

use Test::Mcds::Http ();


sub needed {
    my ($t) = @_;

    $t->needs('http_v3');
    $t->leave('no ngtcp2 and nghttp3 to build the HTTP/3 client with')
        if !program($t);
}


sub program {
    my ($t) = @_;

    return $t->program('http3', qw/ -lngtcp2_crypto_gnutls -lngtcp2 -lnghttp3
        -lgnutls /);
}


sub new {
    my ($class, $t, $port, %o) = @_;

    my $program = program($t);

    pipe(my $in, my $to) or die "pipe: $!\n";
    pipe(my $from, my $out) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        CORE::close($_) for $in, $to, $from, $out;
        { no warnings; exec { $program } $program,
            (map { defined $o{$_} ? ('-' . substr($_, 0, 1), $o{$_}) : () }
                qw/ name window session /),
            '127.0.0.1', $port }
        POSIX::_exit(127);
    }

    $t->spawned($pid);
    $to->autoflush(1);

    return bless {
        test => $t, pid => $pid, to => $to, from => $from, in => '', next => 1,
        streams => {}, owner => $$,
    }, $class;
}


sub say {
    my ($h, @words) = @_;
    print {$h->{to}} join("\t", @words), "\n" if $h->{to};
}


sub request {
    my ($h, $uri, %o) = @_;

    my $id = $h->{next}++;
    my $host = exists $o{host} ? $o{host} : 'localhost';

    $h->{streams}{$id} = { body => '', head => '', headers => {},
        start => time() };

    my @headers = map { ref $_ ? @$_ : $_ } @{$o{headers} // []};
    my @lower = map { $_ % 2 ? $headers[$_] : lc $headers[$_] } 0 .. $#headers;

    $h->say('request', $id, ':method', $o{method} // 'GET', ':scheme', 'https',
        (defined $host ? (':authority', $host) : ()), ':path', $uri, @lower,
        (defined $o{body} ? (body => $o{body}) : ()),
        ($o{paused} ? (paused => 1) : ()));

    return $id;
}


# handles output of the HTTP/3 client; false at the end of the connection

sub take {
    my ($h, $left) = @_;

    IO::Select->new($h->{from})->can_read($left) or return 1;

    if (!sysread($h->{from}, $h->{in}, 65536, length $h->{in})) {
        $h->{closed} //= 'closed';
    }

    while ($h->{in} =~ /\A([^\n]*)\n/) {
        my ($word, $id, $rest) = split ' ', $1, 3;
        my $n = $word eq 'data' ? $rest : 0;
        my $taken = length($1) + 1;

        last if length $h->{in} < $taken + $n;

        my $bytes = substr($h->{in}, $taken, $n);

        substr($h->{in}, 0, $taken + $n, '');
        $h->handle($word, $id, $rest, $bytes);
    }

    return !$h->{closed};
}


sub handle {
    my ($h, $word, $id, $rest, $bytes) = @_;

    if ($word eq 'connected') {
        $h->{connected} = $id;
        return;
    }

    if ($word eq 'closed') {
        $h->{closed} = join ' ', $id, $rest // ();
        return;
    }

    my $s = $h->{streams}{$id} or return;

    if ($word eq 'status') {
        $s->{status} = $rest;

    } elsif ($word eq 'header') {
        my ($name, $value) = split /: /, $rest, 2;
        $s->{headers}{$name} = $value // '';
        $s->{head} .= "$rest\r\n";

    } elsif ($word eq 'data') {
        $s->{body} .= $bytes;

    } elsif ($word eq 'end') {
        $s->{complete} = 1;

    } elsif ($word eq 'reset') {
        $s->{error} //= "reset $rest";
    }
}


sub until_true {
    my ($h, $code, $timeout) = @_;

    $h->say('go') if !$h->{gone}++;

    my $end = time() + ($timeout // $Test::Mcds::Http::TIMEOUT);

    while (!$code->()) {
        my $left = $end - time();
        return 0 if $left <= 0 || $h->{closed};
        $h->take($left);
    }

    return 1;
}


sub response {
    my ($h, $id, $timeout) = @_;

    my $s = $h->{streams}{$id};

    if (!$h->until_true(sub { $s->{complete} || $s->{error} }, $timeout)) {
        $s->{error} = $h->{closed} // 'timed out';
    }

    return bless {
        %$s, status => $s->{status} // 0, time => time() - $s->{start},
        complete => $s->{complete} // 0,
    }, 'Test::Mcds::Response';
}


sub get {
    my ($h, $uri, %o) = @_;
    return $h->response($h->request($uri, %o), $o{timeout});
}


sub begun {
    my ($h, $id, $timeout) = @_;

    my $s = $h->{streams}{$id};

    return $h->until_true(sub { $s->{status} || $s->{error} }, $timeout);
}


sub early {
    my ($h) = @_;

    $h->until_true(sub { $h->{connected} });

    return ($h->{connected} // '') eq 'early';
}


sub rst { $_[0]->say('reset', $_[1]) }
sub stop { $_[0]->say('stop', $_[1]) }
sub resume { $_[0]->say('resume', $_[1]) }


sub close {
    my ($h) = @_;

    return if !$h->{pid};

    $h->say('close');
    $h->until_true(sub { $h->{closed} }, 5);
    $h->abandon();
}


sub abandon {
    my ($h) = @_;

    my $pid = delete $h->{pid} or return;

    kill 'KILL', $pid;
    waitpid $pid, 0;
    $h->{test}->gone($pid);
    CORE::close(delete $h->{to});
    $h->{closed} //= 'abandoned';
}


# kills the HTTP/3 client, unless the test has ended and killed its programs

sub DESTROY {
    my ($h) = @_;
    $h->abandon() if $h->{owner} == $$ && $h->{test}{reaper};
}


1;
