
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body.h"
#include "ngx_mcds_body_part.h"
#include "ngx_mcds_sign.h"


struct ngx_mcds_body_s {
    ngx_mcds_snapshot_t *snapshot;
    uint32_t             next;        /* index of the part of the body that
                                         the caller takes next */
    uint32_t             ahead;       /* index of the part of the body to read
                                         next from memcached */
    uint32_t             last;        /* index of the last part of the body to
                                         read, plus 1; 0: read no parts */
    ngx_uint_t           held;        /* number of the body's parts that the
                                         caller has taken and not released */
    ngx_array_t         *secrets;     /* the keys of mcds_cache_hmac_key, which
                                         sign the parts of the body, or NULL */
    ngx_mcds_body_slot_t slots[NGX_MCDS_WINDOW];

    ngx_event_t          event;
    void               (*handler)(void *data);
    void                *data;

    unsigned             again:1;     /* the body's next part is being read a
                                         second time, after an error */
};


static void ngx_mcds_body_ahead(ngx_mcds_body_t *body);
static void ngx_mcds_body_handler(ngx_event_t *ev);
static ngx_int_t ngx_mcds_body_check_part(ngx_mcds_body_t *body,
    ngx_mcds_body_part_t *part);
static ngx_int_t ngx_mcds_body_lost(ngx_mcds_body_t *body,
    ngx_uint_t rc);
static void ngx_mcds_body_unkeep(void *kept);


ngx_mcds_body_t *
ngx_mcds_body_open(ngx_mcds_snapshot_t *snapshot, off_t from, off_t to,
    ngx_array_t *secrets, void (*handler)(void *data), void *data)
{
    off_t              head;
    ngx_mcds_body_t   *body;
    ngx_mcds_entry_t  *entry;

    entry = &snapshot->entry;
    head = (off_t) entry->body.len;

    body = ngx_calloc(sizeof(ngx_mcds_body_t), ngx_cycle->log);
    if (body == NULL) {
        return NULL;
    }

    body->snapshot = ngx_mcds_snapshot_ref(snapshot);
    body->next = (from > head) ? (uint32_t) ((from - head) / entry->part) : 0;
    body->ahead = body->next;
    body->last = entry->parts;

    if (to <= head) {
        body->last = 0;

    } else if ((to - head - 1) / entry->part < entry->parts) {
        body->last = (uint32_t) ((to - head - 1) / entry->part) + 1;
    }

    body->secrets = secrets;
    body->handler = handler;
    body->data = data;

    body->event.handler = ngx_mcds_body_handler;
    body->event.data = body;
    body->event.log = ngx_cycle->log;

    ngx_mcds_body_ahead(body);

    return body;
}


off_t
ngx_mcds_body_skip(ngx_mcds_entry_t *entry, off_t byte)
{
    off_t  head;

    head = (off_t) entry->body.len;

    if (!ngx_mcds_body_apart(entry) || byte < head + (off_t) entry->part) {
        return 0;
    }

    return head + (byte - head) / entry->part * entry->part;
}


void
ngx_mcds_body_close(ngx_mcds_body_t *body)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_WINDOW; i++) {
        ngx_mcds_body_slot_free(&body->slots[i]);
    }

    if (body->event.posted) {
        ngx_delete_posted_event(&body->event);
    }

    ngx_mcds_snapshot_unref(body->snapshot);
    ngx_free(body);
}


static void
ngx_mcds_body_ahead(ngx_mcds_body_t *body)
{
    ngx_mcds_body_slot_t  *slot;

    while (body->ahead < body->last
           && body->ahead - body->next + body->held < NGX_MCDS_WINDOW)
    {
        slot = &body->slots[body->ahead % NGX_MCDS_WINDOW];

        if (ngx_mcds_body_slot_get(slot, body->snapshot, body->ahead,
                                   &body->event)
            != NGX_OK)
        {
            break;
        }

        body->ahead++;
    }
}


static void
ngx_mcds_body_handler(ngx_event_t *ev)
{
    ngx_mcds_body_t *body = ev->data;

    body->handler(body->data);
}


