
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_top, the most viewed keys of counters.
 */


#ifndef _NGX_HTTP_MCDS_TOP_H_INCLUDED_
#define _NGX_HTTP_MCDS_TOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_top.h"


struct ngx_http_mcds_top_s {
    ngx_str_t                   name;
    ngx_http_mcds_place_t       place;    /* where it was named first */
    ngx_str_t                   pool;     /* its name, or empty */
    ngx_str_t                   prefix;   /* not shown */
    ngx_mcds_top_t              top;
    ngx_uint_t                  declared; /* by mcds_counter_top */
};


/*
 * While the configuration is read.  ref: the list of that name, which may be
 * declared later; NULL when that cannot be (logged).  init: when all was
 * read; each must be declared now.
 */

ngx_http_mcds_top_t *ngx_http_mcds_top_ref(ngx_conf_t *cf, ngx_str_t *name);
ngx_int_t ngx_http_mcds_top_init(ngx_conf_t *cf,
    ngx_http_mcds_counter_main_t *nmcf);
char *ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* when the worker starts, and when it exits and its pools were left */

void ngx_http_mcds_top_start(ngx_http_mcds_counter_main_t *nmcf);
void ngx_http_mcds_top_exit(ngx_http_mcds_counter_main_t *nmcf);


/* counts a key of a counter, without what its window adds; nobody waits */

void ngx_http_mcds_top_count(ngx_http_mcds_top_t *top, ngx_str_t *key,
    uint64_t delta);


/*
 * What is known, as JSON in memory of the pool; null if nothing is.  all: an
 * object with the window and the total, too, also if nothing is known,
 * otherwise the array of keys alone.
 */

ngx_int_t ngx_http_mcds_top_json(ngx_http_mcds_top_t *top, ngx_pool_t *pool,
    ngx_uint_t all, ngx_str_t *text);


#endif /* _NGX_HTTP_MCDS_TOP_H_INCLUDED_ */
