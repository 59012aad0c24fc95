
/*
 * Copyright (C) mcds authors
 *
 * Locks: mcds_lock, for requests that must run one at a time, and
 * mcds_lock_api, for programs that use locks through HTTP.
 */


#ifndef _NGX_HTTP_MCDS_LOCK_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_mcds_lock.h"


/*
 * a value of the field "unavailable", instead of an HTTP status: mcds_lock lets
 * requests pass without a lock if memcached is unavailable
 */

#define NGX_HTTP_MCDS_LOCK_PASS   0

typedef struct {
    ngx_http_complex_value_t    key;
    uint32_t                    ttl;          /* seconds after which the lock
                                                 expires */
    ngx_msec_t                  wait;
    ngx_uint_t                  waiters;
    ngx_uint_t                  status;       /* status of the response to a
                                                 request if another owner holds
                                                 the lock */
    ngx_uint_t                  unavailable;  /* status of the response to a
                                                 request if memcached is
                                                 unavailable, or
                                                 NGX_HTTP_MCDS_LOCK_PASS */
    time_t                      retry;
    char                       *retry_after;  /* the seconds "retry" as the text
                                                 of the header Retry-After, or
                                                 NULL */
    ngx_http_mcds_place_t       place;
} ngx_http_mcds_lock_conf_t;


/* the parameters of the directive mcds_lock_api */

typedef struct {
    uint32_t                    ttl;
    uint32_t                    max_ttl;
    ngx_msec_t                  max_wait;
    ngx_http_mcds_place_t       place;
} ngx_http_mcds_lock_api_conf_t;


typedef struct {
    ngx_mcds_pool_t                *pool;
    ngx_http_mcds_lock_conf_t      *lock;     /* the parameters of the
                                                 location's mcds_lock; NULL: it
                                                 is "off" */
    ngx_http_mcds_lock_api_conf_t  *lock_api;

    ngx_mcds_stat_t                *stat;     /* statistics of the location's
                                                 mcds_lock */
    ngx_mcds_stat_t                *lock_api_stat;
    ngx_str_t                       name;     /* the name, in statistics, of a
                                                 location with mcds_lock_api */
} ngx_http_mcds_lock_loc_conf_t;


typedef struct {
    ngx_array_t                 confs;        /* configurations of locations,
                                                 servers and the http block
                                                 that need a pool of
                                                 memcached servers, array of
                                                 ngx_http_mcds_lock_loc_conf_t
                                                 * */
    ngx_uint_t                  locked;       /* 1: at least one location of the
                                                 configuration has mcds_lock */
} ngx_http_mcds_lock_main_conf_t;


/*
 * The handler of mcds_lock in the precontent phase.  This phase runs after
 * access control, so that a refused request takes no lock, and before mcds
 * counts the request or sends a page, so that a request without its lock is not
 * counted.  In this phase a request can wait without a content handler.
 */

ngx_int_t ngx_http_mcds_lock_handler(ngx_http_request_t *r);

/* Call this in preconfiguration: adds the variables of mcds_lock. */

ngx_int_t ngx_http_mcds_lock_add_variables(ngx_conf_t *cf);

/* the content handler of the directive mcds_lock_api */

ngx_int_t ngx_http_mcds_lock_api_handler(ngx_http_request_t *r);


extern ngx_http_mcds_feature_t  ngx_http_mcds_lock_feature;

extern ngx_module_t  ngx_http_mcds_lock_module;


#endif /* _NGX_HTTP_MCDS_LOCK_H_INCLUDED_ */
