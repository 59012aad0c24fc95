package Test::Mcds::Entry;

# Copyright (C) mcds authors

# Reads and writes stored pages in the format of ngx_mcds_entry.h:
#
#     $e = page_decode($m->get($key))        the fields and strings
#     page_ext($e, 2)                        its extension of that type
#     $bytes = page_encode(%$e)              with a correct CRC for any fields
#     $p = part_decode($m->get($key))        likewise for a part of a page, see
#     $bytes = part_encode(%$p)              ngx_mcds_part.h
#     page_wait($m, $key)                    waits until the page is stored and
#                                            no request builds it
#     page_expire($m, $key, $ms, %more)      lets the page have expired so many
#                                            ms ago
#     key($uri)                              the key of a page of a host without
#                                            a name; exported on request

use warnings;
use strict;

use Exporter qw/ import /;
use Time::HiRes qw/ time sleep /;

our @EXPORT_OK = qw/ key /;
our @EXPORT = qw/ page_decode page_encode part_decode part_encode page_wait
    page_expire page_ext crc32c /;

my $unset = 0xffffffff;
my @table = map {
    my $c = $_;
    $c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8;
    $c;
} 0 .. 255;


sub crc32c {
    my ($data) = @_;
    my $crc = $unset;

    $crc = ($crc >> 8) ^ $table[($crc ^ $_) & 0xff] for unpack 'C*', $data;

    return $crc ^ $unset;
}


sub page_decode {
    my ($data) = @_;

    return if !defined $data || length $data < 112;

    my %e;
    my ($key, $ext, $headers, $body);

    (@e{qw/ magic format kind size flags crc expire created generation total
        age swr sie took /}, $key, $ext, $headers, $body,
        @e{qw/ parts status /}) = unpack 'a4CCvVVQ<Q<Q<Q<V4V4VS<', $data;

    @e{qw/ part build purges /} = unpack 'x88Vx8Q<V', $data;
    @e{qw/ coding length /} = $e{format} == 2 ? unpack('x86vx4Q<', $data)
        : (0, $e{total});
    @e{qw/ key ext headers body /} = unpack
        "x$e{size} a$key a$ext a$headers a$body", $data;

    tie $e{valid}, 'Test::Mcds::Entry::Valid', $data, $e{crc};

    return \%e;
}


sub page_ext {
    my ($e, $type) = @_;
    my %ext = unpack '(vV/a)*', $e->{ext};
    return $ext{$type};
}


sub page_encode {
    my %e = (
        magic => 'MCDS', kind => 0, size => 112, flags => 0,
        created => int(time() * 1000), generation => 1, age => 0,
        swr => $unset, sie => $unset, took => 0, ext => '', headers => '',
        body => '', parts => 0, part => 0, status => 200, purges => 0,
        coding => 0, build => 0, @_
    );

    $e{format} //= $e{coding} ? 2 : 1;

    $e{expire} //= $e{created} + 60000;
    $e{total} //= length $e{body};

    my $head = pack 'a4CCvV', @e{qw/ magic format kind size flags /};
    my $rest = pack 'Q<Q<Q<Q<V4V4VS<vVQ<Q<V', @e{qw/ expire created generation
        total age swr sie took /}, (map { length $e{$_} }
        qw/ key ext headers body /), @e{qw/ parts status coding part /},
        $e{coding} ? $e{length} : 0, $e{build}, $e{purges};

    $rest .= join '', @e{qw/ key ext headers body /};

    return $head . pack('V', crc32c($head . $rest)) . $rest;
}


sub part_decode {
    my ($data) = @_;

    return if !defined $data || length $data < 32;

    my %p;

    (@p{qw/ magic format reserved size len crc generation n /}) = unpack
        'a4CCvVVQ<V', $data;

    $p{more} = substr $data, 32, $p{size} - 32;
    $p{data} = substr $data, $p{size};
    tie $p{valid}, 'Test::Mcds::Entry::Valid', $data, $p{crc};

    return \%p;
}


sub part_encode {
    my %p = (magic => 'MCDP', format => 1, reserved => 0, size => 32, n => 0,
        more => '', data => '', @_);

    $p{len} //= length $p{data};

    my $head = pack 'a4CCvV', @p{qw/ magic format reserved size len /};
    my $rest = pack('Q<Vx4', @p{qw/ generation n /}) . $p{more} . $p{data};

    return $head . pack('V', crc32c($head . $rest)) . $rest;
}


sub key { '<>http://localhost' . shift }


# the key of a page in memcached: a cache key without a site gets "<>", the
# empty site of a server{} without a name, in front

sub page_name {
    my ($key) = @_;
    return $key =~ /</ ? $key : "<>$key";
}


# waits until a page is stored and no request builds it: the page has no lock,
# or one that a failed build has left ("kept"); returns the page, or undef after
# the timeout

sub page_wait {
    my ($m, $key, $timeout) = @_;

    my $page;

    $key = page_name($key);

    return Test::Mcds::wait_for(sub {
        $page = $m->get($key);
        return defined $page
            && ($m->get("$key:lock") // 'kept') =~ /^kept/;
    }, $timeout) ? $page : undef;
}


sub page_expire {
    my ($m, $key, $ms, %more) = @_;

    $key = page_name($key);

    my $e = page_decode(page_wait($m, $key)) or die "no page $key\n";
    my %page = map { $_ => $e->{$_} } grep { $_ ne 'valid' } keys %$e;
    my $expire = int(time() * 1000) - $ms;

    my $created = $e->{created} + $expire - $e->{expire};

    # the time of creation moves with the expiry, but only backwards: a time in
    # the future would look like that of a host whose clock is ahead

    $page{created} = $e->{created} = $created if $created < $e->{created};
    $page{expire} = $e->{expire} = $expire;

    $m->set($key, page_encode(%page, %more)) or die "page $key not stored\n";

    return $e;
}


# the field "valid" of a decoded page is computed on demand, by tie: the CRC of
# a large page takes long

package Test::Mcds::Entry::Valid;

sub TIESCALAR {
    my ($class, $data, $crc) = @_;
    return bless { data => $data, crc => $crc }, $class;
}

sub FETCH {
    my ($self) = @_;

    return $self->{valid} //= Test::Mcds::Entry::crc32c(
        substr($self->{data}, 0, 12) . substr($self->{data}, 16))
        == $self->{crc};
}


1;
