
/*
 * Copyright (C) mcds authors
 *
 * Reads the Cache-Control of a request, RFC 9111, 5.2.1.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_request_cc.h"


ngx_int_t
ngx_http_mcds_request_cc(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                 i;
    ngx_list_part_t           *part;
    ngx_table_elt_t           *h;
    ngx_mcds_cache_control_t  *cc, pragma;

    if (!ctx->conf->cache_request_control) {
        return NGX_OK;
    }

    cc = NULL;
    ngx_memzero(&pragma, sizeof(ngx_mcds_cache_control_t));

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (ngx_http_mcds_header_is(&h[i].key, "Pragma")) {
                ngx_mcds_cache_control_add(&pragma, &h[i].value);
            }

            if (!ngx_http_mcds_header_is(&h[i].key, "Cache-Control")) {
                continue;
            }

            if (cc == NULL) {
                cc = ngx_pcalloc(r->pool, sizeof(ngx_mcds_cache_control_t));
                if (cc == NULL) {
                    return NGX_ERROR;
                }
            }

            ngx_mcds_cache_control_add(cc, &h[i].value);
        }
    }

    /* of the directives in Pragma only no-cache has a meaning */

    if (cc == NULL && pragma.no_cache) {

        cc = ngx_pcalloc(r->pool, sizeof(ngx_mcds_cache_control_t));
        if (cc == NULL) {
            return NGX_ERROR;
        }

        cc->no_cache = 1;
    }

    ctx->control = cc;
    ctx->no_store = (cc && cc->no_store);
    ctx->only_if_cached = (cc && cc->only_if_cached);

    return NGX_OK;
}
