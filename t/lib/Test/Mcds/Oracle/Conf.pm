package Test::Mcds::Oracle::Conf;

# Copyright (C) mcds authors

# The configuration of nginx for one case of t/oracle.t, the test that compares
# the answers of nginx with and without mcds: a tree of directives, and its text
# for the one and the other nginx.  Functions tell the origin server of the test
# (App.pm) what it must know of the configuration.
#
#     d(name, arguments, kids, %more)     a directive; kids make it a block
#     text($case, %o)     nginx.conf; plain => 1 leaves out each mcds_ line,
#                         show => 1 the parts of the test itself; the rest of
#                         %o replaces %%names%%
#     places($case)       by the id of each location and server{}: { app,
#                         guard }: how the origin answers there, see App.pm;
#                         and the directives that apply there and keep pages
#                         of one client's session from other clients
#     nodes($case)        [list, index] of each directive, outer ones first
#     listens($server)    [address or undef, port] of each of its listen
#     subrequests($case)  whether there are subrequests
#
# Each location appends its id to $trace, unless "rewrite ... last" sends the
# request to another location.  The answer of nginx without mcds then shows
# which locations the request went through.

use warnings;
use strict;

use Exporter qw/ import /;

our @EXPORT = qw/ d text places nodes listens subrequests /;

# the text of nginx.conf around each test case

my $globals = <<'EOT';
%%load%%
%%user%%
daemon off;
master_process off;
pid %%dir%%/nginx.pid;
error_log %%dir%%/error.log warn;
events { worker_connections 512; }
EOT

my $http = <<'EOT';
access_log off;
client_body_temp_path %%dir%%/client;
proxy_temp_path %%dir%%/proxy;
fastcgi_temp_path %%dir%%/fastcgi;
uwsgi_temp_path %%dir%%/uwsgi;
scgi_temp_path %%dir%%/scgi;
uninitialized_variable_warn off;
root %%dir%%/root;
types { text/html html; text/plain txt; }
default_type text/html;
upstream app { server 127.0.0.1:%%O1%%; keepalive 8; }
upstream app2 { server 127.0.0.1:%%O2%%; keepalive 8; }
proxy_http_version 1.1;
EOT

my $plain = <<'EOT';
add_header X-Trace $trace always;
EOT

my $cached = <<'EOT';
mcds_zone 1m;
mcds_pool main {
    server 127.0.0.1:%%memcached%%;
    timeout 5s;
    prefix %%prefix%%;
}
add_header X-Cache $mcds_cache_status always;
add_header X-Reason $mcds_cache_reason always;
EOT

my $tls = <<'EOT';
ssl_certificate %%crt%%;
ssl_certificate_key %%key%%;
ssl_client_certificate %%crt%%;
EOT

my $proxied = <<'EOT';
proxy_set_header X-Trace $trace;
proxy_set_header X-Addr $remote_addr;
proxy_set_header Connection "";
EOT

my $own = <<'EOT';
location = /never { set $trace ""; }
EOT

my $purge = <<'EOT';
location = /purge {
    allow all;
    auth_basic off;
    auth_request off;
    mcds_purge_api on;
}
EOT

# Directives that keep the pages of a client's session from other clients if
# their arguments name the session cookie (SID), each with a letter.  One
# directive is enough if its letter is "s" or "k"; mcds_cache_bypass ("b") and
# mcds_no_cache ("n") are enough only together.

my %guards = (
    mcds_cache_session_cookies => 's',
    mcds_cache_bypass => 'b',
    mcds_no_cache => 'n',
    mcds_cache_key => 'k',
);


sub d {
    my ($n, $a, $k, %more) = @_;
    return { n => $n, a => $a, ($k ? (k => $k) : ()), %more };
}


sub text {
    my ($case, %o) = @_;

    my $out = "http {\n";

    if (!$o{show}) {
        $out = $globals . $out . $http . ($o{plain} ? $plain : $cached)
            . ($case->{tls} ? $tls : '');
    }

    $out .= lines($_, 1, {}, \%o) for @{$case->{http}}, @{$case->{servers}};
    $out .= "}\n";

    $out =~ s/%%(\w+)%%/$o{$1} \/\/ $1/ge;

    return $out;
}


