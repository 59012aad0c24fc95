
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_HTTP_MCDS_STATUS_H_INCLUDED_
#define _NGX_HTTP_MCDS_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat.h"


/* text that grows, in buffers of the request's pool */

typedef struct {
    ngx_pool_t               *pool;
    ngx_chain_t              *first;
    ngx_chain_t              *last;
    off_t                     size;
    ngx_uint_t                failed;   /* out of memory, nothing is added */
} ngx_http_mcds_status_text_t;


/*
 * room: where n more bytes may be written; NULL when out of memory.  add: what
 * ends at end was written there.
 */

u_char *ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n);
void ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end);


/* stats is NULL if there are none */

void ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);


/* the hottest keys, as "hot":{...} */

void ngx_http_mcds_status_hot(ngx_http_mcds_status_text_t *text);


extern ngx_module_t  ngx_http_mcds_status_module;


#endif /* _NGX_HTTP_MCDS_STATUS_H_INCLUDED_ */
