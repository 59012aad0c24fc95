
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_HTTP_MCDS_MODULE_H_INCLUDED_
#define _NGX_HTTP_MCDS_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_budget.h"
#include "ngx_mcds_page.h"
#include "ngx_mcds_ledger.h"
#include "ngx_mcds_stream.h"
#include "ngx_mcds_fresh.h"
#include "ngx_mcds_vary.h"
#include "ngx_mcds_tag.h"


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


/* a variable that a counter gives its number to */

/* of mcds_cache_use_stale: the origin does not answer, or with 5xx */
#define NGX_HTTP_MCDS_FAILURES                                                \
    (NGX_HTTP_UPSTREAM_FT_ERROR                                               \
     |NGX_HTTP_UPSTREAM_FT_TIMEOUT                                            \
     |NGX_HTTP_UPSTREAM_FT_INVALID_HEADER                                     \
     |NGX_HTTP_UPSTREAM_FT_HTTP_500                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_502                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_503                                           \
     |NGX_HTTP_UPSTREAM_FT_HTTP_504)


typedef struct {
    ngx_str_t                   name;
    ngx_uint_t                  warned;   /* read too early, said once */
    ngx_uint_t                  refused;  /* by= is no number, said once */
} ngx_http_mcds_number_var_t;


typedef struct {
    ngx_array_t                 pools;    /* ngx_mcds_pool_t * */
    ngx_array_t                 writebacks;  /* ngx_http_mcds_writeback_t * */
    ngx_array_t                 numbers;  /* ngx_http_mcds_number_var_t */
    ngx_array_t                 tops;     /* ngx_http_mcds_top_t * */
    ngx_array_t                 sites;    /* ngx_http_mcds_site_t * */

    ngx_shm_zone_t             *zone;
    size_t                      zone_size;
    ngx_mcds_stats_t            stats;
    ngx_mcds_ledger_t          *ledger;   /* in the zone, or NULL */
    ngx_core_conf_t            *core;

    ngx_uint_t                  used;     /* some location counts or caches */
    ngx_uint_t                  recursive;  /* ... has recursive_error_pages */
    ngx_uint_t                  counted;  /* some location counts */
    ngx_uint_t                  cached;   /* some location caches */
    ngx_uint_t                  responses;  /* ... counts answers */
    ngx_uint_t                  inits;    /* ... asks where counters begin */
    ngx_uint_t                  hasty;    /* ... has short locks, said once */
    ngx_uint_t                  status;   /* ... shows statistics */
} ngx_http_mcds_main_conf_t;


/* a place in the configuration, for messages that come later */

typedef struct {
    ngx_str_t                   file;
    ngx_uint_t                  line;
} ngx_http_mcds_place_t;


typedef struct ngx_http_mcds_show_s       ngx_http_mcds_show_t;
typedef struct ngx_http_mcds_site_s       ngx_http_mcds_site_t;
typedef struct ngx_http_mcds_writeback_s  ngx_http_mcds_writeback_t;
typedef struct ngx_http_mcds_top_s        ngx_http_mcds_top_t;
typedef struct ngx_http_mcds_key_args_s   ngx_http_mcds_key_args_t;
typedef struct ngx_http_mcds_purge_s      ngx_http_mcds_purge_t;
typedef struct ngx_http_mcds_compress_s   ngx_http_mcds_compress_t;


typedef struct {
    ngx_str_t                   use;
    ngx_http_mcds_place_t       use_place;
    ngx_mcds_pool_t            *pool;
    ngx_uint_t                  methods;  /* of resources; 0: not said */

    ngx_array_t                *counters; /* ngx_http_mcds_counter_t */
    ngx_http_mcds_place_t       counters_place;
    ngx_mcds_stat_t           **counter_stats;  /* of each of them */
    ngx_http_mcds_writeback_t  *writeback;   /* of them, or NULL */

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

    ngx_http_complex_value_t   *return_text;
    ngx_uint_t                  return_code;

    char                       *stat_kind;   /* of location: " = ", " ~ "... */
    ngx_str_t                   cache_label; /* or "off"; empty: its own */
    ngx_mcds_stat_t            *zone;     /* NULL: none */

    ngx_http_mcds_show_t       *show;     /* mcds_counter_api */
    ngx_http_mcds_place_t       show_place;
    ngx_mcds_stat_t            *show_stat;  /* of its keys */

    ngx_http_handler_pt         handler;  /* of this module, or NULL */
    ngx_str_t                   handler_name;  /* of its directive */
    ngx_http_mcds_place_t       handler_place;
} ngx_http_mcds_loc_conf_t;


