
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_fresh.h"


/*
 * The life of a page:
 *
 *      created         expire                                           time
 *         |    fresh     |   usable at once    |    last resort    |
 *   ------+--------------+---------------------+-------------------+----->
 *                        |<- update, or stale- |                   |
 *                        |   while-revalidate->|                   |
 *                        |<---------------- grace ---------------->|
 *                        |<------ stale-if-error, after errors ------>
 *
 * "update" is mcds_cache_background_update, "grace" is mcds_cache_grace.  An
 * entry with NGX_MCDS_ENTRY_REVALIDATE is unusable from "expire" on.  Each
 * bound is the first millisecond after the period before it.
 */


/*
 * the lifetime of a page if neither the origin nor the configuration gives one
 */
#define NGX_MCDS_NO_LIFE    -1

#define ngx_mcds_control_clear(cc, directives, name, field)                   \
    if (((directives) & NGX_MCDS_CONTROL_##name) && (cc)->field) {            \
        (cc)->field = 0;                                                      \
        (cc)->ignored = 1;                                                    \
    }


typedef struct {
    ngx_str_t     name;
    ngx_str_t     arg;            /* argument of the Cache-Control directive
                                     without its quotes, escapes not decoded */
    unsigned      has_arg:1;
} ngx_mcds_directive_t;


static u_char *ngx_mcds_directive_parse(ngx_mcds_directive_t *dir, u_char *p,
    u_char *last);
static u_char *ngx_mcds_token_end(u_char *p, u_char *last);
static u_char *ngx_mcds_quoted_end(u_char *p, u_char *last);
static u_char *ngx_mcds_space_end(u_char *p, u_char *last);
static void ngx_mcds_directive_apply(ngx_mcds_cache_control_t *cc,
    ngx_mcds_directive_t *dir);
static ngx_uint_t ngx_mcds_directive_is(ngx_mcds_directive_t *dir,
    const char *name);
static uint32_t ngx_mcds_delta_min(ngx_mcds_directive_t *dir, ngx_uint_t has,
    uint32_t old);
static ngx_mcds_cache_control_t *ngx_mcds_fresh_control(
    ngx_mcds_response_t *response);
static ngx_uint_t ngx_mcds_fresh_refuse(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc);
static ngx_uint_t ngx_mcds_fresh_no_cache(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc);
static ngx_uint_t ngx_mcds_fresh_refuse_status(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc);
static ngx_uint_t ngx_mcds_fresh_origin(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc);
static ngx_uint_t ngx_mcds_fresh_understood(ngx_uint_t status);
static uint64_t ngx_mcds_fresh_grace(ngx_mcds_entry_t *entry,
    ngx_mcds_stale_t *stale);
static ngx_uint_t ngx_mcds_fresh_no_control(ngx_mcds_cache_control_t *cc);
static uint32_t ngx_mcds_fresh_flags(ngx_mcds_cache_control_t *cc);
static ngx_uint_t ngx_mcds_fresh_arrived(ngx_mcds_cache_control_t *cc,
    uint32_t flags, uint64_t late);
static int64_t ngx_mcds_fresh_life(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc, uint64_t now_ms, uint32_t *took);
static ngx_uint_t ngx_mcds_fresh_configured(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc);
static int64_t ngx_mcds_fresh_heuristic(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc, int64_t now);
static int64_t ngx_mcds_fresh_span(int64_t from, int64_t to);


void
ngx_mcds_cache_control_add(ngx_mcds_cache_control_t *cc, ngx_str_t *value)
{
    u_char                *p, *last;
    ngx_mcds_directive_t   dir;

    p = value->data;
    last = p + value->len;

    for ( ;; ) {

        /*
         * the list of directives in Cache-Control may have empty elements, RFC
         * 9110, 5.6.1.2
         */

        while (p < last && (*p == ',' || *p == ' ' || *p == '\t')) {
            p++;
        }

        if (p == last) {
            return;
        }

        p = ngx_mcds_directive_parse(&dir, p, last);

        if (p == NULL) {
            cc->malformed = 1;
            return;
        }

        ngx_mcds_directive_apply(cc, &dir);
    }
}


void
ngx_mcds_cache_control_ignore(ngx_mcds_cache_control_t *cc,
    ngx_uint_t directives)
{
    if (directives & (NGX_MCDS_CONTROL_MUST_REVALIDATE
                      |NGX_MCDS_CONTROL_PROXY_REVALIDATE))
    {
        cc->may_stale = 1;
    }

    ngx_mcds_control_clear(cc, directives, MAX_AGE, has_max_age);
    ngx_mcds_control_clear(cc, directives, S_MAXAGE, has_s_maxage);
    ngx_mcds_control_clear(cc, directives, SWR, has_swr);
    ngx_mcds_control_clear(cc, directives, SIE, has_sie);
    ngx_mcds_control_clear(cc, directives, NO_STORE, no_store);
    ngx_mcds_control_clear(cc, directives, NO_CACHE, no_cache);
    ngx_mcds_control_clear(cc, directives, PRIVATE, private);
    ngx_mcds_control_clear(cc, directives, PUBLIC, public);
    ngx_mcds_control_clear(cc, directives, MUST_REVALIDATE, must_revalidate);
    ngx_mcds_control_clear(cc, directives, PROXY_REVALIDATE, proxy_revalidate);
    ngx_mcds_control_clear(cc, directives, MUST_UNDERSTAND, must_understand);
}


ngx_uint_t
ngx_mcds_fresh_decide(ngx_mcds_response_t *response, uint64_t now_ms,
    ngx_mcds_entry_t *entry)
{
    int64_t                    life;
    uint32_t                   took, flags;
    ngx_uint_t                 reason;
    ngx_mcds_cache_control_t  *cc;

    cc = ngx_mcds_fresh_control(response);

    reason = ngx_mcds_fresh_refuse(response, cc);

    if (reason != NGX_MCDS_STORE) {
        return reason;
    }

    flags = ngx_mcds_fresh_flags(cc);

    if (ngx_mcds_fresh_configured(response, cc)) {
        flags |= NGX_MCDS_ENTRY_CONFIGURED;
    }

    if (ngx_mcds_fresh_no_cache(response, cc)) {
        flags |= NGX_MCDS_ENTRY_VALIDATE|NGX_MCDS_ENTRY_REVALIDATE;
        life = 0;
        took = 0;

    } else {
        life = ngx_mcds_fresh_life(response, cc, now_ms, &took);

        if (life == NGX_MCDS_NO_LIFE) {
            return NGX_MCDS_REFUSE_NO_LIFETIME;
        }

        if (life == 0
            || (life <= (int64_t) took
                && !ngx_mcds_fresh_arrived(cc, flags,
                                           took - (uint64_t) life)))
        {
            return NGX_MCDS_REFUSE_EXPIRED;
        }
    }

    entry->status = response->status;
    entry->flags = flags;
    entry->created = now_ms;
    entry->expire = now_ms + (uint64_t) life - took;
    entry->age = response->age;
    entry->took = response->took;
    entry->swr = cc->has_swr ? cc->swr : NGX_MCDS_ENTRY_UNSET;
    entry->sie = cc->has_sie ? cc->sie : NGX_MCDS_ENTRY_UNSET;

    return NGX_MCDS_STORE;
}


/*
 * Returns 1 if a response that had already expired when it arrived from the
 * origin, by "late" milliseconds, may be served to the requests that waited
 * for it.
 */

static ngx_uint_t
ngx_mcds_fresh_arrived(ngx_mcds_cache_control_t *cc, uint32_t flags,
    uint64_t late)
{
    if (flags & NGX_MCDS_ENTRY_NO_GRACE) {
        return cc->has_swr && late < (uint64_t) cc->swr * 1000;
    }

    return !(flags & NGX_MCDS_ENTRY_REVALIDATE);
}


void
ngx_mcds_fresh_stale(ngx_mcds_response_t *response, ngx_mcds_entry_t *entry)
{
    ngx_mcds_cache_control_t  *cc;

    cc = ngx_mcds_fresh_control(response);

    entry->flags = (entry->flags & NGX_MCDS_ENTRY_CONFIGURED)
                   | ngx_mcds_fresh_flags(cc);
    entry->swr = cc->has_swr ? cc->swr : NGX_MCDS_ENTRY_UNSET;
    entry->sie = cc->has_sie ? cc->sie : NGX_MCDS_ENTRY_UNSET;
}


static uint32_t
ngx_mcds_fresh_flags(ngx_mcds_cache_control_t *cc)
{
    uint32_t  flags;

    flags = 0;

    if (cc->public || cc->has_s_maxage || cc->must_revalidate) {
        flags |= NGX_MCDS_ENTRY_SHARED;
    }

    /*
     * s-maxage implies proxy-revalidate.  But an origin that sends s-maxage
     * together with stale-while-revalidate or stale-if-error allows stale
     * responses for that time.
     */

    if (cc->must_revalidate || cc->proxy_revalidate) {
        flags |= NGX_MCDS_ENTRY_REVALIDATE;

    } else if (cc->has_s_maxage && !cc->may_stale) {
        flags |= (cc->has_swr || cc->has_sie) ? NGX_MCDS_ENTRY_NO_GRACE
                                              : NGX_MCDS_ENTRY_REVALIDATE;
    }

    return flags;
}


ngx_uint_t
ngx_mcds_fresh_of_request(ngx_uint_t status)
{
    switch (status) {

    case 304:
    case 400:
    case 405:
    case 406:
    case 408:
    case 411:
    case 412:
    case 413:
    case 414:
    case 415:
    case 416:
    case 417:
    case 421:
    case 425:
    case 426:
    case 428:
    case 429:
    case 431:
        return 1;

    default:
        return 0;
    }
}


ngx_uint_t
ngx_mcds_fresh_state(ngx_mcds_entry_t *entry, ngx_mcds_stale_t *stale,
    uint64_t now_ms)
{
    uint64_t  late, grace, update;

    if (now_ms < entry->expire) {
        return NGX_MCDS_FRESH;
    }

    if (entry->flags & NGX_MCDS_ENTRY_REVALIDATE) {
        return NGX_MCDS_STALE_UNUSABLE;
    }

    late = now_ms - entry->expire;
    grace = ngx_mcds_fresh_grace(entry, stale);

    update = (entry->swr != NGX_MCDS_ENTRY_UNSET)
             ? (uint64_t) entry->swr * 1000
             : ngx_min(stale->update, grace);

    if (late < update) {
        return NGX_MCDS_STALE_USABLE;
    }

    if (late < grace) {
        return NGX_MCDS_STALE_LAST;
    }

    return (entry->sie != NGX_MCDS_ENTRY_UNSET
            && late < (uint64_t) entry->sie * 1000)
           ? NGX_MCDS_STALE_ERROR : NGX_MCDS_STALE_UNUSABLE;
}


static uint64_t
ngx_mcds_fresh_grace(ngx_mcds_entry_t *entry, ngx_mcds_stale_t *stale)
{
    if (entry->flags & NGX_MCDS_ENTRY_NO_GRACE) {
        return 0;
    }

    return (entry->flags & NGX_MCDS_ENTRY_CONFIGURED) ? stale->grace
                                                      : stale->origin;
}


ngx_uint_t
ngx_mcds_fresh_error(ngx_mcds_entry_t *entry, ngx_mcds_stale_t *stale,
    ngx_uint_t configured, uint64_t now_ms)
{
    uint64_t  late;

    if (entry->flags & NGX_MCDS_ENTRY_REVALIDATE) {
        return 0;
    }

    if (now_ms < entry->expire) {
        return 1;
    }

    late = now_ms - entry->expire;

    if (entry->sie != NGX_MCDS_ENTRY_UNSET) {
        return late < (uint64_t) entry->sie * 1000;
    }

    return configured && late < ngx_mcds_fresh_grace(entry, stale);
}


ngx_uint_t
ngx_mcds_fresh_accepted(ngx_mcds_cache_control_t *cc, ngx_mcds_entry_t *entry,
    uint64_t now_ms)
{
    uint64_t  late;

    if (cc->no_cache) {
        return 0;
    }

    if (cc->has_max_age
        && ngx_mcds_fresh_age(entry, now_ms) > cc->max_age
        && !cc->has_max_stale)
    {
        return 0;
    }

    if (now_ms < entry->expire) {
        return !cc->has_min_fresh
               || entry->expire - now_ms >= (uint64_t) cc->min_fresh * 1000;
    }

    if (cc->has_min_fresh) {
        return 0;
    }

    if (!cc->has_max_stale || cc->max_stale == NGX_MCDS_MAX_DELTA) {
        return 1;
    }

    late = now_ms - entry->expire;

    return late <= (uint64_t) cc->max_stale * 1000;
}


uint32_t
ngx_mcds_fresh_age(ngx_mcds_entry_t *entry, uint64_t now_ms)
{
    uint64_t  age, delay;

    delay = entry->took;

    if (now_ms > entry->created) {
        delay += now_ms - entry->created;
    }

    age = entry->age + delay / 1000;

    return (uint32_t) ngx_min(age, NGX_MCDS_MAX_DELTA);
}


/*
 * parses a directive of Cache-Control: token [ "=" ( token / quoted-string )
 * ]; returns its end, or NULL if the text is no such directive
 */

static u_char *
ngx_mcds_directive_parse(ngx_mcds_directive_t *dir, u_char *p, u_char *last)
{
    u_char  *end;

    end = ngx_mcds_token_end(p, last);

    if (end == p) {
        return NULL;
    }

    dir->name.data = p;
    dir->name.len = end - p;

    dir->has_arg = 0;
    ngx_str_null(&dir->arg);

    p = end;

    if (p < last && *p == '=') {
        p++;
        dir->has_arg = 1;

        if (p < last && *p == '"') {
            p++;
            end = ngx_mcds_quoted_end(p, last);

            if (end == NULL) {
                return NULL;
            }

            dir->arg.data = p;
            dir->arg.len = end - p;

            p = end + 1;

        } else {
            end = ngx_mcds_token_end(p, last);

            if (end == p) {
                return NULL;
            }

            dir->arg.data = p;
            dir->arg.len = end - p;

            p = end;
        }
    }

    p = ngx_mcds_space_end(p, last);

    return (p == last || *p == ',') ? p : NULL;
}


static u_char *
ngx_mcds_token_end(u_char *p, u_char *last)
{
    u_char  c;

    while (p < last) {

        c = *p | 0x20;

        if ((c < 'a' || c > 'z')
            && (*p < '0' || *p > '9')
            && (*p == '\0' || ngx_strchr("!#$%&'*+-.^_`|~", *p) == NULL))
        {
            break;
        }

        p++;
    }

    return p;
}


/*
 * returns the closing quote of a quoted string in Cache-Control, or NULL if
 * there is none
 */

static u_char *
ngx_mcds_quoted_end(u_char *p, u_char *last)
{
    while (p < last) {

        if (*p == '"') {
            return p;
        }

        if (*p == '\\') {
            p++;

            if (p == last) {
                return NULL;
            }
        }

        if ((*p < 0x20 && *p != '\t') || *p == 0x7f) {
            return NULL;
        }

        p++;
    }

    return NULL;
}


static u_char *
ngx_mcds_space_end(u_char *p, u_char *last)
{
    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    return p;
}


static void
ngx_mcds_directive_apply(ngx_mcds_cache_control_t *cc,
    ngx_mcds_directive_t *dir)
{
    uint32_t  n;

    if (ngx_mcds_directive_is(dir, "max-age")) {
        cc->max_age = ngx_mcds_delta_min(dir, cc->has_max_age, cc->max_age);
        cc->has_max_age = 1;

    } else if (ngx_mcds_directive_is(dir, "s-maxage")) {
        cc->s_maxage = ngx_mcds_delta_min(dir, cc->has_s_maxage,
                                          cc->s_maxage);
        cc->has_s_maxage = 1;

    } else if (ngx_mcds_directive_is(dir, "stale-while-revalidate")) {
        cc->swr = ngx_mcds_delta_min(dir, cc->has_swr, cc->swr);
        cc->has_swr = 1;

    } else if (ngx_mcds_directive_is(dir, "stale-if-error")) {
        cc->sie = ngx_mcds_delta_min(dir, cc->has_sie, cc->sie);
        cc->has_sie = 1;

    } else if (ngx_mcds_directive_is(dir, "no-store")) {
        cc->no_store = 1;

    } else if (ngx_mcds_directive_is(dir, "no-cache")) {
        cc->no_cache = 1;

    } else if (ngx_mcds_directive_is(dir, "private")) {
        cc->private = 1;

    } else if (ngx_mcds_directive_is(dir, "must-revalidate")) {
        cc->must_revalidate = 1;

    } else if (ngx_mcds_directive_is(dir, "proxy-revalidate")) {
        cc->proxy_revalidate = 1;

    } else if (ngx_mcds_directive_is(dir, "must-understand")) {
        cc->must_understand = 1;

    } else if (ngx_mcds_directive_is(dir, "no-transform")) {
        cc->no_transform = 1;

    } else if (ngx_mcds_directive_is(dir, "only-if-cached")) {
        cc->only_if_cached = 1;

    } else if (ngx_mcds_directive_is(dir, "min-fresh")) {

        /* of several min-fresh directives of a request the largest counts */

        n = ngx_mcds_delta_min(dir, 0, 0);

        cc->min_fresh = ngx_max(cc->min_fresh, n);
        cc->has_min_fresh = 1;

    } else if (ngx_mcds_directive_is(dir, "max-stale")) {

        n = dir->has_arg ? ngx_mcds_delta_min(dir, 0, 0) : NGX_MCDS_MAX_DELTA;

        if (!cc->has_max_stale || n < cc->max_stale) {
            cc->max_stale = n;
        }

        cc->has_max_stale = 1;

    } else if (ngx_mcds_directive_is(dir, "public")) {

        /*
         * "public" is the only directive of Cache-Control that just permits;
         * with an argument, which the RFC does not define, it might mean less,
         * so it is ignored
         */

        if (!dir->has_arg) {
            cc->public = 1;
        }
    }
}


static ngx_uint_t
ngx_mcds_directive_is(ngx_mcds_directive_t *dir, const char *name)
{
    return dir->name.len == ngx_strlen(name)
           && ngx_strncasecmp(dir->name.data, (u_char *) name, dir->name.len)
              == 0;
}


/*
 * returns the argument of a Cache-Control directive as a number of seconds, or
 * the number of an earlier directive of this name if that is smaller
 */

static uint32_t
ngx_mcds_delta_min(ngx_mcds_directive_t *dir, ngx_uint_t has, uint32_t old)
{
    size_t    i;
    uint64_t  n;

    n = 0;

    for (i = 0; i < dir->arg.len; i++) {

        /*
         * a backslash in an argument of Cache-Control begins an escape, RFC
         * 9110, 5.6.4; only a quoted string has a backslash
         */

        if (dir->arg.data[i] == '\\' && i + 1 < dir->arg.len) {
            i++;
        }

        if (dir->arg.data[i] < '0' || dir->arg.data[i] > '9') {
            return 0;
        }

        n = n * 10 + (dir->arg.data[i] - '0');
        n = ngx_min(n, NGX_MCDS_MAX_DELTA);
    }

    return (has && old < n) ? old : (uint32_t) n;
}


/*
 * returns the CDN-Cache-Control of a response if it is valid, or else its
 * Cache-Control
 */

static ngx_mcds_cache_control_t *
ngx_mcds_fresh_control(ngx_mcds_response_t *response)
{
    ngx_mcds_cache_control_t  *cdn;

    cdn = &response->cdn;

    return (!response->has_cdn || cdn->malformed) ? &response->cc : cdn;
}


static ngx_uint_t
ngx_mcds_fresh_refuse(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc)
{
    if (ngx_mcds_fresh_refuse_status(response, cc)) {
        return NGX_MCDS_REFUSE_STATUS;
    }

    if (response->set_cookie) {
        return NGX_MCDS_REFUSE_SET_COOKIE;
    }

    if (cc->private) {
        return NGX_MCDS_REFUSE_PRIVATE;
    }

    if (cc->no_store && !cc->must_understand) {
        return NGX_MCDS_REFUSE_NO_STORE;
    }

    if (ngx_mcds_fresh_no_cache(response, cc) && !response->validated) {
        return NGX_MCDS_REFUSE_NO_CACHE;
    }

    if (cc->malformed) {
        return NGX_MCDS_REFUSE_MALFORMED;
    }

    if (response->authorization
        && !cc->public
        && !cc->has_s_maxage
        && !cc->must_revalidate)
    {
        return NGX_MCDS_REFUSE_AUTHORIZATION;
    }

    if (response->vary) {
        return NGX_MCDS_REFUSE_VARY;
    }

    if (response->encoded) {
        return NGX_MCDS_REFUSE_ENCODED;
    }

    return NGX_MCDS_STORE;
}


static ngx_uint_t
ngx_mcds_fresh_no_cache(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc)
{
    return cc->no_cache
           || (response->pragma_no_cache && !response->has_control
               && cc == &response->cc
               && ngx_mcds_fresh_no_control(cc));
}


static ngx_uint_t
ngx_mcds_fresh_refuse_status(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc)
{
    ngx_uint_t  status;

    status = response->status;

    if (status < 200 || status > 599 || status == 206 || status == 304) {
        return 1;
    }

    if (cc->must_understand && !ngx_mcds_fresh_understood(status)) {
        return 1;
    }

    /*
     * a response 404 or 410 is not refused for its status: without a lifetime
     * it is refused as NGX_MCDS_REFUSE_NO_LIFETIME
     */

    if (status < 400 || status == 404 || status == 410) {
        return 0;
    }

    return response->valid < 0 && !ngx_mcds_fresh_origin(response, cc);
}


/*
 * Returns 1 if an error response may be stored for the lifetime that the
 * origin sets: mcds_cache_valid has "origin", there is such a lifetime, and the
 * status is neither 511 (RFC 6585) nor about the request alone, as 400 is.
 */

static ngx_uint_t
ngx_mcds_fresh_origin(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc)
{
    if (!response->origin
        || ngx_mcds_fresh_of_request(response->status)
        || response->status == 511)
    {
        return 0;
    }

    return response->has_accel
           || cc->has_s_maxage
           || cc->has_max_age
           || (response->has_expires && cc == &response->cc);
}


/*
 * returns 1 for a status that RFC 9110, 15.1, defines as heuristically
 * cacheable, except 206, which is never stored, and for the redirects 302, 303
 * and 307, whose caching RFC 9110 defines
 */

static ngx_uint_t
ngx_mcds_fresh_understood(ngx_uint_t status)
{
    switch (status) {

    case 200:
    case 203:
    case 204:
    case 300:
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
    case 404:
    case 405:
    case 410:
    case 414:
    case 501:
        return 1;

    default:
        return 0;
    }
}


/*
 * Returns 1 if Cache-Control has no directive about storing or lifetimes
 * (no-store, no-cache and private were tested before): the header counts as
 * absent, so that Pragma is honored, which can only forbid to store.
 */

static ngx_uint_t
ngx_mcds_fresh_no_control(ngx_mcds_cache_control_t *cc)
{
    return !cc->has_max_age
           && !cc->has_s_maxage
           && !cc->has_swr
           && !cc->has_sie
           && !cc->public
           && !cc->must_revalidate
           && !cc->proxy_revalidate
           && !cc->must_understand
           && !cc->ignored
           && !cc->malformed;
}


/*
 * Returns the lifetime of a response in milliseconds; 0: expired,
 * NGX_MCDS_NO_LIFE: there is no lifetime.  *took: the part of the lifetime, in
 * milliseconds, that had passed when the response began.
 */

static int64_t
ngx_mcds_fresh_life(ngx_mcds_response_t *response, ngx_mcds_cache_control_t *cc,
    uint64_t now_ms, uint32_t *took)
{
    int64_t  life, now;

    *took = 0;

    /*
     * the time when the response began, in whole seconds, as ngx_time() had it
     * then
     */

    now = (int64_t) (now_ms / 1000);

    if (response->has_accel) {
        return ngx_mcds_fresh_span(now, response->accel) * 1000;
    }

    if (ngx_mcds_fresh_configured(response, cc)) {

        if (response->valid >= 0) {
            return ngx_mcds_fresh_span(0, response->valid) * 1000;
        }

        life = ngx_mcds_fresh_heuristic(response, cc, now);

        if (life == NGX_MCDS_NO_LIFE) {
            return life;
        }

    } else if (cc->has_s_maxage) {
        life = (int64_t) cc->s_maxage * 1000;

    } else if (cc->has_max_age) {
        life = (int64_t) cc->max_age * 1000;

    } else {

        if (response->expires == NGX_ERROR) {
            return 0;
        }

        if (response->date != NGX_ERROR) {
            life = ngx_mcds_fresh_span(response->date, response->expires)
                   * 1000;

        } else {
            life = ngx_mcds_fresh_span(now, response->expires) * 1000;

            if (life > 0) {
                life -= (int64_t) (now_ms % 1000);
            }
        }
    }

    life -= (int64_t) response->age * 1000;
    *took = response->took;

    return ngx_max(life, 0);
}


/* returns 1 if the origin has not set a lifetime for the response */

static ngx_uint_t
ngx_mcds_fresh_configured(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc)
{
    return !response->has_accel
           && !cc->has_s_maxage
           && !cc->has_max_age
           && !(response->has_expires && cc == &response->cc);
}


static int64_t
ngx_mcds_fresh_heuristic(ngx_mcds_response_t *response,
    ngx_mcds_cache_control_t *cc, int64_t now)
{
    int64_t  life;

    if (response->heuristic == 0 || response->last_modified == NGX_ERROR) {
        return NGX_MCDS_NO_LIFE;
    }

    switch (response->status) {

    case 302:
    case 303:
    case 307:

        if (!cc->public) {
            return NGX_MCDS_NO_LIFE;
        }

        break;

    default:

        if (!cc->public && !ngx_mcds_fresh_understood(response->status)) {
            return NGX_MCDS_NO_LIFE;
        }
    }

    if (response->date != NGX_ERROR) {
        now = response->date;
    }

    life = ngx_mcds_fresh_span(response->last_modified, now)
           * (int64_t) response->heuristic / 100;

    return ngx_min(life, response->heuristic_max) * 1000;
}


/* returns the seconds between two times; 0 if "to" is not later than "from" */

static int64_t
ngx_mcds_fresh_span(int64_t from, int64_t to)
{
    uint64_t  span;

    if (to <= from) {
        return 0;
    }

    /*
     * the span between two times is computed without sign, since a signed
     * difference might overflow
     */

    span = (uint64_t) to - (uint64_t) from;

    return (int64_t) ngx_min(span, NGX_MCDS_MAX_DELTA);
}
