
/*
 * Copyright (C) mcds authors
 *
 * Formats error texts about the configuration of a pool of memcached servers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_server.h"


char *
ngx_mcds_pool_error(ngx_conf_t *cf, const char *fmt, ...)
{
    u_char   *p, *last;
    va_list   args;

    p = ngx_pnalloc(cf->pool, NGX_MAX_CONF_ERRSTR);
    if (p == NULL) {
        return "out of memory";
    }

    va_start(args, fmt);
    last = ngx_vslprintf(p, p + NGX_MAX_CONF_ERRSTR - 1, fmt, args);
    va_end(args);

    *last = '\0';

    return (char *) p;
}