/* what the default key has of a request's arguments */

struct ngx_http_mcds_key_args_s {
    ngx_array_t                 names;    /* ngx_str_t, with "*" */
    ngx_uint_t                  only;     /* those, and not the others */
    ngx_uint_t                  sort;
};


typedef struct ngx_http_mcds_ctx_s      ngx_http_mcds_ctx_t;
typedef struct ngx_http_mcds_counter_s  ngx_http_mcds_counter_t;
typedef struct ngx_http_mcds_visitor_s  ngx_http_mcds_visitor_t;
typedef struct ngx_http_mcds_number_s   ngx_http_mcds_number_t;
typedef struct ngx_http_mcds_numbers_s  ngx_http_mcds_numbers_t;
typedef struct ngx_http_mcds_store_s    ngx_http_mcds_store_t;
typedef struct ngx_http_mcds_piece_s    ngx_http_mcds_piece_t;
typedef struct ngx_http_mcds_decode_s   ngx_http_mcds_decode_t;
typedef struct ngx_http_mcds_gone_s     ngx_http_mcds_gone_t;
typedef struct ngx_http_mcds_purging_s  ngx_http_mcds_purging_t;
typedef struct ngx_http_mcds_put_s      ngx_http_mcds_put_t;
typedef struct ngx_http_mcds_own_s      ngx_http_mcds_own_t;


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


/*
 * Of one request or subrequest.  Lives in a cleanup record of the pool, so
 * that it outlasts internal redirects, which clear r->ctx.
 */

struct ngx_http_mcds_ctx_s {
    ngx_http_request_t         *request;
    ngx_uint_t                  waiting;  /* answers to come */
    ngx_uint_t                  counts;   /* ... of counters */
    ngx_queue_t                 queue;    /* while "resuming" */
    ngx_mcds_budget_t           budget;   /* of waits for memcached */
    ngx_mcds_wait_t             delay;    /* the one while "suspended" */

    ngx_http_mcds_numbers_t    *numbers;

    ngx_http_mcds_loc_conf_t   *asker;    /* of the location that has asked */
    ngx_http_mcds_loc_conf_t   *conf;     /* of the one that answers; until
                                             that is known, the asker's */
    ngx_str_t                   uri;      /* of a subrequest, as it was asked
                                             for */
    ngx_str_t                   args;     /* as they were asked for */
    ngx_str_t                   forwarded;  /* see ngx_http_mcds_forwarded.h */
    ngx_http_mcds_loc_conf_t   *forwarded_by;  /* whose headers it has */
    u_char                      route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_str_t                   key;
    ngx_str_t                   asked_key;  /* of the asker, if a request that
                                             changes something has another */
    ngx_str_t                   at;       /* where the seat is: key, or that
                                             of a variant */
    ngx_mcds_cache_control_t   *control;  /* of the request, or NULL */
    ngx_http_mcds_gone_t       *gone;     /* pages that are taken away */
    ngx_mcds_seat_t             seat;
    ngx_uint_t                  outcome;  /* ngx_mcds_page_e */
    ngx_mcds_copy_t            *copy;     /* what there was, or is */
    ngx_mcds_stream_t          *stream;   /* of its body, if that is split */
    ngx_http_mcds_piece_t      *pieces;   /* of the body, on their way out */
    ngx_http_mcds_decode_t     *decode;   /* the same of one with a coding */
    ngx_http_mcds_store_t      *store;    /* of the filter */
    ngx_http_mcds_own_t        *own;      /* of one that waits for its copy, and
                                             of that copy; or NULL */
    ngx_chain_t                *held;     /* to be stored later */
    ngx_chain_t                *detached; /* copies of what a client gets */
    ngx_chain_t               **detached_last;
    ngx_chain_t                *detach_free;
    ngx_event_t                *attached; /* a timer of one that holds up its
                                             build, or NULL */
    uint64_t                    cas;      /* of what was found */
    ngx_mcds_tags_t            *tags;
    uint64_t                    purges;   /* how many there were, see
                                             ngx_mcds_tag.h */
    ngx_http_mcds_purging_t    *purging;
    ngx_msec_t                  start;    /* of the build */
    void                       *use;      /* being counted */
    ngx_uint_t                  uses;

