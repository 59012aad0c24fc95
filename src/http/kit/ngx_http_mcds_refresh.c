
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_refresh_context.h"


/*
 * A background refresh is a request that has no client and runs in the
 * background: it builds a page again, posts the numbers of counters, or asks a
 * location for the initial value of a counter.  Its parts:
 *
 *   connection    free slot of the worker, descriptor -1, never closed
 *     pool        ngx_http_mcds_refresh_t, log, addresses, reference to TLS
 *   main          request that holds the context, but is never run
 *     pool        everything else
 *   request       the copy: background subrequest of main, which runs
 *
 *   create -> posted event -> phases, upstream, filters -> finalized -> done
 *          -> posted event -> free
 *
 * If main->count, the number of references to main, fell to 0, nginx would
 * close the connection, and with it descriptor -1 and the client's TLS.  So the
 * count includes references that are never released, and
 * main->write_event_handler stays NULL, since ngx_http_terminate_request()
 * would otherwise have the count set to 1.
 *
 * worker_shutdown_timeout closes only connections that have a descriptor, so
 * each refresh watches the exit of the worker by itself.
 */


/*
 * references that the main request of a refresh holds on itself; more than one,
 * so that a small error in the count does not free the main request
 */
#define NGX_HTTP_MCDS_REFRESH_HOLD  16

/*
 * the interval at which a finished refresh (a request without a client) checks
 * whether its subrequests, and the threads that read files for it, have ended;
 * milliseconds
 */
#define NGX_HTTP_MCDS_REFRESH_POLL  50

/*
 * the interval at which a refresh (a request without a client) checks whether
 * the worker exits; milliseconds
 */
#define NGX_HTTP_MCDS_REFRESH_LOOK  100

/*
 * bytes of the memory pool of a refresh: ngx_http_mcds_refresh_t, addresses and
 * the like fit into one block
 */
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
    ngx_event_t                 shutdown;

    ngx_log_t                   log;
    ngx_http_log_ctx_t          log_ctx;
    ngx_log_handler_pt          log_handler;

    unsigned                    done:1;
    unsigned                    terminated:1;
    unsigned                    exiting:1;
} ngx_http_mcds_refresh_t;


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
static ngx_int_t ngx_http_mcds_refresh_subrequest(
    ngx_http_mcds_refresh_t *ref, ngx_http_request_t *r);

static void ngx_http_mcds_refresh_run_handler(ngx_event_t *ev);
static void ngx_http_mcds_refresh_shutdown(ngx_http_mcds_refresh_t *ref);
static void ngx_http_mcds_refresh_shutdown_handler(ngx_event_t *ev);
static void ngx_http_mcds_refresh_event_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_mcds_refresh_post_handler(ngx_http_request_t *r,
    void *data, ngx_int_t rc);
static void ngx_http_mcds_refresh_cleanup(void *data);
static void ngx_http_mcds_refresh_done(ngx_http_mcds_refresh_t *ref,
    ngx_int_t rc);
static void ngx_http_mcds_refresh_free_handler(ngx_event_t *ev);
static void ngx_http_mcds_refresh_free(ngx_http_mcds_refresh_t *ref);
static ngx_http_mcds_refresh_t *ngx_http_mcds_refresh_of(
    ngx_http_request_t *r);
static u_char *ngx_http_mcds_refresh_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


ngx_http_request_t *
ngx_http_mcds_refresh_create(ngx_http_request_t *r,
    ngx_http_mcds_refresh_pt handler, void *data)
{
    ngx_pool_t               *pool;
    ngx_http_mcds_refresh_t  *ref;

    /*
     * finds the server's address now, for variables such as $server_addr: a
     * refresh, a request without a client, has no descriptor for getsockname()
     */

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

    ngx_http_mcds_refresh_shutdown(ref);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "mcds refresh: \"%V?%V\"",
                   &ref->request->uri, &ref->request->args);

    return ref->request;
}


void *
ngx_http_mcds_refresh_data(ngx_http_request_t *r)
{
    ngx_http_mcds_refresh_t  *ref;

    ref = ngx_http_mcds_refresh_of(r);

    return (ref && r == ref->request) ? ref->data : NULL;
}


