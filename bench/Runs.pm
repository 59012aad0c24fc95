package Runs;

# Runs of wrk against one scenario after the other, what they cost, and the
# tables of it.

use warnings;
use strict;

use File::Path qw/ make_path /;
use Goals;
use IO::Select;
use JSON::PP;
use POSIX qw/ ceil /;
use Stage;
use Time::HiRes qw/ sleep time /;


# CPU of the server and memcached, as a multiple of return's
my %goals = ('mcds-counter' => 1.6, 'mcds-counter-10-keys' => 1.6,
    'mcds-counter-100-keys' => 1.6, 'mcds-six-hot' => 1.8,
    'mcds-six-1000-uris' => 2.6, 'mcds-async' => 1.2,
    'mcds-visitors-1000' => 1.2,
    'mcds-1k' => 1.7, 'mcds-10k' => 2.1, 'mcds-100k' => 10,
    'mcds-validated-1k' => 1.6, 'mcds-validated-10k' => 2,
    'mcds-validated-100k' => 5,
    'mcds-timed-1k' => 1.4, 'mcds-timed-10k' => 1.8, 'mcds-timed-100k' => 4.5,
    'mcds-1k-64-pages' => 1.9, 'mcds-10k-64-pages' => 2.6,
    'mcds-100k-64-pages' => 9.2, 'mcds-validated-1k-64-pages' => 1.55,
    'mcds-validated-10k-64-pages' => 1.75,
    'mcds-validated-100k-64-pages' => 3.1, 'mcds-timed-1k-64-pages' => 1.2,
    'mcds-timed-10k-64-pages' => 1.35, 'mcds-timed-100k-64-pages' => 2.75,
    'mcds-zipf' => 2.2, 'mcds-validated-zipf' => 2.1,
    'mcds-timed-zipf' => 1.7);

# the same beyond the other scenario of that name, which has no counter
my %counter_goals = map { ("mcds-counter-$_-64-pages" => 0.15) }
    qw/ 1k 10k 100k /;

# what memcached is asked for by a request
my %operation_goals = ('mcds-counter' => 0.1, 'mcds-counter-10-keys' => 0.3,
    'mcds-async' => 0.05, 'mcds-visitors-1000' => 0.05);

# the median's time, as a multiple of that of memc-incr
my %latency_goals = ('mcds-counter' => 1);

# connections, of a group that does not have the usual number
my %conns = (latency => 1);

# seconds until the copies of a host are those that are asked for
my %warm = (zipf => 5, map { $_ => 0.4 } qw/ workers idle features /);

# the share of the rounds and of their time, of groups that need less
my %rounds = map { $_ => 5 / 7 } qw/ idle features /;
my %secs = map { $_ => 0.5 } qw/ workers idle features /;

# CPU beyond that of a request without a log
my %log_goals = ('mcds-log' => 2);

# system calls beyond those of return
my %call_goals = ('mcds-counter' => 0.5);

my @calls = qw/ epoll_wait epoll_ctl poll futex accept4 connect close recvfrom
    read pread64 sendto write writev sendfile64 openat newfstat setsockopt
    ioctl /;

my $ready_lua = <<'END';
local function ready()
    io.write("READY\n")
    io.flush()
end
function init() ready() end
END

my $report_lua = <<'END';
function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format('JSON {"requests":%d,"us":%d,"p50":%d,"p99":%d,'
        .. '"errors":%d}\n', summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99),
        e.connect + e.read + e.write + e.status + e.timeout))
end
END

# one of n pages for each request: at random; or by Zipf's law, the k-th page as
# often as 1/k of the first, for which each of n equal intervals has two pages
# and a bound between them (the alias method); or each once before any comes
# again, in an order at random, so that requests of one moment do not meet

