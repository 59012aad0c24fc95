#!/usr/bin/perl

# Copyright (C) mcds authors

# The live page of mcds_status is what lies in src/status/page, in one answer
# that needs nothing else and that lets nothing else in.  What it shows is the
# matter of t/browser.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $dir = "$FindBin::Bin/../src/status/page";
my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /status { mcds_status; }
        location /a/b { mcds_status; gzip on; gzip_http_version 1.0; }
        location = /html { mcds_status format=html; }
    }
}
EOT

my %file = map { $_ => slurp("$dir/$_") }
    qw/ page.html page.css parts.js hosts.js page.js /;

my $res = $h->get('/status?format=html');

is($res->status(), 200, 'the page');
is($res->header('Content-Type'), 'text/html; charset=utf-8', 'its type');
is($res->header('Cache-Control'), 'no-store', 'is not stored');
is($res->header('X-Content-Type-Options'), 'nosniff', 'is what it says');
is($res->header('Referrer-Policy'), 'no-referrer', 'tells nobody of itself');
is($res->header('Content-Length'), length $res->body(), 'has its length');
cmp_ok(length $res->body(), '<', 60000, 'is small');

# what may run is what has the number of this answer

my $policy = $res->header('Content-Security-Policy');
my ($nonce) = $policy =~ /script-src 'nonce-([A-Za-z0-9+\/]{24})';/;

like($policy, qr/^default-src 'none';/, 'nothing is allowed');
like($policy, qr/; style-src 'nonce-\Q$nonce\E';/, 'but its style');
like($policy, qr/; connect-src 'self';/, 'and to ask where it is from');
like($policy, qr/; base-uri 'none'; form-action 'none'/, 'nothing else');
unlike($policy, qr/unsafe|\*|https?:/, 'nor more');

my ($other) = $h->get('/status?format=html')
    ->header('Content-Security-Policy') =~ /nonce-([^']+)/;
isnt($other, $nonce, 'another answer, another number');

# byte by byte

my $want = $file{'page.html'};

$want =~ s{<link rel="stylesheet" href="(.*?)">}
    {<style nonce="$nonce">\n$file{$1}</style>};
$want =~ s{<script src="(.*?)"></script>}
    {<script nonce="$nonce">\n$file{$1}</script>}g;

ok($res->body() eq $want, 'it is what the files are');

# its links are those to formats that are to be had

my @links = $want =~ /<a id="\w+" href="(.*?)"/g;
is("@links", '?format=json ?format=prometheus', 'its links');

my @fixed = $h->get('/html')->body() =~ /<a id="\w+" href="(.*?)"/g;
is("@fixed", '?format=json', 'those of a fixed format');

for my $link ((map { "/status$_" } @links), map { "/html$_" } @fixed) {
    is($h->get($link)->status(), 200, "$link can be had");
}

# alone

unlike($want =~ s{http://www\.w3\.org/2000/svg|nonce="\Q$nonce\E"}{}gr,
    qr{https?://|//\w}, 'names no other place');
unlike($want, qr/<[^>]*\s(?:src|on\w+|style)=/i, 'no handler in its tags');
unlike($file{$_}, qr/innerHTML|outerHTML|insertAdjacent|document\.write
    |\beval\b|new\s+Function|DOMParser|createContextualFragment/x,
    "$_ makes no HTML of texts") for 'parts.js', 'hosts.js', 'page.js';
unlike($file{'page.css'}, qr/\@import|url\(/, 'its style loads nothing');
like($want, qr/<html lang="en">.*<title>.*<h1>/s, 'a document');

# in other ways

my $head = http_head($h->port(), '/status?format=html');
is($head->status() . $head->body(), '200', 'HEAD');
is($head->header('Content-Length'), length $want, 'HEAD: the same length');

$res = $h->get('/a/b?x=1&format=html', version => '1.0');
is(length $res->body(), length $want, 'another place, HTTP/1.0');

$res = $h->get('/a/b?format=html', headers => { 'Accept-Encoding' => 'gzip' });
is($res->header('Content-Encoding'), 'gzip', 'gzip');
cmp_ok(length $res->body(), '<', 21000, 'makes it smaller');

is(http_post($h->port(), '/status?format=html', 'x')->status(), 405, 'POST');

# who asks for what

for (['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'text/html'], ['*/*', 'application/json'],
    ['application/json', 'application/json'], ['', 'application/json'])
{
    my ($accept, $type) = @$_;

    $res = $h->get('/status',
        headers => length $accept ? { Accept => $accept } : {});
    like($res->header('Content-Type'), qr/^\Q$type\E/, "Accept: $accept");
}

# a page that was opened with user and password in its address asks without
# them, as fetch wants it: it adds them itself

SKIP: {
    skip 'no node', 1 if !$t->has('node');

    my $node = $t->write_file('node.js', <<'EOJ');
const fs = require('fs');
const vm = require('vm');

// whatever a script does with the document leads to nothing

const nothing = new Proxy(function () {}, {
    get: (target, name) => name === Symbol.toPrimitive ? () => ''
        : name === Symbol.iterator ? function* () {} : nothing,
    apply: () => nothing, construct: () => nothing, set: () => true,
});

const elements = {};
const element = (id) => elements[id] || (elements[id] = new Proxy({}, {
    get: (target, name) => name in target ? target[name] : nothing }));
const document = new Proxy({ getElementById: element, hidden: true }, {
    get: (target, name) => name in target ? target[name] : nothing });

const context = vm.createContext({ URL, AbortController, setTimeout,
    clearTimeout, document, ResizeObserver: nothing,
    location: new URL('http://joe:secret@a.test:8080/status?token=t#x'),
    fetch: async (url) => {
        new Request(url);
        console.log(String(url));
        return { ok: false, status: 500 };
    } });

for (const name of process.argv.slice(2)) {
    vm.runInContext(fs.readFileSync(name, 'utf8'), context, name);
}

vm.runInContext("new Host({ name: 'b', uri: '/b' }).ask()", context);
console.log(String(elements.json.href));
EOJ

    is(join("\n", sort split /\n/, $t->run('node', $node,
        map { "$dir/$_" } qw/ parts.js hosts.js page.js /)),
        "http://a.test:8080/b?format=json\n"
        . "http://a.test:8080/status?token=t&format=json\n"
        . 'http://a.test:8080/status?token=t&format=json&memory=1',
        'no password in what it asks for');
}

$t->done();


sub slurp {
    my ($path) = @_;

    open my $fh, '<:raw', $path or die "$path: $!\n";
    local $/;

    return scalar <$fh>;
}
