
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body.h"
#include "ngx_mcds_body_part.h"
#include "ngx_mcds_sign.h"


/* what a broken page leaves behind goes away after so many seconds */
#define NGX_MCDS_STREAM_LINGER    60


struct ngx_mcds_stream_s {
    ngx_mcds_copy_t     *copy;
    uint32_t             next;        /* to be taken */
    uint32_t             ahead;       /* to be asked for */
    uint32_t             last;        /* not to be */
    ngx_uint_t           held;        /* taken, not done */
    ngx_array_t         *secrets;     /* or NULL */
    ngx_mcds_slot_t      slots[NGX_MCDS_WINDOW];

    ngx_event_t          event;
    void               (*handler)(void *data);
    void                *data;

    unsigned             again:1;     /* "next" was asked a second time */
};


static void ngx_mcds_stream_ahead(ngx_mcds_stream_t *stream);
static void ngx_mcds_stream_handler(ngx_event_t *ev);
static ngx_int_t ngx_mcds_stream_check_part(ngx_mcds_stream_t *stream,
    ngx_mcds_part_t *part);
static ngx_int_t ngx_mcds_stream_lost(ngx_mcds_stream_t *stream,
    ngx_uint_t rc);
static void ngx_mcds_stream_unkeep(void *kept);


ngx_mcds_stream_t *
ngx_mcds_stream_create(ngx_mcds_copy_t *copy, uint32_t first, uint32_t last,
    ngx_array_t *secrets, void (*handler)(void *data), void *data)
{
    ngx_mcds_stream_t  *stream;

    stream = ngx_calloc(sizeof(ngx_mcds_stream_t), ngx_cycle->log);
    if (stream == NULL) {
        return NULL;
    }

    stream->copy = ngx_mcds_copy_ref(copy);
    stream->next = first;
    stream->ahead = first;
    stream->last = last;
    stream->secrets = secrets;
    stream->handler = handler;
    stream->data = data;

    stream->event.handler = ngx_mcds_stream_handler;
    stream->event.data = stream;
    stream->event.log = ngx_cycle->log;

    ngx_mcds_stream_ahead(stream);

    return stream;
}


void
ngx_mcds_stream_destroy(ngx_mcds_stream_t *stream)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_WINDOW; i++) {
        ngx_mcds_slot_free(&stream->slots[i]);
    }

    if (stream->event.posted) {
        ngx_delete_posted_event(&stream->event);
    }

    ngx_mcds_copy_unref(stream->copy);
    ngx_free(stream);
}


static void
ngx_mcds_stream_ahead(ngx_mcds_stream_t *stream)
{
    while (stream->ahead < stream->last
           && stream->ahead - stream->next + stream->held < NGX_MCDS_WINDOW)
    {
        if (ngx_mcds_slot_get(&stream->slots[stream->ahead % NGX_MCDS_WINDOW],
                              stream->copy, stream->ahead, &stream->event)
            != NGX_OK)
        {
            break;
        }

        stream->ahead++;
    }
}


static void
ngx_mcds_stream_handler(ngx_event_t *ev)
{
    ngx_mcds_stream_t *stream = ev->data;

    stream->handler(stream->data);
}


