#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status_host: the other hosts of a site are in the JSON of mcds_status,
# for its page, and read through locations of this host.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /mcds {
            mcds_status;
            mcds_status_host www2 /mcds/www2;
            mcds_status_host "www 3 \"<b>" "/mcds/3?token=a&x=1";
            if ($arg_x) { set $y 1; }
            limit_except POST { allow all; }
        }
        location = /mcds/www2 {
            proxy_pass http://127.0.0.1:%%PORT_b%%/mcds;
        }
        location = /alone { mcds_status; }
        location = /first { mcds_status_host a /; mcds_status; }
        location /outer {
            mcds_status;
            mcds_status_host a /a;
            location /outer/in { mcds_status; }
        }
    }
}
EOT

my $b = $t->nginx('b', $conf =~ s/mcds_status_host .*;//gr);
my $h = $t->nginx('h', $conf =~ s/%%PORT_b%%/$b->port()/er);

my $two = [{ name => 'www2', uri => '/mcds/www2' },
    { name => 'www 3 "<b>', uri => '/mcds/3?token=a&x=1' }];

is_deeply(hosts('/mcds'), $two, 'hosts, in the order of the configuration');
is_deeply(hosts('/mcds?x=1'), $two, 'in an "if"');
is(hosts('/alone'), undef, 'none');
is_deeply(hosts('/first'), [{ name => 'a', uri => '/' }],
    'in front of mcds_status');
is_deeply(hosts('/outer'), [{ name => 'a', uri => '/a' }], 'of a location');
is(hosts('/outer/in'), undef, 'not of those inside of it');

my $far = status($h, '/mcds/www2?format=json');

is($far->{hosts}, undef, 'another host, through this one');
isnt($far->{pid}, status($h, '/mcds')->{pid}, 'it is another one');
unlike($h->get('/mcds?format=prometheus')->body(), qr/www2/,
    'nothing of it in other formats');

# what is wrong

for (
    ['mcds_status; mcds_status_host a;',
        qr/invalid number of arguments in "mcds_status_host" directive/],
    ['mcds_status; mcds_status_host "" /;',
        qr/invalid name "" in "mcds_status_host", it must be a text /],
    ['mcds_status; mcds_status_host $uri /;', qr/invalid name "\$uri" in/],
    ['mcds_status; mcds_status_host a /$uri;', qr/invalid URI "\/\$uri" in/],
    ['mcds_status; mcds_status_host a b;',
        qr/invalid URI "b" in "mcds_status_host", it must be one of this/],
    ['mcds_status; mcds_status_host a "";', qr/invalid URI "" in/],
    ['mcds_status; mcds_status_host a //b;', qr/invalid URI "\/\/b" in/],
    ['mcds_status; mcds_status_host a http://b/;',
        qr/invalid URI "http:\/\/b\/" in/],
    ['mcds_status; mcds_status_host a /a; mcds_status_host a /b;',
        qr/duplicate name "a" in "mcds_status_host" in .*:\d+$/m],
    ['mcds_status_host a /a;',
        qr/"mcds_status_host" in location "\/x", which has no "mcds_status"/],
    ['mcds_status; location /x/y { mcds_status_host a /a; }',
        qr/in location "\/x\/y", which has no "mcds_status"/],
    ['mcds_status; if ($arg_x) { mcds_status_host a /a; }',
        qr/"mcds_status_host" directive is not allowed here/],
) {
    my ($lines, $message) = @$_;

    like($t->conf_error(http => 'mcds_pool main { server 127.0.0.1:1; }',
        server => "location /x { $lines }"), $message, $lines);
}

my ($line) = $t->conf_error(http => 'mcds_pool main { server 127.0.0.1:1; }',
    server => "location /x {\nmcds_status_host a /a;\n}\nlocation /y { }\n")
    =~ /which has no "mcds_status",? in \S+:(\d+)$/m;

is(($t->read_file('conf_test/nginx.conf') =~ /^(.*)$/mg)[($line // 1) - 1],
    'mcds_status_host a /a;', 'and where');

$t->done();


sub hosts {
    my ($uri) = @_;
    return status($h, $uri)->{hosts};
}
