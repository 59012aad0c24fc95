package Test::Mcds::Tool;

# Copyright (C) mcds authors

=head1 NAME

Test::Mcds::Tool - runs mcds, the program, for the tests

=head1 SYNOPSIS

    my $mcds = Test::Mcds::Tool->new($t, '-c', $file);

    my $r = $mcds->run('get', 'http://localhost/');
    $r->{code}, $r->{out}, $r->{err}, $r->{seconds}

    my $json = $mcds->json('counter', 'get', 'hits');   # decodes --json

    my $p = $mcds->start('log', 'follow', 'live');      # in the background
    $p->lines                       # printed so far
    $p->errors                      # likewise for stderr, as one text
    $p->kill('TERM')                # sends a signal
    $p->wait                        # waits for its end; its exit code
    $p->stop                        # sends INT and waits

    $mcds->from($file)              # the same program with that file as input
    $mcds->to($file)                # with that file as output
    $mcds->closed(0, 1)             # with these descriptors closed
    $mcds->on($terminal)            # as the leader of a session on a terminal

The time limit is longer than a busy machine needs, unless the arguments set
one.  The program is TEST_MCDS_TOOL, or build/mcds; the test file is skipped if
it does not exist.

=cut

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Basename qw/ dirname /;
use JSON::PP ();
use POSIX ();
use Test::More ();
use Time::HiRes qw/ time /;

my $number = 0;


sub new {
    my ($class, $t, @args) = @_;

    my $program = $ENV{TEST_MCDS_TOOL}
        // abs_path(dirname(__FILE__) . '/../../../..') . '/build/mcds';

    if (!-x $program) {
        Test::More::plan(skip_all => "no $program, make tool builds it");
    }

    return bless { t => $t, program => $program,
        args => ['--timeout', '20s', @args] }, $class;
}


sub spawn {
    my ($self, @args) = @_;

    my $base = $self->{t}->dir() . '/tool-' . ++$number;

    my $pid = fork() // die "fork: $!";

    if ($pid == 0) {
        POSIX::setsid() if $self->{session};

        open STDIN, '<', $self->{stdin} // '/dev/null';
        open STDOUT, '>', $self->{stdout} // "$base.out";
        open STDERR, '>', "$base.err";
        POSIX::close($_) for @{$self->{closed} // []};
        exec($self->{program}, @{$self->{args}}, @args)
            or POSIX::_exit(127);
    }

    return { pid => $pid, base => $base };
}


sub slurp {
    my ($path) = @_;

    open my $fh, '<:raw', $path or return '';
    local $/;

    return <$fh> // '';
}


sub from {
    my ($self, $file) = @_;

    return bless { %$self, stdin => $file }, ref $self;
}


sub to {
    my ($self, $file) = @_;

    return bless { %$self, stdout => $file }, ref $self;
}


sub closed {
    my ($self, @numbers) = @_;

    return bless { %$self, closed => \@numbers }, ref $self;
}


# the first terminal that the leader of a session opens becomes its own

sub on {
    my ($self, $terminal) = @_;

    return bless { %$self, stdin => $terminal, session => 1 }, ref $self;
}


sub run {
    my ($self, @args) = @_;

    my $start = time();
    my $p = $self->spawn(@args);

    waitpid $p->{pid}, 0;

    return {
        code => $? & 127 ? "signal $?" : $? >> 8, seconds => time() - $start,
        out => slurp("$p->{base}.out"), err => slurp("$p->{base}.err"),
    };
}


sub json {
    my ($self, @args) = @_;

    my $r = $self->run('--json', @args);

    return eval { JSON::PP->new()->allow_nonref()->decode($r->{out}) };
}


sub start {
    my ($self, @args) = @_;

    return bless $self->spawn(@args), 'Test::Mcds::Tool::Process';
}


package Test::Mcds::Tool::Process;

use warnings;
use strict;


sub lines {
    my ($self) = @_;

    return split /\n/, Test::Mcds::Tool::slurp("$self->{base}.out");
}


sub errors {
    my ($self) = @_;

    return Test::Mcds::Tool::slurp("$self->{base}.err");
}


sub kill {
    my ($self, $signal) = @_;

    return CORE::kill $signal, $self->{pid};
}


sub wait {
    my ($self) = @_;

    my $pid = delete $self->{pid} or return $self->{code};

    waitpid $pid, 0;

    return $self->{code} = $? & 127 ? "signal $?" : $? >> 8;
}


sub stop {
    my ($self) = @_;

    $self->kill('INT') if $self->{pid};

    return $self->wait();
}


sub DESTROY {
    my ($self) = @_;

    local ($?, $!);
    $self->stop();
}


1;
