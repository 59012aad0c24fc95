
/*
 * Copyright (C) mcds authors
 *
 * Whether an answer may be stored, and how long it is fresh: RFC 9111,
 * sections 3, 4.2 and 5.  Pure functions; the time is an argument.
 */


#ifndef _NGX_MCDS_FRESH_H_INCLUDED_
#define _NGX_MCDS_FRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_reason.h"


/* delta-seconds, RFC 9111, 1.2.2: what a larger number counts as */
#define NGX_MCDS_MAX_DELTA  2147483648U


/*
 * The Cache-Control of an answer or of a request, all its lines joined.  Begin
 * with zeroed memory and add each line.  Numbers: RFC 9111, 1.2.2: too large
 * counts as 2147483648; of duplicates the smaller counts; a directive whose
 * argument is not a number (1*DIGIT, or that in quotes) is 0: stale at once.
 * max-stale and min-fresh are those of requests; of several the smallest and
 * the largest counts.  Directive
 * names are compared without case; quoted strings and their escapes are
 * followed, so that a name inside of one is not taken for a directive;
 * unknown directives are skipped.  no-cache and private with field names
 * count as if without them (stricter than asked, never looser).  A line that
 * breaks the grammar (spaces about "=" or a semicolon included) sets malformed,
 * and what follows on that line is not looked at.  "public" with an argument,
 * which it does not have, is skipped.
 */

typedef struct {
    uint32_t      max_age;
    uint32_t      s_maxage;
    uint32_t      swr;            /* stale-while-revalidate, RFC 5861 */
    uint32_t      sie;            /* stale-if-error */
    uint32_t      max_stale;      /* of a request; without an argument any */
    uint32_t      min_fresh;      /* of a request */

    unsigned      has_max_age:1;
    unsigned      has_s_maxage:1;
    unsigned      has_swr:1;
    unsigned      has_sie:1;
    unsigned      has_max_stale:1;
    unsigned      has_min_fresh:1;
    unsigned      only_if_cached:1;
    unsigned      no_store:1;
    unsigned      no_cache:1;
    unsigned      private:1;
    unsigned      public:1;
    unsigned      must_revalidate:1;
    unsigned      proxy_revalidate:1;
    unsigned      must_understand:1;
    unsigned      no_transform:1;
    unsigned      malformed:1;
    unsigned      ignored:1;      /* one was there that is to be ignored */
    unsigned      may_stale:1;    /* s-maxage does not forbid stale */
} ngx_mcds_cache_control_t;

void ngx_mcds_cache_control_add(ngx_mcds_cache_control_t *cc,
    ngx_str_t *value);


/*
 * After the lines were added: directives that are to be ignored, as if they had
 * not been there, neither for what they forbid nor for what they allow.
 * Without must-revalidate or proxy-revalidate s-maxage does not stand for the
 * latter, either.
 */

#define NGX_MCDS_CONTROL_MAX_AGE           0x0001
#define NGX_MCDS_CONTROL_S_MAXAGE          0x0002
#define NGX_MCDS_CONTROL_SWR               0x0004
#define NGX_MCDS_CONTROL_SIE               0x0008
#define NGX_MCDS_CONTROL_NO_STORE          0x0010
#define NGX_MCDS_CONTROL_NO_CACHE          0x0020
#define NGX_MCDS_CONTROL_PRIVATE           0x0040
#define NGX_MCDS_CONTROL_PUBLIC            0x0080
#define NGX_MCDS_CONTROL_MUST_REVALIDATE   0x0100
#define NGX_MCDS_CONTROL_PROXY_REVALIDATE  0x0200
#define NGX_MCDS_CONTROL_MUST_UNDERSTAND   0x0400
#define NGX_MCDS_CONTROL_ALL               0x07ff

void ngx_mcds_cache_control_ignore(ngx_mcds_cache_control_t *cc,
    ngx_uint_t directives);


/* what an answer says of itself */

