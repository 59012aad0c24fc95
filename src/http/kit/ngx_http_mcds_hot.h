
/*
 * Copyright (C) mcds authors
 *
 * The hottest keys of pages and counters, for mcds_status; see ngx_mcds_hot.h.
 */


#ifndef _NGX_HTTP_MCDS_HOT_H_INCLUDED_
#define _NGX_HTTP_MCDS_HOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_hot.h"


/*
 * start: in a worker, with the places that ngx_mcds_hot_zone() has made, or
 * NULL if nobody can ask for the keys.  add: a request has to do with that key;
 * note: whose number is this.  Both do nothing where this worker has no place.
 */

void ngx_http_mcds_hot_start(ngx_mcds_hot_place_t *places, ngx_log_t *log);
void ngx_http_mcds_hot_add(ngx_uint_t kind, ngx_str_t *key);
void ngx_http_mcds_hot_note(ngx_uint_t kind, ngx_str_t *key, uint64_t value);


#endif /* _NGX_HTTP_MCDS_HOT_H_INCLUDED_ */
