
/*
 * Copyright (C) mcds authors
 *
 * The directives of the cache that nginx's own slot setters cannot read, and
 * their inheritance.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_conf.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_purge.h"


/*
 * the default limit of a page's heuristic lifetime, mcds_cache_heuristic,
 * seconds
 */
#define NGX_HTTP_MCDS_HEURISTIC_MAX  86400

/*
 * the default times in which mcds_cache_grace permits stale pages to be served,
 * milliseconds: after a lifetime set by the configuration, or by the origin
 */
#define NGX_HTTP_MCDS_GRACE          86400000
#define NGX_HTTP_MCDS_GRACE_ORIGIN   3600000

/*
 * the default of mcds_cache_lock_timeout, the longest wait for a page,
 * milliseconds
 */
#define NGX_HTTP_MCDS_LOCK_TIMEOUT   60000


static ngx_conf_bitmask_t  ngx_http_mcds_ignore_headers_masks[] = {
    { ngx_string("X-Accel-Expires"), NGX_HTTP_MCDS_IGN_ACCEL },
    { ngx_string("Expires"), NGX_HTTP_MCDS_IGN_EXPIRES },
    { ngx_string("Cache-Control"), NGX_HTTP_MCDS_IGN_CONTROL },
    { ngx_string("CDN-Cache-Control"), NGX_HTTP_MCDS_IGN_CDN },
    { ngx_string("Set-Cookie"), NGX_HTTP_MCDS_IGN_COOKIE },
    { ngx_string("Vary"), NGX_HTTP_MCDS_IGN_VARY },
    { ngx_string("off"), NGX_CONF_BITMASK_SET },
    { ngx_null_string, 0 }
};


/*
 * the directives of Cache-Control and CDN-Cache-Control that
 * mcds_ignore_headers can ignore
 */

static ngx_conf_bitmask_t  ngx_http_mcds_ignore_directives[] = {
    { ngx_string("max-age"), NGX_MCDS_CONTROL_MAX_AGE },
    { ngx_string("s-maxage"), NGX_MCDS_CONTROL_S_MAXAGE },
    { ngx_string("stale-while-revalidate"), NGX_MCDS_CONTROL_SWR },
    { ngx_string("stale-if-error"), NGX_MCDS_CONTROL_SIE },
    { ngx_string("no-store"), NGX_MCDS_CONTROL_NO_STORE },
    { ngx_string("no-cache"), NGX_MCDS_CONTROL_NO_CACHE },
    { ngx_string("private"), NGX_MCDS_CONTROL_PRIVATE },
    { ngx_string("public"), NGX_MCDS_CONTROL_PUBLIC },
    { ngx_string("must-revalidate"), NGX_MCDS_CONTROL_MUST_REVALIDATE },
    { ngx_string("proxy-revalidate"), NGX_MCDS_CONTROL_PROXY_REVALIDATE },
    { ngx_string("must-understand"), NGX_MCDS_CONTROL_MUST_UNDERSTAND },
    { ngx_null_string, 0 }
};


