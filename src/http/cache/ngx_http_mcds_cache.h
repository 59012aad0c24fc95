
/*
 * Copyright (C) mcds authors
 *
 * Pages: what is configured, and the context of a request.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_fresh.h"
#include "ngx_mcds_page.h"
#include "ngx_mcds_stream.h"
#include "ngx_mcds_tag.h"
#include "ngx_mcds_vary.h"
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_state.h"
#include "ngx_http_mcds_task.h"


/* mcds_ignore_headers */
#define NGX_HTTP_MCDS_IGN_ACCEL   0x0002
#define NGX_HTTP_MCDS_IGN_EXPIRES 0x0004
#define NGX_HTTP_MCDS_IGN_CONTROL 0x0008
#define NGX_HTTP_MCDS_IGN_COOKIE  0x0010
#define NGX_HTTP_MCDS_IGN_VARY    0x0020
#define NGX_HTTP_MCDS_IGN_CDN     0x0040

/* and NGX_MCDS_CONTROL_* of Cache-Control and CDN-Cache-Control */
#define NGX_HTTP_MCDS_IGN_CONTROL_SHIFT  8
#define NGX_HTTP_MCDS_IGN_CDN_SHIFT      20

/* a status of mcds_cache_valid: any to which the origin gives a lifetime */
#define NGX_HTTP_MCDS_VALID_ORIGIN  1

/* room for the header, the key and the stored headers of an entry */
#define NGX_HTTP_MCDS_ENTRY_ROOM                                              \
    (NGX_MCDS_ENTRY_HEADER + NGX_MCDS_ENTRY_HEAD)

/* see ngx_http_mcds_route.h */
#define NGX_HTTP_MCDS_ROUTE_LEN   16

/* the largest mcds_cache_max_size */
#define NGX_HTTP_MCDS_MAX_SIZE    (64 * 1024 * 1024)


typedef enum {
    NGX_HTTP_MCDS_NONE = 0,       /* the cache was not asked */
    NGX_HTTP_MCDS_BYPASS,
    NGX_HTTP_MCDS_MISS,
    NGX_HTTP_MCDS_EXPIRED,
    NGX_HTTP_MCDS_STALE,
    NGX_HTTP_MCDS_UPDATING,
    NGX_HTTP_MCDS_REVALIDATED,
    NGX_HTTP_MCDS_HIT
} ngx_http_mcds_status_e;


/* mcds_cache_invalidate: what becomes of the page of an unsafe request's URI */

typedef enum {
    NGX_HTTP_MCDS_INVALIDATE_OFF = 0,
    NGX_HTTP_MCDS_INVALIDATE_ON,       /* it is not shown any more */
    NGX_HTTP_MCDS_INVALIDATE_STALE     /* it has expired */
} ngx_http_mcds_invalidate_e;


/* of mcds_cache_use_stale: the origin does not answer, or with 5xx */
#define NGX_HTTP_MCDS_FAILURES                                                \
    (NGX_HTTP_UPSTREAM_FT_ERROR                                               \
     |NGX_HTTP_UPSTREAM_FT_TIMEOUT                                            \
     |NGX_HTTP_UPSTREAM_FT_INVALID_HEADER                                     \
     |NGX_HTTP_UPSTREAM_FT_HTTP_500                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_502                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_503                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_504)


typedef struct ngx_http_mcds_site_s      ngx_http_mcds_site_t;
typedef struct ngx_http_mcds_key_args_s  ngx_http_mcds_key_args_t;
typedef struct ngx_http_mcds_purge_s     ngx_http_mcds_purge_t;
typedef struct ngx_http_mcds_compress_s  ngx_http_mcds_compress_t;


typedef struct {
    ngx_array_t                 sites;    /* ngx_http_mcds_site_t * */
} ngx_http_mcds_cache_main_t;


