
/*
 * Copyright (C) mcds authors
 *
 * mcds_status: the statistics of all workers of this host.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_status.h"


#define NGX_HTTP_MCDS_STATUS_BUF  16384


static char *ngx_http_mcds_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mcds_status_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_status_no_store(ngx_http_request_t *r);


static ngx_command_t  ngx_http_mcds_status_commands[] = {

    { ngx_string("mcds_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_mcds_status,
      0,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_status_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_status_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_status_module_ctx,      /* module context */
    ngx_http_mcds_status_commands,         /* module directives */
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


static char *
ngx_http_mcds_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == ngx_http_mcds_status_handler) {
        return "is duplicate";
    }

    clcf->handler = ngx_http_mcds_status_handler;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_mcds_status_text_t  text;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_mcds_stats) {
        ngx_mcds_stats->flush();
    }

    ngx_memzero(&text, sizeof(ngx_http_mcds_status_text_t));
    text.pool = r->pool;

    ngx_http_mcds_status_json(&text, ngx_mcds_stats);

    if (text.failed) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.last->buf->last_buf = (r == r->main) ? 1 : 0;
    text.last->buf->last_in_chain = 1;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = text.size;

    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    if (ngx_http_mcds_status_no_store(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, text.first);
}


static ngx_int_t
ngx_http_mcds_status_no_store(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_str_set(&h->key, "Cache-Control");
    ngx_str_set(&h->value, "no-store");

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}


u_char *
ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (text->failed) {
        return NULL;
    }

    if (text->last) {
        b = text->last->buf;

        if ((size_t) (b->end - b->last) >= n) {
            return b->last;
        }
    }

    b = ngx_create_temp_buf(text->pool, ngx_max(n, NGX_HTTP_MCDS_STATUS_BUF));
    cl = ngx_alloc_chain_link(text->pool);

    if (b == NULL || cl == NULL) {
        text->failed = 1;
        return NULL;
    }

    cl->buf = b;
    cl->next = NULL;

    if (text->last) {
        text->last->next = cl;

    } else {
        text->first = cl;
    }

    text->last = cl;

    return b->last;
}


void
ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end)
{
    ngx_buf_t  *b;

    b = text->last->buf;

    text->size += end - b->last;
    b->last = end;
}
