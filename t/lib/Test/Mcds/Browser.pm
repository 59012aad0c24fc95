package Test::Mcds::Browser;

# Copyright (C) mcds authors

# Headless Chromium, driven over its debugging protocol through a pipe.
#
#     my $b = Test::Mcds::Browser->start($t);
#     my $p = $b->page(url, width => 1280, height => 800, dark => 1,
#         mobile => 1)
#     $p->js(expression)           its value; promises are awaited
#     $p->wait(expression, s)      until it is true; false after s seconds
#     $p->text(selector)           the visible text of the element, or ''
#     $p->shot(file, %o)           a picture; %o: width, height, dark, mobile
#     $p->show(%o)                 applies the options of shot(), no picture
#     $p->errors()                 errors and exceptions in the console
#     $b->stop()

use warnings;
use strict;

use IO::Select;
use JSON::PP ();
use MIME::Base64 qw/ decode_base64 /;
use POSIX ();
use Time::HiRes qw/ sleep time /;

my $codec = JSON::PP->new()->utf8->allow_nonref;


sub start {
    my ($class, $t) = @_;

    pipe(my $in, my $to) or die "pipe: $!\n";
    pipe(my $from, my $out) or die "pipe: $!\n";

    my $dir = $t->dir() . '/chromium';
    mkdir $dir;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        setpgrp(0, 0);
        $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP PIPE /;

        # Chromium uses descriptors 3 and 4, which may be ends of our pipes

        my ($r, $w) = map { POSIX::dup2(fileno $_->[0], $_->[1]) }
            [$in, 60], [$out, 61];
        POSIX::dup2($r, 3);
        POSIX::dup2($w, 4);
        POSIX::close($_) for 5 .. 64;

        open STDIN, '<', '/dev/null';
        open STDOUT, '>', "$dir/log";
        open STDERR, '>&', \*STDOUT;

        $ENV{HOME} = $dir;

        { no warnings; exec 'chromium', '--headless=new', '--no-sandbox',
            '--remote-debugging-pipe', "--user-data-dir=$dir/profile",
            '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
            '--disable-extensions', '--disable-background-networking',
            '--disable-component-update', '--hide-scrollbars',
            '--force-color-profile=srgb', 'about:blank' }

        print STDERR "cannot run chromium: $!\n";
        POSIX::_exit(127);
    }

    close $in;
    close $out;
    $to->autoflush(1);
    $t->spawned($pid);

    return bless { t => $t, pid => $pid, to => $to, from => $from, id => 0,
        buf => '', dir => $dir, events => {} }, $class;
}


# sends a command to Chromium and returns its result; queues the events that
# arrive before the result

