
/*
 * Copyright (C) mcds authors
 *
 * The page cache: its configuration, and the data that it keeps for a request.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_fresh.h"
#include "ngx_mcds_page.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_body.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_tag.h"
#include "ngx_mcds_vary.h"
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_state.h"
#include "ngx_http_mcds_task.h"


/*
 * bits for the response headers to ignore, in the mask of mcds_ignore_headers
 */
#define NGX_HTTP_MCDS_IGN_ACCEL   0x0002
#define NGX_HTTP_MCDS_IGN_EXPIRES 0x0004
#define NGX_HTTP_MCDS_IGN_CONTROL 0x0008
#define NGX_HTTP_MCDS_IGN_COOKIE  0x0010
#define NGX_HTTP_MCDS_IGN_VARY    0x0020
#define NGX_HTTP_MCDS_IGN_CDN     0x0040

/*
 * the position in the mask of mcds_ignore_headers of the bits for single
 * directives of Cache-Control and CDN-Cache-Control, NGX_MCDS_CONTROL_*
 */
#define NGX_HTTP_MCDS_IGN_CONTROL_SHIFT  8
#define NGX_HTTP_MCDS_IGN_CDN_SHIFT      20

/*
 * "mcds_cache_valid origin": a lifetime that the origin has set counts for
 * responses of any status
 */
#define NGX_HTTP_MCDS_VALID_ORIGIN  1

/*
 * the maximum bytes that a page's entry in memcached has before the body: a
 * binary header, the key, additional data (such as tags), the HTTP headers
 */
#define NGX_HTTP_MCDS_ENTRY_ROOM                                              \
    (NGX_MCDS_ENTRY_HEADER + NGX_MCDS_ENTRY_HEAD)

/*
 * bytes of the id of a route, a request's way through the locations of the
 * configuration, see ngx_http_mcds_route.h
 */
#define NGX_HTTP_MCDS_ROUTE_LEN   16

/* the largest mcds_cache_max_size, the limit of a page's length, bytes */
#define NGX_HTTP_MCDS_MAX_SIZE    (64 * 1024 * 1024)


#define ngx_http_mcds_cache_status(name, word)  NGX_HTTP_MCDS_##name,

typedef enum {
    NGX_MCDS_STATUS_LIST(ngx_http_mcds_cache_status)
    NGX_HTTP_MCDS_STATUSES
} ngx_http_mcds_status_e;


/*
 * mcds_cache_invalidate: the effect of an unsafe request on the page of its
 * URI
 */

typedef enum {
    NGX_HTTP_MCDS_INVALIDATE_OFF = 0,
    NGX_HTTP_MCDS_INVALIDATE_ON,       /* the page of the unsafe request's URI
                                          is deleted */
    NGX_HTTP_MCDS_INVALIDATE_STALE     /* the page of the unsafe request's URI
                                          expires */
} ngx_http_mcds_invalidate_e;


/* conditions of mcds_cache_use_stale that are failures of the origin */
#define NGX_HTTP_MCDS_FAILURES                                                \
    (NGX_HTTP_UPSTREAM_FT_ERROR                                               \
     |NGX_HTTP_UPSTREAM_FT_TIMEOUT                                            \
     |NGX_HTTP_UPSTREAM_FT_INVALID_HEADER                                     \
     |NGX_HTTP_UPSTREAM_FT_HTTP_500                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_502                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_503                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_504)


typedef struct ngx_http_mcds_cache_conf_s  ngx_http_mcds_cache_conf_t;
typedef struct ngx_http_mcds_site_s        ngx_http_mcds_site_t;
typedef struct ngx_http_mcds_key_args_s    ngx_http_mcds_key_args_t;
typedef struct ngx_http_mcds_purge_s       ngx_http_mcds_purge_t;
typedef struct ngx_http_mcds_compress_s    ngx_http_mcds_compress_t;


typedef struct {
    /*
     * the sites of the server blocks, ngx_http_mcds_site_t *; the name of a
     * site is the first part of the keys of its pages
     */
    ngx_array_t                 sites;
} ngx_http_mcds_cache_main_t;


struct ngx_http_mcds_cache_conf_s {
    ngx_str_t                   cache;    /* argument of mcds_cache: "on",
                                             "off", or a pool */
    ngx_http_mcds_place_t       cache_place;
    ngx_mcds_pool_t            *cache_pool;  /* pool of memcached servers for
                                                the cached pages; NULL: the
                                                cache is off */

