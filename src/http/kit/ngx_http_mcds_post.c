
/*
 * Copyright (C) mcds authors
 *
 * Posts a body to a location; no client takes part.  The function
 * ngx_http_mcds_refresh_create() can only copy a request, so the code below
 * first fills in a request, with only those fields that the copy gets, and then
 * makes the copy a POST.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_post.h"
#include "ngx_http_mcds_refresh.h"


typedef struct {
    ngx_http_mcds_post_pt       handler;
    void                       *data;
} ngx_http_mcds_posted_t;


/*
 * a request made by mcds itself, with all structures of nginx that it points
 * to; the request that posts a body to a location is its copy
 */

typedef struct {
    ngx_http_request_t          request;
    ngx_http_connection_t       hc;
    ngx_http_addr_conf_t        addr_conf;
    ngx_connection_t            connection;
    ngx_log_t                   log;
    struct sockaddr_in          sockaddr;
} ngx_http_mcds_poster_t;


static ngx_http_mcds_poster_t *ngx_http_mcds_post_create(ngx_pool_t *pool,
    ngx_http_mcds_post_t *post);
static ngx_int_t ngx_http_mcds_post_request(ngx_http_request_t *r,
    ngx_http_mcds_post_t *post);
static ngx_int_t ngx_http_mcds_post_copy(ngx_http_request_t *sr,
    ngx_http_mcds_post_t *post);
static ngx_int_t ngx_http_mcds_post_body(ngx_http_request_t *sr,
    ngx_http_mcds_post_t *post);
static ngx_table_elt_t *ngx_http_mcds_post_header(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);
static void ngx_http_mcds_post_done(ngx_http_request_t *r, void *data,
    ngx_int_t rc);
static ngx_chain_t *ngx_http_mcds_post_send_chain(ngx_connection_t *c,
    ngx_chain_t *in, off_t limit);
static u_char *ngx_http_mcds_post_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


static ngx_str_t  ngx_http_mcds_post_method = ngx_string("POST");


