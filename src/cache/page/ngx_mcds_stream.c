
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_stream.h"


/* asked for and not answered, of all requests to a pool; bytes */
#define NGX_MCDS_STREAM_FLYING    (4 * 1024 * 1024)

/* parts that are looked for at once, of one copy */
#define NGX_MCDS_STREAM_LOOKS     128

/* what a broken page leaves behind goes away after so many seconds */
#define NGX_MCDS_STREAM_LINGER    60

/* parts that requests share, and bytes of them without their values; beyond
   that, each request reads its own */
#define NGX_MCDS_PARTS_BUCKETS    1024
#define NGX_MCDS_PARTS            262144
#define NGX_MCDS_PARTS_SIZE       (64 * 1024 * 1024)


typedef struct ngx_mcds_line_s  ngx_mcds_line_t;
typedef struct ngx_mcds_slot_s  ngx_mcds_slot_t;


/* the parts of a pool that are to be asked for, in this worker */

struct ngx_mcds_line_s {
    ngx_mcds_line_t     *next;
    ngx_mcds_pool_t     *pool;
    ngx_queue_t          parts;
    size_t               flying;
};


/*
 * A part in memory, or on its way there, of which there is one for all who
 * want it.  The way there has a reference.
 */

struct ngx_mcds_part_s {
    ngx_mcds_index_node_t  node;      /* by the page, and the generation */
    ngx_uint_t           refs;

    ngx_mcds_page_t     *page;        /* a reference */
    uint64_t             generation;
    uint32_t             n;

    ngx_mcds_line_t     *line;
    ngx_mcds_op_t        op;
    ngx_queue_t          queue;       /* in the line */
    ngx_queue_t          slots;       /* who wait for it */

    ngx_mcds_value_t    *value;
    ngx_str_t            body;
    size_t               len;         /* that it must have */
    ngx_uint_t           rc;
    void                *checked;     /* the secrets by which it is signed */

    unsigned             under_way:1;
};


/* one who wants a part */

struct ngx_mcds_slot_s {
    ngx_queue_t          queue;
    ngx_mcds_part_t     *part;
    ngx_event_t         *event;       /* posted when the part is there */
    unsigned             waiting:1;
};


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


typedef struct {
    ngx_queue_t          queue;
    ngx_mcds_open_pt     handler;
    void                *data;
} ngx_mcds_opener_t;


typedef struct ngx_mcds_open_s  ngx_mcds_open_t;


/* looks for one part after the other */

typedef struct {
    ngx_mcds_open_t     *open;
    ngx_mcds_op_t        op;
} ngx_mcds_look_t;


struct ngx_mcds_open_s {
    ngx_queue_t          queue;
    ngx_queue_t          openers;
    ngx_mcds_copy_t     *copy;
    ngx_uint_t           n;           /* slots */
    ngx_mcds_slot_t      slots[NGX_MCDS_WINDOW];
    uint32_t             next;        /* part to be looked for */
    ngx_uint_t           missing;     /* answers */
    ngx_uint_t           rc;
    ngx_event_t          event;
    ngx_mcds_look_t      looks[1];
};


static void ngx_mcds_stream_look(ngx_mcds_look_t *look);
static void ngx_mcds_stream_looked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_stream_take_rc(ngx_mcds_open_t *open, ngx_uint_t rc);
static void ngx_mcds_stream_open_handler(ngx_event_t *ev);
static void ngx_mcds_stream_ahead(ngx_mcds_stream_t *stream);
static void ngx_mcds_stream_handler(ngx_event_t *ev);
static ngx_int_t ngx_mcds_stream_check_part(ngx_mcds_stream_t *stream,
    ngx_mcds_part_t *part);
static ngx_int_t ngx_mcds_stream_lost(ngx_mcds_stream_t *stream,
    ngx_uint_t rc);
static void ngx_mcds_stream_unkeep(void *kept);

static ngx_mcds_line_t *ngx_mcds_line_get(ngx_mcds_pool_t *pool);
static void ngx_mcds_line_send(ngx_mcds_line_t *line);
static ngx_int_t ngx_mcds_slot_get(ngx_mcds_slot_t *slot,
    ngx_mcds_copy_t *copy, uint32_t n, ngx_event_t *event);
static void ngx_mcds_slot_free(ngx_mcds_slot_t *slot);
static ngx_mcds_part_t *ngx_mcds_part_find(ngx_mcds_copy_t *copy, uint32_t n);
static ngx_mcds_part_t *ngx_mcds_part_create(ngx_mcds_copy_t *copy,
    uint32_t n);
