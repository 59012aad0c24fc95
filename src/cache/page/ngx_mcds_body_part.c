
/*
 * Copyright (C) mcds authors
 *
 * The parts of pages' bodies that this worker has in memory or is reading from
 * memcached; requests that need the same part share it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_part.h"


/*
 * the maximum number of bytes of parts of bodies that a worker is reading from
 * a pool at one time, for all requests
 */
#define NGX_MCDS_BODY_FLYING      (4 * 1024 * 1024)

/*
 * The limits of the parts of pages' bodies that requests of a worker share:
 * their number, and the bytes that describe them, without their data.  Beyond
 * these limits each request reads its own parts.
 */
#define NGX_MCDS_PARTS_BUCKETS    1024
#define NGX_MCDS_PARTS            262144
#define NGX_MCDS_PARTS_SIZE       (64 * 1024 * 1024)


/*
 * the queue of the parts of bodies that this worker has still to read from a
 * pool
 */

struct ngx_mcds_line_s {
    ngx_mcds_line_t     *next;
    ngx_mcds_pool_t     *pool;
    ngx_queue_t          parts;
    size_t               flying;
    ngx_uint_t           reads;       /* number of parts that are being read */
};


static ngx_mcds_line_t *ngx_mcds_line_get(ngx_mcds_pool_t *pool);
static void ngx_mcds_line_send(ngx_mcds_line_t *line);
static uint32_t ngx_mcds_body_part_hash(ngx_mcds_snapshot_t *snapshot,
    uint32_t n);
