package Test::Mcds::Clauses;

# Copyright (C) mcds authors

# A table of what standards demand of a shared cache, each row with the test
# that shows it:
#
#     clauses($t, $locations, @rows)
#
#     [clause, demand, stored or not, headers of the answer, more ...]
#     [clause, demand, by => 'name of a test', has => 'text in it']
#
# An answer is asked for twice.  "More" are status and answer (further fields
# of an answer of the origin), method and request (headers) of the first
# request, at (a location of $locations), life (seconds, of what is stored),
# and check, a sub that gets the second response, ways to ask again, the first
# response and the entry.  The ways are get, head and post, each a sub of what
# follows the uri and headers.

use warnings;
use strict;

use Exporter qw/ import /;
use FindBin;
use Test::More ();

use Test::Mcds;
use Test::Mcds::Entry;

our @EXPORT = qw/ clauses http_date /;


sub http_date {
    my @t = gmtime(shift);
    my $day = (qw/ Sun Mon Tue Wed Thu Fri Sat /)[$t[6]];
    my $mon = (qw/ Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec /)[$t[4]];
    return sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', $day, $t[3], $mon,
        $t[5] + 1900, @t[2, 1, 0];
}


sub clauses {
    my ($t, $locations, @rows) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $m = $t->memcached('m');
    my $o = $t->origin('o', sub {
        my ($o, $q) = @_;
        my ($i) = $q->{path} =~ /(\d+)$/;
        my (undef, undef, undef, $headers, %more) = @{$rows[$i]};

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

        if ($row[0] eq 'by') {
            elsewhere("$clause: $demand", @row);

        } else {
            answer($a, $m, $i, "$clause: $demand", @row);
        }
    }
}


sub elsewhere {
    my ($name, %by) = @_;

    my $file = "$FindBin::Bin/$by{by}.t";
    my $text = do { local (@ARGV, $/) = $file; -e $file ? <> : '' };

    Test::More::ok(length $text
        && (!$by{has} || index($text, $by{has}) >= 0),
        "$name: see t/$by{by}.t");
}


sub answer {
    my ($a, $m, $i, $name, $stored, $headers, %more) = @_;

    my $uri = ($more{at} // '') . "/$i";
    my $key = "<>http://localhost$uri";
    my @request = @{$more{request} // []};

    my $first = $a->get($uri, headers => \@request,
        method => $more{method} // 'GET');
    wait_for(sub { !defined $m->get("$key:lock") });
    wait_for(sub { defined $m->get($key) }, 5) if $stored;

    my $e = page_decode($m->get($key));
    my $there = $e && $e->{kind} == 0 ? 1 : 0;

    Test::More::is($there, $stored,
        $name . ($stored ? ': stored' : ': not stored'));

    return if !$stored || !$there;

    my $second = $a->get($uri, headers => \@request);
    Test::More::is($second->header('X-Cache'), 'HIT', "$name: used");

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
    }) } qw/ GET HEAD POST /;

    $more{check}->($second, \%ask, $first, $e);
}


1;
