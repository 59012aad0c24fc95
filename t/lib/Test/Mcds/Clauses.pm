package Test::Mcds::Clauses;

# Copyright (C) mcds authors

# The requirements of an RFC for a shared cache, clause by clause, and the tests
# that show each of them:
#
#     clauses($t, \@statements, $locations, @rows)
#
# $t is a Test::Mcds; $locations is text for server { } in its nginx.conf.
# The statements are those of the RFC whose number is in the test file's name:
#
#     [statement, level, words]
#     [statement, level, words, not => 'why it cannot apply']
#     [statement, level, words, deviates => 'directive that ends the deviation']
#     [statement, level, words, nginx => 'directive that ends the deviation']
#
# The name of a statement is its section and, if the section has several, a
# word.  The level is MUST, MUST NOT, SHOULD or SHOULD NOT, or "also" for a
# statement that the RFC makes without one of these words, or leaves to caches.
# "Words" is the statement in a few words, for the test's output.  A statement
# without "not" has rows, unless mcds deviates from it, or it is about the way
# nginx handles any response; these two kinds are listed in docs/cache.md,
# section "Departures from the RFCs", with the directive ("-" for none).
#
#     [statements, demand, stored or not, headers of the response, more ...]
#     [statements, demand, by => 'name of a test', has => 'text in it']
#
# Several statements are separated by ", ".  "Demand" is text for the names of
# the row's tests.  A row with "by" names another test file that shows the
# statements: the text "has" must occur in that file, outside of its comments.
# Each row without "by" requests its page twice; if the response must not be
# stored, the second request must not get it.  "Stored" is 1 if the response
# must be stored, 0 if it must not be stored, undef if either is right.
# "More" is: status and answer (further fields of the origin's answer), method
# and request (headers) of the first request, at (a location of $locations),
# life (seconds, of the stored page), check (a sub that gets the second
# response, ways to send further requests, the first response and the stored
# page, decoded), and todo (why the check is known to fail).  The ways are get,
# head, post and options, each a sub whose arguments are text to append to the
# uri, and headers.  The origin reports in X-Request the conditions, ranges and
# Authorization of a request.

use warnings;
use strict;

use Exporter qw/ import /;
use FindBin;
use Test::More ();

use Test::Mcds;
use Test::Mcds::Entry;

our @EXPORT = qw/ clauses http_date cc /;

my @levels = ('MUST', 'MUST NOT', 'SHOULD', 'SHOULD NOT');
my $manual = "$FindBin::Bin/../docs/cache.md";
my $departs = 'Departures from the RFCs';


sub http_date {
    my @t = gmtime(shift);
    my $day = (qw/ Sun Mon Tue Wed Thu Fri Sat /)[$t[6]];
    my $mon = (qw/ Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec /)[$t[4]];
    return sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', $day, $t[3], $mon,
        $t[5] + 1900, @t[2, 1, 0];
}


sub cc { return map { ('Cache-Control' => $_) } @_ }


sub clauses {
    my ($t, $statements, $locations, @rows) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    count($statements, @rows);

    my $m = $t->memcached('m');
    my $o = $t->origin('o', sub {
        my ($o, $q) = @_;
        my ($i) = $q->{path} =~ /(\d+)$/;
        my (undef, undef, undef, $headers, %more) = @{$rows[$i]};

        my $got = $q->{headers};
        my @seen = grep { /^(?:if-|range$|authorization$)/ } sort keys %$got;

        $headers = [@$headers, 'X-Request' => join '; ',
            map { "$_: $got->{$_}" } @seen] if @seen;

        return { headers => $headers, status => $more{status} // 200,
            body => "row $i, answer $q->{n}", %{$more{answer} // {}} };
    });

    my $a = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache \$mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        $locations
    }
}
EOT

    for my $i (0 .. $#rows) {
        my ($clause, $demand, @row) = @{$rows[$i]};

        if (is_by(@row)) {
            elsewhere("$clause: $demand", @row);
            next;
        }

        answer($a, $m, $i, "$clause: $demand", @row);
    }
}


