package Test::Mcds::Fake;

# Copyright (C) mcds authors

# A memcached under the control of the test: it implements the meta commands,
# and a callback may replace any reply.

use warnings;
use strict;

use base qw/ Test::Mcds::Server Test::Mcds::Talk /;

use Test::Mcds::Classic;


sub where {
    my ($self) = @_;
    return $self->{unix} // $self->{port};
}


sub stop {
    my ($self) = @_;

    $self->hang_up();
    $self->SUPER::stop();
}


# the commands received, oldest first: { conn, read, line, cmd, key, value, at }

sub log {
    my ($self) = @_;
    return grep { $_->{event} eq 'command' } $self->records();
}


sub commands {
    my ($self, $re) = @_;
    return grep { !defined $re || $_ =~ $re } map { $_->{line} } $self->log();
}


sub count {
    my ($self, $re) = @_;
    return scalar(() = $self->commands($re));
}


sub opened_count {
    my ($self) = @_;
    return scalar grep { $_->{event} eq 'open' } $self->records();
}


# initializes the simulated memcached; called in the server's process

sub init {
    my ($self) = @_;

    $self->{store} = {};
    $self->{next_cas} = 1;
    $self->{version} //= '1.6.18';
}


sub opened {
    my ($self, $c) = @_;

    my $code = $self->{on_connect} or return;
    $self->queue($c, $code->($self, $c));
}


sub input {
    my ($self, $c) = @_;

    while ($c->{sock} && !$c->{deaf}
        && $c->{in} =~ /\A([^\n]*?)\r?\n/)
    {
        my $line = $1;
        my $taken = $+[0];
        my ($cmd, $key, $len, undef, $classic) = split / /, $line;
        my $value;

        $cmd //= '';
        $len = $classic if $cmd =~ /^(?:set|add|cas|append)$/;

        if ($cmd =~ /^(?:ms|set|add|cas|append)$/ && defined $len
            && $len =~ /^\d+$/)
        {
            last if length $c->{in} < $taken + $len + 2;
            $value = substr($c->{in}, $taken, $len);
            $taken += $len + 2;
        }

        substr($c->{in}, 0, $taken, '');
        $c->{commands}++;

        $self->put(event => 'command', conn => $c->{id}, read => $c->{reads},
            line => $line, cmd => $cmd, key => $key, value => $value);

        my @answer = $self->{on_command}
            ? $self->{on_command}->($self, $c, $line, $value) : ();

        if (!@answer || !defined $answer[0]) {
            @answer = $self->default($line, $value);
        }

        $self->queue($c, @answer);
        $self->run($c);
    }
}


# splits the line of a meta command: "mg key v Oabc" becomes ('mg', 'key', { v
# => '', O => 'abc' }, 'v', 'O')

