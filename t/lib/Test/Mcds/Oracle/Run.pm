package Test::Mcds::Oracle::Run;

# Copyright (C) mcds authors

# Runs an nginx, with mcds or without it ("plain"), for t/oracle.t, which
# compares the answers of both.  The test's process plays the clients of nginx
# and the application behind it, in one event loop.
#
#     $run = Test::Mcds::Oracle::Run->new($t, $memcached)
#     $run->play($case, \@requests, plain => 1, exposed => {})
#
# play() starts an nginx for the case, sends the requests and stops nginx.  The
# result is { answers => [..], asked => n, died => why }: the answers to all
# requests but purges; the number of requests to the application; the reason why
# nginx ended abnormally, only if it did.  If nginx did not start, the result is
# { refused => text } with the output of nginx.  An answer is { status, head,
# body }, with status 0 if nginx sent none.
# A request with "with" is sent together with the previous one.

use warnings;
use strict;

use Errno qw/ EAGAIN EINTR EWOULDBLOCK /;
use IO::Socket::INET;
use MIME::Base64 qw/ encode_base64 /;
use POSIX ();
use Socket qw/ IPPROTO_TCP SO_LINGER SOL_SOCKET TCP_NODELAY /;
use Time::HiRes qw/ sleep time /;

use Test::Mcds::Oracle::App;
use Test::Mcds::Oracle::Conf;

my $runs = 0;


sub new {
    my ($class, $t, $memcached) = @_;

    my $self = bless { t => $t, dir => $t->dir() . '/oracle',
        conns => {}, idle => {}, origin => {} }, $class;

    mkdir "$self->{dir}$_" or die "mkdir $self->{dir}$_: $!\n"
        for '', '/root', '/root/d', '/root/e', '/root/a';

    my $page = '<!--# include virtual="/frag/1" -->';

    $t->write_file("oracle/root/$_", "LABEL file $_\n$page\n")
        for 'f.html', 'd/index.html', 'e/index.php', 'index.php', 'a/f.html';
    $t->write_file('oracle/users', "alice:{PLAIN}pw\nbob:{PLAIN}pw\n");

    my ($crt, $key) = $t->cert('a.test', 'b.test', 'x1.test', 'w.b.test');

    $self->{vars} = {
        load => "load_module $t->{so};",
        user => $> == 0 ? 'user root root;' : '',
        dir => $self->{dir}, crt => $crt, key => $key,
        memcached => $memcached->port(),
        map { $_ => $t->port($_) } qw/ P1 P2 P3 O1 O2 /,
    };

    for my $name (qw/ O1 O2 /) {
        my $s = IO::Socket::INET->new(Listen => 128, ReuseAddr => 1,
            LocalAddr => '127.0.0.1', LocalPort => $self->{vars}{$name})
            or die "listen: $!\n";
        $s->blocking(0);
        $self->{origin}{fileno $s} = [$s, $name];
    }

    return $self;
}


sub DESTROY {
    my ($self) = @_;
    close $_->[0] for values %{$self->{origin}};
}


sub play {
    my ($self, $case, $requests, %o) = @_;

    $self->{case} = $case;
    $self->{app} = { exposed => $o{exposed} // {},
        subrequests => subrequests($case) };
    $self->{places} = places($case);
    $self->{asked} = 0;

    my $refused = $self->up($case, $o{plain});
    my @answers;

    return { refused => $refused } if $refused;

    my @rest = grep { !$o{plain} || !$_->{purge} } @$requests;

    while (@rest) {
        my @these = shift @rest;

        push @these, shift @rest
            while !$o{plain} && @rest && $rest[0]{with};
        push @answers, $self->ask(@these);
    }

    my $died = $self->down();

    return { answers => \@answers, asked => $self->{asked},
        $died ? (died => $died) : () };
}


# starts nginx for a case; returns nginx's output if it did not start

sub up {
    my ($self, $case, $plain) = @_;

    my $t = $self->{t};
    my $dir = $self->{dir};
    my %vars = (%{$self->{vars}}, prefix => "o$$." . ++$runs . ':');

    $vars{load} = '' if $plain || $t->{static};
    $t->write_file('oracle/nginx.conf', text($case, %vars, plain => $plain));
    unlink "$dir/error.log", glob "$dir/sanitizer.*";

    local %ENV = (%ENV, $t->sanitizer_env("$dir/sanitizer"));

    $self->{pid} = $t->spawn('oracle/stderr',
        $t->valgrind("$dir/sanitizer"), $t->binary(), '-p', "$dir/",
        '-c', 'nginx.conf', '-e', "$dir/error.log");

    my $end = time() + 60 * $t->slow();
    my @where = map { listens($_) } @{$case->{servers}};

    while (@where && time() < $end) {
        my $s = IO::Socket::INET->new(PeerPort => $self->{vars}{$where[0][1]},
            PeerAddr => $where[0][0] // '127.0.0.1');

        if ($s) {
            reset_now($s);
            shift @where;
            next;
        }

        last if $self->ended();
        sleep 0.001;
    }

    return if !@where;

    $self->down();

    return $t->read_file('oracle/error.log') || 'did not start';
}


sub ended {
    my ($self) = @_;

    return 1 if !$self->{pid};

    if (waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid}) {
        $self->{code} = $?;
        $self->{t}->gone($self->{pid});
        $self->{pid} = 0;
    }

    return !$self->{pid};
}


