#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback and the parameters of mcds_counter around it: what is
# accepted and what is refused; which server and location is told what.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';


# right ones

for my $conf ('mcds_counter_writeback off;', 'mcds_counter_writeback /save;',
    'mcds_counter_writeback /save?a=b&c=d;',
    'mcds_counter_writeback /s interval=100ms; mcds_counter $n;',
    'mcds_counter_writeback /s batch=1 interval=30d; mcds_counter $n;',
    'mcds_counter_writeback /s batch=10000;'
        . ' mcds_counter_api prefix=a: count=on;',
    'mcds_counter_writeback /s batch=5; mcds_counter $n; '
        . 'location /in { mcds_counter_writeback /s batch=5; '
        . 'mcds_counter $m; }',
    'mcds_counter $n; mcds_counter_durable $n on;',
    'mcds_counter $n; mcds_counter_buffer $n off; mcds_counter_durable $n off;',
    'mcds_counter $n ttl=1h period=10m; mcds_counter_durable $n on;',
    'mcds_counter $n by=$arg_n; mcds_counter_durable $n on;',
    'mcds_counter $n ttl=1h; mcds_counter_durable $n off;',
    'mcds_counter $n read; mcds_counter_durable $n off;',
    'mcds_counter $n async; mcds_counter_writeback $n on;',
    'mcds_counter $n; mcds_counter_writeback $n off; '
        . 'mcds_counter_writeback /s;',
    'mcds_counter_writeback /s; mcds_counter $n; '
        . 'mcds_counter_writeback $n off;',
    'mcds_counter $n statuses=any; mcds_counter_writeback $n off;')
{
    is($t->conf_error(http => $pool, location => $conf), '', "right: $conf");
}


# wrong ones

my @wrong = (
    ['mcds_counter_writeback;', 'mcds_counter_writeback'],
    ['mcds_counter_writeback save;', 'mcds_counter_writeback', '"save"'],
    ['mcds_counter_writeback "";', 'mcds_counter_writeback', '""'],
    ['mcds_counter_writeback /$uri;', 'mcds_counter_writeback', '"/$uri"'],
    ['mcds_counter_writeback on;', 'mcds_counter_writeback', '"on"'],
    ['mcds_counter_writeback off batch=1;', 'mcds_counter_writeback',
        '"off" takes no further parameter'],
    ['mcds_counter_writeback off; mcds_counter_writeback /s;', 'duplicate'],
    ['mcds_counter_writeback /s; mcds_counter_writeback /t;', 'duplicate'],
    ['mcds_counter_writeback /s batch=1 interval=1h x;',
        'mcds_counter_writeback', 'number of arguments'],
    ['mcds_counter_writeback /s; mcds_counter $n; location /in { '
        . 'mcds_counter_writeback /s batch=5; mcds_counter $m; }',
        'mcds_counter_writeback /s', 'has other parameters'],
    map({ ["mcds_counter_writeback /s $_;", 'mcds_counter_writeback',
            "\"$_\""] }
        'x', 'interval', 'interval=', 'interval=0', 'interval=99ms',
        'interval=x', 'interval=-1', 'interval=1h1x', 'batch=', 'batch=0',
        'batch=10001', 'batch=x', 'batch=1k', 'Batch=1'),
    ['mcds_counter_writeback /s batch=1 batch=2;', '"batch=2"', 'duplicate'],
    ['mcds_counter_writeback /s interval=1s interval=2s;', '"interval=2s"',
        'duplicate'],
    map({ ["mcds_counter \$n; $_ \$n on; $_ \$n off;", "\"$_\"",
            'duplicate'] }
        'mcds_counter_durable', 'mcds_counter_buffer',
        'mcds_counter_writeback'),
    ['mcds_counter $n; mcds_counter_writeback $n;', 'mcds_counter_writeback',
        'needs "on" or "off"'],
    ['mcds_counter $n ttl=1h; mcds_counter_durable $n on;', 'durable', 'ttl='],
    ['mcds_counter $n by=-1; mcds_counter_durable $n on;', 'durable', 'by='],
    ['mcds_counter $n read; mcds_counter_buffer $n on;', 'read', 'buffer'],
    ['mcds_counter $n read; mcds_counter_writeback $n off;', 'read',
        'writeback'],
    ['mcds_visitor_counter $n; mcds_counter_durable $n on;',
        'there is no "mcds_counter $n"'],
);

