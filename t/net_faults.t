#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached on another machine, and a network between that is down, silent,
# slow, or loses, doubles and mixes packets: nobody sees an error or a page of
# somebody else, nobody waits for longer than the deadlines, and when the
# network is well memcached is used again.
#
# The other machine is a network namespace, the network a program that reads
# packets on one side and writes them on the other.  All of it is in a namespace
# of the test's own.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $near = '10.93.0.1';
my $far = '10.93.0.2';


# the network, when this file is run for that

package Wire;

use Fcntl ();
use Socket ();

our @ISA = ('Test::Mcds::Talk');

# a device that is a file; TUNSETIFF, IFF_TUN | IFF_NO_PI

sub tun {
    my ($name, $from, $to) = @_;

    open my $fh, '+<', '/dev/net/tun' or return;
    ioctl($fh, 0x400454ca, pack('a16 s x22', $name, 0x1001)) or return;

    for ("address add $from peer $to dev $name", "link set $name up") {
        system('ip', split / /) == 0 or return;
    }

    return $fh;
}


sub run {
    my ($fd, $control, $port) = @_;

    open my $near_tun, '+<&=', $fd or die "$fd: $!\n";
    open my $c, '+<&=', $control or die "$control: $!\n";

    my $far_tun = tun('far', $far, $near) or die "no device: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        exec $ENV{TEST_MEMCACHED_BINARY} // 'memcached', '-u', 'root', '-l',
            $far, '-p', $port, '-U', 0, '-t', 1 or die "no memcached: $!\n";
    }

    my ($how, $p, $more) = ('well', 0, 0);
    my @late;

    srand 5;

    while (1) {
        my $rin = '';
        vec($rin, fileno $_, 1) = 1 for $near_tun, $far_tun, $c;

        @late = sort { $a->[0] <=> $b->[0] } @late if @late > 1;
        my $wait = @late ? $late[0][0] - Time::HiRes::time() : 10;

        select($rin, undef, undef, $wait < 0 ? 0 : $wait);

        if (vec($rin, fileno $c, 1)) {
            sysread($c, my $line, 100) or last;
            ($how, $p, $more) = split ' ', $line;
            @late = ();
            syswrite($c, "ok\n");
        }

        for my $side ([$near_tun, $far_tun], [$far_tun, $near_tun]) {
            my ($in, $out) = @$side;

            next if !vec($rin, fileno $in, 1);
            sysread($in, my $packet, 65536) or next;
            next if $how eq 'loss' && rand(100) < $p;

            my $delay = $how eq 'delay' ? $p + $more * (rand(2) - 1)
                : $how eq 'reorder' && rand(100) < $p ? $more : 0;

            push @late, [Time::HiRes::time() + $delay / 1000, $out, $packet];
            push @late, [$late[-1][0] + rand(0.002), $out, $packet]
                if $how eq 'duplicate' && rand(100) < $p;
        }

        while (@late && $late[0][0] <= Time::HiRes::time()) {
            my $one = shift @late;
            syswrite($one->[1], $one->[2]);
        }
    }

    kill 'KILL', $pid;
    waitpid $pid, 0;
}


# the test's side of it