static uint32_t ngx_mcds_part_hash(ngx_mcds_copy_t *copy, uint32_t n);
static void ngx_mcds_part_unref(ngx_mcds_part_t *part);
static void ngx_mcds_part_answered(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_part_arrived(ngx_mcds_part_t *part, ngx_uint_t rc);


/* of this worker */

static ngx_mcds_line_t   *ngx_mcds_lines;
static ngx_mcds_index_node_t  *ngx_mcds_parts_buckets[NGX_MCDS_PARTS_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_parts =
    ngx_mcds_index(ngx_mcds_parts_buckets, NGX_MCDS_PARTS, NGX_MCDS_PARTS_SIZE,
                   0, 0, NULL);
static ngx_queue_t        ngx_mcds_opens;


ngx_int_t
ngx_mcds_stream_open(ngx_mcds_copy_t *copy, ngx_uint_t window,
    ngx_mcds_open_pt handler, void *data)
{
    uint32_t            n, looks;
    ngx_queue_t        *q;
    ngx_mcds_open_t    *open;
    ngx_mcds_look_t    *look;
    ngx_mcds_opener_t  *opener;

    if (ngx_mcds_opens.next == NULL) {
        ngx_queue_init(&ngx_mcds_opens);
    }

    opener = ngx_alloc(sizeof(ngx_mcds_opener_t), ngx_cycle->log);
    if (opener == NULL) {
        return NGX_ERROR;
    }

    opener->handler = handler;
    opener->data = data;

    for (q = ngx_queue_head(&ngx_mcds_opens);
         q != ngx_queue_sentinel(&ngx_mcds_opens);
         q = ngx_queue_next(q))
    {
        open = ngx_queue_data(q, ngx_mcds_open_t, queue);

        if (open->copy->page == copy->page
            && open->copy->entry.generation == copy->entry.generation
            && open->copy->entry.parts == copy->entry.parts
            && open->copy->entry.total == copy->entry.total
            && (open->n || !window))
        {
            ngx_queue_insert_tail(&open->openers, &opener->queue);
            return NGX_OK;
        }
    }

    n = window ? ngx_min(NGX_MCDS_WINDOW, copy->entry.parts) : 0;
    looks = ngx_min(NGX_MCDS_STREAM_LOOKS, copy->entry.parts - n);

    open = ngx_calloc(sizeof(ngx_mcds_open_t)
                      + looks * sizeof(ngx_mcds_look_t), ngx_cycle->log);
    if (open == NULL) {
        ngx_free(opener);
        return NGX_ERROR;
    }

    open->copy = ngx_mcds_copy_ref(copy);
    open->n = n;
    open->next = n;
    open->rc = NGX_MCDS_OK;

    open->event.handler = ngx_mcds_stream_open_handler;
    open->event.data = open;
    open->event.log = ngx_cycle->log;

    ngx_queue_init(&open->openers);
    ngx_queue_insert_tail(&open->openers, &opener->queue);
    ngx_queue_insert_tail(&ngx_mcds_opens, &open->queue);

    for (n = 0; n < open->n; n++) {

        if (ngx_mcds_slot_get(&open->slots[n], copy, n, &open->event)
            != NGX_OK)
        {
            ngx_mcds_stream_take_rc(open, NGX_MCDS_BUSY);
        }
    }

    for (n = 0; n < looks; n++) {
        look = &open->looks[n];

        look->open = open;
        look->op.handler = ngx_mcds_stream_looked;
        look->op.data = look;

        ngx_mcds_stream_look(look);
    }

    ngx_post_event(&open->event, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_mcds_stream_look(ngx_mcds_look_t *look)
{
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_mcds_open_t    *open;
    ngx_mcds_entry_t   *entry;
    ngx_mcds_request_t  req;

    open = look->open;
    entry = &open->copy->entry;

    if (open->next == entry->parts || open->rc != NGX_MCDS_OK) {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.key = open->copy->page->key;
    req.suffix.data = suffix;
    req.by_key = 1;
    req.page = 1;
    req.movable = 1;

    ngx_mcds_part_suffix(&req.suffix, entry->generation, open->next++);

    open->missing++;

    ngx_mcds_submit(open->copy->page->pool, &req, &look->op);
}


static void
ngx_mcds_stream_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_look_t *look = data;

    ngx_mcds_open_t  *open;

    open = look->open;
    open->missing--;

    ngx_mcds_stream_take_rc(open, result->rc);
    ngx_mcds_stream_look(look);

    if (open->missing == 0) {
        ngx_post_event(&open->event, &ngx_posted_events);
    }
}


/* that something is missing says more than that something is not known */

static void
ngx_mcds_stream_take_rc(ngx_mcds_open_t *open, ngx_uint_t rc)
{
    if (ngx_mcds_answered(rc) && rc != NGX_MCDS_OK) {
        rc = NGX_MCDS_NOT_FOUND;
    }

    if (open->rc == NGX_MCDS_OK || rc == NGX_MCDS_NOT_FOUND) {
        open->rc = rc;
    }
}


static void
ngx_mcds_stream_open_handler(ngx_event_t *ev)
{
    ngx_uint_t          i;
    ngx_queue_t        *q;
    ngx_mcds_open_t    *open;
    ngx_mcds_opener_t  *opener;

    open = ev->data;

    if (open->missing) {
        return;
    }

    for (i = 0; i < open->n; i++) {
        if (open->slots[i].waiting) {
            return;
        }
    }

    for (i = 0; i < open->n; i++) {
        if (open->slots[i].part) {
            ngx_mcds_stream_take_rc(open, open->slots[i].part->rc);
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
        ngx_mcds_slot_free(&open->slots[i]);
    }

    ngx_mcds_copy_unref(open->copy);
    ngx_free(open);
}


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
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_queue_t        *q;
    ngx_mcds_part_t    *part;
    ngx_mcds_request_t  req;

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
        part = ngx_queue_data(q, ngx_mcds_part_t, queue);

        if (part->refs > 1) {

            if (line->flying
                && line->flying + part->len > NGX_MCDS_STREAM_FLYING)
            {
                return;
            }

            req.key = part->page->key;
            req.limit = NGX_MCDS_PART_SIGNED + part->len;
            ngx_mcds_part_suffix(&req.suffix, part->generation, part->n);

            ngx_queue_remove(q);

            ngx_mcds_submit(line->pool, &req, &part->op);
            line->flying += part->len;

        } else {

            /* the requests that wanted it have left */

            ngx_queue_remove(q);
            ngx_mcds_part_arrived(part, NGX_MCDS_BUSY);
        }
    }
}


/* makes the slot that of part n: "waiting" until event is posted */

static ngx_int_t
ngx_mcds_slot_get(ngx_mcds_slot_t *slot, ngx_mcds_copy_t *copy, uint32_t n,
    ngx_event_t *event)
{
    ngx_mcds_part_t  *part;

    part = ngx_mcds_part_find(copy, n);

    if (part == NULL) {
        part = ngx_mcds_part_create(copy, n);
        if (part == NULL) {
            return NGX_ERROR;
        }

        part->line = ngx_mcds_line_get(copy->page->pool);
        if (part->line == NULL) {
            ngx_mcds_part_unref(part);
            return NGX_ERROR;
        }

        /* the reference is that of the way there */

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


static void
ngx_mcds_slot_free(ngx_mcds_slot_t *slot)
{
    if (slot->part == NULL) {
        return;
    }

    if (slot->waiting) {
        ngx_queue_remove(&slot->queue);
        slot->waiting = 0;
    }

    ngx_mcds_part_unref(slot->part);
    slot->part = NULL;
}


static ngx_mcds_part_t *
ngx_mcds_part_find(ngx_mcds_copy_t *copy, uint32_t n)
{
    ngx_str_t               key;
    ngx_mcds_part_t        *part;
    ngx_mcds_index_node_t  *node;

    key.data = (u_char *) &copy->entry.generation;
    key.len = sizeof(uint64_t);

    for (node = ngx_mcds_index_find(&ngx_mcds_parts, copy->page, &key,
                                    ngx_mcds_part_hash(copy, n));
         node;
         node = ngx_mcds_index_next(node))
    {
        part = ngx_mcds_index_data(node, ngx_mcds_part_t, node);

        if (part->n == n && part->len == ngx_mcds_entry_part(&copy->entry, n)) {
            return part;
        }
    }

    return NULL;
}


/* of one reference */

static ngx_mcds_part_t *
ngx_mcds_part_create(ngx_mcds_copy_t *copy, uint32_t n)
{
    ngx_str_t         key;
    ngx_mcds_part_t  *part;

    part = ngx_calloc(sizeof(ngx_mcds_part_t), ngx_cycle->log);
    if (part == NULL) {
        return NULL;
    }

    part->refs = 1;
    part->page = copy->page;
    part->generation = copy->entry.generation;
    part->n = n;
    part->len = ngx_mcds_entry_part(&copy->entry, n);
    part->op.handler = ngx_mcds_part_answered;
    part->op.data = part;

    ngx_queue_init(&part->slots);
    ngx_mcds_page_ref(part->page);

    key.data = (u_char *) &part->generation;
    key.len = sizeof(uint64_t);

    /* without room the part is not shared */

    (void) ngx_mcds_index_insert(&ngx_mcds_parts, &part->node, part->page,
                                 &key, ngx_mcds_part_hash(copy, n),
                                 sizeof(ngx_mcds_part_t));

    return part;
}


/* generations are random */

static uint32_t
ngx_mcds_part_hash(ngx_mcds_copy_t *copy, uint32_t n)
{
    return (uint32_t) copy->entry.generation + n;
}


static void
ngx_mcds_part_unref(ngx_mcds_part_t *part)
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
ngx_mcds_part_answered(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t        rc;
    ngx_mcds_line_t  *line;
    ngx_mcds_part_t  *part;

    part = data;
    line = part->line;
    rc = result->rc;

    line->flying -= part->len;

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

    ngx_mcds_part_arrived(part, rc);
    ngx_mcds_line_send(line);
}


static void
ngx_mcds_part_arrived(ngx_mcds_part_t *part, ngx_uint_t rc)
{
    ngx_queue_t      *q;
    ngx_mcds_slot_t  *slot;

    part->rc = rc;
    part->under_way = 0;

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_index_remove(&ngx_mcds_parts, &part->node);
    }

    while (!ngx_queue_empty(&part->slots)) {
        q = ngx_queue_head(&part->slots);
        slot = ngx_queue_data(q, ngx_mcds_slot_t, queue);

        ngx_queue_remove(q);
        slot->waiting = 0;

        ngx_post_event(slot->event, &ngx_posted_events);
    }

    ngx_mcds_part_unref(part);
}
