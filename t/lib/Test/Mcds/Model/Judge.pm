package Test::Mcds::Model::Judge;

# Copyright (C) mcds authors

# Judges the answers of a shared cache by RFC 9111 and the configuration, as a
# pure function of the history of requests and answers.
#
#     $judge = judge($place, \@history, \%known)
#
# The result is { wrong => [{ what, event, text }], asked, reused, stale }, with
# the numbers of requests, of requests answered with a stored response, and of
# requests answered with an expired response.
# $place is one of places() in Grammar.pm, the history is from Run.pm.  %known
# has the names of faults of nginx or mcds that are not reported:
#
#     cut      a connection ends though the response did not announce it
#     date     If-Modified-Since later than Last-Modified does not match
#     delay    Age without the time that the response took
#     head     Range has a meaning for HEAD
#     odd      a 304 with another ETag is an error
#     renew    the directives of a 304 without a lifetime, such as
#              must-revalidate, do not replace those of the stored response
#     rule     mcds_no_cache does not hold for a 304
#     sie      waiting requests get a response that stale-if-error forbids
#     strong   a 304 with a strong ETag for a response with a weak one
#     tag      a page purged by tag expires when it is looked up, as the record
#              of the tag has no time
#     timed    the worker that has purged a page serves its local copy
#     weak     If-Range matches weak validators of uncached responses
#     zone     Expires may have another zone than GMT

use warnings;
use strict;

use Exporter qw/ import /;

our @EXPORT = qw/ judge /;

my %of_request = map { $_ => 1 } 400, 405, 406, 408, 411 .. 417, 421, 425, 426,
    428, 429, 431;


