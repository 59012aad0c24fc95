
/*
 * Copyright (C) mcds authors
 *
 * Checks whether all parts of a page's body are in memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body.h"
#include "ngx_mcds_body_part.h"


/*
 * the maximum number of parts of a page's body that memcached is asked about
 * at once; ngx_mcds_pool_batch() may allow fewer
 */
#define NGX_MCDS_BODY_LOOKS       128


typedef struct {
    ngx_queue_t          queue;
    ngx_mcds_body_pt     handler;
    void                *data;
} ngx_mcds_opener_t;


typedef struct ngx_mcds_open_s  ngx_mcds_open_t;


/*
 * A command that asks memcached whether it has a part of a body; after each
 * reply, the command is sent again for the next part that is not yet checked.
 * Several such commands for one body are sent in parallel.
 */

typedef struct {
    ngx_mcds_open_t     *open;
    ngx_mcds_op_t        op;
} ngx_mcds_look_t;


struct ngx_mcds_open_s {
    ngx_queue_t          queue;
    ngx_queue_t          openers;
    ngx_mcds_snapshot_t *snapshot;
    ngx_uint_t           n;           /* number of the body's first parts that
                                         are read, into "slots"; the other parts
                                         are not read, memcached is only asked
                                         whether it has them */
    ngx_mcds_body_slot_t slots[NGX_MCDS_WINDOW];
    uint32_t             next;        /* index of the part of the body that
                                         memcached is asked about next */
    ngx_uint_t           unanswered;  /* number of commands, each about a part,
                                         without an answer as yet */
    ngx_uint_t           rc;
    ngx_event_t          event;
    ngx_mcds_look_t      looks[1];
};


static void ngx_mcds_body_look(ngx_mcds_look_t *look);
static void ngx_mcds_body_looked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_body_take_rc(ngx_mcds_open_t *open, ngx_uint_t rc);
static void ngx_mcds_body_check_handler(ngx_event_t *ev);


/*
 * the queue of this worker's checks under way, each of which finds out whether
 * memcached has all parts of a body
 */

static ngx_queue_t  ngx_mcds_body_checks;


