#!/usr/bin/perl

# Copyright (C) mcds authors

# Counters, visitors, lists of the most viewed, tables, arrays, locks and logs:
# what nginx writes mcds reads, and the other way round, on two servers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m1 = $t->memcached('m1');
my $m2 = $t->memcached('m2');
my $o = $t->origin('o', 'hello');

my ($one, $two) = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        distribution modula;
        prefix p:;
        timeout 10s;
        connect_timeout 10s;
    }
    mcds_counter_top viewed window=1h flush=100ms;
    log_format line escape=none '$uri $http_x_evil';
    server {
        listen 127.0.0.1:%%PORT%%;
        location /count/ {
            mcds_counter $views key=$uri;
            mcds_counter $t key=$uri-t top=viewed;
            mcds_visitor_counter $online key=people visitor=$arg_who
                                 window=60s slots=1 interpolate=off;
            mcds_return 200 "$views";
        }
        location /bans/ {
            mcds_table_api bans;
            mcds_api_methods GET PUT DELETE;
        }
        location /list {
            mcds_array_api list;
            mcds_api_methods GET POST;
        }
        location /short {
            mcds_array_api short max=3 unique;
            mcds_api_methods GET POST;
        }
        location /locked {
            mcds_lock job ttl=30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /logged/ {
            mcds_log live line chunk=2s;
            return 204;
        }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $one->dir() . '/nginx.conf');


# a line of the log has its time to settle while other things are looked at

$one->get("/logged/before", headers => { 'X-Evil' => "\x9b31m" });


# counters

is($one->get('/count/1')->body, 1, 'nginx counts');
is($two->get('/count/1')->body, 2, 'on both hosts');
is($mcds->json('counter', 'get', '/count/1')->[0]{value}, 2, 'mcds reads it');
is($mcds->json('counter', 'add', '/count/1', 5)->[0]{value}, 7, 'adds to it');
is($one->get('/count/1')->body, 8, 'and nginx goes on');
my $made = $mcds->json('counter', 'get', '/count/1')->[0];
ok(exists $made->{ttl} && !defined $made->{ttl},
    'the mark of a counter is no time to live');
is($mcds->json('counter', 'add', '/count/1', '--', '-3')->[0]{value}, 5,
    'subtracts');
is(join('', grep { defined } map { $_->ttl('p:/count/1') } $m1, $m2), -1,
    'and the mark is gone');
is($mcds->run('counter', 'set', '/count/1', 41)->{code}, 0, 'sets');
is($two->get('/count/1')->body, 42, 'and nginx goes on from there');
is($mcds->run('counter', 'get', 'nothing')->{code}, 1, 'none');
is($mcds->json('counter', 'set', 'short', 9, '--ttl=50s')->[0]{value}, 9,
    'with a time to live');

my $ttl = $mcds->json('counter', 'get', 'short')->[0]{ttl};
ok(defined $ttl && $ttl > 0 && $ttl <= 50, 'which is told');

is($mcds->run('counter', 'reset', 'short')->{code}, 0, 'deletes');
is($mcds->run('counter', 'get', 'short')->{code}, 1, 'and it is gone');

$_->set('p:odd', "no \e[1mnumber") for $m1, $m2;
my $r = $mcds->run('counter', 'get', 'odd');
is($r->{code}, 1, 'what is no number');
like($r->{err}, qr/odd: not a number/, 'is called so');


# of several pools: all are known before the first counter is changed

my $several = $t->write_file('several.conf', "events { }\nhttp {\n"
    . 'mcds_pool one { server 127.0.0.1:' . $m1->port() . "; }\n"
    . 'mcds_pool two { server 127.0.0.1:' . $m2->port() . "; }\n"
    . "mcds_counter \$a key=hits:/a pool=one;\n"
    . "mcds_counter \$b key=hits:/b pool=two;\n"
    . "server { listen 127.0.0.1:1;\n"
    . "mcds_table_lookup \$off switches \$host 0 pool=two; }\n}\n");
my $tool = Test::Mcds::Tool->new($t, '-c', $several);

$m1->set('hits:/a', 5);
$m2->set('hits:/b', 6);

$r = $tool->run('counter', 'reset', 'hits:/a', 'unknown');
is($r->{code}, 2, 'a key of no known pool');
like($r->{err}, qr/several pools/, 'is refused');
is($m1->get('hits:/a'), 5, 'nothing is reset');
is_deeply([map { $_->{value} } @{$tool->json('counter', 'get', 'hits:/a',
    'hits:/b')}], [5, 6], 'each key in its pool');
is($tool->run('counter', 'reset', 'hits:/a', 'hits:/b')->{code}, 0, 'reset');
is(join(' ', map { $_->get('hits:/a') // (), $_->get('hits:/b') // () }
    $m1, $m2), '', 'in both pools');


is($tool->run('table', 'add', 'switches', 'a', '1')->{code}, 0,
    'a table that is only looked up');
is(scalar(grep { /switches/ } $m2->keys()), 2, 'in its pool');


# visitors, and what is viewed most

my $v = $mcds->json('visitors', 'people')->[0];
is($v->{window}, 60, 'the window of the configuration');
ok(defined $v->{visitors}, 'visitors');

ok(wait_for(sub {
    my $top = $mcds->json('top', 'viewed');
    ($top->{top}[0]{key} // '') eq '/count/1-t' && $top->{top}[0]{count} == 4;
}, 10), 'the most viewed, of both hosts') or diag(explain(
    $mcds->json('top', 'viewed')));


# the log: what it tells is looked at later

ok(wait_for(sub { $mcds->run('log', 'read', 'live')->{out} =~ /before/ },
    15), 'a line that has settled');

my $p = $mcds->start('log', 'follow', 'live');
ok(wait_for(sub { grep { m{/logged/before} } $p->lines() }, 15),
    'what was there');

for my $i (1 .. 20) {
    ($i % 2 ? $one : $two)->get("/logged/$i");
}


# tables

is($mcds->run('table', 'add', 'bans', '10.0.0.1', 'too many')->{code}, 0,
    'mcds adds');
like($one->get('/bans/10.0.0.1')->body, qr/^"too many"$/, 'nginx finds it');

http_request($two->port(), '/bans/10.0.0.2', method => 'PUT', body => 'why');

is($mcds->run('table', 'get', 'bans', '10.0.0.2')->{out}, "why\n",
    'nginx adds, mcds finds it');
is($mcds->run('table', 'list', 'bans')->{out}, "10.0.0.1\n10.0.0.2\n",
    'both in the list');
is_deeply({ map { $_->{field} => $_->{value} }
    @{$mcds->json('table', 'list', 'bans', '--values')} },
    { '10.0.0.1' => 'too many', '10.0.0.2' => 'why' }, 'with their values');
is($mcds->run('table', 'remove', 'bans', '10.0.0.1', 'x')->{code}, 1,
    'one is removed, one is not there');
is($one->get('/bans/10.0.0.1')->status, 404, 'nginx does not find it');
is($one->get('/bans/')->body =~ s/\s//gr, '["10.0.0.2"]', 'nor in the list');


# arrays

is($mcds->run('array', 'push', 'list', 'one', "t\"wo\n\e[31m")->{code}, 0,
    'mcds pushes');
http_request($one->port(), '/list', method => 'POST', body => '{"three":3}',
    headers => { 'Content-Type' => 'application/json' });
is($two->get('/list')->body =~ s/\s//gr,
    '["one","t\"wo\n\u001B[31m",{"three":3}]', 'nginx has them')
    or diag($two->get('/list')->body);
for (['table', 'list', 'nothing', 0], ['table', 'list', '--values', 'nothing',
    0], ['table', 'get', 'bans', 'nobody', 1], ['array', 'list', 'nothing', 0])
{
    my @command = @$_;
    my $code = pop @command;
    my $r = $mcds->run(@command);

    is($r->{out}, '', "no line of nothing: @command");
    is($r->{code}, $code, "its code: @command");
}

is_deeply($mcds->json('table', 'list', 'nothing'), [], 'which is [] in JSON');

is_deeply($mcds->json('array', 'list', 'list'),
    ['one', "t\"wo\n\e[31m", { three => 3 }], 'and so has mcds');
unlike($mcds->run('array', 'list', 'list')->{out}, qr/[^\n\x20-\x7e]/,
    'without control characters');

$m1->set('p:numbers', "1e300\n0.0001\nnull\n"), $m2->set('p:numbers',
    "1e300\n0.0001\nnull\n");
is($mcds->run('array', 'list', 'numbers')->{out}, "1.0000000000000001e300\n"
    . "0.0001\nnull\n", 'other values as JSON');

is($mcds->json('array', 'push', 'short', qw/ a b a /)->{pushed}, 2, 'unique');
http_request($one->port(), '/short', method => 'POST', body => '["c","<"]',
    headers => { 'Content-Type' => 'application/json' });
is($mcds->json('array', 'push', 'short', qw/ < d c /)->{pushed}, 1,
    'of all that is there');
is_deeply($mcds->json('array', 'list', 'short'), [qw/ c < d /], 'the newest');
is($two->get('/short')->body =~ s/\s//gr =~ s/\\u003[cC]/</r,
    '["c","<","d"]', 'nginx has the same');


# bytes that are not UTF-8, beside others that are

my $bytes = "\xc3\xa9 \xff\xe2\x82\xac\xe2\x82 \xed\xa0\x80\xc0\x80\xc3";

is($mcds->json('counter', 'get', $bytes)->[0]{key},
    "\x{e9} \\xff\x{20ac}\\xe2\\x82 \\xed\\xa0\\x80\\xc0\\x80\\xc3",
    'JSON has all that is UTF-8, and other bytes as \xNN');
like($mcds->run('counter', 'get', $bytes)->{out},
    qr/^\xc3\xa9 \\xff\xe2\x82\xac\\xe2\\x82 /m, 'text, too');


# standard input and output that are closed: no connection gets their number

$r = $mcds->closed(1)->run('counter', 'get', '/count/1');
is($r->{code}, 1, 'no output');
like($r->{err}, qr/cannot write to standard output/, 'which is said');

$r = $mcds->closed(0)->run('log', 'write', 'live');
is($r->{code}, 1, 'no input');
like($r->{err}, qr/standard input/, 'which is said');

is($mcds->closed(0, 1, 2)->run('counter', 'set', 'closed', 5)->{code}, 1,
    'none of the three');
is($mcds->json('counter', 'get', 'closed')->[0]{value}, 5,
    'the counter is set all the same');


# a field is never empty, also not the second one, as of an unset variable; a
# value may be

$mcds->run('table', 'add', 'fields', 'kept');

for my $command ('get', 'remove') {
    $r = $mcds->run('table', $command, 'fields', 'kept', '');

    is($r->{code}, 2, "$command: an empty field is wrong usage");
    like($r->{err}, qr/a field must have 1 to 1024 bytes/, 'which is said');
}

is_deeply($mcds->json('table', 'list', 'fields'),
    [{ field => 'kept', expires => undef }], 'nothing was removed');
is($mcds->run('table', 'add', 'fields', 'empty', '')->{code}, 0,
    'a value may be empty');


# a lock

is($mcds->run('lock', 'show', 'job')->{code}, 1, 'nobody has it');

$o->hold_path('/locked');
my $w = start_get($one->port(), '/locked');
$o->wait_requests(1, '/locked');

my $lock = $mcds->json('lock', 'show', 'job')->[0];
is($lock->{state}, 'held', 'a request has it');
ok($lock->{number} > 0 && length $lock->{owner}, 'by number and owner');

$o->release('/locked');
is(finish($w)->status, 200, 'it ends');
ok(wait_for(sub { $mcds->json('lock', 'show', 'job')->[0]{state} eq 'free' },
    10), 'then it is free');


# numbers of owners that a signed one cannot hold

$_->set('p:many', '18446744073709551615 owner') for $m1, $m2;

$lock = $mcds->json('lock', 'show', 'many')->[0];
is($lock->{number}, '18446744073709551615', 'the largest number of an owner');
like($mcds->run('lock', 'show', 'many')->{out},
    qr/ held +18446744073709551615 /, 'in words, too');
$_->delete('p:many') for $m1, $m2;


# what the log has told

ok(wait_for(sub { $p->lines() >= 21 }, 15), 'follows');
is($p->stop(), 0, 'ends when it is told');

my @lines = $p->lines();

is(scalar(@lines), 21, 'each line once');
is_deeply([sort { $a <=> $b } map { m{/logged/(\d+)} } @lines], [1 .. 20],
    'of both hosts');
is($lines[0], '/logged/before \\x9b31m', 'no control characters');

$r = $mcds->run('--json', 'log', 'read', 'live', '--limit', 5);
my @json = map { JSON::PP::decode_json($_) } split /\n/, $r->{out};

is(scalar(@json), 5, 'the last ones');
is_deeply([map { $_->{time} } @json],
    [sort { $a <=> $b } map { $_->{time} } @json], 'in the order of time');

$r = $mcds->run('log', 'read', 'live', '--after', $json[2]{id});
is(scalar(split /\n/, $r->{out}), 2, 'those behind one');

# a shell starts commands in the background without INT

{
    local $SIG{INT} = 'IGNORE';
    $p = $mcds->start('log', 'follow', 'live');
}

ok(wait_for(sub { grep { m{/logged/20} } $p->lines() }, 15), 'without INT');
$p->kill('INT');
$one->get('/logged/21');
ok(wait_for(sub { grep { m{/logged/21} } $p->lines() }, 15), 'goes on');
$p->kill('TERM');
is($p->wait(), 0, 'ends');

$t->done();
