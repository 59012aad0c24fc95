
/*
 * Copyright (C) mcds authors
 *
 * The initial value of a counter, from a location of nginx.  A copy of the
 * client's request, with no connection to the client, asks for the number, so
 * that the number is used even if the client leaves.  Two filters keep the body
 * of the response to the copy.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_counter.h"


/*
 * bytes of the longest response body with a counter's initial value; it may
 * have spaces and line ends around the number
 */
#define NGX_HTTP_MCDS_INIT_LEN    128


typedef struct {
    ngx_queue_t          queue;
    ngx_http_request_t  *request;
    ngx_mcds_seed_t     *seed;
    ngx_uint_t           status;
    size_t               len;
    u_char               body[NGX_HTTP_MCDS_INIT_LEN];
    unsigned             ended:1;      /* 1: the response body, which has the
                                          counter's initial value, is
                                          complete */
    unsigned             too_long:1;
} ngx_http_mcds_init_t;


static ngx_int_t ngx_http_mcds_init_request(ngx_http_mcds_init_t *init,
    ngx_http_request_t *r, ngx_str_t *uri, ngx_str_t *args);
static void ngx_http_mcds_init_done(ngx_http_request_t *r, void *data,
    ngx_int_t rc);
static ngx_int_t ngx_http_mcds_init_number(ngx_http_mcds_init_t *init,
    uint64_t *value);
static ngx_http_mcds_init_t *ngx_http_mcds_init_find(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_init_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_init_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;

static ngx_queue_t  ngx_http_mcds_inits;


ngx_int_t
ngx_http_mcds_counter_fetch(ngx_mcds_seed_t *seed, void *data)
{
    ngx_http_mcds_number_t *number = data;

    ngx_str_t              uri, args;
    ngx_uint_t             flags;
    ngx_http_request_t    *r;
    ngx_http_mcds_init_t  *init;

    r = number->task->request;

    uri = number->init;
    ngx_str_null(&args);
    flags = NGX_HTTP_LOG_UNSAFE;

    if (ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK) {
        return NGX_ERROR;
    }

    init = ngx_calloc(sizeof(ngx_http_mcds_init_t), r->connection->log);
    if (init == NULL) {
        return NGX_ERROR;
    }

    init->seed = seed;

    if (ngx_http_mcds_init_request(init, r, &uri, &args) != NGX_OK) {
        ngx_free(init);
        return NGX_ERROR;
    }

    ngx_queue_insert_head(&ngx_http_mcds_inits, &init->queue);

    return NGX_OK;
}


/*
 * asks for the initial value of a counter: makes a copy of the client's
 * request r; the copy, a subrequest, has another URI and runs all phases
 */

static ngx_int_t
ngx_http_mcds_init_request(ngx_http_mcds_init_t *init, ngx_http_request_t *r,
    ngx_str_t *uri, ngx_str_t *args)
{
    ngx_http_request_t        *sr;
    ngx_http_core_srv_conf_t  *cscf;

    /*
     * the subrequest for a counter's initial value is created with NULL as its
     * data: with data, the filter that stores pages would take it for the
     * refresh of a page
     */

    sr = ngx_http_mcds_refresh_create(r, ngx_http_mcds_init_done, NULL);
    if (sr == NULL) {
        return NGX_ERROR;
    }

    sr->uri.data = ngx_pstrdup(sr->pool, uri);
    sr->uri.len = uri->len;

    sr->args.data = ngx_pstrdup(sr->pool, args);
    sr->args.len = args->len;

    if (sr->uri.data == NULL || sr->args.data == NULL) {
        ngx_http_finalize_request(sr, NGX_ERROR);
        return NGX_ERROR;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);

    sr->loc_conf = cscf->ctx->loc_conf;
    sr->content_handler = NULL;
    sr->write_event_handler = ngx_http_handler;

    ngx_http_set_exten(sr);

    sr->internal = 1;
    sr->valid_unparsed_uri = 0;
    sr->complex_uri = 0;
    sr->quoted_uri = 0;
    sr->plus_in_uri = 0;
    sr->empty_path_in_uri = 0;
    sr->add_uri_to_alias = 0;
    sr->uri_changed = 0;
    sr->uri_changes = NGX_HTTP_MAX_URI_CHANGES + 1;
    sr->error_page = 0;
    sr->err_status = 0;

    init->request = sr;

    return NGX_OK;
}


static void
ngx_http_mcds_init_done(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    uint64_t               value;
    ngx_log_t             *log;
    ngx_mcds_seed_t       *seed;
    ngx_http_mcds_init_t  *init;

    init = ngx_http_mcds_init_find(r);

    if (init == NULL) {
        return;
    }

    log = r->connection->log;
    value = 0;

    if (rc != NGX_OK || !init->ended) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "start of a counter: \"%V?%V\" did not answer",
                      &r->uri, &r->args);
        rc = NGX_ERROR;

    } else if (init->status != NGX_HTTP_OK) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "start of a counter: \"%V?%V\" answered %ui",
                      &r->uri, &r->args, init->status);
        rc = NGX_ERROR;

    } else if (ngx_http_mcds_init_number(init, &value) != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "start of a counter: \"%V?%V\" answered no number",
                      &r->uri, &r->args);
        rc = NGX_ERROR;
    }

    seed = init->seed;

    ngx_queue_remove(&init->queue);
    ngx_free(init);

    ngx_mcds_seed_value(seed, rc, value);
}


