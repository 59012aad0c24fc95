
/*
 * Copyright (C) mcds authors
 *
 * Whether a response may be stored, and how long it is fresh: RFC 9111,
 * sections 3, 4.2 and 5.  Pure functions; the time is an argument.
 */


#ifndef _NGX_MCDS_FRESH_H_INCLUDED_
#define _NGX_MCDS_FRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_reason.h"


/*
 * the maximum lifetime of a response in seconds; a larger number counts as
 * this one (delta-seconds of RFC 9111, 1.2.2)
 */
#define NGX_MCDS_MAX_DELTA  2147483648U


/* the directives in the Cache-Control of a response or a request */

typedef struct {
    uint32_t      max_age;
    uint32_t      s_maxage;
    uint32_t      swr;            /* value of stale-while-revalidate in
                                     Cache-Control, seconds, RFC 5861 */
    uint32_t      sie;            /* value of stale-if-error in Cache-Control,
                                     seconds, RFC 5861 */
    uint32_t      max_stale;      /* value of max-stale in a request, seconds;
                                     NGX_MCDS_MAX_DELTA: max-stale has no
                                     argument and accepts any staleness */
    uint32_t      min_fresh;      /* value of min-fresh in a request,
                                     seconds */

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
    unsigned      ignored:1;      /* the configuration ignores a directive that
                                     the Cache-Control header has */
    unsigned      may_stale:1;    /* the configuration ignores must-revalidate
                                     or proxy-revalidate, so s-maxage does not
                                     forbid stale responses */
} ngx_mcds_cache_control_t;


/*
 * Adds the directives of one Cache-Control header line.  cc is zeroed before
 * the first line.
 *
 * Names are compared without case; unknown directives are ignored.  Quoted
 * strings and escapes are parsed, so that a name within a string is no
 * directive.  Of duplicates the strictest one counts: the smallest number, for
 * min-fresh the largest.  A number that is too large counts as 2147483648 (RFC
 * 9111, 1.2.2); a malformed one as 0, stale at once.  no-cache and private
 * with field names count as without them, which is stricter.  "public" with an
 * argument is ignored.
 *
 * A malformed line, such as one with a semicolon or with spaces around "=",
 * sets "malformed"; its rest is not parsed.
 */

void ngx_mcds_cache_control_add(ngx_mcds_cache_control_t *cc,
    ngx_str_t *value);


/*
 * Removes from a parsed Cache-Control the directives that the configuration
 * ignores, a mask of NGX_MCDS_CONTROL_*; called after all header lines were
 * added.  The response is handled as if the origin had not sent these
 * directives, whether they forbid or permit.  If must-revalidate or
 * proxy-revalidate is removed, s-maxage no longer implies proxy-revalidate.
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


/* the properties of a response that decide whether it is stored */

typedef struct {
    ngx_mcds_cache_control_t   cc;
    ngx_mcds_cache_control_t   cdn;   /* the response's CDN-Cache-Control, RFC
                                         9213 */

    ngx_uint_t    status;

    /*
     * the times in the response's header lines Expires (only if has_expires
     * is set), Date and Last-Modified, seconds since the epoch; NGX_ERROR: the
     * value is no valid date, or there is no such header line
     */
    int64_t       expires;
    int64_t       date;
    int64_t       last_modified;
    uint32_t      age;            /* the response's header Age, seconds, and
                                     "kept"; Age counts as 0 if it is absent or
                                     no number */
    uint32_t      kept;           /* seconds for which a cache of nginx has
                                     kept the response, which "age" includes */
    uint32_t      took;           /* ms from the request to the origin until its
                                     response began */
    int64_t       accel;          /* with has_accel: the time that the header
                                     X-Accel-Expires gives, seconds since the
                                     epoch */
    int64_t       valid;          /* lifetime that mcds_cache_valid sets for
                                     the response's status, seconds; -1:
                                     none */
    ngx_uint_t    heuristic;      /* heuristic lifetime of a page, as a
                                     percentage of the time since
                                     Last-Modified; 0: none */
    int64_t       heuristic_max;  /* the limit of a page's heuristic lifetime,
                                     seconds */

    unsigned      origin:1;       /* mcds_cache_valid has "origin": a response
                                     with an error status is stored if the
                                     origin sets its lifetime */
    unsigned      has_age:1;
    unsigned      has_expires:1;
    unsigned      has_control:1;  /* the response has a Cache-Control that the
                                     configuration ignores: Pragma is ignored
                                     then, too */
    unsigned      has_cdn:1;      /* the response has a CDN-Cache-Control that
                                     is not empty */
    unsigned      has_accel:1;
    unsigned      pragma_no_cache:1;
    unsigned      set_cookie:1;
    unsigned      vary:1;
    unsigned      encoded:1;      /* the response has a Content-Encoding other
                                     than identity */
    unsigned      authorization:1; /* the request for the response had
                                      Authorization */
    unsigned      validated:1;    /* the response may be stored although its
                                     no-cache demands revalidation for each
                                     request */
} ngx_mcds_response_t;