typedef struct {
    ngx_str_t                   cache;    /* "on", "off", or a pool's name */
    ngx_http_mcds_place_t       cache_place;
    ngx_mcds_pool_t            *cache_pool;  /* NULL: off */

    ngx_str_t                   cache_site;  /* as it was set, or none */
    ngx_str_t                  *site;     /* the name that it has */

    u_char                      route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_uint_t                  blocks;   /* "if", "limit_except" in it */

    ngx_http_complex_value_t   *cache_key;   /* NULL: the default key */
    ngx_http_mcds_key_args_t   *key_args; /* of the default key, or NULL */
    ngx_flag_t                  cache_status_header;
    ngx_flag_t                  cache_dry_run;
    ngx_flag_t                  cache_shared;
    time_t                      cache_uncacheable;
    ngx_array_t                *secrets;  /* ngx_str_t, or NULL */
    ngx_array_t                *tags;     /* ngx_http_complex_value_t */
    ngx_http_mcds_purge_t      *purge;
    ngx_http_mcds_place_t       purge_place;
    ngx_mcds_pool_t            *purge_pool;
    ngx_array_t                *cache_valid;
    ngx_uint_t                  cache_methods;
    ngx_array_t                *cache_bypass;
    ngx_array_t                *no_cache;
    ngx_array_t                *session_cookies;  /* ngx_str_t */
    ngx_array_t                *forwarded_headers;  /* ngx_str_t; NULL: the
                                                       built-in ones */
    size_t                      cache_max_size;
    ngx_http_mcds_compress_t   *compress; /* NULL: off */

    ngx_flag_t                  cache_lock;
    time_t                      cache_lock_age;
    ngx_msec_t                  cache_lock_timeout;
    ngx_uint_t                  cache_lock_pass;
    ngx_msec_t                  cache_wait;
    ngx_uint_t                  cache_max_waiters;
    ngx_uint_t                  cache_max_variants;
    int64_t                     cache_grace;      /* ms; of pages whose lifetime
                                                     the configuration gave */
    int64_t                     cache_grace_origin; /* of the others */
    int64_t                     cache_update;     /* ms */
    ngx_uint_t                  cache_ignore;     /* NGX_HTTP_MCDS_IGN_* */
    ngx_uint_t                  cache_heuristic;  /* percent, 0: off */
    time_t                      cache_heuristic_max;
    ngx_msec_t                  cache_backoff;    /* 0: off */
    ngx_msec_t                  cache_backoff_max;
    ngx_uint_t                  cache_local;      /* ngx_mcds_local_mode_e */
    ngx_msec_t                  cache_local_time;
    ngx_uint_t                  cache_early;      /* factor, percent */
    ngx_uint_t                  cache_jitter;     /* percent */
    ngx_uint_t                  cache_min_uses;
    ngx_flag_t                  cache_revalidate;
    ngx_flag_t                  cache_request_control;
    ngx_uint_t                  cache_invalidate; /* ..._invalidate_e */
    ngx_http_complex_value_t   *invalidate_if;    /* NULL: always */
    ngx_uint_t                  cache_use_stale;  /* NGX_HTTP_UPSTREAM_FT_* */

    ngx_str_t                   cache_label; /* or "off"; empty: its own */
    ngx_mcds_stat_t            *zone;     /* NULL: none */
} ngx_http_mcds_cache_conf_t;


/* what the default key has of a request's arguments */

struct ngx_http_mcds_key_args_s {
    ngx_array_t                 names;    /* ngx_str_t, with "*" */
    ngx_uint_t                  only;     /* those, and not the others */
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
 * What headers_out has before the content handler runs: nginx keeps some of the
 * answer that has led the request there
 */

typedef struct {
    ngx_uint_t                  lines;
    u_char                     *first;    /* value of the first of them */
    u_char                     *type;
    u_char                     *charset;
    ngx_str_t                  *override;
} ngx_http_mcds_carried_t;


/* of a page that varies, see ngx_http_mcds_lookup.h, ngx_http_mcds_variant.h */

typedef struct {
    ngx_mcds_copy_t             *list;     /* by which "at" was made, or NULL */
    ngx_mcds_copy_t             *read;     /* a variant, while its list is
                                              looked up once more, or NULL */
    u_char                       hash[NGX_MCDS_VARIANT_LEN];
    ngx_mcds_seat_t              base;     /* at the list, to confirm it */
    ngx_uint_t                   base_outcome;
    ngx_uint_t                   turns;    /* from list to list */
    ngx_http_mcds_put_t         *fork;     /* a list that is being stored */
    ngx_str_t                    names;    /* of the answer's Vary */
    ngx_mcds_seat_t              target;   /* at the variant of a new list */
    u_char                       target_hash[NGX_MCDS_VARIANT_LEN];
    uint64_t                     generation;  /* of a new list */
} ngx_http_mcds_variant_ctx_t;


/* bodies on their way to a client and to memcached: of the storing filter */

typedef struct {
    ngx_chain_t                 *held;     /* to be stored later */
    ngx_chain_t                 *detached; /* copies of what a client gets */
    ngx_chain_t                **detached_last;
    ngx_chain_t                 *detach_free;
    ngx_event_t                 *attached; /* a timer of one that holds up its
                                              build, or NULL */
} ngx_http_mcds_tee_ctx_t;


/* of one request or subrequest, in its task */

struct ngx_http_mcds_cache_ctx_s {
    ngx_http_mcds_task_t        *task;
    ngx_uint_t                   state;    /* ngx_http_mcds_state_e */

