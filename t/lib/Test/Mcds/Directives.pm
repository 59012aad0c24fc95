package Test::Mcds::Directives;

# Copyright (C) mcds authors

# The arguments of each directive, for the tests that go through all of them.  A
# directive of the module that has no row here makes t/conf_directives.t fail.
#
#     at       levels: h http, s server, l location, i if in location,
#              x limit_except
#     right    words that are accepted
#     words    the kinds of the words; those from the number "least" on are
#              optional
#     more     the kind of further words, any number of them
#     params   parameters, each with an accepted value and the kind of this
#              value; [] if the parameter has no value
#     long     0: a word may be of any length
#     again    the directive may appear twice on a level
#     block    the content of its block
#     before   directives that this one requires on the same level
#
# wrong() returns the invalid values of a kind.  parameters() returns such rows
# for the parameters of mcds_pool; in these, "block" is text that precedes the
# parameter in its mcds_pool, and there are two further fields:
#
#     alone    1: nginx refuses the parameter after the "server" and
#              "distribution" that the test puts before other parameters
#     needs    why nginx refuses even the right words: what the test lacks

use warnings;
use strict;

use Exporter qw/ import /;

our @EXPORT_OK = qw/ directives parameters wrong /;


my @number = ('nonsense', '-1', '99999999999999999999', '""', '$uri', '1x');

my %wrong = (
    flag => ['nonsense', '0', '-1', '99999999999999999999', '""', '$uri'],
    word => ['nonsense', '0', '-1', '99999999999999999999', '""', '$uri'],
    number => \@number,
    positive => ['0', @number],
    size => \@number,
    time => \@number,
    ttl => ['0', '1s', '31d', @number],
    percent => ['0', '101%', @number],
    status => ['0', '99', '1000', @number],
    variable => ['nonsense', '0', '-1', '""', '$'],
    text => ['$nonsense', '${uri'],
    name => ['""', '$uri'],
    pool => ['nonsense', '""'],
    file => ['nonsense', '""', '/'],
    empty => ['""'],
    any => [],
);


# values that nginx refuses where a directive expects a value of that kind

