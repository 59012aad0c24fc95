
/*
 * Copyright (C) mcds authors
 *
 * A change of a table first writes the elements, and appends a line for each of
 * them to the table's list of names.  Then the change checks whether elements
 * and lines agree, and appends new lines for elements whose lines are wrong.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_table.h"


/* the maximum number of elements of a table that are written or read at once */
#define NGX_MCDS_TABLE_WINDOW     128

/*
 * the maximum number of times that a change of elements writes to the table's
 * list of names: first the new lines, then corrections, if other clients change
 * the same elements meanwhile
 */
#define NGX_MCDS_TABLE_ROUNDS     5

/*
 * A table has a list of its elements, with the name and the expiry of each.
 * This is the greatest difference, in seconds, that is allowed between an
 * expiry in the list and that of the element's item in memcached.
 */
#define NGX_MCDS_TABLE_EXACT      2


typedef enum {
    NGX_MCDS_TABLE_STORING = 0,
    NGX_MCDS_TABLE_LOOKING
} ngx_mcds_table_stage_e;


static void ngx_mcds_table_event_handler(ngx_event_t *ev);
static void ngx_mcds_table_step(ngx_mcds_table_change_t *change);
static ngx_int_t ngx_mcds_table_begin(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item);
static ngx_int_t ngx_mcds_table_store(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item);
static void ngx_mcds_table_store_handler(void *data,
    ngx_mcds_result_t *result);
static void ngx_mcds_table_look(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item);
static void ngx_mcds_table_look_handler(void *data,
    ngx_mcds_result_t *result);
static void ngx_mcds_table_list(ngx_mcds_table_change_t *change);
static void ngx_mcds_table_list_handler(void *data,
    ngx_mcds_array_done_t *done);
static void ngx_mcds_table_listed(void *data, ngx_mcds_array_done_t *done);


void
ngx_mcds_table_change(ngx_mcds_table_change_t *change)
{
    ngx_uint_t              i;
    ngx_mcds_table_item_t  *item;

    for (i = 0; i < change->n; i++) {
        item = &change->items[i];

        item->change = change;
        item->rc = NGX_MCDS_BUSY;
        item->listed = (item->kind == NGX_MCDS_TABLE_CHECK);
        item->touched = item->listed;
        item->wrong = 0;
    }

    change->event.handler = ngx_mcds_table_event_handler;
    change->event.data = change;
    change->event.log = ngx_cycle->log;

    ngx_post_event(&change->event, &ngx_posted_events);
}


void
ngx_mcds_table_request(ngx_mcds_request_t *req, ngx_mcds_table_t *table,
    ngx_str_t *name, u_char *suffix)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->key = table->key;
    req->suffix.data = suffix;
    req->suffix.len = 1 + name->len;

    suffix[0] = ':';
    ngx_memcpy(suffix + 1, name->data, name->len);
}


static void
ngx_mcds_table_event_handler(ngx_event_t *ev)
{
    ngx_mcds_table_step(ev->data);
}


static void
ngx_mcds_table_step(ngx_mcds_table_change_t *change)
{
    ngx_uint_t              batch;
    ngx_mcds_table_item_t  *item;

    while (change->unanswered < NGX_MCDS_TABLE_WINDOW
           && change->next < change->n)
    {
        item = &change->items[change->next];
        batch = ngx_mcds_pool_batch(change->table.pool, item->value.len);

        if (change->unanswered >= batch) {
            break;
        }

        change->next++;

        if (ngx_mcds_table_begin(change, item) == NGX_OK) {
            change->unanswered++;
        }
    }

    if (change->unanswered) {
        return;
    }

    ngx_mcds_table_list(change);
}


/*
 * Starts the present step of a change for one element of a table: stores the
 * element, or looks whether its line in the list of names is right.  Returns
 * NGX_OK if a command was sent.
 */

