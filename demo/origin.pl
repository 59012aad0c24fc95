#!/usr/bin/perl

# A slow application: each page takes a while to make, any number of them at
# once, and all are counted.
#
#   origin.pl --port N [--delay seconds] [--page file | --size bytes]
#             [--set NAME=text ...] [--header "Name: value"]
#
# GET /-/stats tells the counts so far, GET /-/reset also starts them anew;
# any other path is a page.  In the file, {{BUILD}} is the number of the page
# and {{NAME}} the text of --set.

use warnings;
use strict;

use Getopt::Long;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use Time::HiRes qw/ clock_gettime CLOCK_MONOTONIC /;


my ($delay, $size, @headers, %set) = (1, 1024);
my (@waiting, %input);

GetOptions('port=i' => \my $port, 'delay=f' => \$delay, 'page=s' => \my $file,
    'size=i' => \$size, 'set=s%' => \%set, 'header=s' => \@headers)
    or die "bad options\n";

my $text = 'x' x $size;

if (defined $file) {
    open my $f, '<', $file or die "$file: $!\n";
    local $/;
    $text = <$f>;
}

my $listen = IO::Socket::INET->new(Listen => 4096, ReuseAddr => 1,
    LocalAddr => '127.0.0.1', LocalPort => $port) or die "port $port: $!\n";
my $select = IO::Select->new($listen);

my ($total, $open, $most, @done) = (0, 0, 0);

$SIG{PIPE} = 'IGNORE';


for ( ;; ) {
    my $now = clock_gettime(CLOCK_MONOTONIC);
    my $wait = @waiting ? $waiting[0]{due} - $now : undef;

    $wait = 0 if defined $wait && $wait < 0;

    for my $s ($select->can_read($wait)) {
        if ($s == $listen) {
            my $client = $listen->accept() or next;
            $select->add($client);
            $input{$client} = '';

        } else {
            receive($s);
        }
    }

    $now = clock_gettime(CLOCK_MONOTONIC);

    while (@waiting && $waiting[0]{due} <= $now) {
        finish(shift @waiting);
    }
}


sub receive {
    my ($s) = @_;

    my $n = sysread $s, $input{$s}, 65536, length $input{$s};

    if ($n && $input{$s} !~ /\r\n\r\n/) {
        return;
    }

    $select->remove($s);
    my $head = delete $input{$s};

    if (!$n) {
        close $s;
        return;
    }

    my ($path) = $head =~ m{^\S+ (\S+)};
    my ($edge) = $head =~ /^X-Edge: (.*?)\r$/m;

    if ($path =~ m{^/-/(stats|reset)$}) {
        send_page($s, encode_json({ requests => $total, open => $open,
            most => $most, done => \@done }));

        if ($1 eq 'reset') {
            ($total, $most, @done) = (0, $open);
        }

        return;
    }

    # all pages take equally long, so the queue is in order
    $total++;
    $most = $open if ++$open > $most;
    push @waiting, { socket => $s, edge => $edge, build => $total,
        due => clock_gettime(CLOCK_MONOTONIC) + $delay };
}


sub finish {
    my ($job) = @_;

    my $body = $text;

    $body =~ s/\{\{BUILD\}\}/$job->{build}/g;
    $body =~ s/\{\{([A-Z]+)\}\}/$set{$1} \/\/ ''/ge;

    $open--;
    push @done, { at => clock_gettime(CLOCK_MONOTONIC),
        edge => $job->{edge} };

    send_page($job->{socket}, $body, 'Content-Type: text/html', @headers,
        "X-Build: $job->{build}");
}


sub send_page {
    my ($s, $body, @lines) = @_;

    my $all = join("\r\n", 'HTTP/1.1 200 OK', @lines, 'Content-Length: '
        . length $body, 'Connection: close', '', $body);

    $s->blocking(1);

    while (length $all) {
        my $n = syswrite $s, $all or last;
        substr $all, 0, $n, '';
    }

    close $s;
}
