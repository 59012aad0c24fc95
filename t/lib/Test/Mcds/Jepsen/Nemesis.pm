package Test::Mcds::Jepsen::Nemesis;

# Copyright (C) mcds authors

# The faults of the long chaos run, chosen by the seed (srand) and a profile:
#
#     net      the proxies delay, reset, stall, cut and refuse; memcached and
#              workers are stopped; hosts are reloaded; the clock of a host
#              differs by 0.4 s.  No data is lost
#     death    memcached is killed, restarted and flushed, hosts are reloaded,
#              one fault at a time
#     all      the faults of net and death; workers and hosts are killed;
#              clocks differ by up to 3 s
#     corrupt  some faults of "all"; the proxies change, repeat and drop bytes
#
#     $n = Test::Mcds::Jepsen::Nemesis->new($site, profile => name)
#     $n->run(seconds), $n->heal(), $n->save()
#
# save() writes the file "faults" with a line for each fault: "begin end type
# what host memcached how".  A host or memcached of "*" means all of them; the
# type is "net", "death", "corrupt", "host" or "clock".

use warnings;
use strict;

use Exporter qw/ import /;
use IO::Socket::INET;
use Time::HiRes qw/ sleep /;

use Test::Mcds::Jepsen;

our @EXPORT = qw/ nemesis_profiles /;

my %profiles = (
    net => [qw/ delay chop stall reset cut refuse freeze freeze_worker
                reload clock /],
    death => [qw/ kill restart flush reload /],
    all => [qw/ delay chop stall reset cut refuse freeze freeze_worker reload
                kill restart flush kill_worker kill_host clock /],
    corrupt => [qw/ corrupt drop dup corrupt drop dup delay chop stall cut
                    kill flush kill_worker reload /],
);


sub nemesis_profiles { return qw/ net death all corrupt / }


sub new {
    my ($class, $site, %o) = @_;

    die "no profile $o{profile}\n" if !$profiles{$o{profile}};

    return bless { %o, site => $site, done => [], next => [] }, $class;
}


sub one { return $_[int rand @_] }


# chooses the next fault of the profile: each once before any is repeated

sub choose {
    my ($self) = @_;

    my @all = @{$profiles{$self->{profile}}};

    @{$self->{next}} = map { $_->[1] } sort { $a->[0] <=> $b->[0] }
        map { [rand, $_] } @all if !@{$self->{next}};

    return shift @{$self->{next}};
}


sub run {
    my ($self, $seconds) = @_;

    my $end = now() + $seconds * 1e6;

    sleep 1 if $seconds > 5;

    while (now() < $end) {
        my @active = map { $self->start($self->choose()) }
            1 .. ($self->{profile} ne 'death' && rand() < 0.4 ? 2 : 1);
        my $hold = rand() < 0.3 ? 1 + rand 3 : 0.05 + rand 0.8;
        my $left = ($end - now()) / 1e6;

        sleep($hold < $left ? $hold : $left < 0.05 ? 0.05 : $left);
        $self->stop($_) for reverse @active;

        # the site has time to recover after every fourth fault or so; after a
        # death of memcached, it mostly has the 5 s that counters with replicas
        # need to be copied

        my $pause = rand() < 0.25 ? 3 : 0.1 + rand 0.6;
        $pause += 5 if $self->{profile} eq 'death' && rand() < 0.7;
        $left = ($end - now()) / 1e6;
        sleep($pause < $left ? $pause : $left) if $left > 0.1;
    }
}


sub start {
    my ($self, $what) = @_;

    my $site = $self->{site};
    my $f = { what => $what, host => '*', memcached => '*', how => '',
              begin => now() };
    my $method = "start_$what";
    my $network = $what =~ /^(?:delay|chop|stall|reset|cut|refuse|corrupt|drop
                                |dup)$/x;

    if ($network) {
        $f->{type} = $what =~ /^(?:corrupt|drop|dup)$/ ? 'corrupt' : 'net';
        $f->{host} = one('*', '*', 0 .. $site->{hosts_wanted} - 1);
        $f->{memcached} = rand() < 0.1 ? '*'
            : int rand $site->{memcached_wanted};
        $self->start_network($f);

    } else {
        $self->$method($f);
    }

    return $f;
}


sub stop {
    my ($self, $f) = @_;

    $f->{undo}->() if $f->{undo};
    $f->{end} = now();
    push @{$self->{done}}, $f;
}


sub heal {
    my ($self) = @_;

    $self->{site}->proxy('heal');
    $self->{site}->ahead($_, 0) for 0 .. $self->{site}{hosts_wanted} - 1;
}


