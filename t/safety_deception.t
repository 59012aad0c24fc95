#!/usr/bin/perl

# Copyright (C) mcds authors

# C06: an attacker lures somebody who is logged in to /account/x.css and the
# like, which the application takes for /account.  Nothing of that is stored, in
# whatever shape it comes, though styles may be kept for an hour.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# an application that looks at the beginning of a path, as those do that are
# easy to deceive; each page says whose it is.  /php/ says what PHP's sessions
# say, /cookie/ sets a cookie, /silent/ says nothing at all

my %headers = (
    php => ['Cache-Control' => 'no-store, no-cache, must-revalidate',
            Expires => 'Thu, 19 Nov 1981 08:52:00 GMT', Pragma => 'no-cache'],
    private => ['Cache-Control' => 'private, max-age=600'],
    cookie => ['Cache-Control' => 'max-age=600', 'Set-Cookie' => 'seen=1'],
    silent => [],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($user) = ($q->{headers}{cookie} // '') =~ /sid=(\w+)/;
    my ($kind) = $q->{uri} =~ m{(php|private|cookie|silent)};
    return {
        headers => [@{$headers{$kind // 'silent'}},
            'Content-Type' => 'text/css'],
        body => 'account of ' . ($user // 'nobody'),
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    merge_slashes off;
    server {
        listen 127.0.0.1:%%PORT%%;

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        # where there is nothing but the name of the cookie to go by

        location ^~ /silent/ {
            mcds_cache_valid any 1h;
            mcds_cache_session_cookies sid;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        # what looks like a file is kept, whoever has made it

        location ~* \.(css|js|png|ico|txt)$ {
            mcds_cache_valid any 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @shapes = ('/x.css', '/x.js', '/x.png', '/favicon.ico', '/robots.txt',
    ';x.css', ';a=b.css', '%3bx.css', '%3Bx.css', '%2fx.css', '%2Fx.css',
    '/..%2fx.css', '/%2e%2e/x.css', '/%2e%2e%2fx.css', '/./x.css', '//x.css',
    '/.css', '..css', '...css', '/x.css/', '/x.css.', '?x.css', '?.css',
    '%3fx.css', '%3Fx.css', '%23x.css', '%0ax.css', '%0d%0ax.css', '%09x.css',
    '%20x.css', '\\x.css', '%5cx.css', '%5Cx.css', '%00x.css', '%00.css',
    '!x.css', '~x.css', '@x.css', ',x.css', ':x.css', '|x.css', '%26x.css',
    '%25x.css', '%252fx.css', '/x.CSS', '/x%2ecss', '/x.css%20',
    '/x.css?a=b', '/x.css#', '%c0%afx.css', '/x.css;jsessionid=1');

my $victims = 0;

for my $kind (sort keys %headers) {
    my (@leaks, @odd);

    for my $shape (@shapes) {
        my $uri = "/$kind/account$shape";

        # twice, so that the second could be a hit; then the attacker

        for my $who ('alice', 'bob', '') {
            my $r = $h->get($uri,
                headers => [$who ? (Cookie => "sid=$who") : ()]);

            next if $r->status() == 400;
            my $want = 'account of ' . ($who || 'nobody');
            push @odd, "$uri: $who: " . $r->status() if $r->status() != 200;
            push @leaks, "$uri: $who sees " . $r->body()
                if $r->status() == 200 && $r->body() ne $want;
            $victims++ if $who;
        }
    }

    is(join("\n", @leaks), '', "$kind: nobody sees another's account");
    is(join("\n", @odd), '', "$kind: all are answered");
}

cmp_ok($victims, '>', 300, "$victims requests that nginx lets through");

my @stored = grep { ($m->get($_) // '') =~ /account of (alice|bob)/ }
    $m->keys();
is(join("\n", @stored), '', 'no account is in memcached');


# what is there to be kept, is

is($h->get('/style.css')->header('X-Cache'), 'MISS', 'a style');
ok(wait_for(sub { $h->get('/style.css')->header('X-Cache') eq 'HIT' }),
    'a style is kept');

$t->done();