# the text of a directive and its block; $in: the location or server{} around it

sub lines {
    my ($d, $depth, $in, $o) = @_;

    return '' if $o->{plain} && $d->{n} =~ /^mcds_/;

    my $pad = $o->{show} ? '    ' x $depth : '';
    my $head = $pad . $d->{n} . (length $d->{a} ? " $d->{a}" : '');

    if (!$d->{k}) {
        my $stays = $d->{n} eq 'return' || $d->{n} eq 'rewrite'
            && $d->{a} =~ / break$/;

        return ($stays ? here($in, $o) : '') . "$head;" . app($d, $o) . "\n";
    }

    my $out = "$head {\n";

    $in = $d if $d->{id};
    $out .= lines($_, $depth + 1, $in, $o) for @{$d->{k}};

    if ($d->{n} eq 'location') {
        $out .= here($d, $o) . proxied($d, $o);

    } elsif ($d->{n} eq 'server' && !$o->{show}) {
        $out .= $own . ($o->{plain} ? '' : $purge);
    }

    return "$out$pad}\n";
}


sub here {
    my ($in, $o) = @_;
    return $o->{show} ? '' : "set \$trace \"\$trace $in->{id}\";\n";
}


# returns the comment that follows proxy_pass in the nginx.conf that the test
# prints with a finding: how the test's application answers there, see App.pm

sub app {
    my ($d, $o) = @_;

    return '' if !$o->{show} || !$d->{app};

    return '   # ' . join ' ', map { "$_=$d->{app}{$_}" }
        grep { length($d->{app}{$_} // '') } sort keys %{$d->{app}};
}


sub proxied {
    my ($d, $o) = @_;

    return '' if $o->{show} || !passes($d);

    return "proxy_set_header X-Here $d->{id};\n$proxied";
}


# the proxy_pass directives of a location, including those in its "if" blocks

sub passes {
    my ($d) = @_;

    return grep { $_->{n} eq 'proxy_pass' } map { $_, @{$_->{k} // []} }
        grep { !$_->{id} } @{$d->{k}};
}


sub places {
    my ($case) = @_;

    my %places;

    walk(\%places, $case->{servers}, guards($case->{http}, {}));

    return \%places;
}


sub walk {
    my ($places, $kids, $outer) = @_;

    for my $d (grep { $_->{id} } @$kids) {
        my $guard = guards($d->{k}, $outer);
        my ($pass) = grep { $_->{app} } passes($d);

        $places->{$d->{id}} = { app => $pass && $pass->{app},
            guard => join '', sort values %$guard };

        walk($places, $d->{k}, $guard);
    }
}


# the directives that keep pages of one client's session from other clients, as
# far as they apply to a block of the configuration: those of the block itself
# replace those of outer blocks

sub guards {
    my ($kids, $outer) = @_;

    my %here = %$outer;

    for my $name (keys %guards) {
        my @those = grep { $_->{n} eq $name } @$kids or next;
        $here{$name} = grep({ $_->{a} =~ /SID/ } @those) ? $guards{$name} : '';
    }

    return \%here;
}


sub listens {
    my ($server) = @_;

    return map { $_->{a} =~ /^(?:([\d.]+):)?%%(\w+)%%/ ? [$1, $2] : () }
        grep { $_->{n} eq 'listen' } @{$server->{k}};
}


sub subrequests {
    my ($case) = @_;

    return scalar grep {
        my ($list, $i) = @$_;
        $list->[$i]{n} =~ /^(?:auth_request|mirror|ssi|add_\w+_body)$/;
    } nodes($case);
}


sub nodes {
    my ($case) = @_;

    my @nodes;
    my @next = ($case->{servers}, $case->{http});

    while (my $list = shift @next) {
        for my $i (0 .. $#$list) {
            push @nodes, [$list, $i];
            push @next, $list->[$i]{k} if $list->[$i]{k};
        }
    }

    return @nodes;
}


1;