    ngx_http_mcds_cache_conf_t  *asker;    /* of the location that has asked */
    ngx_http_mcds_cache_conf_t  *conf;     /* of the one that answers; until
                                              that is known, the asker's */
    ngx_str_t                    uri;      /* of a subrequest, as it was asked
                                              for */
    ngx_str_t                    args;     /* as they were asked for */
    ngx_str_t                    forwarded;  /* see ngx_http_mcds_forwarded.h */
    ngx_http_mcds_cache_conf_t  *forwarded_by;  /* whose headers it has */
    u_char                       route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_str_t                    key;
    ngx_str_t                    asked_key;  /* of the asker, if a request that
                                              changes something has another */
    ngx_str_t                    at;       /* where the seat is: key, or that
                                              of a variant */
    ngx_mcds_cache_control_t    *control;  /* of the request, or NULL */
    ngx_http_mcds_gone_t        *gone;     /* pages that are taken away */
    ngx_mcds_seat_t              seat;
    ngx_uint_t                   outcome;  /* ngx_mcds_page_e */
    ngx_mcds_copy_t             *copy;     /* what there was, or is */
    ngx_mcds_stream_t           *stream;   /* of its body, if that is split */
    ngx_http_mcds_piece_t       *pieces;   /* of the body, on their way out */
    ngx_http_mcds_decode_t      *decode;   /* the same of one with a coding */
    ngx_http_mcds_store_t       *store;    /* of the filter */
    ngx_http_mcds_own_t         *own;      /* of one that waits for its copy,
                                              and of that copy; or NULL */
    uint64_t                     cas;      /* of what was found */
    ngx_http_mcds_tee_ctx_t      tee;
    ngx_http_mcds_variant_ctx_t  vary;
    ngx_mcds_tags_t             *tags;
    uint64_t                     purges;   /* how many there were, see
                                              ngx_mcds_tag.h */
    ngx_http_mcds_purging_t     *purging;
    ngx_msec_t                   start;    /* of the build */
    ngx_mcds_op_t                use;      /* being counted */
    ngx_uint_t                   uses;


    ngx_uint_t                   status;   /* ngx_http_mcds_status_e */
    ngx_uint_t                   reason;   /* ngx_mcds_reason_e */
    uint64_t                     expire;   /* of the page that is served or
                                              stored; 0: there is none */
    uint64_t                     came;     /* when the page was asked for, ms
                                              since the epoch */
    ngx_msec_t                   wait_start;  /* 0: it has not waited */
    ngx_msec_t                   lock_start;
    ngx_msec_t                   lock_wait;
    ngx_http_mcds_carried_t      carried;
    ngx_uint_t                   failed_status;  /* of an upstream, for which
                                                    an error page stands */