    ngx_mcds_copy_t            *list;     /* by which "at" was made, or NULL */
    ngx_mcds_copy_t            *read;     /* a variant, while its list is looked
                                             up once more, or NULL */
    u_char                      hash[NGX_MCDS_VARIANT_LEN];
    ngx_mcds_seat_t             base;     /* at the list, to confirm it */
    ngx_uint_t                  base_outcome;
    ngx_uint_t                  turns;    /* from list to list */
    ngx_http_mcds_put_t        *fork;     /* a list that is being stored */
    ngx_str_t                   names;    /* of the answer's Vary */
    ngx_mcds_seat_t             target;   /* at the variant of a new list */
    u_char                      target_hash[NGX_MCDS_VARIANT_LEN];
    uint64_t                    generation;  /* of a new list */

    ngx_uint_t                  status;   /* ngx_http_mcds_status_e */
    ngx_uint_t                  reason;   /* ngx_mcds_reason_e */
    uint64_t                    expire;   /* of the page that is served or
                                             stored; 0: there is none */
    uint64_t                    came;     /* when the page was asked for, ms
                                             since the epoch */
    ngx_msec_t                  wait_start;  /* 0: it has not waited */
    ngx_msec_t                  lock_start;
    ngx_msec_t                  lock_wait;
    ngx_http_mcds_carried_t     carried;
    ngx_uint_t                  failed_status;  /* of an upstream, for which
                                                   an error page stands */

    unsigned                    suspended:1; /* waits where it decides */
    unsigned                    resuming:1;  /* all have come, its turn has
                                                not */
    unsigned                    main:1;      /* of a main request, or a copy
                                                of one */
    unsigned                    routed:1;    /* "route" is where it decides */
    unsigned                    rerouted:1;  /* another one was looked up */
    unsigned                    forking:1;   /* routes are being told apart */
    unsigned                    left:1;      /* for another location, behind
                                                the decision */
    unsigned                    asked:1;     /* the cache, once */
    unsigned                    entered:1;   /* asked to build */
    unsigned                    behind:1;    /* a copy was sent to build */
    unsigned                    error_page:1;  /* led here, to the page */
    unsigned                    replaced:1;  /* what comes stands for an
                                                error */
    unsigned                    decided:1;   /* serve, fill or pass */
    unsigned                    serving:1;
    unsigned                    storing:1;   /* what comes may be stored,
                                                nobody waits for it */
    unsigned                    judged:1;    /* ... and was looked at */
    unsigned                    passed:1;    /* what another has built was not
                                                to be stored */
    unsigned                    replace:1;   /* not taken from the cache, but
                                                stored */
    unsigned                    refresh:1;   /* detached, has no client */
    unsigned                    detaching:1; /* "detached" will be freed */
    unsigned                    streamed:1;  /* "stream" will be freed */
    unsigned                    streaming:1; /* the body is being sent */
    unsigned                    offered:1;   /* "copy", in its coding */
    unsigned                    coded:1;     /* ... is sent in it */
    unsigned                    validating:1; /* the origin is asked whether
                                                "copy" has changed */
    unsigned                    old_shown:1; /* "copy", if another one takes
                                                too long */
    unsigned                    instead:1;   /* "copy" in place of an answer */
    unsigned                    instead_sent:1;
    unsigned                    instead_passing:1;  /* filters have it now */
    unsigned                    authorization:1;  /* the page may depend on
                                                     the client */
    unsigned                    asked_about:1;   /* auth_request has asked about
                                                    the client */
    unsigned                    no_store:1;      /* for this request */
    unsigned                    only_if_cached:1;
    unsigned                    unaccepted:1;    /* "copy", by the request */
    unsigned                    expired:1;       /* "copy", or it was purged */
    unsigned                    invalidate:1;    /* the page of "key", when the
                                                    request has succeeded */
    unsigned                    dry:1;       /* nothing is served */
    unsigned                    awaited:1;   /* lock_wait is known */
    unsigned                    built:1;     /* ... by another, meanwhile */
    unsigned                    by_method:1; /* not a page for its method */
    unsigned                    unavailable:1;  /* waited long enough */
    unsigned                    counted:1;   /* for mcds_cache_min_uses */
    unsigned                    counting:1;  /* the answer is to come */
    unsigned                    seeded:1;    /* "delay" was not for memcached
                                                alone */
    unsigned                    origin:1;    /* sent to the content handler */
};