ngx_int_t
ngx_mcds_body_next(ngx_mcds_body_t *body, ngx_mcds_body_part_t **part,
    ngx_str_t *data)
{
    ngx_uint_t             rc;
    ngx_mcds_body_slot_t  *slot;

    if (ngx_mcds_body_ended(body)) {
        return NGX_DONE;
    }

    if (body->held >= NGX_MCDS_WINDOW) {
        return NGX_BUSY;
    }

    ngx_mcds_body_ahead(body);

    if (body->next == body->ahead) {
        return ngx_mcds_body_lost(body, NGX_MCDS_BUSY);
    }

    slot = &body->slots[body->next % NGX_MCDS_WINDOW];

    if (slot->waiting) {
        return NGX_AGAIN;
    }

    rc = slot->part->rc;

    if (rc != NGX_MCDS_OK) {

        if (ngx_mcds_answered(rc) || rc == NGX_MCDS_DOWN || body->again) {
            return ngx_mcds_body_lost(body, rc);
        }

        /*
         * a part of a body was not read: its connection to memcached may have
         * been closed because of another command, so the part is read once
         * more
         */

        body->again = 1;

        ngx_mcds_body_slot_free(slot);

        if (ngx_mcds_body_slot_get(slot, body->snapshot, body->next,
                                   &body->event)
            != NGX_OK)
        {
            return ngx_mcds_body_lost(body, NGX_MCDS_BUSY);
        }

        return slot->waiting ? NGX_AGAIN
                             : ngx_mcds_body_next(body, part, data);
    }

    if (ngx_mcds_body_check_part(body, slot->part) != NGX_OK) {
        return ngx_mcds_body_lost(body, NGX_MCDS_NOT_FOUND);
    }

    *part = slot->part;
    *data = slot->part->body;

    slot->part = NULL;

    body->again = 0;
    body->next++;
    body->held++;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_body_signed(ngx_mcds_body_t *body)
{
    ngx_uint_t             i;
    ngx_mcds_body_part_t  *part;

    for (i = 0; i < NGX_MCDS_WINDOW; i++) {
        part = body->slots[i].part;

        if (part
            && !body->slots[i].waiting
            && part->rc == NGX_MCDS_OK
            && ngx_mcds_body_check_part(body, part) != NGX_OK)
        {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_body_check_part(ngx_mcds_body_t *body, ngx_mcds_body_part_t *part)
{
    if (body->secrets == NULL || part->checked == body->secrets) {
        return NGX_OK;
    }

    if (ngx_mcds_signing->part_check(part->value, &part->page->key,
                                     body->secrets)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    /*
     * other requests that share this part of a body, and have the same secrets,
     * do not check the part's signature again
     */

    part->checked = body->secrets;

    return NGX_OK;
}


ngx_uint_t
ngx_mcds_body_ended(ngx_mcds_body_t *body)
{
    return body->next == body->last;
}


void
ngx_mcds_body_done(ngx_mcds_body_t *body, ngx_mcds_body_part_t *part)
{
    ngx_mcds_body_part_unref(part);

    if (body) {
        body->held--;
        ngx_mcds_body_ahead(body);
    }
}


static ngx_int_t
ngx_mcds_body_lost(ngx_mcds_body_t *body, ngx_uint_t rc)
{
    ngx_mcds_key_t  key;

    ngx_mcds_key_show(&key, &body->snapshot->page->key);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "part %uD of page \"%*s\" is lost: %s",
                  body->next, (size_t) key.len, key.data,
                  ngx_mcds_strerror(rc));

    if (ngx_mcds_answered(rc)) {
        ngx_mcds_snapshot_remove(body->snapshot);
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_mcds_body_keep(ngx_mcds_snapshot_t *snapshot, ngx_mcds_split_t *split)
{
    uint32_t               n;
    ngx_mcds_body_part_t  *part, **kept;
    ngx_mcds_value_t      *value;

    if (snapshot->entry.parts == 0 || ngx_mcds_split_part(split, 0) == NULL) {
        return NGX_DECLINED;
    }

    kept = ngx_calloc((snapshot->entry.parts + 1)
                      * sizeof(ngx_mcds_body_part_t *), ngx_cycle->log);
    if (kept == NULL) {
        return NGX_DECLINED;
    }

    for (n = 0; n < snapshot->entry.parts; n++) {
        value = ngx_mcds_split_part(split, n);

        part = (value && ngx_mcds_body_part_find(snapshot, n) == NULL)
               ? ngx_mcds_body_part_create(snapshot, n) : NULL;

        if (part == NULL) {
            ngx_mcds_body_unkeep(kept);
            return NGX_DECLINED;
        }

        kept[n] = part;

        part->value = ngx_mcds_value_ref(value);
        part->body.data = ngx_mcds_part_data(value);
        part->body.len = value->data + value->len - part->body.data;
        part->rc = NGX_MCDS_OK;
    }

    snapshot->kept = kept;
    snapshot->unkeep = ngx_mcds_body_unkeep;

    return NGX_OK;
}


static void
ngx_mcds_body_unkeep(void *kept)
{
    ngx_mcds_body_part_t  **part;

    for (part = kept; *part; part++) {
        ngx_mcds_body_part_unref(*part);
    }

    ngx_free(kept);
}
