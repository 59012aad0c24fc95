
/*
 * Copyright (C) mcds authors
 *
 * The parts of nginx that mcds relies on, beyond the API for modules.
 *
 * Read and tested with: nginx 1.22.1, 1.26.3, 1.30.x and 1.31.5, freenginx
 * 1.27.2, Angie 1.11 to 1.13, nginx 1.31.3 with OpenResty's patches.  This
 * header hides the differences between them from the rest of mcds.
 *
 * For a newer nginx, read each of the points below again; then set
 * NGX_HTTP_MCDS_NGINX and the sizes in ngx_http_mcds_nginx.c to those of the
 * newer version.  Until then the build warns, and mcds works as before.
 *
 * Request headers (refresh_context.c)
 *   - The pointers to parsed headers are side by side in headers_in, from
 *     "host" up to "user".  Before 1.23.0 two fields are arrays of pointers:
 *     "cookies", and "x_forwarded_for", which is among the pointers.
 *   - Since 1.23.0 headers of one name are chained by "next" in the order of
 *     the request; nginx chains those without a field if multi_linked is 0.
 *   - An entry of ngx_http_headers_in may have the offset 0, and no field.
 *   - A request over HTTP/3 may have no Host; host_start and host_end of the
 *     main request then hold the value of ":authority" (key.c).
 *
 * Variables (refresh_context.c, invalidate.c)
 *   - r->variables[i] is the value of cmcf->variables[i].  nginx evaluates a
 *     value again that is neither valid nor not_found.
 *   - "http_", "sent_http_", "upstream_" begin the names of variables that
 *     depend on the headers and on the upstream of the request itself.
 *   - Captures: pairs of offsets into captures_data, ncaptures of them, in an
 *     array of cmcf->ncaptures.
 *
 * Phases (task.c, lock.c, table_get.c)
 *   - A handler in the precontent phase suspends its request by NGX_AGAIN, a
 *     handler in a rewrite phase by NGX_DONE; ngx_http_core_run_phases()
 *     continues at r->phase_handler.  Handlers registered last run first.
 *   - An internal redirect and a named location zero r->ctx.
 *   - An HTTP/3 client that leaves is an error of the write event (task.c).
 *
 * The background refresh: a copy of a request, without a client (refresh.c)
 *   - ngx_get_connection() and ngx_free_connection() use the descriptor only
 *     as an index of ngx_cycle->files.
 *   - nginx does not add an active event to epoll, and does not wait for a
 *     ready one.  No system call gets the descriptor -1: the local address is
 *     known, tcp_nodelay is disabled, mcds's filters pass nothing on.
 *   - ngx_http_connection_t may be copied: its buffers are owned by "busy" and
 *     "free", all else belongs to the configuration, to TLS's server name, or
 *     to a session of HTTP/3, which a request without c->quic does not use.
 *   - ngx_http_create_request() takes its configuration from c->data.  nginx
 *     frees no main request whose count is above 0, and runs the handlers in
 *     r->cleanup in the reverse order.
 *   - A subrequest with CLONE takes over phase_handler and content_handler.
 *   - After r->post_subrequest->handler, ngx_http_finalize_request() sets the
 *     handlers of c->read and c->write if it sends an error page.
 *   - ngx_ssl_connection_t: variables use "connection" and "session_ctx".
 *   - ngx_proxy_protocol_t: two addresses and, since 1.23.2, tlvs are texts.
 *
 * Upstreams (store.c, store_body.c, filter_module.c, response.c, head.c)
 *   - u->cleanup is NULL once the upstream has ended; u->header_sent is set
 *     once the header is sent; u->buffering may be cleared until then.
 *   - A truncated response has no last_buf, but a flush; with FastCGI
 *     u->pipe->upstream_done, or u->length, says that a response is complete.
 *   - u->headers_in.headers has the lines as the origin sent them.
 *   - The slice filter runs before mcds's, and turns a 206 of the upstream into
 *     a 200 with the length of the whole page; u->headers_in keeps the status
 *     and the length of the 206.
 *
 * Filters (config, filter_module.c, coding_filter_module.c, invalidate.c)
 *   - Filters added last run first; config sets the place of mcds's filters.
 *   - c->buffered: no other module uses the bit 0x40; a request whose
 *     connection has a bit of NGX_HTTP_LOWLEVEL_BUFFERED is not finalized.
 *
 * POST requests of mcds itself, with the numbers of counters (post.c)
 *   - A request that is zeroed but for its connection, configuration, pool,
 *     variables, contexts and lists runs ngx_http_upstream_init().
 *
 * Locations (stat.c, nginx.c)
 *   - ngx_http_core_loc_conf_t has the name of a location and the kind of its
 *     match; in Angie, "combined" has further names with theirs.  The blocks
 *     "if" and limit_except have the name alone.
 *
 * Shared memory (zone.c, stat.c)
 *   - The master frees the mutex of a slab pool when a worker dies.
 */


#ifndef _NGX_HTTP_MCDS_NGINX_H_INCLUDED_
#define _NGX_HTTP_MCDS_NGINX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * the newest version of nginx whose source was compared with the list above, of
 * the facts about nginx that mcds relies on
 */

#ifndef NGX_HTTP_MCDS_NGINX
#define NGX_HTTP_MCDS_NGINX  1031005
#endif


