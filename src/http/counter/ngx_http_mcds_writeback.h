
/*
 * Copyright (C) mcds authors
 *
 * Posts the counts of this host to a location of nginx, at intervals.
 */


#ifndef _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_
#define _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"


/* adds delta to the counts that are posted for the item's key */

void ngx_http_mcds_writeback_add(ngx_http_mcds_writeback_t *wb,
    ngx_str_t *key, int64_t delta);


/* the setter of mcds_counter_writeback */

char *ngx_http_mcds_counter_writeback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Call this when a location is merged: resolves its writeback to one
 * destination for each server and URI.  Returns NGX_CONF_OK or NGX_CONF_ERROR
 * (logged).
 */

char *ngx_http_mcds_writeback_merge(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);

/* call this when a worker starts, after the ledger */

void ngx_http_mcds_writeback_start(ngx_http_mcds_counter_main_t *nmcf,
    ngx_uint_t generation);

/* call this when the master exits: logs the counts that were not posted */

void ngx_http_mcds_writeback_exit(ngx_http_mcds_counter_main_t *nmcf,
    ngx_log_t *log);


#endif /* _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_ */
