#!/usr/bin/perl

# Copyright (C) mcds authors

# The formats of mcds_status: by its parameter, by argument, by Accept.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /auto { mcds_status; }
        location = /auto2 { mcds_status format=auto; }
        location = /json { mcds_status format=json; }
        location = /prometheus { mcds_status format=prometheus; }
        location = /html { mcds_status format=html; }
    }
}
EOT

my $old = 'application/openmetrics-text;version=1.0.0;q=0.8,'
    . 'text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
my $new = 'application/openmetrics-text;version=1.0.0;escaping=values;q=0.5,'
    . 'text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,'
    . '*/*;q=0.2';
my $browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,'
    . 'image/avif,*/*;q=0.8';

for (['/auto', undef, 'json'],
    ['/auto2', undef, 'json'],
    ['/auto', '*/*', 'json'],
    ['/auto', 'application/json', 'json'],
    ['/auto', 'application/*', 'json'],
    ['/auto', 'image/png', 'json'],
    ['/auto', 'text/plain', 'json'],
    ['/auto', 'text/plain; version=0.0.3', 'json'],
    ['/auto', '', 'json'],
    ['/auto', ';;,,q=;=,', 'json'],
    ['/auto', 'text/html;q=0', 'json'],
    ['/auto', 'text/html;q=nonsense, application/json;q=0.1', 'json'],
    ['/auto', 'text/html;q=0.2, application/json;q=0.3', 'json'],
    ['/auto', 'text/html;q=0.001', 'html'],
    ['/auto', 'TEXT/HTML ; Q=0.5', 'html'],
    ['/auto', ['image/png', 'text/html'], 'html'],
    ['/auto', $browser, 'html'],
    ['/auto', $old, 'prometheus'],
    ['/auto', $new, 'prometheus'],
    ['/auto', 'text/plain;version=0.0.4', 'prometheus'],
    ['/auto', "text/plain; \tversion=0.0.4 ; q=1", 'prometheus'],
    ['/auto?format=json', $browser, 'json'],
    ['/auto?format=html', $old, 'html'],
    ['/auto?format=prometheus', $browser, 'prometheus'],
    ['/auto?format=', undef, '400'],
    ['/auto?format=xml', undef, '400'],
    ['/auto?format=JSON', undef, '400'],
    ['/json', $browser, 'json'],
    ['/json?format=json', undef, 'json'],
    ['/json?format=html', undef, '400'],
    ['/prometheus', $browser, 'prometheus'],
    ['/prometheus?format=json', undef, '400'],
    ['/html', undef, 'html'],
    ['/html?format=json', undef, 'json'],
    ['/html?format=prometheus', undef, '400'])
{
    my ($uri, $accept, $expect) = @$_;

    my $res = $h->get($uri,
        defined $accept ? (headers => { Accept => $accept }) : ());
    my $type = $res->header('Content-Type');

    my $got = $res->status() != 200 ? $res->status()
        : $res->body() =~ /\A\{"version":.*\}\n\z/s
            && $type eq 'application/json' ? 'json'
        : $res->body() =~ /\A# HELP mcds_build_info /
            && $type =~ m{^text/plain; version=0\.0\.4} ? 'prometheus'
        : $res->body() =~ /<html/i && $type =~ m{^text/html} ? 'html' : $type;

    is($got, $expect, "$uri " . (ref $accept ? "@$accept" : $accept // ''));
}

my $res = $h->get('/auto?format=xml');

is($res->body(), "format must be json, prometheus or html\n", 'a line');
is($res->header('Content-Type'), 'text/plain', 'of text');
is($res->header('Cache-Control'), 'no-store', 'that is not to be stored');
is($h->get('/prometheus', method => 'HEAD')->body(), '', 'HEAD');

$t->done();