ngx_int_t
ngx_mcds_body_check(ngx_mcds_snapshot_t *snapshot, ngx_uint_t window,
    ngx_mcds_body_pt handler, void *data)
{
    uint32_t            n, looks;
    ngx_uint_t          batch;
    ngx_queue_t        *q;
    ngx_mcds_open_t    *open;
    ngx_mcds_look_t    *look;
    ngx_mcds_opener_t  *opener;

    if (ngx_mcds_body_checks.next == NULL) {
        ngx_queue_init(&ngx_mcds_body_checks);
    }

    opener = ngx_alloc(sizeof(ngx_mcds_opener_t), ngx_cycle->log);
    if (opener == NULL) {
        return NGX_ERROR;
    }

    opener->handler = handler;
    opener->data = data;

    for (q = ngx_queue_head(&ngx_mcds_body_checks);
         q != ngx_queue_sentinel(&ngx_mcds_body_checks);
         q = ngx_queue_next(q))
    {
        open = ngx_queue_data(q, ngx_mcds_open_t, queue);

        if (open->snapshot->page == snapshot->page
            && open->snapshot->entry.generation == snapshot->entry.generation
            && open->snapshot->entry.parts == snapshot->entry.parts
            && open->snapshot->entry.total == snapshot->entry.total
            && (open->n || !window))
        {
            ngx_queue_insert_tail(&open->openers, &opener->queue);
            return NGX_OK;
        }
    }

    n = window ? ngx_min(NGX_MCDS_WINDOW, snapshot->entry.parts) : 0;
    batch = ngx_mcds_pool_batch(snapshot->page->pool, 0);
    batch = ngx_min(NGX_MCDS_BODY_LOOKS, batch);
    looks = ngx_min(batch, snapshot->entry.parts - n);

    open = ngx_calloc(sizeof(ngx_mcds_open_t)
                      + looks * sizeof(ngx_mcds_look_t), ngx_cycle->log);
    if (open == NULL) {
        ngx_free(opener);
        return NGX_ERROR;
    }

    open->snapshot = ngx_mcds_snapshot_ref(snapshot);
    open->n = n;
    open->next = n;
    open->rc = NGX_MCDS_OK;

    open->event.handler = ngx_mcds_body_check_handler;
    open->event.data = open;
    open->event.log = ngx_cycle->log;

    ngx_queue_init(&open->openers);
    ngx_queue_insert_tail(&open->openers, &opener->queue);
    ngx_queue_insert_tail(&ngx_mcds_body_checks, &open->queue);

    for (n = 0; n < open->n; n++) {

        if (ngx_mcds_body_slot_get(&open->slots[n], snapshot, n, &open->event)
            != NGX_OK)
        {
            ngx_mcds_body_take_rc(open, NGX_MCDS_BUSY);
        }
    }

    for (n = 0; n < looks; n++) {
        look = &open->looks[n];

        look->open = open;
        look->op.handler = ngx_mcds_body_looked;
        look->op.data = look;

        ngx_mcds_body_look(look);
    }

    ngx_post_event(&open->event, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_mcds_body_look(ngx_mcds_look_t *look)
{
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_mcds_open_t    *open;
    ngx_mcds_entry_t   *entry;
    ngx_mcds_request_t  req;

    open = look->open;
    entry = &open->snapshot->entry;

    if (open->next == entry->parts || open->rc != NGX_MCDS_OK) {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.key = open->snapshot->page->key;
    req.suffix.data = suffix;
    req.by_key = 1;
    req.page = 1;
    req.movable = 1;

    ngx_mcds_part_suffix(&req.suffix, entry->generation, open->next++);

    open->unanswered++;

    ngx_mcds_submit(open->snapshot->page->pool, &req, &look->op);
}


static void
ngx_mcds_body_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_look_t *look = data;

    ngx_mcds_open_t  *open;

    open = look->open;
    open->unanswered--;

    ngx_mcds_body_take_rc(open, result->rc);
    ngx_mcds_body_look(look);

    if (open->unanswered == 0) {
        ngx_post_event(&open->event, &ngx_posted_events);
    }
}


/*
 * Merges the result for one part of a body into open->rc, the result for the
 * whole body.  A missing part sets open->rc to NGX_MCDS_NOT_FOUND, even if
 * memcached did not answer about another part.
 */

static void
ngx_mcds_body_take_rc(ngx_mcds_open_t *open, ngx_uint_t rc)
{
    if (ngx_mcds_answered(rc) && rc != NGX_MCDS_OK) {
        rc = NGX_MCDS_NOT_FOUND;
    }

    if (open->rc == NGX_MCDS_OK || rc == NGX_MCDS_NOT_FOUND) {
        open->rc = rc;
    }
}


static void
ngx_mcds_body_check_handler(ngx_event_t *ev)
{
    ngx_uint_t          i;
    ngx_queue_t        *q;
    ngx_mcds_open_t    *open;
    ngx_mcds_opener_t  *opener;

    open = ev->data;

    if (open->unanswered) {
        return;
    }

    for (i = 0; i < open->n; i++) {
        if (open->slots[i].waiting) {
            return;
        }
    }

    for (i = 0; i < open->n; i++) {
        if (open->slots[i].part) {
            ngx_mcds_body_take_rc(open, open->slots[i].part->rc);
        }
    }

    ngx_queue_remove(&open->queue);

    while (!ngx_queue_empty(&open->openers)) {
        q = ngx_queue_head(&open->openers);
        opener = ngx_queue_data(q, ngx_mcds_opener_t, queue);
        ngx_queue_remove(q);

        opener->handler(opener->data, open->rc);
        ngx_free(opener);
    }

    for (i = 0; i < open->n; i++) {
        ngx_mcds_body_slot_free(&open->slots[i]);
    }

    ngx_mcds_snapshot_unref(open->snapshot);
    ngx_free(open);
}