/*
 * parses the initial value of a counter in a response body: digits, with
 * spaces and line ends around them
 */

static ngx_int_t
ngx_http_mcds_init_number(ngx_http_mcds_init_t *init, uint64_t *value)
{
    u_char  *p, *last;

    if (init->too_long) {
        return NGX_ERROR;
    }

    p = init->body;
    last = p + init->len;

    while (p < last && (*p == ' ' || *p == CR || *p == LF)) {
        p++;
    }

    while (p < last
           && (last[-1] == ' ' || last[-1] == CR || last[-1] == LF))
    {
        last--;
    }

    return ngx_mcds_parse_number(p, last - p, value);
}


static ngx_http_mcds_init_t *
ngx_http_mcds_init_find(ngx_http_request_t *r)
{
    ngx_queue_t           *q;
    ngx_http_mcds_init_t  *init;

    for (q = ngx_queue_head(&ngx_http_mcds_inits);
         q != ngx_queue_sentinel(&ngx_http_mcds_inits);
         q = ngx_queue_next(q))
    {
        init = ngx_queue_data(q, ngx_http_mcds_init_t, queue);

        if (init->request == r) {
            return init;
        }
    }

    return NULL;
}


ngx_int_t
ngx_http_mcds_counter_init_filters(ngx_conf_t *cf)
{
    /*
     * the queue of requests for initial values is not emptied if it exists: a
     * single process ("master_process off") that reads a new configuration may
     * have such requests under way
     */

    if (ngx_http_mcds_inits.next == NULL) {
        ngx_queue_init(&ngx_http_mcds_inits);
    }

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mcds_init_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_mcds_init_body_filter;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_init_header_filter(ngx_http_request_t *r)
{
    ngx_http_mcds_init_t  *init;

    init = ngx_http_mcds_init_find(r);

    if (init == NULL) {
        return ngx_http_next_header_filter(r);
    }

    init->status = r->err_status ? r->err_status : r->headers_out.status;

    r->header_sent = 1;
    r->filter_need_in_memory = 1;

    if (r->header_only || r->headers_out.status == NGX_HTTP_NO_CONTENT) {
        init->ended = 1;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_init_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    size_t                 size;
    ngx_buf_t             *b;
    ngx_http_mcds_init_t  *init;

    init = ngx_http_mcds_init_find(r);

    if (init == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    for ( /* void */ ; in; in = in->next) {
        b = in->buf;

        size = ngx_buf_in_memory(b) ? b->last - b->pos : 0;

        if (size > NGX_HTTP_MCDS_INIT_LEN - init->len) {
            init->too_long = 1;

        } else if (size) {
            ngx_memcpy(init->body + init->len, b->pos, size);
            init->len += size;
        }

        init->ended |= (b->last_buf || b->last_in_chain);

        b->pos = b->last;
        b->file_pos = b->file_last;
    }

    return NGX_OK;
}
