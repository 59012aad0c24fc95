
/*
 * Copyright (C) mcds authors
 *
 * Sends the compressed body of a stored page as it is.  This filter comes
 * directly before nginx's gzip filter and after the filters that change bodies
 * (SSI, sub_filter, addition, charset, image_filter and others).  It acts as
 * the gzip filter would; but the compressed body exists already, if no filter
 * has changed the body of the page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_coding.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_store.h"


static ngx_int_t ngx_http_mcds_coding_header_filter(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_coding_untouched(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_coding_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_coding_add_vary(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_coding_has_vary(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_coding_listed(ngx_str_t value);
static ngx_int_t ngx_http_mcds_coding_preconfigure(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_coding_filter_init(ngx_conf_t *cf);


static ngx_http_mcds_coding_hooks_t  ngx_http_mcds_coding_functions = {
    ngx_http_mcds_compress,
    ngx_http_mcds_compress_fixed,
    ngx_mcds_encoder_create,
    ngx_mcds_encoder_run,
    ngx_mcds_encoder_free,
    ngx_http_mcds_coding_accepted,
    ngx_http_mcds_decode_body,
    ngx_http_mcds_decode_begin,
    ngx_http_mcds_decode_take,
    ngx_http_mcds_decode_free
};


static ngx_command_t  ngx_http_mcds_coding_commands[] = {

    { ngx_string("mcds_cache_compress"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_compress,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_coding_filter_module_ctx = {
    ngx_http_mcds_coding_preconfigure,     /* preconfiguration */
    ngx_http_mcds_coding_filter_init,      /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_coding_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_coding_filter_module_ctx,  /* module context */
    ngx_http_mcds_coding_commands,         /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_int_t
ngx_http_mcds_coding_header_filter(ngx_http_request_t *r)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    if (ngx_http_mcds_serving(ctx)
        && ctx->snapshot && ctx->snapshot->entry.coding)
    {

        if (ctx->offered
            && (r->headers_out.status == NGX_HTTP_NOT_MODIFIED
                || ngx_http_mcds_coding_untouched(r, ctx)))
        {
            if (ngx_http_mcds_coding_take(r, ctx) != NGX_OK) {
                return NGX_ERROR;
            }
        }

    } else if (!ngx_http_mcds_store_compresses(ctx)) {
        return ngx_http_next_header_filter(r);
    }

    if (ngx_http_mcds_coding_add_vary(r) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


/*
 * Returns 1 if no filter changes or reads the body of the response, so that the
 * body may be sent compressed.  A filter that does so has set a flag of the
 * request, such as filter_need_in_memory, or has cleared Content-Length of the
 * response.  With TLS, main_filter_need_in_memory does not count, as nginx sets
 * it for the connection.
 */

static ngx_uint_t
ngx_http_mcds_coding_untouched(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t  in_memory;

    in_memory = r->main_filter_need_in_memory;

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        in_memory = 0;
    }
#endif

    return r->headers_out.content_length_n
               == (off_t) ctx->snapshot->entry.length
           && !r->filter_need_in_memory
           && !in_memory
           && !r->filter_need_temporary
           && (r->headers_out.content_encoding == NULL
               || r->headers_out.content_encoding->hash == 0);
}


static ngx_int_t
ngx_http_mcds_coding_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_table_elt_t   *h;
    ngx_mcds_entry_t  *entry;

    static ngx_str_t   name = ngx_string("Content-Encoding");

    /*
     * the ETag of a page that is sent compressed becomes weak, as the
     * compressed body has other bytes (RFC 9110, 8.8.1)
     */

    ngx_http_weak_etag(r);

    if (r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {
        return NGX_OK;
    }

    entry = &ctx->snapshot->entry;

    h = ngx_http_mcds_header_add(r, &name, ngx_mcds_coding_name(entry->coding));
    if (h == NULL) {
        return NGX_ERROR;
    }

    r->headers_out.content_encoding = h;

    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);

    r->headers_out.content_length_n = entry->total;

    ctx->coded = 1;

    return NGX_OK;
}


/*
 * adds Vary: Accept-Encoding to the response once, though gzip_vary or the
 * page may add Vary, too
 */

static ngx_int_t
ngx_http_mcds_coding_add_vary(ngx_http_request_t *r)
{
#if (NGX_HTTP_GZIP)

    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->gzip_vary) {
        r->gzip_vary = 1;
        return NGX_OK;
    }

#endif

    if (ngx_http_mcds_coding_has_vary(r)) {
        return NGX_OK;
    }

    return ngx_http_mcds_header_text(r, "Vary", "Accept-Encoding");
}


static ngx_uint_t
ngx_http_mcds_coding_has_vary(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && ngx_http_mcds_header_is(&h[i].key, "Vary")
                && ngx_http_mcds_coding_listed(h[i].value))
            {
                return 1;
            }
        }
    }

    return 0;
}


/* returns 1 if a value of Vary has Accept-Encoding among its names */

static ngx_uint_t
ngx_http_mcds_coding_listed(ngx_str_t value)
{
    ngx_str_t  name;

    while (ngx_mcds_word_next(&value, &name) == NGX_OK) {
        if (ngx_http_mcds_header_is(&name, "Accept-Encoding")) {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_mcds_coding_preconfigure(ngx_conf_t *cf)
{
    ngx_http_mcds_coding_hooks = &ngx_http_mcds_coding_functions;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_coding_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mcds_coding_header_filter;

    return NGX_OK;
}