/*
 * ngx_http_headers_in_t has, side by side, pointers to the request headers that
 * nginx has parsed: the offset of the first pointer, and the number of pointers
 */

#define NGX_HTTP_MCDS_PARSED_FIRST                                            \
    offsetof(ngx_http_headers_in_t, host)
#define NGX_HTTP_MCDS_PARSED_N                                                \
    ((offsetof(ngx_http_headers_in_t, user) - NGX_HTTP_MCDS_PARSED_FIRST)     \
     / sizeof(ngx_table_elt_t *))


/*
 * Fields that only some versions of nginx have.  HAVE_PORT: ngx_http_request_t
 * has the field "port", as in nginx 1.29.3 and later, but not in freenginx,
 * which alone defines NGINX_NAME.  The field is the port in the request line if
 * this names a host, otherwise the port in the Host header; 0: there is none.
 * HAVE_SID: ngx_peer_connection_t has the field "sid".
 */

#if (nginx_version >= 1029003 && !defined NGINX_NAME)
#define NGX_HTTP_MCDS_HAVE_PORT  1
#endif

#if (NGX_HTTP_UPSTREAM_SID && !defined angie_version)
#define NGX_HTTP_MCDS_HAVE_SID  1
#endif


/*
 * 1 while nginx reads the request body of r to discard it: the request must
 * keep its read handler.  r->discard_body does not tell this, since freenginx
 * sets it for a request without a body, too.
 */

#define ngx_http_mcds_discards(r)                                             \
    ((r)->read_event_handler == ngx_http_discarded_request_body_handler)


/*
 * Lets r, a POST of mcds itself, have a body that is longer than
 * client_max_body_size: nginx does not compare the length of a body that it
 * discards.  freenginx, which alone defines NGINX_NAME, would send no
 * Content-Length for such a request; with freenginx, the limit holds.
 */

#ifdef NGINX_NAME
#define ngx_http_mcds_any_length(r)
#else
#define ngx_http_mcds_any_length(r)  (r)->discard_body = 1
#endif


/*
 * Macros for differences of Angie from nginx: Angie keeps the servers of a
 * resolver as a list, calls the log handler of a request with other arguments,
 * and can write lines of the error log as JSON, which only its own functions
 * can add to.
 *
 * ngx_http_mcds_resolver_asks: true if the resolver has servers.
 * The others are for a handler of the error log:
 * ngx_http_mcds_log_request: appends the request of ctx to the line in buf.
 * ngx_http_mcds_log_action: appends log->action to the line in buf.
 * ngx_http_mcds_log_tag: adds a tag, a constant text, to the tags of the line,
 * which Angie's JSON shows, and which "filter=tag:" compares.
 */

#if (angie_version >= 1012000)

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections != NULL)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler(log, buf, (buf) + (len), ctx)

#define ngx_http_mcds_log_action(log, buf, len)                               \
    ngx_log_action(log, buf, (buf) + (len), (log)->action)

#define ngx_http_mcds_log_tag(log, text)                                      \
    do {                                                                      \
        static ngx_log_tag_t  tag = { ngx_string(text), NULL };               \
        ngx_log_add_tag(log, &tag);                                           \
    } while (0)

#else

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections.nelts != 0)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler((ctx)->request, (ctx)->current_request, buf,  \
                                len)

#define ngx_http_mcds_log_action(log, buf, len)                               \
    ngx_snprintf(buf, len, " while %s", (log)->action)

#define ngx_http_mcds_log_tag(log, text)

#endif


/*
 * Call this when the configuration has been read.  Warns of each request header
 * that nginx parses into a field which mcds does not know: when mcds copies a
 * request, to refresh a page, the copy has the header, but not the field.
 */

void ngx_http_mcds_nginx_check(ngx_conf_t *cf);


/*
 * Compares a URI with the prefixes by which nginx finds the location clcf: one,
 * or more in Angie, where a location can have several names.  NGX_OK: *rest is
 * the part of the URI behind the longest prefix.  NGX_DECLINED: nginx may have
 * found the location by "=", a regular expression or "@".  NGX_ERROR: nginx has
 * found it by a prefix, but the URI does not begin with one.
 */

ngx_int_t ngx_http_mcds_location_rest(ngx_http_core_loc_conf_t *clcf,
    ngx_str_t *uri, ngx_str_t *rest);


/*
 * 1 if nginx's auth_request module has authorized the client of r in the
 * location that r is in now: the module keeps a context in each request that it
 * has checked.  mcds finds the module by its name, since nginx may be built
 * without it.
 */

ngx_uint_t ngx_http_mcds_auth_asked(ngx_http_request_t *r);


/*
 * 1 if the request has been redirected to an error page, as far as nginx
 * tells.
 */

ngx_uint_t ngx_http_mcds_is_error_page(ngx_http_request_t *r);

/*
 * 1 if the origin's response had X-Accel-Redirect, unless the location ignores
 * this header
 */

ngx_uint_t ngx_http_mcds_is_accel(ngx_http_request_t *r);

/*
 * 1 if nginx has asked another upstream for the request before r->upstream, in
 * another location: nginx separates the servers of the two by an empty element
 */

ngx_uint_t ngx_http_mcds_is_second(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_NGINX_H_INCLUDED_ */
