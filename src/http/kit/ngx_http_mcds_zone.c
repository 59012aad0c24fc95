
/*
 * Copyright (C) mcds authors
 *
 * mcds_zone: the memory that all workers of this nginx share.  The zone
 * outlives a configuration: after a reload, two generations of workers use the
 * zone at the same address.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_past.h"
#include "ngx_mcds_page.h"
#include "ngx_http_mcds_hotkeys.h"
#include "ngx_http_mcds_zone.h"
#include "ngx_http_mcds_task.h"


#define NGX_HTTP_MCDS_ZONE_SIZE   (8 * 1024 * 1024)
#define NGX_HTTP_MCDS_SEQUENCES   1024

/*
 * the version of the layout of the shared memory zone (mcds_zone); increase it
 * when the layout changes: a new binary of nginx then drops the old content
 */
#define NGX_HTTP_MCDS_ZONE_LAYOUT 11

/*
 * Limits in the shared memory zone (mcds_zone), each 1/n of its size.  All
 * statistics together may take up to STATS; only statistics of memcached
 * servers may be added beyond STATS, up to SERVERS, so that other statistics
 * leave room for them.  HOTKEYS limits the hot keys (those requested most
 * often) and, separately, the statistics of the last hour.  The rest of the
 * zone is for counts that memcached does not have yet, and for copies of pages.
 */
#define NGX_HTTP_MCDS_ZONE_STATS    4
#define NGX_HTTP_MCDS_ZONE_SERVERS  2
#define NGX_HTTP_MCDS_ZONE_HOTKEYS  5


/*
 * the memory of each feature, such as the cache, in the shared memory zone
 * (mcds_zone) is found by the feature's name, since workers of another version
 * may have other features
 */

#define NGX_HTTP_MCDS_SLOTS       8
#define NGX_HTTP_MCDS_SLOT_NAME   16

typedef struct {
    u_char                   name[NGX_HTTP_MCDS_SLOT_NAME];
    void                    *data;
} ngx_http_mcds_slot_t;


typedef struct {
    ngx_uint_t               layout;
    ngx_atomic_t             sequences[NGX_HTTP_MCDS_SEQUENCES];

    time_t                   since;
    ngx_uint_t               running;    /* generation of the configuration
                                            that nginx runs, one more with each
                                            reload; 0 at first */
    ngx_uint_t               generation; /* generation of the last
                                            configuration that was read; nginx
                                            may have refused it */
    ngx_mcds_stat_shared_t  *stats[NGX_MCDS_STAT_FAMILIES];
                                         /*
                                          * a list of statistics for each
                                          * family (servers, counters, ...),
                                          * including statistics that the
                                          * configuration no longer has
                                          */
    size_t                   taken;      /* bytes of the shared memory zone
                                            (mcds_zone) that all statistics
                                            take */

    ngx_http_mcds_slot_t         slots[NGX_HTTP_MCDS_SLOTS];
    ngx_mcds_hotkeys_place_t    *hotkeys;
                                         /* the keys requested most often (hot
                                            keys), a list with a place for each
                                            worker, or NULL */
    ngx_mcds_past_t             *past;   /* the statistics of the last hour, or
                                            NULL */
    ngx_mcds_local_t            *local;  /* copies of pages in shared memory;
                                            NULL: no room for them */
} ngx_http_mcds_shared_t;


static ngx_int_t ngx_http_mcds_zone_init(ngx_shm_zone_t *zone, void *data);
static void ngx_http_mcds_zone_features(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, ngx_log_t *log);
static void ngx_http_mcds_zone_stats(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, ngx_log_t *log);
static void ngx_http_mcds_zone_family(ngx_array_t *list, ngx_uint_t family,
    ngx_slab_pool_t *shpool, ngx_uint_t workers, ngx_log_t *log);
static ngx_mcds_stat_shared_t *ngx_http_mcds_zone_stat(
    ngx_slab_pool_t *shpool, ngx_uint_t family, u_char *id);
static ngx_mcds_stat_shared_t *ngx_http_mcds_zone_alloc(
    ngx_slab_pool_t *shpool, ngx_uint_t family);
static ngx_mcds_stat_shared_t *ngx_http_mcds_zone_reuse(
    ngx_http_mcds_shared_t *shared, ngx_uint_t family, ngx_uint_t age);