ngx_http_request_t *
ngx_http_mcds_post(ngx_http_mcds_post_t *post)
{
    ngx_pool_t              *pool;
    ngx_http_request_t      *sr;
    ngx_http_mcds_poster_t  *poster;
    ngx_http_mcds_posted_t  *posted;

    pool = ngx_create_pool(NGX_DEFAULT_POOL_SIZE, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    sr = NULL;

    posted = ngx_alloc(sizeof(ngx_http_mcds_posted_t), ngx_cycle->log);
    poster = ngx_http_mcds_post_create(pool, post);

    if (posted && poster) {
        posted->handler = post->handler;
        posted->data = post->data;

        sr = ngx_http_mcds_refresh_create(&poster->request,
                                          ngx_http_mcds_post_done, posted);
    }

    ngx_destroy_pool(pool);

    if (sr == NULL) {

        if (posted) {
            ngx_free(posted);
        }

        return NULL;
    }

    if (ngx_http_mcds_post_copy(sr, post) != NGX_OK
        || ngx_http_mcds_post_body(sr, post) != NGX_OK)
    {
        /*
         * the POST request of mcds itself cannot be sent: the caller gets NULL,
         * and its handler must not be called; the handler is removed here,
         * since ngx_http_finalize_request() calls ngx_http_mcds_post_done() at
         * once
         */

        posted->handler = NULL;
        ngx_http_finalize_request(sr, NGX_ERROR);

        return NULL;
    }

    return sr;
}


void
ngx_http_mcds_post_cancel(ngx_http_request_t *r)
{
    ngx_http_finalize_request(r, NGX_ERROR);
}


static ngx_http_mcds_poster_t *
ngx_http_mcds_post_create(ngx_pool_t *pool, ngx_http_mcds_post_t *post)
{
    ngx_log_t                 *log;
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_connection_t     *hc;
    ngx_http_mcds_poster_t    *poster;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;

    poster = ngx_pcalloc(pool, sizeof(ngx_http_mcds_poster_t));
    if (poster == NULL) {
        return NULL;
    }

    cscf = post->ctx->srv_conf[ngx_http_core_module.ctx_index];
    clcf = post->ctx->loc_conf[ngx_http_core_module.ctx_index];

    log = &poster->log;

    *log = *clcf->error_log;
    log->connection = 0;
    log->handler = ngx_http_mcds_post_log_error;
    log->data = NULL;
    log->action = NULL;

    poster->sockaddr.sin_family = AF_INET;
    poster->sockaddr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    c = &poster->connection;

    c->fd = (ngx_socket_t) -1;
    c->pool = pool;
    c->log = log;
    c->type = SOCK_STREAM;
    c->listening = ngx_cycle->listening.elts;
    c->sockaddr = (struct sockaddr *) &poster->sockaddr;
    c->socklen = sizeof(struct sockaddr_in);
    c->local_sockaddr = c->sockaddr;
    c->local_socklen = c->socklen;
    c->start_time = ngx_current_msec;

    ngx_str_set(&c->addr_text, "127.0.0.1");

    poster->addr_conf.default_server = cscf;

    hc = &poster->hc;
    hc->addr_conf = &poster->addr_conf;
    hc->conf_ctx = post->ctx;

    r = &poster->request;

    r->signature = NGX_HTTP_MODULE;
    r->connection = c;
    r->http_connection = hc;
    r->main = r;
    r->pool = pool;
    r->count = 1;

    c->data = r;

    r->main_conf = post->ctx->main_conf;
    r->srv_conf = post->ctx->srv_conf;
    r->loc_conf = post->ctx->loc_conf;

    return ngx_http_mcds_post_request(r, post) == NGX_OK ? poster : NULL;
}


static ngx_int_t
ngx_http_mcds_post_request(ngx_http_request_t *r, ngx_http_mcds_post_t *post)
{
    u_char                     *p;
    ngx_str_t                   name, *host;
    ngx_http_core_srv_conf_t   *cscf;
    ngx_http_core_main_conf_t  *cmcf;

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    r->ctx = ngx_pcalloc(r->pool, sizeof(void *) * ngx_http_max_module);
    r->variables = ngx_pcalloc(r->pool, cmcf->variables.nelts
                                        * sizeof(ngx_http_variable_value_t));

    p = ngx_pnalloc(r->pool, post->uri.len + 1 + post->args.len
                             + sizeof("POST  HTTP/1.1") - 1);

    if (r->ctx == NULL || r->variables == NULL || p == NULL
        || ngx_list_init(&r->headers_in.headers, r->pool, 4,
                         sizeof(ngx_table_elt_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    r->request_line.data = p;
    r->request_line.len = ngx_sprintf(p, "POST %V%s%V HTTP/1.1", &post->uri,
                                      post->args.len ? "?" : "", &post->args)
                          - p;

    r->unparsed_uri.data = p + sizeof("POST ") - 1;
    r->unparsed_uri.len = r->request_line.len
                          - (sizeof("POST  HTTP/1.1") - 1);

    r->uri = post->uri;
    r->args = post->args;

    r->method = NGX_HTTP_POST;
    r->method_name = ngx_http_mcds_post_method;

    ngx_str_set(&r->http_protocol, "HTTP/1.1");
    r->http_version = NGX_HTTP_VERSION_11;
    r->http_major = 1;
    r->http_minor = 1;

    r->headers_in.content_length_n = -1;
    r->headers_in.keep_alive_n = -1;

    ngx_str_set(&name, "Host");

    host = &r->headers_in.server;
    *host = cscf->server_name;

    /* a server_name that is no host: a regular expression, wildcard or "_" */

    if (host->len == 0
        || host->data[0] == '~'
        || (host->len == 1 && host->data[0] == '_')
        || ngx_strlchr(host->data, host->data + host->len, '*'))
    {
        ngx_str_set(host, "localhost");
    }

    r->headers_in.host = ngx_http_mcds_post_header(r, &name, host);

    return r->headers_in.host ? NGX_OK : NGX_ERROR;
}


/*
 * Makes the copy of a request a POST that runs all phases; the copies that
 * refresh pages are GETs and continue at the phase of the copied request.
 */

static ngx_int_t
ngx_http_mcds_post_copy(ngx_http_request_t *sr, ngx_http_mcds_post_t *post)
{
    sr->method = NGX_HTTP_POST;
    sr->method_name = ngx_http_mcds_post_method;

    /*
     * sr is a subrequest; its main request becomes a POST, too, since the
     * variable $request_method reads the method of the main request
     */

    sr->main->method = sr->method;
    sr->main->method_name = sr->method_name;

    /*
     * nginx delays a response by limit_rate of the main request, but nobody
     * reads the response to a POST of mcds itself
     */

    sr->main->limit_rate = 0;
    sr->main->limit_rate_set = 1;

    /*
     * client_max_body_size of the location is not for this body, which is not
     * of a client; ngx_http_mcds_refresh_event_handler() ignores the timer that
     * nginx then starts, as if it discarded the body
     */

    ngx_http_mcds_any_length(sr);

    sr->loc_conf = post->ctx->loc_conf;
    sr->content_handler = NULL;
    sr->write_event_handler = ngx_http_handler;

    ngx_http_set_exten(sr);

    sr->internal = 1;
    sr->valid_unparsed_uri = 0;
    sr->uri_changed = 0;
    sr->uri_changes = NGX_HTTP_MAX_URI_CHANGES + 1;

    sr->connection->send_chain = ngx_http_mcds_post_send_chain;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_post_body(ngx_http_request_t *sr, ngx_http_mcds_post_t *post)
{
    u_char                    text[NGX_OFF_T_LEN];
    ngx_buf_t                *b;
    ngx_str_t                 name, value;
    ngx_chain_t              *cl;
    ngx_http_request_body_t  *rb;

    rb = ngx_pcalloc(sr->pool, sizeof(ngx_http_request_body_t));
    b = ngx_create_temp_buf(sr->pool, post->body.len);
    cl = ngx_alloc_chain_link(sr->pool);

    if (rb == NULL || b == NULL || cl == NULL) {
        return NGX_ERROR;
    }

    b->last = ngx_cpymem(b->pos, post->body.data, post->body.len);
    b->last_buf = 1;

    cl->buf = b;
    cl->next = NULL;

    rb->bufs = cl;
    rb->buf = b;

    sr->request_body = rb;

    value.data = text;
    value.len = ngx_sprintf(text, "%uz", post->body.len) - text;

    ngx_str_set(&name, "Content-Length");
    sr->headers_in.content_length = ngx_http_mcds_post_header(sr, &name,
                                                              &value);
    sr->headers_in.content_length_n = post->body.len;

    ngx_str_set(&name, "Content-Type");
    sr->headers_in.content_type = ngx_http_mcds_post_header(sr, &name,
                                                            &post->type);

    if (sr->headers_in.content_length == NULL
        || sr->headers_in.content_type == NULL
        || ngx_http_mcds_post_header(sr, &post->name, &post->value) == NULL)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_table_elt_t *
ngx_http_mcds_post_header(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_in.headers);
    if (h == NULL) {
        return NULL;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    /*
     * some modules of nginx rely on a zero byte behind the value of a request
     * header
     */

    h->key.len = name->len;
    h->key.data = ngx_pnalloc(r->pool, name->len + 1);
    h->value.len = value->len;
    h->value.data = ngx_pnalloc(r->pool, value->len + 1);
    h->lowcase_key = ngx_pnalloc(r->pool, name->len);

    if (h->key.data == NULL || h->value.data == NULL
        || h->lowcase_key == NULL)
    {
        return NULL;
    }

    *ngx_cpymem(h->key.data, name->data, name->len) = '\0';
    *ngx_cpymem(h->value.data, value->data, value->len) = '\0';

    h->hash = ngx_hash_strlow(h->lowcase_key, name->data, name->len);

    return h;
}


static void
ngx_http_mcds_post_done(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    ngx_http_mcds_posted_t *posted = data;

    ngx_uint_t              status;
    ngx_http_mcds_posted_t  p;

    p = *posted;

    ngx_free(posted);

    status = r->err_status ? r->err_status : r->headers_out.status;

    if (rc != NGX_OK || !r->header_sent) {
        status = 0;
    }

    if (p.handler) {
        p.handler(p.data, status);
    }
}


/*
 * drops the response to a POST request that mcds itself has made: no client
 * reads it, so all its buffers count as sent at once
 */

static ngx_chain_t *
ngx_http_mcds_post_send_chain(ngx_connection_t *c, ngx_chain_t *in,
    off_t limit)
{
    for ( /* void */ ; in; in = in->next) {
        c->sent += ngx_buf_size(in->buf);

        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }

    return NULL;
}


static u_char *
ngx_http_mcds_post_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char              *p;
    ngx_http_log_ctx_t  *ctx;

    p = buf;

    if (log->action) {
        p = ngx_http_mcds_log_action(log, buf, len);
        len -= p - buf;
        buf = p;
    }

    ctx = log->data;

    if (ctx == NULL || ctx->request == NULL) {
        return p;
    }

    return ngx_http_mcds_log_request(log, ctx, buf, len);
}
