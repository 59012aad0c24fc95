package Test::Mcds::Oracle::App;

# Copyright (C) mcds authors

# The application behind the nginx of t/oracle.t, the test that compares the
# answers of nginx with and without mcds.  The answers of the application depend
# only on the request, and contain the user.  The application is honest: an
# answer that depends on a header says so by Vary, private, no-store or the
# like.  Only an application with say => 'session' relies on the configuration
# to keep the pages of one client's session from others.  If a request comes to
# the location of such an application and no directive does so, the location is
# recorded in "exposed", and its application sends Vary from then on.
#
#     answer($req, $places, $o)   bytes; $req is { method, uri, head, port };
#                                 $o: { subrequests, exposed }
#
# A location's application is { kind, dep, say, life, to, ssi, status, etag }:
#
#     kind    page; check: refuses some users with "status"; accel: lets nginx
#             send the page at "to"; gate: as accel, but refuses some users;
#             moved: redirects to "to"; missing, error: answers with "status"
#     dep     cookie, lang, auth, addr: the header on which the answer depends;
#             user: it depends on the user that auth_request has admitted, and
#             the location is never "exposed"
#     etag    whether the answer has an ETag
#     say     vary, star, private, nostore, xae, pragma, cdn, or session

use warnings;
use strict;

use Digest::MD5 qw/ md5_hex /;
use Exporter qw/ import /;
use MIME::Base64 qw/ decode_base64 /;

our @EXPORT = qw/ answer /;

my %reason = (200 => 'OK', 302 => 'Found', 401 => 'Unauthorized',
    304 => 'Not Modified', 403 => 'Forbidden', 404 => 'Not Found',
    500 => 'Internal Server Error');

my %header = (cookie => 'Cookie', lang => 'X-Lang', auth => 'Authorization',
    addr => 'X-Addr', user => 'X-User');

my %says = (
    vary => sub { ("Vary: $header{$_[0]}", $_[1]) },
    star => sub { ('Vary: *', $_[1]) },
    private => sub { ('Cache-Control: private, max-age=60') },
    nostore => sub { ('Cache-Control: no-store') },
    xae => sub { ('X-Accel-Expires: 0', $_[1]) },
    pragma => sub { ('Pragma: no-cache') },
    cdn => sub { ('CDN-Cache-Control: no-store', $_[1]) },
    session => sub { ($_[1]) },
);


sub answer {
    my ($req, $places, $o) = @_;

    my $head = $req->{head};
    my ($id) = $head =~ /^X-Here: (\w+)/m;
    my $place = $places->{$id // ''} // {};
    my $app = $place->{app} // {};
    my $kind = $app->{kind} // 'page';
    my $dep = $app->{dep} // '';
    my ($host) = $head =~ /^Host: ([^\r]*)/m;
    my $who = who($dep, $head);
    my $say = $dep ? $app->{say} : '';
    my $status = 200;
    my @h;

    if ($say eq 'session' && $dep ne 'user'
        && !guarded($place, $head, $places, $o))
    {
        $o->{exposed}{$id} = 1;
    }

    $say = 'vary' if $say eq 'session' && $o->{exposed}{$id};

    my $method = $req->{method} eq 'HEAD' ? 'GET' : $req->{method};
    my $label = ($id // '?') . ":$req->{port} $method "
        . lc($host // '') . "$req->{uri} for " . ($dep ? "$dep $who" : 'all');
    my $refused = $who ne 'alice' && $who ne 'de' && $who ne '127.0.0.9';

    if ($kind =~ /^(?:check|gate)$/ && $refused) {
        $status = $app->{status} // 403;

    } elsif ($kind =~ /^(?:accel|gate)$/) {
        push @h, "X-Accel-Redirect: $app->{to}";

    } elsif ($kind eq 'moved') {
        $status = 302;
        push @h, "Location: $app->{to}";

    } elsif ($kind =~ /^(?:missing|error)$/) {
        $status = $app->{status} // 404;
    }

    my $life = $app->{life} ? "Cache-Control: $app->{life}" : '';

    push @h, grep { $_ } $dep ? $says{$say}->($dep, $life) : $life;

    my $tag = '"' . md5_hex($label) . '"';

    push @h, "ETag: $tag" if $app->{etag};

    if ($app->{etag} && $status == 200
        && $head =~ /^If-None-Match: \Q$tag\E\r/mi)
    {
        return join "\r\n", "HTTP/1.1 304 $reason{304}", "X-Label: $label", @h,
            '', '';
    }

    my $body = "LABEL $label\n" . ($app->{ssi} // '') . "\n";

    return join "\r\n", "HTTP/1.1 $status $reason{$status}",
        'Content-Type: text/html', 'Content-Length: ' . length($body),
        "X-Label: $label", @h, '', $req->{method} eq 'HEAD' ? '' : $body;
}


# the value of the property of a request, such as the user, on which the answer
# depends

sub who {
    my ($dep, $head) = @_;

    return $1 if $dep eq 'cookie' && $head =~ /^Cookie:.*\bSID=(\w+)/mi;
    return $1 if $dep eq 'lang' && $head =~ /^X-Lang: (\w+)/mi;
    return $1 if $dep eq 'user' && $head =~ /^X-User: ([^\r]+)/mi;
    return $1 if $dep eq 'addr' && $head =~ /^X-Addr: ([\d.]+)/mi;

    return decode_base64($1) =~ s/:.*//sr
        if $dep eq 'auth' && $head =~ /^Authorization: Basic (\S+)/mi;

    return '';
}


# Tells whether directives keep the pages of different sessions apart in the
# cache.  Those of the application's location ($place) count, and those of the
# location that the client requested, which is unknown if there are subrequests.
# mcds_cache_key keeps them apart only at the application's location.

sub guarded {
    my ($place, $head, $places, $o) = @_;

    my ($asked) = $head =~ /^X-Trace: *(\w+)/m;
    my $guard = $place->{guard};

    return 1 if $guard =~ /k/;

    $guard .= $places->{$asked}{guard} // ''
        if defined $asked && !$o->{subrequests};

    return $guard =~ /s/ || $guard =~ /b/ && $guard =~ /n/;
}


1;
