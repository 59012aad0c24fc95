
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_mcds_refresh.h"


/*
 * What a refresh is made of:
 *
 *   connection    free slot of the worker, descriptor -1, never closed
 *     pool        ngx_http_mcds_refresh_t, log, addresses, reference to TLS
 *   main          parked request: holds the context, is never run
 *     pool        everything else
 *   request       the copy: background subrequest of main, which runs
 *
 *   create -> posted event -> phases, upstream, filters -> finalized -> done
 *          -> posted event -> free
 *
 * nginx would close the connection with the last reference to main, and with
 * it descriptor -1 and the client's TLS.  So main holds references that are
 * never given back, and its write_event_handler stays NULL, which keeps
 * ngx_http_terminate_request() from setting the count by force.
 */


/* more than one, so that a count that is off by some frees nothing */
#define NGX_HTTP_MCDS_REFRESH_HOLD  16

/* requests inside of the copy and file threads may outlive it; milliseconds */
#define NGX_HTTP_MCDS_REFRESH_POLL  50

/* room for validators that the caller may push */
#define NGX_HTTP_MCDS_REFRESH_SPARE 4

/* holds ngx_http_mcds_refresh_t, addresses and the like in one piece */
#define NGX_HTTP_MCDS_REFRESH_POOL  2048


typedef struct {
    ngx_http_connection_t       hc;

    ngx_pool_t                 *pool;
    ngx_connection_t           *connection;
    ngx_http_request_t         *main;
    ngx_http_request_t         *request;

    ngx_http_mcds_refresh_pt    handler;
    void                       *data;

    ngx_http_post_subrequest_t  ps;
    ngx_event_t                 event;

    ngx_log_t                   log;
    ngx_http_log_ctx_t          log_ctx;
    ngx_http_log_handler_pt     log_handler;

    unsigned                    done:1;
    unsigned                    terminated:1;
} ngx_http_mcds_refresh_t;


typedef struct {
    ngx_table_elt_t           **from;
    ngx_table_elt_t            *to;
    ngx_uint_t                  n;
} ngx_http_mcds_refresh_map_t;


