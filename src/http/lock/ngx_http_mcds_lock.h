
/*
 * Copyright (C) mcds authors
 *
 * The module of locks: mcds_lock, for requests that may run one at a time only,
 * and mcds_lock_api, for programs that ask through HTTP.
 */


#ifndef _NGX_HTTP_MCDS_LOCK_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_mcds_mutex.h"


/* mcds_lock */

#define NGX_HTTP_MCDS_LOCK_PASS   0

typedef struct {
    ngx_http_complex_value_t    key;
    uint32_t                    ttl;          /* seconds */
    ngx_msec_t                  wait;
    ngx_uint_t                  waiters;
    ngx_uint_t                  status;       /* when somebody else has it */
    ngx_uint_t                  unavailable;  /* the same without memcached,
                                                 or LOCK_PASS */
    time_t                      retry;
    char                       *retry_after;  /* its text, or NULL */
} ngx_http_mcds_lock_conf_t;


/* mcds_lock_api */

typedef struct {
    uint32_t                    ttl;
    uint32_t                    max_ttl;
    ngx_msec_t                  max_wait;
} ngx_http_mcds_locks_conf_t;


typedef struct {
    ngx_mcds_pool_t            *pool;
    ngx_http_mcds_lock_conf_t  *lock;         /* NULL: off */
    ngx_http_mcds_locks_conf_t *locks;

    ngx_mcds_stat_t            *stat;         /* of the lock */
    ngx_mcds_stat_t            *locks_stat;
    ngx_str_t                   name;         /* of the location of locks */
    char                       *directive;    /* that needs the pool */
    ngx_http_mcds_place_t       place;
    ngx_http_mcds_loc_conf_t   *mlcf;
} ngx_http_mcds_lock_loc_conf_t;


typedef struct {
    ngx_array_t                 confs;        /* of those that need a pool,
                                        ngx_http_mcds_lock_loc_conf_t * */
    ngx_uint_t                  locked;       /* some location has mcds_lock */
} ngx_http_mcds_lock_main_conf_t;


/*
 * lock_handler: of the precontent phase: behind access control, so that who is
 * refused takes no lock; before counters and the page, so that who does not get
 * the lock is not counted; and where a request can wait without being sent
 * anywhere.
 */

ngx_int_t ngx_http_mcds_lock_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_lock_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_mcds_locks_handler(ngx_http_request_t *r);


extern ngx_http_mcds_feature_t  ngx_http_mcds_lock_feature;

extern ngx_module_t  ngx_http_mcds_lock_module;


#endif /* _NGX_HTTP_MCDS_LOCK_H_INCLUDED_ */
