#!/usr/bin/perl

# Copyright (C) mcds authors

# The published vectors, t/vectors/servers.tsv: libmemcached and nginx's own
# "hash" say the same, and a counter lies on the server that they name.

use warnings;
use strict;

use Fcntl qw/ :flock /;
use IO::Socket::IP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

# the addresses are fixed, which is their point: one test at a time has them

my $dir = '/tmp/mcds-vectors';

mkdir $dir;
open my $lock, '>', "$dir/lock" or plan(skip_all => "$dir/lock: $!");
flock $lock, LOCK_EX;

my $t = Test::Mcds->new()->not_in('connections nofile',
    'many servers have connections')->needs('cc', 'Compress::Raw::Zlib');

my $tsv = do {
    open my $fh, '<', "$FindBin::Bin/vectors/servers.tsv" or die "$!\n";
    local $/;
    <$fh>
};

my $made = $t->run("$FindBin::Bin/../misc/vectors");

ok($made eq $tsv, 'libmemcached says the same')
    or diag(substr $made, 0, 1000);

# by list of servers

my (@distributions, @lists, %rows);

for (split /\n/, $tsv) {
    my ($servers, $key, @n) = split /\t/;

    @distributions = @n if /^# servers/;
    next if /^#/;

    push @lists, $servers if !$rows{$servers};
    push @{$rows{$servers}}, [$key, @n];
}

is("@distributions", 'modula modula_crc ketama consistent nginx_consistent',
    'all distributions');

my (%m, %missing);

for my $address (map { s/=\d+$//r } map { split / / } @lists) {
    next if $m{$address} || $missing{$address};

    my $name = 'm' . (1 + keys %m);

    if ($address =~ /^unix:(.*)/) {
        my $path = $1;

        $m{$address} = $t->memcached($name, unix => 1);
        unlink $path;
        symlink "$t->{dir}/$name.sock", $path or die "$path: $!\n";
        next;
    }

    my ($host, $port) = $address =~ /^\[?(.*?)\]?:(\d+)$/;

    $host = '127.0.0.1' if $host eq 'localhost';

    my $s = IO::Socket::IP->new(LocalHost => $host, LocalPort => $port,
        Listen => 1, ReuseAddr => 1);

    if (!$s) {
        diag("$address cannot be had: $@");
        $missing{$address} = 1;
        next;
    }

    close $s;

    $host = "[$host]" if $host =~ /:/;
    $m{$address} = $t->memcached($name, args => ['-l', "$host:$port"]);
}

my ($pools, $locations) = ('', '');
my %own = (modula_crc => 'hash $arg_k', nginx_consistent =>
    'hash $arg_k consistent');

for my $n (0 .. $#lists) {
    for my $distribution (@distributions) {
        my $pool = "p$n-$distribution";
        my @servers = map { "server $_;" =~ s/=(\d+)/ weight=$1/r }
            split / /, $lists[$n];

        $pools .= "mcds_pool $pool { distribution $distribution; "
            . "timeout 2s; @servers }\n";
        $locations .= "location = /$pool { mcds_use $pool; mcds_counter \$n "
            . "key=\$arg_k; mcds_return \$n; }\n";

        next if !$own{$distribution};

        $pools .= "upstream $pool { $own{$distribution}; @servers }\n";
        $locations .= "location = /own/$pool { set \$memcached_key \$arg_k; "
            . "memcached_pass $pool; memcached_next_upstream off; "
            . "add_header X-Server \$upstream_addr always; }\n";
    }
}

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $pools
    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 100000;
        $locations
    }
}
EOT

for my $n (0 .. $#lists) {
    my @servers = map { s/=\d+$//r } split / /, $lists[$n];
    my @rows = @{$rows{$lists[$n]}};

    SKIP: {
        skip("no address for $lists[$n]", scalar @distributions)
            if grep { $missing{$_} } @servers;

        for my $d (0 .. $#distributions) {
            my $wrong = misplaced("p$n-$distributions[$d]", $d, \@servers,
                \@rows);

            is($wrong, '', "$distributions[$d]: @servers");

            # a name with two addresses counts twice there

            next if !$own{$distributions[$d]}
                || $distributions[$d] eq 'modula_crc' && "@servers" =~ /localh/;

            $wrong = others("own/p$n-$distributions[$d]", $d, \@servers,
                \@rows);

            is($wrong, '', "nginx's own $own{$distributions[$d]}: @servers");
        }
    }
}

unlink map { /^unix:(.*)/ } keys %m;

# the fixed addresses are strangers to it

$t->done(leaks => 0);


# keys that are not where the vectors say

sub misplaced {
    my ($pool, $d, $servers, $rows) = @_;

    $m{$_}->flush() for @$servers;

    my $c = $h->conn();

    my @keys = map { $_->[0] } @$rows;

    while (my @some = splice @keys, 0, 50) {
        $c->request("/$pool?k=$_") for @some;
        $c->response() for @some;
    }

    $c->close();

    # flush_all leaves nothing behind, and each key is made once

    return join ' ', map { "$_->[0]: not on $_->[1 + $d]" }
        grep { $m{$servers->[$_->[1 + $d]]}->mc("mg $_->[0]") !~ /^HD/ } @$rows;
}


# keys that nginx itself asks others for

sub others {
    my ($pool, $d, $servers, $rows) = @_;

    my $c = $h->conn();
    my @wrong;

    for (@$rows) {
        my ($key, $server) = ($_->[0], $servers->[$_->[1 + $d]]);
        my $asked = $c->get("/$pool?k=$key")->header('X-Server') // '';

        $server =~ s/^localhost/127.0.0.1/;
        $asked =~ s/^\[::1\](:\d+)$/127.0.0.1$1/ if $server =~ /^127.0.0.1/;

        push @wrong, "$key: $asked" if $asked ne $server;
    }

    $c->close();

    return "@wrong";
}
