#!/usr/bin/perl

# Copyright (C) mcds authors

# All pages of a tag, of a host, or all of them are purged by one record; what
# was purged does not come back when that record is lost; pages without tags
# cost nothing more, and those with tags one batch.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/too many or too long tags|purge failed/);

my $m = $t->memcached('m');
my $f = $t->fake('f');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($tags) = $req->{uri} =~ /[?&]tags=([^&]*)/;
    return { headers => ['Cache-Control' => 'max-age=60',
        defined $tags ? ('Cache-Tag' => $tags =~ s/%20/ /gr) : ()],
        body => "answer $req->{k}" };
});

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    mcds_use main;
    mcds_cache on;
    mcds_cache_tag $upstream_http_cache_tag;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header Host $host;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /more {
            mcds_cache_tag $upstream_http_cache_tag more;
            mcds_cache_tag site-7;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /none {
            mcds_cache_tag off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fake/ {
            mcds_cache fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /fake/none {
                mcds_cache_tag off;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

my $h = $h[0];

sub status { join ' ', $_[0]->header('X-Cache') // 'none', $_[0]->body() }
sub purge { decode_json($h->get("/purge?$_[0]")->body()) }
sub stored { page_wait($m, key($_[0])) or die $_[0] }

sub fill {
    for my $uri (@_) {
        $h->get($uri);
        stored($uri);
        $_->get($uri) for @h;
    }
}

# one record for all of a tag

my @a = map { "/a$_?tags=a,b$_" } 1 .. 3;
fill(@a, '/b?tags=b', '/plain', '/none');
like(page_ext(page_decode($m->get(key('/a1?tags=a,b1'))), 2),
    qr/^.{8}all host:localhost tag:a tag:b1$/s,
    'what a page has of it');
is(page_ext(page_decode($m->get(key('/none'))), 2), undef, 'off: nothing');

my $sets = $m->stats()->{cmd_set};
is_deeply(purge('tag=a'), { mode => 'invalidate', purged => [{ tag => 'a' }] },
    'purged');
cmp_ok($m->stats()->{cmd_set} - $sets, '<=', 2, 'by no more than a record');

for my $uri (@a) {
    like(status($h[1]->get($uri)), qr/^(?:STALE|UPDATING) answer 1$/,
        "$uri is stale");
    ok(wait_for(sub { status($h[1]->get($uri)) eq 'HIT answer 2' }),
        "$uri is rebuilt");
    is(status($h->get($uri)), 'HIT answer 2', "$uri is new on the other host");
    is($o->count($uri), 2, "$uri was built once");
}

is(status($_->get('/b?tags=b')), 'HIT answer 1', 'not another tag') for @h;
is(status($_->get('/plain')), 'HIT answer 1', 'nor one without') for @h;

# deleted

purge('tag=b&mode=delete');
is(status($h[1]->get('/b?tags=b')), 'MISS answer 2', 'deleted');
stored('/b?tags=b');
is(status($h->get('/b?tags=b')), 'HIT answer 2', 'and stored');

fill('/d?tags=d');
purge('tag=d&mode=delete');
purge('tag=d');
is(status($h->get('/d?tags=d')), 'MISS answer 2',
    'a deletion stays one when the tag is invalidated, too');

# of the configuration

fill('/more?tags=a%20x');
purge('tag=site-7&mode=delete');
is(status($h->get('/more?tags=a%20x')), 'MISS answer 2', 'by one of those');
stored('/more?tags=a%20x');
purge('tag=x&mode=delete');
is($h->get('/more?tags=a%20x')->header('X-Reason'), 'purged', 'and others');
stored('/more?tags=a%20x');

# hosts, and all

fill('/host', '/none?1');
$h->get('/host', host => 'other.example') for 1, 2;
page_wait($m, '<>http://other.example/host');
purge('host=LOCALHOST&mode=delete');
is(status($h->get('/host')), 'MISS answer 3', 'a host');
is($h->get('/host', host => 'other.example')->header('X-Cache'), 'HIT',
    'not another one');
is(status($h->get('/none?1')), 'HIT answer 2', 'nor where there are no tags');
stored('/host');
purge('all&mode=delete');
is($h->get('/host')->header('X-Cache'), 'MISS', 'all');
is($h->get('/host', host => 'other.example')->header('X-Cache'), 'MISS',
    'of all hosts');

# what is lost is no reason to show what was purged

for my $lost ('<mcds:tag:l', '<mcds:all', '<mcds:host:localhost') {
    my $uri = '/l' . ($lost =~ s/\W//gr) . '?tags=l';
    fill($uri);
    purge('tag=l');
    $m->delete($lost);
    is(status($h[1]->get($uri)), 'MISS answer 2', "$lost is lost");
    stored($uri);
    is(status($h->get($uri)), 'HIT answer 2', "$lost is made again");
}

fill('/counter?tags=c');
my $n = $m->get('<mcds:purges');
$m->delete('<mcds:purges');
is(status($h->get('/counter?tags=c')), 'HIT answer 1', 'the counter is lost');
cmp_ok($m->get('<mcds:purges'), '>', $n, 'and is not behind what it was');
purge('tag=c&mode=delete');
is(status($h->get('/counter?tags=c')), 'MISS answer 2', 'purged after that');
stored('/counter?tags=c');

$m->set('<mcds:tag:c', 'garbage');
purge('tag=other');
like(status($h->get('/counter?tags=c')), qr/^STALE answer 2$/,
    'a record that is none');
$m->delete('<mcds:tag:c');

# the cost

sub hit {
    my ($uri) = @_;

    $h->get($uri) for 1 .. 3;
    wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' });
    $h->get($uri);
    $f->mark();
    is($h->get($uri)->header('X-Cache'), 'HIT', "$uri is a hit");

    # but for the greetings of a worker that had no connection yet

    return grep { $_->{cmd} !~ /^(?:version|mn)$/ } $f->log();
}

my @log = hit('/fake/none');
is(@log, 1, 'one command without tags') or diag(explain(\@log));

@log = hit('/fake/a?tags=a,b');
is_deeply([sort map { $_->{key} } @log], ['<>http://localhost/fake/a?tags=a,b',
    '<mcds:all', '<mcds:host:localhost', '<mcds:purges', '<mcds:tag:a',
    '<mcds:tag:b'], 'what a page with tags needs');
is(scalar(keys %{ { map { ("$_->{conn} $_->{read}" => 1) } @log } }), 1,
    'all in one batch');

# no answer

is($h->get('/purge?tag=')->status(), 400, 'no tag');
is($h->get('/many?tags=' . join ',', 1 .. 200)->header('X-Reason'), 'tags',
    'too many of them');
is($h->get('/long?tags=' . 'x' x 1025)->header('X-Reason'), 'tags',
    'too long');
is($h->get('/odd?tags=,,a,%20,a')->header('X-Reason'), 'absent', 'odd ones');
stored('/odd?tags=,,a,%20,a');
like(page_decode($m->get(key('/odd?tags=,,a,%20,a')))->{ext},
    qr/localhost tag:a$/, 'each once');

for (['a; mcds_cache_tag off', 'is "off" beside tags'],
    ['off; mcds_cache_tag a', 'is "off" beside tags'],
    ['off; mcds_cache_tag on', 'is "off" beside tags'],
    ['off; mcds_cache_tag off', 'is duplicate'],
    ['off news', 'is "off" beside tags'], ['news off', 'is "off" beside tags'],
    ['on off', 'is "off" beside tags'], ['on news', 'is "on" beside tags'],
    ['news on', 'is "on" beside tags'])
{
    my ($text, $message) = @$_;

    like($t->conf_error(location => "mcds_cache_tag $text;"),
        qr/"mcds_cache_tag" directive $message in /, $text);
}

# an item with more tags than anybody may give: not a page

for my $n (8190, 8200) {
    my $list = substr join(' ', map { 'tag:' . $_ x 1000 } 'a' .. 'i'), 0, $n;
    my $key = "<>http://localhost/long/$n";

    $m->set($key, page_encode(key => $key, body => 'from an application',
        ext => pack('vVQ<', 2, 8 + length($list), $m->get('<mcds:purges'))
            . $list,
        expire => int(time() * 1000) + 600000));

    is($h[0]->get("/long/$n")->header('X-Cache'), $n == 8190 ? 'HIT' : 'MISS',
        length($list) . ' bytes of tags');
}

$t->done();
