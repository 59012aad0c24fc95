#!/usr/bin/perl

# Copyright (C) mcds authors

# The configurations of the documentation, of conf-examples and of compose do,
# as they are written, what they are for: visitors share pages, one with a
# session gets a page of their own, robots get what is stored, a request that
# came through a balancer gets the page that was built for such a request, a
# purge takes a page away, and strangers are refused.  A complete configuration
# that this file does not know makes it fail.  EXAMPLES=regex runs those with
# such a name alone, and tells how long each takes.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Examples;

use Time::HiRes qw/ time /;

# some 45 hosts, one after the other, and thousands of requests

$ENV{TEST_TIMEOUT} //= 1200 * ($ENV{MCDS_SLOW} || 1) if !$ENV{MCDS_FULL};

my $t = Test::Mcds->new();

$t->needs('http_realip', 'http_sub');

my %m = map { $_ => $t->memcached($_) } qw/ m n p q /;
my $dir = $t->dir();

my %memcached = (
    '127.0.0.1:11212' => 'p', '10.0.0.1:11211' => 'm', '10.0.0.2:11211' => 'n',
    '10.0.0.1:11212' => 'p', '10.0.0.2:11212' => 'q',
    'memcached1:11211' => 'm', 'memcached2:11211' => 'n',
);

my $person = 'Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0';
my $robot = 'Mozilla/5.0 (compatible; Googlebot/2.1)';
my $stranger = '127.0.0.66';

# the application: does not say which pages are private, and writes into a page
# what it believes of the request; o gives no lifetime, f does

