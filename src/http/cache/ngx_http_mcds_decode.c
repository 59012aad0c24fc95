
/*
 * Copyright (C) mcds authors
 *
 * Pages that are stored compressed: checks whether a client accepts the coding
 * of a page; if the page is not sent compressed, decompresses its body into a
 * few buffers as the client reads.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_posted.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"


/*
 * the number of buffers for the decompressed body of a page that is being
 * sent, and the bytes of each
 */
#define NGX_HTTP_MCDS_DECODE_BUFS   4
#define NGX_HTTP_MCDS_DECODE_BUF    (16 * 1024)

/*
 * the decompressed bytes of a page's body that a request produces in one turn
 * of the event loop, in about a millisecond
 */
#define NGX_HTTP_MCDS_DECODE_TURN   (256 * 1024)


typedef struct {
    ngx_buf_t              *buf;       /* buffer for the decompressed body;
                                          NULL: not allocated yet */
    ngx_chain_t             link;
    unsigned                busy:1;
} ngx_http_mcds_room_t;


struct ngx_http_mcds_decode_s {
    ngx_http_mcds_cache_ctx_t  *ctx;
    ngx_mcds_decoder_t         *decoder;
    ngx_str_t                   in;
    ngx_mcds_body_part_t       *part;      /* part of the stored body that holds
                                              "in", the bytes to decompress;
                                              NULL: no part holds them */

    ngx_http_mcds_room_t        rooms[NGX_HTTP_MCDS_DECODE_BUFS];
    size_t                      turn;      /* bytes that may still be
                                              decompressed in this turn of the
                                              event loop */
    off_t                       left;      /* bytes still to decompress, up to
                                              the requested range's end */
    unsigned                    range:1;

    ngx_event_t                 next;
    void                      (*run)(void *data);
};


static void ngx_http_mcds_decode_cleanup(void *data);
static void ngx_http_mcds_decode_next(ngx_event_t *ev);
static ngx_http_mcds_room_t *ngx_http_mcds_decode_room(ngx_http_request_t *r,
    ngx_http_mcds_decode_t *decode);
static ngx_int_t ngx_http_mcds_decode_fill(ngx_http_mcds_decode_t *decode,
    ngx_buf_t *b);
static ngx_int_t ngx_http_mcds_decode_more(ngx_http_mcds_decode_t *decode);
static void ngx_http_mcds_decode_broken(ngx_http_mcds_cache_ctx_t *ctx);


ngx_uint_t
ngx_http_mcds_coding_accepted(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t          i;
    ngx_list_part_t    *part;
    ngx_table_elt_t    *h;
    ngx_mcds_accept_t   accept;

    /*
     * a page that is stored compressed is decompressed for a request for a
     * range, and for a client of HTTP/1.0
     */

    if (r != r->main
        || r->http_version < NGX_HTTP_VERSION_11
        || r->headers_in.range
        || (ctx->control && ctx->control->no_transform))
    {
        return 0;
    }

    ngx_mcds_accept_init(&accept);

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && ngx_http_mcds_header_is(&h[i].key, "Accept-Encoding"))
            {
                ngx_mcds_accept_line(&accept, &h[i].value);
            }
        }
    }

    return ngx_mcds_accepts(&accept, ctx->snapshot->entry.coding);
}


ngx_buf_t *
ngx_http_mcds_decode_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_buf_t           *b;
    ngx_int_t            rc;
    ngx_str_t            in;
    ngx_mcds_entry_t    *entry;
    ngx_mcds_decoder_t  *decoder;

    entry = &ctx->snapshot->entry;

    b = ngx_create_temp_buf(r->pool, entry->length);
    if (b == NULL) {
        return NULL;
    }

    decoder = ngx_mcds_decoder_create(entry->coding, entry->length);
    if (decoder == NULL) {
        return NULL;
    }

    in = entry->body;

    rc = ngx_mcds_decoder_run(decoder, &in, &b->last, b->end);

    ngx_mcds_decoder_free(decoder);

    if (rc != NGX_DONE) {
        ngx_http_mcds_decode_broken(ctx);
        return NULL;
    }

    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    return b;
}


