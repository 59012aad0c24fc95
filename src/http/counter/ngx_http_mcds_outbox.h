
/*
 * Copyright (C) mcds authors
 *
 * The outbox of counters in the shared memory zone: counts that memcached, or
 * the location of mcds_counter_writeback, has not received yet.
 */


#ifndef _NGX_HTTP_MCDS_OUTBOX_H_INCLUDED_
#define _NGX_HTTP_MCDS_OUTBOX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_outbox.h"


/*
 * The counters' handler for the shared memory zone (mcds_zone).  *data is the
 * outbox, the part of the zone that keeps counts which memcached does not have
 * yet.  If *data is NULL, creates the outbox, and may drop copies of pages to
 * make room; *data stays NULL without counters, or (logged) without room.
 */

void ngx_http_mcds_outbox_zone(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, void **data, ngx_log_t *log);

/*
 * The init_module handler: after a reload, a single process ("master_process
 * off") uses the outbox (the counts that memcached does not have yet) of the
 * new configuration.  Returns NGX_OK.
 */

ngx_int_t ngx_http_mcds_outbox_init(ngx_cycle_t *cycle);

/*
 * Call this when a worker starts: the worker sends the counts that are left in
 * the outbox, those of counters to memcached and those of
 * mcds_counter_writeback to their locations.
 */

void ngx_http_mcds_outbox_start(ngx_http_mcds_main_conf_t *mmcf,
    ngx_http_mcds_counter_main_t *nmcf);

/*
 * Call this when the master exits, after all workers: logs the counts that were
 * not sent and are lost.
 */

void ngx_http_mcds_outbox_exit(ngx_cycle_t *cycle);


#endif /* _NGX_HTTP_MCDS_OUTBOX_H_INCLUDED_ */
