#!/usr/bin/perl

# Copyright (C) mcds authors

# C15: with mcds_cache_hmac_key a page is served only if it was signed with one
# of the keys, and is as it was then: every edit is a miss, whoever has made it
# and however right its checksum is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->allow(qr/is not used|is not signed|too large/);
$t->needs('mcds large', 'mcds vary');

$t->needs('http_ssl');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    'X-Tags' => 'a', ETag => '"e"'], body => 'answer %k' });

$t->write_file('new.key', "a new key, of the right length\n");
$t->write_file('old.key', 'an old key, of the right length');
$t->write_file('short.key', 'short');

my $v = $t->origin('v', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=60', Vary => 'X-A'],
        body => "for $q->{headers}{'x-a'}" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_cache_hmac_key %%TMP%%/new.key %%TMP%%/old.key;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /tags {
            mcds_cache_tag $upstream_http_x_tags;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /again {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /old {
            mcds_cache_hmac_key %%TMP%%/old.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /large {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /vary { proxy_pass http://127.0.0.1:%%PORT_v%%; }
    }
}
EOT

my @h = map { $t->nginx($_, $conf) } 'one', 'two';
my ($h, $other) = @h;

# a host of yesterday, and one that signs nothing

my $old = $t->nginx('old', $conf =~ s/\S+new\.key //r);
my $off = $t->nginx('off', $conf =~ s/key \S+new\.key \S+;/key off;/r);

sub status { join ' ', map { $_ // 'none' } $_[0]->header('X-Cache'),
    $_[0]->header('X-Reason') }

sub stored {
    my ($uri) = @_;
    $h->get($uri);
    return page_wait($m, key($uri)) || die $uri;
}

for my $uri ('/a', '/tags') {
    my $e = page_decode(stored($uri));
    is(substr($e->{ext}, 0, 6), "\x03\x00\x20\x00\x00\x00", "$uri is signed");
    is(status($_->get($uri)), 'HIT fresh', "$uri is served") for @h;
}

# the same after a purge, and when the origin says that it is the same

$h->get('/a', method => 'PURGE');
my $r = $other->get('/a');
is(status($r), 'STALE purged', 'a purged page is signed again');
ok(wait_for(sub { status($h->get('/a')) eq 'HIT fresh' }), 'and rebuilt');

stored('/again');
$o->set('/again', { status => 304, body => '',
    headers => ['Cache-Control' => 'max-age=60', ETag => '"e"'] });
$h->get('/again', method => 'PURGE');
ok(wait_for(sub { status($h->get('/again')) eq 'HIT fresh' }), 'not modified');
is($h->get('/again')->body(), 'answer 1', 'the page that there was');
is($o->count('/again'), 2, 'the origin was asked');
is(($o->requests('/again'))[1]->{headers}{'if-none-match'}, '"e"',
    'whether it is the same');
is(page_decode($m->get(key('/again')))->{flags} & 4, 0, 'it is not purged');

# what nobody has signed

$m->set(key('/p'), page_encode(key => key('/p'), body => 'forged'));
$r = $h->get('/p');
is(status($r), 'MISS unsigned', 'without a signature');
is($r->body(), 'answer 1', 'the origin answers');
page_wait($m, key('/p'));
is(status($other->get('/p')), 'HIT fresh', 'and the page is stored');

# signed for another page, by another key, with the old key

my $good = stored('/k');
my $p = page_decode($good);
$m->set(key('/k2'), page_encode(%$p, key => key('/k2')));
is(status($h->get('/k2')), 'MISS unsigned', 'the page of another key');

stored('/old');
is(status($h->get('/old')), 'HIT fresh', 'the old key where it is the first');
$m->set(key('/old'), $m->get(key('/k')));
isnt($h->get('/old')->header('X-Cache'), 'HIT', 'a page moved elsewhere');
$old->get('/old2');
page_wait($m, key('/old2'));
is(status($h->get('/old2')), 'HIT fresh', 'the old key is known');
stored('/new2');
is(status($off->get('/new2')), 'HIT fresh', 'off: it does not matter');

# every edit of it

my $n = length $good;
my $bad = 0;
my $sign = "\x03\x00\x20\x00\x00\x00";
my $at_sign = index($good, $sign) + length $sign;
my @sign = $at_sign .. $at_sign + 31;
my @at = $t->full() ? 0 .. $n - 1 : (@sign, map { int rand $n } 1 .. 120);

cmp_ok($at_sign, '>', length $sign, 'each byte of the signature is edited');

for my $at (@at) {
    my $edited = $good;

    substr($edited, $at, 1) ^= chr(1 << int rand 8);
    substr($edited, 12, 4) = pack 'V',
        crc32c(substr($edited, 0, 12) . substr($edited, 16));
    next if $edited eq $good;

    $m->set(key('/k'), $edited);
    my $r = $h->get('/k');
    $bad++, diag("byte $at: " . status($r))
        if $r->status() != 200 || $r->header('X-Cache') eq 'HIT';
    page_wait($m, key('/k'));
}

is($bad, 0, 'no edit is served');

for my $edit ([expire => 4e12], [flags => 1], [status => 201],
    [headers => "X: y\r\n"], [body => 'other'], [ext => ''],
    [ext => "\x03\0\x20\0\0\0" . "\0" x 32], [created => 1])
{
    my %e = (%{ page_decode($good) }, @$edit);
    $e{total} = length $e{body};
    $m->set(key('/k'), page_encode(%e));
    isnt($h->get('/k')->header('X-Cache'), 'HIT', "edited: $edit->[0]");
    page_wait($m, key('/k'));
}

$m->set(key('/k'), $good);
is(status($h->get('/k')), 'HIT fresh', 'the one that was not edited');

# a page in parts: each of them is signed, for this page and place alone

for my $n (1, 2) {
    $o->set("/large$n", { headers => ['Cache-Control' => 'max-age=60'],
        body => join '', map { "page $n, line $_\n" } 1 .. 150000 });
}
my $large = $h->get('/large1')->body();
my $head = stored('/large1');
my $e = page_decode($head);
cmp_ok($e->{parts}, '>', 4, 'a large page is stored in parts');
is(substr($e->{ext}, 0, 6), "\x03\x00\x20\x00\x00\x00", 'its head is signed');

my @keys = map { sprintf '%s:part:%016x:%d', key('/large1'), $e->{generation},
    $_ } 0 .. $e->{parts} - 1;
my @parts = map { $m->get($_) } @keys;
is(part_decode($parts[$_])->{size}, 64, "part $_ is signed") for 0 .. $#parts;

for (@h) {
    my $r = $_->get('/large1');
    is(status($r), 'HIT fresh', 'served');
    ok($r->body() eq $large, 'as it is');
}

sub rebuilt {
    my ($what) = @_;
    my $r = $other->get('/large1');
    is(status($r), 'MISS unsigned', "$what: a miss");
    ok($r->body() eq $large, "$what: the origin answers");
    ok(wait_for(sub { status($h->get('/large1')) eq 'HIT fresh' }),
        "$what: stored again");
    $head = page_wait($m, key('/large1'));
    $e = page_decode($head);
    @keys = map { sprintf '%s:part:%016x:%d', key('/large1'),
        $e->{generation}, $_ } 0 .. $e->{parts} - 1;
    @parts = map { $m->get($_) } @keys;
}

my $part = part_decode($parts[0]);

for my $edit (['another text', data => 'x' x $part->{len}],
    ['no signature', more => '', size => 32],
    ['an empty one', more => "\0" x 32])
{
    $m->set($keys[0], part_encode(%{ part_decode($parts[0]) },
        @$edit[1 .. $#$edit]));
    rebuilt($edit->[0]);
}

# each byte of a part's signature

{
    my $wrong = '';

    for my $i (0 .. 31) {
        my $bytes = part_decode($parts[0])->{more};

        substr($bytes, $i, 1) ^= chr(1 << int rand 8);
        $m->set($keys[0], part_encode(%{ part_decode($parts[0]) },
            more => $bytes));

        my $r = $h->get('/large1',
            headers => { 'Cache-Control' => 'only-if-cached' });

        $wrong .= " $i: " . $r->status() if $r->status() != 504;
        $m->set($keys[0], $parts[0]);
    }

    is($wrong, '', 'each byte of the signature of a part');
    is(status($h->get('/large1')), 'HIT fresh', 'and the part that was signed');
}

my $second = part_decode($parts[1]);
$m->set($keys[0], part_encode(%$second, n => 0));
rebuilt('another part in its place');

$h->get('/large2');
my $e2 = page_decode(stored('/large2'));
my $p2 = $m->get(sprintf '%s:part:%016x:0', key('/large2'),
    $e2->{generation});
$m->set($keys[0], part_encode(%{ part_decode($p2) },
    generation => $e->{generation}));
rebuilt("another page's part");

$m->set(key('/large1'), page_encode(%$e, total => $e->{total} - 1));
rebuilt('another length');

# of a part that is sent later the answer cannot be taken back: it ends there

$m->set($keys[-1], part_encode(%{ part_decode($parts[-1]) },
    data => 'x' x part_decode($parts[-1])->{len}));
$r = finish(start_get($h->port(), '/large1'));
unlike($r->body() // '', qr/x/, 'nothing that is forged is sent');
isnt($r->body() // '', $large, 'and not all of it');
ok(wait_for(sub { status($r = $h->get('/large1')) eq 'HIT fresh' }),
    'it is built anew');
ok($r->body() eq $large, 'as it was');

# lists of variants

sub variant { $_[0]->get($_[1], headers => { 'X-A' => $_[2] }) }

for my $n (1, 2) {
    variant($h, '/vary', $n);
    ok(wait_for(sub { status(variant($_, '/vary', $n)) eq 'HIT fresh' }),
        "variant $n on " . $_->name()) for @h;
}

my $list = page_decode($m->get(key('/vary')));
is(substr($list->{ext}, 0, 6), "\x03\x00\x20\x00\x00\x00",
    'the list is signed');

$h->get('/vary', method => 'PURGE');
is(page_decode($m->get(key('/vary')))->{purges}, 1, 'and can be purged');
is(status(variant($other, '/vary', 1)), 'STALE purged', 'it is signed again');
ok(wait_for(sub { status(variant($other, '/vary', 1)) eq 'HIT fresh' }),
    'and its variant rebuilt');

# a forged list would lead to others' variants, or bring back purged ones

my $signed = $m->get(key('/vary'));

for my $edit (['fewer purges', purges => 0], ['other names', ext =>
    substr($list->{ext}, 0, 38) . "\x01\0\x03\0\0\0x-b"],
    ['no signature', ext => substr $list->{ext}, 38],
    ['another body', body => 'x' x 16, total => 16])
{
    my ($what, @edit) = @$edit;
    $v->mark();
    $m->set(key('/vary'), page_encode(%{ page_decode($signed) }, @edit));
    my $r = variant($h, '/vary', 2);
    is(status($r), 'MISS unsigned', "list: $what: a miss");
    is($r->body(), 'for 2', "list: $what: the origin answers");
    ok(wait_for(sub { status(variant($other, '/vary', 2)) eq 'HIT fresh' }),
        "list: $what: and makes a new one");
    is($v->count('/vary'), 1, "list: $what: asked once");
    $signed = $m->get(key('/vary'));
}

# forged while another variant is built: it is not signed with that

$v->hold_path('/vary');
my $busy = start_get($h->port(), '/vary', headers => { 'X-A' => 3 });
$v->wait_requests(2, '/vary');
$m->set(key('/vary'), page_encode(%{ page_decode($signed) },
    body => 'forged forged forged forged forg', total => 32));
$v->release('/vary');
is(finish($busy)->body(), 'for 3', 'list: forged while one is built');
ok(wait_for(sub { status(variant($other, '/vary', 3)) eq 'HIT fresh' }),
    'list: which is stored nevertheless');
unlike(page_decode($m->get(key('/vary')))->{body}, qr/forged/,
    'list: in one that was not');

$m->set(key('/vary2'), page_encode(%{ page_decode($signed) },
    key => key('/vary2')));
is(status(variant($h, '/vary2', 1)), 'MISS unsigned', "list: another page's");

# Python

SKIP: {
    my ($python) = grep { `$_ -c 'import pylibmc' 2>&1`; $? == 0 }
        qw{ /usr/bin/python3 python3 };

    skip('no pylibmc', 5) if !$python;

    my $tool = "$python -B $FindBin::Bin/../misc/mcds_page.py --server"
        . ' 127.0.0.1:' . $m->port() . ' --hmac-key ' . $t->dir();

    is(`$tool/new.key --body get '@{[key('/a')]}'`, $h->get('/a')->body(),
        'Python knows its signature');
    `$tool/old.key --body get '@{[key('/a')]}' 2>&1`;
    is($? >> 8, 2, 'and that of another key');
    $t->write_file('body', 'signed by Python');
    ok(`$tool/new.key --body get '@{[key('/large1')]}'` eq $large,
        'and those of parts');
    `$tool/new.key put '@{[key('/py')]}' @{[$t->dir()]}/body`;
    is($h->get('/py')->body(), 'signed by Python', 'and can sign');
    is($o->count('/py'), 0, 'the origin was not asked');
}

# configuration

my $dir = $t->dir();

like($t->conf_error(location => "mcds_cache_hmac_key $dir/none;"),
    qr/open\(\) "$dir\/none" failed/, 'no such file');
like($t->conf_error(location => "mcds_cache_hmac_key $dir/short.key;"),
    qr/key in "$dir\/short.key" must be 16 to 4096 bytes long/, 'too short');

$t->done();