ngx_int_t
ngx_mcds_stream_next(ngx_mcds_stream_t *stream, ngx_mcds_part_t **part,
    ngx_str_t *body)
{
    ngx_uint_t        rc;
    ngx_mcds_slot_t  *slot;

    if (ngx_mcds_stream_ended(stream)) {
        return NGX_DONE;
    }

    if (stream->held >= NGX_MCDS_WINDOW) {
        return NGX_BUSY;
    }

    ngx_mcds_stream_ahead(stream);

    if (stream->next == stream->ahead) {
        return ngx_mcds_stream_lost(stream, NGX_MCDS_BUSY);
    }

    slot = &stream->slots[stream->next % NGX_MCDS_WINDOW];

    if (slot->waiting) {
        return NGX_AGAIN;
    }

    rc = slot->part->rc;

    if (rc != NGX_MCDS_OK) {

        if (ngx_mcds_answered(rc) || rc == NGX_MCDS_DOWN || stream->again) {
            return ngx_mcds_stream_lost(stream, rc);
        }

        /* the connection may have been closed for another's reasons */

        stream->again = 1;

        ngx_mcds_slot_free(slot);

        if (ngx_mcds_slot_get(slot, stream->copy, stream->next,
                              &stream->event)
            != NGX_OK)
        {
            return ngx_mcds_stream_lost(stream, NGX_MCDS_BUSY);
        }

        return slot->waiting ? NGX_AGAIN
                             : ngx_mcds_stream_next(stream, part, body);
    }

    if (ngx_mcds_stream_check_part(stream, slot->part) != NGX_OK) {
        return ngx_mcds_stream_lost(stream, NGX_MCDS_NOT_FOUND);
    }

    *part = slot->part;
    *body = slot->part->body;

    slot->part = NULL;

    stream->again = 0;
    stream->next++;
    stream->held++;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_stream_signed(ngx_mcds_stream_t *stream)
{
    ngx_uint_t        i;
    ngx_mcds_part_t  *part;

    for (i = 0; i < NGX_MCDS_WINDOW; i++) {
        part = stream->slots[i].part;

        if (part
            && !stream->slots[i].waiting
            && part->rc == NGX_MCDS_OK
            && ngx_mcds_stream_check_part(stream, part) != NGX_OK)
        {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_stream_check_part(ngx_mcds_stream_t *stream, ngx_mcds_part_t *part)
{
    if (stream->secrets == NULL || part->checked == stream->secrets) {
        return NGX_OK;
    }

    if (ngx_mcds_sign_part_check(part->value, &part->page->key,
                                 stream->secrets)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    /* for all who are given this part */

    part->checked = stream->secrets;

    return NGX_OK;
}


ngx_uint_t
ngx_mcds_stream_ended(ngx_mcds_stream_t *stream)
{
    return stream->next == stream->last;
}


void
ngx_mcds_stream_done(ngx_mcds_stream_t *stream, ngx_mcds_part_t *part)
{
    ngx_mcds_part_unref(part);

    if (stream) {
        stream->held--;
        ngx_mcds_stream_ahead(stream);
    }
}


static ngx_int_t
ngx_mcds_stream_lost(ngx_mcds_stream_t *stream, ngx_uint_t rc)
{
    ngx_mcds_key_t  key;

    ngx_mcds_key_show(&key, &stream->copy->page->key);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "part %uD of page \"%*s\" is lost: %s",
                  stream->next, (size_t) key.len, key.data,
                  ngx_mcds_strerror(rc));

    if (ngx_mcds_answered(rc)) {
        ngx_mcds_stream_remove(stream->copy);
    }

    return NGX_ERROR;
}


void
ngx_mcds_stream_remove(ngx_mcds_copy_t *copy)
{
    ngx_mcds_cut_t       cut;
    ngx_mcds_page_t     *page;
    ngx_mcds_request_t   req;

    page = copy->page;

    /* the next request builds it anew; not if somebody has done so */

    if (copy->stamp.cas) {
        ngx_memzero(&req, sizeof(ngx_mcds_request_t));

        req.verb = NGX_MCDS_DELETE;
        req.key = page->key;
        req.cas = copy->stamp.cas;
        req.page = 1;
        req.movable = 1;

        ngx_mcds_submit(page->pool, &req, NULL);
    }

    if (copy->entry.parts) {
        cut.generation = copy->entry.generation;
        cut.parts = copy->entry.parts;

        ngx_mcds_split_drop(page->pool, &page->key, &cut,
                            NGX_MCDS_STREAM_LINGER);
    }
}


ngx_int_t
ngx_mcds_stream_keep(ngx_mcds_copy_t *copy, ngx_mcds_split_t *split)
{
    uint32_t           n;
    ngx_mcds_part_t   *part, **kept;
    ngx_mcds_value_t  *value;

    if (copy->entry.parts == 0 || ngx_mcds_split_part(split, 0) == NULL) {
        return NGX_DECLINED;
    }

    kept = ngx_calloc((copy->entry.parts + 1) * sizeof(ngx_mcds_part_t *),
                      ngx_cycle->log);
    if (kept == NULL) {
        return NGX_DECLINED;
    }

    for (n = 0; n < copy->entry.parts; n++) {
        value = ngx_mcds_split_part(split, n);

        part = (value && ngx_mcds_part_find(copy, n) == NULL)
               ? ngx_mcds_part_create(copy, n) : NULL;

        if (part == NULL) {
            ngx_mcds_stream_unkeep(kept);
            return NGX_DECLINED;
        }

        kept[n] = part;

        part->value = ngx_mcds_value_ref(value);
        part->body.data = ngx_mcds_part_data(value);
        part->body.len = value->data + value->len - part->body.data;
        part->rc = NGX_MCDS_OK;
    }

    copy->kept = kept;
    copy->unkeep = ngx_mcds_stream_unkeep;

    return NGX_OK;
}


static void
ngx_mcds_stream_unkeep(void *kept)
{
    ngx_mcds_part_t  **part;

    for (part = kept; *part; part++) {
        ngx_mcds_part_unref(*part);
    }

    ngx_free(kept);
}