static void ngx_mcds_body_part_answered(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_body_part_arrived(ngx_mcds_body_part_t *part,
    ngx_uint_t rc);


/*
 * the queues of parts of bodies that are still to be read, and the index of all
 * parts that this worker has in memory or is reading
 */

static ngx_mcds_line_t   *ngx_mcds_lines;
static ngx_mcds_index_node_t  *ngx_mcds_parts_buckets[NGX_MCDS_PARTS_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_parts =
    ngx_mcds_index(ngx_mcds_parts_buckets, NGX_MCDS_PARTS, NGX_MCDS_PARTS_SIZE,
                   0, 0, NULL);


static ngx_mcds_line_t *
ngx_mcds_line_get(ngx_mcds_pool_t *pool)
{
    ngx_mcds_line_t  *line;

    for (line = ngx_mcds_lines; line; line = line->next) {
        if (line->pool == pool) {
            return line;
        }
    }

    line = ngx_calloc(sizeof(ngx_mcds_line_t), ngx_cycle->log);
    if (line == NULL) {
        return NULL;
    }

    line->pool = pool;
    ngx_queue_init(&line->parts);

    line->next = ngx_mcds_lines;
    ngx_mcds_lines = line;

    return line;
}


static void
ngx_mcds_line_send(ngx_mcds_line_t *line)
{
    u_char                 suffix[NGX_MCDS_PART_SUFFIX];
    ngx_queue_t           *q;
    ngx_mcds_body_part_t  *part;
    ngx_mcds_request_t     req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.suffix.data = suffix;
    req.by_key = 1;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;

    while (!ngx_queue_empty(&line->parts)) {
        q = ngx_queue_head(&line->parts);
        part = ngx_queue_data(q, ngx_mcds_body_part_t, queue);

        if (part->refs > 1) {

            if (line->reads
                && (line->flying + part->len > NGX_MCDS_BODY_FLYING
                    || line->reads >= ngx_mcds_pool_batch(line->pool, 0)))
            {
                return;
            }

            req.key = part->page->key;
            req.limit = NGX_MCDS_PART_SIGNED + part->len;
            ngx_mcds_part_suffix(&req.suffix, part->generation, part->n);

            ngx_queue_remove(q);

            ngx_mcds_submit(line->pool, &req, &part->op);
            line->flying += part->len;
            line->reads++;

        } else {

            /*
             * this part of a body is not read, as the requests that needed it
             * have ended
             */

            ngx_queue_remove(q);
            ngx_mcds_body_part_arrived(part, NGX_MCDS_BUSY);
        }
    }
}


ngx_int_t
ngx_mcds_body_slot_get(ngx_mcds_body_slot_t *slot,
    ngx_mcds_snapshot_t *snapshot, uint32_t n, ngx_event_t *event)
{
    ngx_mcds_body_part_t  *part;

    part = ngx_mcds_body_part_find(snapshot, n);

    if (part == NULL) {
        part = ngx_mcds_body_part_create(snapshot, n);
        if (part == NULL) {
            return NGX_ERROR;
        }

        part->line = ngx_mcds_line_get(snapshot->page->pool);
        if (part->line == NULL) {
            ngx_mcds_body_part_unref(part);
            return NGX_ERROR;
        }

        /*
         * the first reference of a part of a body belongs to the command that
         * reads the part
         */

        part->under_way = 1;
        ngx_queue_insert_tail(&part->line->parts, &part->queue);
    }

    part->refs++;
    slot->part = part;

    if (part->under_way) {
        slot->event = event;
        slot->waiting = 1;
        ngx_queue_insert_tail(&part->slots, &slot->queue);

        ngx_mcds_line_send(part->line);
    }

    return NGX_OK;
}


void
ngx_mcds_body_slot_free(ngx_mcds_body_slot_t *slot)
{
    if (slot->part == NULL) {
        return;
    }

    if (slot->waiting) {
        ngx_queue_remove(&slot->queue);
        slot->waiting = 0;
    }

    ngx_mcds_body_part_unref(slot->part);
    slot->part = NULL;
}


ngx_mcds_body_part_t *
ngx_mcds_body_part_find(ngx_mcds_snapshot_t *snapshot, uint32_t n)
{
    ngx_str_t               key;
    ngx_mcds_body_part_t   *part;
    ngx_mcds_index_node_t  *node;

    key.data = (u_char *) &snapshot->entry.generation;
    key.len = sizeof(uint64_t);

    for (node = ngx_mcds_index_find(&ngx_mcds_parts, snapshot->page, &key,
                                    ngx_mcds_body_part_hash(snapshot, n));
         node;
         node = ngx_mcds_index_next(node))
    {
        part = ngx_mcds_index_data(node, ngx_mcds_body_part_t, node);

        if (part->n == n
            && part->len == ngx_mcds_entry_part(&snapshot->entry, n))
        {
            return part;
        }
    }

    return NULL;
}


ngx_mcds_body_part_t *
ngx_mcds_body_part_create(ngx_mcds_snapshot_t *snapshot, uint32_t n)
{
    ngx_str_t              key;
    ngx_mcds_body_part_t  *part;

    part = ngx_calloc(sizeof(ngx_mcds_body_part_t), ngx_cycle->log);
    if (part == NULL) {
        return NULL;
    }

    part->refs = 1;
    part->page = snapshot->page;
    part->generation = snapshot->entry.generation;
    part->n = n;
    part->len = ngx_mcds_entry_part(&snapshot->entry, n);
    part->op.handler = ngx_mcds_body_part_answered;
    part->op.data = part;

    ngx_queue_init(&part->slots);
    ngx_mcds_page_ref(part->page);

    key.data = (u_char *) &part->generation;
    key.len = sizeof(uint64_t);

    /*
     * if the worker's index of parts of bodies is full, requests do not share
     * this part
     */

    (void) ngx_mcds_index_insert(&ngx_mcds_parts, &part->node, part->page,
                                 &key, ngx_mcds_body_part_hash(snapshot, n),
                                 sizeof(ngx_mcds_body_part_t));

    return part;
}


/*
 * returns the hash of a part of a body for the index of parts; the body's
 * generation, an id, is random already and needs no hashing
 */

static uint32_t
ngx_mcds_body_part_hash(ngx_mcds_snapshot_t *snapshot, uint32_t n)
{
    return (uint32_t) snapshot->entry.generation + n;
}


void
ngx_mcds_body_part_unref(ngx_mcds_body_part_t *part)
{
    if (--part->refs) {
        return;
    }

    ngx_mcds_index_remove(&ngx_mcds_parts, &part->node);
    ngx_mcds_value_unref(part->value);
    ngx_mcds_page_unref(part->page);
    ngx_free(part);
}


static void
ngx_mcds_body_part_answered(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t             rc;
    ngx_mcds_line_t       *line;
    ngx_mcds_body_part_t  *part;

    part = data;
    line = part->line;
    rc = result->rc;

    line->flying -= part->len;
    line->reads--;

    if (rc == NGX_MCDS_OK) {
        part->value = ngx_mcds_result_value(result, ngx_cycle->log);

        if (part->value == NULL) {
            rc = NGX_MCDS_BUSY;

        } else if (ngx_mcds_part_read(&part->body, part->value->data,
                                      part->value->len, part->generation,
                                      part->n, part->len)
                   != NGX_OK)
        {
            rc = NGX_MCDS_NOT_FOUND;
        }

    } else if (ngx_mcds_answered(rc)) {
        rc = NGX_MCDS_NOT_FOUND;
    }

    ngx_mcds_body_part_arrived(part, rc);
    ngx_mcds_line_send(line);
}


static void
ngx_mcds_body_part_arrived(ngx_mcds_body_part_t *part, ngx_uint_t rc)
{
    ngx_queue_t           *q;
    ngx_mcds_body_slot_t  *slot;

    part->rc = rc;
    part->under_way = 0;

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_index_remove(&ngx_mcds_parts, &part->node);
    }

    while (!ngx_queue_empty(&part->slots)) {
        q = ngx_queue_head(&part->slots);
        slot = ngx_queue_data(q, ngx_mcds_body_slot_t, queue);

        ngx_queue_remove(q);
        slot->waiting = 0;

        ngx_post_event(slot->event, &ngx_posted_events);
    }

    ngx_mcds_body_part_unref(part);
}
