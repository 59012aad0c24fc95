
/*
 * Copyright (C) mcds authors
 *
 * The statistics of pages, counted when a request ends.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_stat.h"


static ngx_uint_t ngx_http_mcds_stat_covered(ngx_http_core_loc_conf_t *clcf);


/*
 * the counter in the statistics for each cache status of a dry run; 0: the
 * status has the same counter as without a dry run
 */

#define ngx_http_mcds_stat_dry_sum(name, word)                                \
    [NGX_HTTP_MCDS_##name] = NGX_MCDS_ZONE_##name##_DRY,

static ngx_uint_t  ngx_http_mcds_stat_dry[NGX_HTTP_MCDS_STATUSES] = {
    NGX_MCDS_DRY_STATUS_LIST(ngx_http_mcds_stat_dry_sum)
};


char *
ngx_http_mcds_cache_label(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t  *value;

    if (ccf->cache_label.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0 || ngx_http_script_variables_count(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" in \"%V\", it must be a text "
                           "without variables, or \"off\"", &value[1],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    ccf->cache_label = value[1];

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_stat_merge(ngx_conf_t *cf, ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_str_t                  name;
    ngx_http_core_loc_conf_t  *clcf;

    if (conf->cache_label.data == NULL) {
        conf->cache_label = prev->cache_label;
    }

    name = conf->cache_label;

    if (conf->purge_pool == NULL || ngx_http_mcds_is(&name, "off")) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (ngx_http_mcds_stat_covered(clcf)) {
        return NGX_CONF_OK;
    }

    if (name.len == 0 && ngx_http_mcds_stat_location(cf, &name) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    conf->zone = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_ZONES, NULL, &name);

    return conf->zone ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/*
 * returns 1 if clcf is that of an "if" block of a server, or of a server in
 * which "location /" gets all requests: neither needs its own cache statistics
 */

static ngx_uint_t
ngx_http_mcds_stat_covered(ngx_http_core_loc_conf_t *clcf)
{
    ngx_str_t                  *name;
    ngx_queue_t                *q;
    ngx_http_location_queue_t  *lq;

    if (clcf->name.len) {
        return 0;
    }

    if (clcf->noname || clcf->locations == NULL) {
        return clcf->noname;
    }

    for (q = ngx_queue_head(clcf->locations);
         q != ngx_queue_sentinel(clcf->locations);
         q = ngx_queue_next(q))
    {
        lq = (ngx_http_location_queue_t *) q;

        if (lq->inclusive == NULL) {
            continue;
        }

        name = &lq->inclusive->name;

        if (name->len == 1 && name->data[0] == '/') {
            return 1;
        }
    }

    return 0;
}


void
ngx_http_mcds_stat_request(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t        sum;
    ngx_mcds_stat_t  *zone;

    if (ctx->state == NGX_HTTP_MCDS_STATE_START
        || ctx->task->refresh
        || ctx->purging
        || ctx->conf == NULL)
    {
        return;
    }

    zone = ctx->conf->zone;

    if (zone == NULL) {
        return;
    }

    sum = NGX_MCDS_ZONE_NONE + ctx->status;

    if (ctx->dry && ngx_http_mcds_stat_dry[ctx->status]) {
        sum = ngx_http_mcds_stat_dry[ctx->status];
    }

    ngx_mcds_stat_add(zone, sum, 1);

    if (ctx->reason != NGX_MCDS_REASON_NONE) {
        ngx_mcds_stat_add(zone, NGX_MCDS_ZONE_REASONS + ctx->reason, 1);
    }

    if (ctx->origin) {
        ngx_mcds_stat_add(zone, NGX_MCDS_ZONE_ORIGIN, 1);
    }
}


void
ngx_http_mcds_stat_refused(ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t reason)
{
    ctx->reason = reason;

    if (ctx->conf) {
        ngx_mcds_stat_add(ctx->conf->zone, NGX_MCDS_ZONE_REFUSED + reason, 1);
    }
}


void
ngx_http_mcds_stat_served(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    off_t              len;
    ngx_mcds_entry_t  *entry;

    len = r->headers_out.content_length_n;

    if (len < 0) {

        /*
         * the length of the response is unknown, since filters change the
         * body: the length of the stored body is counted
         */

        entry = &ctx->snapshot->entry;
        len = (entry->coding && !ctx->coded) ? entry->length : entry->total;
    }

    ngx_mcds_stat_add(ctx->conf->zone, NGX_MCDS_ZONE_BYTES, len);
}
