
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_HTTP_MCDS_MODULE_H_INCLUDED_
#define _NGX_HTTP_MCDS_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_page.h"
#include "ngx_mcds_stream.h"
#include "ngx_mcds_fresh.h"


/* mcds_cache_grace and mcds_cache_background_update without a bound */
#define NGX_HTTP_MCDS_ALWAYS      NGX_MAX_INT_T_VALUE

/* mcds_ignore_headers */
#define NGX_HTTP_MCDS_IGN_ACCEL   0x0002
#define NGX_HTTP_MCDS_IGN_EXPIRES 0x0004
#define NGX_HTTP_MCDS_IGN_CONTROL 0x0008
#define NGX_HTTP_MCDS_IGN_COOKIE  0x0010
#define NGX_HTTP_MCDS_IGN_VARY    0x0020

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


/* a variable that a counter gives its number to */

typedef struct {
    ngx_str_t                   name;
    ngx_uint_t                  warned;   /* read too early, said once */
    ngx_uint_t                  refused;  /* by= is no number, said once */
} ngx_http_mcds_number_var_t;


typedef struct {
    ngx_array_t                 pools;    /* ngx_mcds_pool_t * */
    ngx_array_t                 numbers;  /* ngx_http_mcds_number_var_t */
    ngx_array_t                 tops;     /* ngx_http_mcds_top_t * */

    ngx_shm_zone_t             *zone;
    size_t                      zone_size;
    ngx_mcds_stats_t            stats;
    ngx_core_conf_t            *core;

    ngx_uint_t                  used;     /* some location counts or caches */
    ngx_uint_t                  cached;   /* some location caches */
    ngx_uint_t                  responses;  /* ... counts answers */
    ngx_uint_t                  inits;    /* ... asks where counters begin */
} ngx_http_mcds_main_conf_t;


/* a place in the configuration, for messages that come later */

typedef struct {
    ngx_str_t                   file;
    ngx_uint_t                  line;
} ngx_http_mcds_place_t;


typedef struct ngx_http_mcds_show_s  ngx_http_mcds_show_t;
typedef struct ngx_http_mcds_top_s   ngx_http_mcds_top_t;


typedef struct {
    ngx_str_t                   use;
    ngx_http_mcds_place_t       use_place;
    ngx_mcds_pool_t            *pool;

    ngx_array_t                *counters; /* ngx_http_mcds_counter_t */
    ngx_http_mcds_place_t       counters_place;

    ngx_str_t                   cache;    /* "on", "off", or a pool's name */
    ngx_http_mcds_place_t       cache_place;
    ngx_mcds_pool_t            *cache_pool;  /* NULL: off */

    ngx_http_complex_value_t   *cache_key;   /* NULL: the default key */
    ngx_array_t                *cache_valid;
    ngx_uint_t                  cache_methods;
    ngx_array_t                *cache_bypass;
    ngx_array_t                *no_cache;
    ngx_array_t                *session_cookies;  /* ngx_str_t */
    size_t                      cache_max_size;

    ngx_flag_t                  cache_lock;
    time_t                      cache_lock_age;
    ngx_msec_t                  cache_lock_timeout;
    ngx_uint_t                  cache_lock_pass;
    ngx_msec_t                  cache_wait;
    ngx_uint_t                  cache_max_waiters;
    ngx_int_t                   cache_grace;      /* ms */
    ngx_int_t                   cache_update;     /* ms */
    ngx_uint_t                  cache_ignore;     /* NGX_HTTP_MCDS_IGN_* */
    ngx_uint_t                  cache_heuristic;  /* percent, 0: off */
    time_t                      cache_heuristic_max;
    ngx_flag_t                  cache_revalidate;
    ngx_uint_t                  cache_use_stale;  /* NGX_HTTP_UPSTREAM_FT_* */

    ngx_http_complex_value_t   *return_text;
    ngx_uint_t                  return_code;

    ngx_http_mcds_show_t       *show;     /* mcds_counters */
    ngx_http_mcds_place_t       show_place;
} ngx_http_mcds_loc_conf_t;


typedef struct ngx_http_mcds_ctx_s      ngx_http_mcds_ctx_t;
typedef struct ngx_http_mcds_counter_s  ngx_http_mcds_counter_t;
typedef struct ngx_http_mcds_visitor_s  ngx_http_mcds_visitor_t;
typedef struct ngx_http_mcds_number_s   ngx_http_mcds_number_t;
typedef struct ngx_http_mcds_numbers_s  ngx_http_mcds_numbers_t;
typedef struct ngx_http_mcds_store_s    ngx_http_mcds_store_t;
typedef struct ngx_http_mcds_piece_s    ngx_http_mcds_piece_t;


