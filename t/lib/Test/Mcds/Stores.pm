package Test::Mcds::Stores;

# Copyright (C) mcds authors

# Programs that support only the classic protocol: yrmcds, a store; nutcracker,
# a proxy for memcached servers of the test.  Both with a typical configuration.

use warnings;
use strict;

use base qw/ Test::Mcds::Talk /;


# start yrmcds or nutcracker: Test::Mcds::Stores::yrmcds($t, 'name'),
# nutcracker($t, 'name', @memcached, {option => value})

sub yrmcds {
    my ($t, $name) = @_;

    my $dir = $t->dir();

    return $t->on_port($name, sub {
        my ($port) = @_;
        my $replication = $t->port("$name.replication.$port");

        my $conf = $t->write_file("$name.conf", <<"EOT");
virtual_ip = 127.0.0.1
bind_ip = 127.0.0.2
port = $port
repl_port = $replication
temp_dir = "$dir"
log.threshold = warning
workers = 2
buckets = 10000
memory_limit = 64M
EOT

        return start($t, $name, 'yrmcdsd', '-f', $conf);
    });
}


sub nutcracker {
    my ($t, $name, @servers) = @_;

    my %o = ref $servers[-1] eq 'HASH' ? %{pop @servers} : ();
    my $dir = $t->dir();

    my %all = (
        hash => 'md5',
        distribution => 'modula',
        auto_eject_hosts => 'false',
        timeout => 10_000,
        server_retry_timeout => 300,
        %o,
    );

    return $t->on_port($name, sub {
        my ($port) = @_;

        my $conf = $t->write_file("$name.yml", join '', "pool:\n",
            "  listen: 127.0.0.1:$port\n",
            (map { "  $_: $all{$_}\n" } sort keys %all), "  servers:\n",
            map { "   - 127.0.0.1:" . $_->port() . ":1\n" } @servers);

        return start($t, $name, 'nutcracker', '-c', $conf,
            '-o', "$dir/$name.log", '-p', "$dir/$name.pid",
            '-a', '127.0.0.1', '-s', $t->port("$name.stats.$port"));
    });
}


sub start {
    my ($t, $name, @command) = @_;

    my $self = bless {
        test => $t, name => $name, port => $t->port($name),
        command => \@command,
    }, __PACKAGE__;

    $self->up();
    push @{$t->{servers}}, $self;

    return $self;
}


sub up {
    my ($self) = @_;

    local $ENV{PATH} = "$ENV{PATH}:/usr/sbin";

    $self->{pid} = $self->{test}->helper($self->{name}, sub {
        return $self->says('version', qr/\A(?:VERSION|SERVER_ERROR)/);
    }, @{$self->{command}});

    return $self;
}


sub installed {
    my ($program) = @_;
    return grep { -x "$_/$program" } split(/:/, $ENV{PATH}), '/usr/sbin';
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub port { $_[0]{port} }
sub where { $_[0]{port} }


sub stop {
    my ($self) = @_;

    return if !$self->{pid};

    $self->hang_up();
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{test}->gone($self->{pid});
    $self->{pid} = 0;
}


# get(), set() and delete() of Talk.pm send memcached's meta commands, which
# yrmcds and nutcracker do not know; these send the commands of the classic text
# protocol

sub get {
    my ($self, $key) = @_;

    my $r = $self->mc("get $key");

    return $r =~ /\AVALUE \S+ \d+ (\d+)\r\n/ ? substr($r, $+[0], $1) : undef;
}


sub set {
    my ($self, $key, $value, $ttl) = @_;

    return $self->mc("set $key 0 " . ($ttl // 0) . ' ' . length($value),
        $value) =~ /\ASTORED/;
}


sub delete {
    my ($self, $key) = @_;
    return $self->mc("delete $key") =~ /\ADELETED/;
}


1;
