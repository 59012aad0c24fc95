
/*
 * Copyright (C) mcds authors
 *
 * nginx's TLS, without OCSP, which would need a resolver.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#if (NGX_SSL)

/*
 * the tool leaves out Angie's API, whose part about certificates would need
 * more of Angie's sources
 */

#undef NGX_API

/*
 * nginx's sources for TLS are included, since the functions that create the
 * configurations of nginx's modules for TLS are static
 */

#include <ngx_event_openssl.c>

/* nginx 1.27.2 and later have the source ngx_event_openssl_cache.c */

#if __has_include(<ngx_event_openssl_cache.c>)
#define NGX_TOOL_SSL_CACHE        1
#include <ngx_event_openssl_cache.c>
#endif


static void         *ngx_tool_ssl_conf[2];
static ngx_cycle_t   ngx_tool_ssl_old_cycle;


ngx_int_t
ngx_tool_ssl_init(ngx_cycle_t *cycle)
{
    cycle->conf_ctx = (void ****) ngx_tool_ssl_conf;
    cycle->old_cycle = &ngx_tool_ssl_old_cycle;

    ngx_openssl_module.index = 0;
    ngx_tool_ssl_conf[0] = ngx_openssl_create_conf(cycle);

    if (ngx_tool_ssl_conf[0] == NULL) {
        return NGX_ERROR;
    }

#if (NGX_TOOL_SSL_CACHE)

    ngx_openssl_cache_module.index = 1;
    ngx_tool_ssl_conf[1] = ngx_openssl_cache_create_conf(cycle);

    if (ngx_tool_ssl_conf[1] == NULL) {
        return NGX_ERROR;
    }

#endif

    return ngx_ssl_init(cycle->log);
}


ngx_int_t
ngx_ssl_ocsp_validate(ngx_connection_t *c)
{
    return NGX_OK;
}


void
ngx_ssl_ocsp_cleanup(ngx_connection_t *c)
{
    /* void */
}

#else

ngx_int_t
ngx_tool_ssl_init(ngx_cycle_t *cycle)
{
    return NGX_OK;
}

#endif
