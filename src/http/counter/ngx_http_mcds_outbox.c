
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_replay.h"
#include "ngx_http_mcds_zone.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_outbox.h"


/*
 * the outbox, which keeps counts that memcached does not have yet, takes one
 * fourth of the shared memory zone (mcds_zone)
 */
#define NGX_HTTP_MCDS_OUTBOX_PART   4

/*
 * the smallest size, in bytes, that is tried for the outbox (counts that
 * memcached does not have yet), if the shared memory zone (mcds_zone) has no
 * free fourth in one piece: the size is halved until there is room
 */
#define NGX_HTTP_MCDS_OUTBOX_LEAST  16384


static ngx_uint_t  ngx_http_mcds_outbox_started;


void
ngx_http_mcds_outbox_zone(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, void **data, ngx_log_t *log)
{
    size_t                         size;
    u_char                        *addr;
    ngx_http_mcds_counter_main_t  *nmcf;

    nmcf = mmcf->main_conf[ngx_http_mcds_counter_module.ctx_index];

    if (*data) {
        nmcf->outbox = *data;

        ngx_mcds_outbox_sweep(nmcf->outbox);
        return;
    }

    if (!nmcf->counted) {
        return;
    }

    size = mmcf->zone->shm.size / NGX_HTTP_MCDS_OUTBOX_PART;

    /*
     * a shared memory zone that was in use before counters were configured may
     * have no free quarter in one piece: smaller sizes are tried
     */

    do {
        addr = ngx_http_mcds_zone_room(shpool, size);
    } while (addr == NULL && (size /= 2) >= NGX_HTTP_MCDS_OUTBOX_LEAST);

    if (addr) {
        *data = ngx_mcds_outbox_init(addr, size, &shpool->mutex);
    }

    if (*data == NULL) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "\"mcds_zone\" is too small to remember counters");
    }

    nmcf->outbox = *data;
}


ngx_int_t
ngx_http_mcds_outbox_init(ngx_cycle_t *cycle)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    /*
     * if this process has not started the outbox (the counts that memcached
     * does not have yet), each worker starts the outbox later
     */

    if (!ngx_http_mcds_outbox_started) {
        return NGX_OK;
    }

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf) {
        ngx_http_mcds_outbox_start(mmcf,
            ngx_http_cycle_get_module_main_conf(cycle,
                                                ngx_http_mcds_counter_module));

    } else {
        ngx_mcds_outbox = NULL;
    }

    return NGX_OK;
}


void
ngx_http_mcds_outbox_start(ngx_http_mcds_main_conf_t *mmcf,
    ngx_http_mcds_counter_main_t *nmcf)
{
    if (!ngx_mcds_is_worker()) {
        return;
    }

    ngx_http_mcds_outbox_started = 1;

    ngx_mcds_outbox = nmcf->outbox;

    ngx_mcds_replay_start(&mmcf->pools, mmcf->stats.generation);

    if (ngx_http_mcds_writeback_hooks) {
        ngx_http_mcds_writeback_hooks->start(mmcf);
    }
}


void
ngx_http_mcds_outbox_exit(ngx_cycle_t *cycle)
{
    uint64_t                       left;
    ngx_http_mcds_main_conf_t     *mmcf;
    ngx_http_mcds_counter_main_t  *nmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf == NULL) {
        return;
    }

    nmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mcds_counter_module);

    if (nmcf->outbox == NULL) {
        return;
    }

    ngx_mcds_replay_exit(nmcf->outbox, &mmcf->pools, cycle->log);

    if (ngx_http_mcds_writeback_hooks) {
        ngx_http_mcds_writeback_hooks->exit(mmcf, nmcf->outbox, cycle->log);
    }

    left = ngx_mcds_outbox_forget_all(nmcf->outbox);

    if (left) {
        ngx_log_error(NGX_LOG_ERR, cycle->log, 0,
                      "counts are lost, %uL: the configuration no longer has "
                      "their pool or \"mcds_counter_writeback\"", left);
    }
}