ngx_int_t
ngx_http_mcds_decode_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t end, void (*run)(void *data))
{
    ngx_mcds_entry_t        *entry;
    ngx_pool_cleanup_t      *cln;
    ngx_http_mcds_decode_t  *decode;

    entry = &ctx->snapshot->entry;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mcds_decode_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    decode = cln->data;
    ngx_memzero(decode, sizeof(ngx_http_mcds_decode_t));

    decode->decoder = ngx_mcds_decoder_create(entry->coding, entry->length);
    if (decode->decoder == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_mcds_decode_cleanup;

    decode->ctx = ctx;
    decode->in = entry->body;
    decode->left = end;
    decode->range = (end < (off_t) entry->length);
    decode->turn = NGX_HTTP_MCDS_DECODE_TURN;

    decode->run = run;
    decode->next.handler = ngx_http_mcds_decode_next;
    decode->next.data = decode;
    decode->next.log = r->connection->log;

    ctx->decode = decode;

    return NGX_OK;
}


static void
ngx_http_mcds_decode_cleanup(void *data)
{
    ngx_http_mcds_decode_t *decode = data;

    if (decode->next.posted) {
        ngx_delete_posted_event(&decode->next);
    }

    if (decode->part) {
        ngx_mcds_body_done(NULL, decode->part);
    }

    ngx_mcds_decoder_free(decode->decoder);

    decode->ctx->decode = NULL;
}


static void
ngx_http_mcds_decode_next(ngx_event_t *ev)
{
    ngx_http_mcds_decode_t *decode = ev->data;

    decode->turn = NGX_HTTP_MCDS_DECODE_TURN;

    decode->run(decode->ctx);
}


ngx_int_t
ngx_http_mcds_decode_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out)
{
    ngx_int_t                rc;
    ngx_buf_t               *b;
    ngx_http_mcds_room_t    *room;
    ngx_http_mcds_decode_t  *decode;

    decode = ctx->decode;

    for ( ;; ) {

        if (decode->turn == 0) {

            if (!decode->next.posted) {
                ngx_mcds_post_later(&decode->next);
            }

            return NGX_BUSY;
        }

        room = ngx_http_mcds_decode_room(r, decode);

        if (room == NULL) {
            return NGX_ERROR;
        }

        if (room->busy) {
            return NGX_BUSY;
        }

        b = room->buf;

        rc = ngx_http_mcds_decode_fill(decode, b);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_DONE) {
            b->last_buf = (r == r->main);
            b->last_in_chain = 1;

            if (b->pos == b->last) {
                b->temporary = 0;
                b->sync = !b->last_buf;
            }

        } else if (b->pos == b->last) {
            return rc;
        }

        /*
         * nginx sends a recycled buffer even if its bytes are fewer than
         * postpone_output: it is filled again only when it has been sent
         */

        b->recycled = 1;

        room->busy = 1;
        room->link.buf = b;
        room->link.next = NULL;

        *out = &room->link;
        out = &room->link.next;

        if (rc != NGX_OK) {
            return rc;
        }
    }
}


/*
 * returns an empty buffer for the decompressed body of a page; if all buffers
 * are still being sent, returns a busy one; NULL when out of memory
 */

static ngx_http_mcds_room_t *
ngx_http_mcds_decode_room(ngx_http_request_t *r,
    ngx_http_mcds_decode_t *decode)
{
    ngx_buf_t             *b;
    ngx_uint_t             i;
    ngx_http_mcds_room_t  *room;

    room = decode->rooms;

    for (i = 0; i < NGX_HTTP_MCDS_DECODE_BUFS && room[i].busy; i++) {
        /* void */
    }

    if (i == NGX_HTTP_MCDS_DECODE_BUFS) {
        return room;
    }

    room = &room[i];

    if (room->buf == NULL) {
        room->buf = ngx_create_temp_buf(r->pool, NGX_HTTP_MCDS_DECODE_BUF);
        if (room->buf == NULL) {
            return NULL;
        }
    }

    b = room->buf;

    b->pos = b->start;
    b->last = b->start;
    b->last_buf = 0;
    b->last_in_chain = 0;

    return room;
}


/*
 * Decompresses the body of a page into a buffer.  NGX_OK: the buffer is full;
 * NGX_AGAIN: the next part of the stored body has not come; NGX_DONE: the
 * body, or the range of it, is complete.
 */

static ngx_int_t
ngx_http_mcds_decode_fill(ngx_http_mcds_decode_t *decode, ngx_buf_t *b)
{
    size_t     size;
    ngx_int_t  rc;

    for ( ;; ) {
        rc = ngx_mcds_decoder_run(decode->decoder, &decode->in, &b->last,
                                  b->end);

        if (rc == NGX_ERROR) {
            ngx_http_mcds_decode_broken(decode->ctx);
            return NGX_ERROR;
        }

        if (rc != NGX_AGAIN) {
            break;
        }

        rc = ngx_http_mcds_decode_more(decode);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_AGAIN) {
            break;
        }
    }

    size = b->last - b->pos;

    decode->turn -= ngx_min(decode->turn, size);

    if (decode->range) {

        /*
         * decompressed bytes of the page's body behind the end of the
         * requested range are not needed
         */

        decode->left -= ngx_min(decode->left, (off_t) size);

        return (decode->left == 0) ? NGX_DONE : rc;
    }

    return rc;
}


/*
 * takes the next part of a stored body to decompress it: NGX_OK, or NGX_AGAIN
 * if the part has not come
 */

static ngx_int_t
ngx_http_mcds_decode_more(ngx_http_mcds_decode_t *decode)
{
    ngx_int_t                   rc;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = decode->ctx;

    if (decode->part) {
        ngx_mcds_body_done(ctx->stream, decode->part);
        decode->part = NULL;
    }

    rc = ctx->stream ? ngx_mcds_body_next(ctx->stream, &decode->part,
                                          &decode->in)
                     : NGX_DONE;

    if (rc == NGX_DONE) {
        ngx_http_mcds_decode_broken(ctx);
        return NGX_ERROR;
    }

    return rc;
}


/*
 * removes a page whose compressed body is corrupt, so that the next request
 * builds the page
 */

static void
ngx_http_mcds_decode_broken(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_log_error(NGX_LOG_ERR, ctx->task->request->connection->log, 0,
                  "page \"%V\" is not what its coding, %V, makes of %uL bytes",
                  &ctx->at, ngx_mcds_coding_name(ctx->snapshot->entry.coding),
                  ctx->snapshot->entry.length);

    ngx_mcds_snapshot_remove(ctx->snapshot);
}


ngx_uint_t
ngx_http_mcds_decode_free(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t             i, freed;
    ngx_http_mcds_room_t  *room;

    room = ctx->decode->rooms;
    freed = 0;

    for (i = 0; i < NGX_HTTP_MCDS_DECODE_BUFS; i++) {
        if (room[i].busy && ngx_buf_size(room[i].buf) == 0) {
            room[i].busy = 0;
            freed = 1;
        }
    }

    return freed;
}
