
/*
 * Copyright (C) mcds authors
 *
 * The commands of a connection are encoded when they are pushed into its
 * buffers, and sent together at the end of this turn of the event loop.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_client_stat.h"


#define NGX_MCDS_BLOCK_SIZE       16384


struct ngx_mcds_block_s {
    ngx_chain_t             chain;
    ngx_buf_t               buf;
    u_char                  data[NGX_MCDS_BLOCK_SIZE];
};


static ngx_mcds_block_t *ngx_mcds_conn_block(ngx_mcds_conn_t *conn,
    size_t room);
static ngx_mcds_block_t *ngx_mcds_conn_value_block(ngx_mcds_conn_t *conn,
    ngx_mcds_value_t *value);


ngx_int_t
ngx_mcds_conn_push(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_mcds_cmd_t *cmd, ngx_str_t *text)
{
    u_char            *p;
    size_t             size;
    ngx_mcds_pool_t   *pool;
    ngx_mcds_block_t  *block, *vb;

    pool = conn->server->pool;
    size = NGX_MCDS_MAX_COMMAND + cmd->len;

    if (conn->pending >= pool->max_pending
        || (conn->pending && conn->pending_size + size
                             > pool->max_pending_size))
    {
        return NGX_BUSY;
    }

    vb = NULL;

    if (ex->value) {
        vb = ngx_mcds_conn_value_block(conn, ex->value);
        if (vb == NULL) {
            return NGX_ERROR;
        }
    }

    block = ngx_mcds_conn_block(conn, NGX_MCDS_MAX_COMMAND + text->len + 2);
    if (block == NULL) {
        if (vb) {
            ngx_free(vb);
        }

        return NGX_ERROR;
    }

    ex->begin = conn->queued;

    p = pool->classic ? ngx_mcds_classic_encode(block->buf.last, cmd)
                      : ngx_mcds_encode(block->buf.last, cmd);

    if (vb) {
        block->chain.next = &vb->chain;
        conn->last = vb;
        conn->queued += vb->buf.last - vb->buf.pos;

    } else if (ngx_mcds_verb_stores(cmd->verb)) {
        p = ngx_cpymem(p, text->data, text->len);
        *p++ = CR;
        *p++ = LF;
    }

    conn->queued += p - block->buf.last;
    block->buf.last = p;

    ex->end = conn->queued;
    ex->size = size;
    ex->deadline = ngx_current_msec + pool->timeout;

    ngx_queue_insert_tail(&conn->exchanges, &ex->queue);

    conn->pending++;
    conn->pending_size += size;

    if (!ex->probe) {
        conn->timer.cancelable = 0;
    }

    if (conn->peer.connection) {
        conn->peer.connection->idle = 0;
    }

    if (!conn->flush.posted) {
        ngx_post_event(&conn->flush, &ngx_posted_events);

        conn->pushed = ngx_mcds_client_stat_clock();
    }

    ex->start = conn->pushed;

    return NGX_OK;
}


void
ngx_mcds_conn_send(ngx_mcds_conn_t *conn)
{
    off_t              sent;
    ngx_chain_t       *cl, *rest;
    ngx_connection_t  *c;

    c = conn->peer.connection;

    if (conn->out && c->write->ready) {
        sent = c->sent;

        rest = c->send_chain(c, conn->out, 0);

        /*
         * c->sent also counts bytes that were sent before an error of the
         * connection
         */

        sent = c->sent - sent;
        conn->sent += sent;

        ngx_mcds_client_stat_sum(conn->server, NGX_MCDS_STAT_SENT, sent);

        if (rest == NGX_CHAIN_ERROR) {

            if (conn->quiet) {
                ngx_mcds_conn_lost(conn);

            } else {
                ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
            }

            return;
        }

        while (conn->out != rest) {
            cl = conn->out;
            conn->out = cl->next;
            ngx_mcds_conn_free_block(conn, cl);
        }

        if (conn->out == NULL) {
            conn->last = NULL;

#if (NGX_SSL)

        } else if (c->ssl && conn->out == &conn->last->chain) {

            /*
             * OpenSSL may have made a record of the commands in this block, and
             * reports them as sent only together with all that the block has at
             * the next attempt: the block gets no more commands, so that none
             * counts as unsent when the server has it
             */

            conn->last->buf.end = conn->last->buf.last;

#endif

        }
    }

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_timer(conn);
}


static ngx_mcds_block_t *
ngx_mcds_conn_block(ngx_mcds_conn_t *conn, size_t room)
{
    ngx_mcds_block_t  *block;

    block = conn->last;

    if (block && (size_t) (block->buf.end - block->buf.last) >= room) {
        return block;
    }

    block = conn->spare;

    if (block) {
        conn->spare = NULL;

    } else {
        block = ngx_alloc(sizeof(ngx_mcds_block_t), &conn->log);
        if (block == NULL) {
            return NULL;
        }
    }

    ngx_memzero(&block->buf, sizeof(ngx_buf_t));

    block->buf.start = block->data;
    block->buf.pos = block->data;
    block->buf.last = block->data;
    block->buf.end = block->data + NGX_MCDS_BLOCK_SIZE;
    block->buf.temporary = 1;

    block->chain.buf = &block->buf;
    block->chain.next = NULL;

    if (conn->last) {
        conn->last->chain.next = &block->chain;

    } else {
        conn->out = &block->chain;
    }

    conn->last = block;

    return block;
}


/* a value is sent without a copy, with the CRLF appended in place */

static ngx_mcds_block_t *
ngx_mcds_conn_value_block(ngx_mcds_conn_t *conn, ngx_mcds_value_t *value)
{
    ngx_mcds_block_t  *block;

    block = ngx_alloc(offsetof(ngx_mcds_block_t, data), &conn->log);
    if (block == NULL) {
        return NULL;
    }

    value->data[value->len] = CR;
    value->data[value->len + 1] = LF;

    ngx_memzero(&block->buf, sizeof(ngx_buf_t));

    block->buf.start = value->data;
    block->buf.pos = value->data;
    block->buf.last = value->data + value->len + 2;
    block->buf.end = block->buf.last;
    block->buf.memory = 1;

    block->chain.buf = &block->buf;
    block->chain.next = NULL;

    return block;
}


void
ngx_mcds_conn_free_block(ngx_mcds_conn_t *conn, ngx_chain_t *cl)
{
    ngx_mcds_block_t  *block;

    block = (ngx_mcds_block_t *) ((u_char *) cl
                                  - offsetof(ngx_mcds_block_t, chain));

    if (conn->spare == NULL && block->buf.start == block->data) {
        conn->spare = block;
        return;
    }

    ngx_free(block);
}