static ngx_int_t ngx_http_mcds_zone_gauges(ngx_slab_pool_t *shpool,
    ngx_mcds_stat_shared_t *stat, ngx_uint_t workers);
static void *ngx_http_mcds_zone_memory(ngx_slab_pool_t *shpool,
    size_t size, ngx_uint_t part);


static ngx_str_t  ngx_http_mcds_zone_name = ngx_string("mcds");


char *
ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_main_conf_t *mmcf = conf;

    ssize_t     size;
    ngx_str_t  *value;

    if (mmcf->zone_size) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size < (ssize_t) (16 * ngx_pagesize)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" in \"%V\", it must be at "
                           "least %uz", &value[1], &cmd->name,
                           16 * ngx_pagesize);
        return NGX_CONF_ERROR;
    }

    mmcf->zone_size = size;

    return NGX_CONF_OK;
}


/*
 * Adds the memcached servers to the statistics of the configuration.  Without a
 * shared memory zone (mcds_zone), the structures of all statistics exist, too,
 * but their counts are never shown.
 */

ngx_int_t
ngx_http_mcds_zone_prepare(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t         i;
    ngx_array_t       *servers;
    ngx_mcds_pool_t  **pools;

    pools = mmcf->pools.elts;
    servers = &mmcf->stats.families[NGX_MCDS_STAT_SERVERS];

    for (i = 0; i < mmcf->pools.nelts; i++) {
        if (ngx_mcds_pool_stats(pools[i], servers) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    mmcf->stats.generation = 1;
    mmcf->stats.since = ngx_time();
    mmcf->stats.loaded = ngx_time();

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_zone_check(ngx_conf_t *cf)
{
    ngx_uint_t        i;
    ngx_shm_zone_t   *zone;
    ngx_list_part_t  *part;

    part = &cf->cycle->shared_memory.part;
    zone = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return NGX_OK;
            }

            part = part->next;
            zone = part->elts;
            i = 0;
        }

        if (zone[i].tag != &ngx_http_mcds_module
            && zone[i].shm.name.len == ngx_http_mcds_zone_name.len
            && ngx_strncmp(zone[i].shm.name.data, ngx_http_mcds_zone_name.data,
                           ngx_http_mcds_zone_name.len)
               == 0)
        {
            break;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "the shared memory zone \"%V\" is already declared "
                       "for a different use than \"mcds_zone\"",
                       &ngx_http_mcds_zone_name);

    return NGX_ERROR;
}


ngx_int_t
ngx_http_mcds_zone_add(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    mmcf->zone = ngx_shared_memory_add(cf, &ngx_http_mcds_zone_name,
                                       mmcf->zone_size
                                           ? mmcf->zone_size
                                           : NGX_HTTP_MCDS_ZONE_SIZE,
                                       &ngx_http_mcds_module);
    if (mmcf->zone == NULL) {
        return NGX_ERROR;
    }

    mmcf->zone->init = ngx_http_mcds_zone_init;
    mmcf->zone->data = mmcf;

    /*
     * the number of workers, which the core's configuration has, is known only
     * when the shared memory zone (mcds_zone) is initialized
     */

    mmcf->core = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                                  ngx_core_module);

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_zone_init(ngx_shm_zone_t *zone, void *data)
{
    size_t                      limit;
    ngx_uint_t                  missing;
    ngx_slab_pool_t            *shpool;
    ngx_http_mcds_shared_t     *shared;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = zone->data;
    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    /*
     * nginx's own message for a shared memory zone (mcds_zone) without free
     * memory is turned off: it would not say which statistics do not fit
     */

    shpool->log_nomem = 0;

    shared = NULL;

    if (data || zone->shm.exists) {

        /*
         * the shared memory zone (mcds_zone) of the previous cycle is used
         * again
         */

        shared = shpool->data;

        if (shared && shared->layout != NGX_HTTP_MCDS_ZONE_LAYOUT) {
            shared = NULL;
        }
    }

    if (shared == NULL) {
        shared = ngx_slab_calloc(shpool, sizeof(ngx_http_mcds_shared_t));
        if (shared == NULL) {
            ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                          "\"mcds_zone\" of %uz bytes is too small",
                          zone->shm.size);
            return NGX_ERROR;
        }

        shared->layout = NGX_HTTP_MCDS_ZONE_LAYOUT;
        shared->since = ngx_time();
        shared->local = ngx_mcds_local_create(shpool);
        shpool->data = shared;
    }

    mmcf->stats.workers = mmcf->core->master ? mmcf->core->worker_processes : 1;

    if (mmcf->status) {
        limit = zone->shm.size / NGX_HTTP_MCDS_ZONE_HOTKEYS;

        missing = ngx_mcds_hotkeys_zone(&shared->hotkeys, mmcf->stats.workers,
                                        limit, ngx_http_mcds_zone_room, shpool);
        if (missing) {
            ngx_log_error(NGX_LOG_WARN, zone->shm.log, 0,
                          "\"mcds_zone\" is too small for the hottest keys "
                          "of all workers: %ui of %ui are left out", missing,
                          mmcf->stats.workers);
        }

        if (shared->past == NULL && ngx_mcds_past_size() <= limit) {
            shared->past = ngx_http_mcds_zone_room(shpool,
                                                   ngx_mcds_past_size());
        }
    }

    ngx_http_mcds_zone_stats(mmcf, shpool, zone->shm.log);
    ngx_http_mcds_zone_features(mmcf, shpool, zone->shm.log);

    return NGX_OK;
}