sub parse_line {
    my ($self, $line) = @_;

    my ($cmd, $key, @rest) = split / /, $line;

    shift @rest if ($cmd // '') eq 'ms';

    return ($cmd, $key,
        { map { substr($_, 0, 1) => substr($_, 1) } @rest },
        map { substr($_, 0, 1) } @rest);
}


sub flag {
    my ($self, $line, $name) = @_;
    return ($self->parse_line($line))[2]{$name};
}


# the reply of memcached 1.6.18 to a command

sub default {
    my ($self, $line, $value) = @_;

    my ($cmd, $key, $f, @order) = $self->parse_line($line);

    return "ERROR\r\n" if !defined $cmd;
    return "MN\r\n" if $cmd eq 'mn';
    return "VERSION $self->{version}\r\n" if $cmd eq 'version';

    if ($cmd eq 'flush_all') {
        $self->{store} = {};
        return "OK\r\n";
    }

    my $classic = Test::Mcds::Classic::answer($self, $line, $value);
    return $classic if defined $classic;

    my $code = { mg => \&meta_get, ms => \&meta_set, ma => \&meta_arith,
                 md => \&meta_delete }->{$cmd} or return "ERROR\r\n";

    if (!defined $key || !length $key || length $key > 250) {
        return "CLIENT_ERROR bad command line format\r\n";
    }

    return $code->($self, $key, $f, \@order, $value);
}


# the default reply to a command, after so many seconds: the replies to commands
# that arrived together are sent together

sub lag {
    my ($self, $c, $line, $value, $seconds) = @_;

    my $now = Time::HiRes::time();
    my $due = $now + $seconds;
    my $last = $c->{due} // 0;

    $c->{due} = $due;

    return [$self->default($line, $value),
        $due - ($last > $now ? $last : $now)];
}


# returns the item of a key, if it exists and has not expired

sub item {
    my ($self, $key) = @_;

    my $item = $self->{store}{$key} or return;

    if ($item->{expires} && $item->{expires} <= Time::HiRes::time()) {
        delete $self->{store}{$key};
        return;
    }

    return $item;
}


sub put_item {
    my ($self, $key, $value, $ttl, $flags) = @_;

    return $self->{store}{$key} = {
        value => $value, cas => $self->{next_cas}++, flags => $flags || 0,
        expires => Test::Mcds::Classic::ends($ttl),
    };
}


# the line of a reply to a meta command: the code, and the requested flags in
# their order

sub line {
    my ($self, $code, $key, $f, $order, $item) = @_;

    my @out = ($code);

    for (@$order) {
        if ($_ eq 'k') {
            push @out, "k$key";

        } elsif ($_ eq 'O') {
            push @out, "O$f->{O}";

        } elsif ($item) {
            push @out, "c$item->{cas}" if $_ eq 'c';
            push @out, "f$item->{flags}" if $_ eq 'f';
            push @out, 's' . length $item->{value} if $_ eq 's';
            push @out, 't' . ($item->{expires}
                ? int($item->{expires} - Time::HiRes::time() + 0.5) : -1)
                if $_ eq 't';
        }
    }

    return join(' ', @out) . "\r\n";
}


sub valued {
    my ($self, $key, $f, $order, $item) = @_;

    if (!exists $f->{v}) {
        return $self->line('HD', $key, $f, $order, $item);
    }

    return $self->line('VA ' . length $item->{value}, $key, $f, $order, $item)
        . "$item->{value}\r\n";
}


sub meta_get {
    my ($self, $key, $f, $order) = @_;

    my $item = $self->item($key)
        or return $self->line('EN', $key, $f, $order);

    if (exists $f->{T}) {
        $item->{expires} = Test::Mcds::Classic::ends($f->{T});
    }

    return $self->valued($key, $f, $order, $item);
}


sub meta_set {
    my ($self, $key, $f, $order, $value) = @_;

    if (!defined $value) {
        return "CLIENT_ERROR bad data chunk\r\n";
    }

    my $mode = uc($f->{M} // 'S');
    my $old = $self->item($key);
    my $no = sub { $self->line($_[0], $key, $f, $order) };

    if ($f->{C}) {
        return $no->('NF') if !$old;
        return $no->('EX') if $old->{cas} != $f->{C};
    }

    return $no->('NS') if $mode =~ /^(E|ADD)/ && $old;
    return $no->('NS') if $mode =~ /^[RAP]/ && !$old;

    my ($ttl, $flags) = ($f->{T}, $f->{F});

    if ($mode =~ /^[AP]/) {
        $value = $mode =~ /^A/ ? "$old->{value}$value" : "$value$old->{value}";
        $flags = $old->{flags};
    }

    my $item = $self->put_item($key, $value, $ttl, $flags);

    $item->{expires} = $old->{expires} if $mode =~ /^[AP]/;

    return $self->line('HD', $key, $f, $order, $item);
}


sub meta_arith {
    my ($self, $key, $f, $order) = @_;

    my $item = $self->item($key);

    if (!$item) {
        return $self->line('NF', $key, $f, $order) if !exists $f->{N};

        $item = $self->put_item($key, $f->{J} || 0, $f->{N});
        return $self->valued($key, $f, $order, $item);
    }

    if ($f->{C} && $f->{C} != $item->{cas}) {
        return $self->line('EX', $key, $f, $order);
    }

    if ($item->{value} !~ /^(\d+) *$/) {
        return "CLIENT_ERROR cannot increment or decrement "
            . "non-numeric value\r\n";
    }

    # perl's integers have 64 bits, and wrap around like those of memcached

    my $n = $1 + 0;
    my $delta = length($f->{D} // '') ? $f->{D} + 0 : 1;

    if (($f->{M} // '') =~ /^[D-]/i) {
        $n = $delta > $n ? 0 : $n - $delta;

    } else {
        my $room = ~0 - $n;
        $n = $delta > $room ? $delta - $room - 1 : $n + $delta;
    }

    my $len = length $item->{value};

    $item->{value} = length "$n" < $len ? sprintf('%-*s', $len, $n) : "$n";
    $item->{cas} = $self->{next_cas}++;

    if (exists $f->{T}) {
        $item->{expires} = Test::Mcds::Classic::ends($f->{T});
    }

    # if an increment or decrement makes the number in an item shorter,
    # memcached pads it with blanks in the item, but not in the reply

    return $self->valued($key, $f, $order, { %$item, value => "$n" });
}


sub meta_delete {
    my ($self, $key, $f, $order) = @_;

    my $item = $self->item($key)
        or return $self->line('NF', $key, $f, $order);

    if ($f->{C} && $f->{C} != $item->{cas}) {
        return $self->line('EX', $key, $f, $order);
    }

    delete $self->{store}{$key};

    return $self->line('HD', $key, $f, $order);
}


1;