# closes a connection with RST, so that its port is free at once, as there are
# many connections

sub reset_now {
    my ($s) = @_;

    setsockopt $s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
    $s->can('stop_SSL') ? $s->close(SSL_fast_shutdown => 1) : CORE::close($s);
}


# stops nginx; returns why nginx did not run normally, or false if it did

sub down {
    my ($self) = @_;

    my $early = $self->ended();

    reset_now($_->{sock}) for values %{$self->{conns}};
    $self->{conns} = {};
    $self->{idle} = {};

    if (!$early) {
        kill 'TERM', $self->{pid};
        waitpid $self->{pid}, 0;
        $self->{code} = $?;
        $self->{t}->gone($self->{pid});
        $self->{pid} = 0;
    }

    # "URI was rewritten" is an alert that a random configuration may cause

    my @bad = grep { /\[(?:alert|crit)\]/ && !/where URI was rewritten/ }
        split /\n/, $self->{t}->read_file('oracle/error.log');

    push @bad, grep { -s } glob "$self->{dir}/sanitizer.*";

    return $early ? "nginx has ended, code $self->{code}"
        : $self->{code} ? "nginx ended with $self->{code}" : $bad[0];
}


# sends concurrent requests to nginx; returns the answers

sub ask {
    my ($self, @requests) = @_;

    my @waits;
    my $end = time() + 30 * $self->{t}->slow();

    push @waits, $self->begin($_) for @requests;

    while (grep { !$_->{answer} } @waits) {
        last if time() > $end;
        $self->turn(0.5);
        last if $self->ended();
    }

    $self->turn(0) if $self->{pid};

    return map { $_->{answer} // { status => 0, head => 'late', body => '' } }
        grep { !$_->{purge} } @waits;
}


# the bytes of a request in HTTP/1.1

sub bytes {
    my ($self, $r) = @_;

    my $client = $self->{case}{clients}[$r->{client}];
    my $method = $r->{method} // 'GET';
    my @h = "Host: $r->{host}";

    push @h, "Cookie: $client->{cookie}" if $client->{cookie};
    push @h, "X-Lang: $client->{lang}" if $client->{lang};
    push @h, "X-Flag: $client->{flag}" if $client->{flag};
    push @h, 'Authorization: Basic ' . encode_base64("$client->{auth}:pw", '')
        if $client->{auth};
    push @h, $r->{header} if $r->{header};
    push @h, 'Content-Length: 0' if $method eq 'POST';

    my $text = join "\r\n", "$method $r->{uri} HTTP/1.1", @h, '', '';

    $text =~ s/%%(\w+)%%/$self->{vars}{$1}/g;

    return $text;
}


sub begin {
    my ($self, $r, $wait) = @_;

    my $client = $self->{case}{clients}[$r->{client}];
    my $name = join ' ', $client->{ip}, $r->{addr}, $r->{port},
        $r->{port} eq 'P3' ? ($r->{sni} // '', $client->{cert} // 0) : ();
    my $idle = $self->{idle}{$name} //= [];

    shift @$idle while @$idle && $idle->[0]{eof};

    my $c = shift @$idle // $self->connect($name, $r, $client);

    $wait //= { request => $r, purge => $r->{purge},
        method => $r->{method} // 'GET' };

    if (!$c) {
        $wait->{answer} = { status => 0, head => "no connection: $!",
            body => '' };
        return $wait;
    }

    return $self->put($c, $r, $wait);
}


# sends the request $r on the connection $c

sub put {
    my ($self, $c, $r, $wait) = @_;

    $c->{wait} = $wait;
    $c->{in} = '';
    $c->{used}++;
    syswrite $c->{sock}, $self->bytes($r);

    return $wait;
}


sub connect {
    my ($self, $name, $r, $client) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => $r->{addr},
        PeerPort => $self->{vars}{$r->{port}}, LocalAddr => $client->{ip})
        or return;

    setsockopt $s, IPPROTO_TCP, TCP_NODELAY, 1;

    if ($r->{port} eq 'P3') {
        IO::Socket::SSL->start_SSL($s,
            SSL_reuse_ctx => $self->tls($client->{cert}),
            $r->{sni} ? (SSL_hostname => $r->{sni}) : ()) or return;
    }

    $s->blocking(0);

    return $self->{conns}{fileno $s} = { sock => $s, in => '',
        name => $name, tls => $r->{port} eq 'P3' };
}


# the TLS context that connections share, since it takes long to create

sub tls {
    my ($self, $cert) = @_;

    require IO::Socket::SSL;

    return $self->{tls}[!!$cert] //= IO::Socket::SSL::SSL_Context->new(
        SSL_verify_mode => 0, SSL_ca => [], SSL_ca_file => undef,
        $cert ? (SSL_cert_file => $self->{vars}{crt},
            SSL_key_file => $self->{vars}{key}) : ());
}