static void
ngx_http_mcds_zone_features(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, ngx_log_t *log)
{
    u_char                      name[NGX_HTTP_MCDS_SLOT_NAME];
    ngx_uint_t                  i, n;
    ngx_http_mcds_slot_t       *slot;
    ngx_http_mcds_shared_t     *shared;
    ngx_http_mcds_feature_t   **feature;

    shared = shpool->data;
    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->zone == NULL) {
            continue;
        }

        ngx_memzero(name, NGX_HTTP_MCDS_SLOT_NAME);
        ngx_memcpy(name, feature[i]->name.data, feature[i]->name.len);

        for (n = 0; n < NGX_HTTP_MCDS_SLOTS; n++) {
            slot = &shared->slots[n];

            if (slot->name[0] == '\0') {
                ngx_memcpy(slot->name, name, NGX_HTTP_MCDS_SLOT_NAME);
            }

            if (ngx_memcmp(slot->name, name, NGX_HTTP_MCDS_SLOT_NAME) == 0) {
                feature[i]->zone(mmcf, shpool, &slot->data, log);
                break;
            }
        }
    }
}


static void
ngx_http_mcds_zone_stats(ngx_http_mcds_main_conf_t *mmcf,
    ngx_slab_pool_t *shpool, ngx_log_t *log)
{
    ngx_uint_t               i;
    ngx_mcds_stats_t        *all;
    ngx_http_mcds_shared_t  *shared;

    all = &mmcf->stats;
    shared = shpool->data;

    shared->generation = shared->running + 1;

    all->generation = shared->generation;
    all->since = shared->since;

    for (i = 0; i < NGX_MCDS_STAT_FAMILIES; i++) {
        ngx_http_mcds_zone_family(&all->families[i], i, shpool, all->workers,
                                  log);
    }
}


static void
ngx_http_mcds_zone_family(ngx_array_t *list, ngx_uint_t family,
    ngx_slab_pool_t *shpool, ngx_uint_t workers, ngx_log_t *log)
{
    u_char                    id[NGX_MCDS_STAT_ID];
    ngx_uint_t                i, missing;
    ngx_mcds_stat_t         **stats, *stat;
    ngx_mcds_stat_shared_t   *ss;

    stats = list->elts;
    missing = 0;

    for (i = 0; i < list->nelts; i++) {
        stat = stats[i];
        ngx_mcds_stat_id(stat, id);

        ss = ngx_http_mcds_zone_stat(shpool, family, id);

        if (ss == NULL
            || (family == NGX_MCDS_STAT_SERVERS
                && ngx_http_mcds_zone_gauges(shpool, ss, workers) != NGX_OK))
        {
            missing++;
            continue;
        }

        stat->shared = ss;
        stat->owner = ss->owner;

        if (family == NGX_MCDS_STAT_SERVERS) {
            stat->gauges = ss->gauges;
            stat->ngauges = workers;
        }
    }

    if (missing) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "\"mcds_zone\" is too small for statistics of all "
                      "%s: %ui of %ui are left out",
                      ngx_mcds_stat_family(family), missing, list->nelts);
    }
}


