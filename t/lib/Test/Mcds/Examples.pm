package Test::Mcds::Examples;

# Copyright (C) mcds authors

# The configurations of README.md, docs/, conf-examples/ and compose/ as they
# are written, and complete ones made from them, with the ports and folders of a
# test and the parts that they leave to the reader.

use warnings;
use strict;

use Exporter 'import';
use FindBin;

our @EXPORT = qw/ examples whole locations /;

my $root = "$FindBin::Bin/..";

# the keys match nginx's messages about a name that an example leaves to the
# reader to define; each value returns a directive that defines the name

my %missing = (
    qr/unknown "(?!mcds_)(\w+)" variable/ =>
        sub { "map \$host \$$_[0] { default ''; }" },
    qr/there is no pool "(\w+)"/ => sub { pool($_[0]) },
    qr/needs a "mcds_pool"/ => sub { pool('main') },
    qr/needs a "mcds_use" to choose/ => sub { 'mcds_use ' . one() . ';' },
    qr/host not found in upstream "([a-z_]+)"/ =>
        sub { "upstream $_[0] { server 127.0.0.1:%%PORT_o%%; }" },
    qr/there is no "mcds_counter_top (\w+)"/ =>
        sub { "mcds_counter_top $_[0];" },
    qr/(?:zero size|unknown limit_req) .*zone "(\w+)"/ =>
        sub { "limit_req_zone \$host zone=$_[0]:1m rate=1r/s;" },
);

my @pools;


# all examples: { name, file, text }; the name of an example in the manual
# contains the number of its line