sub wrong {
    my ($kind) = @_;

    my ($name, @but) = split / but /, $kind;
    my %but = map { $_ => 1 } @but;

    return grep { !$but{$_} } @{$wrong{$name} // die "no kind $name\n"};
}


my $flag = { right => ['on'], words => ['flag'] };
my $time = { right => ['1s'], words => ['time'] };
my $texts = { right => ['$arg_a', 'b'], words => ['text'], more => 'text',
    again => 1 };

my %directives = (
    mcds_pool => { at => 'h', right => ['p'], words => ['any'],
        long => 0, block => 'server 127.0.0.1;' },
    mcds_use => { right => ['main'], words => ['pool'] },
    mcds_zone => { at => 'h', right => ['1m'],
        words => ['size'] },

    mcds_counter => { right => ['$n'], words => ['variable'], again => 1,
        params => { 'key=' => ['a', 'text'], 'by=' => ['2', 'any'],
            'if=' => ['$arg_a', 'text'], 'statuses=' => ['any', 'word'],
            'ttl=' => ['1m', 'ttl but 1s'], 'period=' => ['1m', 'time'],
            'async=' => ['1s', 'time'], async => [], read => [] } },
    mcds_counter_init => { right => ['$n', '/begin'],
        words => ['variable', 'word but 0'], before => 'mcds_counter $n;',
        params => { 'timeout=' => ['1s', 'time'],
            'fail=' => ['skip', 'word'] } },
    mcds_counter_durable => { right => ['$n', 'on'],
        words => ['variable', 'flag'], before => 'mcds_counter $n;' },
    mcds_counter_buffer => { right => ['$n', 'on'],
        words => ['variable', 'flag'], before => 'mcds_counter $n;' },
    mcds_visitor_counter => { right => ['$v', 'visitor=$arg_u'],
        words => ['variable', 'any'], least => 1, again => 1,
        params => { 'key=' => ['a', 'text'], 'if=' => ['$arg_a', 'text'],
            'window=' => ['1m', 'time'], 'slots=' => ['2', 'number'],
            'jitter=' => ['1%', 'percent'] } },
    mcds_counter_writeback => { right => ['/back'], words => ['any'],
        params => { 'interval=' => ['10s', 'time'],
            'batch=' => ['9', 'positive'] } },
    mcds_counter_top => { at => 'h', right => ['top'], words => ['name'],
        params => { 'size=' => ['9', 'positive'], 'window=' => ['9m', 'time'],
            'slots=' => ['3', 'positive'], 'keys=' => ['99', 'positive'],
            'flush=' => ['9s', 'time'], 'pool=' => ['main', 'pool'] } },
    mcds_counter_api => { at => 'li', right => ['prefix=a'], words => ['any'],
        params => { 'max=' => ['9', 'positive'] } },
    mcds_return => { at => 'li', right => ['200', 'text'],
        words => ['status', 'text'], least => 1 },

    mcds_array_api => { at => 'li', right => ['a'], words => ['text'],
        params => { 'max=' => ['9', 'positive'], unique => [] } },
    mcds_array_push => { right => ['a', '$uri'], words => ['text', 'text'],
        again => 1, params => { 'max=' => ['9', 'positive'],
            'if=' => ['$arg_a', 'text'], unique => [] } },
    mcds_table_api => { at => 'li', right => ['t'], words => ['text'],
        params => { 'ttl=' => ['9s', 'time'] } },
    mcds_table_lookup => { right => ['$v', 't', '$uri'],
        words => ['variable', 'text', 'text'], again => 1,
        params => { 'remember=' => ['9s', 'word but 0'],
            'phase=' => ['rewrite', 'word'] } },
    mcds_api_methods => { right => ['PUT'], words => ['word'], more => 'word' },

    mcds_lock => { right => ['a'], words => ['text'],
        params => { 'ttl=' => ['9s', 'ttl'], 'wait=' => ['9s', 'time'],
            'waiters=' => ['9', 'number'], 'status=' => ['429', 'status'],
            'retry_after=' => ['9s', 'time'],
            'unavailable=' => ['500', 'status'] } },
    mcds_lock_api => { at => 'li', right => [], words => [],
        params => { 'ttl=' => ['9s', 'ttl'], 'max_ttl=' => ['9m', 'ttl'],
            'max_wait=' => ['9s', 'time'] } },

    mcds_log => { at => 'hslix', right => ['a', 'combined'],
        words => ['name', 'pool'], again => 1,
        params => { 'chunk=' => ['9s', 'time'], 'chunks=' => ['9', 'positive'],
            'max_chunk=' => ['9k', 'size'], 'pool=' => ['main', 'pool'],
            'if=' => ['$arg_a', 'text'] } },
    mcds_log_api => { at => 'li', right => ['a'], words => ['name'],
        params => { 'chunk=' => ['9s', 'time'],
            'chunks=' => ['9', 'positive'], 'pool=' => ['main', 'pool'] } },

    mcds_status => { at => 'l', right => [], words => [],
        params => { 'format=' => ['json', 'word'] } },
    mcds_status_host => { at => 'l', before => 'mcds_status;',
        right => ['a', '/b'],
        words => ['name', 'text'], again => 1 },
    mcds_cache_label => { right => ['a'], words => ['name'] },

    mcds_cache => { right => ['on'], words => ['pool'] },
    mcds_cache_key => { right => ['$uri'], words => ['text'] },
    mcds_cache_key_args => { right => ['sort'], words => ['word'],
        params => { 'ignore=' => ['a*,b', 'empty'],
            'only=' => ['a,b*', 'empty'] } },
    mcds_cache_valid => { right => ['200', '1m'],
        words => ['status but 0', 'time'], least => 0, more => 'any',
        again => 1 },
    mcds_cache_methods => { right => ['GET'], words => ['word'],
        more => 'word' },
    mcds_ignore_headers => { right => ['Vary'], words => ['word'],
        more => 'word', again => 1 },
    mcds_cache_heuristic => { right => ['9%', '1d'],
        words => ['percent', 'time'], least => 1 },
    mcds_cache_site => { right => ['site'], words => ['name'] },
    mcds_cache_session_cookies => { right => ['a', 'b*'], words => ['empty'],
        more => 'empty', again => 1, long => 0 },
    mcds_cache_forwarded_headers => { right => ['a', 'default'],
        words => ['empty'], more => 'empty', again => 1, long => 0 },
    mcds_cache_max_size => { right => ['1m'], words => ['size'] },
    mcds_cache_compress => { right => ['gzip'], words => ['word'],
        params => { 'level=' => ['9', 'positive'],
            'min_length=' => ['9k', 'size'] } },
    mcds_cache_lock_age => { right => ['9s'], words => ['ttl'] },
    mcds_cache_lock_timeout => { right => ['9s', 'pass'],
        words => ['time', 'word'], least => 1 },
    mcds_cache_max_waiters => { right => ['9'], words => ['number'] },
    mcds_cache_max_variants => { right => ['9'], words => ['positive'] },
    mcds_cache_error_backoff => { right => ['9s', '99s'],
        words => ['time', 'time'], least => 1 },
    mcds_cache_local => { right => ['timed=2s'], words => ['word'] },
    mcds_cache_early => { right => ['1.5'], words => ['percent but 101%'] },
    mcds_cache_jitter => { right => ['9'], words => ['percent'] },
    mcds_cache_min_uses => { right => ['9'], words => ['number'] },
    mcds_cache_background_update => $time,
    mcds_cache_use_stale => { right => ['error'], words => ['word'],
        more => 'word', again => 1 },
    mcds_cache_grace => $time,
    mcds_cache_uncacheable => { right => ['9s'], words => ['ttl but 1s'] },
    mcds_cache_hmac_key => { right => ['%%TMP%%/secret'], words => ['file'],
        more => 'file' },
    mcds_purge_api => { at => 'hsli', right => ['method=PURGE', '$arg_p'],
        words => ['any', 'text'], least => 1,
        params => { 'mode=' => ['delete', 'word'] } },
    mcds_cache_tag => $texts,
    mcds_cache_bypass => $texts,
    mcds_no_cache => $texts,

    (map { $_ => $flag } qw/ mcds_cache_request_control mcds_cache_lock
        mcds_cache_revalidate mcds_cache_dry_run mcds_cache_status_header
        mcds_cache_shared /),
    mcds_cache_invalidate => { right => ['on'], words => ['word'],
        params => { 'if=' => ['$arg_a', 'text'] } },
    mcds_cache_wait => $time,
);


# The parameters of the mcds_pool block, for tests that try valid and invalid
# values of each: "right" are valid words, "words" the kinds of these words.
# The top of this file describes all fields.

my %period = (right => ['9s'], words => ['time but 0']);

my %parameters = (
    server => { right => ['127.0.0.1:11212', 'weight=2'],
        words => ['empty', 'word'], least => 1, again => 1 },
    libmemcached => { right => ['--SERVER=127.0.0.1'], words => ['empty'],
        alone => 1 },
    distribution => { right => ['ketama'], words => ['word'], alone => 1,
        block => 'server 127.0.0.1;' },
    eject => { right => ['on'], words => ['flag'] },
    replicas => { right => ['1'], words => ['positive'] },
    protocol => { right => ['classic', 'ttl=off'], words => ['word', 'word'],
        least => 1 },
    prefix => { right => ['a:'], words => ['any'] },
    auth_user => { right => ['a'], words => ['empty'],
        block => 'auth_password_file %%TMP%%/secret;' },
    auth_password_file => { right => ['%%TMP%%/secret'], words => ['file'],
        block => 'auth_user a;' },
    ssl => { right => ['off'], words => ['flag'] },
    ssl_verify => { right => ['off'], words => ['flag'] },
    ssl_trusted_certificate => { right => ['%%TMP%%/secret'],
        words => ['any'], block => 'ssl on;', needs => 'a certificate' },
    ssl_name => { right => ['a'], words => ['empty'], block => 'ssl on;' },
    max_fails => { right => ['9'], words => ['number'] },
    max_pending => { right => ['9', '9k'], words => ['positive', 'size'],
        least => 1 },
    map { $_ => { %period } } qw/ timeout connect_timeout fail_timeout
        keepalive /,
);


sub parameters { \%parameters }


sub directives {
    my %all = map { $_ => { at => 'hsl', params => {}, %{$directives{$_}} } }
        keys %directives;

    return \%all;
}


1;