/*
 * finds the statistics of a location, server, counter or the like in the shared
 * memory zone (mcds_zone) by their id, or adds them; NULL if the zone is full
 */

static ngx_mcds_stat_shared_t *
ngx_http_mcds_zone_stat(ngx_slab_pool_t *shpool, ngx_uint_t family, u_char *id)
{
    ngx_http_mcds_shared_t  *shared;
    ngx_mcds_stat_shared_t  *ss;

    shared = shpool->data;

    for (ss = shared->stats[family]; ss; ss = ss->next) {
        if (ngx_memcmp(ss->id, id, NGX_MCDS_STAT_ID) == 0) {
            ss->generation = shared->generation;
            return ss;
        }
    }

    /*
     * the memory of statistics that are no longer in the configuration is used
     * first: names that change with each reload would fill mcds_zone otherwise
     */

    ss = ngx_http_mcds_zone_reuse(shared, family, 2);

    if (ss == NULL) {
        ss = ngx_http_mcds_zone_alloc(shpool, family);
    }

    if (ss == NULL) {
        ss = ngx_http_mcds_zone_reuse(shared, family, 1);
    }

    if (ss == NULL) {
        return NULL;
    }

    ngx_memcpy(ss->id, id, NGX_MCDS_STAT_ID);
    ss->generation = shared->generation;

    return ss;
}


static ngx_mcds_stat_shared_t *
ngx_http_mcds_zone_alloc(ngx_slab_pool_t *shpool, ngx_uint_t family)
{
    size_t                   size;
    ngx_uint_t               nsums, part;
    ngx_http_mcds_shared_t  *shared;
    ngx_mcds_stat_shared_t  *ss;

    nsums = ngx_mcds_stat_nsums(family);

    part = (family == NGX_MCDS_STAT_SERVERS) ? NGX_HTTP_MCDS_ZONE_SERVERS
                                             : NGX_HTTP_MCDS_ZONE_STATS;

    size = ngx_align(sizeof(ngx_mcds_stat_shared_t),
                     sizeof(ngx_mcds_stat_sum_t));

    ss = ngx_http_mcds_zone_memory(shpool,
                                   size + nsums * sizeof(ngx_mcds_stat_sum_t),
                                   part);
    if (ss == NULL) {
        return NULL;
    }

    ss->nsums = nsums;
    ss->sums = (ngx_mcds_stat_sum_t *) ((u_char *) ss + size);

    shared = shpool->data;

    ss->next = shared->stats[family];
    shared->stats[family] = ss;

    return ss;
}


/*
 * Takes over the memory of statistics that are not in the current
 * configuration, nor in the "age" generations of the configuration before it;
 * NULL if there are none.  A worker that still uses the old statistics notices
 * that their memory belongs to another name, and drops its counts.
 */

static ngx_mcds_stat_shared_t *
ngx_http_mcds_zone_reuse(ngx_http_mcds_shared_t *shared, ngx_uint_t family,
    ngx_uint_t age)
{
    ngx_uint_t               i;
    ngx_mcds_stat_shared_t  *ss, *oldest;

    oldest = shared->stats[family];

    for (ss = oldest; ss; ss = ss->next) {
        if (ss->generation < oldest->generation) {
            oldest = ss;
        }
    }

    if (oldest == NULL || oldest->generation + age >= shared->generation) {
        return NULL;
    }

    oldest->owner++;
    oldest->told = 0;

    for (i = 0; i < oldest->nsums; i++) {
        __atomic_store_n(&oldest->sums[i], 0, __ATOMIC_RELAXED);
    }

    if (oldest->usage) {
        ngx_memzero(oldest->usage, sizeof(ngx_mcds_stat_usage_t));
    }

    if (oldest->gauges) {
        ngx_memzero(oldest->gauges,
                    oldest->ngauges * sizeof(ngx_mcds_stat_gauge_t));
    }

    return oldest;
}


