package Test::Mcds::Origin;

# Copyright (C) mcds authors

# An HTTP or FastCGI origin that numbers its answers and records each request
# with its start and end.

use warnings;
use strict;

use base qw/ Test::Mcds::Server /;

use Time::HiRes qw/ time sleep /;


# all requests that the origin got so far: { n, method, uri, path, headers,
# body, start, end, aborted, params }; end is undef while the request is being
# answered

sub requests {
    my ($self, $path) = @_;
    my (@all, %by);

    for my $r ($self->records()) {
        if ($r->{event} eq 'request') {
            $by{$r->{n}} = $r;
            $r->{start} = $r->{at};
            push @all, $r;

        } elsif ($r->{event} eq 'answered' && $by{$r->{n}}) {
            $by{$r->{n}}{end} = $r->{at};
            $by{$r->{n}}{aborted} = $r->{aborted};
        }
    }

    return grep {
        !defined $path
        || (ref $path ? $_->{uri} =~ $path
            : $path =~ /\?/ ? $_->{uri} eq $path : $_->{path} eq $path)
    } @all;
}


sub count {
    my ($self, $path) = @_;
    return scalar(() = $self->requests($path));
}


# the maximum number of requests that were at the origin at the same time

sub most {
    my ($self, $path) = @_;

    my @events = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
        map { ([$_->{start}, 1], [$_->{end} // 9e99, -1]) }
        $self->requests($path);

    my ($now, $most) = (0, 0);

    for (@events) {
        $now += $_->[1];
        $most = $now if $now > $most;
    }

    return $most;
}


# true once the origin has received n requests, false after the timeout

sub wait_requests {
    my ($self, $n, $path, $timeout) = @_;

    return Test::Mcds::wait_for(sub { $self->count($path) >= $n }, $timeout);
}


# holds the origin's answers to path ('*': all) from now on; release() sends the
# held ones and stops holding, let() sends some and continues to hold

sub hold_path {
    my ($self, $path) = @_;
    return $self->call('hold', $path // '*');
}


sub release {
    my ($self, $path) = @_;
    return $self->call('unhold', $path // '*');
}


sub let {
    my ($self, $path, $count) = @_;
    return $self->call('release', $path // '*', $count // 1);
}


sub set {
    my ($self, $path, $spec) = @_;
    return $self->call('set', $path, $spec);
}


# initializes the origin; called in the origin's process

sub init {
    my ($self) = @_;

    $self->{n} = $self->{first} // 0;
    $self->{by_path} = {};
    $self->{set} = {};
    $self->{holding} = {};
}


sub do_hold {
    my ($self, $path) = @_;

    $self->{holding}{$path} = 1;

    return 1;
}


sub do_unhold {
    my ($self, $path) = @_;

    if ($path eq '*') {
        $self->{holding} = {};
        return $self->do_release();
    }

    delete $self->{holding}{$path};

    return $self->do_release($path);
}


sub do_set {
    my ($self, $path, $spec) = @_;

    if ($spec) {
        $self->{set}{$path} = $spec;

    } else {
        delete $self->{set}{$path};
    }

    return 1;
}


sub do_release {
    my ($self, $name, $count) = @_;

    undef $name if defined $name && $name eq '*';

    return $self->SUPER::do_release($name, $count);
}


sub input {
    my ($self, $c) = @_;

    while ($c->{sock} && !$c->{active}) {
        my $req = $self->{fastcgi}
            ? $self->read_fastcgi($c) : $self->read_http($c);

        last if !$req;
        $self->answer($c, $req);
    }
}


sub read_http {
    my ($self, $c) = @_;

    my $end = index($c->{in}, "\r\n\r\n");
    return if $end < 0;

    my ($line, @lines) = split /\r\n/, substr($c->{in}, 0, $end);
    my %h;

    for (@lines) {
        my ($name, $value) = /^([^:]*): *(.*)$/ or next;
        $name = lc $name;
        $h{$name} = defined $h{$name} ? "$h{$name}, $value" : $value;
    }

    my $len = $h{'content-length'} // 0;
    return if length($c->{in}) < $end + 4 + $len;

    my ($method, $uri, $version) = split / /, $line;
    my $body = substr($c->{in}, $end + 4, $len);

    substr($c->{in}, 0, $end + 4 + $len, '');

    return {
        method => $method, uri => $uri, headers => \%h, body => $body,
        head => join('', map { "$_\r\n" } @lines), version => $version,
        keepalive => $version eq 'HTTP/1.1'
            ? scalar(($h{connection} // '') !~ /close/i)
            : scalar(($h{connection} // '') =~ /keep-alive/i),
    };
}


# reads a request of FastCGI 1.0: a begin record, parameters, standard input; an
# empty record ends each stream

sub read_fastcgi {
    my ($self, $c) = @_;

    while (length $c->{in} >= 8) {
        my ($version, $type, $id, $len, $pad) = unpack('CCnnC', $c->{in});

        last if length $c->{in} < 8 + $len + $pad;

        my $data = substr($c->{in}, 8, $len);
        substr($c->{in}, 0, 8 + $len + $pad, '');

        if ($type == 1) {
            my (undef, $flags) = unpack('nC', $data);
            $c->{fcgi} = { id => $id, keepalive => $flags & 1,
                           params => '', body => '' };

        } elsif ($type == 4) {
            $c->{fcgi}{params} .= $data;

        } elsif ($type == 5) {
            $c->{fcgi}{body} .= $data;

            if ($len == 0) {
                my $f = delete $c->{fcgi};
                my $p = fastcgi_params($f->{params});
                my %h = map { /^HTTP_(.*)/
                    ? (lc($1) =~ tr/_/-/r => $p->{$_}) : () } keys %$p;

                return {
                    %$f, params => $p, method => $p->{REQUEST_METHOD} // '',
                    uri => $p->{REQUEST_URI} // '', headers => \%h,
                };
            }
        }
    }

    return;
}


sub fastcgi_params {
    my ($data) = @_;

    my %p;
    my $pos = 0;
    my $size = sub {
        my $n = unpack('C', substr($data, $pos, 1));
        return $pos++ >= 0 ? $n : 0 if $n < 128;
        $n = unpack('N', substr($data, $pos, 4)) & 0x7fffffff;
        $pos += 4;
        return $n;
    };

    while ($pos < length $data) {
        my $name = $size->();
        my $value = $size->();

        $p{substr($data, $pos, $name)} = substr($data, $pos + $name, $value);
        $pos += $name + $value;
    }

    return \%p;
}


sub answer {
    my ($self, $c, $req) = @_;

    ($req->{path}, $req->{args}) = split /\?/, $req->{uri}, 2;
    $req->{n} = ++$self->{n};
    $req->{k} = ++$self->{by_path}{$req->{path}};
    $req->{conn} = $c->{id};

    $self->put(event => 'request', %$req);
    $c->{active} = $req;

    my $a = $self->{answer};
    my $computed = ref $a eq 'CODE';

    $a = $a->($self, $req) if $computed;
    $a = { body => $a } if defined $a && !ref $a;

    my %spec = (%{$a // {}}, %{$self->{paths}{$req->{path}} // {}},
        %{$self->{set}{'*'} // {}}, %{$self->{set}{$req->{path}} // {}});

    $self->queue($c, $self->steps($c, $req, \%spec, $computed));
    $self->run($c);
}


sub steps {
    my ($self, $c, $req, $spec, $computed) = @_;
    my @steps;

    my $holding = $self->{holding};

    push @steps, { delay => $spec->{delay} } if $spec->{delay};
    push @steps, { hold => $req->{path} }
        if $spec->{hold} || $holding->{'*'} || $holding->{$req->{path}};

    my ($head, @body) = $self->format_answer($c, $req, $spec, $computed);

    if (defined $spec->{abort}) {
        my $all = join '', $head, map { ref $_ ? $_->[0] : $_ } @body;
        push @steps, substr($all, 0, $spec->{abort}), { rst => 1 };

    } else {
        push @steps, $head;
        push @steps, { delay => $spec->{body_delay} } if $spec->{body_delay};
        push @steps, @body;
    }

    push @steps, { code => sub { $self->finished($c, 0) } };
    push @steps, { fin => 1 } if !$req->{keepalive} || $c->{last};

    # the next request may have been received while this one was answered

    push @steps, { code => sub { $self->input($c) } };

    return @steps;
}


sub format_answer {
    my ($self, $c, $req, $spec, $computed) = @_;

    return $spec->{raw} if defined $spec->{raw};

    my $status = $spec->{status} // 200;
    my $h = $spec->{headers} // [];
    my @h = ref $h eq 'HASH' ? map { ($_ => $h->{$_}) } sort keys %$h : @$h;
    my %seen;
    my $head = '';

    for (my $i = 0; $i < @h; $i += 2) {
        $seen{lc $h[$i]} = 1;
        $head .= "$h[$i]: $h[$i + 1]\r\n";
    }

    my $body = $spec->{body};

    $body //= "answer %n of %u\n" if !$computed || !defined $spec->{body};

    if (!$computed || !defined $spec->{body}) {
        $body =~ s/%([nku])/
            $1 eq 'n' ? $req->{n} : $1 eq 'k' ? $req->{k} : $req->{uri}/ge;
    }

    my @parts = $spec->{parts} ? @{$spec->{parts}} : ($body);
    my $len = 0;

    $len += length(ref $_ ? $_->[0] : $_) for @parts;

    my $first = $self->{fastcgi}
        ? "Status: $status\r\n"
        : "HTTP/1.1 $status " . reason($status) . "\r\n";

    $head = "Content-Type: text/plain\r\n$head" if !$seen{'content-type'};
    $head .= "X-Answer: $req->{n}\r\n";

    if ($spec->{chunked}) {
        $head .= "Transfer-Encoding: chunked\r\n";

    } elsif (!$seen{'content-length'} && !exists $spec->{length}
        && !$self->{fastcgi} && $status != 204 && $status != 304)
    {
        $head .= "Content-Length: $len\r\n";

    } elsif (defined $spec->{length}) {
        $head .= "Content-Length: $spec->{length}\r\n";

    } elsif (exists $spec->{length}) {
        $c->{last} = 1;
    }

    if (!$self->{fastcgi} && (!$req->{keepalive} || $c->{last})) {
        $head .= "Connection: close\r\n";
    }

    if ($req->{method} eq 'HEAD' || $status == 304 || $status == 204) {
        @parts = ();
    }

    if (defined $spec->{truncate}) {
        @parts = (substr(join('', map { ref $_ ? $_->[0] : $_ } @parts), 0,
            $spec->{truncate}));
        $c->{last} = 1;
    }

    if ($spec->{chunked}) {
        @parts = map {
            my ($bytes, $delay) = ref $_ ? @$_ : ($_);
            [sprintf("%x\r\n", length $bytes) . "$bytes\r\n", $delay]
        } grep { length(ref $_ ? $_->[0] : $_) } @parts;

        push @parts, "0\r\n\r\n" if !defined $spec->{truncate};
    }

    return ("$first$head\r\n", @parts) if !$self->{fastcgi};

    my @out = map {
        my ($bytes, $delay) = ref $_ ? @$_ : ($_);
        [fastcgi_record(6, $req->{id}, $bytes), $delay]
    } @parts;

    push @out, fastcgi_record(6, $req->{id}, '')
        . fastcgi_record(3, $req->{id}, pack('NCx3', 0, 0))
        if !defined $spec->{truncate};

    return (fastcgi_record(6, $req->{id}, "$first$head\r\n"), @out);
}


sub fastcgi_record {
    my ($type, $id, $data) = @_;

    my $out = '';

    do {
        my $piece = substr($data, 0, 65528, '');
        $out .= pack('CCnnCx', 1, $type, $id, length $piece, 0) . $piece;
    } while (length $data);

    return $out;
}


sub reason {
    my ($status) = @_;

    return {
        200 => 'OK', 204 => 'No Content', 206 => 'Partial Content',
        301 => 'Moved Permanently', 302 => 'Found', 304 => 'Not Modified',
        403 => 'Forbidden', 404 => 'Not Found', 410 => 'Gone',
        500 => 'Internal Server Error', 502 => 'Bad Gateway',
        503 => 'Service Unavailable', 504 => 'Gateway Timeout',
    }->{$status} // 'Status';
}


sub finished {
    my ($self, $c, $aborted) = @_;

    my $req = delete $c->{active} or return;

    $self->put(event => 'answered', n => $req->{n}, aborted => $aborted);
}


sub dropped {
    my ($self, $c, $why) = @_;

    $self->finished($c, $why) if $c->{active};
}


1;
