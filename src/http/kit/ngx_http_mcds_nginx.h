
/*
 * Copyright (C) mcds authors
 *
 * The parts of nginx that mcds relies on, beyond the API for modules.
 *
 * Looked at, and tested with: nginx 1.22.1, 1.26.3, 1.30.x and 1.31.5,
 * freenginx 1.27.2, Angie 1.11 to 1.13, nginx 1.31.3 with OpenResty's patches.
 * Where they differ, this header hides it from the rest of mcds.
 *
 * For a newer nginx each of the points below has to be read again; then
 * NGX_HTTP_MCDS_NGINX and the sizes in ngx_http_mcds_nginx.c are of that one.
 * Until then the build warns, and all goes on working.
 *
 * Request headers (refresh_context.c)
 *   - The pointers that nginx has parsed are side by side in headers_in, from
 *     "host" up to "user".  Before 1.23.0 "cookies", and "x_forwarded_for"
 *     among the pointers, are arrays of pointers instead.
 *   - Since 1.23.0 headers of one name are chained by "next" in the order of
 *     the list; nginx links those without a field when multi_linked is 0.
 *   - An entry of ngx_http_headers_in may have the offset 0, and no field.
 *   - Over HTTP/3 there may be no Host; host_start and host_end of the main
 *     request have what ":authority" said (key.c).
 *
 * Variables (refresh_context.c, invalidate.c)
 *   - r->variables[i] is the value of cmcf->variables[i].  A value that is
 *     neither valid nor not_found is looked up again.
 *   - "http_", "sent_http_", "upstream_" begin the names of those that depend
 *     on the headers and on the upstream of the request itself.
 *   - Captures: pairs of offsets into captures_data, ncaptures of them, in an
 *     array of cmcf->ncaptures.
 *
 * Phases (task.c, lock.c, table_get.c)
 *   - A handler in the precontent phase suspends its request by NGX_AGAIN, one
 *     in a rewrite phase by NGX_DONE; ngx_http_core_run_phases() goes on at
 *     r->phase_handler.  Handlers registered last run first.
 *   - An internal redirect and a named location zero r->ctx.
 *   - A client of HTTP/3 that leaves is an error of the write event (watch.c).
 *
 * The detached refresh (refresh.c)
 *   - ngx_get_connection() and ngx_free_connection() use the descriptor only
 *     as an index of ngx_cycle->files.
 *   - An event that is active is not added to epoll; one that is ready is not
 *     waited for.  Nothing asks the descriptor -1: the local address is known,
 *     tcp_nodelay is disabled, the filter passes nothing on.
 *   - ngx_http_connection_t may be copied: its buffers are owned by "busy" and
 *     "free", all else belongs to the configuration, to the name of TLS, or to
 *     a session of HTTP/3, which a request without c->quic does not use.
 *   - ngx_http_create_request() takes its configuration from c->data; the
 *     count of a main request keeps it; r->cleanup runs in the reverse order.
 *   - A subrequest with CLONE takes over phase_handler and content_handler.
 *   - ngx_ssl_connection_t: variables use "connection" and "session_ctx".
 *   - ngx_proxy_protocol_t: two addresses and, since 1.23.2, tlvs are texts.
 *
 * Upstreams (store.c, store_body.c, filter_module.c, answer.c, head.c)
 *   - u->cleanup is NULL once the upstream has ended; u->header_sent says that
 *     it came so far; u->buffering may be cleared until then.
 *   - An answer that ends early has no last_buf, but a flush; with FastCGI
 *     u->pipe->upstream_done, or u->length, tells that it is complete.
 *   - u->headers_in.headers has the lines as the origin sent them.
 *
 * Filters (config, filter_module.c, coding_filter_module.c, invalidate.c)
 *   - Filters added last run first; config says where ours stand.
 *   - c->buffered: no other module uses the bit 0x40; a request whose
 *     connection has a bit of NGX_HTTP_LOWLEVEL_BUFFERED is not finalized.
 *
 * The post of counts (post.c)
 *   - A request that is zeroed but for its connection, configuration, pool,
 *     variables, contexts and lists runs ngx_http_upstream_init().
 *
 * Shared memory (zone.c, stat.c)
 *   - The mutex of a slab pool is freed by the master when a worker dies.
 */


#ifndef _NGX_HTTP_MCDS_NGINX_H_INCLUDED_
#define _NGX_HTTP_MCDS_NGINX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* the newest nginx that all this was read in */

#ifndef NGX_HTTP_MCDS_NGINX
#define NGX_HTTP_MCDS_NGINX  1031005
#endif


/* in headers_in, the pointers that nginx has parsed: the first, their number */

#define NGX_HTTP_MCDS_PARSED_FIRST                                            \
    offsetof(ngx_http_headers_in_t, host)
#define NGX_HTTP_MCDS_PARSED_N                                                \
    ((offsetof(ngx_http_headers_in_t, user) - NGX_HTTP_MCDS_PARSED_FIRST)     \
     / sizeof(ngx_table_elt_t *))


/* r->port and u->peer.sid are there; freenginx names itself by NGINX_NAME */

#if (nginx_version >= 1029003 && !defined NGINX_NAME)
#define NGX_HTTP_MCDS_HAVE_PORT  1
#endif

#if (NGX_HTTP_UPSTREAM_SID && !defined angie_version)
#define NGX_HTTP_MCDS_HAVE_SID  1
#endif


/*
 * Angie keeps the servers of a resolver as a list, and calls the log handler
 * of a request with other arguments.
 *
 * resolver_asks: the resolver has servers to ask.  log_request: adds the
 * request of ctx to a line of the error log, in a handler of that log.
 */

#if (angie_version >= 1012000)

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections != NULL)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler(log, buf, (buf) + (len), ctx)

#else

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections.nelts != 0)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler((ctx)->request, (ctx)->current_request, buf,  \
                                len)

#endif


/*
 * Called at the end of the configuration.  Warns of each request header that
 * nginx parses into a field which mcds does not know: the copy of a request
 * that a refresh makes has the header, but not the field.
 */

void ngx_http_mcds_nginx_check(ngx_conf_t *cf);


/*
 * 1 if auth_request has asked about the client of r since nginx has last led r
 * to another location.  That module is looked up by its name: nginx may be
 * built without it, and it keeps a context for each request that it has asked
 * about.
 */

ngx_uint_t ngx_http_mcds_auth_asked(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_NGINX_H_INCLUDED_ */
