
/*
 * Copyright (C) mcds authors
 *
 * What this host has counted, posted to a location now and then.
 */


#ifndef _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_
#define _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"


/* adds to what is posted; key: that of the item */

void ngx_http_mcds_writeback_add(ngx_http_mcds_writeback_t *wb,
    ngx_str_t *key, int64_t delta);


/*
 * The directive.  merge: finds out where that of a level leads to.  start: in
 * a worker, when there is a ledger, or none.  exit: in the master, at last.
 */

char *ngx_http_mcds_counter_writeback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_writeback_merge(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
void ngx_http_mcds_writeback_start(ngx_http_mcds_counter_main_t *nmcf,
    ngx_uint_t generation);
void ngx_http_mcds_writeback_exit(ngx_http_mcds_counter_main_t *nmcf,
    ngx_log_t *log);


#endif /* _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_ */