    ngx_str_t                   cache_site;  /* argument of mcds_cache_site,
                                                the name that begins the pages'
                                                keys, or empty */
    ngx_str_t                  *site;     /* name of the site, the first part of
                                             the pages' keys */

    void                      **get_conf; /* r->loc_conf for GET requests: that
                                             of this level; in a "limit_except"
                                             block without effect on GET, that
                                             of the location around the block */
    u_char                      route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_uint_t                  blocks;   /* number of "if" and "limit_except"
                                             blocks in the location so far */
    ngx_http_mcds_cache_conf_t  *regexes; /* regex locations parsed so far in
                                             this block, latest first, linked
                                             by regex_next */
    ngx_http_mcds_cache_conf_t  *regex_next;
    ngx_str_t                  *regex;    /* the location's regular expression;
                                             NULL: it has none */

    ngx_http_complex_value_t   *cache_key;   /* value of mcds_cache_key; NULL:
                                                the default key */
    ngx_http_mcds_key_args_t   *key_args; /* which arguments of the URI are in
                                             the default key; NULL: all */
    ngx_flag_t                  cache_status_header;
    ngx_flag_t                  cache_dry_run;
    ngx_flag_t                  cache_shared;
    time_t                      cache_uncacheable;
    ngx_array_t                *secrets;  /* the keys of mcds_cache_hmac_key,
                                             which sign pages, ngx_str_t; NULL:
                                             none */
    ngx_array_t                *tags;     /* tags of the location's pages,
                                             ngx_http_complex_value_t */
    ngx_http_mcds_purge_t      *purge;
    ngx_http_mcds_place_t       purge_place;
    ngx_mcds_pool_t            *purge_pool;
    ngx_array_t                *cache_valid;
    ngx_uint_t                  cache_methods;
    ngx_array_t                *cache_bypass;
    ngx_array_t                *no_cache;
    /* session cookies that make a request bypass the cache: names, ngx_str_t */
    ngx_array_t                *session_cookies;
    /*
     * names of headers that proxies add, such as X-Forwarded-Host, ngx_str_t;
     * NULL: the built-in ones
     */
    ngx_array_t                *forwarded_headers;
    size_t                      cache_max_size;
    ngx_http_mcds_compress_t   *compress; /* the compression of
                                             mcds_cache_compress; NULL: off */

    ngx_flag_t                  cache_lock;
    time_t                      cache_lock_age;
    ngx_http_mcds_place_t       cache_lock_age_place;  /* without a file: the
                                                          default */
    ngx_msec_t                  cache_lock_timeout;
    ngx_uint_t                  cache_lock_pass;
    ngx_msec_t                  cache_wait;
    ngx_uint_t                  cache_max_waiters;
    ngx_uint_t                  cache_max_variants;
    int64_t                     cache_grace;      /* how long a page with a
                                                     configured lifetime may be
                                                     served stale, ms */
    int64_t                     cache_grace_origin; /* how long a page may be
                                                       served stale if the
                                                       origin has set its
                                                       lifetime, ms */
    int64_t                     cache_update;     /* how long a stale page is
                                                     served at once during an
                                                     update, ms */
    ngx_uint_t                  cache_ignore;     /* ignored response headers,
                                                     NGX_HTTP_MCDS_IGN_* */
    ngx_uint_t                  cache_heuristic;  /* heuristic lifetime, as a
                                                     percentage of the time
                                                     since Last-Modified;
                                                     0: off */
    time_t                      cache_heuristic_max;
    ngx_msec_t                  cache_backoff;    /* pause between a page's
                                                     first failed build and the
                                                     next build, ms; 0: off */
    ngx_msec_t                  cache_backoff_max;
    ngx_mcds_pace_t             cache_pace;
    ngx_uint_t                  cache_local;      /* how requests use copies of
                                                     pages in the shared memory,
                                                     ngx_mcds_local_mode_e */
    ngx_msec_t                  cache_local_time;
    ngx_uint_t                  cache_early;      /* factor of
                                                     mcds_cache_early, the
                                                     early refresh of pages,
                                                     percent */
    ngx_uint_t                  cache_jitter;     /* random part of the pages'
                                                     lifetime,
                                                     mcds_cache_jitter,
                                                     percent */
    ngx_uint_t                  cache_min_uses;
    ngx_flag_t                  cache_revalidate;
    ngx_flag_t                  cache_request_control;
    /* effect of unsafe requests on pages, ngx_http_mcds_invalidate_e */
    ngx_uint_t                  cache_invalidate;
    /* condition "if=" of mcds_cache_invalidate; NULL: always */
    ngx_http_complex_value_t   *invalidate_if;
    /* errors after which stale pages are served, NGX_HTTP_UPSTREAM_FT_* */
    ngx_uint_t                  cache_use_stale;

