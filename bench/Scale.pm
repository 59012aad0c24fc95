package Scale;

# What becomes dearer with more workers, clients, pages, hosts, features and
# locations, and what does not.

use warnings;
use strict;

use Goals;
use Hosts;
use Locations;
use Runs;
use Stage;
use Time::HiRes qw/ time /;


# requests, and what they are called
my @requests = (
    ['page', 'a page'],
    ['64-pages', '64 pages'],
    ['counter', 'a counter'],
);

# clients that ask once, and say so when all have their answers; then they wait

my $clients_pl = <<'END';
use IO::Socket::INET;

my ($port, $uri, $n) = @ARGV;
my @all;

for (1 .. $n) {
    my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port")
        or die "client $_: $!\n";
    my $text = '';

    print $s "GET $uri HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

    until ($text =~ /^HTTP\/1.1 200 .*^Content-Length: (\d+)\r\n.*?\r\n\r\n/ims
        && length($text) - $+[0] >= $1)
    {
        sysread $s, $text, 65536, length $text
            or die "client $_ got: $text\n";
    }

    push @all, $s;
}

$| = 1;
print "$n\n";
sleep;
END


sub new {
    my ($class, $stage, $root, $peers, $runs) = @_;

    return bless {
        stage => $stage,
        root => $root,
        peers => $peers,
        runs => $runs,
        only => $ENV{ONLY} // '.',
    }, $class;
}


# with the peers' processes, and what has its own

sub run {
    my ($self) = @_;

    for my $part (qw/ workers clients pages features /) {
        $self->$part() if $part =~ /$self->{only}/;
    }
}


sub run_alone {
    my ($self) = @_;

    Hosts->new($self->{stage}, $self->{root})->run()
        if 'hosts' =~ /$self->{only}/;
    Locations->new($self->{stage}, $self->{root})->run()
        if 'locations' =~ /$self->{only}/;
}


# Each request twice in a round, one right after the other, with a plain return
# of the same server beside each.

sub measure {
    my ($self, $group, $one, $two, @requests) = @_;

    my @names = map { ("$_-$one", "$_-$two") } 'return',
        map { $_->[0] } @requests;
    my %round;

    for my $row ($self->{runs}->measure($group, @names)) {
        $round{ $row->{round} }{ $row->{scenario} } = $row;
    }

    return values %round;
}


# prints a table of both, and returns the medians of what the second costs as a
# multiple of the first, and of the same where each is a multiple of return

sub compare {
    my ($self, $one, $two, $rounds, @requests) = @_;

    my %ratio;

    printf "| %-12s | %12s | %12s | %6s | %15s |\n", 'request', $one, $two,
        'ratio', 'ratio, x return';
    print '|', '-' x 14, map({ '|' . '-' x $_ . ':' } 13, 13, 7, 16), "|\n";

    for my $request (['return', 'return'], @requests) {
        my ($name, $title) = @$request;
        my @costs = map { my $round = $_;
            [map { $round->{"$_-$one"}{sum}, $round->{"$_-$two"}{sum} }
                $name, 'return'] } @$rounds;

        $ratio{$name} = Runs::median(map { ($_->[1] / $_->[3])
            / ($_->[0] / $_->[2]) } @costs);

        printf "| %-12s | %12.2f | %12.2f | %6.2f | %15.2f |\n", $title,
            Runs::median(map { $_->[0] } @costs),
            Runs::median(map { $_->[1] } @costs),
            Runs::median(map { $_->[1] / $_->[0] } @costs), $ratio{$name};
    }

    print "\n";

    return %ratio;
}


sub workers {
    my ($self) = @_;

    my @rounds = $self->measure('workers', 'one-worker', 'two-workers',
        @requests);

    print "\n### scale, workers: the same requests by one worker and by two\n\n"
        . "CPU of nginx and memcached in microseconds a request; both are run"
        . " in each round,\none right after the other, and the ratios are"
        . " medians of rounds.  In the last ratio\neach cost is a multiple of"
        . " what return costs there: with two cores, the second\nworker has to"
        . " share one with clients and memcached, which makes all dearer.\n\n";

    my %ratio = $self->compare('one-worker', 'two-workers', \@rounds,
        @requests);

    for my $request (@requests) {
        my ($name, $title) = @$request;

        printf "%s: two workers cost %.2f times what one costs, in terms of"
            . " return, the goal is at most 1.05: %s\n", $title, $ratio{$name},
            Goals::judge('scale', "two workers, $title",
                'times the cost by one', $ratio{$name}, 1.05);
    }
}


sub clients {
    my ($self) = @_;

    my ($peers, $runs) = @$self{qw/ peers runs /};
    my $n = $ENV{SCALE_CLIENTS} || 9500;
    my $most = $peers->files() - 1000;
    my $why = '';

    if ($n > $most) {
        $why = ", as the limit of files is " . $peers->files();
        $n = $most;
    }

    # once without them, for what nginx needs anyway

    my @names = map { ("page-$_", "return-$_") } qw/ idle idle-return /;
    my (%before, %after, @pids);

    $peers->check(@names, 'page-one-worker');
    $runs->wrk($peers->scenario($_), 1) for @names;

    for (['idle', '/page/1'], ['idle-return', '/ok']) {
        my ($name, $uri) = @$_;
        my ($worker) = $peers->workers($name);

        Runs::progress("scale, clients: $n idle clients of $uri");
        $before{$name} = Runs::private($worker);
        push @pids, $self->idle($peers->port($name), $uri, $n);
        $after{$name} = Runs::private($worker);

        my @files = glob "/proc/$worker/fd/*";

        die "nginx has closed idle connections\n" if @files < $n;
    }

    my @requests = grep { $_->[0] eq 'page' } @requests;
    my @rounds = $self->measure('idle', 'one-worker', 'idle', @requests);

    $self->{stage}->stop(@pids);

    printf "\n### scale, clients: %d idle clients that asked once%s\n\n", $n,
        $why;
    print "CPU of nginx and memcached in microseconds a request of 64 other"
        . " clients, without\nthe idle ones and with them.\n\n";

    my %ratio = $self->compare('one-worker', 'idle', \@rounds, @requests);
    my %kilobytes = map { $_ => ($after{$_} - $before{$_}) * 1024 / $n }
        keys %before;

    printf "nginx's worker: %.1f MB with them, of which %.2f KB for each that"
        . " asked for a page,\n%.2f KB for each that asked for a return\n\n",
        $after{idle}, $kilobytes{idle}, $kilobytes{'idle-return'};
    printf "a page: it costs %.2f times as much with idle clients, in terms of"
        . " return, the goal is at most 1.05: %s\n", $ratio{page},
        Goals::judge('scale', "$n idle clients", 'times the cost without',
            $ratio{page}, 1.05);
}