sub examples {
    my @all;

    for my $path ("$root/README.md", glob "$root/docs/{*,*/*}.md") {
        my $text = slurp($path);
        my $file = $path =~ s{^\Q$root\E/}{}r;

        while ($text =~ /^```nginx\n(.*?)^```$/msg) {
            my $block = $1;
            my $line = 1 + (substr($text, 0, $-[1]) =~ tr/\n//);

            push @all, { name => "$file:$line", file => $file,
                text => $block };
        }
    }

    for my $path (glob "$root/conf-examples/*.conf $root/compose/*.conf") {
        my $file = $path =~ s{^\Q$root\E/}{}r;

        push @all, { name => $file, file => $file, text => slurp($path) };
    }

    return @all;
}


# Returns a complete configuration, the exit code and the output of nginx -t,
# and the level at which the example begins.  %o: id, a name for the ports of
# further servers; memcached => { 'host:port' => name }: the memcached of the
# test that replaces the one at this address (default: the memcached "m");
# http, server => text that the example leaves to the reader; php => name of
# a FastCGI origin; addresses => a list of regex => text that replaces hosts and
# addresses; proxy_protocol => 1 to keep that option; alone => 1 to add nothing
# that nginx -t misses

sub whole {
    my ($t, $text, %o) = @_;

    $text = places($t, $text, %o);

    my $level = $text =~ /^\s*(?:http|events)\s*\{/m ? 'main'
        : $text =~ /^(?:mcds_pool|mcds_zone|mcds_counter_top|map|upstream
            |log_format|limit_req_zone|server|mcds_log\s+live)\b/mx ? 'http'
        : $text =~ /^location\b/m ? 'server' : 'location';

    # a log_format is allowed only in http, even in an example for a location

    my @more = $o{http} // ();
    my @formats;
    push @formats, $1 while $level eq 'http' && $text !~ /^server\b/m
        && $text =~ /^mcds_cache/m && $text =~ s/^(log_format .*?;)$//ms;
    $level = 'location' if @formats && $text !~ /^(?:map|upstream|mcds_pool)/m;

    push @more, @formats;
    @pools = $text =~ /^\s*mcds_pool\s+(\w+)/mg;
    $text .= "\n$o{server}" if $o{server};

    my ($conf, $code, $said);

    for (1 .. 12) {
        $conf = around($level, $text, @more);
        ($code, $said) = $t->conf_test($conf);
        last if $code == 0 || $o{alone};

        my ($found) = grep { $said =~ $_ } keys %missing;
        last if !$found;

        $said =~ $found;
        push @more, $missing{$found}->($1);
    }

    return ($conf, $code, $said, $level);
}


# replaces ports, addresses and folders of an example by those of this test

sub places {
    my ($t, $text, %o) = @_;

    my $dir = $t->dir();
    my $id = $o{id} // 'e';
    my $memcached = $o{memcached} // {};
    my $globals = qr/load_module|user|pid|error_log|worker_processes/;
    my ($listens, %port) = (0);

    $text =~ s/^\s*$globals\s.*\n//mg if $text !~ /^server\b/m;
    $text =~ s/^$globals\s.*\n//mg;

    my @addresses = @{$o{addresses} // []};

    while (my ($what, $by) = splice @addresses, 0, 2) {
        $text =~ s/$what/$by/g or die "not in the configuration: $what\n";
    }

    $text =~ s/\blisten\s+(?:\S+:)?(\d+)([^;]*);/'listen 127.0.0.1:'
        . ($port{$1} = '%%PORT' . ($listens++ ? "_${id}_$listens" : '') . '%%')
        . ($o{proxy_protocol} && $2 =~ m{proxy_protocol}
            ? ' proxy_protocol' : '') . ';'/ge;
    $text =~ s{\b([\w.]+:1121[12])\b}
        {exists $memcached->{$1}
            ? "127.0.0.1:%%PORT_$memcached->{$1}%%" : $1}ge;
    $text =~ s/\b127\.0\.0\.1:1121[12]\b/127.0.0.1:%%PORT_m%%/g;
    $text =~ s/\b(?:127\.0\.0\.1|application):8000\b/127.0.0.1:%%PORT_o%%/g;
    $text =~ s{\b127\.0\.0\.1:(\d+)\b}
        {'127.0.0.1:' . ($port{$1} // $1)}ge;
    $text =~ s/\bserver \{(?!.*\blisten)/server { listen 127.0.0.1:%%PORT%%;/
        if $text !~ /\blisten\b/;
    $text =~ s{unix:/run/php/php-fpm\.sock}{unix:%%SOCK_$o{php}%%}g if $o{php};
    $text =~ s{(?<!%)/(?:etc/nginx|var/log/nginx)/}{$dir/}g;
    $text =~ s{(?<=root)(\s+)/(?:srv|var)/\w+(?:/html)?;}{$1$dir/www;}g;
    $text =~ s{\s\Klogs/}{$dir/logs/}g;
    $text =~ s/\binclude\s+(?=\w)/include $dir\//g;
    $text =~ s/\b10\.0\.0\.(?=\d+\b(?!\/))/127.0.0./g;
    $text =~ s/\b[a-z]+(\d)\.internal\b/127.0.0.$1/g;
    $text =~ s/\s\.\.\.(?=\s)//g;

    return $text;
}


sub pool {
    push @pools, $_[0];
    return "mcds_pool $_[0] { server 127.0.0.1:%%PORT_m%%; }";
}


sub one { $pools[0] }


sub around {
    my ($level, $text, @more) = @_;

    my $more = join "\n", @more;

    if ($level eq 'main') {
        $text = "events { }\n$text" if $text !~ /^\s*events\b/m;
        $text =~ s/^(http\s*\{)/$1 %%HTTP%%\n$more/m;
        $text .= "\n" if $text !~ /\n\z/;
        return "%%GLOBALS%%\n$text";
    }

    $text = "location / {\n$text\n}" if $level eq 'location';
    $text = "server {\nlisten 127.0.0.1:%%PORT%%;\n$text\n}"
        if $level ne 'http';

    $text .= "server { listen 127.0.0.1:%%PORT%%; }"
        if $text !~ /\bserver \{/;

    return "%%GLOBALS%%\nevents { }\nhttp {\n%%HTTP%%\n$more\n$text\n}\n";
}


# returns those locations of a configuration that have a path, not a regex, as
# { port, path, body }; the body includes the directives of the server block

sub locations {
    my ($text) = @_;

    $text =~ s/#.*//mg;

    my $block = qr/(\{(?:[^{}]++|(?-1))*\})/;
    my @all;

    while ($text =~ /\bserver\s*$block/g) {
        my $server = $1;
        my ($port) = $server =~ /\blisten\s+\S+:(\d+)/ or next;
        my $shared = $server =~ s/\blocation\s[^{]*$block//gr;

        while ($server =~ m{\blocation\s+(?:=\s+)?(/\S*)\s*$block}g) {
            push @all, { port => $port, path => $1, body => "$shared$2" };
        }
    }

    return @all;
}


sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or die "$path: $!\n";
    local $/;

    return <$fh>;
}


1;