    ngx_str_t                   cache_label; /* mcds_cache_label: name of the
                                                location in the statistics, or
                                                "off"; empty: the location's
                                                own name */
    ngx_mcds_stat_t            *zone;     /* the cache statistics of the
                                             location, or NULL */
};


/*
 * which arguments of the request are part of the default key:
 * mcds_cache_key_args
 */

struct ngx_http_mcds_key_args_s {
    ngx_array_t                 names;    /* names of arguments of the URI,
                                             ngx_str_t, or patterns with "*" */
    ngx_uint_t                  only;     /* 1: the default key has only the
                                             arguments of the URI that the array
                                             "names" has; 0: it has all
                                             others */
    ngx_uint_t                  sort;
};


typedef struct ngx_http_mcds_cache_ctx_s  ngx_http_mcds_cache_ctx_t;
typedef struct ngx_http_mcds_store_s      ngx_http_mcds_store_t;
typedef struct ngx_http_mcds_piece_s      ngx_http_mcds_piece_t;
typedef struct ngx_http_mcds_decode_s     ngx_http_mcds_decode_t;
typedef struct ngx_http_mcds_gone_s       ngx_http_mcds_gone_t;
typedef struct ngx_http_mcds_purging_s    ngx_http_mcds_purging_t;
typedef struct ngx_http_mcds_put_s        ngx_http_mcds_put_t;
typedef struct ngx_http_mcds_own_s        ngx_http_mcds_own_t;


/*
 * The headers that r->headers_out already has when the content handler begins,
 * such as those that nginx has kept of a response with X-Accel-Redirect: they
 * do not belong to the page, and are not stored with it.
 */

typedef struct {
    ngx_uint_t                  lines;    /* number of these headers */
    u_char                     *first;    /* value of the first header in
                                             r->headers_out.headers; if it is
                                             another one later, nginx has
                                             cleared this list of headers */
    u_char                     *type;
    u_char                     *charset;
    ngx_str_t                  *override;
} ngx_http_mcds_carried_t;


/*
 * the state of a request whose page has variants, see ngx_http_mcds_lookup.h
 * and ngx_http_mcds_variant.h
 */

typedef struct {
    ngx_mcds_snapshot_t             *list;  /* list of the page's variants, by
                                               which the request has found the
                                               key that it looks up; or NULL */
    ngx_mcds_snapshot_t             *read;  /* variant that was found, kept
                                               while the list of variants is
                                               looked up again, or NULL */
    u_char                         hash[NGX_MCDS_VARIANT_LEN];
    /*
     * links the request to the page's key while it asks memcached whether the
     * list of variants that this worker remembers is still the current one
     */
    ngx_mcds_waiter_t              base;
    ngx_uint_t                   base_outcome;
    ngx_uint_t                   lists;    /* number of lists of variants that
                                              the request has followed: each had
                                              replaced the one before */
    ngx_http_mcds_put_t         *fork;     /* list of variants that is being
                                              stored for this request */
    ngx_str_t                    names;    /* names of the headers in the
                                              response's Vary */
    ngx_mcds_waiter_t            target;   /* links the request to the key at
                                              which the first variant of a new
                                              list is stored */
    u_char                       target_hash[NGX_MCDS_VARIANT_LEN];
    uint64_t                     generation;  /* random id of a new list of
                                                 variants */
} ngx_http_mcds_variant_ctx_t;


/*
 * the data of a response on its way to a client and to memcached, for the
 * filter that stores responses
 */

typedef struct {
    ngx_chain_t                 *held;     /* buffers of the response that are
                                              stored later, as memcached is
                                              slower than the origin */
    ngx_chain_t                 *detached; /* copies of the response's buffers
                                              that a slow client gets */
    ngx_chain_t                **detached_last;
    ngx_chain_t                 *detach_free;
    ngx_event_t                 *attached; /* timer at whose end the request
                                              gives up storing the response, as
                                              the client is slow; or NULL */
    unsigned                     limited:1;  /* mcds leaves the upstream's
                                                buffering on, as nginx may limit
                                                the rate of the response */
} ngx_http_mcds_tee_ctx_t;