# opens the clients; more files than usual are open then

sub idle {
    my ($self, $port, $uri, $n) = @_;

    my $stage = $self->{stage};
    my $script = $stage->dir() . '/clients.pl';

    $stage->write_file($script, $clients_pl);

    my ($pid, $out) = $stage->reader('clients', 'sh', '-c',
        'ulimit -n ' . ($n + 100) . ' && exec "$@"', 'sh', $^X, $script, $port,
        $uri, $n);

    die "the clients do not start:\n" . $stage->log_tail('clients')
        if (<$out> // '') ne "$n\n";

    return $pid;
}


sub pages {
    my ($self) = @_;

    my ($peers, $runs) = @$self{qw/ peers runs /};
    my $all = $ENV{SCALE_PAGES} || 200_000;
    my ($worker) = $peers->workers('pages');
    my ($done, $asked, $from) = (0, $peers->asked(), time());
    my @rows;

    for my $share (0.1, 0.5, 1) {
        my $to = int($all * $share);

        $runs->once('small-pages', $done + 1, $to);
        $done = $to;
        push @rows, { pages => $to, private => Runs::private($worker) };
    }

    my $secs = time() - $from;

    $asked = $peers->asked() - $asked;
    die "the origin made $asked of $all pages\n" if $asked < 0.99 * $all;

    Runs::write_lines($self->{root}, 'pages-once', @rows);

    printf "\n### scale, pages: %d different pages of 100 bytes, each asked for"
        . " once\n\n", $all;
    printf "The origin built %d pages, %.0f a second.\n\n", $asked,
        $asked / $secs;
    printf "%8d pages: nginx's worker has %.2f MB\n", @$_{qw/ pages private /}
        for @rows;

    my $growth = $rows[2]{private} / $rows[0]{private};

    printf "\npages: the worker has %.2f times the memory that it had after a"
        . " tenth of them, the goal is at most 1.1: %s\n", $growth,
        Goals::judge('scale', "memory, $all pages", 'times that of a tenth',
            $growth, 1.1);
}


sub features {
    my ($self) = @_;

    my $runs = $self->{runs};
    my @two = grep { $_->[0] ne '64-pages' } @requests;
    my @rounds = $self->measure('features', 'one-worker', 'features', @two);
    my $instructions = $runs->instructions('return-one-worker');
    my $tool = $runs->tracer('return-one-worker');

    print "\n### scale, features: mcds_status, mcds_table_lookup with an empty"
        . " key,\nmcds_table_api, mcds_log with an empty if=, which the"
        . " requests do not use\n\n"
        . "CPU of nginx and memcached in microseconds a request, without them"
        . " and with them.\n\n";

    my %cpu = $self->compare('one-worker', 'features', \@rounds, @two);
    my @rows;

    print "perf cannot count instructions here: CPU is judged instead\n"
        if !$instructions;
    print "neither perf nor strace may look at nginx here: system calls are"
        . " left out\n" if !$tool;

    for my $request (@two) {
        my ($name, $title) = @$request;
        my ($one, $two) = map { "$name-$_" } qw/ one-worker features /;
        my $row = { request => $name, cpu => $cpu{$name} };

        if ($instructions) {
            my @n = map { $runs->instructions($_) } $one, $two;

            @$row{qw/ without with /} = @n;
            printf "%s: %.0f instructions without, %.0f with: %.3f times, the"
                . " goal is at most 1.01: %s\n", $title, @n, $n[1] / $n[0],
                Goals::judge('scale', "unused features, $title",
                    'times the instructions', $n[1] / $n[0], 1.01);

        } else {
            printf "%s: %.2f times the CPU, in terms of return, the goal is at"
                . " most 1.05: %s\n", $title, $cpu{$name},
                Goals::judge('scale', "unused features, $title",
                    'times the CPU', $cpu{$name}, 1.05);
        }

        if ($tool) {
            my @calls = map { [map { $runs->$tool(
                $self->{peers}->scenario($_))->{total} } $one, $two] } 1 .. 3;
            my $more = Runs::median(map { $_->[1] - $_->[0] } @calls);

            $row->{calls} = \@calls;
            printf "%s: %.2f system calls without, %.2f with, by %s: %+.2f, the"
                . " goal is at most 0.05 more: %s\n", $title,
                Runs::median(map { $_->[0] } @calls),
                Runs::median(map { $_->[1] } @calls), $tool, $more,
                Goals::judge('scale', "unused features, $title",
                    'more system calls', $more, 0.05);
        }

        push @rows, $row;
    }

    Runs::write_lines($self->{root}, 'features-calls', @rows);
}


1;
