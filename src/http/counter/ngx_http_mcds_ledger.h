
/*
 * Copyright (C) mcds authors
 *
 * The ledger of counters in the zone of this host.
 */


#ifndef _NGX_HTTP_MCDS_LEDGER_H_INCLUDED_
#define _NGX_HTTP_MCDS_LEDGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_ledger.h"


/*
 * zone: makes it, or takes over the one that there is; *data is in shared
 * memory, and NULL in the beginning; copies of pages make room for it.  init:
 * a single process gets another configuration.  start: in a worker.  exit: in
 * the master, when all workers are gone.
 */

void ngx_http_mcds_ledger_zone(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, void **data, ngx_log_t *log);
ngx_int_t ngx_http_mcds_ledger_init(ngx_cycle_t *cycle);
void ngx_http_mcds_ledger_start(ngx_http_mcds_main_conf_t *mmcf,
    ngx_http_mcds_counter_main_t *nmcf);
void ngx_http_mcds_ledger_exit(ngx_cycle_t *cycle);


#endif /* _NGX_HTTP_MCDS_LEDGER_H_INCLUDED_ */
