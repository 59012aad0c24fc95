package Test::Mcds::Oracle;

# Copyright (C) mcds authors

# Tests whether nginx with "mcds_cache on" gives a client a response that nginx
# without mcds would not have given to this client: an nginx with mcds and one
# without mcds get the requests of the same random cases, and the answers of the
# two are compared.
#
#     $oracle = Test::Mcds::Oracle->new($t, $memcached)
#     $oracle->try($seed)     the findings, shrunk: a list of { seed, kind,
#                             case, wrong }
#     $oracle->shown($found)  one of them as text
#     $oracle->sums()         statistics of the cases so far, as text
#     $oracle->unusable()     the cases that could not be compared, as texts
#     $oracle->{sum}          { configurations, requests, hits, .. }
#
# The application's answers depend only on the request, so an old page never
# differs from a new one, and each difference is a finding.  A case is dropped
# if repeated requests get different answers without mcds.

use warnings;
use strict;

use Storable qw/ dclone /;

use Test::Mcds::Oracle::Conf;
use Test::Mcds::Oracle::Grammar;
use Test::Mcds::Oracle::Run;

my @sums = ('configurations', 'requests', 'redirected', 'hits',
    'redirected hits', 'stale', 'origin requests', 'purges', 'dropped',
    'refused');


sub new {
    my ($class, $t, $memcached) = @_;

    return bless { t => $t, sum => { map { $_ => 0 } @sums }, unusable => {},
        run => Test::Mcds::Oracle::Run->new($t, $memcached),
        shrink => 400, most => 2 }, $class;
}


sub try {
    my ($self, $seed) = @_;

    my $case = case($seed);
    my $result = $self->judge($case);
    my (@found, %seen);

    $self->count($case, $result);

    for my $wrong (grep { !$seen{$_->{what}}++ } @{$result->{wrong}}) {
        push @found, { $self->shrink($case, $wrong), seed => $seed };
        last if @found >= $self->{most};
    }

    return @found;
}


# plays a case: "wrong" are the answers that nginx without mcds would not have
# given, as { what, at, request, want, got }, or { what, died } if nginx has
# died; "dropped" or "refused" say why the case could not be compared

sub judge {
    my ($self, $case) = @_;

    my ($run, $requests) = ($self->{run}, $case->{requests});

    # nginx without mcds gets each distinct request once, and then all of them
    # again in reverse order

    my (%answers, %seen, %exposed);
    my @ask = grep { !$_->{purge} && !$seen{name($_)}++ } @$requests;
    my ($plain, $ways);

    return { refused => 'nothing to ask' } if !@ask;
    return { refused => 'nowhere to listen' } if !@{$case->{servers}}
        || grep { !listens($_) } @{$case->{servers}};

    push @ask, reverse @ask;

    # A location is "exposed" if its pages depend on the client's session, and
    # no directive keeps them from other sessions.  As soon as a request shows
    # this, the test's application sends Vary there.  Sends the requests to
    # nginx without mcds again until they expose no further location

    do {
        $ways = keys %exposed;
        $plain = $run->play($case, \@ask, plain => 1, exposed => \%exposed);
        return { refused => $plain->{refused} } if $plain->{refused};
    } while ($ways != keys %exposed);

    return { dropped => "without mcds: $plain->{died}" } if $plain->{died};

    for my $i (0 .. $#ask) {
        my $answer = $plain->{answers}[$i];
        my $before = $answers{name($ask[$i])} //= $answer;

        return { dropped => 'answers differ' }
            if differ($ask[$i], $before, $answer);
    }

    my $cached = $run->play($case, $requests, exposed => \%exposed);
    my @asked = grep { !$_->{purge} } @$requests;

    return { refused => $cached->{refused} } if $cached->{refused};
    return { dropped => 'another way' } if $ways != keys %exposed;

    my $failing = 0;
    my @wrong;

    for my $i (0 .. $#asked) {
        my $r = $asked[$i];
        my $want = $answers{name($r)};
        my $got = $cached->{answers}[$i] // { status => 0, head => '',
            body => '' };

        # requests that wait while another request builds their page get 503 if
        # the build fails

        $failing = burst_fails($case, \%answers, $i, @asked) if !$r->{with};

        push @wrong, { at => $i, request => $r, want => $want, got => $got,
            what => "$r->{uri} $want->{status} $got->{status}" }
            if differ($r, $want, $got) && !($got->{status} == 503 && $failing)
                && !lacks($want, $got);
    }

    push @wrong, { what => 'nginx died', died => $cached->{died} }
        if $cached->{died};

    return { cached => $cached, answers => \%answers, wrong => \@wrong };
}


# whether the answer with mcds ($got) is that without mcds ($want), but for a
# part, such as a subrequest, that has failed and is a 503 page of nginx

sub lacks {
    my ($want, $got) = @_;
    my $body = $got->{body};
    my %line = map { $_ => 1 } split /^/m, $want->{body};

    return $got->{status} == $want->{status}
        && $body =~ s{<html>\r?\n<head><title>503 .*?</html>\r?\n}{}sg
        && !grep { !$line{$_} } split /^/m, $body;
}


