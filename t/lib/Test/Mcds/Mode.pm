package Test::Mcds::Mode;

# Copyright (C) mcds authors

# Modes in which nginx can run in all tests: with one worker, with threads, with
# few connections and so on.  MCDS_MODE names the mode, which changes the
# configuration of each nginx of a test.  No line moves, so that line numbers in
# nginx's messages are those of the configuration in the test.

use warnings;
use strict;

use List::Util qw/ min /;


# the modes of nginx.  workers: the number of workers, regardless of the test;
# main, events, http: directives, unless the test has them; needs: a feature
# that nginx must have; allow: log lines that the mode may cause; clients: the
# maximum of concurrent connections

my %modes = (

    connections => {
        clients => 48,
        events => ['worker_connections 128;'],
        allow => qr/\[alert\] .* worker_connections are not enough/,
    },

    nofile => {
        clients => 48,
        main => ['worker_rlimit_nofile 128;'],
        allow => qr/failed \(24: Too|accept4\(\) failed \(9: Bad file/,
    },

    daemon => { daemon => 1 },
    single => { workers => 1, main => ['master_process off;'] },
    one => { workers => 1 },
    two => { workers => 2, reuseport => 1 },
    many => { workers => 64 },

    threads => {
        http => ['aio threads;', 'aio_write on;', 'sendfile on;'],
        needs => 'threads',
    },

    reuseport => { reuseport => 1 },
);


# returns the mode with this name, such as "single", which changes the
# configuration of each nginx; without a name, a mode that changes nothing

sub new {
    my ($class, $name) = @_;

    $name //= '';

    die "no mode \"$name\", but: " . join(' ', sort keys %modes) . "\n"
        if length $name && !$modes{$name};

    return bless { name => $name, %{$modes{$name} // {}} }, $class;
}


sub name { $_[0]{name} }
sub needs { $_[0]{needs} // () }
sub allow { $_[0]{allow} // () }
sub workers { $_[0]{workers} // $_[1] }
sub clients { min($_[0]{clients} // $_[1], $_[1]) }
sub daemon { $_[0]{daemon} ? 'on' : 'off' }


# changes the text of an nginx.conf for the mode in which nginx runs in all
# tests, such as with one worker or with threads; the text still has
# placeholders such as %%HTTP%%, where directives are inserted

sub edit {
    my ($self, $text) = @_;

    if (my $n = $self->{workers}) {
        $text =~ s/^(\s*worker_processes)\s[^;]*;/$1 $n;/m
            or $text =~ s/(?<=%%GLOBALS%%)/ worker_processes $n;/;
    }

    my @main = missing($text, @{$self->{main} // []});
    my @events = missing($text, @{$self->{events} // []});
    my @http = missing($text, @{$self->{http} // []});

    $text =~ s/(?<=%%GLOBALS%%)/ @main/ if @main;
    $text =~ s/\bevents\s*\{/events { @events/ if @events;
    $text =~ s/(?<=%%HTTP%%)/ @http/ if @http;

    return $self->{reuseport} ? reuseport($text) : $text;
}


# returns those of @directives whose names do not occur in the text of a
# configuration

sub missing {
    my ($text, @directives) = @_;

    return grep {
        my ($name) = /^(\w+)/;
        $text !~ /(?:^|[{;])\s*$name\s/m;
    } @directives;
}


# adds "reuseport" to the first "listen" of each address: nginx refuses a second
# "listen" with options for the same address

sub reuseport {
    my ($text) = @_;

    my %had = map { $_ => 1 } $text =~ /\blisten\s+(\S+)\s[^;]*\breuseport\b/g;

    $text =~ s{((?:^|[\{;])\s*listen\s+(?!unix:)([^;\s]+))(?=[^;]*;)}
        {$had{$2}++ ? $1 : "$1 reuseport"}gem;

    return $text;
}


1;
