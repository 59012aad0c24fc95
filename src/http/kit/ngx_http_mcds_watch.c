
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_watch.h"


static void ngx_http_mcds_watch_writer(ngx_http_request_t *r);


ngx_int_t
ngx_http_mcds_watch(ngx_http_request_t *r)
{
    r->write_event_handler = ngx_http_request_empty_handler;

    if (r != r->main) {
        return NGX_OK;
    }

    r->write_event_handler = ngx_http_mcds_watch_writer;

    /* a body that is still being discarded is read by its own handler */

    if (r->discard_body) {
        return NGX_OK;
    }

    r->read_event_handler = ngx_http_test_reading;

    return ngx_handle_read_event(r->connection->read, 0);
}


/*
 * A client of HTTP/3 whose request has ended can only leave by asking for no
 * more of the answer, which is an error of the write event alone.
 */

static void
ngx_http_mcds_watch_writer(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (!c->write->error) {
        return;
    }

    c->error = 1;

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "client prematurely closed connection");

    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}
