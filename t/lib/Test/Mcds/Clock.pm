package Test::Mcds::Clock;

# Copyright (C) mcds authors

# A clock that stands still until the test moves it, for nginx and memcached, by
# preloading t/lib/clock.c into them.
#
#     my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);
#     my $m = $clock->memcached('m');
#     my $b = $clock->nginx('b', $conf, offset => 1);
#     $clock->add(0.5);
#
# In nginx only the time of day stands still, while timers run; pass() also
# advances the timers.  memcached updates its clock once a second: add() and
# set() wait until it has done so, and ticks() returns the second that its clock
# has.  The clock of a server started with "offset" is ahead of the test's clock
# by so many seconds.

use warnings;
use strict;

use Carp qw/ croak /;
use Time::HiRes qw/ sleep time /;


sub new {
    my ($class, $t, $time) = @_;

    my $self = bless {
        test => $t, file => $t->dir() . '/clock', ticking => [], passed => 0,
        so => library($t),
    }, $class;

    open $self->{fh}, '+>:raw', $self->{file}
        or croak "$self->{file}: $!";
    $self->put($time);

    return $self;
}


sub library {
    my ($t) = @_;

    my $source = __FILE__ =~ s{Test/Mcds/Clock\.pm$}{clock.c}r;
    my $so = __FILE__ =~ s{t/lib/Test/Mcds/Clock\.pm$}{build/clock.so}r;

    return $so if -f $so && -M $so <= -M $source;

    mkdir $so =~ s{/clock\.so$}{}r;

    my $output = $t->run($ENV{CC} // 'cc', '-O2', '-Wall', '-shared', '-fPIC',
        '-o', "$so.$$", $source);
    croak $output if $? != 0;

    rename "$so.$$", $so or croak "$so: $!";

    return $so;
}


sub env {
    my ($self, $binary, %o) = @_;

    # the library of the sanitizer must be preloaded before that of the clock

    my ($asan) = `ldd '$binary'` =~ m{=> (/\S+/libasan\S+)};

    return (
        LD_PRELOAD => join(' ', $asan // (), $self->{so}),
        MCDS_CLOCK => $self->{file},
        MCDS_CLOCK_OFFSET => int(($o{offset} // 0) * 1e6),
        $o{all} ? (MCDS_CLOCK_ALL => 1) : (),
    );
}


sub nginx {
    my ($self, $name, $conf, %o) = @_;

    local %ENV = (%ENV, $self->env($self->{test}->binary(), %o));

    return $self->{test}->nginx($name, $conf, %o);
}


sub memcached {
    my ($self, $name, %o) = @_;

    my $m;

    {
        local %ENV = (%ENV, $self->env('/bin/true', %o, all => 1));
        $m = $self->{test}->memcached($name, %o);
    }

    push @{$self->{ticking}}, {
        memcached => $m, base => uptime($m) - int($self->{time}),
        due => $self->{time} + 1,
    };

    return $m;
}


sub uptime { $_[0]->stats()->{uptime} }


sub time_now { $_[0]{time} }


sub put {
    my ($self, $time) = @_;

    $self->{time} = $time;

    sysseek $self->{fh}, 0, 0;
    syswrite $self->{fh}, pack('q2', map { int($_ * 1e6 + 0.5) }
        $time, $self->{passed});
}


sub pass {
    my ($self, $secs) = @_;

    $self->{passed} += $secs;
    $self->add($secs);
}


sub add { $_[0]->set($_[0]{time} + $_[1]) }


# sets the clock.  As memcached reads the system's clock once a second, waits
# for each memcached whose last reading is at least a second older than the new
# time, until this memcached has read the new time

sub set {
    my ($self, $time) = @_;

    $self->put($time);

    for my $m (@{$self->{ticking}}) {
        next if $time < $m->{due};

        Test::Mcds::wait_for(sub {
            uptime($m->{memcached}) == $m->{base} + int($time);
        }) or croak 'memcached does not tick';

        $m->{due} = $time + 1;
    }
}


# the time of memcached's own clock, in seconds since the epoch like the test's

sub ticks {
    my ($self, $m) = @_;

    my ($t) = grep { $_->{memcached} == $m } @{$self->{ticking}};

    return uptime($m) - $t->{base};
}


1;
