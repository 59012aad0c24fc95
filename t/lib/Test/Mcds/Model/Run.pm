package Test::Mcds::Model::Run;

# Copyright (C) mcds authors

# Two hosts with one memcached, their clients and the origin behind them, in one
# process and one loop.  The clock of the hosts advances only in the steps of a
# case.
#
#     $run = Test::Mcds::Model::Run->new($t)
#     $history = $run->play($case)
#
# The history is a list of events in the order of their starts, each with its
# sequence numbers "at" and "end", the times "time" and "until" of the clock,
# and the real seconds "took", which timers have measured:
#
#     { what => 'answer', .. }    of the origin: for (the number of the client's
#                                 request), uri, method, asked (headers), state
#                                 (the step "set" in effect), status, whole
#                                 (the status without conditions), etag, lm,
#                                 date, body, settled
#     { what => 'ask', .. }       of a client: request, host, uri, method,
#                                 header, answer { status, head, body, cut }
#     { what => 'purge', .. }     uri, mode, host, status
#
# "settled" is the moment when the event has reached each host and memcached.
# The body of an answer is that of the whole page, even if the origin sent a
# 304.

use warnings;
use strict;

use parent 'Test::Mcds::Oracle::Run';

use IO::Socket::INET;
use Socket qw/ IPPROTO_TCP TCP_NODELAY /;
use Time::HiRes qw/ time /;

use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Model::Grammar;

my $runs = 0;


sub new {
    my ($class, $t) = @_;

    my $self = bless { t => $t, conns => {}, idle => {}, origin => {},
        clock => Test::Mcds::Clock->new($t, 1_700_000_000.25) }, $class;

    $t->memcached('m');

    my $s = IO::Socket::INET->new(Listen => 128, ReuseAddr => 1,
        LocalAddr => '127.0.0.1', LocalPort => $t->port('origin'))
        or die "listen: $!\n";

    $s->blocking(0);
    $self->{origin}{fileno $s} = [$s, 'origin'];

    my $places = places();
    my $locations = join '', map { <<EOL } sort keys %$places;
        location /$_/ {
            $places->{$_}{conf}
            proxy_pass http://origin;
        }
EOL

    $self->{hosts} = [map { $self->{clock}->nginx($_, <<EOC) } 'one', 'two'];
%%GLOBALS%%
worker_processes 1;
events { worker_connections 1024; }
http {
    %%HTTP%%
    keepalive_requests 1000000;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    upstream origin { server 127.0.0.1:%%PORT_origin%% max_fails=0;
        keepalive 32; keepalive_requests 1000000; }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host \$host;
    add_header X-Cache \$mcds_cache_status always;
    add_header X-Reason \$mcds_cache_reason always;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
$locations
        location = /purge { mcds_cache off; mcds_purge_api on; }
        location = /rest {
            mcds_cache off;
            mcds_counter \$rest key=rest;
            mcds_return "\$rest";
        }
    }
}
EOC

    return $self;
}


sub play {
    my ($self, $case) = @_;

    $self->{case} = $case;
    $self->{prefix} = "/$case->{place}/" . ++$runs . '.';
    $self->{history} = [];
    $self->{states} = [];
    $self->{versions} = 0;
    $self->{seq} = 0;
    $self->{start} = int $self->{clock}->time_now();
    $self->{held} = undef;

    $self->step($_) for @{$case->{steps}};

    return $self->{history};
}


