#!/usr/bin/perl

# Copyright (C) mcds authors

# misc/check-code sees each kind of violation that is planted in a small tree,
# allows it once misc/check.list has it, and fails when the list allows more
# than there is.  It also sees each difference between the parameters of a
# directive and the reference.  misc/calls prints the calls of a tree.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

use File::Basename qw/ dirname /;
use File::Path qw/ make_path remove_tree /;

my $check = "$FindBin::Bin/../misc/check-code";
my $calls = "$FindBin::Bin/../misc/calls";
my $t = Test::Mcds->new(module => 0);
my $tree = $t->dir() . '/tree';
my $list = 'misc/check.list';

# files of a tree without problems: base, the kit, and two features

my $base = 'src/base/ngx_mcds_base.c';
my $kit = 'src/http/kit/ngx_http_mcds_kit.c';
my $cache = 'src/http/cache/ngx_http_mcds_cache.c';
my $lock = 'src/http/lock/ngx_http_mcds_lock.c';
my $header = 'src/http/cache/ngx_http_mcds_cache.h';

my %files = (
    $base => calls('ngx_mcds_base'),
    $kit => calls('ngx_http_mcds_kit', 'ngx_mcds_base'),
    $cache => calls('ngx_http_mcds_cache', 'ngx_http_mcds_kit'),
    $lock => calls('ngx_http_mcds_lock', 'ngx_http_mcds_kit'),
    $header => header('ngx_http_mcds_cache'),
);

seen('a tree without violations');

# calls

seen('a call to a room below', qr{^$base:\ base/\ may\ not\ call\ http/cache/
    \ \(ngx_http_mcds_cache\),\ no\ entry}mx,
    $base => calls('ngx_mcds_base', 'ngx_http_mcds_cache'));
seen('a call from the kit to a feature',
    qr{^$kit: http/kit/ may not call http/cache/ }m,
    $kit => calls('ngx_http_mcds_kit', 'ngx_http_mcds_cache'));
seen('a call from a feature to another',
    qr{^$lock: http/lock/ may not call http/cache/ }m,
    $lock => calls('ngx_http_mcds_lock', 'ngx_http_mcds_cache'));
seen('a pointer in a table',
    qr{^$kit: http/kit/ may not call http/lock/ \(ngx_http_mcds_lock\)}m,
    $kit => calls('ngx_http_mcds_kit') . "\n\n"
        . "static void  *ngx_http_mcds_kits[] = { ngx_http_mcds_lock };\n");
seen('a call by a macro of a header',
    qr{^$kit: http/kit/ may not call http/cache/ \(ngx_http_mcds_cache\)}m,
    $header => header('ngx_http_mcds_cache',
        "#define ngx_http_mcds_cached() \\\n    ngx_http_mcds_cache()"),
    $kit => calls('ngx_http_mcds_kit', 'ngx_http_mcds_cached'));
seen('a static function of the same name is not a call',
    qr{\A\Q$lock\E: ngx_http_mcds_cache has another definition in .*\n\z},
    $lock => calls('ngx_http_mcds_cache', 'ngx_http_mcds_cache')
        =~ s/^void\n/static void ngx_http_mcds_cache(void);\n\n\nstatic $&/mr);

my $nm = "o/ngx_http_mcds_kit.o: ngx_http_mcds_kit T 0 1\n"
    . "o/ngx_http_mcds_kit.o: ngx_http_mcds_lock U  \n"
    . "o/ngx_http_mcds_lock.o: ngx_http_mcds_lock T 0 1\n";

is(run({ %files, 'nm' => $nm }, '--nm', 'nm'), "$kit: http/kit/ may not call "
    . 'http/lock/ (ngx_http_mcds_lock), no entry "call '
    . "http/kit->ngx_http_mcds_lock\" in $list\n", 'a call of an object file');

seen('a call that the list allows', undef,
    $lock => calls('ngx_http_mcds_lock', 'ngx_http_mcds_cache'),
    $list => "call http/lock->ngx_http_mcds_cache 1 is to go\n");
seen('a call from more files than the list allows',
    qr{^$lock: http/lock/ may not call http/cache/ .*, 1 in \Q$list\E$}m,
    $lock => calls('ngx_http_mcds_lock', 'ngx_http_mcds_cache'),
    'src/http/lock/ngx_http_mcds_more.c' =>
        calls('ngx_http_mcds_more', 'ngx_http_mcds_cache'),
    $list => "call http/lock->ngx_http_mcds_cache 1 is to go\n");
seen('a call that is there no longer',
    qr{^\Q$list\E:1: call http/lock->ngx_http_mcds_cache is no longer needed}m,
    $list => "call http/lock->ngx_http_mcds_cache 1 is to go\n");

