#!/usr/bin/perl

# Copyright (C) mcds authors

# The examples of the documentation are safe to copy.  Where pages of an origin
# are shared, the cookies of sessions are named, and a truncated answer is
# noticed; what shows or changes data is not open to a network.  The table of
# cookies has the names that applications set, and none that all visitors have.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();
my $root = "$FindBin::Bin/..";


# the examples

my %example;

for my $path ("$root/README.md", glob "$root/docs/{*,*/*}.md") {
    my $text = slurp($path);
    my $file = $path =~ s{^\Q$root\E/}{}r;

    while ($text =~ /^```nginx\n(.*?)^```$/msg) {
        $example{"$file:" . (1 + (substr($text, 0, $-[1]) =~ tr/\n//))} = $1;
    }
}

$example{s{^\Q$root\E/}{}r} = slurp($_) for glob "$root/conf-examples/*.conf";

# A complete example that is started beside Debian's nginx cannot listen on port
# 80.  Without "user", it gives the directories of that nginx to "nobody".

for my $name (grep { m{^conf-examples/} } sort keys %example) {
    my ($file) = $name =~ m{/(.*)};

    like($example{$name},
        qr{^#.*systemctl stop nginx; nginx -c /path/to/\Q$file\E$}m,
        "$name: the running nginx is stopped first");
    like($example{$name}, qr/^user www-data;$/m, "$name: Debian's user");
}

cmp_ok(scalar keys %example, '>=', 70, 'examples are there');

for my $name (sort keys %example) {
    my $text = $example{$name} =~ s/#.*//gr;
    my $shared = $text =~ /^[^#]*\bmcds_cache\s+(?!off\b)\w+;/m
        && $text =~ /\b(?:proxy|fastcgi|uwsgi|scgi|grpc)_pass\b/;
    my @missing;

    push @missing, 'mcds_cache_session_cookies'
        if $shared && $text !~ /\bmcds_cache_session_cookies\s/;
    push @missing, 'proxy_http_version 1.1'
        if $shared && $text =~ /\bproxy_pass\b/
        && $text !~ /\bproxy_http_version\s+1\.1;/;
    push @missing, 'proxy_set_header Connection ""'
        if $text =~ /\bproxy_http_version\b/
        && $text !~ /\bproxy_set_header\s+Connection\s+"";/;
    push @missing, 'deny all'
        if $text =~ /\ballow\s/ && $text !~ /\bdeny\s+all;/;
    push @missing, "no network in $1"
        if $text =~ m{\b(allow\s+[\d.]+/(?!32\b)\d+;)};
    push @missing, 'allow and deny beside what shows or changes data'
        if grep {
            !/\b(?:allow|auth_basic|internal|auth_request)\b/
        } grep {
            /\bmcds_(?:status|(?:log|lock|array|purge)_api)\b(?!\s+off)/
            || /\bmcds_(?:table|counter)_api\s[^;]*;.*\bmcds_api_methods\b/s
        } locations($text);

    is(join(', ', @missing), '', $name);
}


# the table of cookies: docs/applications.md has the patterns,
# cookies.tsv real names

my ($table) = slurp("$root/docs/applications.md")
    =~ /^(\| application \| `mcds_cache_session_cookies`.*?)\n\n/ms;
my %pattern = $table =~ s/^.*\n//r =~ /^\| ([^|`]+?) \| `([^`]+)` \|/mg;
my (%name, %location);

for (split /\n/, slurp("$root/t/vectors/cookies.tsv")) {
    my ($application, $kind, $name) = /^([^#\t]+)\t(session|other)\t(\S+)$/
        or next;
    $name{$application}{$name} = $kind;
}

my $any = delete $name{any};

cmp_ok(scalar keys %$any, '>=', 60, 'cookies of all kinds of sites');
is(join(', ', sort keys %name), join(', ', sort keys %pattern),
    'the table and the names are of the same applications');

$location{$_} = '/' . s/\W+/_/gr for keys %pattern;

my $m = $t->memcached('m');
my $o = $t->origin('o', {});
my $h = $t->nginx('h', <<'EOT' =~ s{%%LOCATIONS%%}{join '', map { <<"EOL" }
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    keepalive_requests 1000000;
    mcds_cache on;
    add_header X-Reason $mcds_cache_reason always;
    server {
        listen 127.0.0.1:%%PORT%%;
        %%LOCATIONS%%
    }
}
EOT
        location $location{$_}/ {
            mcds_cache_session_cookies $pattern{$_};
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOL
    sort keys %pattern}er);

my $c = conn($h->port());

for my $application (sort keys %pattern) {
    my %kind = (%$any, %{$name{$application}});

    my @wrong = grep {
        my $is = $c->get("$location{$application}/x",
            headers => [Cookie => "a=b; $_=1"])->header('X-Reason') // '';
        $kind{$_} ne ($is eq 'session' ? 'session' : 'other');
    } sort keys %kind;

    is(join(' ', @wrong), '', "$application: $pattern{$application}");
}

# the recipe has what the table says

my @shop = sort split ' ', $pattern{WooCommerce};

my %found = map { join(' ', sort split) => 1 } grep { /wordpress/ }
    slurp("$root/conf-examples/wordpress.conf")
        =~ /^\s*mcds_cache_session_cookies\s+([^;]+);/mg;

is(join('; ', sort keys %found), "@shop", 'the cookies of WordPress');

$t->done();


# the blocks of locations, without those in them

sub locations {
    my ($text) = @_;
    return $text =~ /\blocation\s[^{]*(\{(?:[^{}]++|(?1))*\})/g;
}