static ngx_int_t
ngx_http_mcds_refresh_init(ngx_http_mcds_refresh_t *ref, ngx_http_request_t *r)
{
    if (ngx_http_mcds_refresh_connection(ref, r) != NGX_OK
        || ngx_http_mcds_refresh_main(ref, r) != NGX_OK
        || ngx_http_mcds_refresh_context(ref->main, r) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_refresh_subrequest(ref, r);
}


static ngx_int_t
ngx_http_mcds_refresh_connection(ngx_http_mcds_refresh_t *ref,
    ngx_http_request_t *r)
{
    ngx_connection_t         *c, *saved;
    ngx_http_connection_t    *hc;
    ngx_http_mcds_refresh_t  *from;
#if (NGX_HTTP_SSL)
    ngx_str_t                *name;
#endif

    /* a refresh has no descriptor: the call with 0 must not change files[0] */

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

    from = ngx_http_mcds_refresh_of(r);
    ref->log_handler = from ? from->log_handler : ref->log.handler;

    ref->log.handler = ngx_http_mcds_refresh_log_error;
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
     * The events of a connection without a socket look as if a socket was
     * watched for reading, with nothing to read, and was always writable: nginx
     * then never adds the connection to epoll, and the event pipe of an
     * upstream never waits for it.
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
 * Gives the connection of a refresh a reference to the TLS structure of the
 * client's connection: $scheme and $https test whether there is one, and
 * $ssl_* read it.  Nothing is ever sent or received through this reference.
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

    /*
     * the refresh logs where the client's request logs;
     * ngx_http_create_request() has set the log of the default server
     */

    log = r->connection->log;
    ngx_set_connection_log(c, log);

#if (NGX_STAT_STUB)
    /*
     * stub_status must not count the main request of a refresh: no client has
     * sent it
     */
    (void) ngx_atomic_fetch_add(ngx_stat_reading, -1);
    (void) ngx_atomic_fetch_add(ngx_stat_requests, -1);
    main->stat_reading = 0;
#endif

    main->count = NGX_HTTP_MCDS_REFRESH_HOLD;

    /*
     * nginx runs the cleanup handlers of a request in reverse order: that of
     * the refresh, which is added first, runs after those of upstreams
     */

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

    /* an empty structure tells nginx that the request's body has been read */

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

#if (NGX_HTTP_MCDS_HAVE_PORT)
    main->port = r->port;
#endif

    main->phase_handler = r->phase_handler;
    main->content_handler = r->content_handler;

    main->valid_location = r->valid_location;
    main->valid_unparsed_uri = r->valid_unparsed_uri;
    main->expect_tested = 1;
    main->main_filter_need_in_memory = 1;

    /*
     * limit_conn and limit_req do not limit a refresh (a copy of the client's
     * request), even if nginx redirects the refresh to a location with limits
     */

    main->limit_conn_status = r->main->limit_conn_status
                              ? r->main->limit_conn_status : 1;
    main->limit_req_status = r->main->limit_req_status
                             ? r->main->limit_req_status : 1;

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

    /*
     * a refresh continues at the phase of the client's request, but
     * NGX_HTTP_SUBREQUEST_CLONE does not copy all results of earlier phases,
     * such as flags of the URI and the status of an error page
     */

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

#if (NGX_HTTP_MCDS_HAVE_PORT)
    sr->port = main->port;
#endif

    /*
     * nginx has copied the main request's list of headers into the subrequest
     * by value: the pointer "last" of the copy still leads to the list of the
     * main request, which would get the headers added to the subrequest
     */

    sr->headers_in.headers.last = &sr->headers_in.headers.part;

#if (NGX_PCRE)
    /*
     * the main request never runs, so that its subrequest may change the
     * captures of regular expressions, which the two share, in place
     */
    sr->realloc_captures = 0;
#endif

    return NGX_OK;
}


static void
ngx_http_mcds_refresh_run_handler(ngx_event_t *ev)
{
    ngx_http_mcds_refresh_t  *ref;

    ref = ev->data;

    ref->connection->read->handler = ngx_http_mcds_refresh_event_handler;

    ngx_http_run_posted_requests(ref->connection);
}


/*
 * Starts the timer by which a refresh looks whether the worker exits.  The
 * timer is cancelable, so that only timers of the request itself keep an
 * exiting worker alive.
 */

static void
ngx_http_mcds_refresh_shutdown(ngx_http_mcds_refresh_t *ref)
{
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                           ngx_core_module);

    if (ccf->shutdown_timeout == 0) {
        return;
    }

    ref->shutdown.handler = ngx_http_mcds_refresh_shutdown_handler;
    ref->shutdown.data = ref;
    ref->shutdown.log = &ref->log;
    ref->shutdown.cancelable = 1;

    ref->exiting = ngx_exiting ? 1 : 0;

    ngx_add_timer(&ref->shutdown, ref->exiting ? ccf->shutdown_timeout
                                               : NGX_HTTP_MCDS_REFRESH_LOOK);
}


