
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_log.h"
#include "ngx_http_mcds_log_out.h"


/*
 * a buffer with log lines on its way to the client, and a reference to the
 * ngx_mcds_value_t whose memory holds these lines
 */

typedef struct {
    ngx_queue_t               queue;
    ngx_buf_t                 buf;
    ngx_chain_t               link;
    ngx_mcds_value_t         *value;
} ngx_http_mcds_log_piece_t;


static ngx_int_t ngx_http_mcds_log_output(ngx_http_mcds_log_out_t *out,
    ngx_chain_t *chain);


void
ngx_http_mcds_log_out_init(ngx_http_mcds_log_out_t *out,
    ngx_http_request_t *r)
{
    out->request = r;
    out->sent = ngx_current_msec;

    ngx_queue_init(&out->pieces);
    ngx_queue_init(&out->free);
}


void
ngx_http_mcds_log_out_free(ngx_http_mcds_log_out_t *out)
{
    ngx_queue_t                *q;
    ngx_http_mcds_log_piece_t  *piece;

    while (!ngx_queue_empty(&out->pieces)) {

        q = ngx_queue_head(&out->pieces);
        piece = ngx_queue_data(q, ngx_http_mcds_log_piece_t, queue);

        ngx_queue_remove(q);
        ngx_mcds_value_unref(piece->value);
    }
}


ngx_int_t
ngx_http_mcds_log_out_send(ngx_http_mcds_log_out_t *out,
    ngx_mcds_value_t *value)
{
    ngx_buf_t                  *b;
    ngx_queue_t                *q;
    ngx_http_mcds_log_piece_t  *piece;

    (void) ngx_http_mcds_log_out_pending(out);

    if (ngx_queue_empty(&out->free)) {

        piece = ngx_palloc(out->request->pool,
                           sizeof(ngx_http_mcds_log_piece_t));
        if (piece == NULL) {
            return NGX_ERROR;
        }

    } else {
        q = ngx_queue_head(&out->free);
        ngx_queue_remove(q);

        piece = ngx_queue_data(q, ngx_http_mcds_log_piece_t, queue);
    }

    b = &piece->buf;
    ngx_memzero(b, sizeof(ngx_buf_t));

    b->pos = value->data;
    b->last = value->data + value->len;
    b->start = b->pos;
    b->end = b->last;
    b->memory = 1;
    b->flush = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_mcds_log_module;

    piece->link.buf = b;
    piece->link.next = NULL;
    piece->value = ngx_mcds_value_ref(value);

    ngx_queue_insert_tail(&out->pieces, &piece->queue);

    out->sent = ngx_current_msec;

    return ngx_http_mcds_log_output(out, &piece->link);
}


static ngx_int_t
ngx_http_mcds_log_output(ngx_http_mcds_log_out_t *out, ngx_chain_t *chain)
{
    ngx_event_t               *wev;
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = out->request;
    c = r->connection;
    wev = c->write;

    if (ngx_http_output_filter(r, chain) == NGX_ERROR) {
        return NGX_ERROR;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (r->buffered || c->buffered) {

        if (!wev->timer_set) {
            ngx_add_timer(wev, clcf->send_timeout);
        }

        return ngx_handle_write_event(wev, clcf->send_lowat);
    }

    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    return NGX_OK;
}


/*
 * counts the bytes of log lines that the client has not got yet, and releases
 * the buffers that were sent
 */

size_t
ngx_http_mcds_log_out_pending(ngx_http_mcds_log_out_t *out)
{
    size_t                      size;
    ngx_queue_t                *q, *next;
    ngx_http_mcds_log_piece_t  *piece;

    size = 0;

    for (q = ngx_queue_head(&out->pieces);
         q != ngx_queue_sentinel(&out->pieces);
         q = next)
    {
        next = ngx_queue_next(q);
        piece = ngx_queue_data(q, ngx_http_mcds_log_piece_t, queue);

        if (ngx_buf_size(&piece->buf)) {
            size += ngx_buf_size(&piece->buf);
            continue;
        }

        ngx_mcds_value_unref(piece->value);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&out->free, q);
    }

    return size;
}


ngx_int_t
ngx_http_mcds_log_out_flush(ngx_http_mcds_log_out_t *out)
{
    return ngx_http_mcds_log_output(out, NULL);
}