sub call {
    my ($self, $method, $params, $session) = @_;

    my $id = ++$self->{id};
    my %message = (id => $id, method => $method, params => $params // {});

    $message{sessionId} = $session if $session;

    # a NUL byte ends each message of the debugging protocol

    my $bytes = $codec->encode(\%message) . "\0";

    while (length $bytes) {
        my $n = syswrite($self->{to}, $bytes) // die "chromium: $!\n";
        substr $bytes, 0, $n, '';
    }

    my $end = time() + 30 * $self->{t}->slow();

    while (time() < $end) {
        my $answer = $self->next_message($end - time()) // last;

        if (($answer->{id} // 0) == $id) {
            die "chromium: $method: $answer->{error}{message}\n"
                if $answer->{error};
            return $answer->{result};
        }

        push @{$self->{events}{$answer->{sessionId} // ''}}, $answer
            if $answer->{method};
    }

    die "chromium: no answer to $method\n";
}


sub next_message {
    my ($self, $timeout) = @_;

    while ($self->{buf} !~ /\0/) {
        IO::Select->new($self->{from})->can_read($timeout) or return undef;
        sysread($self->{from}, $self->{buf}, 1048576, length $self->{buf})
            or die 'chromium has ended: ' . $self->log() . "\n";
    }

    $self->{buf} =~ s/\A([^\0]*)\0//;

    return $codec->decode($1);
}


sub log {
    my ($self) = @_;

    open my $fh, '<', "$self->{dir}/log" or return '';
    local $/;

    return <$fh> // '';
}


sub page {
    my ($self, $url, %o) = @_;

    my $target = $self->call('Target.createTarget', { url => 'about:blank' });
    my $session = $self->call('Target.attachToTarget', {
        targetId => $target->{targetId}, flatten => JSON::PP::true
    })->{sessionId};

    my $page = bless { browser => $self, session => $session,
        target => $target->{targetId} }, 'Test::Mcds::Browser::Page';

    $page->call("$_.enable") for qw/ Page Runtime Log /;
    $page->show(%o);
    $page->call('Page.navigate', { url => $url });
    $page->wait("document.readyState == 'complete' && location.href"
        . " != 'about:blank'", 20);

    return $page;
}


sub stop {
    my ($self) = @_;

    eval { $self->call('Browser.close') };

    my $end = time() + 10;

    while (waitpid($self->{pid}, POSIX::WNOHANG()) == 0) {
        if (time() > $end) {
            kill 'KILL', -$self->{pid};
            waitpid $self->{pid}, 0;
            last;
        }

        sleep 0.02;
    }

    $self->{t}->gone($self->{pid});

    # kill the remaining processes of Chromium's process group

    kill 'KILL', -$self->{pid};
}


package Test::Mcds::Browser::Page;

use MIME::Base64 qw/ decode_base64 /;
use Time::HiRes qw/ sleep time /;


sub call {
    my ($self, $method, $params) = @_;
    return $self->{browser}->call($method, $params, $self->{session});
}


sub show {
    my ($self, %o) = @_;

    $self->call('Emulation.setDeviceMetricsOverride', {
        width => 0 + ($o{width} // 1280),
        height => 0 + ($o{height} // 800),
        deviceScaleFactor => 0 + ($o{scale} // 1),
        mobile => $o{mobile} ? JSON::PP::true : JSON::PP::false,
    });
    $self->call('Emulation.setEmulatedMedia', { features => [
        { name => 'prefers-color-scheme', value => $o{dark} ? 'dark' : 'light' }
    ] });
}


sub js {
    my ($self, $expression) = @_;

    my $result = $self->call('Runtime.evaluate', {
        expression => $expression, awaitPromise => JSON::PP::true,
        returnByValue => JSON::PP::true,
    });

    die "page: $result->{exceptionDetails}{exception}{description}\n"
        if $result->{exceptionDetails};

    return $result->{result}{value};
}


sub wait {
    my ($self, $expression, $seconds) = @_;

    my $end = time() + ($seconds // 10);

    for ( ;; ) {
        my $value = $self->js($expression);

        return $value if $value || time() > $end;
        sleep 0.02;
    }
}


sub text {
    my ($self, $selector) = @_;

    my $quoted = JSON::PP->new->allow_nonref->encode($selector);

    return $self->js("(document.querySelector($quoted) || {}).innerText || ''");
}


sub shot {
    my ($self, $file, %o) = @_;

    $self->show(%o) if %o;

    # wait two frames, so that charts are drawn in the new size

    $self->js('new Promise((done) => requestAnimationFrame(() =>'
        . ' requestAnimationFrame(() => setTimeout(done, 50))))');

    my $data = $self->call('Page.captureScreenshot', {
        format => 'png', captureBeyondViewport => JSON::PP::false,
    })->{data};

    open my $fh, '>:raw', $file or die "$file: $!\n";
    print $fh decode_base64($data);
    close $fh;
}


sub errors {
    my ($self) = @_;

    my @found;

    $self->js('1');

    for (@{$self->{browser}{events}{$self->{session}}}) {
        my $p = $_->{params};

        push @found, $p->{exceptionDetails}{exception}{description}
            // $p->{exceptionDetails}{text}
            if $_->{method} eq 'Runtime.exceptionThrown';
        push @found, "$p->{entry}{text} $p->{entry}{url}"
            if $_->{method} eq 'Log.entryAdded'
                && $p->{entry}{level} =~ /error|warning/;
        push @found, join ' ', map { $_->{value} // '' } @{$p->{args}}
            if $_->{method} eq 'Runtime.consoleAPICalled'
                && $p->{type} =~ /error|warning|assert/;
    }

    return @found;
}


1;