sub judge {
    my ($place, $history, $known) = @_;

    my $j = bless { place => $place, known => $known, wrong => [],
        asked => 0, reused => 0, stale => 0,
        answers => [grep { $_->{what} eq 'answer' } @$history],
        purges => [grep { $_->{what} eq 'purge' } @$history],
        asks => { map { $_->{at} => $_ } grep { $_->{what} eq 'ask' }
            @$history } }, __PACKAGE__;

    $j->{unsafe} = [grep { $_->{method} eq 'POST'
        && ($_->{answer}{status} // 0) =~ /^[23]/ } values %{$j->{asks}}];
    $j->{by} = { map { $_->{at} => $_ } @{$j->{answers}} };

    for my $r (sort { $a->{at} <=> $b->{at} } values %{$j->{asks}}) {
        my $why = $j->look($r);

        $j->{asked}++;
        push @{$j->{wrong}}, { what => $why =~ s/ \(.*//sr, text => $why,
            event => $r } if $why;
    }

    return $j;
}


# judges the answer to a request: returns why it is wrong, or ''

sub look {
    my ($j, $r) = @_;

    my $a = $r->{answer} // return 'no answer';

    return '' if $a->{left};

    my ($n) = $a->{head} =~ /^X-Answer: (\d+)/mi;
    my $o = defined $n ? $j->{by}{$n} : undef;

    return "no answer ($a->{head})" if !$a->{status};
    return 'a connection closed without a word'
        if $a->{closed} && !$j->{known}{cut};
    return "a cookie of another" if $a->{head} =~ /^Set-Cookie: for=(\d+)/mi
        && $1 != $r->{at};
    return $j->made($r, $a) if !defined $n;
    return "an answer of nowhere" if !$o || $o->{uri} ne $r->{uri};

    my $why = $j->shape($r, $o, $a);

    return $why if $why || $o->{for} == $r->{at};

    $j->{reused}++ if defined $o->{settled} && $o->{settled} < $r->{at};

    return $j->usable($r, $o) || $j->age($r, $o, $a);
}


# judges an answer that nginx itself made, such as an error, without the origin

sub made {
    my ($j, $r, $a) = @_;

    return '' if $a->{status} == 416 && ($r->{header}{range} // '') =~ /99999-/;
    return '' if $a->{status} == 504 && $j->{place}{control}
        && ($r->{header}{'cache-control'} // '') eq 'only-if-cached';

    return "status $a->{status} of nginx" if $a->{status} < 500;

    return '' if grep { $j->failed($_) && $_->{uri} eq $r->{uri}
        && $_->{at} < $r->{end} } @{$j->{answers}};

    return "an error without a reason ($a->{status})";
}


sub failed {
    my ($j, $o) = @_;
    return $o->{fail} || $j->{known}{odd} && $o->{odd}
        || $j->{place}{stale}{$o->{status}};
}


# returns how nginx has misapplied a condition or range (RFC 9110), or ''

sub shape {
    my ($j, $r, $o, $a) = @_;

    my $h = $r->{header};
    my $status = $a->{status};

    # a 304 with a wrong ETag ("odd") may answer the client's own condition

    return '' if $o->{odd} && $status == 304 && $o->{for} == $r->{at}
        && defined $h->{'if-none-match'};
    return 'an answer of a 304 that is for another' if $o->{odd};

    # RFC 9111, 4.3.4: a strong ETag selects no stored response with a weak one

    return 'a 304 with a strong ETag for a weak one'
        if $o->{status} == 304 && $status != 304 && !$j->{known}{strong}
            && ($o->{etag} // '') =~ /^"/
            && ($o->{asked}{'if-none-match'} // $o->{etag}) !~ /(?:^|, )"/;

    my $tag = $o->{etag} // '';
    my $get = $r->{method} =~ /^(?:GET|HEAD)$/;
    my $inm = $h->{'if-none-match'};
    my $ims = $h->{'if-modified-since'};

    # RFC 9110, 13.1.2 and 13.1.3: the conditions that say "not modified"

    my $match = defined $inm && ($inm eq '*'
        || $tag ne '' && grep { $_ eq $tag =~ s/^W\///r }
            map { s/^W\///r } split /, /, $inm);
    my $since = !defined $inm && defined $ims && $o->{lm}
        && after($ims, $o->{lm});

    # nginx by default compares dates for equality

    my $same = $since && ($ims eq Test::Mcds::Model::Run::date($o->{lm})
        || !$j->{known}{date});

    # If the origin made the answer for this request, it is not from the cache:
    # then nginx's own filters evaluate If-None-Match and the like, not mcds.

    my $cached = $o->{for} != $r->{at};

    if ($status == 304) {
        return 'a 304 that is none' if !$get || !$match && !$since;
        return '';
    }

    if ($status == 206) {
        return 'a part of nothing' if $o->{whole} != 200 || !$h->{range};

        # RFC 9110, 14.2: Range is defined for GET only

        if ($r->{method} ne 'GET') {
            return 'a part for HEAD' if !$j->{known}{head};
            return '';
        }

        return 'a 206 where a condition says 304'
            if ($match || $same) && $cached;
        return 'a part in spite of If-Range'
            if defined $h->{'if-range'} && !if_range($h->{'if-range'}, $o)
                && ($cached || !$j->{known}{weak}
                    || $h->{'if-range'} !~ /^W\//);
        return part($h->{range}, $o->{body}, $a);
    }

    return '' if $status == 416 && $o->{whole} == 200
        && ($h->{range} // '') =~ /99999-/;
    return "status $status for $o->{whole}" if $status != $o->{whole};

    return 'a 200 where a condition says 304'
        if ($match || $same) && $status == 200 && $cached;

    return '' if $a->{cut} && $o->{fail};

    my $body = $r->{method} eq 'HEAD' ? '' : $o->{body};

    return "another body (wanted $body)" if $a->{body} ne $body;

    return '';
}


sub if_range {
    my ($value, $o) = @_;

    return $value eq ($o->{etag} // '') if $value =~ /^"/;
    return 0 if $value =~ /^W\//;
    return $o->{lm} && $value eq Test::Mcds::Model::Run::date($o->{lm});
}


sub after {
    my ($date, $lm) = @_;

    # dates in requests are so many seconds after Last-Modified, see Grammar.pm

    for my $d (0, 10, 50) {
        return 1 if $date eq Test::Mcds::Model::Run::date($lm + $d);
    }

    return 0;
}


sub part {
    my ($range, $body, $a) = @_;

    my $size = length $body;
    my @want;

    for my $spec (split /,/, $range =~ s/^bytes=//r) {
        my ($from, $to) = $spec =~ /^(\d*)-(\d*)$/;

        ($from, $to) = ($size - $to, $size - 1) if $from eq '';
        $to = $size - 1 if $to eq '' || $to >= $size;
        next if $from >= $size;
        push @want, [$from, $to];
    }

    return 'a part that does not exist' if !@want;

    my @got = map { [$_, substr $body, $_->[0], $_->[1] - $_->[0] + 1] } @want;

    if (@got == 1) {
        my ($at, $text) = @{$got[0]};

        return 'another part' if $a->{body} ne $text;
        return 'another Content-Range'
            if index($a->{head}, "bytes $at->[0]-$at->[1]/$size") < 0;
        return '';
    }

    for (@got) {
        my ($at, $text) = @$_;

        return 'another part'
            if index($a->{body}, "bytes $at->[0]-$at->[1]/$size\r\n\r\n$text")
                < 0;
    }

    return '';
}


# the headers of an answer that are in effect: those of a 304 replace those of
# the stored response (RFC 9111, 4.3.4)

sub said {
    my ($j, $o) = @_;

    return $o->{merged} if $o->{merged};

    my $s = $o->{state};
    my %said = (date => $o->{date}, age => first_age($s->{age}));

    $said{$_} = $s->{$_} for qw/ cc cdn accel vary cookie /;
    $said{expires} = int($o->{until} // $o->{time}) + $s->{expires}
        if defined $s->{expires};
    $said{expires} = 0 if $s->{zone} && !$j->{known}{zone};

    delete @said{qw/ cc cdn accel expires /}
        if $o->{status} == 304 && $s->{lazy};

    # RFC 9111, 4.3.5: headers of an answer to HEAD replace stored ones, too

    if ($o->{status} == 304 || $o->{method} eq 'HEAD') {
        my ($base) = grep { $_->{uri} eq $o->{uri} && defined $_->{end}
            && $_->{end} < $o->{at} && !$_->{fail} && !$_->{odd}
            && ($_->{method} eq 'GET'
                ? $_->{body} eq $o->{body} && same($_, $o)
                : $_->{merged} && $_->{merged}{base}) }
            reverse @{$j->{answers}};
        my $old = $base ? $j->said($base) : {};

        $said{$_} //= $old->{$_} for qw/ cc cdn accel expires vary /;
        $said{base} = $base;
    }

    return $o->{merged} = \%said;
}


# RFC 9111, 5.1: Age is the first value of a list or of lines, if it is a number

sub first_age { return ($_[0] // '') =~ /^(\d+)(?:[;,]|$)/ ? $1 : 0 }


# whether the answer $o to a HEAD has the validators of the stored response
# $base; 1 for a 304, which answers a request that contained these validators

sub same {
    my ($base, $o) = @_;

    return 1 if $o->{method} ne 'HEAD';
    return $o->{status} == 200 && $base->{whole} == 200
        && (defined $o->{etag} || $o->{lm})
        && ($base->{etag} // '') eq ($o->{etag} // '')
        && ($base->{lm} // '') eq ($o->{lm} // '');
}


sub directives {
    my ($text) = @_;

    return { map { /^([\w-]+)(?:=(\d+))?$/ ? ($1 => $2 // 1) : () }
        split /,\s*/, $text // '' };
}


# whether a cache may use an answer again, and for how long: undef if not, or a
# hash: life, the lifetime in seconds; given, 1 if headers of the answer state
# the lifetime, 0 if mcds_cache_valid does; expire, the time when the lifetime
# ends; revalidate, true if the answer must not be served stale; swr and sie,
# the seconds of stale-while-revalidate and stale-if-error

sub policy {
    my ($j, $o) = @_;

    return $o->{policy} if exists $o->{policy};

    return $o->{policy} = $j->storable($o);
}


sub storable {
    my ($j, $o) = @_;

    my $place = $j->{place};
    my $said = $j->said($o);
    my $asked = $o->{asked};
    my $cc = directives($said->{cc});
    my $targeted = length($said->{cdn} // '');

    # RFC 9213, 2.1: a targeted header replaces Cache-Control

    $cc = directives($said->{cdn}) if $targeted;

    # RFC 9111, 3: whether a shared cache may store the response

    return if $o->{method} ne 'GET'
        && !($o->{method} eq 'HEAD' && $said->{base});
    return if ($o->{fail} // '') =~ /^[a-z]/;
    return if $o->{odd};
    return if $cc->{'no-store'} || $cc->{private} || $cc->{'no-cache'};
    return if $o->{state}{cookie} && $o->{status} != 304 && !$said->{base};
    return if ($said->{vary} // '') eq '*';
    return if $asked->{authorization} && !$cc->{public}
        && !defined $cc->{'s-maxage'} && !$cc->{'must-revalidate'};
    return if $place->{session} && ($asked->{cookie} // '') =~ /\bSID=/;
    return if $place->{session} && $asked->{'x-no'}
        && !($j->{known}{rule} && $o->{status} == 304);
    return if $place->{control}
        && ($asked->{'cache-control'} // '') eq 'no-store';

    # RFC 9111, 4.2.1: the lifetime of the response

    my ($life, $given, $aged) = (undef, 1, 1);

    if (defined $said->{accel}) {
        ($life, $aged) = ($said->{accel}, 0);

    } elsif (defined $cc->{'s-maxage'}) {
        $life = $cc->{'s-maxage'};

    } elsif (defined $cc->{'max-age'}) {
        $life = $cc->{'max-age'};

    } elsif (!$targeted && defined $said->{expires}) {
        $life = $said->{expires} - ($said->{date} // int $o->{until});

    } else {
        $life = $place->{valid}{$o->{whole}} // $place->{valid}{any};
        ($given, $aged) = (0, 0);
    }

    # a 304 without a lifetime keeps the lifetime of the stored response

    if (!defined $life && $said->{base}) {
        my $before = $j->policy($said->{base});

        return if !$before;
        return { %$before, expire => $o->{until} + $before->{life} }
            if $j->{known}{renew};
        ($life, $aged) = ($before->{life}, 0);
    }

    return if !$life || $life <= 0;

    my $expire = $o->{until} + $life;

    $expire -= $j->initial_age($o) if $aged;

    return {
        life => $life, given => $given, expire => $expire,
        swr => $cc->{'stale-while-revalidate'}, sie => $cc->{'stale-if-error'},
        revalidate => $cc->{'must-revalidate'} || $cc->{'proxy-revalidate'}
            || defined $cc->{'s-maxage'}
                && !defined $cc->{'stale-while-revalidate'}
                && !defined $cc->{'stale-if-error'},
    };
}


# RFC 9111, 4.2.3: the corrected_age_value; apparent_age is only for HTTP/1.0

sub initial_age {
    my ($j, $o) = @_;

    return ($j->said($o)->{age} // 0)
        + ($j->{known}{delay} ? 0 : $o->{until} - $o->{time});
}


# returns why the answer to another request must not be reused for this one, or
# ''

sub usable {
    my ($j, $r, $o) = @_;

    my $place = $j->{place};
    my $h = $r->{header};

    return "$r->{method} answered with another's answer"
        if $r->{method} !~ /^(?:GET|HEAD)$/;

    my $p = $j->policy($o) // return 'an answer that is not for others';

    for my $name (names($j->said($o))) {
        return "another variant (by $name)"
            if ($h->{$name} // '') ne ($o->{asked}{$name} // '');
    }

    return 'a page for a session'
        if $place->{session} && ($h->{cookie} // '') =~ /\bSID=/;
    return 'a page in spite of mcds_cache_bypass'
        if $place->{session} && $h->{'x-bypass'};

    my $expire = $p->{expire};
    my $now = $r->{time};

    for my $e (@{$j->{purges}}) {
        next if $e->{uri} ne $r->{uri} || $e->{status} == 503
            || $e->{at} < $o->{at} || $r->{at} < $e->{end}
            || $j->copy($r, $e);

        return 'a page that was deleted' if $e->{mode} eq 'delete';

        my $at = $e->{tag} && $j->{known}{tag} ? $now : $e->{time};

        $expire = $at if $expire > $at;
    }

    # RFC 9111, 4.4: unsafe requests invalidate a page

    return 'a page that an unsafe request has taken away'
        if grep { $_->{uri} eq $r->{uri} && $_->{at} > $o->{at}
            && $_->{end} < $r->{at} && !$j->copy($r, $_) } @{$j->{unsafe}};

    # RFC 9111, 4: a cache must use the most recent of several responses

    return 'a page that another has replaced'
        if grep { $j->replaces($_, $o, $r) } @{$j->{answers}};

    # the request waited for this answer, which another request has caused

    if ($o->{end} > $r->{at}) {
        return '' if !$p->{revalidate} || $o->{until} < $expire;
        return 'an answer that is expired on arrival';
    }

    if ($place->{control}) {
        my $c = directives($h->{'cache-control'});
        my $age = $now - $o->{until} + $j->initial_age($o);

        return 'a page in spite of no-cache' if $c->{'no-cache'};
        return 'an older page than accepted'
            if defined $c->{'max-age'} && int($age) > $c->{'max-age'};
        return 'a page that expires too soon'
            if defined $c->{'min-fresh'} && $now < $expire
                && $expire - $now < $c->{'min-fresh'} - 1;
        return '' if defined $c->{'max-stale'} && !$p->{revalidate}
            && $now - $expire <= $c->{'max-stale'};
    }

    return '' if $now < $expire;

    $j->{stale}++;

    return $j->stale($r, $o, $p, $now - $expire);
}


sub names {
    my ($said) = @_;
    return map { lc } split /, /, $said->{vary} // '';
}


# RFC 9111, 4.2.4, and RFC 5861: returns why a page must not be used $late
# seconds after its expiry, or ''

sub stale {
    my ($j, $r, $o, $p, $late) = @_;

    my $place = $j->{place};

    return "stale in spite of must-revalidate" if $p->{revalidate};

    my $grace = $p->{given} ? $place->{origin} : $place->{grace};
    my $within = $late < $grace;

    return '' if defined $p->{swr} ? $late < $p->{swr}
        : $within && $late < $place->{background};

    # mcds_cache_wait limits how long a request waits for the answer to another
    # request

    return '' if $within
        && $r->{until} - $r->{time} + $r->{took} >= $place->{wait};

    for my $f (@{$j->{answers}}) {
        next if $f->{uri} ne $r->{uri} || $f->{end} < $o->{end}
            || $f->{at} > $r->{end} || !$j->failed($f);

        my $kind = $f->{odd} || ($f->{fail} // '') =~ /^[a-z]/ ? 'error'
            : $f->{status};

        return '' if defined $p->{sie} && $late < $p->{sie}
            && $kind =~ /^(?:error|50[0234])$/;
        return '' if (!defined $p->{sie} || $j->{known}{sie}) && $within
            && $place->{stale}{$kind};
    }

    return "stale for too long ($late s)";
}


# whether nginx may answer the request $r with a copy of the page from its own
# memory (mcds_cache_local timed) that is older than the event $e: a purge or a
# request, usually at the other host, that has changed or removed the page

sub copy {
    my ($j, $r, $e) = @_;

    return $j->{place}{timed}
        && ($j->{known}{timed} || $r->{host} != $e->{host});
}


# whether the answer $w has replaced the answer $o in the cache for request $r

sub replaces {
    my ($j, $w, $o, $r) = @_;

    return 0 if $w->{uri} ne $o->{uri} || $w->{at} < ($o->{settled} // 1e9)
        || ($w->{settled} // 1e9) > $r->{at};

    my $by = $j->{asks}{$w->{for}};
    my $asked = $w->{asked};
    my $place = $j->{place};

    return 0 if $w->{odd} || $w->{lost} || $by->{answer}{left};
    return 0 if $w->{method} ne 'GET' || $j->failed($w)
        || $w->{status} >= 500 || $of_request{$w->{status}}
        || $asked->{range} || $asked->{authorization}
        || $j->copy($r, $by);

    # an answer requested before a purge is not stored after the purge

    return 0 if grep { $_->{uri} eq $w->{uri} && $_->{end} > $w->{at}
        && $_->{at} < $w->{settled} } @{$j->{purges}}, @{$j->{unsafe}};

    return 0 if $place->{session}
        && (($asked->{cookie} // '') =~ /\bSID=/ || $asked->{'x-no'});
    return 0 if $place->{control}
        && ($asked->{'cache-control'} // '') eq 'no-store';
    return 0 if $w->{status} == 304
        && ($asked->{'if-none-match'} // '')
            eq ($by->{header}{'if-none-match'} // '-');

    # a cache uses the most recent one, by its date, of several stored answers

    my $stored = $j->policy($w);

    return 0 if $stored && $w->{until} < $o->{until} + 1;

    # an answer obtained by mcds_cache_bypass replaces the stored one only if
    # nginx stores the new answer; nginx does not store all storable answers

    return 0 if $asked->{'x-bypass'} && (!$stored || $w->{whole} != 200
        || grep { $by->{header}{$_} } 'if-none-match', 'if-modified-since');

    for my $name ($j->narrow($w)) {
        return 0 if ($asked->{$name} // '') ne ($r->{header}{$name} // '');
    }

    return 1;
}


# Returns the names of request headers: the answer $w replaces a stored answer
# only for requests with the same values of these headers.  They are all headers
# that any Vary of the page has named so far, even if the Vary of $w names
# fewer.  RFC 9111, 4.1 requires this if $w has no Vary.  If $w has one, a cache
# could use $w for more requests, but the judge does not demand this.

sub narrow {
    my ($j, $w) = @_;

    my %names = map { $_ => 1 } map { names($j->said($_)) }
        grep { $_->{uri} eq $w->{uri} && $_->{at} <= $w->{at} }
            @{$j->{answers}};

    return grep { $_ ne '*' } keys %names;
}


# RFC 9111, 5.1: returns why the header Age of a reused answer is wrong, or ''

sub age {
    my ($j, $r, $o, $a) = @_;

    my @age = $a->{head} =~ /^Age: (\S+)\r?$/mgi;

    return 'no Age' if !@age;
    return 'more than one Age' if @age > 1;

    my $from = $r->{time} > $o->{until} ? $r->{time} : $o->{until};
    my $said = $j->said($o);
    my $least = int($j->initial_age($o) + $from - $o->{until});
    my $date = defined $said->{date} ? int($o->{time}) - $said->{date} : 0;
    my $most = ($said->{age} // 0) > $date ? $said->{age} // 0 : $date;

    # Age may include the time since nginx's first attempt to get the answer
    # from the origin, even if that attempt has failed

    my ($first) = grep { $_->{for} == $o->{for} && $_->{uri} eq $o->{uri} }
        @{$j->{answers}};

    $most += $r->{until} - $first->{time} + 1 + $o->{took}
        + $j->{asks}{$o->{for}}{took};

    return "Age too small ($age[0], at least $least)" if $age[0] < $least;
    return "Age too large ($age[0], at most $most)" if $age[0] > $most;
    return '';
}


1;
