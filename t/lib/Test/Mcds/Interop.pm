package Test::Mcds::Interop;

# Copyright (C) mcds authors

# Interoperability with other clients of the same servers: each side must find
# the values that the other one has stored, on whichever server.
#
#     my $i = Test::Mcds::Interop->new($t,
#         { ketama => 'distribution ketama;' });
#     $i->agree('ketama', sub { my ($set, $get, @servers) = @_; ... });
#     $i->agree('ketama', sub { ... }, weights => 1);
#
# new() starts five memcacheds, the servers of all pools, and an nginx with two
# pools for each key of the hash, one of them with weights of the servers.  The
# value has the other directives of the two pools; a value that begins with "--"
# is a configuration string of libmemcached, to which new() adds the servers.
# With unix => 1 the servers listen on unix sockets.
#
# agree() calls the client with a hash of values to set, or undef, a list of
# keys to get, and the list of servers, each { host, port, weight, address },
# where a unix socket is a host with port 0; the client returns the values that
# it got.  weights => 1: the client and the pool have weights; weights =>
# 'theirs': only the client has weights, and ignores them.  without => sub: keys
# for which the sub returns true are not used.  as: the name in messages.

use warnings;
use strict;

use Test::More;

use JSON::PP ();

our @WEIGHTS = (1, 3, 10, 2, 5);


sub new {
    my ($class, $t, $given, %o) = @_;

    my $self = bless { t => $t, n => $t->size(150, 4000),
        kind => $o{unix} ? 'unix' : 'tcp' }, $class;

    $self->{m} = [map { $t->memcached("$self->{kind}$_", unix => $o{unix}) }
        1 .. @WEIGHTS];

    my ($pools, $locations) = ('', '');

    for my $name (sort keys %$given) {
        for my $weights (0, 1) {
            my $pool = $weights ? "$name-weights" : $name;

            $pools .= "mcds_pool $pool {\n        timeout 5s;\n"
                . $self->pool($given->{$name}, $weights) . "    }\n    ";
            $locations .= "location = /$pool {\n"
                . "            mcds_use $pool;\n"
                . "            mcds_counter \$n key=\$arg_k;\n"
                . "            mcds_counter_durable \$n off;\n"
                . "            mcds_return \$n;\n"
                . "        }\n        ";
        }
    }

    $self->{h} = $t->nginx($self->{kind}, <<"EOT");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    $pools
    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 1000000;
        $locations
    }
}
EOT

    return $self;
}


sub pool {
    my ($self, $text, $weights) = @_;

    my @servers = $self->servers($weights);

    if ($text =~ /^--/) {
        $text .= ($_->{port} ? " --SERVER=$_->{address}"
            : " --SOCKET=\"$_->{host}\"")
            . ($weights ? "/?$_->{weight}" : '') for @servers;

        return "        libmemcached '$text';\n";
    }

    return "        $text\n" . join '', map { "        server $_->{address}"
        . ($weights ? " weight=$_->{weight}" : '') . ";\n" } @servers;
}


sub servers {
    my ($self, $weights) = @_;

    return map {
        my ($m, $weight) = ($self->{m}[$_], $weights ? $WEIGHTS[$_] : 1);

        $m->{unix}
            ? { host => $m->{unix}, port => 0, weight => $weight,
                address => "unix:$m->{unix}" }
            : { host => '127.0.0.1', port => $m->port(), weight => $weight,
                address => '127.0.0.1:' . $m->port() }
    } 0 .. $#WEIGHTS;
}


# increments each key by 1, 50 requests at a time on one connection; returns
# nginx's answers

sub count {
    my ($self, $pool, @keys) = @_;

    my $c = $self->{h}->conn();
    my @values;

    while (my @some = splice @keys, 0, 50) {
        $c->request("/$pool?k=$_") for @some;
        push @values, map { $c->response()->body } @some;
    }

    $c->close();

    return @values;
}


sub agree {
    my ($self, $name, $client, %o) = @_;

    my $weights = $o{weights} // 0;
    my $pool = $weights eq '1' ? "$name-weights" : $name;
    my $text = ($o{as} // $name) . ($weights ? ' with weights' : '');
    my @servers = $self->servers($weights);
    my $n = $self->{n};

    # makes keys of many lengths for the other client and for nginx

    my $without = $o{without} // sub { 0 };
    my (@theirs, @ours);

    for (my $k = 1; @ours < $n; $k++) {
        my $rest = "$k." . 'x' x ($k % 60);

        next if $without->("theirs.$rest") || $without->("ours.$rest");

        push @theirs, "theirs.$rest";
        push @ours, "ours.$rest";
    }

    my %theirs = map { ($theirs[$_] => 1000000 + $_) } 0 .. $#theirs;

    $_->flush() for @{$self->{m}};

    $client->({ %theirs }, [], @servers);

    my @found = $self->count($pool, @theirs);
    my $lost = grep { $found[$_] ne $theirs{$theirs[$_]} + 1 } 0 .. $#theirs;

    is($lost, 0, "$text: we find what they store, $n keys");

    my @counts = $self->count($pool, @ours);

    is(scalar(grep { $_ ne '1' } @counts), 0, "$text: we store $n keys");

    my @values = $client->(undef, [@theirs, @ours], @servers);

    my @right = ((map { $theirs{$_} + 1 } @theirs), (1) x @ours);
    $lost = grep { ($values[$_] // '') ne $right[$_] } 0 .. $#right;

    is($lost, 0, "$text: they find what we store and have counted on");

    my @items = map { $_->stats()->{curr_items} } @{$self->{m}};

    # a server's share of the keys varies with its address, which is random.
    # The share may be very small if the address is a unix socket, if the pool
    # is "consistent", or if the weight of the server is 1, of 21 in all

    my @least = map {
        $self->{m}[0]{unix} || $name eq 'consistent'
            || $weights eq '1' && $_ == 1 ? 0 : $n / 50
    } @WEIGHTS;

    is(scalar(grep { $items[$_] > $least[$_] } 0 .. $#items), 5,
        "$text: on 5 servers, @items");
}


# Returns a client for agree(), which tests that mcds and another client library
# of memcached find each other's values: a sub that runs the program @command.
# The program's last argument is a file with a JSON object: $setting, the keys
# and values to "set", the keys to "get", and the servers.  It prints the values
# of the latter keys as a JSON array.

sub program {
    my ($self, $setting, @command) = @_;

    my $t = $self->{t};
    my $json = JSON::PP->new()->canonical();

    return sub {
        my ($set, $get, @servers) = @_;

        my $file = $t->write_file('task.json', $json->encode({
            setting => $setting, set => $set // {}, get => $get,
            servers => \@servers }));

        my $output = $t->run(@command, $file);
        my $values = eval { $json->decode($output) };

        if ($? || !$values) {
            diag("@command: $output");
            return;
        }

        return @$values;
    };
}


# the values that nginx's module memcached finds, with $line, such as a "hash",
# in the upstream{} block

sub nginx {
    my ($self, $line, $get, @servers) = @_;

    my $t = $self->{t};
    my $list = join "\n        ",
        map { "server $_->{address} weight=$_->{weight};" } @servers;

    my $h = $t->nginx("own-$self->{kind}-" . ++$self->{own}, <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    upstream u {
        $line
        $list
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 1000000;
        location = / {
            set \$memcached_key \$arg_k;
            memcached_pass u;
        }
    }
}
EOT

    my $c = $h->conn();
    my @values = map { $c->get("/?k=$_")->body() } @$get;

    $c->close();
    $h->quit();

    return @values;
}


1;