# whether request $i, or one that is sent together with it, fails without mcds,
# even if an error page hides the failure

sub burst_fails {
    my ($case, $answers, $i, @asked) = @_;

    my $places = places($case);

    do {
        my $answer = $answers->{name($asked[$i])};
        my ($trace) = $answer->{head} =~ /^X-Trace: ([^\r]*)/m;

        return 1 if $answer->{status} >= 500;
        return 1 if grep { ($places->{$_}{app}{kind} // '') eq 'error' }
            split ' ', $trace // '';
    } while ($asked[++$i] && $asked[$i]{with});

    return 0;
}


# a text that identifies a request: requests with equal names get equal answers

sub name {
    my ($r) = @_;

    return join ' ', map { $_ // '' } @$r{qw/ client addr port host sni method
        uri header /};
}


# compares the pages that two answers show; Age, Date, validators and the like
# may differ, and so may the choice between the page, a part of it and 304

sub differ {
    my ($r, $want, $got) = @_;

    my $part = $r->{header} && whole($want) && whole($got);

    return 1 if $want->{status} != $got->{status} && !$part;

    for my $name ('X-Label', 'Location', 'WWW-Authenticate', 'Set-Cookie') {
        return 1 if field($want, $name) ne field($got, $name);
    }

    return 0 if $part && $want->{status} != $got->{status};

    return $want->{body} ne $got->{body}
        || field($want, 'Content-Type') ne field($got, 'Content-Type');
}


sub whole {
    my ($answer) = @_;
    return $answer->{status} =~ /^(?:200|206|304|412|416)$/;
}


sub field {
    my ($answer, $name) = @_;
    return join ', ', $answer->{head} =~ /^\Q$name\E: ([^\r\n]*)/mgi;
}


sub count {
    my ($self, $case, $result) = @_;

    my $sum = $self->{sum};

    $sum->{configurations}++;

    for my $why (qw/ refused dropped /) {
        next if !$result->{$why};

        my ($text) = $result->{$why} =~ /\[emerg\] \S+ (.*)/;

        $sum->{$why}++;
        $self->{unusable}{"$why: " . ($text // $result->{$why})
            =~ s/ in \S+$|"[^"]*"//gr}++;
        return;
    }

    my @asked = grep { !$_->{purge} } @{$case->{requests}};

    $sum->{requests} += @asked;
    $sum->{purges} += @{$case->{requests}} - @asked;
    $sum->{'origin requests'} += $result->{cached}{asked};

    for my $i (0 .. $#asked) {
        my $way = field($result->{answers}{name($asked[$i])}, 'X-Trace');
        my $status = field($result->{cached}{answers}[$i], 'X-Cache');
        my $redirected = $way =~ /\S \S/;

        $sum->{redirected}++ if $redirected;
        $sum->{hits}++ if $status eq 'HIT';
        $sum->{'redirected hits'}++ if $status eq 'HIT' && $redirected;
        $sum->{stale}++ if $status =~ /STALE|UPDATING/;
    }
}


# the reasons why cases could not be compared, and the number of cases for each

sub unusable {
    my ($self) = @_;
    return map { "$self->{unusable}{$_} $_" } sort keys %{$self->{unusable}};
}


sub sums {
    my ($self) = @_;

    return join ', ', map { "$self->{sum}{$_} $_" } @sums;
}


# shrinks a case that shows a fault: returns the smallest case that shows it

sub shrink {
    my ($self, $case, $wrong) = @_;

    my $best = { case => $case, wrong => $wrong };
    my $left = $self->{shrink};

    my $try = sub {
        my ($change) = @_;

        my $new = dclone($best->{case});

        return if $left <= 0 || !$change->($new);

        $left--;

        my ($now) = grep { $_->{what} eq $wrong->{what} }
            @{$self->judge($new)->{wrong}} or return;

        @$best{qw/ case wrong /} = ($new, $now);

        return 1;
    };

    # removes the requests after the one whose answer is wrong

    $try->(sub { cut($_[0], $wrong->{at}) }) if defined $wrong->{at};

    do {
        1 while fewer_requests($best, $try) + fewer_directives($best, $try);
    } while simpler($best, $try);

    return (%$best, kind => kind($best->{case}, $best->{wrong}));
}


sub cut {
    my ($case, $at) = @_;

    my $n = 0;

    for my $i (0 .. $#{$case->{requests}}) {
        next if $case->{requests}[$i]{purge};
        return splice @{$case->{requests}}, $i + 1 if $n++ == $at;
    }
}


sub fewer_requests {
    my ($best, $try) = @_;

    my $done = 0;

    for (my $size = @{$best->{case}{requests}} >> 1; $size; $size >>= 1) {
        my $from = 0;

        while ($from < @{$best->{case}{requests}}) {
            if ($try->(sub { splice @{$_[0]{requests}}, $from, $size;
                return @{$_[0]{requests}} }))
            {
                $done++;

            } else {
                $from += $size;
            }
        }
    }

    for my $i (0 .. $#{$best->{case}{requests}}) {
        for my $name (qw/ with header /) {
            $done++ if $try->(sub { delete $_[0]{requests}[$i]{$name} });
        }
    }

    return $done;
}


sub fewer_directives {
    my ($best, $try) = @_;

    my $done = 0;
    my $i = 0;

    while (my $node = (nodes($best->{case}))[$i]) {
        if ($try->(sub {
            my ($list, $at) = @{(nodes($_[0]))[$i]};
            splice @$list, $at, 1;
            return 1;
        })) {
            $done++;

        } else {
            $i++;
        }
    }

    return $done;
}


# removes from a case those properties of clients, of the application and of
# requests without which the case still shows the fault

sub simpler {
    my ($best, $try) = @_;

    my $done = 0;

    for my $i (0 .. $#{$best->{case}{clients}}) {
        for my $name (qw/ cookie auth lang flag cert /) {
            $done++ if $try->(sub {
                my $client = $_[0]{clients}[$i];
                my $was = $client->{$name};
                $client->{$name} = '';
                return $was;
            });
        }
    }

    for my $i (0 .. $#{[nodes($best->{case})]}) {
        for my $name (qw/ ssi etag dep life kind status /) {
            $done++ if $try->(sub {
                my ($list, $at) = @{(nodes($_[0]))[$i]};
                my $app = $list->[$at]{app} or return;
                my $was = delete $app->{$name};

                delete $app->{say} if $name eq 'dep';
                delete @$app{qw/ to status /} if $name eq 'kind';
                return defined $was && $was ne '' && $was ne 'page';
            });
        }
    }

    for my $i (0 .. $#{$best->{case}{requests}}) {
        $done++ if $try->(sub {
            return $_[0]{requests}[$i]{host} =~ s/:.*//;
        });
    }

    return $done;
}


# the directives whose names make up the kind of a finding; findings of one kind
# are likely to have one cause

my %kinds = map { $_ => $_ } qw/ auth_request error_page rewrite try_files
    index alias ssi mirror add_before_body add_after_body /;


sub kind {
    my ($case, $wrong) = @_;

    my @d = map { $_->[0][$_->[1]] } nodes($case);
    my @requests = @{$case->{requests}};
    my %kind = map { $kinds{$_->{n}} ? ($_->{n} => 1) : () } @d;

    return 'nginx died' if $wrong->{died};

    $kind{servers} = 1 if @{$case->{servers}} > 1;
    $kind{accel} = 1 if grep { $_->{app}
        && ($_->{app}{kind} // '') =~ /accel|gate/ } @d;
    $kind{'proxy_pass in if'} = 1 if grep { $_->{n} eq 'if'
        && grep { $_->{n} eq 'proxy_pass' } @{$_->{k}} } @d;
    $kind{purge} = 1 if grep { $_->{purge} } @requests;
    $kind{'at once'} = 1 if grep { $_->{with} } @requests;
    $kind{tls} = 1 if grep { $_->{port} eq 'P3' } @requests;
    $kind{'/auth asked for'} = 1 if delete $kind{auth_request}
        && grep { $_->{uri} =~ m{^/auth} } @requests;

    return join(', ', sort keys %kind) || 'nothing special';
}


sub shown {
    my ($self, $found) = @_;

    my ($case, $wrong) = @$found{qw/ case wrong /};
    my @clients = @{$case->{clients}};
    my $text = "seed $found->{seed} ($found->{kind})\n"
        . text($case, show => 1);

    for my $r (@{$case->{requests}}) {
        my $client = $clients[$r->{client}];

        $text .= sprintf "%s %-10s -> %s:%s %-4s %s Host: %s%s%s%s\n",
            $r->{with} ? '+' : '-', $client->{ip}, $r->{addr}, $r->{port},
            $r->{method} // 'GET', $r->{uri}, $r->{host},
            $r->{port} eq 'P3' ? " sni $r->{sni}" : '',
            $r->{header} ? "  $r->{header}" : '',
            join '', map { $client->{$_} ? "  $_ $client->{$_}" : '' }
                qw/ cookie auth lang flag cert /;

        last if $wrong->{request} && $r == $wrong->{request};
    }

    return $text . "$wrong->{died}\n" if $wrong->{died};

    return $text . "the last one was given\n"
        . answer_text($wrong->{got}) . "\nand without mcds gets\n"
        . answer_text($wrong->{want}) . "\n";
}


sub answer_text {
    my ($answer) = @_;

    return "    $answer->{status} $answer->{head}\n" if !$answer->{status};

    return "    $answer->{status}" . join('', map {
        my $value = field($answer, $_);
        length $value ? "  $_: $value" : '';
    } 'X-Label', 'Location', 'WWW-Authenticate', 'X-Cache', 'X-Reason',
        'X-Trace') . "\n"
        . join '', map { "    | $_\n" } split /\r?\n/, $answer->{body};
}


1;