    unsigned                     main:1;      /* of a main request, or a copy
                                                 of one */
    unsigned                     routed:1;    /* "route" is where it decides */
    unsigned                     rerouted:1;  /* another one was looked up */
    unsigned                     behind:1;    /* a copy was sent to build */
    unsigned                     error_page:1;  /* led here, to the page */
    unsigned                     replaced:1;  /* what comes stands for an
                                                 error */
    unsigned                     judged:1;    /* a response that may be stored
                                                 was looked at */
    unsigned                     replace:1;   /* not taken from the cache, but
                                                 stored */
    unsigned                     detaching:1; /* "detached" will be freed */
    unsigned                     streamed:1;  /* "stream" will be freed */
    unsigned                     streaming:1; /* the body is being sent */
    unsigned                     offered:1;   /* "copy", in its coding */
    unsigned                     coded:1;     /* ... is sent in it */
    unsigned                     validating:1; /* the origin is asked whether
                                                 "copy" has changed */
    unsigned                     old_shown:1; /* "copy", if another one takes
                                                 too long */
    unsigned                     instead:1;   /* "copy" in place of an answer */
    unsigned                     instead_sent:1;
    unsigned                     instead_passing:1;  /* filters have it now */
    unsigned                     authorization:1;  /* the page may depend on
                                                      the client */
    unsigned                     asked_about:1;   /* auth_request has asked
                                                     about the client */
    unsigned                     no_store:1;      /* for this request */
    unsigned                     only_if_cached:1;
    unsigned                     unaccepted:1;    /* "copy", by the request */
    unsigned                     expired:1;       /* "copy", or it was purged */
    unsigned                     invalidate:1;    /* the page of "key", when the
                                                     request has succeeded */
    unsigned                     dry:1;       /* nothing is served */
    unsigned                     awaited:1;   /* lock_wait is known */
    unsigned                     origin:1;    /* sent to the content handler */
};


extern ngx_module_t             ngx_http_mcds_cache_module;
extern ngx_module_t             ngx_http_mcds_filter_module;
extern ngx_module_t             ngx_http_mcds_coding_filter_module;

extern ngx_http_mcds_feature_t  ngx_http_mcds_cache_feature;


#define ngx_http_mcds_cache_ctx(task)                                         \
    ((ngx_http_mcds_cache_ctx_t *)                                            \
         ngx_http_mcds_task_ctx(task, &ngx_http_mcds_cache_feature))


/*
 * The context of r, NULL if r has not begun its task.  here: without a search,
 * for body filters, behind a header filter that has called get.  need: begins
 * the task; NULL when out of memory.
 */

static ngx_inline ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_get(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_get(r);

    return (task && task->begun) ? ngx_http_mcds_cache_ctx(task) : NULL;
}


static ngx_inline ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_here(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    return (task && task->begun) ? ngx_http_mcds_cache_ctx(task) : NULL;
}


ngx_http_mcds_cache_ctx_t *ngx_http_mcds_cache_need(ngx_http_request_t *r);


/*
 * Cache.  start: NGX_OK the page was asked for, or the request has nothing to
 * ask; NGX_ERROR out of memory.  arrive: the request has reached the location
 * that answers; NGX_OK what was asked for is right there, or as decide.
 * decide: in the location that answers, when all answers have come; NGX_AGAIN
 * another is to come, NGX_OK serve ctx->copy,
 * NGX_DONE go on to the content handler, which does not ask the origin,
 * NGX_DECLINED go on to the content handler, otherwise an HTTP status to end
 * with.  left: the origin has led r to another location, as with
 * X-Accel-Redirect: it makes no page; NGX_OK a page of that location may be
 * looked up, NGX_DECLINED none is, or an HTTP status.  bounds: how old pages
 * may be here.  partial: 1 if the request is conditional, or for a range.
 */

ngx_int_t ngx_http_mcds_cache_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_cache_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_cache_left(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_cache_partial(ngx_http_request_t *r);
void ngx_http_mcds_cache_bounds(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_stale_t *stale);


/*
 * decided: 1 if the request is done with looking for its page.  serving: 1 if
 * ctx->copy is sent to the client.  set_state: changes ctx->state, and nothing
 * else does; writes that to the debug log.
 */

#define ngx_http_mcds_decided(ctx)                                            \
    ((ctx)->state >= NGX_HTTP_MCDS_STATE_DECIDED)

#define ngx_http_mcds_serving(ctx)                                            \
    ((ctx)->state == NGX_HTTP_MCDS_STATE_SERVE                                \
     || (ctx)->state == NGX_HTTP_MCDS_STATE_INSTEAD)

void ngx_http_mcds_set_state(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t state);


/* 1 if an error page stands in place of the page of ctx */

ngx_uint_t ngx_http_mcds_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_H_INCLUDED_ */