seen('a header of another feature', qr{^\Q$lock\E:6:\ http/lock/\ may\ not\ know
    \ http/cache/\ \(ngx_http_mcds_cache.h\),\ no\ entry}mx,
    $lock => calls('ngx_http_mcds_lock')
        =~ s/\n\n\n/\n\n#include "ngx_http_mcds_cache.h"\n\n\n/r);
seen('a folder without a place in the order', qr{: no such room: http/new$}m,
    'src/http/new/ngx_http_mcds_new.c' => calls('ngx_http_mcds_new'));

# circles: a calls b, b calls c, ...

seen('a circle of three files', undef, circle(3));
seen('a circle of four files', qr{^src:\ a\ circle\ of\ 4\ files,
    \ no\ entry\ .*:\ ngx_mcds_1.c\ ngx_mcds_2.c\ ngx_mcds_3.c\ ngx_mcds_4.c$
    }mx, circle(4));
seen('a circle that the list allows', undef, circle(4),
    $list => "circle ngx_mcds_2.c 4 is to go\n");
seen('a circle that has grown',
    qr{^src: a circle of 5 files, 4 in \Q$list\E: }m, circle(5),
    $list => "circle ngx_mcds_2.c 4 is to go\n");
seen('a circle that has shrunk',
    qr{^\Q$list\E:1: circle ngx_mcds_2.c is 4 now: lower it$}m, circle(4),
    $list => "circle ngx_mcds_2.c 5 is to go\n");
seen('a circle between folders', qr{^src:\ a\ circle\ of\ 2\ files,.*\n
    src:\ a\ circle\ of\ 2\ folders,.*:\ http/cache\ http/kit$}mx,
    $kit => calls('ngx_http_mcds_kit', 'ngx_http_mcds_cache'));

# sizes

seen('a file of 1000 lines', undef, $base => lines(1000));
seen('a file of 1001 lines', qr{^$base: 1001 lines, no entry }m,
    $base => lines(1001));
seen('a file that has grown', qr{^$base: 1001 lines, 1000 in \Q$list\E$}m,
    $base => lines(1001), $list => "lines ngx_mcds_base.c 1000 is to go\n");
seen('a file that has shrunk a little', undef,
    $base => lines(1001), $list => "lines ngx_mcds_base.c 1051 is to go\n");
seen('a file that has shrunk', qr{:1: lines ngx_mcds_base.c is 1001 now: },
    $base => lines(1001), $list => "lines ngx_mcds_base.c 1052 is to go\n");
seen('functions of 100 and 101 lines', qr{\A\Q$kit\E:7:
    \ ngx_http_mcds_kit\(\)\ has\ 101\ lines,\ no\ entry\ .*\n\z}x,
    $base => calls('ngx_mcds_base', ('ngx_mcds_none') x 100),
    $kit => calls('ngx_http_mcds_kit', ('ngx_mcds_none') x 101));

# names

seen('a type with two definitions', qr{^src/http/cache/.*\.h:
    \ ngx_mcds_x_t\ has\ another\ definition\ in\ src/base/ngx_mcds_x.h,}mx,
    'src/base/ngx_mcds_x.h' => header('ngx_mcds_x', type('x')),
    $header => header('ngx_http_mcds_cache', type('y')));
seen('a type that is declared twice', undef,
    'src/base/ngx_mcds_x.h' => header('ngx_mcds_x', type('x')),
    $header => header('ngx_http_mcds_cache', type('x')));
seen('static variables of one name',
    qr{^$kit: ngx_mcds_n has another definition in $base, no entry }m,
    $base => "$files{$base}\n\nstatic int  ngx_mcds_n = 1;\n",
    $kit => "$files{$kit}\n\nstatic int  ngx_mcds_n = 2;\n");

# warnings

seen('a header of 16 prototypes', qr{^$header: 16 prototypes, no entry }m,
    $header => header('ngx_http_mcds_cache', prototypes(16)));
seen('a function of 7 arguments',
    qr{^$base:7: ngx_mcds_base\(\) has 7 arguments, no entry }m,
    $base => $files{$base} =~ s/void\)/int a, int b, int c, int d, int e,
    int (*f)(int, int), int g)/r);

is(run({ %files, $header => header('ngx_http_mcds_cache', prototypes(16)),
    $list => "prototypes ngx_http_mcds_cache.h 16 has its reason\n" }),
    "$header: warning: 16 prototypes: has its reason\nends well\n",
    'a warning has its reason');

# states

my $states = 'src/http/cache/ngx_http_mcds_state.h';

my $drawn = states('START, IDLE, END', <<'E');
 *   START     nothing
 *   IDLE      something
 *   END       all
 *
 *   START --> IDLE
 *                | END