/*
 * the context of the cache for a request or subrequest, a part of the request's
 * task (the structure by which it waits for memcached)
 */

struct ngx_http_mcds_cache_ctx_s {
    ngx_http_mcds_task_t        *task;
    ngx_uint_t                   state;    /* state of the request's use of the
                                              cache, ngx_http_mcds_state_e */

    ngx_http_mcds_cache_conf_t  *asker;    /* configuration of the location in
                                              which the page was looked up */
    ngx_http_mcds_cache_conf_t  *conf;     /* configuration of the location that
                                              responds; until that location is
                                              known, of the one in which the
                                              page was looked up */
    ngx_str_t                    uri;      /* URI of a subrequest, before
                                              redirects */
    ngx_str_t                    args;     /* arguments of the request, before
                                              redirects */
    ngx_str_t                    forwarded;  /* text of the forwarding headers
                                                (X-Forwarded-Host and others),
                                                see
                                                ngx_http_mcds_forwarded.h */
    ngx_http_mcds_cache_conf_t  *forwarded_by;  /* configuration that names the
                                                   headers in "forwarded", the
                                                   text above */
    u_char                       route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_str_t                    key;
    /*
     * the page's key in the location that looked the page up, set only for an
     * unsafe request whose page has another key in the location that responds
     */
    ngx_str_t                    asked_key;
    ngx_http_mcds_cache_conf_t  *asked_conf;  /* configuration of the location
                                                 whose key asked_key is */
    ngx_str_t                    at;       /* key that the request looks up:
                                              that of its page, or that of a
                                              variant of the page */
    ngx_mcds_cache_control_t    *control;  /* Cache-Control of the request, or
                                              NULL */
    ngx_http_mcds_gone_t        *gone;     /* pages that an unsafe request
                                              invalidates */
    ngx_mcds_waiter_t            waiter;
    ngx_uint_t                   outcome;  /* outcome of the lookup of the page,
                                              or of the wait for the page,
                                              ngx_mcds_page_e */
    ngx_mcds_snapshot_t         *snapshot;  /* page or other entry that was
                                               found in memcached, or is
                                               served */
    ngx_mcds_body_t             *stream;   /* body of the page ctx->snapshot,
                                              if it is sent in parts */
    ngx_http_mcds_piece_t       *pieces;   /* parts of the page's body that are
                                              being sent */
    ngx_http_mcds_decode_t      *decode;   /* decoder of a page's body that is
                                              stored compressed */
    ngx_http_mcds_store_t       *store;    /* response that is being stored, or
                                              NULL */
    ngx_http_mcds_own_t         *own;      /* uncacheable response to the copy
                                              of the client's request that
                                              builds the page in the background;
                                              the client's request sends it to
                                              the client; both requests point
                                              to it; or NULL */
    uint64_t                     cas;      /* CAS of the page or other entry
                                              that was found */
    ngx_http_mcds_tee_ctx_t      tee;
    ngx_http_mcds_variant_ctx_t  vary;
    ngx_mcds_tags_t             *tags;
    uint64_t                     purges;   /* the purge counter of the page's
                                              memcached server, see
                                              ngx_mcds_tag.h */
    ngx_http_mcds_purging_t     *purging;
    ngx_msec_t                   start;    /* time when the build of the page
                                              began */
    /* the command that counts a use of the page, for mcds_cache_min_uses */
    ngx_mcds_op_t                use;
    ngx_uint_t                   uses;


    ngx_uint_t                   status;   /* the request's $mcds_cache_status,
                                              ngx_http_mcds_status_e */
    ngx_uint_t                   reason;   /* the request's $mcds_cache_reason,
                                              ngx_mcds_reason_e */
    uint64_t                     expire;   /* time when the page that is served
                                              or stored expires, ms since the
                                              epoch; 0: no page */
    uint64_t                     came;     /* time when the page was looked up,
                                              ms since the epoch */
    /* time when the request began to wait for a page; 0: it has not waited */
    ngx_msec_t                   wait_start;
    ngx_msec_t                   lock_start;
    ngx_msec_t                   lock_wait;
    ngx_http_mcds_carried_t      carried;
    /*
     * status that the upstream itself has sent, if an error page replaces its
     * response; 0: nginx or a filter has set the status
     */
    ngx_uint_t                   failed_status;
    /*
     * number of elements that r->upstream_states, the attempts of upstreams,
     * had when an error page replaced the response
     */
    ngx_uint_t                   failed_tries;