# a turn of the event loop: handles all connections that are readable

sub turn {
    my ($self, $timeout) = @_;

    my $read = '';

    vec($read, $_, 1) = 1 for keys %{$self->{conns}}, keys %{$self->{origin}};
    $timeout = 0 if grep { $_->{tls} && $_->{wait} && $_->{sock}->pending() }
        values %{$self->{conns}};

    my $n = select my $ready = $read, undef, undef, $timeout;

    for my $fd (keys %{$self->{origin}}) {
        next if $n < 1 || !vec($ready, $fd, 1);

        my ($listen, $name) = @{$self->{origin}{$fd}};

        while (my $s = $listen->accept()) {
            $s->blocking(0);
            $self->{conns}{fileno $s} = { sock => $s, in => '',
                origin => $name };
        }
    }

    for my $fd (keys %{$self->{conns}}) {
        my $c = $self->{conns}{$fd} // next;

        $self->heard($fd, $c) if $n > 0 && vec($ready, $fd, 1)
            || $c->{tls} && $c->{sock}->pending();
    }
}


sub heard {
    my ($self, $fd, $c) = @_;

    my $n = sysread $c->{sock}, $c->{in}, 65536, length $c->{in};

    return if !defined $n && ($! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR);

    if (!$n) {
        $c->{eof} = 1;
        delete $self->{conns}{$fd};
    }

    if ($c->{origin}) {
        $self->serve($c);

    } elsif ($c->{wait}) {
        $self->answered($c);

    } elsif ($n) {
        # nginx has sent a response without a request

        delete $self->{conns}{$fd};
    }

    close $c->{sock} if $c->{eof};
}


# called for the application's end of a connection: answers requests from nginx

sub serve {
    my ($self, $c) = @_;

    while ($c->{in} =~ s/\A(([A-Z]+) (\S+) HTTP.*?\r\n\r\n)//s) {
        my ($head, $method, $uri) = ($1, $2, $3);

        if ($head =~ /^Content-Length: (\d+)/mi) {
            substr $c->{in}, 0, $1, '';
        }

        $self->{asked}++;
        syswrite $c->{sock}, answer({ head => $head, method => $method,
            uri => $uri, port => $c->{origin} }, $self->{places},
            $self->{app});
    }
}


# called for the client's end of a connection: takes the answer from nginx

sub answered {
    my ($self, $c) = @_;

    my $wait = $c->{wait};
    my $end = index $c->{in}, "\r\n\r\n";

    if ($end < 0) {
        return if !$c->{eof};

        # nginx may close an idle connection just when a request is sent on it

        return $self->begin($wait->{request}, $wait)
            if $c->{in} eq '' && $c->{used} > 1;

        $wait->{answer} = { status => 0, head => 'closed', body => '' };
        return;
    }

    my $head = substr $c->{in}, 0, $end + 2;
    my $body = substr $c->{in}, $end + 4;
    my ($status) = $head =~ /^HTTP\S+ (\d+)/;

    if ($wait->{method} eq 'HEAD' || $status =~ /^(?:204|304)$/) {
        $body = '';

    } elsif ($head =~ /^Content-Length: (\d+)/mi) {
        return if length $body < $1 && !$c->{eof};

    } elsif ($head =~ /^Transfer-Encoding: chunked/mi) {
        return if $body !~ /^0\r\n\r\n\z/m && !$c->{eof};
        $body = dechunk($body);

    } elsif (!$c->{eof}) {
        return;
    }

    $wait->{answer} = { status => $status, head => $head, body => $body };
    delete $c->{wait};

    if ($c->{eof} || $head =~ /^Connection: close/mi) {
        delete $self->{conns}{fileno $c->{sock}};
        $c->{eof} = 1;

    } else {
        push @{$self->{idle}{$c->{name}}}, $c;
    }
}


sub dechunk {
    my ($body) = @_;

    my $out = '';

    while ($body =~ s/\A([0-9a-f]+)\r\n//i) {
        $out .= substr $body, 0, hex $1, '';
        $body =~ s/\A\r\n//;
    }

    return $out;
}


1;