for my $wrong (@wrong) {
    my ($conf, @words) = @$wrong;
    my $output = $t->conf_error(http => $pool, location => $conf);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;
    my @missing = grep { index($emerg[0] // '', $_) < 0 } @words;

    push @missing, 'one message' if @emerg != 1;
    push @missing, 'a line' if $output !~ m{/nginx\.conf:\d+$}m;

    is(join(', ', @missing), '', "wrong: $conf") or diag($output);
}

like($t->conf_error(http => $pool,
        location => 'if ($arg_a) { mcds_counter_writeback /s; }'),
    qr/"mcds_counter_writeback" directive is not allowed/, 'wrong: in if');


# one directive, many servers; each has a location of its own

my $m = $t->memcached('m');
my $o = $t->origin('o', { status => 200 });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_counter_writeback /save interval=100ms;
    mcds_counter $n key=$host$uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { mcds_return "$n"; }
        location = /save {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%/nameless;
        }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name a.example;
        location / { mcds_return "$n"; }
        location /elsewhere {
            mcds_counter_writeback /other interval=100ms;
            mcds_return "$n";
        }
        location /nowhere {
            mcds_counter_writeback off;
            mcds_return "$n";
        }
        location = /save {
            internal;
            proxy_set_header X-Host $host;
            proxy_set_header X-Vars "$request_method $request_uri $remote_addr";
            proxy_set_header X-More "$content_length $content_type $scheme";
            proxy_pass http://127.0.0.1:%%PORT_o%%/a;
        }
        location = /other {
            internal;
            rewrite ^ /named last;
        }
        location = /named {
            internal;
            error_page 418 = @named;
            return 418;
        }
        location @named {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name *.example.org;
        location / { mcds_return "$n"; }
        location = /save {
            internal;
            proxy_set_header Host $host;
            proxy_pass http://127.0.0.1:%%PORT_o%%/wildcard;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_b%%;
        location / { mcds_return "$n"; }
        location = /save {
            internal;
            gzip on;
            gzip_min_length 0;
            mcds_cache on;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%/b;
        }
    }
}
EOT

http_get($h->port(), "/x$_", host => 'nobody.example') for 1 .. 2;
http_get($h->port(), '/x', host => 'a.example');
http_get($h->port(), '/elsewhere', host => 'a.example');
http_get($h->port(), '/nowhere', host => 'a.example');
http_get($h->port(), '/x', host => 'w.example.org');
http_get($t->port('b'), '/x', host => 'b.example') for 1 .. 3;

ok($o->wait_requests(1, $_), "asked: $_")
    for qw{ /nameless /a /b /named /wildcard };

for my $c (['/nameless', 'nobody.example/x1=1 nobody.example/x2=1', 'no name'],
    ['/a', 'a.example/x=1', 'a server with a name'],
    ['/named', 'a.example/elsewhere=1', 'another location of it'],
    ['/b', 'b.example/x=3', 'another one without a name'])
{
    my ($path, $sums, $name) = @$c;

    wait_for(sub { told($path) eq $sums });
    is(told($path), $sums, $name);
}

my ($r) = $o->requests('/a');
my $length = length $r->{body};

is($r->{headers}{'x-vars'}, 'POST /save 127.0.0.1', 'variables there');
is($r->{headers}{'x-more'}, "$length application/json http",
    'more of them');
is($r->{headers}{'x-host'}, 'a.example', 'and its host');
is(($o->requests('/wildcard'))[0]{headers}{host}, 'localhost',
    'a wildcard is no host');

# answered out of a cache it would be lost

$o->mark();
http_get($t->port('b'), '/x', host => 'b.example');
ok(wait_for(sub { told('/b') eq 'b.example/x=1' }), 'not answered by a cache')
    or diag(told('/b'));

$t->done();


sub told {
    my ($path) = @_;
    my %sum;

    for my $r ($o->requests($path)) {
        $sum{$_->{key}} += $_->{delta} for @{decode_json($r->{body})};
    }

    return join ' ', map { "$_=$sum{$_}" } sort keys %sum;
}