typedef struct {
    ngx_mcds_cache_control_t   cc;
    ngx_mcds_cache_control_t   cdn;   /* CDN-Cache-Control, RFC 9213 */

    ngx_uint_t    status;

    int64_t       expires;        /* NGX_ERROR: there, but no date */
    int64_t       date;           /* NGX_ERROR: none, or no date */
    int64_t       last_modified;  /* NGX_ERROR: none, or no date */
    uint32_t      age;            /* Age, seconds; 0: none, or no number */
    uint32_t      took;           /* ms from the request to the origin until
                                     it answered */
    int64_t       accel;          /* X-Accel-Expires: the time it names, when
                                     has_accel */
    int64_t       valid;          /* mcds_cache_valid for the status, seconds;
                                     -1: not configured */
    ngx_uint_t    heuristic;      /* percent of the time since Last-Modified;
                                     0: no heuristics */
    int64_t       heuristic_max;  /* ... but at most so many seconds */

    unsigned      origin:1;       /* mcds_cache_valid origin */
    unsigned      has_age:1;
    unsigned      has_expires:1;
    unsigned      has_control:1;  /* a Cache-Control that is not in cc: there
                                     was one, so Pragma is not heard */
    unsigned      has_cdn:1;      /* and is not empty */
    unsigned      has_accel:1;
    unsigned      pragma_no_cache:1;
    unsigned      set_cookie:1;
    unsigned      vary:1;
    unsigned      encoded:1;      /* Content-Encoding other than identity */
    unsigned      authorization:1; /* the request carried it */
    unsigned      validated:1;    /* no-cache asks for no more than that */
} ngx_mcds_answer_t;


typedef enum {
    NGX_MCDS_STORE = 0,
    NGX_MCDS_REFUSE_STATUS,       /* 206, 304, 1xx, or a status that neither
                                     the origin nor the configuration makes
                                     storable */
    NGX_MCDS_REFUSE_SET_COOKIE,
    NGX_MCDS_REFUSE_PRIVATE,
    NGX_MCDS_REFUSE_NO_STORE,
    NGX_MCDS_REFUSE_NO_CACHE,
    NGX_MCDS_REFUSE_MALFORMED,
    NGX_MCDS_REFUSE_AUTHORIZATION,
    NGX_MCDS_REFUSE_VARY,
    NGX_MCDS_REFUSE_ENCODED,
    NGX_MCDS_REFUSE_EXPIRED,      /* lifetime of 0, Expires in the past */
    NGX_MCDS_REFUSE_NO_LIFETIME   /* nobody gave it one */
} ngx_mcds_refuse_e;


/*
 * Decides.  NGX_MCDS_STORE, and sets of the entry: status, flags, created,
 * age, took, expire, swr and sie; else the first reason that applies, in the
 * order of the list.
 *
 * Lifetime, in this order: X-Accel-Expires, s-maxage, max-age, Expires minus
 * Date (minus now without a Date), mcds_cache_valid; then, for statuses that
 * RFC 9110, 15.1, lets be, and with "public", a part of the time from
 * Last-Modified to Date (RFC 9111, 4.2.2).  The Age of the answer and the time
 * that it took are taken off all of these but X-Accel-Expires and
 * mcds_cache_valid, which count from when it came (RFC 9111, 4.2.3).  An answer
 * that has expired for nothing but the time that it took is stored, for the
 * requests that have waited for it, unless NGX_MCDS_ENTRY_REVALIDATE forbids
 * that.  Lifetimes count as 2147483648 seconds at most.  That of
 * X-Accel-Expires is counted from the second in which the answer began, so that
 * a caller who adds a number of seconds to ngx_time() gets just these.
 * X-Accel-Expires overrides the lifetime, not the refusals.
 *
 * Without Cache-Control, or with unknown directives only, "Pragma: no-cache"
 * stands for that directive.  no-cache refuses, or, if the answer says
 * validated (RFC 9111, 5.2.2.4), sets NGX_MCDS_ENTRY_VALIDATE and
 * NGX_MCDS_ENTRY_REVALIDATE of an entry that has expired at now_ms, whatever
 * lifetime it was given.  A 5xx or 4xx answer is stored only if
 * mcds_cache_valid names its status; 404 and 410 also with an explicit
 * lifetime, and without any they are refused for want of it.  With origin
 * others are stored with an explicit lifetime, too, but for those about the
 * request and for 511 (RFC 6585).
 *
 * A CDN-Cache-Control that can be read and is not empty stands for
 * Cache-Control, Expires and Pragma; one that cannot is not there.  With
 * must-understand, no-store is not heard for statuses whose caching is known,
 * and all others are refused (RFC 9111, 5.2.2.3).
 *
 * must-revalidate and proxy-revalidate set NGX_MCDS_ENTRY_REVALIDATE; so does
 * s-maxage (RFC 9111, 5.2.2.10) unless the configuration ignores what forbids
 * stale.  Beside stale-while-revalidate or stale-if-error, which then say what
 * is meant, s-maxage sets NGX_MCDS_ENTRY_NO_GRACE.  public, s-maxage and
 * must-revalidate set NGX_MCDS_ENTRY_SHARED.  mcds_cache_valid and heuristics
 * set NGX_MCDS_ENTRY_CONFIGURED.
 *
 * now_ms: when the answer began, milliseconds since the epoch.
 */

