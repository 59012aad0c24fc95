#!/usr/bin/perl

# Copyright (C) mcds authors

# APIs and nginx's "mirror", which lets a request and its copies have one body:
# each gets all of it, in memory or in a file, whether the API answers the
# request or a copy, and accepts the body or refuses it.  With
# "mirror_request_body off", the request alone gets the body.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

$t->memcached('m');

my $o = $t->origin('o');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_api_methods GET POST PUT;

    server {
        listen 127.0.0.1:%%PORT%%;
        client_body_buffer_size 8k;

        location /t/ { mirror /audit; mcds_table_api t; }
        location /file/t/ {
            client_body_in_file_only clean;
            mirror                   /audit;
            mcds_table_api           t;
        }
        location = /purge { mirror /audit; mcds_purge_api on; }
        location = /audit {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%/audit$request_uri;
        }

        location = /form {
            mirror       /log;
            mcds_counter $n key=forms;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location = /file/form {
            client_body_in_file_only clean;
            mirror                   /log;
            mcds_counter             $n key=forms;
            proxy_pass               http://127.0.0.1:%%PORT_o%%;
        }
        location = /both { mirror /log; mirror /more; mcds_array_api both; }
        location = /log { internal; mcds_log_api log; }
        location = /more { internal; mcds_array_api more; }

        location /late/ {
            mirror_request_body off;

            location /late/purge { mirror /copy/purge; mcds_array_api $uri; }
            location /late/log { mirror /copy/log; mcds_array_api $uri; }
            location /late/array { mirror /copy/array; mcds_array_api $uri; }
            location /late/number { mirror /copy/number; mcds_array_api $uri; }
        }
        location = /copy/purge { internal; mcds_purge_api on; }
        location = /copy/log { internal; mcds_log_api log; }
        location = /copy/array { internal; mcds_array_api copy; }
        location = /copy/number {
            internal;
            mcds_counter_api prefix=copy: count=on;
        }

        location = /lines { mcds_log_api log; }
        location = /copied { mcds_array_api copy; }
        location = /list { mcds_array_api more; }
    }
}
EOC

my %type = (
    text => 'text/plain', lines => 'application/x-ndjson',
    json => 'application/json', form => 'application/x-www-form-urlencoded',
);


# the API answers the request, the copy goes elsewhere

for my $case (['/t/short', 'text', 'value'], ['/t/long', 'text', 'x' x 9000],
    ['/t/', 'json', '{"a":1}'], ['/file/t/short', 'text', 'value'],
    ['/file/t/refused', 'json', '{'], ['/purge', 'form', 'key=x'])
{
    my ($uri, $type, $body) = @$case;

    my $r = request($uri, $type, $body);

    is($r->status(), {
        '/file/t/refused' => 400, '/purge' => 404,
    }->{$uri} // 204, "$uri: is answered") or diag $r->body();
    ok($o->wait_requests(1, "/audit$uri"), 'its copy comes');
    ok(body("/audit$uri") eq $body, 'with the body');
}

is($h->get('/t/long')->body(), '"' . 'x' x 9000 . "\"\n", 'a long value');


# the API gets the copy

my $n = 0;

for my $uri ('/form', '/file/form') {
    for my $type (qw/ lines form /) {
        for my $body ('"' . ++$n . "\"\n",
            join('', map { '"' . ++$n . "\"\n" } 1 .. 3000))
        {
            my $r = request($uri, $type, $body);

            is($r->status(), 200, "$uri: passed, with $type");
            ok(body($uri) eq $body, 'with the body');
        }
    }
}

ok(wait_for(sub { lines() == 6002 }), 'the log has those of its type');


# an API, and two others get copies

is(request('/both', 'lines', "\"b\"\n")->status(), 204, 'three APIs');
is($h->get('/both')->body(), "[\"b\"]\n", 'the first has it');
ok(wait_for(sub { lines() == 6003 }), 'the second');
ok(wait_for(sub { $h->get('/list')->body() eq "[\"b\"]\n" }), 'the third');


# the copy gets no body, while that of the request comes later, in parts

KIND: for my $kind (qw/ purge log array number /) {
    my $uri = "/late/$kind";

    for my $parts (['"one"'], ['"t', 'wo"']) {
        my $body = join '', @$parts;
        my $what = "$uri, a body in " . @$parts;

        my $c = start_get($h->port(), "$uri?key=k", method => 'POST',
            headers => {
                'Content-Type' => $type{json},
                'Content-Length' => length $body,
            });

        # once it has answered another request, the worker has read what
        # was sent before

        for my $part (@$parts) {
            last if $h->get('/list', timeout => 10)->status() != 200;
            $c->send($part);
        }

        is(finish($c, 10)->status(), 204, $what) or last KIND;
    }

    is($h->get($uri, timeout => 10)->body(), qq{["one","two"]\n},
        "$uri: each is done once");
}

is($h->get('/copied', timeout => 10)->body(), "[]\n", 'the copies have none');
is(lines(), 6003, 'nor has the log');

$t->done();


sub request {
    my ($uri, $type, $body) = @_;

    return http_request($h->port(), $uri, body => $body, timeout => 20,
        method => $uri =~ m{t/.} ? 'PUT' : 'POST',
        headers => { 'Content-Type' => $type{$type} });
}


# of the last request that the origin has got

sub body {
    my ($last) = reverse $o->requests(@_);

    return $last ? $last->{body} : '';
}


sub lines {
    return scalar(() = $h->get('/lines?format=text&last=0&limit=10000')
        ->body() =~ /^\d+$|^b$/mg);
}