    unsigned                     main:1;      /* 1: the context is that of a
                                                 main request, or of the
                                                 background refresh of its
                                                 page; 0: of a subrequest */
    unsigned                     routed:1;    /* the request has reached the
                                                 location that responds, where
                                                 its route through the
                                                 locations ends */
    unsigned                     rerouted:1;  /* the request's route through
                                                 the locations has changed
                                                 since its page was looked
                                                 up */
    unsigned                     behind:1;    /* a copy of the request, without
                                                 a client, builds the page for
                                                 it in the background */
    unsigned                     error_page:1;  /* "error_page" has redirected
                                                   the request to the location
                                                   that makes the page */
    unsigned                     replaced:1;  /* an error page replaces the
                                                 response that would have been
                                                 stored */
    unsigned                     judged:1;    /* it was decided whether to
                                                 store the response */
    unsigned                     overwrite:1; /* the stored page is not used,
                                                 but replaced by the response
                                                 to this request */
    unsigned                     detaching:1; /* a cleanup handler was added
                                                 that frees the copies of the
                                                 response for a slow client */
    unsigned                     streamed:1;  /* a cleanup handler was added
                                                 that frees the body of a page
                                                 which is sent in parts */
    unsigned                     streaming:1; /* the body of the page
                                                 ctx->snapshot is being sent */
    unsigned                     offered:1;   /* the page ctx->snapshot is
                                                 stored compressed, and the
                                                 client accepts this
                                                 compression */
    unsigned                     coded:1;     /* the page ctx->snapshot is sent
                                                 compressed */
    unsigned                     validating:1; /* the request to the origin
                                                  revalidates the page
                                                  ctx->snapshot */
    unsigned                     renewed:1;   /* the request has begun to store
                                                 the page ctx->snapshot, which
                                                 a 304 has renewed */
    unsigned                     old_shown:1; /* the old page ctx->snapshot is
                                                 served if the new page takes
                                                 too long */
    unsigned                     instead:1;   /* the stored page ctx->snapshot
                                                 is served in place of the
                                                 origin's response */
    unsigned                     instead_sent:1;
    /*
     * the body of the stored page ctx->snapshot is passing through the filters,
     * in place of the origin's response, such as a 304 or an error
     */
    unsigned                     instead_passing:1;
    unsigned                     authorization:1;  /* the page may be for this
                                                      client only: the request
                                                      has credentials, or
                                                      auth_request has checked
                                                      the client */
    unsigned                     asked_about:1;   /* auth_request has checked
                                                     the client of this
                                                     request */
    unsigned                     no_store:1;      /* the response to this
                                                     request is not stored */
    unsigned                     only_if_cached:1;
    unsigned                     unaccepted:1;    /* the request's Cache-Control
                                                     excludes the page
                                                     ctx->snapshot */
    unsigned                     expired:1;       /* the page ctx->snapshot has
                                                     expired or was purged */
    unsigned                     tag_purged:1;    /* a tag of the page
                                                     ctx->snapshot was purged,
                                                     or it is unknown whether
                                                     one was */
    unsigned                     invalidate:1;    /* the page of the request's
                                                     URI is invalidated if the
                                                     request, an unsafe one,
                                                     succeeds */
    unsigned                     purged:1;    /* the purge of a page by this
                                                 request has ended, or its
                                                 client has left */
    unsigned                     dry:1;       /* mcds_cache_dry_run: no page is
                                                 served from the cache */
    unsigned                     awaited:1;   /* lock_wait, the time for which
                                                 the request has waited for a
                                                 page, is set */
    unsigned                     origin:1;    /* the request goes to the
                                                 content handler, not to the
                                                 cache */
};


extern ngx_module_t             ngx_http_mcds_cache_module;
extern ngx_module_t             ngx_http_mcds_filter_module;
extern ngx_module_t             ngx_http_mcds_coding_filter_module;

extern ngx_http_mcds_feature_t  ngx_http_mcds_cache_feature;


#define ngx_http_mcds_cache_ctx(task)                                         \
    ((ngx_http_mcds_cache_ctx_t *)                                            \
         ngx_http_mcds_task_ctx(task, &ngx_http_mcds_cache_feature))


