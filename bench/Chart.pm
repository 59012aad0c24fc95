package Chart;

# A picture of what a stored page costs, from the lines of JSON that the groups
# "pages" and "different" have left: bars by size and by cache, as SVG without
# scripts.  The texts and colors follow the reader's light or dark mode; the
# description holds all numbers, for readers who do not see the bars.

use warnings;
use strict;

use JSON::PP;
use List::Util qw/ max /;
use Runs;


my @sizes = (['1k', '1 KB'], ['10k', '10 KB'], ['100k', '100 KB']);

# scenarios, what they are called, and their colors in light and in dark mode

my @ways = (
    ['return', 'return 200 of the same size', '#6e7781', '#8b949e'],
    ['mcds-timed', 'mcds_cache_local timed', '#0a3069', '#cae8ff'],
    ['mcds-validated', 'mcds_cache_local validated', '#0550ae', '#79c0ff'],
    ['mcds', 'mcds_cache', '#218bff', '#388bfd'],
    ['proxy-cache-ofc', 'proxy_cache with open_file_cache', '#953800',
        '#f0883e'],
    ['varnish', 'Varnish', '#1a7f37', '#3fb950'],
    ['srcache-memc', 'srcache and memc', '#8250df', '#bc8cff'],
);

# the file and the end of the names of each panel

my @panels = (
    ['pages', '', 'All clients request one page'],
    ['different', '-64-pages',
        'Each client requests a different one of 64 pages'],
);

my $title = 'CPU time of a request for a stored page';
my $unit = 'of the server and memcached, as a multiple of a plain "return 200";'
    . ' less is better';

# in pixels

my $width = 760;
my $left = 44;
my $bar = 28;
my $group = 236;
my $top = 154;
my $height = 230;
my $gap = 86;


# Writes the picture of the lines in the folder, and tells whether there were
# any of both groups.

sub draw {
    my ($dir) = @_;

    my @data = grep { defined } map { panel($dir, @$_) } @panels;

    return if @data < @panels;

    open my $out, '>', "$dir/pages.svg" or die "$dir/pages.svg: $!\n";
    print $out svg(@data);
    close $out or die "$dir/pages.svg: $!\n";

    return 1;
}


# a panel: its title, and for each size the costs of the ways that there are

sub panel {
    my ($dir, $file, $end, $title) = @_;

    open my $f, '<', "$dir/$file.jsonl" or return;

    my %cost = Runs::costs(map { decode_json($_) } <$f>);
    my @groups;

    for my $size (@sizes) {
        my ($name, $label) = @$size;
        my @bars;

        for my $n (0 .. $#ways) {
            my $way = $ways[$n][0];
            my $cost = $cost{"$way-$name" . ($way eq 'return' ? '' : $end)};

            push @bars, { way => $n, cost => $cost } if defined $cost;
        }

        push @groups, { label => $label, bars => \@bars };
    }

    return if !grep { @{ $_->{bars} } > 1 } @groups;
    return { title => $title, groups => \@groups };
}


sub svg {
    my @data = @_;

    my $most = max(map { $_->{cost} } map { @{ $_->{bars} } }
        map { @{ $_->{groups} } } @data);
    my $step = $most > 12 ? 5 : $most > 6 ? 2 : 1;
    my $scale = $height / ($step * (1 + int($most / $step)));
    my $all = $top + @data * ($height + $gap);

    my @desc = map { my $panel = $_; map { my $group = $_;
        "$panel->{title}, $group->{label}: " . join(', ', map {
            sprintf '%s %.2f', $ways[$_->{way}][1], $_->{cost}
        } @{ $group->{bars} }) . '.'
    } @{ $panel->{groups} } } @data;

    my $text = head($all, join "\n", @desc) . legend();
    my $y = $top;

    for my $panel (@data) {
        $text .= drawn($panel, $y, $scale, $step, $most);
        $y += $height + $gap;
    }

    return "$text</svg>\n";
}


