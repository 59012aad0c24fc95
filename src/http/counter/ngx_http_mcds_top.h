
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_top: a list of the keys with the highest counts.
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
    ngx_http_mcds_place_t       place;    /* of the first directive that names
                                             the list */
    ngx_str_t                   pool;     /* name of the pool, or empty */
    ngx_str_t                   prefix;   /* cut off shown keys */
    ngx_mcds_top_t              top;
    ngx_uint_t                  declared; /* mcds_counter_top has declared the
                                             list */
};


/*
 * The list of that name, created by the first directive that names it; a
 * mcds_counter_top may declare the list later.  NULL (logged) on an error.
 */

ngx_http_mcds_top_t *ngx_http_mcds_top_ref(ngx_conf_t *cf, ngx_str_t *name);

/*
 * Call this when the configuration has been read: NGX_ERROR (logged) if a list
 * is not declared, or if no pool can be chosen for it.
 */

ngx_int_t ngx_http_mcds_top_init(ngx_conf_t *cf,
    ngx_http_mcds_counter_main_t *nmcf);

/* the setter of mcds_counter_top */

char *ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* call this when a worker starts: starts the lists */

void ngx_http_mcds_top_start(ngx_http_mcds_counter_main_t *nmcf);

/* call this when a worker exits, after the pools have been left */

void ngx_http_mcds_top_exit(ngx_http_mcds_counter_main_t *nmcf);


/*
 * Counts a key of a counter, without the period's suffix; the caller does not
 * wait for memcached.
 */

void ngx_http_mcds_top_count(ngx_http_mcds_top_t *top, ngx_str_t *key,
    uint64_t delta);


/*
 * The list that this worker knows, as JSON in memory of the pool; an empty
 * text if the list is not known yet.  all: an object with the window and the
 * total, whose members are null if the list is not known; otherwise the array
 * of keys only.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_top_json(ngx_http_mcds_top_t *top, ngx_pool_t *pool,
    ngx_uint_t all, ngx_str_t *text);


#endif /* _NGX_HTTP_MCDS_TOP_H_INCLUDED_ */