/*
 * Of one request or subrequest.  Lives in a cleanup record of the pool, so
 * that it outlasts internal redirects, which clear r->ctx.
 */

struct ngx_http_mcds_ctx_s {
    ngx_http_request_t         *request;
    ngx_event_t                 resume;
    ngx_uint_t                  waiting;  /* answers to come */

    ngx_http_mcds_numbers_t    *numbers;

    ngx_http_mcds_loc_conf_t   *conf;     /* of the location that has asked */
    ngx_str_t                   key;
    ngx_mcds_seat_t             seat;
    ngx_uint_t                  outcome;  /* ngx_mcds_page_e */
    ngx_mcds_copy_t            *copy;     /* what there was, or is */
    ngx_mcds_stream_t          *stream;   /* of its body, if that is split */
    ngx_http_mcds_piece_t      *pieces;   /* of the body, on their way out */
    ngx_http_mcds_store_t      *store;    /* of the filter */
    ngx_chain_t                *held;     /* to be stored later */
    ngx_chain_t                *detached; /* copies of what a client gets */
    ngx_chain_t               **detached_last;
    ngx_chain_t                *detach_free;
    uint64_t                    cas;      /* for a store without a lock */
    ngx_msec_t                  start;    /* of the build */

    ngx_uint_t                  status;   /* ngx_http_mcds_status_e */
    ngx_uint_t                  failed_status;  /* of an upstream, for which
                                                   an error page stands */

    unsigned                    asked:1;     /* the cache, once */
    unsigned                    entered:1;   /* asked to build */
    unsigned                    behind:1;    /* a copy was sent to build */
    unsigned                    error_page:1;  /* led here, to the page */
    unsigned                    decided:1;   /* serve, fill or pass */
    unsigned                    serving:1;
    unsigned                    storing:1;   /* what comes may be stored,
                                                nobody waits for it */
    unsigned                    judged:1;    /* ... and was looked at */
    unsigned                    replace:1;   /* to be stored, whatever there is
                                                now */
    unsigned                    refresh:1;   /* detached, has no client */
    unsigned                    detaching:1; /* "detached" will be freed */
    unsigned                    streamed:1;  /* "stream" will be freed */
    unsigned                    streaming:1; /* the body is being sent */
    unsigned                    validating:1; /* the origin is asked whether
                                                "copy" has changed */
    unsigned                    instead:1;   /* "copy" in place of an answer */
    unsigned                    instead_sent:1;
    unsigned                    authorization:1;
};


/*
 * Request.  get_ctx: the context of r, or NULL.  create_ctx: a new one, NULL
 * when out of memory.  wake: an answer has come; the request goes on, from a
 * posted event, when it was the last one.
 */

ngx_http_mcds_ctx_t *ngx_http_mcds_get_ctx(ngx_http_request_t *r);
ngx_http_mcds_ctx_t *ngx_http_mcds_create_ctx(ngx_http_request_t *r);
void ngx_http_mcds_wake(ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_handler(ngx_http_request_t *r);


/*
 * Counters.  start: begins those of r's location that have not counted yet.
 * log: the handler of the log phase.  cleanup: forgets what has not been
 * answered.  init_filters: to be called when mcds_counter needs them.
 */

char *ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_mcds_counters_start(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_counters_log(ngx_http_request_t *r);
void ngx_http_mcds_counters_cleanup(ngx_http_mcds_ctx_t *ctx);
void ngx_http_mcds_counter_init_filters(void);


/*
 * Cache.  start: NGX_OK the page was asked for, or the request has nothing to
 * ask; NGX_ERROR out of memory.  decide: after an answer; NGX_AGAIN
 * another is to come, NGX_OK serve ctx->copy, NGX_DECLINED go on to the
 * content handler, otherwise an HTTP status to end with.
 */

ngx_int_t ngx_http_mcds_cache_start(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
ngx_int_t ngx_http_mcds_cache_add_variables(ngx_conf_t *cf);
uint64_t ngx_http_mcds_now(void);

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

/* content handlers: sends ctx->copy; sends the text of mcds_return */
ngx_int_t ngx_http_mcds_serve_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_return_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_counters_handler(ngx_http_request_t *r);


/* directives that are more than a slot */

char *ngx_http_mcds_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

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
char *ngx_http_mcds_cache_lock_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_session_cookies(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_ignore_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_heuristic(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_cache_max_size(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_cache_lock_age(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_mcds_return(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counters(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

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


#endif /* _NGX_HTTP_MCDS_MODULE_H_INCLUDED_ */