sub head {
    my ($all, $desc) = @_;

    my ($light, $dark) = map { my $mode = $_;
        join "\n", map { "    .way$_ { fill: $ways[$_][$mode]; }" } 0 .. $#ways;
    } 2, 3;

    $dark =~ s/^/  /mg;

    return <<"END";
<svg xmlns="http://www.w3.org/2000/svg" width="$width" height="$all"
     viewBox="0 0 $width $all" role="img" aria-labelledby="title desc">
<title id="title">$title</title>
<desc id="desc">Multiples of the CPU time of a plain "return 200".
$desc</desc>
<style>
    .back { fill: #ffffff; }
    .line { stroke: #d0d7de; }
    text { fill: #1f2328; font: 13px system-ui, sans-serif; }
    .name { font-size: 17px; font-weight: 600; }
    .part { font-size: 14px; font-weight: 600; }
    .cost { font-size: 11px; text-anchor: middle; }
    .size { text-anchor: middle; }
    .tick { font-size: 11px; text-anchor: end; }
$light
    \@media (prefers-color-scheme: dark) {
        .back { fill: #0d1117; }
        .line { stroke: #30363d; }
        text { fill: #e6edf3; }
$dark
    }
</style>
<rect class="back" width="$width" height="$all"/>
<text class="name" x="$left" y="28">$title</text>
<text x="$left" y="48">$unit</text>
END
}


# in the order of the bars, from top to bottom

sub legend {
    my $text = '';

    for my $n (0 .. $#ways) {
        my $x = $left + 260 * int($n / 4);
        my $y = 74 + 19 * ($n % 4);

        $text .= "<rect class=\"way$n\" x=\"$x\" y=\"" . ($y - 10)
            . "\" width=\"12\" height=\"12\"/>\n"
            . '<text x="' . ($x + 18) . "\" y=\"$y\">$ways[$n][1]</text>\n";
    }

    return $text;
}


sub drawn {
    my ($panel, $y, $scale, $step, $most) = @_;

    my $base = $y + 34 + $height;
    my $text = "<text class=\"part\" x=\"$left\" y=\"" . ($y + 14)
        . "\">$panel->{title}</text>\n";

    for (my $tick = 0; $tick <= $most + $step; $tick += $step) {
        my $at = sprintf '%.1f', $base - $tick * $scale;

        last if $at < $y + 33;

        $text .= "<line class=\"line\" x1=\"$left\" x2=\"" . ($width - 12)
            . "\" y1=\"$at\" y2=\"$at\"/>\n"
            . '<text class="tick" x="' . ($left - 6) . '" y="'
            . sprintf('%.1f', $at + 4) . "\">$tick</text>\n";
    }

    for my $n (0 .. $#{ $panel->{groups} }) {
        my $one = $panel->{groups}[$n];
        my $x = $left + 10 + $n * $group;

        $text .= '<text class="size" x="' . ($x + $bar * @ways / 2) . '" y="'
            . ($base + 20) . "\">$one->{label}</text>\n";

        for (@{ $one->{bars} }) {
            my $high = sprintf '%.1f', $_->{cost} * $scale;
            my $at = $x + $_->{way} * $bar;
            my $up = sprintf '%.1f', $base - $high;

            $text .= sprintf "<rect class=\"way%d\" x=\"%d\" y=\"%s\""
                . " width=\"%d\" height=\"%s\"><title>%s, %s: %.2f</title>"
                . "</rect>\n<text class=\"cost\" x=\"%s\" y=\"%.1f\">%s"
                . "</text>\n", $_->{way}, $at + 2, $up, $bar - 4, $high,
                $ways[$_->{way}][1], $one->{label}, $_->{cost},
                $at + $bar / 2, $up - 4,
                sprintf($_->{cost} < 9.95 ? '%.2f' : '%.1f', $_->{cost});
        }
    }

    return $text;
}


1;