static ngx_int_t ngx_http_mcds_refresh_init(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_connection(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_addresses(ngx_connection_t *c,
    ngx_connection_t *from);
#if (NGX_HTTP_SSL)
static ngx_int_t ngx_http_mcds_refresh_ssl(ngx_http_mcds_refresh_t *ref,
    ngx_connection_t *from);
static void ngx_http_mcds_refresh_ssl_cleanup(void *data);
#endif

static ngx_int_t ngx_http_mcds_refresh_main(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_strings(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_headers(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_uint_t deep);
static ngx_int_t ngx_http_mcds_refresh_parsed(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_http_mcds_refresh_map_t *map);
static ngx_table_elt_t *ngx_http_mcds_refresh_header(
    ngx_http_mcds_refresh_map_t *map, ngx_table_elt_t *h);
static ngx_uint_t ngx_http_mcds_refresh_unwanted(ngx_str_t *name);
static ngx_int_t ngx_http_mcds_refresh_variables(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v);
static ngx_int_t ngx_http_mcds_refresh_captures(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_subrequest(
    ngx_http_mcds_refresh_t *ref, ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_copy(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);

static void ngx_http_mcds_refresh_run_handler(ngx_event_t *ev);
static void ngx_http_mcds_refresh_event_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_mcds_refresh_post_handler(ngx_http_request_t *r,
    void *data, ngx_int_t rc);
static void ngx_http_mcds_refresh_cleanup(void *data);
static void ngx_http_mcds_refresh_done(ngx_http_mcds_refresh_t *ref,
    ngx_int_t rc);
static void ngx_http_mcds_refresh_free_handler(ngx_event_t *ev);
static void ngx_http_mcds_refresh_free(ngx_http_mcds_refresh_t *ref);
static u_char *ngx_http_mcds_refresh_log_error(ngx_http_request_t *r,
    ngx_http_request_t *sr, u_char *buf, size_t len);


static ngx_str_t  ngx_http_mcds_refresh_hidden[] = {
    ngx_string("if-"),                     /* and all that begin so */
    ngx_string("range"),
    ngx_string("expect"),
    ngx_string("upgrade"),
    ngx_string("te"),
    ngx_string("content-length"),
    ngx_string("transfer-encoding"),
    ngx_string("connection"),
    ngx_string("keep-alive"),
    ngx_string("proxy-connection"),
    ngx_string("trailer"),
    ngx_string("http2-settings"),
    ngx_null_string
};


/*
 * The first group cannot be told from the copy: the stream, the address
 * before realip.  Their values are taken from the request while it is there.
 */

static ngx_str_t  ngx_http_mcds_refresh_eager[] = {
    ngx_string("http2"),
    ngx_string("http3"),
    ngx_string("realip_remote_addr"),
    ngx_string("realip_remote_port"),
    ngx_string("request_port"),
    ngx_string("is_request_port"),
    ngx_null_string
};


/* these are of the client's request or of its response only */

static ngx_str_t  ngx_http_mcds_refresh_lazy[] = {
    ngx_string("request_method"),
    ngx_string("request_body"),
    ngx_string("request_body_file"),
    ngx_string("content_length"),
    ngx_string("bytes_sent"),
    ngx_string("body_bytes_sent"),
    ngx_null_string
};


ngx_http_request_t *
ngx_http_mcds_refresh_create(ngx_http_request_t *r,
    ngx_http_mcds_refresh_pt handler, void *data)
{
    ngx_pool_t               *pool;
    ngx_http_mcds_refresh_t  *ref;

    /* later there is no descriptor to ask */

    if (ngx_connection_local_sockaddr(r->connection, NULL, 0) != NGX_OK) {
        return NULL;
    }

    pool = ngx_create_pool(NGX_HTTP_MCDS_REFRESH_POOL, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    ref = ngx_pcalloc(pool, sizeof(ngx_http_mcds_refresh_t));
    if (ref == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    ref->pool = pool;

    if (ngx_http_mcds_refresh_init(ref, r) != NGX_OK) {
        ngx_http_mcds_refresh_free(ref);
        return NULL;
    }

    ref->handler = handler;
    ref->data = data;

    ref->event.handler = ngx_http_mcds_refresh_run_handler;
    ngx_post_event(&ref->event, &ngx_posted_events);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "mcds refresh: \"%V?%V\"",
                   &ref->request->uri, &ref->request->args);

    return ref->request;
}


void *
ngx_http_mcds_refresh_data(ngx_http_request_t *r)
{
    ngx_http_mcds_refresh_t  *ref;

    if (r->main->log_handler != ngx_http_mcds_refresh_log_error) {
        return NULL;
    }

    ref = (ngx_http_mcds_refresh_t *) r->main->http_connection;

    return (r == ref->request) ? ref->data : NULL;
}


ngx_int_t
ngx_http_mcds_refresh_strip(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    if (ngx_http_mcds_refresh_headers(r, r, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    /* what was read of these headers before */

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (v[i].name.len > 5
            && ngx_strncmp(v[i].name.data, "http_", 5) == 0
            && ngx_http_mcds_refresh_unfit(&v[i]))
        {
            r->variables[i].valid = 0;
            r->variables[i].not_found = 0;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_refresh_init(ngx_http_mcds_refresh_t *ref, ngx_http_request_t *r)
{
    ngx_http_request_t  *main;

    if (ngx_http_mcds_refresh_connection(ref, r) != NGX_OK
        || ngx_http_mcds_refresh_main(ref, r) != NGX_OK)
    {
        return NGX_ERROR;
    }

    main = ref->main;

    if (ngx_http_mcds_refresh_strings(main, r) != NGX_OK
        || ngx_http_mcds_refresh_headers(main, r, 1) != NGX_OK
        || ngx_http_mcds_refresh_variables(main, r) != NGX_OK
        || ngx_http_mcds_refresh_captures(main, r) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_refresh_subrequest(ref, r);
}


static ngx_int_t
ngx_http_mcds_refresh_connection(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r)
{
    ngx_connection_t       *c, *saved;
    ngx_http_connection_t  *hc;
#if (NGX_HTTP_SSL)
    ngx_str_t              *name;
#endif

    /* the descriptor is only an index here, and 0 always fits */

    saved = ngx_cycle->files ? ngx_cycle->files[0] : NULL;

    c = ngx_get_connection(0, r->connection->log);

    if (ngx_cycle->files) {
        ngx_cycle->files[0] = saved;
    }

    if (c == NULL) {
        return NGX_ERROR;
    }

    c->fd = (ngx_socket_t) -1;

    ref->connection = c;

    ref->log = *r->connection->log;
    ref->log.data = &ref->log_ctx;
    ref->log.action = NULL;
    ref->log_ctx.connection = c;

    ref->event.data = ref;
    ref->event.log = &ref->log;

    c->log = &ref->log;
    c->pool = ref->pool;
    c->pool->log = &ref->log;
    c->log_error = NGX_ERROR_INFO;

    c->read->log = c->log;
    c->write->log = c->log;
    c->read->handler = ngx_http_mcds_refresh_event_handler;
    c->write->handler = ngx_http_mcds_refresh_event_handler;

    /*
     * As if the socket was being watched for reading, with nothing to read,
     * and could always be written to, so that nobody adds it to epoll and
     * the event pipe never waits for it.
     */

    c->read->active = 1;
    c->write->active = (ngx_event_flags & NGX_USE_CLEAR_EVENT) ? 1 : 0;
    c->write->ready = 1;

    c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
    c->tcp_nopush = NGX_TCP_NOPUSH_DISABLED;

    c->recv = ngx_recv;
    c->send = ngx_send;
    c->recv_chain = ngx_recv_chain;
    c->send_chain = ngx_send_chain;

    hc = &ref->hc;
    *hc = *r->main->http_connection;

    hc->busy = NULL;
    hc->nbusy = 0;
    hc->free = NULL;

#if (NGX_HTTP_SSL)

    if (hc->ssl_servername) {
        name = ngx_palloc(c->pool, sizeof(ngx_str_t));
        if (name == NULL) {
            return NGX_ERROR;
        }

        if (ngx_http_mcds_refresh_copy(c->pool, name, hc->ssl_servername)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        hc->ssl_servername = name;
    }

    if (r->connection->ssl
        && ngx_http_mcds_refresh_ssl(ref, r->connection) != NGX_OK)
    {
        return NGX_ERROR;
    }

#endif

    return ngx_http_mcds_refresh_addresses(c, r->connection);
}


static ngx_int_t
ngx_http_mcds_refresh_addresses(ngx_connection_t *c, ngx_connection_t *from)
{
    ngx_proxy_protocol_t  *pp;

    c->type = from->type;
    c->listening = from->listening;
    c->number = from->number;
    c->start_time = from->start_time;

    c->sockaddr = ngx_palloc(c->pool, ngx_max(from->socklen,
                                         (socklen_t) sizeof(ngx_sockaddr_t)));
    if (c->sockaddr == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(c->sockaddr, from->sockaddr, from->socklen);
    c->socklen = from->socklen;

    c->local_sockaddr = ngx_palloc(c->pool, ngx_max(from->local_socklen,
                                         (socklen_t) sizeof(ngx_sockaddr_t)));
    if (c->local_sockaddr == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(c->local_sockaddr, from->local_sockaddr, from->local_socklen);
    c->local_socklen = from->local_socklen;

    if (ngx_http_mcds_refresh_copy(c->pool, &c->addr_text, &from->addr_text)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (from->proxy_protocol == NULL) {
        return NGX_OK;
    }

    pp = ngx_palloc(c->pool, sizeof(ngx_proxy_protocol_t));
    if (pp == NULL) {
        return NGX_ERROR;
    }

    *pp = *from->proxy_protocol;

    if (ngx_http_mcds_refresh_copy(c->pool, &pp->src_addr, &pp->src_addr)
        != NGX_OK
        || ngx_http_mcds_refresh_copy(c->pool, &pp->dst_addr, &pp->dst_addr)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

#if (nginx_version >= 1023002)
    if (ngx_http_mcds_refresh_copy(c->pool, &pp->tlvs, &pp->tlvs) != NGX_OK) {
        return NGX_ERROR;
    }
#endif

    c->proxy_protocol = pp;

    return NGX_OK;
}


#if (NGX_HTTP_SSL)

/*
 * $scheme and $https look whether the connection has TLS, and $ssl_* ask the
 * library.  Nothing is ever sent or received through this reference.
 */

static ngx_int_t
ngx_http_mcds_refresh_ssl(ngx_http_mcds_refresh_t *ref, ngx_connection_t *from)
{
    ngx_pool_cleanup_t    *cln;
    ngx_ssl_connection_t  *ssl;

    ssl = ngx_pcalloc(ref->pool, sizeof(ngx_ssl_connection_t));
    if (ssl == NULL) {
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(ref->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ssl->connection = from->ssl->connection;
    ssl->session_ctx = from->ssl->session_ctx;
    ssl->handshaked = 1;

    (void) SSL_up_ref(ssl->connection);

    cln->handler = ngx_http_mcds_refresh_ssl_cleanup;
    cln->data = ssl->connection;

    ref->connection->ssl = ssl;

    return NGX_OK;
}


static void
ngx_http_mcds_refresh_ssl_cleanup(void *data)
{
    SSL_free(data);
}

#endif


static ngx_int_t
ngx_http_mcds_refresh_main(ngx_http_mcds_refresh_t *ref, ngx_http_request_t *r)
{
    ngx_log_t           *log;
    ngx_connection_t    *c;
    ngx_http_request_t  *main;
    ngx_http_cleanup_t  *cln;

    c = ref->connection;
    c->data = &ref->hc;

    main = ngx_http_create_request(c);
    if (main == NULL) {
        return NGX_ERROR;
    }

    ref->main = main;

    c->requests = r->connection->requests;

    /* nginx has set the log of the default server */

    log = r->connection->log;

    ref->log.log_level = log->log_level;
    ref->log.file = log->file;
    ref->log.writer = log->writer;
    ref->log.wdata = log->wdata;
    ref->log.next = log->next;

    ref->log_handler = main->log_handler;
    main->log_handler = ngx_http_mcds_refresh_log_error;

#if (NGX_STAT_STUB)
    /* nobody has sent this request */
    (void) ngx_atomic_fetch_add(ngx_stat_reading, -1);
    (void) ngx_atomic_fetch_add(ngx_stat_requests, -1);
    main->stat_reading = 0;
#endif

    main->count = NGX_HTTP_MCDS_REFRESH_HOLD;

    /* the first added is the last called, after those of upstreams */

    cln = ngx_http_cleanup_add(main, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_mcds_refresh_cleanup;
    cln->data = ref;

    main->header_in = ngx_calloc_buf(main->pool);
    if (main->header_in == NULL) {
        return NGX_ERROR;
    }

    /* read, and found empty */

    main->request_body = ngx_pcalloc(main->pool,
                                     sizeof(ngx_http_request_body_t));
    if (main->request_body == NULL) {
        return NGX_ERROR;
    }

    main->main_conf = r->main_conf;
    main->srv_conf = r->srv_conf;
    main->loc_conf = r->loc_conf;

    main->method = NGX_HTTP_GET;
    main->method_name = ngx_http_core_get_method;
    main->http_version = r->http_version;
    main->http_major = r->http_major;
    main->http_minor = r->http_minor;

    main->request_length = r->main->request_length;
    main->pipeline = r->main->pipeline;

    main->phase_handler = r->phase_handler;
    main->content_handler = r->content_handler;

    main->valid_location = r->valid_location;
    main->valid_unparsed_uri = r->valid_unparsed_uri;
    main->expect_tested = 1;
    main->main_filter_need_in_memory = 1;

    /* passed, also if the copy is redirected to a location with limits */

    main->limit_conn_status = r->main->limit_conn_status
                              ? r->main->limit_conn_status : 1;
    main->limit_req_status = r->main->limit_req_status
                             ? r->main->limit_req_status : 1;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_refresh_strings(ngx_http_request_t *main, ngx_http_request_t *r)
{
    ngx_uint_t   i;
    ngx_pool_t  *pool;
    ngx_str_t   *str[7][2] = {
        { &main->request_line, &r->request_line },
        { &main->uri, &r->uri },
        { &main->args, &r->args },
        { &main->exten, &r->exten },
        { &main->unparsed_uri, &r->unparsed_uri },
        { &main->http_protocol, &r->http_protocol },
        { &main->schema, &r->schema }
    };

    pool = main->pool;

    for (i = 0; i < 7; i++) {
        if (ngx_http_mcds_refresh_copy(pool, str[i][0], str[i][1]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Gives "to" a new list with the headers of "from", less the unwanted.  They
 * cannot be marked as deleted in the old one: proxy and others do not look.
 */

static ngx_int_t
ngx_http_mcds_refresh_headers(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_uint_t deep)
{
    size_t                        size;
    ngx_uint_t                    i, n;
    ngx_list_t                    list;
    ngx_list_part_t              *part;
    ngx_table_elt_t              *h, *header;
    ngx_http_mcds_refresh_map_t   map;

    n = 0;

    for (part = &from->headers_in.headers.part; part; part = part->next) {
        n += part->nelts;
    }

    map.n = 0;
    map.from = ngx_palloc(to->pool, (n + 1) * sizeof(ngx_table_elt_t *));

    size = sizeof(ngx_table_elt_t);

    if (map.from == NULL
        || ngx_list_init(&list, to->pool, n + NGX_HTTP_MCDS_REFRESH_SPARE, size)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    map.to = list.part.elts;

    for (part = &from->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (header[i].hash == 0
                || ngx_http_mcds_refresh_unwanted(&header[i].key))
            {
                continue;
            }

            h = ngx_list_push(&list);
            if (h == NULL) {
                return NGX_ERROR;
            }

            *h = header[i];
            map.from[map.n++] = &header[i];

#if (nginx_version >= 1023000)
            h->next = NULL;
#endif

            if (!deep) {
                continue;
            }

            if (ngx_http_mcds_refresh_copy(to->pool, &h->key, &h->key)
                != NGX_OK
                || ngx_http_mcds_refresh_copy(to->pool, &h->value, &h->value)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }

            h->lowcase_key = ngx_pnalloc(to->pool, h->key.len);
            if (h->lowcase_key == NULL) {
                return NGX_ERROR;
            }

            ngx_strlow(h->lowcase_key, h->key.data, h->key.len);
        }
    }

    if (ngx_http_mcds_refresh_parsed(to, from, &map) != NGX_OK) {
        return NGX_ERROR;
    }

    to->headers_in.headers = list;
    to->headers_in.headers.last = &to->headers_in.headers.part;

#if (nginx_version >= 1023000)
    to->headers_in.multi = from->headers_in.multi;
    to->headers_in.multi_linked = 0;
#endif

    if (to == from) {
        return NGX_OK;
    }

    to->headers_in.msie = from->headers_in.msie;
    to->headers_in.msie6 = from->headers_in.msie6;
    to->headers_in.opera = from->headers_in.opera;
    to->headers_in.gecko = from->headers_in.gecko;
    to->headers_in.chrome = from->headers_in.chrome;
    to->headers_in.safari = from->headers_in.safari;
    to->headers_in.konqueror = from->headers_in.konqueror;

    return ngx_http_mcds_refresh_copy(to->pool, &to->headers_in.server,
                                      &from->headers_in.server);
}


/*
 * Whatever of nginx's table was known by a pointer, is, by one into the new
 * list.  Calling the table's handlers again instead would choose the server
 * anew and refuse what was accepted.
 */

static ngx_int_t
ngx_http_mcds_refresh_parsed(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_http_mcds_refresh_map_t *map)
{
    u_char             *src, *dst;
    ngx_table_elt_t    *h, *new, **ph;
    ngx_http_header_t  *hh;

#if (nginx_version < 1023000)
    ngx_uint_t          i;
    ngx_array_t         headers, *many;
#endif

    src = (u_char *) &from->headers_in;
    dst = (u_char *) &to->headers_in;

    for (hh = ngx_http_headers_in; hh->name.len; hh++) {

#if (nginx_version < 1023000)

        if (hh->offset == offsetof(ngx_http_headers_in_t, cookies)
#if (NGX_HTTP_X_FORWARDED_FOR)
            || hh->offset == offsetof(ngx_http_headers_in_t, x_forwarded_for)
#endif
           )
        {
            many = (ngx_array_t *) (src + hh->offset);

            if (many->elts == NULL) {
                continue;
            }

            if (ngx_array_init(&headers, to->pool, many->nelts + 1,
                               sizeof(ngx_table_elt_t *))
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            ph = many->elts;

            for (i = 0; i < many->nelts; i++) {
                new = ngx_http_mcds_refresh_header(map, ph[i]);

                if (new) {
                    *(ngx_table_elt_t **) ngx_array_push(&headers) = new;
                }
            }

            *(ngx_array_t *) (dst + hh->offset) = headers;

            continue;
        }

        h = *(ngx_table_elt_t **) (src + hh->offset);
        ph = (ngx_table_elt_t **) (dst + hh->offset);

        *ph = ngx_http_mcds_refresh_header(map, h);

#else

        h = *(ngx_table_elt_t **) (src + hh->offset);
        ph = (ngx_table_elt_t **) (dst + hh->offset);

        for ( /* void */ ; h; h = h->next) {
            new = ngx_http_mcds_refresh_header(map, h);

            if (new) {
                *ph = new;
                ph = &new->next;
            }
        }

        *ph = NULL;

#endif
    }

    return NGX_OK;
}


static ngx_table_elt_t *
ngx_http_mcds_refresh_header(ngx_http_mcds_refresh_map_t *map,
    ngx_table_elt_t *h)
{
    ngx_uint_t  i;

    for (i = 0; i < map->n; i++) {
        if (map->from[i] == h) {
            return &map->to[i];
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_http_mcds_refresh_unwanted(ngx_str_t *name)
{
    u_char      c;
    ngx_str_t  *hidden;
    ngx_uint_t  i;

    for (hidden = ngx_http_mcds_refresh_hidden; hidden->len; hidden++) {

        if (name->len < hidden->len) {
            continue;
        }

        for (i = 0; i < hidden->len; i++) {

            /* a name is that of a header or, with "_", of its variable */

            c = ngx_tolower(name->data[i]);

            if (((c == '_') ? '-' : c) != hidden->data[i]) {
                break;
            }
        }

        if (i < hidden->len) {
            continue;
        }

        if (i == name->len || hidden->data[i - 1] == '-') {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_mcds_refresh_variables(ngx_http_request_t *main,
    ngx_http_request_t *r)
{
    u_char                     *p;
    ngx_uint_t                  i;
    ngx_str_t                  *eager;
    ngx_http_variable_t        *v;
    ngx_http_variable_value_t  *from, *to;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        for (eager = ngx_http_mcds_refresh_eager; eager->len; eager++) {
            if (v[i].name.len == eager->len
                && ngx_strncmp(v[i].name.data, eager->data, eager->len) == 0)
            {
                (void) ngx_http_get_indexed_variable(r, i);
                break;
            }
        }

        from = &r->variables[i];
        to = &main->variables[i];

        if ((!from->valid && !from->not_found)
            || ngx_http_mcds_refresh_unfit(&v[i]))
        {
            continue;
        }

        *to = *from;

        if (!from->valid || from->len == 0) {
            to->data = (u_char *) "";
            continue;
        }

        /* some modules count on the zero behind */

        p = ngx_pnalloc(main->pool, from->len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        to->data = p;
        p = ngx_cpymem(p, from->data, from->len);
        *p = '\0';
    }

    return NGX_OK;
}


/* whether the value that a variable has in r must not be taken over */

static ngx_uint_t
ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v)
{
    ngx_str_t   name, *lazy;

    name = v->name;

    /* a "set" or "map" that took the name of a header */

    if (v->flags & NGX_HTTP_VAR_CHANGEABLE) {
        return 0;
    }

    if ((name.len > 5 && ngx_strncmp(name.data, "sent_", 5) == 0)
        || (name.len > 9 && ngx_strncmp(name.data, "upstream_", 9) == 0))
    {
        return 1;
    }

    for (lazy = ngx_http_mcds_refresh_lazy; lazy->len; lazy++) {
        if (name.len == lazy->len
            && ngx_strncmp(name.data, lazy->data, name.len) == 0)
        {
            return 1;
        }
    }

    if (name.len <= 5 || ngx_strncmp(name.data, "http_", 5) != 0) {
        return 0;
    }

    name.data += 5;
    name.len -= 5;

    return ngx_http_mcds_refresh_unwanted(&name);
}


static ngx_int_t
ngx_http_mcds_refresh_captures(ngx_http_request_t *main, ngx_http_request_t *r)
{
#if (NGX_PCRE)

    int                         end;
    ngx_uint_t                  i;
    ngx_http_core_main_conf_t  *cmcf;

    if (r->ncaptures == 0) {
        return NGX_OK;
    }

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    /* what a later regex does not fill must be no memory of somebody else */

    main->captures = ngx_pcalloc(main->pool, cmcf->ncaptures * sizeof(int));
    if (main->captures == NULL) {
        return NGX_ERROR;
    }

    end = 0;

    for (i = 0; i < r->ncaptures; i++) {
        main->captures[i] = r->captures[i];
        end = ngx_max(end, r->captures[i]);
    }

    main->captures_data = ngx_pnalloc(main->pool, end + 1);
    if (main->captures_data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(main->captures_data, r->captures_data, end);
    main->captures_data[end] = '\0';

    main->ncaptures = r->ncaptures;

#endif

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_refresh_subrequest(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r)
{
    ngx_http_request_t  *main, *sr;

    main = ref->main;

    ref->ps.handler = ngx_http_mcds_refresh_post_handler;
    ref->ps.data = ref;

    if (ngx_http_subrequest(main, &main->uri, &main->args, &sr, &ref->ps,
                            NGX_HTTP_SUBREQUEST_CLONE
                            |NGX_HTTP_SUBREQUEST_BACKGROUND)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ref->request = sr;
    ref->connection->data = sr;
    ref->connection->sendfile = 0;
    ref->log_ctx.request = main;
    ref->log_ctx.current_request = sr;

    /* the rest of what the phases have found out, not copied by a clone */

    sr->internal = r->internal;
    sr->complex_uri = r->complex_uri;
    sr->quoted_uri = r->quoted_uri;
    sr->plus_in_uri = r->plus_in_uri;
    sr->empty_path_in_uri = r->empty_path_in_uri;
    sr->add_uri_to_alias = r->add_uri_to_alias;
    sr->uri_changes = r->uri_changes;
    sr->error_page = r->error_page;
    sr->err_status = r->err_status;
    sr->http_major = main->http_major;
    sr->http_minor = main->http_minor;
    sr->request_length = main->request_length;
    sr->pipeline = main->pipeline;

    /* its own structure, else what is pushed would go to that of main */

    sr->headers_in.headers.last = &sr->headers_in.headers.part;

#if (NGX_PCRE)
    /* nobody shares them: main never runs */
    sr->realloc_captures = 0;
#endif

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_refresh_copy(ngx_pool_t *pool, ngx_str_t *to, ngx_str_t *from)
{
    u_char  *p;
    size_t   len;

    len = from->len;

    p = ngx_pnalloc(pool, len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (len) {
        ngx_memcpy(p, from->data, len);
    }

    p[len] = '\0';

    to->len = len;
    to->data = p;

    return NGX_OK;
}


static void
ngx_http_mcds_refresh_run_handler(ngx_event_t *ev)
{
    ngx_http_mcds_refresh_t  *ref;

    ref = ev->data;

    ngx_http_run_posted_requests(ref->connection);
}


static void
ngx_http_mcds_refresh_event_handler(ngx_event_t *ev)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    c = ev->data;
    r = c->data;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "mcds refresh event: \"%V?%V\"", &r->uri, &r->args);

    if (ev->write) {
        r->write_event_handler(r);

    } else {
        r->read_event_handler(r);
    }

    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_mcds_refresh_post_handler(ngx_http_request_t *r, void *data,
    ngx_int_t rc)
{
    ngx_http_mcds_refresh_t *ref = data;

    if (ref->done) {
        return rc;
    }

    if (rc == NGX_ERROR
        || rc == NGX_HTTP_CLOSE
        || rc == NGX_HTTP_REQUEST_TIME_OUT
        || rc == NGX_HTTP_CLIENT_CLOSED_REQUEST
        || r->connection->error)
    {
        /* the action would run with nothing to end it */

        r->post_action = 1;
        r->uri_changes = 0;

        ngx_http_mcds_refresh_done(ref, rc);

        return rc;
    }

    /* an error page or a redirect to one comes first, then here again */

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE
        || rc == NGX_HTTP_CREATED
        || rc == NGX_HTTP_NO_CONTENT)
    {
        return rc;
    }

    /* so it does when the writer has got rid of what is left */

    if (r->buffered || r->postponed) {
        return rc;
    }

    ngx_http_mcds_refresh_done(ref, rc);

    return rc;
}


/* all of the connection's requests were terminated, whoever was at fault */

static void
ngx_http_mcds_refresh_cleanup(void *data)
{
    ngx_http_mcds_refresh_t *ref = data;

    ref->terminated = 1;
    ref->main->posted_requests = NULL;

    if (!ref->done) {
        ngx_http_mcds_refresh_done(ref, NGX_ERROR);
    }
}


static void
ngx_http_mcds_refresh_done(ngx_http_mcds_refresh_t *ref, ngx_int_t rc)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ref->request;
    c = ref->connection;

    ref->done = 1;

    if (ref->handler) {
        ngx_log_debug3(NGX_LOG_DEBUG_HTTP, c->log, 0,
                       "mcds refresh done: %i, \"%V?%V\"",
                       rc, &r->uri, &r->args);

        ref->handler(r, ref->data, rc);
    }

    /* no request of this connection runs any more, also if it was posted */

    ref->data = NULL;

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    /* not yet set when a subrequest could not be made */

    if (ref->event.posted) {
        ngx_delete_posted_event(&ref->event);
    }

    ref->event.handler = ngx_http_mcds_refresh_free_handler;
    ngx_post_event(&ref->event, &ngx_posted_events);
}


static void
ngx_http_mcds_refresh_free_handler(ngx_event_t *ev)
{
    ngx_uint_t                left;
    ngx_http_request_t       *main;
    ngx_http_mcds_refresh_t  *ref;

    ref = ev->data;
    main = ref->main;

    left = !ref->terminated && main->count > NGX_HTTP_MCDS_REFRESH_HOLD;

    if (left || main->blocked) {
        ngx_add_timer(ev, NGX_HTTP_MCDS_REFRESH_POLL);
        return;
    }

    ngx_http_mcds_refresh_free(ref);
}


static void
ngx_http_mcds_refresh_free(ngx_http_mcds_refresh_t *ref)
{
    ngx_connection_t    *c, *saved;
    ngx_http_request_t  *main;

    c = ref->connection;
    main = ref->main;

    if (main) {
        /* not called back, not logged, nothing done to the descriptor */

        ref->done = 1;
        main->logged = 1;
        c->timedout = 0;

        ngx_http_free_request(main, 0);
    }

    if (c) {
        if (c->read->timer_set) {
            ngx_del_timer(c->read);
        }

        if (c->write->timer_set) {
            ngx_del_timer(c->write);
        }

        if (c->read->posted) {
            ngx_delete_posted_event(c->read);
        }

        if (c->write->posted) {
            ngx_delete_posted_event(c->write);
        }

        c->read->closed = 1;
        c->write->closed = 1;
        c->destroyed = 1;

        /* as in the beginning: -1 is no index */

        saved = ngx_cycle->files ? ngx_cycle->files[0] : NULL;

        c->fd = 0;
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;

        if (ngx_cycle->files) {
            ngx_cycle->files[0] = saved;
        }
    }

    ngx_destroy_pool(ref->pool);
}


static u_char *
ngx_http_mcds_refresh_log_error(ngx_http_request_t *r, ngx_http_request_t *sr,
    u_char *buf, size_t len)
{
    u_char                   *p;
    ngx_http_mcds_refresh_t  *ref;

    ref = (ngx_http_mcds_refresh_t *) r->http_connection;

    p = ngx_snprintf(buf, len, ", mcds refresh");

    return ref->log_handler(r, sr, p, len - (p - buf));
}