sub is_by { return ($_[0] // '') eq 'by' }

sub todo { my %more = is_by(@_) ? () : @_[2 .. $#_]; return $more{todo} }


# tests that each statement of the RFC has test rows, or a reason for having
# none, and that each row names existing statements

sub count {
    my ($statements, @rows) = @_;

    my ($rfc) = $FindBin::Script =~ /(\d{4})/;
    my (%rows, %todo, %known, %levels, %how, @wrong, @other);

    for my $row (@rows) {
        my ($names, undef, @row) = @$row;

        for my $name (split /, /, $names) {
            $rows{$name}++;
            $todo{$name}++ if todo(@row);
        }
    }

    for my $statement (@$statements) {
        my ($name, $level, $words, %o) = @$statement;
        my ($section) = split ' ', $name;
        my ($why) = grep { exists $o{$_} } qw/ not deviates nginx /;

        push @wrong, "$name: is there twice" if $known{$name}++;
        push @wrong, "$name: no row, and no reason" if !$why && !$rows{$name};
        push @wrong, "$name: rows, and a reason why not"
            if $rows{$name} && ($why // '') eq 'not';
        push @wrong, "$name: an empty reason" if $why && !length $o{$why};
        push @wrong, "$name: $rfc, $section is not in the manual with $o{$why}"
            if $why && $why ne 'not' && !departure($rfc, $section, $o{$why});

        next if $level eq 'also';

        my $how = $todo{$name} ? 'todo' : $why // 'shown';

        push @wrong, "$name: level $level" if !grep { $_ eq $level } @levels;
        $levels{$level}++;
        $how{$how}++;
        push @other, "$level $words ($name): $how"
            if $how =~ /^(?:deviates|nginx|todo)$/;
    }

    push @wrong, map { "$_: a row names it, and there is none" }
        grep { !$known{$_} } sort keys %rows;
    push @wrong, map { "RFC $rfc, $_ is in the manual, and no departure" }
        grep { my $s = $_; !grep { my ($name, undef, undef, %o) = @$_;
            $name =~ /^\Q$s\E(?: |$)/ && ($o{deviates} || $o{nginx}) }
        @$statements } departures($rfc);

    Test::More::is(join("\n", @wrong), '', "RFC $rfc: "
        . join(', ', map { ($levels{$_} // 0) . " $_" } @levels) . ': '
        . join(', ', map { ($how{$_->[0]} // 0) . " $_->[1]" }
            ['shown', 'shown'], ['not', 'not applicable'],
            ['deviates', 'deviated from'], ['nginx', 'left to nginx'],
            ['todo', 'not right yet']));
    Test::More::note($_) for @other;
}


# the rows of the table "Departures from the RFCs" in docs/cache.md: the number
# of the RFC, the section, the directive

sub manual {
    my $text = do { local (@ARGV, $/) = $manual; <> };

    my ($section) = $text =~ /^##+ \Q$departs\E\n(.*?)(?=^##|\z)/ms;

    return map { [/^\| (\d{4}), ([\d.]+) \| .* \| (.*) \|$/] }
        grep { /^\| \d{4}, / } split /\n/, $section // '';
}


sub departures {
    my ($rfc) = @_;
    return map { $_->[1] } grep { $_->[0] eq $rfc } manual();
}


sub departure {
    my ($rfc, $section, $directive) = @_;

    return scalar grep { $_->[0] eq $rfc && $_->[1] eq $section
        && index($_->[2], $directive) >= 0 } manual();
}


sub elsewhere {
    my ($name, %by) = @_;

    my $file = "$FindBin::Bin/$by{by}.t";
    my $text = do { local (@ARGV, $/) = $file; -e $file ? <> : '' };

    $text =~ s/^\s*#.*\n//mg;

    Test::More::ok(length($by{has} // '') && index($text, $by{has}) >= 0,
        "$name: see t/$by{by}.t");
}


sub answer {
    my ($a, $m, $i, $name, $stored, $headers, %more) = @_;

    my $uri = ($more{at} // '') . "/$i";
    my $key = "<>http://localhost$uri";
    my @request = @{$more{request} // []};

    my $first = $a->get($uri, headers => \@request,
        method => $more{method} // 'GET');
    wait_for(sub { ($m->get("$key:lock") // 'kept') =~ /^kept/ });
    wait_for(sub { defined $m->get($key) }, 5) if $stored;

    my $e = page_decode($m->get($key));
    my $there = $e && $e->{kind} == 0 ? 1 : 0;

    if (defined $stored) {
        Test::More::is($there, $stored,
            $name . ($stored ? ': stored' : ': not stored'));

        if (!$stored) {
            Test::More::isnt($a->get($uri)->header('X-Cache') // '', 'HIT',
                "$name: not used");
            return;
        }

        return if !$there;
    }

    my $second = $a->get($uri, headers => \@request);
    Test::More::is($second->header('X-Cache'), 'HIT', "$name: used")
        if $stored;

    if ($more{life}) {
        my $life = ($e->{expire} - $e->{created}) / 1000;
        Test::More::cmp_ok(abs($life - $more{life}), '<=', 1,
            "$name: $more{life} s") or Test::More::diag("$life s");
    }

    return if !$more{check};

    my %ask = map { my $method = $_; (lc $method => sub {
        my ($what, @headers) = @_;
        return $a->get($uri . ($what // ''), method => $method,
            headers => \@headers);
    }) } qw/ GET HEAD POST OPTIONS /;

    Test::More->builder()->todo_start($more{todo}) if $more{todo};
    $more{check}->($second, \%ask, $first, $e);
    Test::More->builder()->todo_end() if $more{todo};
}


1;