static ngx_int_t
ngx_http_mcds_zone_gauges(ngx_slab_pool_t *shpool,
    ngx_mcds_stat_shared_t *stat, ngx_uint_t workers)
{
    ngx_uint_t              n;
    ngx_mcds_stat_gauge_t  *gauges;

    if (stat->usage == NULL) {
        stat->usage = ngx_http_mcds_zone_memory(shpool,
                                             sizeof(ngx_mcds_stat_usage_t), 1);
        if (stat->usage == NULL) {
            return NGX_ERROR;
        }
    }

    if (stat->ngauges >= workers) {
        return NGX_OK;
    }

    /*
     * the workers' gauges (numbers such as open connections) move to a larger
     * array; the old one is not freed: workers of older generations of the
     * configuration write there
     */

    for (n = 2; n < workers; n *= 2) { /* void */ }

    gauges = ngx_http_mcds_zone_memory(shpool,
                                       n * sizeof(ngx_mcds_stat_gauge_t), 1);
    if (gauges == NULL) {
        return NGX_ERROR;
    }

    stat->gauges = gauges;
    stat->ngauges = n;

    return NGX_OK;
}


/*
 * allocates memory for statistics in the shared memory zone (mcds_zone); NULL
 * if all statistics together would take more than 1/part of the zone
 */

static void *
ngx_http_mcds_zone_memory(ngx_slab_pool_t *shpool, size_t size,
    ngx_uint_t part)
{
    void                    *p;
    size_t                   max, taken;
    ngx_http_mcds_shared_t  *shared;

    shared = shpool->data;

    max = (shpool->end - (u_char *) shpool) / part;

    /*
     * the size that the memory takes in the zone: nginx's slab allocator rounds
     * it up to a multiple of the page size or to a power of 2
     */

    if (size > ngx_pagesize / 2) {
        taken = ngx_align(size, ngx_pagesize);

    } else {
        for (taken = 8; taken < size; taken *= 2) { /* void */ }
    }

    if (shared->taken + taken > max) {
        return NULL;
    }

    p = ngx_http_mcds_zone_room(shpool, size);

    if (p) {
        shared->taken += taken;
    }

    return p;
}


void *
ngx_http_mcds_zone_room(void *data, size_t size)
{
    ngx_slab_pool_t *shpool = data;

    ngx_http_mcds_shared_t  *shared;

    shared = shpool->data;

    return ngx_mcds_local_room(shared->local, shpool, size);
}


void
ngx_http_mcds_zone_accept(ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_slab_pool_t         *shpool;
    ngx_http_mcds_shared_t  *shared;

    if (mmcf->zone) {
        shpool = (ngx_slab_pool_t *) mmcf->zone->shm.addr;
        shared = shpool->data;

        shared->running = mmcf->stats.generation;
    }
}


void
ngx_http_mcds_zone_attach(ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t                i;
    ngx_array_t              *servers;
    ngx_slab_pool_t          *shpool;
    ngx_mcds_stat_t         **stats;
    ngx_http_mcds_shared_t   *shared;

    shared = NULL;

    if (mmcf->zone) {
        shpool = (ngx_slab_pool_t *) mmcf->zone->shm.addr;
        shared = shpool->data;

        ngx_mcds_page_share(shared->sequences, NGX_HTTP_MCDS_SEQUENCES);

        if (shared->local) {
            ngx_mcds_local_attach(shared->local, shpool);
        }
    }

    /*
     * only workers count statistics and hot keys: other processes, such as the
     * cache manager, have a number in ngx_worker, too, and must not use a
     * worker's memory
     */

    if (!ngx_mcds_is_worker()) {
        return;
    }

    if (mmcf->zone) {
        ngx_http_mcds_hotkeys_start(mmcf->status ? shared->hotkeys : NULL,
                                    ngx_cycle->log);

        ngx_mcds_past = mmcf->status ? shared->past : NULL;
    }

    servers = &mmcf->stats.families[NGX_MCDS_STAT_SERVERS];
    stats = servers->elts;

    for (i = 0; i < servers->nelts; i++) {
        ngx_mcds_stat_attach(stats[i], ngx_worker);
    }

    ngx_mcds_stats = &mmcf->stats;

    ngx_mcds_pool_stats_start();
}