static char *ngx_http_mcds_cache_period(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_cache_valid_origin(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_ignore(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, ngx_uint_t *bit);
static ngx_uint_t ngx_http_mcds_ignore_find(ngx_conf_bitmask_t *mask,
    ngx_str_t *name);


ngx_conf_bitmask_t  ngx_http_mcds_use_stale_masks[] = {
    { ngx_string("error"), NGX_HTTP_UPSTREAM_FT_ERROR },
    { ngx_string("timeout"), NGX_HTTP_UPSTREAM_FT_TIMEOUT },
    { ngx_string("invalid_header"), NGX_HTTP_UPSTREAM_FT_INVALID_HEADER },
    { ngx_string("updating"), NGX_HTTP_UPSTREAM_FT_UPDATING },
    { ngx_string("http_500"), NGX_HTTP_UPSTREAM_FT_HTTP_500 },
    { ngx_string("http_502"), NGX_HTTP_UPSTREAM_FT_HTTP_502 },
    { ngx_string("http_503"), NGX_HTTP_UPSTREAM_FT_HTTP_503 },
    { ngx_string("http_504"), NGX_HTTP_UPSTREAM_FT_HTTP_504 },
    { ngx_string("http_403"), NGX_HTTP_UPSTREAM_FT_HTTP_403 },
    { ngx_string("http_404"), NGX_HTTP_UPSTREAM_FT_HTTP_404 },
    { ngx_string("http_429"), NGX_HTTP_UPSTREAM_FT_HTTP_429 },
    { ngx_string("off"), NGX_HTTP_UPSTREAM_FT_OFF },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_mcds_value_off[] = {
    { ngx_string("off"), 0 },
    { ngx_null_string, 0 }
};


ngx_http_mcds_param_t  ngx_http_mcds_cache_values[] = {

    { ngx_string("mcds_cache_status_header"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_status_header),
      0, 0, 0, NULL },

    { ngx_string("mcds_cache_dry_run"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_dry_run),
      0, 0, 0, NULL },

    { ngx_string("mcds_cache_shared"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_shared),
      0, 0, 0, NULL },

    { ngx_string("mcds_cache_uncacheable"),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_uncacheable),
      1, NGX_MCDS_MAX_TTL, 10, NULL },

    { ngx_string("mcds_cache_max_size"),
      ngx_http_mcds_param_size,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_max_size),
      0, NGX_HTTP_MCDS_MAX_SIZE, 8 * 1024 * 1024, NULL },

    { ngx_string("mcds_cache_lock"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_lock),
      0, 0, 1, NULL },

    { ngx_string("mcds_cache_lock_age"),
      ngx_http_mcds_param_lock_sec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_lock_age),
      2, NGX_MCDS_MAX_TTL, 5, NULL },

    { ngx_string("mcds_cache_wait"),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_wait),
      0, 0, 2000, NULL },

    { ngx_string("mcds_cache_max_waiters"),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_max_waiters),
      0, 0, 1000, NULL },

    { ngx_string("mcds_cache_max_variants"),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_max_variants),
      1, NGX_MCDS_MAX_VARIANTS, 32, NULL },

    { ngx_string("mcds_cache_background_update"),
      ngx_http_mcds_cache_period,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_update),
      0, 0, 60000, NULL },

    { ngx_string("mcds_cache_local"),
      ngx_http_mcds_admission_mode,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_local),
      0, 0, NGX_MCDS_LOCAL_OFF, NULL },

    { ngx_string("mcds_cache_early"),
      ngx_http_mcds_admission_factor,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_early),
      0, 0, 0, NULL },

    { ngx_string("mcds_cache_jitter"),
      ngx_http_mcds_param_percent,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_jitter),
      1, 90, 0, ngx_http_mcds_value_off },

    { ngx_string("mcds_cache_min_uses"),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_min_uses),
      0, 0, 1, NULL },

    { ngx_string("mcds_cache_revalidate"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_revalidate),
      0, 0, 0, NULL },

    { ngx_string("mcds_cache_request_control"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_request_control),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


void
ngx_http_mcds_cache_init_conf(ngx_http_mcds_cache_conf_t *conf)
{
    /*
     * set by ngx_pcalloc():
     *
     *     conf->cache = { 0, NULL };
     *     conf->cache_pool = NULL;
     *     conf->cache_key = NULL;
     *     conf->cache_methods = 0;
     *     conf->cache_ignore = 0;
     *     conf->cache_use_stale = 0;
     */

    conf->cache_valid = NGX_CONF_UNSET_PTR;
    conf->cache_bypass = NGX_CONF_UNSET_PTR;
    conf->no_cache = NGX_CONF_UNSET_PTR;
    conf->session_cookies = NGX_CONF_UNSET_PTR;
    conf->forwarded_headers = NGX_CONF_UNSET_PTR;
    conf->key_args = NGX_CONF_UNSET_PTR;
    conf->secrets = NGX_CONF_UNSET_PTR;
    conf->compress = NGX_CONF_UNSET_PTR;
    conf->tags = NGX_CONF_UNSET_PTR;
    conf->cache_lock_timeout = NGX_CONF_UNSET_MSEC;
    conf->cache_lock_pass = NGX_CONF_UNSET_UINT;
    conf->cache_grace = NGX_CONF_UNSET;
    conf->cache_grace_origin = NGX_CONF_UNSET;
    conf->cache_heuristic = NGX_CONF_UNSET_UINT;
    conf->cache_heuristic_max = NGX_CONF_UNSET;
    conf->cache_invalidate = NGX_CONF_UNSET_UINT;

    ngx_http_mcds_values_unset(ngx_http_mcds_cache_values, conf);
    ngx_http_mcds_admission_init_conf(conf);
}


char *
ngx_http_mcds_cache_merge_conf(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf)
{
    if (conf->cache.data == NULL) {
        conf->cache = prev->cache;
        conf->cache_place = prev->cache_place;
    }

    if (conf->cache_key == NULL) {
        conf->cache_key = prev->cache_key;
    }

    if (conf->cache_methods == 0) {
        conf->cache_methods = prev->cache_methods
                              ? prev->cache_methods
                              : NGX_HTTP_GET|NGX_HTTP_HEAD;
    }

    ngx_conf_merge_ptr_value(conf->cache_valid, prev->cache_valid, NULL);
    ngx_conf_merge_ptr_value(conf->cache_bypass, prev->cache_bypass, NULL);
    ngx_conf_merge_ptr_value(conf->no_cache, prev->no_cache, NULL);
    ngx_conf_merge_ptr_value(conf->session_cookies, prev->session_cookies,
                             NULL);
    ngx_conf_merge_ptr_value(conf->forwarded_headers, prev->forwarded_headers,
                             NULL);

    ngx_conf_merge_ptr_value(conf->key_args, prev->key_args, NULL);
    ngx_conf_merge_ptr_value(conf->secrets, prev->secrets, NULL);
    ngx_conf_merge_ptr_value(conf->compress, prev->compress, NULL);
    ngx_conf_merge_ptr_value(conf->tags, prev->tags, NULL);
    ngx_http_mcds_purge_merge(cf, prev, conf);


    ngx_conf_merge_msec_value(conf->cache_lock_timeout,
                              prev->cache_lock_timeout,
                              NGX_HTTP_MCDS_LOCK_TIMEOUT);
    ngx_conf_merge_uint_value(conf->cache_lock_pass, prev->cache_lock_pass,
                              0);

    if (conf->cache_grace == NGX_CONF_UNSET) {
        conf->cache_grace = prev->cache_grace;
        conf->cache_grace_origin = prev->cache_grace_origin;
    }

    ngx_conf_init_value(conf->cache_grace, NGX_HTTP_MCDS_GRACE);
    ngx_conf_init_value(conf->cache_grace_origin, NGX_HTTP_MCDS_GRACE_ORIGIN);


    ngx_conf_merge_bitmask_value(conf->cache_ignore, prev->cache_ignore,
                                 NGX_CONF_BITMASK_SET);
    ngx_conf_merge_uint_value(conf->cache_heuristic, prev->cache_heuristic,
                              0);
    ngx_conf_merge_sec_value(conf->cache_heuristic_max,
                             prev->cache_heuristic_max,
                             NGX_HTTP_MCDS_HEURISTIC_MAX);

    if (conf->cache_lock_age == NGX_CONF_UNSET) {
        conf->cache_lock_age_place = prev->cache_lock_age_place;
    }

    ngx_http_mcds_values_merge(ngx_http_mcds_cache_values, prev, conf);
    ngx_http_mcds_admission_merge_conf(prev, conf);

    ngx_http_mcds_invalidate_merge(prev, conf);
    ngx_conf_merge_bitmask_value(conf->cache_use_stale, prev->cache_use_stale,
                                 NGX_CONF_BITMASK_SET
                                 |NGX_HTTP_MCDS_FAILURES);

    if (conf->cache_use_stale & NGX_HTTP_UPSTREAM_FT_OFF) {
        conf->cache_use_stale = NGX_CONF_BITMASK_SET
                                |NGX_HTTP_UPSTREAM_FT_OFF;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_cache(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t  *value;

    if (ccf->cache.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "must be \"on\", \"off\" or the name of a pool";
    }

    ccf->cache = value[1];
    ngx_http_mcds_set_place(cf, &ccf->cache_place);

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_cache_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (ccf->cache_methods) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 3 && ngx_strncmp(value[i].data, "GET", 3) == 0) {
            ccf->cache_methods |= NGX_HTTP_GET;

        } else if (value[i].len == 4
                   && ngx_strncmp(value[i].data, "HEAD", 4) == 0)
        {
            ccf->cache_methods |= NGX_HTTP_HEAD;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid method \"%V\" in \"%V\", it must be "
                               "GET or HEAD", &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    /*
     * mcds_cache_methods always has GET: a HEAD request is served from the
     * page of GET
     */

    ccf->cache_methods |= NGX_HTTP_GET;

    return NGX_CONF_OK;
}


/*
 * parses mcds_cache_valid; checks its status codes first, since nginx's own
 * setter does not name the directive in its messages
 */

char *
ngx_http_mcds_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t    n;
    ngx_str_t   *value;
    ngx_uint_t   i, last;

    value = cf->args->elts;
    last = cf->args->nelts - 1;

    for (i = 1; i <= last; i++) {

        if (value[i].len == 6
            && ngx_strncmp(value[i].data, "origin", 6) == 0)
        {
            return ngx_http_mcds_cache_valid_origin(cf, conf);
        }
    }

    for (i = 1; i < last; i++) {

        if (value[i].len == 3 && ngx_strncmp(value[i].data, "any", 3) == 0) {
            continue;
        }

        n = ngx_atoi(value[i].data, value[i].len);

        if (n < 100 || n > 599) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid status \"%V\" in \"%V\", "
                               "it must be 100 to 599 or \"any\"", &value[i],
                               &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_parse_time(&value[last], 1) == (time_t) NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it "
                           "must be a time or \"origin\"", &value[last],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    return ngx_http_file_cache_valid_set_slot(cf, cmd, conf);
}


/*
 * Adds "mcds_cache_valid origin" (a lifetime set by the origin counts for any
 * status) to the array of lifetimes by status code: a level that inherits the
 * array inherits "origin", too.
 */

static char *
ngx_http_mcds_cache_valid_origin(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_cache_valid_t  *valid;

    if (cf->args->nelts != 2) {
        return "takes no codes and no time with \"origin\"";
    }

    if (ccf->cache_valid == NGX_CONF_UNSET_PTR) {
        ccf->cache_valid = ngx_array_create(cf->pool, 1,
                                             sizeof(ngx_http_cache_valid_t));
        if (ccf->cache_valid == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    valid = ngx_array_push(ccf->cache_valid);
    if (valid == NULL) {
        return NGX_CONF_ERROR;
    }

    valid->status = NGX_HTTP_MCDS_VALID_ORIGIN;
    valid->valid = 0;

    return NGX_CONF_OK;
}


/*
 * parses the time of mcds_cache_background_update or mcds_cache_grace: "on",
 * which is no limit, "off", which is 0, or a time
 */

static char *
ngx_http_mcds_cache_period(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    int64_t  ms;

    ms = ngx_http_mcds_header_is(text, "on") ? NGX_MCDS_ALWAYS
         : ngx_http_mcds_header_is(text, "off") ? 0
         : ngx_http_mcds_parse_msec(text);

    if (ms == NGX_ERROR) {
        return "\"on\", \"off\" or a time";
    }

    ngx_http_mcds_param_put(param, conf, ms);

    return NGX_CONF_OK;
}


static ngx_http_mcds_param_t  ngx_http_mcds_grace_params[] = {

    { ngx_string("time"),
      ngx_http_mcds_cache_period,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_grace),
      0, 0, NGX_HTTP_MCDS_GRACE, NULL },

    { ngx_string("origin="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_grace_origin),
      0, 0, NGX_CONF_UNSET, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_grace(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t  *value;

    if (ccf->cache_grace != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_http_mcds_header_is(&value[1], "on")) {
        ccf->cache_grace = NGX_HTTP_MCDS_GRACE;
        ccf->cache_grace_origin = NGX_HTTP_MCDS_GRACE_ORIGIN;
        return NGX_CONF_OK;
    }

    if (ngx_http_mcds_header_is(&value[1], "on")) {
        return "\"on\" takes no further parameter";
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_grace_params, ccf)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_conf_init_value(ccf->cache_grace_origin, ccf->cache_grace);

    return NGX_CONF_OK;
}


static ngx_conf_enum_t  ngx_http_mcds_lock_timeouts[] = {
    { ngx_string("error"), 0 },
    { ngx_string("pass"), 1 },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_lock_timeout_params[] = {

    { ngx_string("time"),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_lock_timeout),
      0, 0, NGX_HTTP_MCDS_LOCK_TIMEOUT, NULL },

    { ngx_string("error|pass"),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_lock_pass),
      0, 0, 0, ngx_http_mcds_lock_timeouts },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_lock_age(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    char  *rv;

    rv = ngx_http_mcds_set_value(cf, cmd, conf);

    if (rv == NGX_CONF_OK) {
        ngx_http_mcds_set_place(cf, &ccf->cache_lock_age_place);
    }

    return rv;
}


char *
ngx_http_mcds_cache_lock_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    if (ccf->cache_lock_timeout != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    return ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_lock_timeout_params,
                                ccf);
}


char *
ngx_http_mcds_cache_session_cookies(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t   *value, *name;
    ngx_uint_t   i, off;

    value = cf->args->elts;

    for (i = 1, off = 0; i < cf->args->nelts; i++) {
        off |= ngx_http_mcds_is(&value[i], "off");
    }

    if (ccf->session_cookies == NULL && off && cf->args->nelts == 2) {
        return "is duplicate";
    }

    if (ccf->session_cookies == NULL
        || (off && (ccf->session_cookies != NGX_CONF_UNSET_PTR
                    || cf->args->nelts > 2)))
    {
        return "is \"off\" beside names";
    }

    if (off) {
        ccf->session_cookies = NULL;
        return NGX_CONF_OK;
    }

    if (ccf->session_cookies == NGX_CONF_UNSET_PTR) {
        ccf->session_cookies = ngx_array_create(cf->pool, 4,
                                                 sizeof(ngx_str_t));
        if (ccf->session_cookies == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "needs names of cookies";
        }

        name = ngx_array_push(ccf->session_cookies);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
    }

    return NGX_CONF_OK;
}


/*
 * parses mcds_ignore_headers: its arguments are names of headers, and single
 * directives such as "Cache-Control:no-cache"
 */

char *
ngx_http_mcds_ignore_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i, bit;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_mcds_ignore(cf, cmd, &value[i], &bit) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        if (ccf->cache_ignore & bit) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "duplicate value \"%V\" in \"%V\"", &value[i],
                               &cmd->name);
        }

        ccf->cache_ignore |= bit;
    }

    if (ccf->cache_ignore & NGX_HTTP_MCDS_IGN_COOKIE) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"%V Set-Cookie\" stores responses that were "
                           "generated for one visitor and serves them to "
                           "all, without their cookies",
                           &cmd->name);
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_ignore(ngx_conf_t *cf, ngx_command_t *cmd, ngx_str_t *value,
    ngx_uint_t *bit)
{
    u_char              *p;
    ngx_str_t            name;
    ngx_uint_t           shift;
    ngx_conf_bitmask_t  *mask;

    name = *value;
    shift = 0;
    mask = ngx_http_mcds_ignore_headers_masks;

    p = ngx_strlchr(name.data, name.data + name.len, ':');

    if (p) {
        name.len = p - name.data;

        switch (ngx_http_mcds_ignore_find(mask, &name)) {

        case NGX_HTTP_MCDS_IGN_CONTROL:
            shift = NGX_HTTP_MCDS_IGN_CONTROL_SHIFT;
            break;

        case NGX_HTTP_MCDS_IGN_CDN:
            shift = NGX_HTTP_MCDS_IGN_CDN_SHIFT;
            break;

        default:
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\", "
                               "only Cache-Control and CDN-Cache-Control "
                               "have directives", value, &cmd->name);
            return NGX_ERROR;
        }

        name.data = p + 1;
        name.len = value->len - name.len - 1;
        mask = ngx_http_mcds_ignore_directives;
    }

    *bit = ngx_http_mcds_ignore_find(mask, &name) << shift;

    if (*bit == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", "
                           "%s must be one of%s", value, &cmd->name,
                           p ? "what follows the colon" : "it",
                           ngx_http_mcds_mask_words(cf, mask));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * finds the bit of a header, or of a directive of Cache-Control, by its name in
 * a table of mcds_ignore_headers; returns 0 if the table has no such name
 */

static ngx_uint_t
ngx_http_mcds_ignore_find(ngx_conf_bitmask_t *mask, ngx_str_t *name)
{
    for ( /* void */ ; mask->name.len; mask++) {

        if (mask->name.len == name->len
            && ngx_strncasecmp(mask->name.data, name->data, name->len) == 0)
        {
            return mask->mask;
        }
    }

    return 0;
}


/*
 * the arguments of mcds_cache_heuristic: "off", or the percentage of the time
 * since Last-Modified, and the limit of the lifetime
 */

static ngx_http_mcds_param_t  ngx_http_mcds_heuristic_params[] = {

    { ngx_string("percent"),
      ngx_http_mcds_param_percent,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_heuristic),
      1, 100, 0, ngx_http_mcds_value_off },

    /*
     * without "max" of mcds_cache_heuristic, the limit is inherited from the
     * outer level
     */

    { ngx_string("max"),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_heuristic_max),
      0, 0, NGX_CONF_UNSET, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_heuristic(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    if (ccf->cache_heuristic != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    return ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_heuristic_params,
                                ccf);
}
