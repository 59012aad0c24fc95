
/*
 * Copyright (C) mcds authors
 *
 * Reading an array, a list of lines: its head item, which has the newest lines,
 * and then its parts, items with the older ones.
 * If a part is missing, either memcached has lost it, or a change of the array
 * has deleted it and replaced the head item since the head item was read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_array_core.h"


/*
 * the maximum number of parts, an array's items of older lines, that are read
 * at once; ngx_mcds_pool_batch() may allow fewer
 */
#define NGX_MCDS_ARRAY_WINDOW     8

/*
 * the maximum number of reads of an array's head item, which is read again if
 * items of older lines to which it refers are missing
 */
#define NGX_MCDS_ARRAY_TRIES      5

/*
 * the maximum number of parts (items of older lines) to which the head item of
 * an array may refer
 */
#define NGX_MCDS_ARRAY_REFS       4096


static void ngx_mcds_array_read_head(ngx_mcds_array_read_t *read);
static void ngx_mcds_array_head_got(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_array_head(ngx_mcds_array_read_t *read,
    ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_array_pieces(ngx_mcds_array_read_t *read,
    ngx_mcds_value_t *value);
static void ngx_mcds_array_read_parts(ngx_mcds_array_read_t *read);
static void ngx_mcds_array_read_part(ngx_mcds_array_read_t *read,
    ngx_mcds_array_piece_t *piece);
static void ngx_mcds_array_part_got(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_array_part(ngx_mcds_array_piece_t *piece,
    ngx_mcds_result_t *result);
static void ngx_mcds_array_read_done(ngx_mcds_array_read_t *read);
static void ngx_mcds_array_lost(ngx_mcds_array_read_t *read);
static void ngx_mcds_array_content_clear(ngx_mcds_array_content_t *content);


void
ngx_mcds_array_read(ngx_mcds_array_read_t *read)
{
    read->tries = 0;

    read->op.handler = ngx_mcds_array_head_got;
    read->op.data = read;

    ngx_mcds_array_read_head(read);
}


static void
ngx_mcds_array_read_head(ngx_mcds_array_read_t *read)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    req.key = read->array.key;
    req.limit = NGX_MCDS_ARRAY_ITEM;
    req.single = 1;

    ngx_mcds_submit(read->array.pool, &req, &read->op);
}


static void
ngx_mcds_array_head_got(void *data, ngx_mcds_result_t *result)
{
    uint32_t                   crc;
    uint64_t                   cas;
    ngx_mcds_array_read_t     *read;
    ngx_mcds_array_content_t  *content;

    read = data;
    content = &read->content;

    cas = content->cas;
    crc = content->crc;

    ngx_mcds_array_content_clear(content);

    read->next = 0;
    read->missing = 0;
    read->rc = ngx_mcds_array_head(read, result);

    if (read->rc != NGX_MCDS_OK) {
        ngx_mcds_array_read_done(read);
        return;
    }

    read->known = (read->tries++ && content->cas == cas
                   && content->crc == crc);

    if (read->head || content->n <= 1) {
        ngx_mcds_array_read_done(read);
        return;
    }

    ngx_mcds_array_read_parts(read);
}


static ngx_uint_t
ngx_mcds_array_head(ngx_mcds_array_read_t *read, ngx_mcds_result_t *result)
{
    ngx_uint_t                 rc;
    ngx_mcds_value_t          *value;
    ngx_mcds_array_content_t  *content;

    content = &read->content;

    if (result->rc == NGX_MCDS_NOT_FOUND) {
        return NGX_MCDS_OK;
    }

    if (result->rc != NGX_MCDS_OK) {
        return result->rc;
    }

    content->found = 1;
    content->cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;
    content->crc = ngx_crc32_long(result->data, result->len);

    if ((result->has & NGX_MCDS_TTL) && result->ttl >= 0) {
        content->ttl = (uint32_t) ngx_min(ngx_max(result->ttl, 1),
                                          NGX_MCDS_MAX_TTL);
    }

    value = ngx_mcds_result_value(result, ngx_cycle->log);
    if (value == NULL) {
        return NGX_MCDS_BUSY;
    }

    rc = ngx_mcds_array_pieces(read, value);

    ngx_mcds_value_unref(value);

    return rc;
}


static ngx_uint_t
ngx_mcds_array_pieces(ngx_mcds_array_read_t *read, ngx_mcds_value_t *value)
{
    u_char                    *p, *start, *last;
    ngx_uint_t                 n, i;
    ngx_mcds_array_ref_t       ref;
    ngx_mcds_array_piece_t    *piece;
    ngx_mcds_array_content_t  *content;

    content = &read->content;

    p = value->data;
    last = p + value->len;

    (void) ngx_mcds_array_base(&p, last, &content->base);

    start = p;

    for (n = 0; ngx_mcds_array_ref(&p, last, &ref) == NGX_OK; n++) {
        content->lines += ref.lines;
        content->size += ref.size;

        if (n == NGX_MCDS_ARRAY_REFS
            || content->size > 2 * NGX_MCDS_ARRAY_SIZE)
        {
            return NGX_MCDS_TOO_LARGE;
        }
    }

    content->pieces = ngx_calloc((n + 1) * sizeof(ngx_mcds_array_piece_t),
                                 ngx_cycle->log);
    if (content->pieces == NULL) {
        return NGX_MCDS_BUSY;
    }

    content->n = n + 1;
    content->size += last - p;

    p = start;

    for (i = 0; i < n; i++) {
        piece = &content->pieces[i];
        piece->read = read;
        piece->op.handler = ngx_mcds_array_part_got;
        piece->op.data = piece;

        (void) ngx_mcds_array_ref(&p, last, &piece->ref);
    }

    piece = &content->pieces[n];

    piece->value = ngx_mcds_value_ref(value);
    piece->start = p - value->data;

    return NGX_MCDS_OK;
}


static void
ngx_mcds_array_read_parts(ngx_mcds_array_read_t *read)
{
    ngx_uint_t                 batch;
    ngx_mcds_array_content_t  *content;

    content = &read->content;

    batch = ngx_mcds_pool_batch(read->array.pool, 0);
    batch = ngx_min(batch, NGX_MCDS_ARRAY_WINDOW);

    /*
     * reads the items with the array's older lines; the last element of
     * "pieces" has the newest lines, those in the item of the array's key,
     * which was read before
     */

    while (read->rc == NGX_MCDS_OK
           && read->unanswered < batch
           && read->next < content->n - 1)
    {
        ngx_mcds_array_read_part(read, &content->pieces[read->next++]);
        read->unanswered++;
    }

    if (read->unanswered) {
        return;
    }

    if (read->rc == NGX_MCDS_OK && read->missing) {

        if (read->known || read->tries == NGX_MCDS_ARRAY_TRIES) {
            ngx_mcds_array_lost(read);

        } else {
            ngx_mcds_array_read_head(read);
            return;
        }
    }

    ngx_mcds_array_read_done(read);
}


static void
ngx_mcds_array_read_part(ngx_mcds_array_read_t *read,
    ngx_mcds_array_piece_t *piece)
{
    u_char              buf[1 + NGX_MCDS_ARRAY_ID];
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = read->array.key;
    ngx_mcds_array_part_suffix(&req.suffix, buf, piece->ref.id);
    req.limit = NGX_MCDS_ARRAY_ITEM;
    req.bulk = 1;

    ngx_mcds_submit(read->array.pool, &req, &piece->op);
}


static void
ngx_mcds_array_part_got(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_array_read_t   *read;
    ngx_mcds_array_piece_t  *piece;

    piece = data;
    read = piece->read;

    read->unanswered--;

    if (read->rc == NGX_MCDS_OK) {
        ngx_mcds_array_part(piece, result);
    }

    ngx_mcds_array_read_parts(read);
}


static void
ngx_mcds_array_part(ngx_mcds_array_piece_t *piece, ngx_mcds_result_t *result)
{
    ngx_mcds_array_read_t  *read;

    read = piece->read;

    if (result->rc == NGX_MCDS_NOT_FOUND) {
        read->missing = 1;
        return;
    }

    if (result->rc != NGX_MCDS_OK) {
        read->rc = result->rc;
        return;
    }

    if (result->len != piece->ref.size) {

        /*
         * the item that was read is not the part of the array to which the head
         * item refers, as it has another size
         */

        read->missing = 1;
        return;
    }

    piece->value = ngx_mcds_result_value(result, ngx_cycle->log);

    if (piece->value == NULL) {
        read->rc = NGX_MCDS_BUSY;
    }
}


static void
ngx_mcds_array_lost(ngx_mcds_array_read_t *read)
{
    ngx_uint_t                 i, lines;
    ngx_mcds_key_t             key;
    ngx_mcds_array_piece_t    *piece;
    ngx_mcds_array_content_t  *content;

    content = &read->content;
    lines = 0;

    for (i = 0; i < content->n - 1; i++) {
        piece = &content->pieces[i];

        if (piece->value == NULL) {
            lines += piece->ref.lines;
        }
    }

    ngx_mcds_key_show(&key, &read->array.key);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "memcached has lost %ui entries of the list \"%*s\"",
                  lines, (size_t) key.len, key.data);
}


static void
ngx_mcds_array_read_done(ngx_mcds_array_read_t *read)
{
    ngx_mcds_array_content_t  content;

    /* the handler may free the read of the array */

    content = read->content;

    ngx_memzero(&read->content, sizeof(ngx_mcds_array_content_t));

    read->handler(read->data, read->rc,
                  read->rc == NGX_MCDS_OK ? &content : NULL);

    ngx_mcds_array_content_clear(&content);
}


static void
ngx_mcds_array_content_clear(ngx_mcds_array_content_t *content)
{
    ngx_uint_t  i;

    for (i = 0; i < content->n; i++) {
        ngx_mcds_value_unref(content->pieces[i].value);
    }

    if (content->pieces) {
        ngx_free(content->pieces);
    }

    ngx_memzero(content, sizeof(ngx_mcds_array_content_t));
}