E

my $sets = $files{$cache} =~ s/\{\n/{
    set_state(ctx, NGX_HTTP_MCDS_STATE_IDLE);
    set_state(ctx, NGX_HTTP_MCDS_STATE_END);
/r;

seen('states as they are drawn', undef, $states => $drawn, $cache => $sets);

for (['a state that is not explained', qr/ \*   END .*\n/, '',
        'the drawing explains the states START IDLE, the list has START I'],
    ['a state that is explained but not there', qr/state\(IDLE\) /, '',
        'the drawing explains the states START IDLE END, the list has START E'],
    ['an arrow to no state', qr/\| END/, '| END | THERE',
        'the drawing has a state THERE of no list'],
    ['a state without an arrow', qr/ \* +\| END\n/, '',
        'no arrow leads to the state END'])
{
    my ($what, $re, $with, $problem) = @$_;

    seen($what, qr/^$states: $problem/m,
        $states => $drawn =~ s/$re/$with/r, $cache => $sets);
}

seen('a state that is never set',
    qr/^$states: no function sets the state END$/m, $states => $drawn,
    $cache => $sets =~ s/.*_END.*\n//r);

# parameters of directives and the reference

my $reference = 'docs/reference/lock.md';
my $manual = manual('[wait=time] [waiters=number] [unavailable=code|pass]',
    '- `wait=time` How long it waits, up to 1h, default 2s.',
    '- `waiters=number` At most this number, 1 to 9.',
    '- `unavailable=code` The status, 400 to 599.  With `pass`, none.');
my @params = (
    ['wait=', 'msec', '0, 3600000, 2000, NULL'],
    ['waiters=', 'num', '1, NGX_MCDS_NINE, 0, NULL'],
    ['unavailable=', 'num', '400, 599, 0, ngx_mcds_words'],
);

seen('parameters as the reference has them', undef, params());
seen('a parameter that the reference does not name',
    qr{\A\Q$reference\E: mcds_lock: "ttl=" is not in the syntax\n\z},
    params(['ttl=', 'sec', '1, 9, 0, NULL']));
seen('another bound', qr{\A\Q$reference\E:\ mcds_lock:\ "waiters="\ is\ 1\ to
    \ 8,\ which\ the\ reference\ does\ not\ state\n\z}x,
    params(['waiters=', 'num', '1, 8, 0, NULL']));
seen('another bound of a time', qr{: "wait=" is 0 to 2h, which },
    params(['wait=', 'msec', '0, 7200000, 2000, NULL']));
seen('a bound of which the reference knows another',
    qr{: "waiters=" is 2 to any, which },
    params(['waiters=', 'num', '2, 0, 0, NULL']));
seen('another default', qr{: the default of "wait=" is 1s, which the },
    params(['wait=', 'msec', '0, 3600000, 1000, NULL']));
seen('another word', qr{: "pass" of "unavailable=" is not in the },
    params(), $reference => $manual =~ s/\Qpass\E/fail/gr);
seen('a bound that is no number', qr{: "waiters=" has bounds that are no },
    params(['waiters=', 'num', '1, NGX_MCDS_NONE, 0, NULL']));
seen('a table of no directive', qr{^$lock:\ ngx_mcds_params\ is\ the\ table\ of
    \ no\ directive}mx, params(), $reference => $manual =~ s/## mcds_/## /r);

# words

my $words = '/* ' . join(' ', ('word') x 97, qw/ What who nobody /) . ' */';

seen('words in place of a subject', qr{^src:\ "nobody"\ \d\.\d\ times\ in\ 1000
    \ words\ of\ comments,.*\nsrc:\ "what"\ .*\nsrc:\ "who"\ }mx,
    $header => header('ngx_http_mcds_cache', $words));

# the list itself

seen('an entry without a reason', qr{:2: is not "check name number reason"},
    $list => "# comment\nlines ngx_mcds_base.c 1051\n");

is(run({ %files, circle(4), $list => "# comment\n\n"
    . "circle ngx_mcds_1.c   12 no\nlines ngx_mcds_base.c 1051 yes\n" },
    '--shrink'), "ends well\n", 'the list is shrunk');
is(slurp("$tree/$list"), "# comment\n\ncircle ngx_mcds_1.c    4 no\n",
    'numbers and entries are');

# the graph

run({ %files, $kit => calls('ngx_http_mcds_kit', 'ngx_http_mcds_cache'),
    $base => "$files{$base}\n\nint  ngx_mcds_n;\n",
    $lock => calls('ngx_http_mcds_lock', 'ngx_mcds_n', 'ngx_mcds_base') });

is(qx/$^X $calls --tree=$tree --files/, <<'END' =~ s/\\\n//r, 'the graph');
from the sources

http/cache/ngx_http_mcds_cache -> http/kit/ngx_http_mcds_kit: ngx_http_mcds_kit
http/kit/ngx_http_mcds_kit -> http/cache/ngx_http_mcds_cache: \
ngx_http_mcds_cache
http/lock/ngx_http_mcds_lock -> base/ngx_mcds_base: ngx_mcds_base ngx_mcds_n

circle of 2 folders: http/cache http/kit

circle of 2 files:
    http/cache/ngx_http_mcds_cache -> ngx_http_mcds_kit
    http/kit/ngx_http_mcds_kit -> ngx_http_mcds_cache
END

$t->done();


# the tree with other files in it; undef: no problems

sub seen {
    my ($name, $re, %with) = @_;

    my $out = run({ %files, %with });

    defined $re ? like($out, $re, $name) : is($out, "ends well\n", $name);
}


sub run {
    my ($files, @args) = @_;

    remove_tree($tree);

    for (keys %$files) {
        make_path(dirname("$tree/$_"));
        open my $fh, '>', "$tree/$_" or die "$tree/$_: $!\n";
        print $fh $files->{$_};
        close $fh or die "$tree/$_: $!\n";
    }

    my $out = qx/$^X $check @args $tree 2>&1/;

    return $? ? $out : "${out}ends well\n";
}


sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or return '';
    local $/;

    return <$fh>;
}


sub top { return "\n/*\n * Copyright (C) mcds authors\n */\n" }


# a header with a list of states, and their drawing

sub states {
    my ($names, $drawing) = @_;

    return header('ngx_http_mcds_state', '#define NGX_HTTP_MCDS_STATES(state) '
        . join ' ', map { "state($_)" } split /, /, $names)
        =~ s{(authors\n)}{$1 *\n$drawing}r;
}


# a file with a function that calls others

sub calls {
    my ($name, @calls) = @_;

    return top() . "\n\nvoid\n$name(void)\n{\n"
        . join('', map { "    $_();\n" } @calls) . "}\n";
}


sub header {
    my ($name, @text) = @_;
    my $guard = '_' . uc($name) . '_H_INCLUDED_';

    return top() . "\n\n#ifndef $guard\n#define $guard\n\n"
        . join('', map { "$_\n" } @text) . "\n#endif /* $guard */\n";
}


sub type { return "typedef struct {\n    int  $_[0];\n} ngx_mcds_x_t;" }


sub prototypes {
    return map { "void ngx_http_mcds_cache$_(void);" } 1 .. $_[0];
}


# a directive with the table of its parameters, of which some are other ones

sub params {
    my %other = map { $_->[0] => $_ } @_;
    my @rows = map { delete $other{$_->[0]} // $_ } @params;

    return ($reference => $manual, $lock => "$files{$lock}\n\n"
        . "#define NGX_MCDS_NINE 9\n\n\n"
        . "static ngx_conf_enum_t  ngx_mcds_words[] = {\n"
        . "    { ngx_string(\"pass\"), 0 }\n};\n\n\n"
        . "static ngx_http_mcds_param_t  ngx_mcds_params[] = {\n"
        . join('', map { "    { ngx_string(\"$_->[0]\"),\n"
            . "      ngx_http_mcds_param_$_->[1],\n"
            . "      ngx_http_mcds_field(ngx_mcds_t, field),\n"
            . "      $_->[2] },\n" } @rows, values %other)
        . "};\n\n\nstatic ngx_command_t  ngx_mcds_commands[] = {\n"
        . "    { ngx_string(\"mcds_lock\"),\n      NGX_CONF_ANY,\n"
        . "      ngx_http_mcds_set,\n      0, 0, NULL }\n};\n\n\n"
        . "char *\nngx_http_mcds_set(void)\n{\n"
        . "    return ngx_http_mcds_params(ngx_mcds_params);\n}\n");
}


sub manual {
    my ($syntax, @items) = @_;

    return "## mcds_lock\n\n```text\nSyntax:   mcds_lock $syntax;\n"
        . "Default:  -\n```\n\nLocks.\n\n" . join("\n", @items) . "\n";
}


sub circle {
    my ($n) = @_;

    return map { ("src/base/ngx_mcds_$_.c" => calls("ngx_mcds_$_",
        'ngx_mcds_' . ($_ % $n + 1))) } 1 .. $n;
}


sub lines {
    my ($n) = @_;

    my $text = calls('ngx_mcds_base');
    my $more = $n - ($text =~ tr/\n//) - 2;

    return $text . "\n\n" . "int  ngx_mcds_n;\n" x $more;
}