/*
 * Request.  get_ctx: the context of r, or NULL.  create_ctx: a new one, NULL
 * when out of memory.  wake: an answer has come; if it was the last one, the
 * request goes on at the end of this turn, with all others that were answered.
 */

ngx_http_mcds_ctx_t *ngx_http_mcds_get_ctx(ngx_http_request_t *r);
ngx_http_mcds_ctx_t *ngx_http_mcds_create_ctx(ngx_http_request_t *r);
void ngx_http_mcds_wake(ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_decide_handler(ngx_http_request_t *r);


/*
 * To be called by the header filter when r, which has asked an upstream, is to
 * ask once more: the answer is dropped, and the content handler runs again at
 * the end of this turn.  NGX_OK: the filter must return NGX_ERROR.
 * NGX_DECLINED: nothing was done, since it is no upstream that answers, or not
 * from inside of its own call.
 */

ngx_int_t ngx_http_mcds_again(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx);


/*
 * is_error_page: 1 if the request was led to an error page, as far as is known.
 * replaced: 1 if it was one that stands in place of the page of ctx.
 * is_accel: 1 if the origin's answer was X-Accel-Redirect.
 */

ngx_uint_t ngx_http_mcds_is_error_page(ngx_http_request_t *r);
ngx_uint_t ngx_http_mcds_is_accel(ngx_http_request_t *r);
ngx_uint_t ngx_http_mcds_replaced(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);


/*
 * Counters.  start: begins those of r's location that have not counted yet.
 * log: the handler of the log phase.  cleanup: forgets what has not been
 * answered.  hurry: what memcached has not answered is told to be TIMEOUT; it
 * is counted nevertheless.  init_filters: to be called when mcds_counter needs
 * them.
 */

char *ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counter_init(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_counter_durable(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_counter_buffer(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_mcds_counters_start(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_counters_log(ngx_http_request_t *r);
void ngx_http_mcds_counters_cleanup(ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_counters_hurry(ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_counter_init_filters(void);


/*
 * Cache.  start: NGX_OK the page was asked for, or the request has nothing to
 * ask; NGX_ERROR out of memory.  decide: in the location that answers, when all
 * answers have come; NGX_AGAIN another is to come, NGX_OK serve ctx->copy,
 * NGX_DONE go on to the content handler, which does not ask the origin,
 * NGX_DECLINED go on to the content handler, otherwise an HTTP status to end
 * with.  left: the origin has led r to another location, as with
 * X-Accel-Redirect: it makes no page; NGX_OK a page of that location may be
 * looked up, NGX_DECLINED none is, or an HTTP status.  drop: what was found is
 * not for this request.  bounds: how old pages may be here.
 */

ngx_int_t ngx_http_mcds_cache_start(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_cache_left(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_cache_sit(ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf);
void ngx_http_mcds_cache_drop(ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_cache_bounds(ngx_http_mcds_loc_conf_t *mlcf,
    ngx_mcds_stale_t *stale);

/*
 * The text that the page of r is kept under: site and key, see
 * ngx_http_mcds_site.h.  NGX_DECLINED: there is none.
 * match: 1 if the name is that of the pattern, in which "*" stands for any
 * number of characters.
 */

ngx_int_t ngx_http_mcds_cache_key(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_str_t *key);
ngx_uint_t ngx_http_mcds_match(u_char *p, u_char *last, u_char *name,
    u_char *end);
ngx_int_t ngx_http_mcds_key_add_variables(ngx_conf_t *cf);

/*
 * mcds_cache_hmac_key.  ext: adds room for a signature to the extensions of a
 * page.  sign: a finished entry.  ngx_mcds_copy_signed() judges.
 */

ngx_int_t ngx_http_mcds_sign_ext(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_str_t *ext);
void ngx_http_mcds_sign(ngx_http_mcds_loc_conf_t *mlcf,
    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);

/*
 * Names of headers, in any case.  is: s, a ngx_str_t *, is that literal.  in:
 * the name is one of names, which end with an empty one.
 */

#define ngx_http_mcds_header_is(s, name)                                      \
    ((s)->len == sizeof(name) - 1                                             \
     && ngx_strncasecmp((s)->data, (u_char *) name, sizeof(name) - 1) == 0)

ngx_uint_t ngx_http_mcds_header_in(ngx_str_t *names, ngx_str_t *name);

/* variables that have a get_handler only, up to ngx_http_null_variable */
ngx_int_t ngx_http_mcds_add_vars(ngx_conf_t *cf, ngx_http_variable_t *vars);

/*
 * What was done.  header: adds Cache-Status, if it is wanted; ctx has a conf.
 */

ngx_int_t ngx_http_mcds_explain_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_mcds_explain_header(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);

/*
 * mcds_purge_api.  asked: 1 if r purges its page.  start: begins that, for
 * r in the phase; NGX_ERROR: out of memory.  end: when it was answered;
 * NGX_AGAIN more is to come, NGX_OK the answer is content now.  handler: of
 * a location of its own.
 *
 * rebuild: has the page of r rebuilt that was purged, and is of this CAS now;
 * NGX_AGAIN, NGX_ERROR, or NGX_OK when ctx->outcome is known.  rebuilt: after
 * that; 1 if it is being rebuilt.
 */

ngx_uint_t ngx_http_mcds_purge_asked(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_purge_start(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_purge_end(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_purge_handler(ngx_http_request_t *r);
void ngx_http_mcds_purge_merge(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *prev,
    ngx_http_mcds_loc_conf_t *conf);
ngx_uint_t ngx_http_mcds_purge_needs_pool(ngx_http_mcds_loc_conf_t *conf);
ngx_int_t ngx_http_mcds_cache_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf, uint64_t cas);
ngx_uint_t ngx_http_mcds_cache_rebuilt(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);

/*
 * mcds_cache_tag.  start: asks for what was purged.  judge: of ctx->copy;
 * NGX_AGAIN when an answer is to come, NGX_OK with *verdict, one of
 * ngx_mcds_tags_e.  store: the extension of a page, empty without tags;
 * NGX_DECLINED: its tags cannot be stored.  renew: of a page that is still
 * the same.
 */

ngx_int_t ngx_http_mcds_tags_start(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_tags_judge(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf,
    ngx_uint_t *verdict);
ngx_int_t ngx_http_mcds_tags_store(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf, ngx_str_t *ext);
ngx_int_t ngx_http_mcds_tags_renew(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_mcds_entry_t *entry);


/*
 * mcds_cache_request_control.  control: reads what a request asks of its
 * answer, into ctx.  accepts: whether a page is that, where ctx->control is
 * given; state, an ngx_mcds_fresh_e, may be mended by it.
 */

ngx_int_t ngx_http_mcds_control(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_control_accepts(ngx_http_mcds_ctx_t *ctx,
    ngx_mcds_entry_t *entry, ngx_uint_t *state);


/*
 * mcds_cache_invalidate.  merge: of a level with the one above.
 * start: r may be a request that changes something.
 * arrive: it has reached a location that answers, where the page may have
 * another key.  init: of the filters that see its answer.
 */

void ngx_http_mcds_invalidate_merge(ngx_http_mcds_loc_conf_t *prev,
    ngx_http_mcds_loc_conf_t *conf);
ngx_int_t ngx_http_mcds_invalidate_start(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_invalidate_arrive(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_invalidate_init(void);


/*
 * Whether the origin's answer to a HEAD no longer shows the page in ctx->copy
 * to be current: its Content-Length, ETag or Last-Modified is another, or it
 * has neither of the latter two.  same: 1 if it does show that, and the page
 * may be renewed by it.
 */

ngx_uint_t ngx_http_mcds_head_differs(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_head_same(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);


/*
 * The body of ctx->copy, if that is split.  begin: reads it ahead.  end: it is
 * not wanted.  send: the rest of a content handler whose header was sent.
 */

void ngx_http_mcds_stream_begin(ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_stream_end(ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_stream_send(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);

/*
 * ctx->copy: what is sent as its header, and its body, if that is not split.
 */

ngx_int_t ngx_http_mcds_serve_page(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_buf_t *ngx_http_mcds_serve_body(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);

/* adds a header where nginx's filters look for it; NULL: out of memory */
ngx_table_elt_t *ngx_http_mcds_serve_line(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);

/* content handlers: sends ctx->copy; sends the text of mcds_return */
ngx_int_t ngx_http_mcds_serve_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_return_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_counters_handler(ngx_http_request_t *r);


/* directives that are more than a slot */

char *ngx_http_mcds_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

extern ngx_conf_bitmask_t  ngx_http_mcds_use_stale_masks[];

/* init: of zeroed memory */
void ngx_http_mcds_cache_init_conf(ngx_http_mcds_loc_conf_t *conf);
char *ngx_http_mcds_cache_merge_conf(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *prev, ngx_http_mcds_loc_conf_t *conf);

char *ngx_http_mcds_cache(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_cache_methods(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_period(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_grace(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_lock_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_session_cookies(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_purge(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_hmac_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_cache_invalidate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_key_args(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_ignore_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_heuristic(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_max_size(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_cache_max_variants(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_cache_lock_age(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_cache_uncacheable(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_return(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counters(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * As the setters of nginx's core, whose messages lack the value or the name of
 * the directive.
 *
 * set_handler: makes it the content handler of the location; NGX_CONF_ERROR
 * (logged) if there is one already.  check_handler: the same if there came
 * another one later, when all was read.  check_lock: warns, once, when locks of
 * so many seconds may end before memcached has answered.
 * mask_words: the words of a mask, each with a space before it.
 * check_twice: NGX_ERROR if the n-th word is a parameter that was there before
 * (logged).  parse_msec: milliseconds, or NGX_ERROR; months, too, where nginx's
 * own number of them has 32 bits.
 */

char *ngx_http_mcds_set_num(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_set_msec(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_set_sec(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_set_size(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_set_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
u_char *ngx_http_mcds_mask_words(ngx_conf_t *cf, ngx_conf_bitmask_t *mask);
char *ngx_http_mcds_set_handler(ngx_conf_t *cf, ngx_http_handler_pt handler);
char *ngx_http_mcds_check_handler(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *conf);
void ngx_http_mcds_check_lock(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, time_t ttl, ngx_http_mcds_place_t *place);
ngx_int_t ngx_http_mcds_check_twice(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t n);
int64_t ngx_http_mcds_parse_msec(ngx_str_t *text);

/*
 * compile: a text that may contain variables.  invalid: logs that value is none
 * of the directive's parameters, or, with must, what its value must be.  Both
 * return what a directive returns.
 */

char *ngx_http_mcds_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);
char *ngx_http_mcds_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, char *must);

void ngx_http_mcds_set_place(ngx_conf_t *cf, ngx_http_mcds_place_t *place);
ngx_mcds_pool_t *ngx_http_mcds_find_pool(ngx_http_mcds_main_conf_t *mmcf,
    ngx_str_t *name);


/*
 * For who needs a pool; what is wrong is logged.  choose: the pool of a name,
 * or without a name the only one that there is.  needs_ttl: NGX_ERROR when
 * the items of the pool do not end by themselves.
 */

ngx_mcds_pool_t *ngx_http_mcds_choose_pool(ngx_conf_t *cf, ngx_str_t *name,
    char *directive, ngx_http_mcds_place_t *place);
ngx_int_t ngx_http_mcds_needs_ttl(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, ngx_http_mcds_place_t *place);


/*
 * The zone is made when the configuration has been read and needs it.
 * prepare: the statistics, with or without a zone.  attach: in a worker.
 */

ngx_int_t ngx_http_mcds_zone_prepare(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
ngx_int_t ngx_http_mcds_zone_add(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
void ngx_http_mcds_zone_attach(ngx_http_mcds_main_conf_t *mmcf);


extern ngx_module_t  ngx_http_mcds_module;
extern ngx_module_t  ngx_http_mcds_filter_module;
extern ngx_module_t  ngx_http_mcds_coding_filter_module;


#endif /* _NGX_HTTP_MCDS_MODULE_H_INCLUDED_ */