my $keys_lua = <<'END';
local all, bound, other, n, at = {}, {}, {}, 0, 0
local function shares()
    local sum, less, more = 0, {}, {}
    for k = 1, n do sum = sum + 1 / k end
    for k = 1, n do
        bound[k], other[k] = n / k / sum, k
        table.insert(bound[k] < 1 and less or more, k)
    end
    while #less > 0 and #more > 0 do
        local a, b = table.remove(less), more[#more]
        other[a] = b
        bound[b] = bound[b] - (1 - bound[a])
        if bound[b] < 1 then table.insert(less, table.remove(more)) end
    end
end
local function shuffle()
    for k = n, 2, -1 do
        local other = math.random(k)
        all[k], all[other] = all[other], all[k]
    end
end
local function random()
    return all[math.random(n)]
end
local function zipf()
    local x = math.random() * n
    local k = math.floor(x) + 1
    return all[x - k + 1 < bound[k] and k or other[k]]
end
local function turn()
    at = at % n + 1
    return all[at]
end
local laws = { random = random, zipf = zipf, turn = turn }
function init(args)
    n = tonumber(args[1])
    math.randomseed(tonumber(args[2]))
    for k = 1, n do all[k] = wrk.format("GET", wrk.path .. k) end
    if args[3] == "zipf" then shares() end
    if args[3] == "turn" then shuffle() end
    request = laws[args[3]]
    ready()
end
function request() end
END

# each of the pages once, and some again, in case that one is not answered yet

my $once_lua = <<'END';
local from, to, at, answers, wrong = 0, 0, 0, 0, 0
function init(args)
    from, to = tonumber(args[1]), tonumber(args[2])
    at = from - 1
end
function request()
    at = at < to and at + 1 or from
    return wrk.format("GET", wrk.path .. at)
end
function response(status)
    if status ~= 200 then wrong = wrong + 1 end
    answers = answers + 1
    if answers == to - from + 1 + 1000 then
        io.write(string.format('JSON {"answers":%d,"wrong":%d}\n', answers,
            wrong))
        io.flush()
        os.exit(0)
    end
end
END


sub new {
    my ($class, $stage, $peers, $root) = @_;

    my $dir = $stage->dir();

    make_path("$root/build/bench");
    $stage->write_file("$dir/report.lua", $ready_lua . $report_lua);
    $stage->write_file("$dir/keys.lua", $ready_lua . $keys_lua . $report_lua);
    $stage->write_file("$dir/once.lua", $once_lua);

    return bless {
        stage => $stage,
        peers => $peers,
        out => "$root/build/bench",
        rounds => $ENV{ROUNDS} || 7,
        secs => $ENV{SECS} || 1,
        conns => $ENV{CONNS} || 64,
        noise => $ENV{NOISE} // 0.15,
    }, $class;
}


sub measure {
    my ($self, $group, @names) = @_;

    local $self->{conns} = $conns{$group} // $self->{conns};
    local $self->{rounds} = ceil($self->{rounds} * ($rounds{$group} // 1));
    local $self->{secs} = $self->{secs} * ($secs{$group} // 1);

    my $scenarios = { map { $_ => $self->{peers}->scenario($_) } @names };
    my @rows;

    $self->{peers}->check(@names);

    # all of them are there, not only those that were checked

    for my $scenario (grep { ($_->{uris} // 1) > 64 && $_->{law} eq 'random' }
        map { $scenarios->{$_} } @names)
    {
        $self->once($scenario->{name}, 1, $scenario->{uris});
    }

    $self->wrk($scenarios->{$_}, $warm{$group} // 1) for @names;

    open my $out, '>', "$self->{out}/$group.jsonl"
        or die "$self->{out}/$group.jsonl: $!\n";

    for my $round (1 .. $self->{rounds}) {
        my $n = 0;

        $self->{round} = $round;

        for my $name (@names) {
            progress("$group, round $round of $self->{rounds}, "
                . ++$n . ' of ' . @names . ": $name");

            my $row = $self->wrk($scenarios->{$name}, $self->{secs});

            if ($row->{others} > $self->{noise}) {
                my $again = $self->wrk($scenarios->{$name}, $self->{secs});
                $row = $again if $again->{others} < $row->{others};
            }

            $row->{round} = $round;
            print $out encode_json($row), "\n";
            push @rows, $row;
        }
    }

    progress('');
    close $out;
    $self->{rows}{$group} = \@rows;

    return @rows;
}


# what was measured otherwise, a line of JSON each

sub write_lines {
    my ($root, $name, @rows) = @_;

    my $file = "$root/build/bench/$name.jsonl";

    make_path("$root/build/bench");

    open my $out, '>', $file or die "$file: $!\n";
    print $out encode_json($_), "\n" for @rows;
    close $out;
}


# on a terminal, in place of the text before

sub progress {
    my ($text) = @_;

    printf STDERR "\r\e[K%s", $text if -t STDERR;
}


# one run

sub wrk {
    my ($self, $scenario, $secs) = @_;

    my @before = $self->clocks($scenario);
    my $json = $self->wrk_start($scenario, $secs)->();
    my @after = $self->clocks($scenario);
    my ($server, $memcached, $all, $wrk, $wall, $operations, $asked) =
        map { $after[$_] - $before[$_] } 0 .. 6;

    my $n = $json->{requests} || 1;

    return {
        scenario => $scenario->{name},
        rate => $n * 1e6 / $json->{us},
        server => $server * 1e6 / $n,
        memcached => $memcached * 1e6 / $n,
        sum => ($server + $memcached) * 1e6 / $n,
        operations => $operations / $n,
        p50 => $json->{p50},
        p99 => $json->{p99},
        errors => $json->{errors},
        asked => $asked,
        busy => $server / $wall,
        others => ($all - $server - $memcached - $wrk) / $wall,
        $scenario->{law} eq 'zipf'
            ? (private => private($scenario->{servers}[0])) : (),
    };
}


# megabytes of memory that a process shares with no other

sub private {
    my ($pid) = @_;

    open my $f, '<', "/proc/$pid/smaps_rollup"
        or die "memory of process $pid: $!\n";

    my $kilobytes = 0;

    while (my $line = <$f>) {
        $kilobytes += $1 if $line =~ /^Private_\w+:\s+(\d+)/;
    }

    return $kilobytes / 1024;
}


# megabytes of a process that are no file's, also those that its children use
# until they change them

sub anonymous {
    my ($pid) = @_;

    open my $f, '<', "/proc/$pid/status" or die "process $pid: $!\n";

    return (map { /^RssAnon:\s+(\d+)/ ? $1 / 1024 : () } <$f>)[0];
}


# asks once for each page of a scenario from one number to another

sub once {
    my ($self, $name, $from, $to) = @_;

    progress("$name: the pages from $from to $to");

    my ($pid, $out) = $self->{stage}->reader('wrk',
        $self->{peers}->on_last_core(), 'wrk', '-t', 1, '-c', $self->{conns},
        '-d', '30m', '-s', $self->{stage}->dir() . '/once.lua',
        $self->{peers}->scenario($name)->{url}, '--', $from, $to);
    my $text = do { local $/; <$out> };

    $self->{stage}->wait_for($pid);
    progress('');

    my $json = decode_json($text =~ /^JSON (.*)$/m ? $1 : '{"wrong":1}');

    die "$name answers wrongly:\n$text" if $json->{wrong};
}


# starts wrk; what comes back waits for its end

sub wrk_start {
    my ($self, $scenario, $secs) = @_;

    my $dir = $self->{stage}->dir();
    my @script = $scenario->{uris}
        ? ("$dir/keys.lua", $scenario->{url}, '--', $scenario->{uris},
            $self->{round} // 0, $scenario->{law})
        : ("$dir/report.lua", $scenario->{url});

    my @header = $scenario->{accepts}
        ? ('-H', "Accept-Encoding: $scenario->{accepts}") : ();

    my ($pid, $out) = $self->{stage}->reader('wrk',
        $self->{peers}->on_last_core(), 'wrk', '-t', 1, '-c', $self->{conns},
        '-d', ceil($secs) . 's', @header, '-s', @script);

    return sub {
        # wrk knows whole seconds only, but reports when it is interrupted; that
        # would end it before its script is read

        while (my $line = <$out>) {
            last if $line eq "READY\n";
        }

        kill 'INT', $pid if $secs < ceil($secs)
            && !IO::Select->new($out)->can_read($secs);

        my $text = do { local $/; <$out> } // '';

        $self->{stage}->wait_for($pid);
        die "wrk failed:\n$text" if $text !~ /^JSON (.*)$/m;

        return decode_json($1);
    };
}


# CPU seconds: of the server, of memcached, of all cores, of the ended wrk;
# time; operations of memcached; requests to the origin

sub clocks {
    my ($self, $scenario) = @_;

    open my $f, '<', '/proc/stat' or die "/proc/stat: $!\n";
    my (undef, @all) = split ' ', scalar <$f>;
    my (undef, undef, $user, $system) = times();

    return (cpu(@{ $scenario->{servers} }), cpu($scenario->{memcached}),
        ($all[0] + $all[1] + $all[2] + $all[5] + $all[6] + $all[7]) / 100,
        $user + $system, time(), $self->{peers}->operations(),
        $self->{peers}->asked());
}


sub cpu {
    my (@pids) = @_;

    my $sum = 0;

    for my $path (map { glob "/proc/$_/task/*/schedstat" } @pids) {
        open my $f, '<', $path or next;
        $sum += (split ' ', scalar <$f>)[0];
    }

    return $sum / 1e9;
}


sub median {
    my @sorted = sort { $a <=> $b } @_;

    return 0 if !@sorted;
    return ($sorted[$#sorted / 2] + $sorted[@sorted / 2]) / 2;
}


# scenario => median of what it cost as a multiple of return in the same round

sub costs {
    my @rows = @_;

    my %return = map { $_->{scenario} eq 'return' ? ($_->{round} => $_) : () }
        @rows;
    my %ratios;

    push @{ $ratios{ $_->{scenario} } },
        $_->{sum} / $return{ $_->{round} }{sum} for @rows;

    return map { $_ => median(@{ $ratios{$_} }) } keys %ratios;
}


sub report {
    my ($self, $group) = @_;

    my @rows = @{ $self->{rows}{$group} };
    my (%by, @names, %measure);

    for my $row (@rows) {
        push @names, $row->{scenario} if !$by{ $row->{scenario} };
        push @{ $by{ $row->{scenario} } }, $row;
        $measure{ $row->{round} }{ $row->{scenario} } = $row;
    }

    printf "\n### %s: %d connection%s, medians of %d rounds of %g s\n\n",
        $group, $conns{$group} // $self->{conns},
        ($conns{$group} // 0) == 1 ? '' : 's', $self->{rounds}, $self->{secs};
    print "CPU is in microseconds a request; \"x return\" is the sum of the"
        . " server's (nginx's,\nVarnish's, or of both) and memcached's as a"
        . " multiple of what return took in the\nsame round; \"ops\" are"
        . " memcached's operations a request.\n\n";

    printf "| %-29s | %8s | %7s | %7s | %9s | %5s | %8s | %6s | %6s | %6s |\n",
        'scenario', 'x return', 'sum', 'server', 'memcached', 'ops', 'req/s',
        'p50 us', 'p99 us', 'errors';
    print '|', '-' x 31, map({ '|' . '-' x $_ } 10, 9, 9, 11, 7, 10, 8, 8, 8),
        "|\n";

    my %cost = costs(@rows);
    my (%operations, %latency, %added, %counter, %asked);

    for my $name (@names) {
        my @runs = @{ $by{$name} };
        my $alone = $name =~ s/^mcds-counter-(\d+k-64-)/mcds-$1/r;

        $counter{$name} = median(map { my $round = $measure{ $_->{round} };
            ($_->{sum} - $round->{$alone}{sum}) / $round->{return}{sum} }
            @runs) if $alone ne $name && $by{$alone};

        $asked{$name} += $_->{asked} for @runs;

        $operations{$name} = median(map { $_->{operations} } @runs);

        $latency{$name} = median(map { $_->{p50}
            / $measure{ $_->{round} }{'memc-incr'}{p50} } @runs)
            if $by{'memc-incr'};

        $added{$name} = median(map { $_->{sum}
            - $measure{ $_->{round} }{'no-log'}{sum} } @runs)
            if $by{'no-log'};

        my $errors = 0;
        $errors += $_->{errors} for @runs;

        printf "| %-29s | %8.2f | %7.2f | %7.2f | %9.2f | %5.2f | %8.0f"
            . " | %6.0f | %6.0f | %6d |\n", $name, $cost{$name},
            (map { my $f = $_; median(map { $_->{$f} } @runs) }
                qw/ sum server memcached operations rate p50 p99 /), $errors;
    }

    print "\n";

    if ($group eq 'latency') {
        goals($group, \%latency_goals, \%latency, "times memc-incr's p50");

    } elsif ($group eq 'log') {
        printf "%s: %.2f us more than without a log\n", $_, $added{$_}
            for grep { /log/ && $_ ne 'no-log' } @names;
        goals($group, \%log_goals, \%added, 'us for a line');

    } else {
        my %memory = map { defined $by{$_}[-1]{private}
            ? ($_ => $by{$_}[-1]{private}) : () } @names;

        pages(\%cost, {}, qw/ 1k 10k 100k 1k-1000-pages /)
            if $group eq 'pages';
        pages(\%cost, {}, map { "$_-64-pages" } qw/ 1k 10k 100k /)
            if $group eq 'different';
        pages(\%cost, \%memory, 'zipf') if $group eq 'zipf';

        goals($group, \%goals, \%cost, 'times the CPU of return');
        goals($group, \%operation_goals, \%operations,
            'operations a request');
        goals($group, \%counter_goals, \%counter,
            'times return more than the page');
    }

    printf "%s: the origin was asked %d times, these were no hits\n", $_,
        $asked{$_} for grep { $asked{$_} } @names;

    printf "Others used %.2f cores in the median run, %.2f in the worst.\n",
        median(map { $_->{others} } @rows),
        (sort { $b <=> $a } map { $_->{others} } @rows)[0];
}


sub goals {
    my ($group, $goals, $got, $what) = @_;

    for my $name (sort keys %$goals) {
        next if !defined $got->{$name};

        printf "%s: %.2f %s, the goal is at most %g: %s\n", $name,
            $got->{$name}, $what, $goals->{$name},
            Goals::judge($group, $name, $what, $got->{$name},
                $goals->{$name});
    }
}


# the same pages by the ways to cache them, and what each may cost, as it stands
# in docs/comparison.md; and the memory of nginx's worker, where it is known

sub pages {
    my ($cost, $memory, @sizes) = @_;

    my @ways = (
        ['return', 'return 200 of the same size'],
        ['mcds', 'mcds_cache'],
        ['mcds-counter', 'mcds_cache and mcds_counter'],
        ['mcds-validated', 'mcds_cache_local validated'],
        ['mcds-timed', 'mcds_cache_local timed'],
        ['proxy-cache-ofc', 'proxy_cache, open_file_cache'],
        ['srcache-memc', 'srcache and memc'],
        ['varnish', 'Varnish'],
        ['nginx-varnish', 'nginx before Varnish'],
    );

    print "A page that is there, CPU of the server and memcached as a multiple"
        . " of a plain\n\"return 200\"; in brackets what it may be.\n\n";

    my @heads = (@sizes, %$memory ? 'MB of worker' : ());

    printf '| %-28s |', '';
    printf ' %13s |', $_ for @heads;
    print "\n|", '-' x 30, '|', ('-' x 14 . ':|') x @heads, "\n";

    for my $way (@ways) {
        my ($name, $title) = @$way;

        my @full = map { "$name-$_" } @sizes;

        # how many there are does not matter to these

        @full = map { s/-64-pages$//r } @full if $name eq 'return';

        next if !grep { defined $cost->{$_} } @full;

        printf '| %-28s |', $title;

        for my $full (@full) {
            my $got = $cost->{$full};
            my $text = defined $got ? sprintf '%.2f', $got : '';

            $text .= " ($goals{$full})" if defined $got && $goals{$full};
            printf ' %13s |', $text;
        }

        printf ' %13.0f |', $memory->{ $full[0] } // 0 if %$memory;

        print "\n";
    }

    print "\n";
}


# system calls of the server for each request

sub syscalls {
    my ($self, @names) = @_;

    my $tool = $self->tracer('return');

    if (!$tool) {
        print "\n### syscalls: left out, neither perf nor strace may look at"
            . " nginx here\n";
        return;
    }

    open my $out, '>', "$self->{out}/syscalls.jsonl"
        or die "$self->{out}/syscalls.jsonl: $!\n";

    my (%seen, @rows);

    @names = grep { !$seen{$_}++ } @names;
    $self->{peers}->check(@names);

    for my $name (@names) {
        progress("syscalls: $name");

        my $row = $self->$tool($self->{peers}->scenario($name));

        $row->{scenario} = $name;
        print $out encode_json($row), "\n";
        push @rows, $row;
    }

    progress('');
    close $out;

    my $plain = $rows[0]{total};

    printf "\n### syscalls: system calls of the server a request, %d"
        . " connections, by %s\n\n", $self->{conns}, $tool;
    printf "| %-29s | %6s | %8s | %s\n", 'scenario', 'calls', '- return',
        'of which |';
    print '|', '-' x 31, '|', '-' x 8, '|', '-' x 10, "|---|\n";

    for my $row (@rows) {
        my $calls = $row->{calls};

        printf "| %-29s | %6.2f | %+8.2f | %s |\n", $row->{scenario},
            $row->{total}, $row->{total} - $plain, join ', ',
            map { sprintf '%s %.2f', $_, $calls->{$_} }
            grep { $calls->{$_} >= 0.01 }
            sort { $calls->{$b} <=> $calls->{$a} } keys %$calls;
    }

    print "\n";
    goals('syscalls', \%call_goals,
        { map { $_->{scenario} => $_->{total} - $plain } @rows },
        'calls more than return');
}


# perf hardly slows nginx down; strace does, and then less calls are needed

sub tracer {
    my ($self, $name) = @_;

    for my $tool (qw/ perf strace /) {
        next if !program($tool);

        my $row = eval {
            $self->$tool($self->{peers}->scenario($name));
        };

        die $@ if $@ && $@ eq "interrupted\n";
        return $tool if $row && $row->{total} > 0.5;
    }

    return;
}


sub perf {
    my ($self, $scenario) = @_;

    my $events = join ',', 'raw_syscalls:sys_enter',
        map { "syscalls:sys_enter_$_" } @calls;
    my ($n, $file) = $self->counted($scenario, 'perf', 'stat', '-x,', '-e',
        $events);

    return tally($n, $file, sub {
        my @field = split /,/, shift;

        return if @field < 3 || $field[0] !~ /^\d+$/;
        return ($field[2] =~ s/^.*sys_enter_?//r, $field[0]);
    });
}


# runs wrk while a tool looks at the server: the requests, and what it has told

sub counted {
    my ($self, $scenario, $tool, @arguments) = @_;

    my $file = $self->{stage}->dir() . "/$tool.txt";
    my $pid = $self->{stage}->spawn($tool, $tool, @arguments, '-o', $file,
        '-p', join(',', @{ $scenario->{servers} }));

    sleep 0.5;
    die "$tool does not work\n" if !$self->{stage}->alive($pid);

    my $json = $self->wrk_start($scenario, 2)->();

    kill 'INT', $pid;
    $self->{stage}->wait_for($pid);

    return ($json->{requests} || 1, $file);
}


# instructions of the server's own code for a request, or undef where the
# processor does not tell them

sub instructions {
    my ($self, $name) = @_;

    return if !program('perf');

    my ($n, $file) = $self->counted($self->{peers}->scenario($name), 'perf',
        'stat', '-x,', '-e', 'instructions:u');

    open my $f, '<', $file or return;
    my ($all) = map { /^(\d+),/ ? $1 : () } <$f>;

    return $all && $all / $n;
}


sub strace {
    my ($self, $scenario) = @_;

    my ($n, $file) = $self->counted($scenario, 'strace', '-c', '-f');

    return tally($n, $file, sub {
        my @field = split ' ', shift;

        return if @field < 5 || $field[3] !~ /^\d+$/;
        return ($field[-1] eq 'total' ? '' : $field[-1], $field[3]);
    });
}


sub tally {
    my ($requests, $file, $parse) = @_;

    my %calls;

    open my $f, '<', $file or die "$file: $!\n";

    while (my $line = <$f>) {
        my ($name, $n) = $parse->($line) or next;
        $calls{$name} = $n / $requests;
    }

    my $total = delete $calls{''} // 0;

    return { total => $total, calls => \%calls };
}


1;
