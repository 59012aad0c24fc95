#!/usr/bin/perl

# Copyright (C) mcds authors

# A key may hold what a client sent, line feeds and escapes among it: none of
# that comes into the error log as it is.

use warnings;
use strict;

use Test::More;

use Digest::SHA qw/ sha1_hex /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->fake('m', sub {
    my ($f, $c, $line) = @_;
    return "SERVER_ERROR object too large for cache\r\n"
        if $line =~ /^ms \S+ (\d+)/ && $1 > 16_000;
    return;
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/large' => { body => 'x' x 70_000 } });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location ~ ^/(\w+) {
            mcds_cache_key page:$uri;
            mcds_cache_lock_age 2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%/$1;
        }
    }
}
EOT

my $forged = "\n2037/01/01 00:00:00 [alert] 1#1: forged";
my @unsafe = ("$forged\n", "\e[2J\e[31m", "\r\b\x7f\x9b1m\xff");
my @odd = (@unsafe, '"%V"');

# all lines are nginx's own, and of bytes that do no harm

sub clean {
    my ($what) = @_;
    my $log = $h->log();

    is(join('', $log =~ /([^\x20-\x7e\n])/g), '', "$what: no such byte");
    is(scalar(grep { !m{^20\d\d/\d\d/\d\d [\d:]+ \[\w+\] \d+\#\d+: }
        || m{^2037/01/01} } split /\n/, $log), 0, "$what: no such line");
}

sub escape { $_[0] =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger }
sub mckey { '<sha1:' . sha1_hex("<>$_[0]") }

for my $i (0 .. $#odd) {
    my $text = $odd[$i];

    # something that is no page

    my $name = $text =~ /^"/ ? "<>page:/item$text" : mckey("page:/item$text");

    $h->get('/item' . escape($text));
    page_wait($m, $name) or die "no item $name\n";
    $m->set($name, 'no page');
    is($h->get('/item' . escape($text))->header('X-Cache'), 'MISS',
        "text $i, item: not used");
    ok($h->wait_log(qr/item of page "\Q$name\E" is not used/),
        "text $i, item: logged");
    clean("text $i, item");

    # a page that is too large

    $name =~ s/item/large/ or $name = mckey("page:/large$text");
    $h->get('/large' . escape($text));
    ok($h->wait_log(qr/page "\Q$name\E" of \d+ bytes is too large/),
        "text $i, large: logged");
    clean("text $i, large");
}

# a lock that is lost

$o->hold_path('/lock');
my @p = map { start_get($h->port(), '/lock' . escape($_)) } @unsafe;
$o->wait_requests(scalar @p, '/lock');
$m->delete(mckey("page:/lock$_:lock")) for @unsafe;
ok(wait_for(sub { $h->log_count(qr/lock of "<sha1:\w+" was lost/) == @p },
    5 * $t->slow()), 'locks: logged');
clean('locks');

$o->release('/lock');
finish($_) for @p;
clean('all');

$t->done();