ngx_uint_t ngx_mcds_fresh_decide(ngx_mcds_answer_t *answer, uint64_t now_ms,
    ngx_mcds_entry_t *entry);


/*
 * What the answer, a 304 to which nobody gives a lifetime, says of how the page
 * may be used when it has expired: flags, swr and sie of the entry.
 */

void ngx_mcds_fresh_stale(ngx_mcds_answer_t *answer, ngx_mcds_entry_t *entry);


/*
 * 1 if an answer of that status says something about the request, such as its
 * headers or its client, and nothing about the page that others asked for.  So
 * does a 304 that the origin was not asked for.
 */

ngx_uint_t ngx_mcds_fresh_of_request(ngx_uint_t status);


/* a refusal as ngx_mcds_reason_e, whose words are for logs */

#define ngx_mcds_fresh_why(reason)                                            \
    (NGX_MCDS_REASON_STATUS + (reason) - NGX_MCDS_REFUSE_STATUS)


/* what a stored page may be used for, now */

typedef enum {
    NGX_MCDS_FRESH = 0,           /* serve */
    NGX_MCDS_STALE_USABLE,        /* serve, and refresh behind it */
    NGX_MCDS_STALE_LAST,          /* rebuild; serve it if that takes too
                                     long */
    NGX_MCDS_STALE_ERROR,         /* rebuild; serve it if the origin fails */
    NGX_MCDS_STALE_UNUSABLE       /* as if it were not there */
} ngx_mcds_fresh_e;


/* of update: as long as grace */
#define NGX_MCDS_ALWAYS     INT64_MAX


/* what the configuration allows; ms after "expire before" */

typedef struct {
    uint64_t      update;         /* mcds_cache_background_update: a page is
                                     served at once, 0: never */
    uint64_t      grace;          /* mcds_cache_grace: it is not served any
                                     more, if its lifetime is
                                     NGX_MCDS_ENTRY_CONFIGURED */
    uint64_t      origin;         /* the same, if its origin gave it one */
} ngx_mcds_stale_t;


/*
 * now == expire is expired ("expire before").  swr of the entry, when it is
 * set, replaces update, and the grace does not shorten it; nor does it shorten
 * sie, stale-if-error.  NGX_MCDS_ENTRY_REVALIDATE forbids all, and
 * NGX_MCDS_ENTRY_NO_GRACE all but these two.
 */

ngx_uint_t ngx_mcds_fresh_state(ngx_mcds_entry_t *entry,
    ngx_mcds_stale_t *stale, uint64_t now_ms);


/*
 * Whether a page may be served at now_ms because its origin failed: 1 or 0.
 * sie of the entry counts from "expire before"; without it configured says
 * whether an error is reason enough, and the grace bounds it.
 * NGX_MCDS_ENTRY_REVALIDATE forbids it.
 */

ngx_uint_t ngx_mcds_fresh_error(ngx_mcds_entry_t *entry,
    ngx_mcds_stale_t *stale, ngx_uint_t configured, uint64_t now_ms);


/*
 * Whether a stored page is what a request accepts by its Cache-Control, RFC
 * 9111, 5.2.1: 1 or 0.  no-cache accepts none; max-age, min-fresh and, of a
 * page that is stale, max-stale are looked at; a stale page is otherwise for
 * ngx_mcds_fresh_state() to judge.
 */

ngx_uint_t ngx_mcds_fresh_accepted(ngx_mcds_cache_control_t *cc,
    ngx_mcds_entry_t *entry, uint64_t now_ms);


/*
 * Current age in seconds, RFC 9111, 4.2.3: the age it had, plus the time that
 * the origin took, plus the time since it was created; never negative, a
 * created time in the future counts as now; 2147483648 at most.
 */

uint32_t ngx_mcds_fresh_age(ngx_mcds_entry_t *entry, uint64_t now_ms);


#endif /* _NGX_MCDS_FRESH_H_INCLUDED_ */
