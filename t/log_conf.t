#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log and mcds_log_api in a configuration: what is refused, with a reason,
# and what is inherited.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ lines /;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';
my $format = q{log_format f '$uri';};
my $place = qr{ in \S+\.conf:\d+};

for my $row (
    ['mcds_log a;', qr/"mcds_log" directive needs a name and a "log_format"/],
    ['mcds_log a nothing;',
        qr/"mcds_log": there is no "log_format" "nothing"$place/],
    ['mcds_log "" f;', qr/invalid name "" in "mcds_log"/],
    ['mcds_log a$uri f;', qr/invalid name "a\$uri" in "mcds_log", the name of /
        . qr/a log is a word without variables$place/],
    ['mcds_log a f chunk=500ms;', qr/invalid value "chunk=500ms" in /
        . qr/"mcds_log", it must be 1s to 1h$place/],
    ['mcds_log a f chunk=2h;', qr/it must be 1s to 1h/],
    ['mcds_log a f chunk=x;', qr/it must be 1s to 1h/],
    ['mcds_log a f chunks=1;', qr/it must be 2 to 3600/],
    ['mcds_log a f chunks=x;', qr/it must be 2 to 3600/],
    ['mcds_log a f max_chunk=1k;', qr/it must be 4k to 1m/],
    ['mcds_log a f max_chunk=2m;', qr/it must be 4k to 1m/],
    ['mcds_log a f chunk=1h chunks=719;', qr/"mcds_log a": "chunk" times /
        . qr/\("chunks" \+ 1\) must be at most 30 days minus 61 seconds$place/],
    ['mcds_log a f chunk=2s chunk=2s;', qr/duplicate parameter "chunk=2s"/],
    ['mcds_log a f if=;', qr/invalid parameter "if=" in "mcds_log"/],
    ['mcds_log a f what;', qr/invalid parameter "what" in "mcds_log"/],
    ['mcds_log a f pool=none;', qr/"mcds_log": there is no pool "none"$place/],
    ['mcds_log a f; mcds_log off;', qr/"mcds_log" directive is duplicate/],
    ['mcds_log off; mcds_log a f;', qr/"mcds_log" directive is off already/],
    ['mcds_log a f chunk=5s; server { mcds_log a f chunk=6s; }',
        qr/"mcds_log a" has another "chunk"$place than$place/],
    ['mcds_log a f chunks=5; server { mcds_log a f chunks=6; }',
        qr/"mcds_log a" has another "chunks"$place than$place/],
    ['mcds_log a f max_chunk=5k; server { mcds_log a f max_chunk=6k; }',
        qr/"mcds_log a" has another "max_chunk"$place than$place/],
    ['mcds_log a f; server { location / { mcds_log_api; } }',
        qr/invalid number of arguments in "mcds_log_api"/],
    ['server { location / { mcds_log_api a max_chunk=5k; } }',
        qr/invalid parameter "max_chunk=5k" in "mcds_log_api"/],
    ['mcds_log a f chunk=5s; server { location / { mcds_log_api a chunk=6s; }'
        . '}', qr/"mcds_log_api a" has another "chunk"$place than$place/],
    ['server { location / { mcds_log_api a; mcds_log_api b; } }',
        qr/"mcds_log_api" directive is duplicate/],
    ['server { mcds_log_api a; }',
        qr/"mcds_log_api" directive is not allowed here/],
    ['mcds_log off f;',
        qr/"mcds_log" directive "off" takes no further parameter in /],
    ['mcds_log a f; mcds_log off combined;',
        qr/"mcds_log" directive "off" takes no further parameter in /],
    ["mcds_pool b { server 127.0.0.1:1; } mcds_log a f;",
        qr/"mcds_log" needs a "mcds_use" to choose one of 2 pools,$place/],
) {
    my ($text, $re) = @$row;

    like($t->conf_error(http => "$pool $format $text"), qr{$re}, $text);
}

like($t->conf_error(http => "$format mcds_log a f;"),
    qr/"mcds_log" needs a "mcds_pool", and there is none,$place/, 'no pool');
like($t->conf_error(http => 'mcds_pool main { server 127.0.0.1:11211; '
    . "protocol classic ttl=off; } $format mcds_log a f;"),
    qr/"mcds_log" needs items that expire/, 'items without end');

for my $text (
    'mcds_log a f; ' . $format,
    'mcds_log a combined;',
    $format . 'mcds_log a f chunk=1h chunks=718 max_chunk=1m if=$uri;',
    $format . 'mcds_log a f chunk=5s; server { mcds_log a f; location / '
        . '{ mcds_log_api a chunk=5s; } }',
    $format . 'mcds_pool b { server 127.0.0.1:1; } mcds_log a f pool=main '
        . 'chunk=5s; server { mcds_log a f pool=b chunk=6s; }',
) {
    is($t->conf_error(http => "$pool $text"), '', "content with $text");
}


# what a configuration that was refused leaves behind

my $m = $t->memcached('m');

my $conf = <<'EOC';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool other { server 127.0.0.1:%%PORT_m%%; prefix o:; }
    mcds_use main;

    mcds_log a f;
    log_format f '$uri FORMAT';

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_use other;

        location /in/ {
            mcds_use other;
            location /in/own { mcds_log b f; return 204; }
            location /in/off { mcds_log off; return 204; }
            location /in/if {
                if ($arg_x) { mcds_log b f; }
                return 204;
            }
            return 204;
        }
        location /log { mcds_log off; mcds_log_api a pool=main; }
        location /own { mcds_log off; mcds_log_api b; }
    }
}
EOC

my $h = $t->nginx('h', $conf =~ s/FORMAT/1/r);

$h->get($_) for qw{ /in/x /in/own /in/off /in/if };
$h->get('/in/if?x=1');
ok(wait_for(sub { lines($h, '/log') == 2 && lines($h, '/own') == 2 }, 5),
    'inherited');
is(join(' ', sort(lines($h, '/log')), sort(lines($h, '/own'))),
    '/in/if 1 /in/x 1 /in/if 1 /in/own 1', 'or not');

$h->conf($conf =~ s/FORMAT/2'; log_format bad '\$/r);
ok(!$h->reload(), 'a configuration that is refused');
$h->conf($conf =~ s/FORMAT/3/r);
ok($h->reload(wait_old => 1), 'the next one is not');
$h->get('/in/x');
ok(wait_for(sub { grep { $_ eq '/in/x 3' } lines($h, '/log') }, 5),
    'and has its own formats');

$t->allow(qr/invalid parameter "\$"/);
$t->done();