#define ngx_mcds_refuse(name, word)  NGX_MCDS_REFUSE_##name,

typedef enum {
    NGX_MCDS_STORE = 0,
    NGX_MCDS_REFUSAL_LIST(ngx_mcds_refuse)
} ngx_mcds_refuse_e;


/*
 * Decides whether a response is stored.  Returns NGX_MCDS_STORE and sets
 * status, flags, created, age, took, expire, swr and sie of the entry, or
 * returns the first reason for refusal that applies, in the order of
 * ngx_mcds_refuse_e.
 *
 * The lifetime is the first that exists of X-Accel-Expires, s-maxage, max-age,
 * Expires minus Date (or minus now without a Date), and mcds_cache_valid.
 * Otherwise, if RFC 9110, 15.1, allows this for the status, or if the response
 * has "public", the lifetime is a part of the time from Last-Modified to Date
 * (RFC 9111, 4.2.2).  X-Accel-Expires and mcds_cache_valid count from the
 * moment when the response began (the caller has subtracted "kept" from
 * X-Accel-Expires); from all other lifetimes the response's Age and the time
 * that the origin took are subtracted (RFC 9111, 4.2.3).  A
 * response that has expired only because the origin was slow is stored for the
 * requests that wait for it, unless NGX_MCDS_ENTRY_REVALIDATE forbids that;
 * with NGX_MCDS_ENTRY_NO_GRACE only within its stale-while-revalidate.  A
 * lifetime is at most 2147483648 seconds.  X-Accel-Expires is relative to the
 * second in which the response began: if an application adds 60 s to the
 * current time, the lifetime is exactly 60 s.  X-Accel-Expires overrides the
 * lifetime, but no refusal.
 *
 * Without Cache-Control, or if no directive in it is about storing, lifetimes
 * or revalidation, "Pragma: no-cache" counts as no-cache.  no-cache refuses a
 * response or, if "validated" is set, makes an entry that has expired already,
 * with NGX_MCDS_ENTRY_VALIDATE and NGX_MCDS_ENTRY_REVALIDATE (RFC 9111,
 * 5.2.2.4).  A response with a status of 400 or more is stored if
 * mcds_cache_valid names the status; 404 and 410 also with any other lifetime,
 * and without one they are refused as NO_LIFETIME.  With mcds_cache_valid
 * "origin" a lifetime from the origin suffices for all statuses of 400 or more
 * but 511 (RFC 6585) and those for which ngx_mcds_fresh_of_request() returns 1.
 *
 * A valid CDN-Cache-Control that is not empty replaces Cache-Control, Expires
 * and Pragma; a malformed one is ignored.  With must-understand, no-store is
 * ignored for statuses whose caching is known, and all other statuses are
 * refused (RFC 9111, 5.2.2.3).
 *
 * must-revalidate and proxy-revalidate set NGX_MCDS_ENTRY_REVALIDATE; so does
 * s-maxage (RFC 9111, 5.2.2.10), unless the configuration ignores the
 * directives that forbid stale responses.  With stale-while-revalidate or
 * stale-if-error s-maxage sets NGX_MCDS_ENTRY_NO_GRACE instead.  public,
 * s-maxage and must-revalidate set NGX_MCDS_ENTRY_SHARED.  mcds_cache_valid and
 * heuristics set NGX_MCDS_ENTRY_CONFIGURED.
 *
 * now_ms: when the response began, milliseconds since the epoch.
 */

ngx_uint_t ngx_mcds_fresh_decide(ngx_mcds_response_t *response, uint64_t now_ms,
    ngx_mcds_entry_t *entry);


/*
 * Updates flags, swr (stale-while-revalidate) and sie (stale-if-error) of a
 * page's entry from a 304 response without a lifetime: they tell how the page
 * may be used after it has expired.
 */