my $answer = sub {
    my ($o, $q) = @_;
    my ($secret) = ($q->{headers}{cookie} // '') =~ /=(secret\w*)/;
    my @says = map { "$_=" . ($q->{headers}{$_} // '') }
        'host', 'x-forwarded-proto', 'x-forwarded-host';

    $says[0] = 'host' if $says[0] !~ /example\.com/;

    # PHP-FPM does not know which program to run, and returns an empty page

    return { headers => ['Content-Type' => 'text/html'], body => '' }
        if $q->{params} && !$q->{params}{SCRIPT_FILENAME};

    return {
        status => $q->{path} =~ /gone/ ? 404 : 200,
        headers => ['Content-Type' => 'text/html', 'Cache-Tag' => 'one'],
        body => "made $q->{n}, @says, " . ($secret // 'public') . "\n"
            . '<!--views--> <!--# echo var="views" -->',
    };
};

my $fresh = sub {
    my $r = $answer->(@_);
    push @{$r->{headers}}, 'Cache-Control' => 'max-age=60';
    return $r;
};

my %o = (
    o => $t->origin('o', $answer),
    f => $t->origin('f', $fresh),
    php => $t->origin('php', $answer, unix => 1, fastcgi => 1),
    phpf => $t->origin('phpf', $fresh, unix => 1, fastcgi => 1),
);

# what a system has

mkdir "$dir/$_" for qw/ www logs /;
$t->write_file('www/index.php', '');
$t->write_file('www/index.html', "a file\n");
$t->write_file('mime.types', "types { text/html html; }\n");

my @params = ('QUERY_STRING $query_string', 'REQUEST_METHOD $request_method',
    'REQUEST_URI $request_uri');

$t->write_file('fastcgi_params', params(@params));
$t->write_file('fastcgi.conf', params(
    'SCRIPT_FILENAME $document_root$fastcgi_script_name', @params));


# configurations by a text that they alone have in their file.  at: before the
# names of pages; end: behind them; host; dry: serves no page; api: a location
# that purges; purger: the address of the application; also: what else it does

my @known = (
    ['README.md', 'mcds_pool main', also => sub { counts($_[0], 'x-views') }],
    ['docs/start.md', 'listen 8080;', also => sub {
        counts($_[0], 'x-views');
        like(get($_[0], '/mcds')->body(), qr/"pools"|<html/i,
            "$_[0]{name}: the status");
    }],
    ['docs/start.md', 'X-Reason'],
    ['docs/cache.md', 'PHPSESSID', status => 'HIT'],
    ['docs/counters.md', 'headless|lighthouse', at => '/articles/',
        also => \&people],
    ['docs/counters.md', 'prefix=views:;', at => '/articles/',
        also => \&popular],
    ['docs/counters.md', 'location = /numbers', also => \&numbers],
    ['docs/applications.md', '"~^(?:(?:_ga'],
    ['docs/applications.md', 'centralauth_*;', end => '.php'],
    ['docs/balancers.md', 'mcds_cache_site example', also => \&real_address,
        host => 'www.example.com', purger => '127.0.0.20'],
    ['docs/balancers.md', 'upstream hosts', also => \&balanced],
    ['docs/balancers.md', 'proxy_protocol;', also => \&proxy_protocol],
    ['docs/balancers.md', 'mcds_cache_forwarded_headers off'],
    ['docs/balancers.md', '$scheme://$host$request_uri'],
    ['docs/balancers.md', 'CDN-Cache-Control', also => sub {
        my ($c) = @_;
        my $uri = uri($c);

        get($c, $uri);
        is(get($c, $uri)->header('CDN-Cache-Control'), 'max-age=60',
            "$c->{name}: the CDN may store it");
        is(get($c, $uri, cookie => 'session=secret')
            ->header('CDN-Cache-Control'), undef, "$c->{name}: not this one");
    }],
    ['docs/balancers.md', 'HTTP_ACCEPT_ENCODING', end => '.php'],
    ['docs/migrating.md', 'mcds_cache_dry_run', dry => 1, also => sub {
        my ($c) = @_;

        ok(wait_for(sub {
            ($t->read_file('cache.log') // '') =~ /^\S+ HIT/m
        }), "$c->{name}: the log shows what would have been hits");
    }],
    ['docs/stale.md', '1d;'],
    ['docs/stale.md', '*cart*'],
    ['docs/stale.md', 'location /api/', at => '/api/'],
    ['docs/clusters.md', 'location /cron/', also => sub {
        my ($c) = @_;

        $c->{origin}->hold_path('/cron/a');

        my $p = start_get($c->{port}, '/cron/a');

        $c->{origin}->wait_requests(1, '/cron/a');
        is(get($c, '/cron/a')->status(), 423, "$c->{name}: it runs already");
        $c->{origin}->release('/cron/a');
        is(finish($p)->status(), 200, "$c->{name}: it has ended");
    }],
    ['docs/shared-data.md', 'mcds_log   live live', also => \&lines],
    ['docs/shared-data.md', 'mcds_array_push missing', also => sub {
        my ($c) = @_;

        get($c, '/no-such-page', host => $_) for 'a', 'b';
        ok(wait_for(sub { grep { /missing/ } $m{m}->keys() }),
            "$c->{name}: a page that is missing");
    }],
    ['docs/shared-data.md', 'mcds_table_api   bans', also => \&banned],
    ['docs/shared-data.md', 'maintenance $host', also => \&closed],
    ['docs/shared-data.md', 'remember=10s', also => \&moved],
    ['docs/shared-data.md', 'location /values/', at => '/values/'],
    ['docs/operations.md', 'location /articles/', at => '/articles/'],
    ['docs/troubleshooting.md', 'error_log                /var/log/nginx',
        also => sub {
            my ($c) = @_;

            get($c, '/index.html');
            ok(wait_for(sub {
                ($t->read_file('cache.log') // '') =~ m{"GET /index\.html}
            }), "$c->{name}: the log");
        }],
    ['docs/troubleshooting.md', 'www.example.com-2', also => \&answers],
    ['docs/recipes/django.md', 'upstream django', api => '/purge'],
    ['docs/recipes/mediawiki.md', 'upstream php', at => '/wiki/',
        host => 'wiki.example.com', also => sub {
            my ($c) = @_;

            # the root of Debian's package

            $t->write_file("www/$_", '<?php secret') for 'LocalSettings.php',
                'LocalSettings.php~', 'autoload.php', 'composer.json';

            denied($c, '/config/x', '/.git', '/images/x.php',
                '/images/deleted/a/b', '/LocalSettings.php',
                '/LocalSettings.php~', '/LocalSettings.php/x', '/autoload.php',
                '/composer.json', '/skins/composer.json');
            is(get($c, $_)->status(), 200, "$c->{name}: $_") for
                '/wiki/LocalSettings.php', '/wiki/.NET', '/index.php/x.php',
                '/api.php';
        }],
    ['docs/recipes/purging.md', 'Nginx Helper', api => '/purge',
        host => 'www.example.com'],
    ['docs/reference/cache.md', 'location /account/', also => sub {
        my ($c) = @_;

        get($c, '/account/a') for 1 .. 2;
        is($c->{origin}->count('/account/a'), 2, "$c->{name}: an account");
    }],
    ['docs/reference/cache.md', 'listen          443 ssl', also => \&answers],
    ['docs/reference/cache.md', 'auth_request      /login', at => '/handbook/',
        server => 'location = /login/check { return 204; }'],
    ['docs/reference/counter.md', 'ssi          on', at => '/articles/',
        also => \&popular],
    ['docs/reference/data.md', 'location / {', also => sub {
        my ($c) = @_;

        $m{m}->set("bans:$stranger", 'a reason');
        is(get($c, '/')->status(), 200, "$c->{name}: not banned");
        is(get($c, '/', local => $stranger)->status(), 403,
            "$c->{name}: banned");
    }],
    ['docs/reference/log.md', 'location /health', also => sub {
        my ($c) = @_;

        get($c, $_) for '/health', '/api/x', '/index.html';
        ok(wait_for(sub { grep { /live/ } $m{m}->keys() }),
            "$c->{name}: the log");
    }],
    ['docs/reference/pool.md', 'mcds_use counters', at => '/articles/'],
    ['docs/reference/purge.md', 'location = /purge', api => '/purge'],
    ['docs/reference/status.md', 'mcds_cache_label', at => '/news/'],

    ['conf-examples/banlist.conf', 'bans', also => \&banned],
    ['conf-examples/counters.conf', 'popular', also => \&numbers],
    ['conf-examples/from-proxy-cache.conf', 'mcds_cache'],
    ['conf-examples/from-srcache.conf', 'mcds_cache'],
    ['conf-examples/lock.conf', 'cron:hourly', also => sub {
        my ($c) = @_;

        is(get($c, '/payments/callback?order=1')->status(), 200,
            "$c->{name}: a payment");
        is(get($c, '/locks/a')->status(), 200, "$c->{name}: the locks");
    }],
    ['conf-examples/log.conf', 'failed', also => \&lines],
    ['conf-examples/maintenance.conf', 'maintenance', also => \&closed],
    ['conf-examples/php-login.conf', 'remember_', also => sub {
        my ($c) = @_;

        get($c, '/login') for 1 .. 2;
        is($c->{origin}->count('/login'), 2, "$c->{name}: the login");
        denied($c, '/.env', '/.git/config', '/uploads/x.php', '/vendor/a/b.php',
            '/index.php.bak', '/index.php~', '/a.sql', '/error.log',
            '/composer.json', '/vendor/a/composer.lock');
    }],
    ['conf-examples/quickstart.conf', 'X-Online', also => sub {
        my ($c) = @_;

        counts($c, 'x-views');
        spoofed($c, sub { get($c, uri($c), @_)->header('X-Online') });
    }],
    ['conf-examples/redirects.conf', 'redirects', also => \&moved],
    ['conf-examples/switches.conf', 'switches', also => sub {
        my ($c) = @_;

        is(get($c, '/')->header('X-Shop'), 'old', "$c->{name}: the old shop");
        is(get($c, '/admin/switches/shop', method => 'PUT', body => 'new')
            ->status(), 204, "$c->{name}: switched");
        ok(wait_for(sub { get($c, '/')->header('X-Shop') eq 'new' }),
            "$c->{name}: the new shop");
    }],
    ['conf-examples/wordpress.conf', 'wordpress_logged', api => '/purge',
        host => 'example.com', also => sub {
            my ($c) = @_;
            my $uri = uri($c);

            get($c, $uri);
            get($c, $uri, agent => $robot);
            ok(wait_for(sub { ($m{m}->get("wp:views:$uri") // 0) == 1 }),
                "$c->{name}: one person, and a robot");
            get($c, $uri);
            ok(wait_for(sub { ($m{m}->get("wp:views:$uri") // 0) == 2 }),
                "$c->{name}: another view");
            denied($c, '/.env', '/.git/config', '/wp-config.php.bak',
                '/wp-config.php~', '/wp-content/debug.log', '/a.sql',
                '/wp-content/uploads/x.php',
                '/wp-content/blogs.dir/1/files/x.php', '/composer.json');
        }],
    ['conf-examples/writeback.conf', 'views:$id', also => sub {
        my ($c) = @_;

        is(get($c, '/internal/save')->status(), 404, "$c->{name}: internal");
    }],
    ['compose/site.conf', 'memcached1', also => sub {
        counts($_[0], 'x-views');
    }],
);


# those that are complete, or cache something

my (@run, @unknown, %used);

for my $e (examples()) {
    my @k = grep {
        $_->[0] eq $e->{file} && index($e->{text}, $_->[1]) >= 0 && caches($e)
    } @known;

    if (@k > 1) {
        fail("$e->{name}: one entry");

    } elsif (@k) {
        my ($file, $text, %k) = @{$k[0]};

        fail("$e->{name}: alone has \"$text\"") if $used{"$file $text"}++;
        push @run, { %$e, %k };

    } elsif (caches($e)) {
        push @unknown, $e->{name};
    }
}

is("@unknown", '', 'a complete configuration is run');
is(join('; ', grep { !$used{$_} } map { "$_->[0] $_->[1]" } @known), '',
    'those that are run are there');

my $only = $ENV{EXAMPLES} // '';
my $n = 0;
my $hosts;

for my $c (grep { $_->{name} =~ /$only/ } @run) {
    my $since = time;

    run($c);
    diag(sprintf '%s %.2f', $c->{name}, time - $since) if $only ne '';
}

note("$_->{name}") for @run;

$t->allow(qr/access forbidden by rule/, qr/\[crit\] .*connect\(\) to unix:/);
$t->done();


sub params {
    return join '', map { "fastcgi_param $_;\n" } @_;
}


# files that no client gets

sub denied {
    my ($c, @uris) = @_;

    is(get($c, $_)->status(), 403, "$c->{name}: $_") for @uris;
}


sub caches {
    my ($e) = @_;

    my $text = $e->{text} =~ s/#.*//gr;

    return $text =~ /^\s*(?:http|server)\s*\{/m
        || $text =~ /\bmcds_cache\s+(?!off\b)\w+;/
            && $text =~ /_pass\s/;
}


sub run {
    my ($c) = @_;

    my $text = $c->{text} =~ s/#.*//gr;
    my $life = $text =~ /\bmcds_cache_valid\s[^;]*\b200\b[^;]*?(\d+)(s|m);/
        ? $1 * ($2 eq 'm' ? 60 : 1) : 0;
    my $php = $text =~ /unix:/;
    my $origin = $php ? $life ? 'php' : 'phpf' : $life ? 'o' : 'f';

    $c->{id} = 'c' . $n++;
    $c->{life} = ($life || 60) * 0.7;
    $c->{origin} = $o{$origin};
    $c->{host} //= 'www.example.com';

    my ($conf, $code, $said, $level) = whole($t, $c->{text}, id => $c->{id},
        memcached => \%memcached, proxy_protocol => 1, php => $origin,
        server => $c->{server}, $c->{text} =~ /upstream hosts/ ? (addresses => [
            qr/10\.0\.0\.11;/ => '127.0.0.1:%%PORT_c_a%%;',
            qr/10\.0\.0\.12;/ => '127.0.0.1:%%PORT_c_b%%;',
        ], http => 'proxy_bind 127.0.0.5;') : ());

    is($code, 0, "$c->{name}: nginx -t") or return diag("$said$conf");

    $conf =~ s/%%PORT_o%%/%%PORT_$origin%%/g if !$php;
    $conf =~ s/127\.0\.0\.1:8001/127.0.0.1:%%PORT_f%%/g;
    $c->{conf} = $conf;

    $_->mc('flush_all') for values %m;

    my $h = $c->{h} = $t->nginx($c->{id}, $conf);

    $c->{port} = $h->port();

    if ($text =~ /\bmcds_cache\s+(?!off\b)\w+;/) {
        shared($c);
        forwarded($c) if !$c->{dry};
        sessions($c, $text);
    }

    purged($c, $text) if $text =~ /mcds_purge_api\s/;
    guarded($c);
    $c->{also}->($c) if $c->{also};
    $h->stop();
}


# requests

sub uri {
    my ($c) = @_;

    return ($c->{at} // '/') . "$c->{id}-" . ++$c->{uris} . ($c->{end} // '');
}


sub get {
    my ($c, $uri, %o) = @_;

    my $headers = { 'User-Agent' => delete $o{agent} // $person,
        %{delete $o{headers} // {}} };

    $headers->{Cookie} = delete $o{cookie} if $o{cookie};

    return http_get(delete $o{port} // $c->{port}, $uri,
        host => $c->{host}, %o, headers => $headers);
}


sub made {
    my ($c, $uri) = @_;
    return $c->{origin}->count($uri);
}


# a new page for a sub, and again with another one when the page has been there
# for so long that it may have expired

sub page {
    my ($c, $sub) = @_;

    for (1 .. 30) {
        my $uri = uri($c);
        my $start = time;
        my @r = $sub->($uri);

        return ($uri, @r) if time - $start < $c->{life} || $_ == 30;
    }
}


# visitors without a session, one of them a robot, others with what browsers
# and clients say of themselves

sub shared {
    my ($c) = @_;

    my ($uri, @r) = page($c, sub {
        my ($uri) = @_;
        return map { get($c, $uri, @$_) } [], [], [agent => $robot],
            [headers => { 'X-Forwarded-For' => '127.0.0.5' }],
            [headers => { 'X-Forwarded-For' => '10.9.8.7, 127.0.0.1' }];
    });

    is(join(' ', map { $_->status() } @r), '200 200 200 200 200',
        "$c->{name}: pages");
    is(made($c, $uri), $c->{dry} ? 5 : 1,
        "$c->{name}: visitors and a robot share a page");

    like($r[1]->header('X-Cache') // 'HIT', qr/^HIT/, "$c->{name}: a hit")
        if !$c->{dry};
}


# each form of a request gets what the application says to this form alone

sub forwarded {
    my ($c) = @_;

    my @forms = (
        {}, { headers => { 'X-Forwarded-Proto' => 'https',
            'X-Forwarded-For' => '10.9.8.7' } },
        { host => "$c->{host}:8443" },
        { headers => { 'X-Forwarded-Host' => 'evil.example.com' } },
    );
    my $text = sub { $_[0]->body() =~ /made \d+, (.*?), public/ ? $1 : '?' };
    my @alone = map { $text->(get($c, uri($c), %$_)) } @forms;
    my ($uri, @r) = page($c, sub {
        my ($uri) = @_;
        return map { get($c, $uri, %$_) } @forms, @forms;
    });

    is(join('; ', map { $text->($_) } @r), join('; ', @alone, @alone),
        "$c->{name}: behind a balancer");

    return if !$t->has('mcds vary');

    # the first page is built again when it gets its first variant

    cmp_ok(made($c, $uri), '<=', @forms + 1,
        "$c->{name}: behind a balancer, from the cache");
}


# each of the cookies

sub sessions {
    my ($c, $text) = @_;

    my @names = map { s/\*/x/gr } map { split }
        $text =~ /^\s*mcds_cache_session_cookies\s+([^;]+);/mg;
    my (@wrong, @status);

    cmp_ok(scalar @names, '>', 0, "$c->{name}: names cookies");

    for my $name (@names) {
        my ($uri, @r) = page($c, sub {
            my ($uri) = @_;
            return map { get($c, $uri, cookie => $_) } "$name=secret1", '',
                "a=b; $name=secret2", "$name=secret3", '';
        });

        my @got = map { $_->body() =~ /(secret\d|public)/ ? $1 : '?' } @r;

        push @wrong, "$name: @got"
            if "@got" ne 'secret1 public secret2 secret3 public';
        push @wrong, "$name: " . made($c, $uri)
            if made($c, $uri) != ($c->{dry} ? 5 : 4);
        push @status, $r[2]->header('X-Cache') // ();
    }

    is("@wrong", '', "$c->{name}: a page of each logged-in visitor");
    is(join(' ', grep { !/^BYPASS/ } @status), '', "$c->{name}: bypassed")
        if !$c->{dry};
}


sub purged {
    my ($c, $text) = @_;

    my @ways;
    my $purger = $c->{purger} // '127.0.0.1';

    push @ways, ['PURGE', sub { get($c, $_[0], method => 'PURGE', @_[1 .. $#_])
        }] if $text =~ /mcds_purge_api\s+method=PURGE/;

    if ($c->{api}) {
        my ($api) = grep { $_->{path} eq $c->{api} } locations(text($c));
        my $site = $api->{port} == $c->{port} ? '' : "&site=$c->{host}";
        my @tag = $text =~ /mcds_cache_tag\s/ ? '?tag=one&mode=delete' : ();

        push @ways, map {
            my $args = $_;
            [$args => sub {
                my ($uri, @more) = @_;
                my $url = "http://$c->{host}$uri";
                get($c, "$c->{api}" . ($args =~ s/%u/$url/r),
                    port => $api->{port}, @more);
            }];
        } "?key=%u$site", @tag;
    }

    cmp_ok(scalar @ways, '>', 0, "$c->{name}: a way to purge");

    for my $way (@ways) {
        my ($name, $send) = @$way;
        my @steps;
        my ($uri) = page($c, sub {
            my ($uri) = @_;

            @steps = ();

            my $look = sub { get($c, $uri)->body() =~ /(made \d+)/ && $1 };
            my $page = $look->();

            push @steps, $send->($uri, local => $stranger,
                headers => { 'X-Forwarded-For' => $purger })->status();
            push @steps, $look->() eq $page ? 'there' : 'gone';
            push @steps, $send->($uri, local => $purger)->status();

            # an expired page may be shown while it is built

            push @steps, 'gone' if wait_for(sub { $look->() ne $page });
        });

        is("@steps", '403 there 200 gone',
            "$c->{name}: $name, not by a stranger");
        is(made($c, $uri), 2, "$c->{name}: $name, built again once");
    }
}


# locations that are not open

sub text { $_[0]{h}{text} }


sub guarded {
    my ($c) = @_;

    for my $l (locations(text($c))) {
        next if $l->{body} !~ /\bdeny\s+all;/ || $l->{body} =~ /limit_except/
            || $l->{body} =~ /\binternal;/;

        is(get($c, $l->{path}, port => $l->{port}, local => $stranger,
            headers => { 'X-Forwarded-For' => '127.0.0.1' })->status(), 403,
            "$c->{name}: $l->{path}, a stranger");
        isnt(get($c, $l->{path}, port => $l->{port})->status(), 403,
            "$c->{name}: $l->{path}");
    }
}


sub answers {
    my ($c) = @_;
    is(get($c, '/index.html')->status(), 404, "$c->{name}: answers");
}


# counters

sub counts {
    my ($c, $header) = @_;

    my $uri = uri($c);
    my @n = map { get($c, $uri, agent => $_)->header($header) }
        $person, $person, $robot, $person;

    # with statuses, a page shows the number from before it

    is(join(' ', map { $_ - $n[0] } @n), '0 1 2 3',
        "$c->{name}: hits are counted");
    cmp_ok($n[0], '<=', 1, "$c->{name}: from the first view");
}


# a client has the same number whatever it says of its address

sub spoofed {
    my ($c, $number) = @_;

    my ($first) = $number->();

    is($number->(headers => { 'X-Forwarded-For' => "10.9.8.$_" }), $first,
        "$c->{name}: $_ with another X-Forwarded-For") for 1 .. 2;
}


sub people {
    my ($c) = @_;

    my $uri = uri($c);
    my $views = sub { get($c, $uri, @_)->header('X-Views') };
    my $n = $views->();

    $views->(agent => $_) for $robot, 'curl/8.0', '';
    $views->(headers => { 'Sec-Purpose' => 'prefetch' });
    get($c, $uri, method => 'HEAD');
    is($views->(), $n + 1, "$c->{name}: people are counted, robots are not");
    is($m{m}->get("views:$uri"), $n + 1, "$c->{name}: in memcached");
}


sub popular {
    my ($c) = @_;

    my $uri = uri($c);
    my $person = $c->{text} =~ /if=/;

    get($c, $uri);
    get($c, $uri, agent => $robot);
    is($m{m}->get("views:$uri"), $person ? 1 : 2, "$c->{name}: views");
    ok(wait_for(sub {
        get($c, '/popular.json')->body() =~ /"key":"\Q$uri\E"/
    }), "$c->{name}: the most viewed page");
}


sub numbers {
    my ($c) = @_;

    my $page = '/articles/7';
    my $ask = sub { get($c, "/numbers?key=$page", @_) };

    like($ask->()->body(), qr/"\Q$page\E":0\}/, "$c->{name}: shows");
    like($ask->(method => 'POST')->body(), qr/"\Q$page\E":1\}/,
        "$c->{name}: counts");
    like($ask->(headers => { 'X-Forwarded-For' => '10.9.8.7' })->body(),
        qr/"\Q$page\E":1\}/, "$c->{name}: does not count a look");
    is(get($c, '/numbers?key=/../%0a')->status(), 400,
        "$c->{name}: keys of pages only");
}


# tables and logs

sub admin {
    my ($c, $path) = @_;

    my ($l) = grep { $_->{path} eq $path } locations(text($c));

    return $l->{port};
}


sub banned {
    my ($c) = @_;

    my $ban = sub {
        get($c, "/admin/bans/$stranger", method => $_[0], body => 'a reason')
            ->status()
    };
    my $look = sub { get($c, '/', local => $stranger, @_)->status() };

    is($look->(), 200, "$c->{name}: not banned");
    is($ban->('PUT'), 204, "$c->{name}: a ban");
    ok(wait_for(sub { $look->() == 403 }), "$c->{name}: banned");
    is($look->(headers => { 'X-Forwarded-For' => '10.9.8.7' }), 403,
        "$c->{name}: whatever it says of its address");
    is(get($c, '/', headers => { 'X-Forwarded-For' => $stranger })->status(),
        200, "$c->{name}: this one alone");
    is($ban->('DELETE'), 204, "$c->{name}: no longer");
    ok(wait_for(sub { $look->() == 200 }), "$c->{name}: no longer banned");
}


sub closed {
    my ($c) = @_;

    my $port = admin($c, '/maintenance/');
    my $set = sub {
        get($c, "/maintenance/$c->{host}", port => $port, method => $_[0],
            body => 'back at 10')->status()
    };

    is(get($c, '/')->status(), 200, "$c->{name}: open");
    is($set->('PUT'), 204, "$c->{name}: close");
    ok(wait_for(sub { get($c, '/')->status() == 503 }), "$c->{name}: closed");
    like(get($c, '/')->body(), qr/back at 10/, "$c->{name}: the message");
    is(get($c, '/', agent => $robot)->header('Retry-After'), 60,
        "$c->{name}: robots come again");
    is($set->('DELETE'), 204, "$c->{name}: open again");
    ok(wait_for(sub { get($c, '/')->status() == 200 }), "$c->{name}: open");
}


sub moved {
    my ($c) = @_;

    is(get($c, '/admin/redirects', method => 'POST',
        headers => { 'Content-Type' => 'application/json' },
        body => '{"/old": "https://www.example.com/new"}')->status(), 204,
        "$c->{name}: a redirect");
    is(get($c, '/old', agent => $robot)->header('Location'),
        'https://www.example.com/new', "$c->{name}: moved");
    is(get($c, '/new')->status(), 200, "$c->{name}: not moved");
}


sub lines {
    my ($c) = @_;

    my $port = admin($c, '/lines');

    get($c, '/index.html?a', headers => { 'X-Forwarded-For' => '10.9.8.7' });
    get($c, '/no-such-page?b', local => $stranger);

    my $body = '';

    ok(wait_for(sub {
        $body = get($c, '/lines?format=text', port => $port)->body();
        $body =~ /\?a / && $body =~ /\?b /;
    }), "$c->{name}: lines");
    like($body, qr/^127\.0\.0\.1 \S+ "GET \S+\?a /m, "$c->{name}: the address");
    like($body, qr/^\Q$stranger\E \S+ "GET \S+\?b .* 404 /m,
        "$c->{name}: another one");
    unlike($body, qr{/lines}, "$c->{name}: not those that read it");
}


# balancers

sub real_address {
    my ($c) = @_;

    my $seen = sub { $c->{h}->access_log() };
    my $xff = { 'X-Forwarded-For' => '10.9.8.7' };

    get($c, '/' . "$c->{id}-real?1", local => '127.0.0.5', headers => $xff);
    get($c, '/' . "$c->{id}-real?2", headers => $xff);
    ok(wait_for(sub { $seen->() =~ /real\?2/ }), "$c->{name}: the log");
    like($seen->(), qr/^10\.9\.8\.7 .*real\?1/m,
        "$c->{name}: the balancer's word is taken");
    like($seen->(), qr/^127\.0\.0\.1 .*real\?2/m, "$c->{name}: no other's is");

    my $purge = sub { get($c, "/$c->{id}-1", method => 'PURGE', @_)->status() };

    is($purge->(local => '127.0.0.5'), 403, "$c->{name}: the balancer");
    isnt($purge->(local => '127.0.0.5',
        headers => { 'X-Forwarded-For' => '127.0.0.20' }), 403,
        "$c->{name}: the application through the balancer");
    is($purge->(local => '127.0.0.5',
        headers => { 'X-Forwarded-For' => '127.0.0.20, 10.9.8.7' }), 403,
        "$c->{name}: a visitor who names the application");
    is(get($c, '/health')->status(), 204, "$c->{name}: health");

    $hosts = $c->{conf};
}


# the configuration of the hosts, of the block before this one, behind the
# balancer of this one

sub balanced {
    my ($c) = @_;

    return fail("$c->{name}: no hosts") if !$hosts;

    my @hosts = map { $t->nginx($_, $hosts) } qw/ c_a c_b /;
    my $uri = '/balanced';
    my @r = map {
        get($c, $uri, local => $_, headers => { 'X-Forwarded-For' => 'spoofed',
            'X-Forwarded-Proto' => 'https' })
    } $stranger, '127.0.0.67', $stranger, '127.0.0.1';

    is(join(' ', map { $_->status() } @r), '200 200 200 200',
        "$c->{name}: both hosts");
    is($o{o}->count($uri), 1, "$c->{name}: share a page");
    like($r[3]->body(), qr/x-forwarded-proto=http /, "$c->{name}: its scheme");
    is(get($c, $uri, cookie => 'session=secret')->body() =~ /secret/, 1,
        "$c->{name}: a logged-in visitor");
    like(get($c, $uri)->body(), qr/public/, "$c->{name}: the next visitor");
    is(get($c, $uri, method => 'PURGE', local => $stranger,
        headers => { 'X-Forwarded-For' => '127.0.0.20' })->status(), 403,
        "$c->{name}: a purge by a stranger");
    is(get($c, $uri, method => 'PURGE', local => '127.0.0.20')->status(), 200,
        "$c->{name}: a purge by the application");
    get($c, $uri) for 1 .. 2;
    is($o{o}->count($uri), 3, "$c->{name}: it is gone on both");

    my $log = join '', map { $_->access_log() } @hosts;

    like($log, qr/^\Q$stranger\E /m, "$c->{name}: the visitor's address");
    unlike($log, qr/^127\.0\.0\.5 /m, "$c->{name}: not the balancer's");
    $_->stop() for @hosts;
}


sub proxy_protocol {
    my ($c) = @_;

    my $from = "PROXY TCP4 10.9.8.7 127.0.0.1 4711 80\r\n";

    get($c, "/?$_", preface => $from, local => "127.0.0.$_") for 5, 9;
    ok(wait_for(sub { $c->{h}->access_log() =~ m{/\?9 } }),
        "$c->{name}: the log");
    like($c->{h}->access_log(), qr{^10\.9\.8\.7 .*/\?5 }m,
        "$c->{name}: the balancer's word is taken");
    like($c->{h}->access_log(), qr{^127\.0\.0\.9 .*/\?9 }m,
        "$c->{name}: no other's is");
}