sub step {
    my ($self, $step) = @_;

    return $self->state($step) if defined $step->{set};

    # while the origin delays its answers (a step with "hold"), the seconds of
    # "clock" pass for nginx's timers, too, not only for its time of day

    return $self->{held} ? $self->{clock}->pass($step->{clock})
        : $self->{clock}->add($step->{clock}) if $step->{clock};

    if (defined $step->{purge}) {
        my $uri = "$self->{prefix}$step->{purge}";
        my $what = $step->{tag} ? 'tag=' . $uri =~ tr{/}{-}r
            : "key=http://m.test$uri";
        my $wait = $self->begin({ host => $step->{host},
            path => "/purge?$what&mode=$step->{mode}" });
        my $e = $self->event('purge', uri => $uri, %$step);

        $self->await($wait);
        $self->over($e);
        $e->{status} = $wait->{answer}{status};
        $self->settle() if !$self->{held};
        return;
    }

    $self->{held} = [] if $step->{hold};

    my @waits = map { $self->send_request($_) } @{$step->{ask}};

    if ($step->{hold}) {
        $self->rest();
        $self->leave($_) for grep { $_->{request}{leave} && !$_->{answer} }
            @waits;

        for (@{$step->{within} // []}) {
            $self->rest();
            $self->step($_);
        }

        $self->rest();

        my $held = delete $self->{held};
        $self->reply($_) for @$held;
    }

    $self->await(@waits);
    $self->settle();
}


sub state {
    my ($self, $step) = @_;

    my $before = $self->{states}[$step->{set}];
    my %state = %$step;

    $state{version} = $state{same} && $before ? $before->{version}
        : ++$self->{versions};
    @state{qw/ size vary /} = @$before{qw/ size vary /}
        if $state{same} && $before;

    # each version of a page has its own Last-Modified

    $state{modified} = $self->{start} - 200 - $state{lm} + $state{version}
        if $state{lm};
    $state{modified} = $before->{modified}
        if $state{same} && $before && $before->{modified} && $state{lm};
    $state{before} = $before->{version} if $before;

    $self->{states}[$step->{set}] = \%state;
}


# closes the connection of a client that does not wait for its answer

sub leave {
    my ($self, $wait) = @_;

    my $c = $wait->{conn};

    delete $self->{conns}{fileno $c->{sock}};
    close $c->{sock};
    $wait->{answer} = { left => 1 };
    $wait->{request}{event}{answer} = $wait->{answer};
    $self->over($wait->{request}{event});
}


sub event {
    my ($self, $what, %e) = @_;

    my $e = { what => $what, at => $self->{seq}++, began => time(),
        time => $self->{clock}->time_now(), %e };

    push @{$self->{history}}, $e;

    return $e;
}


sub over {
    my ($self, $e) = @_;

    $e->{end} = $self->{seq}++;
    $e->{until} = $self->{clock}->time_now();
    $e->{took} = time() - $e->{began};
}


# waits until the hosts and memcached have handled all events: a request for
# /rest, which uses a counter in memcached, is answered after earlier requests
# to the worker and earlier commands to memcached

sub rest {
    my ($self) = @_;

    my $last = -1;
    my $same = 0;

    while ($same < 3) {
        $self->await(map { $self->begin({ host => $_, path => '/rest' }) }
            0, 1);
        $same = $last == $self->{seq} ? $same + 1 : 0;
        $last = $self->{seq};
    }
}


sub settle {
    my ($self) = @_;

    $self->rest();

    my $now = $self->{seq}++;

    # advances the clock: later events are not in the same millisecond

    $self->{clock}->add(0.001);

    $_->{settled} //= $now
        for grep { $_->{what} ne 'ask' && defined $_->{end} }
            @{$self->{history}};
}


sub await {
    my ($self, @waits) = @_;

    my $end = time() + 30 * $self->{t}->slow();

    while (grep { !$_->{answer} } @waits) {
        $self->turn(0.5);
        last if time() > $end;
    }

    $_->{answer} //= { status => 0, head => 'late', body => '' } for @waits;
}


sub tag { return "\"$_[0]-$_[1]\"" }

sub date {
    my ($at) = @_;

    my @d = gmtime $at;

    return sprintf '%s, %02d %s %04d %02d:%02d:%02d GMT',
        (qw/ Sun Mon Tue Wed Thu Fri Sat /)[$d[6]], $d[3],
        (qw/ Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec /)[$d[4]],
        $d[5] + 1900, @d[2, 1, 0];
}


# the variant of a page that the headers of a request select, as a text

sub variant {
    my ($state, $header) = @_;

    my $vary = $state->{vary} // '';

    return join '-', map { $header->{$_} // '' }
        grep { $vary eq '*' || $vary =~ /\b$_\b/i } 'x-lang', 'x-kind';
}


sub send_request {
    my ($self, $r) = @_;

    my $state = $self->{states}[$r->{uri}] // {};
    my $e = $self->event('ask', request => $r, host => $r->{host},
        uri => "$self->{prefix}$r->{uri}", method => $r->{method} // 'GET');
    my %h = ('x-req' => $e->{at});

    $h{lc $_} = $r->{$_} for grep { $r->{$_} } 'X-Lang', 'X-Kind';

    my $variant = variant($state, \%h);
    my $now = tag($state->{version} // 0, $variant);
    my $before = tag($state->{before} // 0, $variant);
    my $lm = $state->{modified} // int($self->{clock}->time_now()) - 50;
    my %inm = (now => $now, before => $before, weak => "W/$now",
        other => '"x"', '*' => '*', list => "$before, $now");
    my %ims = (now => date($lm), older => date($lm - 10),
        newer => date($lm + 10), odd => 'yesterday');
    my %ir = (now => $now, before => $before, date => date($lm),
        olddate => date($lm - 10), weak => "W/$now");

    $h{'if-none-match'} = $inm{$r->{inm}} if $r->{inm};
    $h{'if-modified-since'} = $ims{$r->{ims}} if $r->{ims};
    $h{range} = "bytes=$r->{range}" if $r->{range};
    $h{'if-range'} = $ir{$r->{if_range}} if $r->{if_range};
    $h{cookie} = $r->{cookie} if $r->{cookie};
    $h{authorization} = "Basic $r->{auth}" if $r->{auth};
    $h{'cache-control'} = $r->{control} if $r->{control};
    $h{'x-bypass'} = 1 if $r->{bypass};
    $h{'x-no'} = 1 if $r->{no};
    $h{'content-length'} = 0 if $e->{method} eq 'POST';

    $e->{header} = \%h;

    return $self->begin({ host => $r->{host}, path => $e->{uri},
        method => $e->{method}, header => \%h, event => $e,
        leave => $r->{leave} });
}


sub bytes {
    my ($self, $r) = @_;

    my $h = $r->{header} // {};

    return join "\r\n", ($r->{method} // 'GET') . " $r->{path} HTTP/1.1",
        'Host: m.test', map({ "$_: $h->{$_}" } sort keys %$h), '', '';
}


sub begin {
    my ($self, $r, $wait) = @_;

    my $idle = $self->{idle}{$r->{host}} //= [];

    shift @$idle while @$idle && $idle->[0]{eof};

    my $c = shift @$idle // $self->connect($r->{host});

    $wait //= { request => $r, method => $r->{method} // 'GET' };

    $wait->{conn} = $c;

    return $self->put($c, $r, $wait);
}


sub connect {
    my ($self, $host) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{hosts}[$host]->port()) or die "connect: $!\n";

    setsockopt $s, IPPROTO_TCP, TCP_NODELAY, 1;
    $s->blocking(0);

    return $self->{conns}{fileno $s} = { sock => $s, in => '', name => $host };
}


# called by heard() after it has read from a client's connection to nginx: takes
# nginx's answer

sub answered {
    my ($self, $c) = @_;

    my $wait = $c->{wait};

    $self->SUPER::answered($c);

    my $answer = $wait->{answer} or return;
    my $e = $wait->{request}{event} or return;

    $answer->{cut} = 1 if $wait->{method} ne 'HEAD'
        && $answer->{status} !~ /^(?:204|304)$/
        && $answer->{head} =~ /^Content-Length: (\d+)/mi
        && $1 != length $answer->{body};
    $e->{answer} = $answer;
    $c->{last} = $e;
    $self->over($e);
}


sub heard {
    my ($self, $fd, $c) = @_;

    my $idle = !$c->{origin} && !$c->{wait};

    $self->SUPER::heard($fd, $c);

    $c->{last}{answer}{closed} = 1 if $idle && $c->{eof} && $c->{last};
}


# called by heard() after it has read from nginx's connection to the origin:
# takes nginx's requests

sub serve {
    my ($self, $c) = @_;

    while ($c->{in} =~ s/\A(([A-Z]+) (\S+) HTTP.*?\r\n\r\n)//s) {
        my ($head, $method, $uri) = ($1, $2, $3);
        my %h = map { /^([^:]+):\s*(.*?)\r?$/ ? (lc $1 => $2) : () }
            split /\n/, $head;

        substr $c->{in}, 0, $h{'content-length'} // 0, '';

        my $e = $self->event('answer', uri => $uri, asked => \%h,
            method => $method, for => $h{'x-req'}, conn => $c);

        $self->decide($e);

        if ($self->{held}) {
            push @{$self->{held}}, $e;
            next;
        }

        $self->reply($e);
    }
}


# Sets the fields of $e, the answer that the origin will send to a request.  It
# is called when the request arrives; a step of the case may delay the sending.

sub decide {
    my ($self, $e) = @_;

    my ($n) = $e->{uri} =~ /\.(\d+)$/;
    my $s = $self->{states}[$n // 0] // { status => 404, version => 0 };
    my $h = $e->{asked};
    my $variant = variant($s, $h);

    $e->{state} = $s;
    $e->{fail} = $s->{fail};
    $e->{status} = $s->{fail} && $s->{fail} =~ /^\d+$/ ? $s->{fail}
        : $s->{status};
    $e->{whole} = $e->{status};
    $e->{body} = "page $s->{version} of $e->{uri} for $variant\n"
        . 'x' x ($s->{size} // 0);
    $e->{body} = "$e->{method} $e->{at}\n" if $e->{method} !~ /^(?:GET|HEAD)$/;
    $e->{body} = '' if $e->{status} == 204;

    # an empty body cannot be truncated

    $e->{fail} = undef if ($s->{fail} // '') eq 'cut'
        && ($e->{body} eq '' || $e->{method} eq 'HEAD');

    $e->{etag} = ($s->{etag} eq 'weak' ? 'W/' : '')
        . tag($s->{version}, $variant) if $s->{etag} && $e->{status} == 200;
    $e->{lm} = $s->{modified} if $e->{status} == 200;

    return if $e->{method} !~ /^(?:GET|HEAD)$/ || $e->{status} != 200
        || $s->{fail};

    # an origin that answers any condition with 304

    if ($s->{odd} && defined $h->{'if-none-match'}) {
        @$e{qw/ status etag odd /} = (304, '"odd"', 1);
        return;
    }

    # RFC 9110, 13.2.2: If-None-Match precedes If-Modified-Since

    if (defined $h->{'if-none-match'}) {
        my $tag = tag($s->{version}, $variant);

        $e->{status} = 304 if $e->{etag}
            && ($h->{'if-none-match'} eq '*'
                || index($h->{'if-none-match'}, $tag) >= 0);

    } elsif ($e->{lm} && defined $h->{'if-modified-since'}) {
        $e->{status} = 304 if $h->{'if-modified-since'} eq date($e->{lm});
    }
}


sub reply {
    my ($self, $e) = @_;

    my $c = delete $e->{conn};
    my $s = $e->{state};
    my $now = $self->{clock}->time_now();

    $self->over($e);

    if ($c->{eof}) {
        $e->{lost} = 1;
        return;
    }

    if ($s->{fail} && $s->{fail} eq 'close') {
        delete $self->{conns}{fileno $c->{sock}};
        close $c->{sock};
        return;
    }

    my @h = ("X-Answer: $e->{at}");

    push @h, "Cache-Control: $s->{cc}" if $s->{cc};
    push @h, "CDN-Cache-Control: $s->{cdn}" if defined $s->{cdn};
    push @h, 'Expires: ' . date($now + $s->{expires})
        =~ s/GMT/$s->{zone} ? 'EST' : 'GMT'/er if defined $s->{expires};
    push @h, 'Cache-Tag: ' . $e->{uri} =~ tr{/}{-}r;
    push @h, "X-Accel-Expires: $s->{accel}" if defined $s->{accel};
    @h = $h[0] if $e->{status} == 304 && $s->{lazy};

    $s->{date} //= 0;
    $e->{date} = int($now) - $s->{date} if $s->{date} ne 'none';
    push @h, "Age: $_" for split /;/, $s->{age} // '';
    push @h, 'Date: ' . date($e->{date}) if $e->{date};
    push @h, "ETag: $e->{etag}" if $e->{etag};
    push @h, 'Last-Modified: ' . date($e->{lm}) if $e->{lm};
    push @h, "Vary: $s->{vary}" if $s->{vary};
    push @h, "Set-Cookie: for=$e->{for}" if $s->{cookie};
    push @h, 'Location: /' if $e->{status} =~ /^30[12]/;
    push @h, 'Content-Length: ' . length $e->{body}
        if $e->{status} !~ /^(?:204|304)$/;

    my $body = $e->{method} eq 'HEAD' || $e->{status} =~ /^(?:204|304)$/ ? ''
        : $e->{body};

    my $cut = ($e->{fail} // '') eq 'cut';

    chop $body if $cut;

    syswrite $c->{sock}, join "\r\n", "HTTP/1.1 $e->{status} X", @h, '', $body;

    if ($cut) {
        delete $self->{conns}{fileno $c->{sock}};
        close $c->{sock};
    }
}


1;
