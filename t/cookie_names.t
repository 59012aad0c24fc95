#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_session_cookies finds each session that an application finds: lines
# made at random are read by PHP, by Python and by the rules of its frameworks,
# and by Perl; what is a session to one of them is one to the cache.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my ($fpm) = grep { -x } </usr/sbin/php-fpm*>;

plan(skip_all => 'PHP-FPM (php-fpm) is not installed') if !$fpm;

my $m = $t->memcached('m');
my $dir = $t->dir();

# what the cache is told, and the same for what an application has read

my $names = 'SID wp-pass_* *_session';
my $session = qr/^(?:SID|wp-pass_.*|.*_session)$/s;


# PHP answers with the names that it has read

mkdir "$dir/www";
$t->write_file('www/index.php', <<'EOT');
<?php echo implode(' ', array_map(fn($k) => bin2hex($k), array_keys($_COOKIE)));
EOT

$t->write_file('fpm.conf', <<"EOT");
[global]
error_log = $dir/fpm.log
daemonize = no

[www]
@{[$> == 0 ? "user = nobody\ngroup = nogroup" : '']}
listen = $dir/php.sock
listen.mode = 0666
pm = static
pm.max_children = 2
EOT

my $pid = $t->helper('fpm', sub { -S "$dir/php.sock" }, $fpm, '-n', '-R', '-y',
    "$dir/fpm.conf");

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Reason \$mcds_cache_reason always;
    keepalive_requests 1000000;
    mcds_cache on;
    mcds_cache_session_cookies $names;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            fastcgi_param SCRIPT_FILENAME $dir/www/index.php;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_pass unix:$dir/php.sock;
        }
    }
}
EOT


# Python: http.cookies; Django; Werkzeug, new and old; WebOb; old Rack

$t->write_file('names.py', <<'EOT');
import re, sys
from http.cookies import SimpleCookie, CookieError
from urllib.parse import unquote_plus

legal = r"[\w\d" + re.escape("~!@#$%^&*()_+=-`.?|:/(){}<>'") + "]"
webob = re.compile('(%s+?)' % legal + r'\s*=\s*'
    r'("(?:\\"|.)*?"|(?:%s|[,\[\]])*)' % legal)
old = re.compile(r'(?P<key>[^=;]+)(?:\s*=\s*'
    r'(?P<val>"(?:[^\\"]|\\.)*"|(?:.*?)))?\s*;', re.S)
new = re.compile(r'([^=;]*)(?:\s*=\s*([^;]*))?\s*;\s*', re.A)

def library(text):
    try:
        return list(SimpleCookie(text).keys())
    except CookieError:
        return []

def names(line):
    yield from library(line.decode('latin-1'))
    for text in line.decode('latin-1'), line.decode(errors='replace'):
        for chunk in text.split(';'):
            yield chunk.split('=', 1)[0].strip() if '=' in chunk else ''
        yield from (m[0].strip() for m in new.findall(text + ';'))
        yield from (m[0].strip() for m in old.findall(text + ';'))
        yield from (m[0].strip() for m in webob.findall(text))
        for pair in re.split('[;,] *', text):
            yield unquote_plus(pair.split('=', 1)[0])

for line in sys.stdin:
    line = bytes.fromhex(line.strip())
    print(' '.join(k.encode().hex() for k in set(names(line)) if k))
EOT

$t->seed(16);

my @words = (qw/ SID sid wp-pass_x wp-pass.x a_session a.session a b x SI D
    %53ID %5f %20 %00 %09 + . = = = ; ; ; /, ' ', ' ', ',', '"', '"', '\\',
    '[', ']', "\t", "\x0b", "\x0c", "\x01", "\x1c", "\x7f", "\x85", "\xa0",
    "\xc2\xa0", "\xe3\x80\x80", "\xef\xbb\xbf", qw/ $ { ( : & /);

my $n = $t->size(2000, 40_000);
my @lines = map { join '', map { $words[rand @words] } 1 .. 2 + rand 10 }
    1 .. $n;
s/^[ \t]+//, s/[ \t]+$// for @lines;

my $c = conn($h->port());
my (@reason, %read);
my $answered = 0;

for my $line (@lines) {
    my $r = $c->get('/', headers => [Cookie => $line]);
    $answered += ($r->status() == 200);
    push @reason, $r->header('X-Reason') // '';
    push @{$read{PHP}}, [map { pack 'H*', $_ } split ' ', $r->body()];
}

$t->write_file('lines', join '', map { unpack('H*', $_) . "\n" } @lines);
open my $fh, "python3 $dir/names.py < $dir/lines |" or die "python3: $!\n";

while (<$fh>) {
    push @{$read{Python}}, [map { pack 'H*', $_ } split];
}

close $fh or die "python3: $?\n";

if (eval { require CGI::Cookie }) {
    push @{$read{Perl}}, [keys %{{CGI::Cookie->parse($_)}}] for @lines;
}

my $sessions = grep { $_ eq 'session' } @reason;

is($answered, $n, "$n lines, all answered");
cmp_ok($n - $sessions, '>', $n / 10, 'many lines are none');

for my $who (sort keys %read) {
    is(scalar @{$read{$who}}, $n, "$who has read all lines");

    my @found = grep { grep { /$session/ } @{$read{$who}[$_]} } 0 .. $n - 1;
    my @missed = map { $lines[$_] =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ger
        . " ($reason[$_])" } grep { $reason[$_] ne 'session' } @found;

    cmp_ok(scalar @found, '>', $n / 100, "$who has found sessions");
    is(join("\n", @missed), '', "... all of which are sessions to the cache");
}

kill 'TERM', $pid;
waitpid($pid, 0);
$t->gone($pid);

$t->done();