static ngx_int_t
ngx_mcds_table_begin(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item)
{
    if (change->stage == NGX_MCDS_TABLE_STORING) {

        if (item->kind == NGX_MCDS_TABLE_CHECK) {
            return NGX_DECLINED;
        }

        return ngx_mcds_table_store(change, item);
    }

    /*
     * this change has certainly not changed the element, so the element's line
     * in the table's list of names need not be checked
     */

    if (!item->touched) {
        return NGX_DECLINED;
    }

    ngx_mcds_table_look(change, item);

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_table_store(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item)
{
    u_char               suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_mcds_value_t    *value;
    ngx_mcds_request_t   req;

    ngx_mcds_table_request(&req, &change->table, &item->name, suffix);

    value = NULL;

    if (item->kind == NGX_MCDS_TABLE_DELETE) {
        req.verb = NGX_MCDS_DELETE;

    } else {
        req.verb = (item->kind == NGX_MCDS_TABLE_ADD) ? NGX_MCDS_ADD
                                                      : NGX_MCDS_SET;
        req.ttl = ngx_mcds_ttl_lasting(item->ttl);

        item->expiry = req.ttl ? (int64_t) ngx_time() + req.ttl : 0;

        value = ngx_mcds_value_create(item->value.len + NGX_MCDS_VALUE_SPARE,
                                      ngx_cycle->log);
        if (value == NULL) {
            return NGX_ERROR;
        }

        value->len = item->value.len;
        ngx_memcpy(value->data, item->value.data, item->value.len);

        req.value = value;
    }

    req.cas = item->cas;

    item->op.handler = ngx_mcds_table_store_handler;
    item->op.data = item;

    ngx_mcds_submit(change->table.pool, &req, &item->op);

    ngx_mcds_value_unref(value);

    return NGX_OK;
}


static void
ngx_mcds_table_store_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_table_item_t    *item;
    ngx_mcds_table_change_t  *change;

    item = data;
    change = item->change;

    item->rc = result->rc;

    switch (result->rc) {

    case NGX_MCDS_OK:
    case NGX_MCDS_TIMEOUT:
    case NGX_MCDS_CLOSED:
    case NGX_MCDS_PROTOCOL:
        item->touched = 1;
        item->listed = (item->kind != NGX_MCDS_TABLE_DELETE);
        break;

    case NGX_MCDS_NOT_FOUND:

        /* the element to delete is gone, but its name may still be listed */

        item->touched = (item->kind == NGX_MCDS_TABLE_DELETE);
        item->listed = 0;
        break;

    case NGX_MCDS_TOO_LARGE:

        /*
         * memcached has deleted the old element, whose name may be listed;
         * after SERVER_ERROR, without memory for the element, it might delete
         * the list of names, too, when a line is appended to it
         */

        item->touched = 1;
        item->listed = 0;
        break;

    default:
        break;
    }

    item->wrong = item->touched;

    ngx_mcds_table_forget(&change->table, &item->name);

    change->unanswered--;
    ngx_mcds_table_step(change);
}


static void
ngx_mcds_table_look(ngx_mcds_table_change_t *change,
    ngx_mcds_table_item_t *item)
{
    u_char              suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_mcds_request_t  req;

    ngx_mcds_table_request(&req, &change->table, &item->name, suffix);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_TTL;

    item->op.handler = ngx_mcds_table_look_handler;
    item->op.data = item;

    ngx_mcds_submit(change->table.pool, &req, &item->op);
}


