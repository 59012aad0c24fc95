package Test::Mcds::Memory;

# Copyright (C) mcds authors

# The memory of one process of an nginx that was started with memory => 1: the
# sum of its live allocations, and injection of failed allocations.  See
# ../../memory.c.
#
#     my $memory = Test::Mcds::Memory->of($host, $pid);
#
#     $memory->now()          { calls, failed, blocks, bytes }
#     $memory->fail(n)        the n-th allocation from now on fails (1: the next
#                             one), 0: none; calls and failed restart at 0
#     $memory->fail_later(n)  like fail(n), for each process that this process
#                             starts
#     $memory->fail_large(n)  the next allocation of n bytes or more fails
#     $memory->quiet()        waits until the process stops allocating
#     $memory->trim()         returns free memory to the kernel at the next free
#
#     exhaust($t, $host, step, [name, sub { ... }, %o], ...)
#
# Repeats each of these actions, and each time lets one allocation of the worker
# fail, "step" allocations later than the time before.  The sub gets a number
# that is unique, and returns a list of requests, [uri, %o] as for $host->get();
# each is sent after the previous one was answered.  first => sub: returns
# requests that are sent before, while no allocation fails.  behind => 1: the
# requests start work in the background.  at_once => n: n concurrent copies of
# each request.
#
#     memory($pid, 'RssAnon')     memory of any process by /proc, kilobytes

use warnings;
use strict;

use Exporter ();
use Test::More ();
use Time::HiRes qw/ sleep /;

use Test::Mcds::Http qw/ start_get finish /;

our @ISA = qw/ Exporter /;
our @EXPORT = qw/ exhaust memory /;

my $number = 0;


sub memory {
    my ($pid, $what) = @_;

    open my $f, '<', "/proc/$pid/status" or die "process $pid: $!\n";
    my ($n) = map { /^$what:\s+(\d+) kB/ } <$f>;

    return $n;
}


sub of {
    my ($class, $host, $pid) = @_;

    my $file = "$host->{dir}/memory.$pid";

    open my $fh, '+<:raw', $file or die "$file: $!\n";

    return bless { fh => $fh }, $class;
}


sub now {
    my ($self) = @_;
    my %now;

    sysseek $self->{fh}, 0, 0;
    sysread $self->{fh}, my $text, 48;
    (undef, @now{qw/ calls failed blocks bytes /}) = unpack 'Q3q2', $text;

    return \%now;
}


sub fail {
    my ($self, $n) = @_;

    sysseek $self->{fh}, 0, 0;
    syswrite $self->{fh}, pack 'Q3', $n, 0, 0;
}


sub fail_later {
    my ($self, $n) = @_;

    sysseek $self->{fh}, 40, 0;
    syswrite $self->{fh}, pack 'Q', $n;
}


sub fail_large {
    my ($self, $n) = @_;

    sysseek $self->{fh}, 0, 0;
    syswrite $self->{fh}, pack 'Q3', 0, 0, 0;
    sysseek $self->{fh}, 56, 0;
    syswrite $self->{fh}, pack 'Q', $n;
}


sub trim {
    my ($self) = @_;

    sysseek $self->{fh}, 48, 0;
    syswrite $self->{fh}, pack 'Q', 1;
}


sub quiet {
    my ($self) = @_;

    my ($calls, $same) = (-1, 0);

    for (1 .. 1000) {
        my $now = $self->now();

        $same = $now->{calls} == $calls ? $same + 1 : 0;
        last if $same == 5;

        $calls = $now->{calls};
        sleep 0.002;
    }
}


# waits until the worker allocates no more memory in the background, unless the
# allocation that fail() chose has failed already

sub _over {
    my ($self) = @_;
    $self->quiet() if !$self->now()->{failed};
}


sub _once {
    my ($t, $host, $code, $o) = @_;

    my $most = ($o->{at_once} // 1);
    my @r;

    for my $request ($code->($number)) {
        my @p = map { start_get($host->port(), @$request) } 1 .. $most;
        push @r, map { finish($_, 10 * $t->slow()) } @p;
    }

    return @r;
}


sub exhaust {
    my ($t, $host, $step, @things) = @_;

    for my $thing (@things) {
        my ($name, $code, %o) = @$thing;

        my ($worker) = $host->workers();
        my $memory = __PACKAGE__->of($host, $worker);
        my (@died, @hung, @wrong);
        my ($n, $failed) = (0, 0);

        # first sends the requests once without a failed allocation: the first
        # requests of a worker may allocate more memory than later ones

        my $new = sub {
            $number++;
            return $o{first} ? _once($t, $host, $o{first}, {}) : ();
        };

        $new->();
        _once($t, $host, $code, \%o);

        while (1) {
            $n += $step;
            $new->();
            $memory->quiet() if $o{behind} || $o{first};

            $memory->fail($n);
            my @r = _once($t, $host, $code, \%o);
            $memory->_over() if $o{behind};
            my $done = $memory->now()->{failed};
            $memory->fail(0);

            push @hung, $n if grep { ($_->error() // '') eq 'timed out' } @r;
            push @wrong, "$n: " . $_->head()
                for grep { $_->head() && $_->status() < 200 } @r;

            my ($now) = $host->workers();

            if (!defined $now || $now != $worker) {
                push @died, $n;
                last if @died == 5;
                Test::Mcds::wait_for(sub { $host->workers() }, 10);
                ($worker) = $host->workers();
                $memory = __PACKAGE__->of($host, $worker);
            }

            my @next = ($new->(), _once($t, $host, $code, \%o));
            push @wrong, "$n, then: " . ($_->error() // $_->head())
                for grep { !$_->complete() || $_->status() !~ /^[23]/ } @next;

            last if !$done;
            $failed++;
        }

        Test::More::cmp_ok($failed, '>', 0, "$name: $failed failures");
        Test::More::is("@died", '', "$name: no worker dies of it");
        Test::More::is("@hung", '', "$name: no request hangs");
        Test::More::is(scalar @wrong, 0, "$name: the next one is answered")
            or Test::More::diag(splice @wrong, 0, 3);
    }
}


1;
