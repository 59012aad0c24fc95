#!/usr/bin/perl

# Copyright (C) mcds authors

# A module without a feature has no source of it, and no other source uses one:
# for each feature that can be left out, and for all of them, the objects of the
# build that are left define all symbols of mcds that they use.  Sources that
# have a switch, or that have changed since the build, are compiled again.
# make without builds and tests whole modules.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ slurp /;

my $t = Test::Mcds->new(module => 0);
my $root = "$FindBin::Bin/..";
my $tree = "$root/build/nginx-dev/src";
my @all = qw/ status data lock log top writeback compress hmac tags vary large
    local /;

$t->needs('nm', 'cc');
$t->leave('there are no objects of the module, make builds them')
    if !-f "$tree/objs/addon/kit/ngx_http_mcds_module.o";

# what config asks of nginx's configure

my $dir = $t->dir() . '/configure';

mkdir $dir;
mkdir "$dir/auto";
$t->write_file('configure/auto/feature', "ngx_found=yes\n");
$t->write_file('configure/auto/have', "echo \"have: \$have\"\n");
$t->write_file('configure/auto/module', <<'EOT');
for name in name srcs deps libs incs; do
    eval "echo \"$name:\" \$ngx_module_$name"
done
EOT

my %whole = config();
my @switches = grep { slurp($_) =~ /NGX_MCDS_WITHOUT_/ }
    split ' ', $whole{srcs};

cmp_ok(scalar(@switches), '>', 3, 'some sources have switches');

for my $without (@all, "@all") {
    my $name = $without =~ / / ? 'all' : $without;
    my %left = config($without);
    my %in = map { $_ => 1 } split ' ', $left{srcs};
    my @objects = map { object($name, $_, $left{have}) } sort keys %in;
    my (%defined, %used);

    cmp_ok(scalar(keys %in), '<', scalar(split ' ', $whole{srcs}) + 1,
        "without $name: sources are left out or replaced");

    # the folder of a room, and its line in config, may be deleted

    for my $room (grep { -d "$root/src/$_" } map { ($_, "http/$_") }
        split ' ', $without)
    {
        is(scalar(grep { m{/src/$room(?:/|$)} } map { split } @left{
            qw/ srcs deps incs / }), 0, "without $name: nothing of $room");
    }

    for (split /\n/, $t->run('nm', '-A', '-P', @objects)) {
        my ($file, $symbol, $type) = m{([^/]+)\.o: (\w*mcds\w*) (\w)} or next;

        $type eq 'U' ? ($used{$symbol} = $file) : ($defined{$symbol} = 1);
    }

    is_deeply([map { "$_ in $used{$_}" } grep { !$defined{$_} }
        sort keys %used], [], "without $name: nothing is missing");

    is($left{libs} =~ /jansson/ ? 1 : 0, $name eq 'all' ? 0 : 1,
        "without $name: jansson");
    is($left{libs} =~ /zstd/ ? 1 : 0, $name =~ /^(?:all|compress)$/ ? 0 : 1,
        "without $name: zstd");
}

like(config_error('nonsense'), qr/MCDS_WITHOUT has "nonsense"/,
    'a feature that there is not');

$t->done();


sub config {
    my $text = config_error(@_);

    return map { my $name = $_;
        $name => join ' ', $text =~ /^$name: (.*)/mg } qw/ name srcs deps libs
        incs have /;
}


sub config_error {
    my ($without) = @_;

    local $ENV{MCDS_WITHOUT} = $without // '';

    return $t->run('sh', '-c', "cd $dir && ngx_addon_dir=$root "
        . 'ngx_module_link=DYNAMIC && . $ngx_addon_dir/config');
}


# that of the build, or one of its own

sub object {
    my ($name, $source, $have) = @_;
    my ($folder, $file) = $source =~ m{([^/]+)/([^/]+)\.c$};
    my $built = "$tree/objs/addon/$folder/$file.o";

    return $built if -f $built && (stat $built)[9] >= (stat $source)[9]
        && !grep { $_ eq $source } @switches;

    my $out = $t->dir() . "/$name.$file.o";
    my $output = $t->run('cc', '-O0', '-Wall', '-Wextra', '-Wpointer-arith',
        '-Wno-unused-parameter', '-Werror', '-c', '-o', $out, $source,
        (map { "-D$_=1" } split ' ', $have),
        (map { "-I$_" } split ' ', $whole{incs}),
        (map { "-I$tree/src/$_" } qw{ core event event/modules event/quic
            os/unix http http/modules http/v2 }), "-I$tree/objs");

    is($output, '', "without $name: $file.c is compiled") if $output ne '';

    return $out;
}