static void
ngx_mcds_table_look_handler(void *data, ngx_mcds_result_t *result)
{
    int64_t                   expiry, off;
    ngx_uint_t                there;
    ngx_mcds_table_item_t    *item;
    ngx_mcds_table_change_t  *change;

    item = data;
    change = item->change;

    change->unanswered--;

    if (item->kind == NGX_MCDS_TABLE_CHECK) {
        item->rc = result->rc;
    }

    if (result->rc != NGX_MCDS_OK
        && result->rc != NGX_MCDS_NOT_FOUND
        && result->rc != NGX_MCDS_TOO_LARGE)
    {
        ngx_mcds_table_step(change);
        return;
    }

    there = (result->rc != NGX_MCDS_NOT_FOUND);

    item->wrong = (there != item->listed);

    if (there && (result->has & NGX_MCDS_TTL)) {

        expiry = (result->ttl < 0) ? 0 : ngx_time() + result->ttl;
        off = ngx_abs(expiry - item->expiry);

        if ((expiry == 0) != (item->expiry == 0)
            || off > NGX_MCDS_TABLE_EXACT)
        {
            item->wrong = 1;
            item->expiry = expiry;
        }
    }

    item->listed = there;

    ngx_mcds_table_step(change);
}


static void
ngx_mcds_table_list(ngx_mcds_table_change_t *change)
{
    u_char                 *p;
    size_t                  len;
    ngx_str_t               lines;
    ngx_uint_t              i;
    ngx_mcds_array_t        array;
    ngx_mcds_table_item_t  *item;

    len = 0;

    for (i = 0; i < change->n; i++) {
        item = &change->items[i];

        if (item->wrong) {
            len += sizeof("+ \n") - 1 + NGX_INT64_LEN + item->name.len;
        }
    }

    if (change->stage == NGX_MCDS_TABLE_STORING) {
        change->stage = NGX_MCDS_TABLE_LOOKING;

        if (len == 0 && change->items[0].kind == NGX_MCDS_TABLE_CHECK) {
            change->next = 0;
            ngx_post_event(&change->event, &ngx_posted_events);
            return;
        }
    }

    if (len == 0 || change->rounds++ == NGX_MCDS_TABLE_ROUNDS) {
        change->handler(change->data, NGX_MCDS_OK);
        return;
    }

    change->lines = ngx_mcds_value_create(len, ngx_cycle->log);
    if (change->lines == NULL) {
        change->handler(change->data, NGX_MCDS_BUSY);
        return;
    }

    p = change->lines->data;

    for (i = 0; i < change->n; i++) {
        item = &change->items[i];

        if (!item->wrong) {
            continue;
        }

        item->wrong = 0;

        if (item->listed) {
            p = ngx_sprintf(p, "+%L %V\n", item->expiry, &item->name);

        } else {
            p = ngx_sprintf(p, "-%V\n", &item->name);
        }
    }

    change->lines->len = p - change->lines->data;

    lines.data = change->lines->data;
    lines.len = change->lines->len;

    ngx_mcds_table_array(&change->table, &array);

    if (ngx_mcds_array_append(&array, &lines, ngx_mcds_table_list_handler,
                              change)
        != NGX_OK)
    {
        ngx_mcds_value_unref(change->lines);
        change->lines = NULL;

        change->handler(change->data, NGX_MCDS_BUSY);
    }
}


static void
ngx_mcds_table_list_handler(void *data, ngx_mcds_array_done_t *done)
{
    ngx_mcds_table_change_t  *change;

    change = data;

    /*
     * if the table's list of names is full, there may be room without its
     * obsolete lines, among them those that the change makes obsolete
     */

    if (done->rc == NGX_MCDS_TOO_LARGE) {

        if (ngx_mcds_table_compact_add(change, ngx_mcds_table_listed)
            == NGX_OK)
        {
            return;
        }

        done->rc = NGX_MCDS_BUSY;
    }

    ngx_mcds_table_listed(change, done);
}


static void
ngx_mcds_table_listed(void *data, ngx_mcds_array_done_t *done)
{
    ngx_mcds_table_change_t  *change;

    change = data;

    ngx_mcds_value_unref(change->lines);
    change->lines = NULL;

    if (done->rc != NGX_MCDS_OK) {
        change->handler(change->data, done->rc);
        return;
    }

    change->next = 0;

    ngx_mcds_table_step(change);
}