sub start {
    my ($class, $t) = @_;

    my $self = bless { name => 'far', test => $t, port => $t->port('far') },
        $class;

    my $tun = tun('near', $near, $far) or die "no device: $!\n";

    socketpair($self->{control}, my $c, Socket::AF_UNIX(),
        Socket::SOCK_STREAM(), 0) or die "socketpair: $!\n";

    # these two are for the program

    fcntl($_, Fcntl::F_SETFD(), 0) for $tun, $c;

    $self->{pid} = $t->spawn('far.out', 'unshare', '-n', '--', $^X, $0, 'wire',
        fileno($tun), fileno($c), $self->{port});

    my $end = time() + 10;

    while (!eval { $self->mc('version') =~ /^VERSION/ }) {
        die 'no memcached: ' . $t->read_file('far.out') if time() > $end;
        Time::HiRes::sleep(0.02);
    }

    push @{$t->{servers}}, $self;

    return $self;
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub port { $_[0]{port} }
sub where { return "$far:$_[0]{port}" }


sub set_how {
    my ($self, $how) = @_;

    syswrite($self->{control}, $how);
    sysread($self->{control}, my $ok, 10);
}


sub stop {
    my ($self) = @_;

    return if !$self->{pid};

    $self->hang_up();
    kill 'KILL', -$self->{pid};
    waitpid $self->{pid}, 0;
    $self->{test}->gone(delete $self->{pid});
}

package main;

if (@ARGV && $ARGV[0] eq 'wire') {
    Wire::run(@ARGV[1 .. 3]);
    exit 0;
}

if (!$ENV{MCDS_NET}) {
    plan(skip_all => 'not root') if $> != 0;
    plan(skip_all => 'no /dev/net/tun') if !-w '/dev/net/tun';
    plan(skip_all => 'no network namespaces') if system('unshare', '-n', '--',
        'sh', '-c', 'ip link set lo up 2> /dev/null && ip tuntap add mode tun '
        . 'name mcds 2> /dev/null') != 0;

    $ENV{MCDS_NET} = 1;
    exec 'unshare', '-n', '--', $^X, (map { "-I$_" } @INC), $0;
}

system('ip', 'link', 'set', 'lo', 'up') == 0 or die "no network\n";

my $t = Test::Mcds->new();
my $m = Wire->start($t);

my $timeout = 200 * $t->slow();

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => "page of %u, " x 1000 . "end of %u\n" });

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server          $far:%%PORT_far%%;
        timeout         ${timeout}ms;
        connect_timeout ${timeout}ms;
        fail_timeout    300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$n key=n:\$uri;
            mcds_cache on;
            mcds_cache_key page:\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache \$mcds_cache_status;
            add_header X-Number \$n;
        }
    }
}
EOT

my @uris = map { "/page$_" } 1 .. 6;
my %base = map { $uris[$_] => ($_ + 1) * 1000000 } 0 .. $#uris;
my $seconds = $t->size(0.6, 10);

$m->set("n:$_", $base{$_}) for @uris;

sub works {
    for my $uri (@uris) {
        my $res = $h->get($uri);
        return 0 if $res->header('X-Cache') ne 'HIT'
            || !defined $res->header('X-Number');
    }

    return 1;
}

ok(wait_for(sub { works() }), 'it works');

my @faults = (
    ['the link is down', sub { ip('link set near down') },
        sub { ip('link set near up') }],
    ['all is lost', sub { $m->set_how('loss 100') }],
    ['no route', sub { ip("route del $far"); ip("route add blackhole $far") },
        sub { ip("route del blackhole $far"); ip("route add $far dev near") }],
    ['200 ms, more or less 100', sub { $m->set_how('delay 200 100') }],
    ['5% are lost', sub { $m->set_how('loss 5') }],
    ['30% are doubled', sub { $m->set_how('duplicate 30') }],
    ['25% come later', sub { $m->set_how('reorder 25 5') }],
);

sub ip {
    my ($args) = @_;
    return system("ip $args 2> /dev/null") == 0;
}

for my $fault (@faults) {
    my ($name, $break, $mend) = @$fault;

    my $load = $t->load(port => $h->port(), uris => \@uris, clients => 20,
        rate => 10, seconds => $seconds + 0.4, expect => 'end of /',
        background => 1);

    sleep 0.2;
    $break->();

    my $end = time() + $seconds;
    my (%wrong, $numbers, $asked);

    while (time() < $end) {
        my $uri = $uris[rand @uris];
        my $res = $h->get($uri);
        my $n = $res->header('X-Number');

        $asked++;
        $wrong{status}++ if $res->status() != 200;
        $wrong{body}++ if $res->body() !~ /\Apage of $uri, .*of $uri\n\z/s;
        $wrong{number}++ if defined $n
            && ($n <= $base{$uri} || $n >= $base{$uri} + 1000000);

        # V6: two steps, each of which may wait for one deadline

        $wrong{slow}++ if $res->time() * 1000 > $timeout * 2.8;
        $numbers++ if defined $n;
        sleep 0.005;
    }

    is_deeply(\%wrong, {}, "$name: $asked requests, "
        . ($numbers // 0) . ' with a number');

    my $r = $load->wait();

    is($r->{ok}, $r->{requests}, "$name: load: all answered");
    is($r->{wrong} + $r->{errors}, 0, "$name: load: with their page");

    $mend->() if $mend;
    $m->set_how('well 0');
    $m->hang_up();

    ok(wait_for(sub { works() }, 5 * $t->slow()), "$name: works again");
}

$t->done();
