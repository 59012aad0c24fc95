#!/usr/bin/perl

# Copyright (C) mcds authors

# No memory while an array is changed, in each place: a change that the response
# reports as done is done.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/malloc|posix_memalign|memory|refused an allocation/);

$t->leave('sanitizers have allocations of their own') if $t->watched();

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT', memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_api_methods GET POST PUT PATCH;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /unique { mcds_array_api $uri unique; }
        location / { mcds_array_api $uri; }
    }
}
EOT

my $memory = Test::Mcds::Memory->of($h, ($h->workers())[0]);
my @types = (headers => { 'Content-Type' => 'application/json' });

# more lines than a JSON array has room for at first

my $lines = join '', map { "$_\n" } 1 .. 8, '"%s"';

for my $case (['PATCH', '/patch', '{"add": ["%s"], "remove": ["%s-"]}'],
    ['PATCH', '/unique/patch', '{"add": ["%s"]}'], ['PUT', '/put', '["%s"]'],
    ['POST', '/unique/post', '"%s"'],
    ['POST', '/lines', $lines, 'application/x-ndjson'])
{
    my ($method, $uri, $body, $type) = @$case;
    my ($n, %seen, @wrong) = 0;

    # there is something to compare with

    $h->get($uri, method => 'PUT', body => '["first"]', @types);

    while (++$n < 200) {
        my $v = "value$n";

        $memory->fail($n);
        my $r = $h->get($uri, method => $method, body => $body =~ s/%s/$v/gr,
            $type ? (headers => { 'Content-Type' => $type }) : @types);
        my $failed = $memory->now()->{failed};
        $memory->fail(0);

        my $status = $r->status() // 'none';
        my $there = $h->get($uri)->body() =~ /"$v"/ ? 1 : 0;

        $seen{$status}++;
        push @wrong, "$n: $status, and it is " . ($there ? '' : 'not ')
            . 'there' if $status eq '204' && !$there;

        last if !$failed;
    }

    note("$method $uri: ", join ', ', map { "$seen{$_} $_" } sort keys %seen);
    cmp_ok($n, '>', 10, "$method $uri: many are refused");
    cmp_ok($n, '<', 200, "$method $uri: each of them");
    is(join('; ', @wrong), '', "$method $uri: the responses are true");
}

$t->done();