static void
ngx_http_mcds_refresh_shutdown_handler(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_mcds_refresh_t  *ref;

    ref = ev->data;

    if (!ref->exiting) {
        ngx_http_mcds_refresh_shutdown(ref);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, ev->log, 0,
                  "mcds refresh is ended, since the worker shuts down");

    c = ref->connection;

    ngx_http_finalize_request(ref->request, NGX_ERROR);
    ngx_http_run_posted_requests(c);
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

    } else if (ev->timedout) {

        /*
         * the lingering_timeout of a POST of mcds itself, which has the flag
         * discard_body: there is no client whose body could come too late
         */

        ev->timedout = 0;

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
        /*
         * these fields tell nginx that the location's "post_action" has already
         * run: nginx ends the failed refresh instead of running "post_action"
         */

        r->post_action = 1;
        r->uri_changes = 0;

        ngx_http_mcds_refresh_done(ref, rc);

        return rc;
    }

    /*
     * The refresh goes on: nginx sends an error page or redirects to one, and
     * finalizes the request again.  But nginx first gives the connection of the
     * refresh its own handler for read events, which would end a POST of mcds
     * itself after the lingering_timeout: the posted event replaces it.
     */

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE
        || rc == NGX_HTTP_CREATED
        || rc == NGX_HTTP_NO_CONTENT)
    {
        ngx_post_event(&ref->event, &ngx_posted_events);

        return rc;
    }

    /*
     * the refresh goes on: nginx finalizes the request again when it has
     * written the output that is buffered
     */

    if (r->buffered || r->postponed) {
        return rc;
    }

    ngx_http_mcds_refresh_done(ref, rc);

    return rc;
}


/*
 * the cleanup handler of a refresh, a request that the worker itself has made:
 * nginx calls it when it terminates all requests of the refresh's connection
 */

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
    ngx_http_request_t  *r;

    r = ref->request;

    ref->done = 1;

    if (ref->handler) {
        ngx_log_debug3(NGX_LOG_DEBUG_HTTP, &ref->log, 0,
                       "mcds refresh done: %i, \"%V?%V\"",
                       rc, &r->uri, &r->args);

        ref->handler(r, ref->data, rc);
    }

    /*
     * the refresh is done: from here on, no request of its connection runs,
     * even if it is posted
     */

    ref->data = NULL;

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    /*
     * a refresh may end before the posted event that would run its copy of the
     * request
     */

    if (ref->event.posted) {
        ngx_delete_posted_event(&ref->event);
    }

    if (ref->shutdown.timer_set) {
        ngx_del_timer(&ref->shutdown);
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
    ngx_connection_t          *c, *saved;
    ngx_http_request_t        *main;
#if (NGX_API)
    ngx_http_core_srv_conf_t  *cscf;
#endif

    c = ref->connection;
    main = ref->main;

    if (main) {
        /*
         * frees the main request of a refresh, without a call of the refresh's
         * handler, without a line in the access log, and without closing the
         * descriptor
         */

        ref->done = 1;
        main->logged = 1;
        c->timedout = 0;

#if (NGX_API)
        /*
         * the "status_zone" of a location in Angie must not count the main
         * request of a refresh: no client has sent it
         */
        cscf = ngx_http_get_module_srv_conf(main, ngx_http_core_module);
        main->loc_conf = cscf->ctx->loc_conf;
#endif

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

        /*
         * ngx_free_connection() uses the descriptor as an index of "files": the
         * connection of a refresh has -1, which is replaced by 0 for the call
         */

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


/*
 * the refresh to which the request r belongs, or NULL: the structure of a
 * refresh begins with the ngx_http_connection_t of its requests
 */

static ngx_http_mcds_refresh_t *
ngx_http_mcds_refresh_of(ngx_http_request_t *r)
{
    if (r->connection->log->handler != ngx_http_mcds_refresh_log_error) {
        return NULL;
    }

    return (ngx_http_mcds_refresh_t *) r->main->http_connection;
}


/*
 * the handler of the error log for a refresh; nginx may write a line to several
 * logs, so "log" may be another log than that of the refresh, with the same
 * data
 */

static u_char *
ngx_http_mcds_refresh_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char                   *p;
    ngx_http_log_ctx_t       *ctx;
    ngx_http_mcds_refresh_t  *ref;

    ctx = log->data;
    ref = (ngx_http_mcds_refresh_t *)
              ((u_char *) ctx - offsetof(ngx_http_mcds_refresh_t, log_ctx));

    ngx_http_mcds_log_tag(log, "mcds refresh");

    p = ngx_snprintf(buf, len, ", mcds refresh");

    return ref->log_handler ? ref->log_handler(log, p, len - (p - buf)) : p;
}
