#!/usr/bin/perl

# Copyright (C) mcds authors

# Angie's error log as JSON: each line is an object, also of requests that mcds
# makes itself, to refresh a page or to post counters; these lines have a tag,
# by which "filter=" finds them, and tell what the request was doing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use JSON::PP ();

my $t = Test::Mcds->new();

$t->leave('only Angie 1.12 and later have "format=json"')
    if $t->{version} !~ m{^Angie version: Angie/1\.(?:1[2-9]|[2-9]\d)\.}m;

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
error_log %%DIR%%/json.log info format=json;
error_log %%DIR%%/refresh.log info "filter=tag:mcds refresh";
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_counter_writeback /save interval=100ms;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /page {
            mcds_cache     on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_none%%;
        }
        location = /count { mcds_counter $n; mcds_return $n; }
        location = /save {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_none%%;
        }
    }
}
EOT

$m->set('<>/page', page_encode(key => '<>/page', body => "old\n",
    created => int(time() * 1000) - 62_000,
    expire => int(time() * 1000) - 2000));

is($h->get('/page')->body(), "old\n", 'an old page');
ok($h->wait_log(qr/refused.*mcds refresh.*GET \/page /), 'no refresh');
is($h->get('/page/new')->status(), 502, 'a page that cannot be built');
is($h->get('/count')->status(), 200, 'a count');
ok($h->wait_log(qr{refused.*"POST /save }), 'that cannot be posted');

my @refused = grep { ($_->{error}{code} // 0) == 111 } lines();
my ($page, $new, $post) = map {
    my $re = $_;
    [grep { line_of($_) =~ $re } @refused]->[0]
} qr{/page }, qr{/page/new }, qr{/save };

is(scalar(grep { $_ eq 'mcds refresh' } @{$_->{tags}}), 1, 'JSON: the tag')
    for $page, $post;
is($page->{http}{action}, 'connecting to upstream', 'JSON: a refresh');
is(scalar(grep { $_ eq 'mcds refresh' } @{$new->{tags}}), 0,
    'JSON: a request of a client has not');
is($post->{context}{action}, 'connecting to upstream', 'JSON: a post');

my $filtered = $t->read_file('h/refresh.log');
like($filtered, qr/refused.*mcds refresh.*GET \/page /, 'filter: the refresh');
unlike($filtered, qr{/page/new}, 'filter: no request of a client');

$t->done();


# all lines of the log as objects; the test fails if one of them is none

sub lines {
    return map {
        eval { JSON::PP::decode_json($_) } // do { fail("no JSON: $_"); () }
    } split /\n/, $t->read_file('h/json.log');
}


# the request that a line is about; mcds's own handler puts it beside the action

sub line_of {
    my ($line) = @_;
    my $about = $line->{http}{request} // $line->{context};
    return ref $about && $about->{request_line} // '';
}
