package Test::Mcds::Oracle::Grammar;

# Copyright (C) mcds authors

# Cases for t/oracle.t, the test that compares the answers of nginx with and
# without mcds, made from a seed: configurations, clients and requests.
#
#     $case = case($seed)     { seed, http, servers, tls, clients, requests }
#
# http and servers are lists of directives, see Conf.pm.  Ports are P1, P2 and,
# with TLS, P3.

use warnings;
use strict;

use Exporter qw/ import /;

use Test::Mcds::Oracle::Conf;

our @EXPORT = qw/ case /;

# directives that the generated test cases use only if a variable of the
# environment enables them

our %HAVE = (site => $ENV{ORACLE_SITE});

my ($ids, $tls, @http);


sub chance { return rand() < $_[0] }
sub any { return $_[rand @_] }
sub mixed { return map { splice @_, rand @_, 1 } 1 .. @_ }


sub case {
    my ($seed) = @_;

    srand $seed;
    $ids = 0;
    $tls = chance(0.15);

    @http = (cache(0.95), chance(0.15) ? d('error_page', error_page()) : ());

    my %case = (seed => $seed, tls => $tls, http => [@http]);
    my $purge = chance(0.25);
    my %defaults;

    push @{$case{http}}, d('mcds_cache_tag', 'on') if $purge;
    push @{$case{http}}, d('mcds_cache_revalidate', 'on')
        if $purge && chance(0.3);
    push @{$case{servers}}, server(\%defaults) for 1 .. any(1, 1, 1, 2, 2, 3);

    $case{clients} = [clients(\%case)];
    $case{requests} = [requests(\%case, $purge)];

    return \%case;
}


# random directives of the cache; mcds_cache is on with the probability $on

sub cache {
    my ($on) = @_;

    my @d;

    push @d, d('mcds_cache', 'on') if chance($on);
    push @d, d('mcds_cache', 'off') if !@d && chance(0.05);
    push @d, d('mcds_cache_valid', any('60s', '60s', 'any 60s',
        '200 302 60s')) if chance($on);
    push @d, session() if chance(0.15);
    push @d, d('mcds_cache_local', any('validated', 'timed=1m', 'off'))
        if chance(0.08);
    push @d, d('mcds_cache_key', any('"$mcds_cache_key $http_x_lang"',
        '"$mcds_cache_key $uri$is_args$args $server_addr:$server_port"'))
        if chance(0.04);
    push @d, d('mcds_cache_bypass', any('$http_x_flag', '$arg_x'))
        if chance(0.04);
    push @d, d('mcds_no_cache', any('$http_x_flag', '$arg_x'))
        if chance(0.04);
    push @d, d('mcds_cache_background_update', 'off') if chance(0.05);
    push @d, d('mcds_cache_compress', 'gzip') if chance(0.02);

    return @d;
}


# random directives that separate the pages of sessions, well or badly

sub session {
    return any(
        [d('mcds_cache_session_cookies', 'SID')],
        [d('mcds_cache_session_cookies', 'SID')],
        [d('mcds_cache_session_cookies', 'S*')],
        [d('mcds_cache_session_cookies', 'off')],
        [d('mcds_cache_bypass', '$cookie_SID')],
        [d('mcds_no_cache', '$cookie_SID')],
        ([d('mcds_cache_bypass', '$cookie_SID'),
            d('mcds_no_cache', '$cookie_SID')]) x 3,
        [d('mcds_cache_key', '"$mcds_cache_key $cookie_SID"')],
    )->@*;
}


# a random server{} block