/*
 * returns the cache's context of the request r, or NULL if r has not begun its
 * task, the structure by which it waits for memcached
 */

static ngx_inline ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_get(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_get(r);

    return (task && task->begun) ? ngx_http_mcds_cache_ctx(task) : NULL;
}


/*
 * As ngx_http_mcds_cache_get(), returns the cache's context of the request r,
 * but without a search in the cleanup records: for body filters, whose header
 * filter has called ngx_http_mcds_cache_get().
 */

static ngx_inline ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_here(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    return (task && task->begun) ? ngx_http_mcds_cache_ctx(task) : NULL;
}


/*
 * returns the cache's context of the request r, and creates it if r has none;
 * NULL when out of memory
 */

ngx_http_mcds_cache_ctx_t *ngx_http_mcds_cache_need(ngx_http_request_t *r);


/*
 * Looks up the page of the request r, if r uses the cache.  NGX_OK: the lookup
 * was sent, or r does not use the cache; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_cache_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Call this for a purge request that rebuilds the page which it has purged, in
 * each of its locations in which ngx_http_mcds_cache_start() was not called.
 * Returns 1 if a GET request with the same headers would use the cache in this
 * location; sets ctx->authorization as for that request.
 */

ngx_uint_t ngx_http_mcds_cache_may_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Call this with each response: if r is the subrequest of auth_request, notes
 * in the request that it is made for that auth_request has asked about the
 * client.  NGX_OK; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_cache_note_auth(ngx_http_request_t *r);

/*
 * Call this when the request has reached the location that responds: applies
 * the rules of this location, and looks up the page again if it has another
 * key or pool here.  NGX_OK: no reply of memcached is to come; otherwise the
 * results are those of ngx_http_mcds_cache_decide().
 */

ngx_int_t ngx_http_mcds_cache_end_route(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Call this when memcached has sent all replies about a lookup whose page the
 * request does not use: drops all that the lookup has found.
 */

void ngx_http_mcds_cache_drop_lookup(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Call this when the origin has redirected the request r to another location,
 * as with X-Accel-Redirect: ends the build of the page by r, as the response is
 * not the page, and prepares the lookup of that location's page, if one is
 * permitted.  NGX_OK; NGX_ERROR: r, the copy of a client's request that builds
 * a page in the background, is to end now; or an HTTP status.
 */

ngx_int_t ngx_http_mcds_cache_left(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Decides, in the location that responds, whether a request is served from the
 * cache, when memcached has answered all its lookups.  NGX_AGAIN: another
 * reply is to come; NGX_OK: serve ctx->snapshot; NGX_DONE: r->content_handler
 * was set, to send the response that a copy of the request, which runs in the
 * background, has got; NGX_DECLINED: ask the origin, by the location's content
 * handler; NGX_ERROR: out of memory; otherwise an HTTP status to respond with.
 */

ngx_int_t ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/* returns 1 if the request is conditional, or for a range */

ngx_uint_t ngx_http_mcds_cache_partial(ngx_http_request_t *r);

/*
 * sets the times, in milliseconds, for which stale pages of the location may
 * be used
 */

void ngx_http_mcds_cache_bounds(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_stale_t *stale);


/* returns 1 if it is decided whether the request is served from the cache */

#define ngx_http_mcds_decided(ctx)                                            \
    ((ctx)->state >= NGX_HTTP_MCDS_STATE_DECIDED)

/* returns 1 if the page ctx->snapshot is sent to the client */

#define ngx_http_mcds_serving(ctx)                                            \
    ((ctx)->state == NGX_HTTP_MCDS_STATE_SERVE                                \
     || (ctx)->state == NGX_HTTP_MCDS_STATE_INSTEAD)

/*
 * Changes the state of a request's use of the cache, and logs the change at
 * debug level.  All changes of this state have to use this function.
 */

void ngx_http_mcds_set_state(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t state);


/*
 * returns 1 if an error page replaces the response that the request would have
 * got
 */

ngx_uint_t ngx_http_mcds_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Call this when nginx has redirected the request r to an error page, before
 * the error page's own upstream, if any, is asked: notes that the response is
 * replaced, and which status it had.  r must have an upstream.
 */

void ngx_http_mcds_note_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * returns the status of the response that an error page replaces, or the status
 * that nginx has set if the upstream has not responded; 0: unknown
 */

ngx_uint_t ngx_http_mcds_replaced_status(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_H_INCLUDED_ */
