#!/usr/bin/perl

# Copyright (C) mcds authors

# Two hosts, three memcached and an origin that signs its answers; each second
# something breaks: memcached is killed, stopped, restarted or emptied, a host
# is reloaded, a worker killed or stopped, and clients leave all the time.
# Pages are purged, by key and by tag, and the origin fails now and then.
# Nobody ever sees a page of others, half a page, one that is too old, one that
# was purged, or an error that is ours; and a page is built by one request at a
# time, by one on each host where its memcached is away.
#
# MCDS_CHAOS=seconds, as make chaos says it, for longer; MCDS_SEED=number.

use warnings;
use strict;

use POSIX ();
use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Chaos;

my $seconds = $ENV{MCDS_CHAOS} || ($ENV{MCDS_FULL} ? 120 : 14);
my $seed = $ENV{MCDS_SEED} // 11;

$ENV{TEST_TIMEOUT} //= $seconds + 280;

my $t = Test::Mcds->new()->not_in('single',
    'nginx cannot reload then');
$t->needs('mcds vary');

my @m = map { $t->memcached("m$_") } 0 .. 2;

# whose page it is, is in its body alone: headers do not warn of /my/

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($h, $path) = ($q->{headers}, $q->{path});
    my ($user) = ($h->{cookie} // '') =~ /session=(\w+)/;
    my ($n) = $path =~ /(\d+)$/;
    my %page = (host => $h->{host}, user => $user // 'all');
    my @more = ('Cache-Control' => 'max-age=1');

    $page{user} = $1 if ($h->{authorization} // '') =~ /(\w+)$/;

    if ($path =~ /^.must/) {
        @more = ('Cache-Control' => 'max-age=1, must-revalidate');

    } elsif ($path =~ /^.set/) {
        @more = ('Cache-Control' => 'max-age=60', 'Set-Cookie' => 'a=b');
        $page{user} = $h->{'x-token'} // 'nobody';

    } elsif ($path =~ /^.vary/) {
        @more = ('Cache-Control' => 'max-age=4', Vary => 'Accept-Language');
        $page{lang} = $h->{'accept-language'};

    } elsif ($path =~ /^.(?:keyed|tagged)/) {
        @more = ('Cache-Control' => 'max-age=60');

    } elsif ($path =~ /^.fail/ && (time() + $n) % 6 < 2) {
        return { status => 503, body => 'failed' };
    }

    return { headers => \@more, delay => 0.02 + $n % 4 * 0.06,
             body => chaos_page($q, %page) };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    mcds_zone 16m;
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        server       127.0.0.1:%%PORT_m2%%;
        distribution modula;
        timeout      250ms;
        fail_timeout 300ms;
    }
    add_header X-Cache  $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_counter $views key=views:$uri;
        location / {
            mcds_cache on;
            mcds_cache_local %%LOCAL%%;
            mcds_cache_session_cookies session;
            mcds_cache_background_update 1s;
            mcds_cache_grace 2s;
            mcds_cache_lock_age 3s;
            proxy_set_header Host $host;
            proxy_set_header X-Host $server_port;
            proxy_pass http://127.0.0.1:%%PORT_o%%;

            # who finds a page expired builds it, others wait

            location /late/ {
                mcds_cache_background_update off;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }

            location /tagged/ {
                mcds_cache_tag $uri;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }

            location /fail/ {
                mcds_cache_use_stale http_503;
                mcds_cache_background_update 4s;
                mcds_cache_grace 8s;
                mcds_cache_error_backoff 1s 2s;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT

my @hosts = ($t->nginx('one', $conf =~ s/%%LOCAL%%/off/r),
    $t->nginx('two', $conf =~ s/%%LOCAL%%/validated/r));

# how old a page may be: its lifetime and the grace; what comes on top is the
# time from the origin to the host, on a machine that is busy

my $late = 2 * $t->slow();
my %limit = (page => 3, rare => 3, must => 1, late => 3, my => 3, auth => 3,
    set => 0, vary => 6, large => 3, keyed => 62, tagged => 62, fail => 9);
my @kinds = (('page') x 28, ('late') x 14, ('rare') x 16, ('must') x 7,
    ('my') x 8, ('auth') x 3, ('set') x 2, ('vary') x 6, ('large') x 1,
    ('keyed') x 8, ('tagged') x 8, ('fail') x 4, ('purge') x 3);
my %pages = (page => 12, late => 4, rare => 300, must => 60, my => 6,
    auth => 12, set => 3, vary => 3, large => 2, keyed => 6, tagged => 6,
    fail => 4);

sub purge {
    my $kind = (qw/ keyed tagged vary /)[rand 3];
    my $uri = "/$kind/" . int rand $pages{$kind};
    my $mode = (qw/ invalidate delete /)[rand 2];

    return { kind => 'purge', purge => { uri => $uri, mode => $mode },
        uri => "/purge?mode=$mode&" . ($kind eq 'tagged' ? "tag=$uri"
            : "key=http://localhost$uri") };
}

sub request {
    my $kind = $kinds[rand @kinds];

    return purge() if $kind eq 'purge';

    my %r = (kind => $kind, limit => $limit{$kind} + $late,
        want => { host => 'localhost', user => 'all' });
    my $path = $kind eq 'auth' ? 'page' : $kind;
    my $user = 'user' . int rand 1000;

    $r{uri} = "/$path/" . int rand $pages{$kind};

    if ($kind eq 'my' && rand() < 0.6) {
        $r{headers} = [Cookie => "a=b; session=$user"];
        $r{want}{user} = $user;

    } elsif ($kind eq 'auth') {
        $r{headers} = [Authorization => "Bearer $user"];
        $r{want}{user} = $user;

    } elsif ($kind eq 'set') {
        $r{headers} = ['X-Token' => $user];
        $r{want}{user} = $user;

    } elsif ($kind eq 'vary') {
        $r{want}{lang} = (qw/ de en fr /)[rand 3];
        $r{headers} = ['Accept-Language' => $r{want}{lang}];

    } elsif ($kind eq 'fail') {
        $r{may} = [503];
    }

    $r{watch} = 1 if $kind =~ /keyed|tagged|vary/;

    return \%r;
}


# which memcached has which page

my %on;

my @known = map { my $kind = $_; map { "/$kind/$_" } 0 .. $pages{$kind} - 1 }
    'page', 'late', 'keyed', 'tagged';

for my $uri (@known) {
    wait_for(sub {
        $hosts[0]->get($uri);
        ($on{$uri}) = grep { defined $m[$_]->get("<>http://localhost$uri") }
            0 .. 2;
        return defined $on{$uri};
    }, 10);
}

is(scalar(grep { defined } values %on), scalar(@known),
    'all pages are in memcached');

my %list;

for my $uri (map { "/vary/$_" } 0 .. $pages{vary} - 1) {
    wait_for(sub {
        $hosts[0]->get($uri, headers => { 'Accept-Language' => 'de' });
        ($list{$uri}) = grep { defined $m[$_]->get("<>http://localhost$uri") }
            0 .. 2;
        return defined $list{$uri};
    }, 10);
}

$o->mark();


# faults: name, what, and for how long; what they touched, and when

my @broken;

sub broken {
    my ($what, $who, $code) = @_;
    my $start = time();
    $code->();
    push @broken, { what => $what, who => $who, start => $start,
                    end => time() };
}

sub on_memcached {
    my ($what, $code) = @_;
    my $i = int rand @m;
    broken($what, $i, sub { $code->($m[$i]) });
}

sub on_all {
    my ($what, $code) = @_;
    broken($what, 'all', $code);
    my %all = %{pop @broken};
    push @broken, map { { %all, who => $_ } } 0 .. $#m;
}

sub on_host {
    my ($what, $code) = @_;
    my $i = int rand @hosts;
    broken($what, "host $i", sub { $code->($hosts[$i]) });
}

my @faults = (
    sub { on_memcached('killed', sub { $_[0]->kill9(); sleep 0.2 + rand 0.6;
        $_[0]->restart() }) },
    sub { on_memcached('restarted', sub { $_[0]->restart() }) },
    sub { on_memcached('stopped', sub { $_[0]->freeze(); sleep 0.3 + rand 0.5;
        $_[0]->cont() }) },
    sub { on_memcached('stopped shortly', sub { $_[0]->freeze(); sleep 0.05;
        $_[0]->cont() }) },
    sub { on_memcached('emptied', sub { $_[0]->flush() }) },
    sub { on_all('all killed', sub { $_->kill9() for @m; sleep 0.7;
        $_->restart() for @m }) },
    sub { on_host('reloaded', sub { $_[0]->reload() }) },
    sub { on_host('worker killed', sub { $_[0]->kill_worker(int rand 2) }) },
    sub { on_host('worker stopped', sub {
        my $pid = ($_[0]->workers())[0] // return;
        kill 'STOP', $pid;
        sleep 0.2;
        kill 'CONT', $pid;
    }) },
);

$t->seed($seed);

my $begin = time();
my @crowds = map { chaos_crowd($t, ports => [map { $_->port() } @hosts],
    clients => 12, seconds => $seconds, seed => $seed * 100 + $_, abort => 5,
    pause => 0.1, limit => 20 * $t->slow(), next => \&request) } 1 .. 2;

# each of them once before any of them again

my @next;

while (time() < $begin + $seconds - 2) {
    @next = sort { rand() <=> 0.5 } 0 .. $#faults if !@next;
    my $due = int(time() - $begin + 1) + $begin;
    sleep $due - time();
    $faults[shift @next]->();
}

my %count;
my (%status, @bad, @fail, @watched, @purges);

for my $crowd (@crowds) {
    my $seen = $crowd->wait() or do { fail('clients ended well'); next };
    $count{$_} += $seen->{count}{$_} for keys %{$seen->{count}};
    push @bad, @{$seen->{bad}};
    push @fail, @{$seen->{fail}};
    push @watched, @{$seen->{watched}};
    push @purges, @{$seen->{purges}};
    for my $kind (keys %{$seen->{status}}) {
        $status{$kind}{$_} += $seen->{status}{$kind}{$_}
            for keys %{$seen->{status}{$kind}};
    }
}

my %what;
$what{$_->{what}}++ for @broken;
note(scalar(@broken), ' faults: ', join ', ', map { "$_ $what{$_}" }
    sort keys %what);
note("$count{all} requests, $count{whole} pages, $count{left} left, ",
    $o->count(), ' origin requests');

for my $kind (sort keys %status) {
    note("$kind: ", join ', ', map { "$_ $status{$kind}{$_}" }
        sort keys %{$status{$kind}});
}


# those who were answered by a worker that was killed, and readers of a page in
# parts of which some were lost with their memcached

my @ours = grep {
    my $f = $_;
    !grep {
        $f->{start} <= $_->{end} + 1 && $f->{end} >= $_->{start} && (
            $_->{what} eq 'worker killed' && $_->{who} eq "host $f->{host}"
                && $f->{why} !~ /status|no answer/
            || $f->{kind} eq 'large' && $_->{who} =~ /^\d/
                && $f->{why} !~ /status|no answer/)
    } @broken;
} @fail;

for my $what (qw/ wrong torn private stale /) {
    my @those = grep { $_->{what} eq $what } @bad;
    is(scalar @those, 0, "no page is $what") or diag(explain([
        @those > 5 ? @those[0 .. 4] : @those]));
}

is(scalar @ours, 0, 'no error is ours')
    or diag(explain([@ours > 8 ? @ours[0 .. 7] : @ours], \@broken));
cmp_ok($count{whole}, '>', $seconds * 10, 'there were enough requests');
cmp_ok($count{left}, '>', $seconds / 2, 'clients have left');
cmp_ok($status{page}{HIT} // 0, '>', 0, 'pages come from the cache');


# of the pages whose memcached was well: one origin request at a time.  Well it
# is from when all workers have found it so; a second, where the log tells of
# timeouts that nobody has made, or of requests that no longer wait, counts as
# ill.  Who builds for a client that leaves lets go of the lock and of the
# origin, in one turn of its worker

my $back = 2.5 * $t->slow();
my %ill = map { $_ => [] } 0 .. 2;

for (@broken) {
    push @{$ill{$_->{who}}}, [$_->{start}, $_->{end} + $back]
        if $_->{who} =~ /^\d/;
}

for my $host (@hosts) {
    for my $line ($host->log_lines(
        qr/timed out|is down after|no longer waits/))
    {
        my $at = log_time($line) // next;
        my ($port) = $line =~ /memcached: 127\.0\.0\.1:(\d+)/;
        my ($uri) = $line =~ /request: "\S+ (\S+)/;
        my ($i) = $port ? grep { $m[$_]->port() == $port } 0 .. 2
            : $on{$uri // ''};
        push @{$ill{$i}}, [$at - 1, $at + 1 + $back] if defined $i;
    }
}

# whether one of these memcached was ill, or was made so, in between

sub ill_between {
    my ($start, $end, @which) = @_;

    for my $i (@which) {
        return 1 if grep { $_->[0] < $end && $_->[1] > $start } @{$ill{$i}};
    }

    return 0;
}


# what was purged does not come back.  A mark is lost with its memcached, and a
# host without it shows what it has; those of tags are not: where they are lost
# all pages of the tag are, and while nobody knows of them pages are stale.
# That of a page that varies is in its list, wherever the variants are

sub sure {
    my ($seen, $purge) = @_;
    my ($kind) = $seen->{uri} =~ /(\w+)/;
    my ($start, $end) = ($purge->{sent} - $back, $seen->{start} + 1);

    return 0 if $purge->{acked} >= $seen->{start};

    return $seen->{cache} !~ /STALE|UPDATING/
        || !ill_between($seen->{start} - $back, $end, 0 .. 2)
        if $kind eq 'tagged';

    return !ill_between($start, $end,
        $on{$seen->{uri}} // $list{$seen->{uri}});
}

my @back = grep { sure(@$_) } returned(\@watched, \@purges);
my (%last, $sure);

for my $p (sort { $a->{acked} <=> $b->{acked} } @purges) {
    push @{$last{$p->{uri}}}, $p;
}

for my $s (@watched) {
    $sure += !!grep { sure($s, $_) } @{$last{$s->{uri}} // []};
}

note(scalar(@purges), ' purges, ', scalar(@watched), ' answers, ',
    $sure // 0, ' of them behind a purge that was not lost');
is(scalar @back, 0, 'what was purged does not come back')
    or diag(explain([@back > 5 ? @back[0 .. 4] : @back], \@broken));
cmp_ok(scalar(@purges), '>', $seconds / 4, 'there were purges');

my (@double, @twice, %most);
my ($well, $asked) = (0, 0);
my %asked;

push @{$asked{$_->{path}}}, $_ for $o->requests();

for my $uri (sort keys %on) {
    my @r = grep { !$_->{headers}{authorization} } @{$asked{$uri} // []};
    $asked += @r;

    for my $pair (overlaps(\@r)) {
        my ($one, $two) = @$pair;

        # the origin hears late, or in another order, that a client has left

        next if grep { $_->{aborted} && $_->{end} - $two->{start} < $t->slow() }
            $one, $two;

        push @twice, $pair
            if $one->{headers}{'x-host'} eq $two->{headers}{'x-host'};
        next if grep { $_->[0] < $two->{start} && $_->[1] > $one->{start} }
            @{$ill{$on{$uri}}};
        push @double, join ' ', $uri, 'on', $on{$uri}, map {
            sprintf '%d: %.3f-%.3f %s', $_->{n}, $_->{start} - $begin,
                ($_->{end} // 9e99) - $begin, $_->{aborted} // ''
        } $one, $two;
    }

    $well += grep { my $r = $_; !grep { $_->[0] < $r->{start}
        && $_->[1] > $r->{start} } @{$ill{$on{$uri}}} } @r;

    # in the worst of times: one for each worker, those that are leaving among
    # them

    $most{$uri} = most_at_once(@r);
}

note("$asked builds, $well of them while memcached was well, ",
    scalar(grep { $_->{what} eq 'all killed' } @broken) / 3,
    ' times there was none');
is(scalar @double, 0, 'one build at a time where memcached is well')
    or diag(explain([@double > 5 ? @double[0 .. 4] : @double],
        [map { sprintf '%s %s %.3f-%.3f', @$_{qw/ what who /},
            $_->{start} - $begin, $_->{end} - $begin } @broken]));

# whatever memcached is like: those of one host know of each other

is(scalar @twice, 0, 'one build at a time on each host')
    or diag(explain([map { my $pair = $_; join ' ', $pair->[0]{uri}, map {
        sprintf '%s %d: %.3f-%.3f %s', $_->{headers}{'x-host'}, $_->{n},
            $_->{start} - $begin, ($_->{end} // 9e99) - $begin,
            $_->{aborted} // ''
    } @$pair } @twice > 8 ? @twice[0 .. 7] : @twice],
        [map { sprintf '%s %s %.3f-%.3f', @$_{qw/ what who /},
            $_->{start} - $begin, $_->{end} - $begin } @broken]));

my ($worst) = sort { $b <=> $a } values %most;
cmp_ok($worst, '<=', 8, "and never more than the workers have ($worst)");


# afterwards all is as ever: each page comes from the cache on each host

my @left = map { my $host = $_; map { [$host, $_] } sort keys %on } @hosts;

ok(wait_for(sub {
    @left = grep {
        my ($host, $uri) = @$_;
        my $r = $host->get($uri);

        $r->status() != 200
            || $r->header('X-Cache') !~ /HIT|STALE|UPDATING/;
    } @left;

    return !@left;
}, 20 * $t->slow()), 'it works as before')
    or diag(join "\n", map {
        my $r = $_->[0]->get($_->[1]);
        join ' ', $_->[1], $r->status(), $r->header('X-Cache') // 'none';
    } @left);

$t->done();


sub log_time {
    my ($line) = @_;

    my ($y, $m, $d, $h, $min, $s)
        = $line =~ m{^(\d+)/(\d+)/(\d+) (\d+):(\d+):(\d+)} or return;

    return POSIX::mktime($s, $min, $h, $d, $m - 1, $y - 1900);
}


sub most_at_once {
    my @events = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
        map { ([$_->{start}, 1], [$_->{end} // 9e99, -1]) } @_;
    my ($now, $most) = (0, 0);

    for (@events) {
        $now += $_->[1];
        $most = $now if $now > $most;
    }

    return $most;
}