sub server {
    my ($defaults) = @_;

    my (%seen, @kids);

    for (1 .. any(1, 1, 1, 2)) {
        my $port = any('P1', 'P1', 'P1', 'P2', $tls ? ('P3', 'P3', 'P3') : ());
        my $where = any('', '', '127.0.0.1:', '127.0.0.2:') . "%%$port%%";

        next if $seen{$where}++;

        my $more = $port eq 'P3' ? ' ssl' : '';

        $more .= ' default_server'
            if chance(0.3) && !$defaults->{$where}++;
        push @kids, d('listen', "$where$more");
    }

    push @kids, d('server_name', any('a.test', 'a.test', 'a.test', 'b.test',
        'b.test a.test', '_', '""', '~^x\d+\.test$', '*.b.test'))
        if chance(0.85);
    push @kids, d('ssl_verify_client', any('on', 'optional'))
        if $tls && chance(0.5);
    push @kids, cache(0.3), guards(0.15, 'server'), extras(0.1);
    push @kids, d('error_page', error_page()) if chance(0.25);
    push @kids, rewriting('server') if chance(0.12);

    push @kids, d('mcds_cache_site', 'site' . ++$ids)
        if $HAVE{site} && chance(0.2);

    my %have;
    my @paths = ('/', '/', '/a/', '/a/', '/a/', '/b/', '/b/', '^~ /c/',
        '~ \.php$', '~ \.php$', '/inner/', '/frag/', '= /a/1');

    for (1 .. any(1, 2, 2, 3, 3, 4)) {
        my $path = any(@paths);
        push @kids, location($path) if !$have{$path}++;
    }

    push @kids, location('/') if chance(0.8) && !$have{'/'}++;

    # some locations pass on the user that auth_request has admitted

    if (grep({ $_->{n} eq 'auth_request' } map { $_, @{$_->{k} // []} } @kids)
        && chance(0.5))
    {
        push @kids, d('auth_request_set', '$who $upstream_http_x_label');
        named_user($_) for grep { $_->{n} eq 'location' && chance(0.6) } @kids;
    }

    # adds the locations that directives of other locations refer to

    while (my @missing = grep { !$have{$_}++ } named(@http, @kids)) {
        push @kids, location($_) for @missing;
    }

    guarded($_, @kids) for grep { $_->{n} eq 'location' } @kids;

    return d('server', '', [once(@kids)], id => 'v' . ++$ids);
}


# If mcds directives of $location name the session cookie (SID), and the last
# argument of its try_files is a named location, often makes the answers of the
# test's application there depend on this cookie, without Vary or the like: only
# those directives then keep a session's pages from other sessions.

sub guarded {
    my ($location, @kids) = @_;

    my ($try) = grep { $_->{n} eq 'try_files' } @{$location->{k}} or return;

    return if !grep({ $_->{n} =~ /^mcds/ && $_->{a} =~ /SID/ }
        @{$location->{k}}) || !chance(0.6);

    my ($to) = $try->{a} =~ /(@\w+)$/ or return;
    my ($app) = map { $_->{app} // () } map { @{$_->{k}} }
        grep { $_->{n} eq 'location' && $_->{a} eq $to } @kids;

    @$app{qw/ dep say /} = ('cookie', 'session')
        if $app && $app->{kind} eq 'page' && !$app->{dep};
}


# makes nginx send the user that auth_request has admitted ($who), as X-User, to
# the test's application in a location, whose answers then depend on this user

sub named_user {
    my ($location) = @_;

    my ($pass) = grep { $_->{app} } @{$location->{k}} or return;
    my $app = $pass->{app};

    return if $app->{kind} ne 'page' || $app->{dep}
        || $location->{a} eq '= /auth';

    push @{$location->{k}}, d('proxy_set_header', 'X-User "$who"');
    @$app{qw/ dep say life /} = ('user', 'session', any('', 'max-age=60'));
}


# removes repeated directives of mcds: most may occur only once on a level

sub once {
    my %seen;
    return grep { $_->{n} !~ /^mcds_/ || !$seen{$_->{n}}++ } @_;
}


# the paths of the locations to which directives refer, and which a server{}
# with these directives therefore needs

sub named {
    my (@next) = @_;
    my %named;

    while (my $d = shift @next) {
        my $text = join ' ', $d->{a}, $d->{app} ? $d->{app}{to} // '' : ();

        push @next, @{$d->{k}} if $d->{k};

        $named{$1} = 1 while $text =~ /(@\w+)/g;
        $named{'= /auth'} = 1 if $d->{n} eq 'auth_request';
        $named{'= /login'} = 1 if $text =~ m{ /login} && chance(0.7);
        $named{'~ \.php$'} = 1 if $text =~ /index\.php/;
        $named{'/inner/'} = 1 if $text =~ m{^/inner| /inner};
        $named{'/frag/'} = 1 if $text =~ m{/frag} && chance(0.7);
    }

    return sort keys %named;
}


sub location {
    my ($path, $nested) = @_;

    my $auth = $path eq '= /auth';
    my $inner = $path =~ m{^/(?:inner|frag)/|^= /auth};
    my @kids = (cache(0.15), extras(0.12));

    push @kids, d('if', '(' . any('$cookie_SID = ""', '$cookie_SID != alice',
        '$remote_addr != 127.0.0.9') . ')', [d('return', any(401, 403))])
        if $path eq '@check' && chance(0.6);
    push @kids, session() if $path eq '@check' && chance(0.4);
    push @kids, d('internal', '') if $inner && chance($auth ? 0.25 : 0.5);
    push @kids, guards($path =~ /^@|php/ ? 0.4 : 0.25, 'location')
        if !$auth || chance(0.3);
    push @kids, d('error_page', error_page()) if chance(0.2);
    push @kids, rewriting('location') if chance(0.2);
    push @kids, content($path);
    push @kids, session()
        if chance(0.2) && grep { $_->{n} eq 'try_files' } @kids;

    if (!$nested && $path =~ m{^(?:\^~ )?/(\w)/$} && chance(0.12)) {
        push @kids, location(any("/$1/1", '~ \.php$', "/$1/sub/"), 1);
    }

    return d('location', $path, [once(@kids)], id => 'l' . ++$ids);
}


# a random content handler of a location

sub content {
    my ($path) = @_;

    my $kind = rand();
    my $auth = $path eq '= /auth';
    my $last = $path =~ /^@|php/;

    return d('try_files', any('/none @app', '$uri @app', '$uri $uri/ @app',
        '$uri $uri/ /index.php?$args', '$uri $uri/ /index.php?$args',
        '$uri /index.php', '/none /b$uri', '/none /inner/1'))
        if $kind < 0.25 && !$last && !$auth;

    return d('try_files', '/none @check') if $kind < 0.5 && $auth;

    return any([d('root', '%%dir%%/root')], [d('index', any('index.php',
        'index.php index.html', 'index.html'))], [])->@* if $kind < 0.31
        && !$last && !$auth;

    return d('alias', any('%%dir%%/root/', '%%dir%%/root/a/'))
        if $kind < 0.34 && $path =~ m{^/\w+/$};

    return d('return', any('200 "LABEL $server_port $uri $remote_addr\\n"',
        403)) if $kind > 0.98 && !$auth;

    my @kids;
    my $app = app($path);

    push @kids, d('proxy_set_header', 'Host '
        . any('$host', '$host', '$http_host', '$server_name'))
        if chance(0.8);
    push @kids, d('proxy_intercept_errors', 'on') if chance(0.25);

    push @kids, d('if', '(' . condition() . ')',
        [d('proxy_pass', 'http://app2', undef, app => $app)])
        if chance(0.07);

    return (@kids, d('proxy_pass', 'http://app'
        . ($path =~ m{^/} && chance(0.1) ? '/other/' : ''), undef,
        app => $app));
}


sub app {
    my ($path) = @_;

    my $auth = $path =~ m{^(?:= /auth|\@check)};
    my $kind = any(('page') x 12, ('accel', 'gate', 'gate', 'check', 'moved',
        'missing', 'missing', 'error'));
    my $dep = any(('') x 6, 'cookie', 'cookie', 'lang', 'auth', 'addr');

    $kind = any('check', 'check', 'page', 'page', 'gate') if $auth;
    $dep ||= 'cookie' if $kind =~ /gate|check/;
    $kind = 'page' if $kind =~ /accel|gate/ && $path eq '/inner/';

    my %app = (
        kind => $kind,
        dep => $dep,
        life => any('', ('max-age=60') x 4, 'public, max-age=60',
            'public, max-age=60', 's-maxage=60', 'max-age=60, must-revalidate'),
        status => $kind eq 'error' ? 500 : $kind eq 'missing' ? any(404, 403)
            : any(403, 401, 404),
        etag => chance(0.2),
    );

    $app{to} = any('/inner/1', '/inner/1', '/inner/f.html', '@app', '/b/1')
        if $kind =~ /accel|gate/;
    $app{to} = any('/b/1', '/login', '/a/2') if $kind eq 'moved';
    $app{ssi} = '<!--# include virtual="'
        . any('/frag/1', '/frag/1', '/a/1', '/inner/1') . '" -->'
        if chance(0.25);
    $app{say} = any($dep eq 'addr' ? () : ('vary', 'vary'), 'private',
        'nostore', 'xae', 'pragma', 'cdn', 'star',
        $dep eq 'cookie' ? ('session') x 6 : ()) if $dep;

    return \%app;
}


# random directives that deny access

sub guards {
    my ($chance, $where) = @_;

    return if !chance($chance);

    my @guards = (
        sub { any([d('allow', '127.0.0.9'), d('deny', 'all')],
            [d('deny', '127.0.0.9')],
            [d('deny', '127.0.0.1')])->@* },
        sub { d('auth_basic', 'closed'),
            d('auth_basic_user_file', '%%dir%%/users') },
        sub { d('auth_request', '/auth') },
    );

    my $refusal = sub { refusal(any(403, 403, 404, 418, 418, '302 /login')) };

    return d('satisfy', 'any'), map { $_->() } @guards[any([0, 1], [0, 2],
        [1, 2])->@*] if chance(0.12);

    return d('limit_except', any('GET', 'GET', 'POST'),
        [any(@guards[0, 1])->()]) if $where eq 'location' && chance(0.1);

    return any($guards[0], @guards, $guards[2], $refusal, $refusal)->();
}


sub refusal {
    my ($status) = @_;

    return d('if', '(' . condition() . ')', [d('return', $status)]),
        $status eq '418' && chance(0.8) ? d('error_page', error_page(418)) : ();
}


sub condition {
    return any('$cookie_SID = ""', '$cookie_SID != alice', '$cookie_beta',
        '$cookie_beta', '$http_x_flag', '$remote_addr != 127.0.0.9',
        '$remote_addr = 127.0.0.9', '$remote_user = ""',
        '$request_method = POST', '$arg_x', '$http_x_lang = de',
        $tls ? ('$ssl_client_verify != SUCCESS', '$scheme = http') : ());
}


sub error_page {
    my $which = shift // any('403', '403 404', '401 403 404', '403 418',
        '404 500');

    return $which . any(' = @login', ' = @login', ' @login', ' /login',
        ' = /login', ' =200 /login', ' = /b/1', ' = @app');
}


sub rewriting {
    my ($where) = @_;

    return refusal(418) if chance(0.2);

    my $to = any('^ /b/1', '^ /b/2', '^/a/(.*)$ /b/$1', '^(.*)$ /index.php',
        '^ /a/2?beta=1', '^/(?:a|b)/(.*)$ /inner/$1');
    my $flag = $where eq 'server' || chance(0.6) ? 'last' : 'break';

    return two_ways($where, $flag) if chance(0.4);
    return d('rewrite', "$to $flag") if $where ne 'server' && chance(0.3);
    return sometimes(d('set', '$args "new=1"')) if chance(0.15);
    return sometimes(d('rewrite', "$to $flag"));
}


# two rewrites of a location, under conditions, to different URIs or arguments

sub two_ways {
    my ($where, $flag) = @_;

    my @to = mixed(any(['^ /b/1', '^ /b/2'], ['^/\\w+/(.*)$ /b/$1', '^ /b/2'],
        ['^ /b/1?beta=1', '^ /b/1?beta=2'], ['^ /b/1', '^ /b/1?'],
        ['^ /inner/1', '^ /inner/2'])->@*);
    my ($one, $other) = map { d('rewrite', "$_ $flag") } @to;

    return sometimes($one), $where eq 'server' || chance(0.3)
        ? sometimes($other) : $other;
}


sub sometimes {
    return d('if', '(' . condition() . ')', [@_]);
}


# random filters and subrequests that change a page

sub extras {
    my ($chance) = @_;

    my @d;

    push @d, d('ssi', 'on') if chance($chance);
    push @d, d('sub_filter', 'LABEL ' . any('"$remote_addr"',
        '"$remote_user,"', 'x')) if chance($chance / 2);
    push @d, d(any('add_before_body', 'add_after_body'), any('/frag/1',
        '/frag/1', '/a/1', '/inner/1')) if chance($chance / 3);
    push @d, d('mirror', any('/frag/2', '/a/2')) if chance($chance / 4);

    return @d;
}


sub clients {
    my ($case) = @_;

    # responses to requests with passwords are not stored, so passwords are rare
    # unless the configuration requires them

    my $closed = grep { $_->[0][$_->[1]]{n} eq 'auth_basic' } nodes($case);
    my @names = $closed ? ('', 'alice', 'alice', 'bob')
        : (('') x 7, 'alice', 'bob');
    my @clients;

    for (1 .. any(2, 2, 3, 3, 4)) {
        push @clients, {
            ip => @clients ? any('127.0.0.1', '127.0.0.1', '127.0.0.9',
                '127.0.0.11') : '127.0.0.9',
            cookie => any('', '', '', 'SID=alice', 'SID=alice', 'SID=bob',
                'beta=1', 'beta=1', 'SID=alice; beta=1'),
            auth => any(@names),
            lang => any('', '', 'de', 'en'),
            flag => any(0, 0, 0, 0, 0, 1),
            cert => any(0, 1),
        };
    }

    return @clients;
}


# the addresses, ports and host names that random requests may use

sub targets {
    my ($case) = @_;

    my (@where, @names);

    for my $server (@{$case->{servers}}) {
        push @where, map { [$_->[0] // any('127.0.0.1', '127.0.0.2'),
            $_->[1]] } listens($server);
        push @names, map { split / /, $_->{a}
                =~ s/"+|_/other.test/r =~ s/~.*/x1.test/r =~ s/\*/w/r }
            grep { $_->{n} eq 'server_name' } @{$server->{k}};
    }

    my ($first, @targets) = any(@names, '127.0.0.1');

    for (1 .. any(1, 2, 2, 3, 3)) {
        my ($addr, $port) = any(@where)->@*;
        my $name = chance(0.7) ? $first : any(@names, 'other.test');

        push @targets, { addr => $addr, port => $port,
            host => (chance(0.05) ? uc $name : $name)
                . any('', '', ':%%P1%%', ":%%$port%%"),
            sni => chance(0.8) ? $name : any('', $first) };
    }

    return @targets;
}


sub uris {
    my ($case) = @_;

    my (@uris, %seen);

    for my $d (map { @{$_->{k}} } @{$case->{servers}}) {
        next if $d->{n} ne 'location' || $d->{a} =~ /^@/;

        my ($path) = $d->{a} =~ m{(/\S*|\.php)};

        push @uris, $path eq '.php' ? ('/x.php', '/index.php')
            : $d->{a} =~ /^=/ ? ($path, $path, $path)
            : map { "$path$_" } $path eq '/' ? ('', 'p', 'f.html', 'd/', 'e/',
                'a/1') : (1, 1, 2, 'f.html', 'x.php');
    }

    my @auth = grep { m{^/auth} } @uris;

    @uris = map { any(@uris ? @uris : '/') } 1 .. any(2, 2, 3, 4);
    push @uris, '/auth' if @auth && chance(0.5);

    return grep { !$seen{$_}++ } map { chance(0.2) ? "$_?x=1" : $_ }
        map { chance(0.04) ? any("/$_", s/1/%31/r, "/b/..$_") : $_ } @uris;
}


sub requests {
    my ($case, $purge) = @_;

    my @targets = targets($case);
    my @uris = uris($case);
    my $most = 10 + int rand 31;
    my (@requests, $uri, $target);

    while (@requests < $most) {
        my $again = $purge && @requests && chance(0.4);

        ($uri, $target) = (any(@uris), any(@targets)) if !$again;

        my $method = any(('GET') x 16, 'HEAD', 'POST');
        my $burst = chance(0.15);
        my $header = chance(0.06) ? any('Range: bytes=0-9',
            'If-None-Match: *', 'If-None-Match: "none"') : undef;
        my @who = mixed(0 .. $#{$case->{clients}});

        push @who, @who if chance(0.3);

        if ($again) {
            push @requests, { %$target, client => $who[0], purge => 1,
                uri => '/purge?all&mode=' . any(('invalidate') x 3, 'delete') };
        }

        for my $client (@who) {
            push @requests, { %$target, client => $client, uri => $uri,
                method => $method, header => $header,
                with => $burst && $client != $who[0] };
            $target = any(@targets) if chance(0.3);
        }
    }

    splice @requests, 40;

    return @requests;
}


1;