void ngx_mcds_fresh_stale(ngx_mcds_response_t *response,
    ngx_mcds_entry_t *entry);


/*
 * Returns 1 if a response with this status is about the request, such as its
 * headers or its client, and says nothing about the page for other requests.
 * A 304 that the cache has not asked for is such a response.
 */

ngx_uint_t ngx_mcds_fresh_of_request(ngx_uint_t status);


/*
 * the reason not to store a response, an ngx_mcds_refuse_e, converted into an
 * ngx_mcds_reason_e, which has a word for logs
 */

#define ngx_mcds_fresh_why(reason)                                            \
    (NGX_MCDS_REASON_STATUS + (reason) - NGX_MCDS_REFUSE_STATUS)


/* the use that may be made of a stored page, by its age */

typedef enum {
    NGX_MCDS_FRESH = 0,           /* the page is fresh: serve it */
    NGX_MCDS_STALE_USABLE,        /* serve the stale page, and refresh it in the
                                     background */
    NGX_MCDS_STALE_LAST,          /* rebuild the page; serve the stale one if
                                     the build takes too long */
    NGX_MCDS_STALE_ERROR,         /* rebuild the page; serve the stale one if
                                     the origin fails */
    NGX_MCDS_STALE_UNUSABLE       /* the page is too stale for any use: handle
                                     the request as a miss */
} ngx_mcds_fresh_e;


/*
 * the value of "update" in ngx_mcds_stale_t with which a stale page is served
 * at once as long as mcds_cache_grace allows
 */
#define NGX_MCDS_ALWAYS     INT64_MAX


/*
 * how long the configuration allows the use of a stale page, in milliseconds
 * after the page has expired
 */

typedef struct {
    uint64_t      update;         /* mcds_cache_background_update: ms after the
                                     expiry during which requests get the stale
                                     page without waiting for a refresh; 0:
                                     none */
    uint64_t      grace;          /* mcds_cache_grace for a page with
                                     NGX_MCDS_ENTRY_CONFIGURED, whose lifetime
                                     the origin has not set: how long the stale
                                     page is served */
    uint64_t      origin;         /* mcds_cache_grace for a page whose lifetime
                                     the origin has set */
} ngx_mcds_stale_t;


/*
 * Returns an ngx_mcds_fresh_e: how a page may be used at now_ms.  The page
 * expires in the millisecond "expire".  If the page has swr
 * (stale-while-revalidate), swr replaces stale->update; mcds_cache_grace
 * limits neither swr nor sie (stale-if-error).  NGX_MCDS_ENTRY_REVALIDATE
 * forbids any use of a stale page, NGX_MCDS_ENTRY_NO_GRACE any use beyond swr
 * and sie.
 */

ngx_uint_t ngx_mcds_fresh_state(ngx_mcds_entry_t *entry,
    ngx_mcds_stale_t *stale, uint64_t now_ms);


/*
 * Returns 1 if a stored page may be served at now_ms because its origin failed.
 * A stale page with sie (stale-if-error) may be served for sie seconds after
 * "expire"; a stale page without sie only during mcds_cache_grace, and only if
 * "configured" is 1: mcds_cache_use_stale names this failure.  A page with
 * NGX_MCDS_ENTRY_REVALIDATE may not be served.
 */

ngx_uint_t ngx_mcds_fresh_error(ngx_mcds_entry_t *entry,
    ngx_mcds_stale_t *stale, ngx_uint_t configured, uint64_t now_ms);


/*
 * Returns 1 if a request accepts a stored page by the request's Cache-Control
 * (RFC 9111, 5.2.1).  no-cache accepts no page; max-age, min-fresh and, for a
 * stale page, max-stale are compared.  Whether a stale page is usable at all
 * is decided by ngx_mcds_fresh_state().
 */

ngx_uint_t ngx_mcds_fresh_accepted(ngx_mcds_cache_control_t *cc,
    ngx_mcds_entry_t *entry, uint64_t now_ms);


/*
 * Returns the current age of a page in seconds (RFC 9111, 4.2.3): the age on
 * arrival, the time that the origin took, and the time since the page was
 * created.  A page that was created in the future counts as created now.  The
 * maximum is 2147483648.
 */

uint32_t ngx_mcds_fresh_age(ngx_mcds_entry_t *entry, uint64_t now_ms);


#endif /* _NGX_MCDS_FRESH_H_INCLUDED_ */