sub start_network {
    my ($self, $f) = @_;

    my $site = $self->{site};
    my $where = "$f->{host} $f->{memcached}";
    my $what = $f->{what};

    if ($what eq 'reset') {
        $site->proxy("reset $where");
        return;
    }

    my $d = $what eq 'refuse' ? '*' : one('c', 's', '*');
    my $n = $what eq 'delay' ? one(5, 30, 120, 300)
        : $what eq 'chop' ? 60
        : $what eq 'cut' ? one(20, 200, 3000, 100_000)
        : $what =~ /^(?:stall|refuse)$/ ? 1 : one(10, 50, 300);

    $f->{how} = "$d:$n";
    $site->proxy("set $where $d $what $n");

    # if the proxy refuses connections, it also closes the open ones

    $site->proxy("reset $where") if $what eq 'refuse';
    $f->{undo} = sub { $site->proxy("set $where $d $what 0") };
}


sub pick {
    my ($self, $f) = @_;

    my @m = $self->{site}->memcached();
    $f->{memcached} = int rand @m;

    return $m[$f->{memcached}];
}


sub pick_host {
    my ($self, $f) = @_;

    my @hosts = $self->{site}->hosts();
    $f->{host} = int rand @hosts;

    return $hosts[$f->{host}];
}


sub start_freeze {
    my ($self, $f) = @_;

    my $m = $self->pick($f);
    $f->{type} = 'net';
    return if !$m->pid();
    $m->freeze();
    $f->{undo} = sub { $m->cont() };
}


# stops a worker; another fault may have killed the worker before it is
# continued

sub start_freeze_worker {
    my ($self, $f) = @_;

    my $host = $self->pick_host($f);
    my @workers = $host->workers();
    my $pid = $workers[rand @workers];

    $f->{type} = 'host';
    return if !@workers;
    kill 'STOP', $pid;
    $f->{undo} = sub {
        kill 'CONT', $pid if grep { $_ == $pid } $host->children();
    };
}


sub start_reload {
    my ($self, $f) = @_;

    my $host = $self->pick_host($f);
    $f->{type} = 'host';
    $host->reload();
}


sub start_kill_worker {
    my ($self, $f) = @_;

    my $host = $self->pick_host($f);
    $f->{type} = 'host';
    $host->kill_worker(int rand 2) if $host->workers();
}


sub start_kill_host {
    my ($self, $f) = @_;

    my $host = $self->pick_host($f);
    $f->{type} = 'host';
    $host->kill9();
    $self->{site}->up($f->{host});
}


sub start_clock {
    my ($self, $f) = @_;

    $self->pick_host($f);

    my $ahead = $self->{profile} eq 'net' ? one(-0.4, 0.4)
        : one(-0.4, 0.4, -3, 3, -0.9, 0.9);

    $f->{type} = 'clock';
    $f->{how} = $ahead;
    $self->{site}->ahead($f->{host}, $ahead);
    $f->{undo} = sub { $self->{site}->ahead($f->{host}, 0) };
}


# kills a memcached; the proxies refuse connections while it is dead

sub start_kill {
    my ($self, $f) = @_;

    my ($site, $m) = ($self->{site}, $self->pick($f));
    my $i = $f->{memcached};

    $f->{type} = 'death';
    return if !$m->pid();
    $m->kill9();
    $site->proxy("set * $i * refuse 1");
    $f->{undo} = sub {
        $m->up() if !$m->pid();
        $site->proxy("set * $i * refuse 0");
    };
}


sub start_restart {
    my ($self, $f) = @_;

    my $m = $self->pick($f);
    $f->{type} = 'death';
    $m->restart() if $m->pid();
}


sub start_flush {
    my ($self, $f) = @_;

    my $m = $self->pick($f);
    $f->{type} = 'death';

    my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $m->port(), Timeout => 1) or return;
    syswrite $c, "flush_all\r\nquit\r\n";

    # waits for the answer for at most a second, as memcached may be stopped

    my $in = '';
    vec($in, fileno $c, 1) = 1;
    select $in, undef, undef, 1;
}


# regexes of lines in nginx's error log that faults may cause: none

sub allowed { return }


sub save {
    my ($self) = @_;

    my $file = $self->{site}->dir() . '/faults';

    open my $out, '>', $file or die "$file: $!\n";
    print $out join(' ', '#', profile => $self->{profile}), "\n";
    printf $out "%d %d %s %s %s %s %s\n", @$_{qw/ begin end type what host
        memcached how /} for @{$self->{done}};
    close $out or die "$file: $!\n";
}


1;
