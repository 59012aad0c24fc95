
/*
 * Copyright (C) mcds authors
 *
 * The queries that one client request sends to memcached to learn whether the
 * tags of the requested page were purged.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_tag.h"
#include "ngx_mcds_tag_record.h"


typedef enum {
    NGX_MCDS_RECORD_UNKNOWN = 0,
    NGX_MCDS_RECORD_ABSENT,
    NGX_MCDS_RECORD_KNOWN
} ngx_mcds_record_e;


typedef struct {
    ngx_mcds_tags_t      *tags;
    ngx_queue_t           queue;
    ngx_uint_t            state;
    uint64_t              purged;
    uint64_t              deleted;
    ngx_mcds_op_t         op;
    ngx_str_t             name;
} ngx_mcds_record_t;


struct ngx_mcds_tags_s {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            place;
    void                (*handler)(void *data);
    void                 *data;
    ngx_event_t           event;

    uint64_t              counter;
    ngx_queue_t           records;
    ngx_uint_t            n;
    ngx_uint_t            unanswered;
    ngx_uint_t            told;        /* the caller's handler was called
                                          before memcached had answered all
                                          queries about the tags */
    ngx_mcds_op_t         count;
};


typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            place;
    ngx_mcds_op_t         op;
    ngx_str_t             list;
} ngx_mcds_tag_make_t;


static ngx_mcds_record_t *ngx_mcds_tags_find(ngx_mcds_tags_t *tags,
    ngx_str_t *name);
static ngx_int_t ngx_mcds_tags_ask_one(ngx_mcds_tags_t *tags,
    ngx_str_t *name);
static void ngx_mcds_tags_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tags_counted_late(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tags_take_counter(ngx_mcds_tags_t *tags,
    ngx_mcds_result_t *result);
static void ngx_mcds_tags_got(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tags_done(ngx_mcds_tags_t *tags);
static void ngx_mcds_tags_event_handler(ngx_event_t *ev);
static void ngx_mcds_tags_absent(ngx_mcds_tags_t *tags);
static void ngx_mcds_tags_make_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tags_add_record(ngx_mcds_pool_t *pool, ngx_uint_t place,
    ngx_str_t *record, uint64_t counter);


ngx_mcds_tags_t *
ngx_mcds_tags_create(ngx_mcds_pool_t *pool, ngx_str_t *page, ngx_str_t *list,
    uint64_t now, void (*handler)(void *data), void *data)
{
    ngx_mcds_tags_t     *tags;
    ngx_mcds_request_t   req;

    tags = ngx_calloc(sizeof(ngx_mcds_tags_t), ngx_cycle->log);
    if (tags == NULL) {
        return NULL;
    }

    tags->pool = pool;
    tags->place = ngx_mcds_place(pool, page);
    tags->handler = handler;
    tags->data = data;

    tags->event.handler = ngx_mcds_tags_event_handler;
    tags->event.data = tags;
    tags->event.log = ngx_cycle->log;

    ngx_queue_init(&tags->records);

    ngx_mcds_tag_count(&req, now);
    req.place = tags->place;

    tags->count.handler = ngx_mcds_tags_counted;
    tags->count.data = tags;

    ngx_mcds_submit(pool, &req, &tags->count);
    tags->unanswered++;

    if (ngx_mcds_tags_ask(tags, list) == NGX_ERROR) {
        ngx_mcds_tags_free(tags);
        return NULL;
    }

    return tags;
}


ngx_int_t
ngx_mcds_tags_ask(ngx_mcds_tags_t *tags, ngx_str_t *list)
{
    ngx_str_t  rest, name;

    rest = *list;

    while (ngx_mcds_tags_next(&rest, &name) == NGX_OK) {

        if (ngx_mcds_tags_find(tags, &name) == NULL
            && ngx_mcds_tags_ask_one(tags, &name) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    tags->told = 0;

    return tags->unanswered ? NGX_OK : NGX_DONE;
}


void
ngx_mcds_tags_hurry(ngx_mcds_tags_t *tags)
{
    if (tags == NULL || tags->unanswered == 0 || tags->told) {
        return;
    }

    tags->told = 1;

    tags->handler(tags->data);
}


static ngx_mcds_record_t *
ngx_mcds_tags_find(ngx_mcds_tags_t *tags, ngx_str_t *name)
{
    ngx_queue_t        *q;
    ngx_mcds_record_t  *record;

    for (q = ngx_queue_head(&tags->records);
         q != ngx_queue_sentinel(&tags->records);
         q = ngx_queue_next(q))
    {
        record = ngx_queue_data(q, ngx_mcds_record_t, queue);

        if (record->name.len == name->len
            && ngx_memcmp(record->name.data, name->data, name->len) == 0)
        {
            return record;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_mcds_tags_ask_one(ngx_mcds_tags_t *tags, ngx_str_t *name)
{
    ngx_mcds_record_t   *record;
    ngx_mcds_request_t   req;

    record = ngx_calloc(sizeof(ngx_mcds_record_t) + name->len,
                        ngx_cycle->log);
    if (record == NULL) {
        return NGX_ERROR;
    }

    record->tags = tags;
    record->name.data = (u_char *) record + sizeof(ngx_mcds_record_t);
    record->name.len = name->len;
    ngx_memcpy(record->name.data, name->data, name->len);

    ngx_mcds_tag_request(&req, name);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.place = tags->place;
    req.limit = NGX_MCDS_TAG_RECORD;

    record->op.handler = ngx_mcds_tags_got;
    record->op.data = record;

    ngx_mcds_submit(tags->pool, &req, &record->op);

    ngx_queue_insert_tail(&tags->records, &record->queue);
    tags->unanswered++;

    return NGX_OK;
}


static void
ngx_mcds_tags_counted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tags_take_counter(data, result);
    ngx_mcds_tags_done(data);
}


/*
 * Takes the purge counter of a server from a reply that comes after the
 * request which asked about tags has ended: this worker may need the value.
 */

static void
ngx_mcds_tags_counted_late(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tags_take_counter(data, result);
    ngx_free(data);
}


static void
ngx_mcds_tags_take_counter(ngx_mcds_tags_t *tags, ngx_mcds_result_t *result)
{
    if (ngx_mcds_tag_number(result, &tags->counter) == NGX_MCDS_OK) {
        tags->pool->purges = ngx_max(tags->pool->purges, tags->counter);

    } else {
        tags->counter = 0;
    }
}


static void
ngx_mcds_tags_got(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_record_t *record = data;

    if (result->rc == NGX_MCDS_NOT_FOUND) {
        record->state = NGX_MCDS_RECORD_ABSENT;

    } else if (result->rc == NGX_MCDS_OK
               && ngx_mcds_tag_parse(result, &record->purged,
                                     &record->deleted)
                  == NGX_OK)
    {
        record->state = NGX_MCDS_RECORD_KNOWN;
    }

    ngx_mcds_tags_done(record->tags);
}


static void
ngx_mcds_tags_done(ngx_mcds_tags_t *tags)
{
    if (--tags->unanswered) {
        return;
    }

    ngx_mcds_tags_absent(tags);

    if (tags->told) {
        return;
    }

    ngx_post_event(&tags->event, &ngx_posted_events);
}


static void
ngx_mcds_tags_event_handler(ngx_event_t *ev)
{
    ngx_mcds_tags_t  *tags;

    tags = ev->data;

    tags->handler(tags->data);
}


/*
 * Creates those records of a page's tags that memcached does not have, without
 * waiting for its replies.
 */

static void
ngx_mcds_tags_absent(ngx_mcds_tags_t *tags)
{
    ngx_queue_t        *q;
    ngx_mcds_record_t  *record;

    if (tags->counter == 0) {
        return;
    }

    for (q = ngx_queue_head(&tags->records);
         q != ngx_queue_sentinel(&tags->records);
         q = ngx_queue_next(q))
    {
        record = ngx_queue_data(q, ngx_mcds_record_t, queue);

        if (record->state != NGX_MCDS_RECORD_ABSENT) {
            continue;
        }

        record->state = NGX_MCDS_RECORD_KNOWN;
        record->purged = tags->counter;
        record->deleted = tags->counter;

        ngx_mcds_tags_add_record(tags->pool, tags->place, &record->name,
                                 tags->counter);
    }
}


static void
ngx_mcds_tags_add_record(ngx_mcds_pool_t *pool, ngx_uint_t place,
    ngx_str_t *record, uint64_t counter)
{
    u_char              buf[NGX_MCDS_TAG_RECORD + 1];
    ngx_mcds_request_t  req;

    ngx_mcds_tag_request(&req, record);

    req.verb = NGX_MCDS_ADD;
    req.place = place;
    req.text.data = buf;
    req.text.len = ngx_sprintf(buf, "%uL %uL", counter, counter) - buf;

    ngx_mcds_submit(pool, &req, NULL);
}


void
ngx_mcds_tags_make(ngx_mcds_pool_t *pool, ngx_str_t *page, ngx_str_t *list,
    uint64_t now)
{
    ngx_mcds_request_t    req;
    ngx_mcds_tag_make_t  *make;

    make = ngx_calloc(sizeof(ngx_mcds_tag_make_t) + list->len, ngx_cycle->log);
    if (make == NULL) {
        return;
    }

    make->pool = pool;
    make->place = ngx_mcds_place(pool, page);
    make->list.data = (u_char *) make + sizeof(ngx_mcds_tag_make_t);
    make->list.len = list->len;
    ngx_memcpy(make->list.data, list->data, list->len);

    ngx_mcds_tag_count(&req, now);
    req.place = make->place;

    make->op.handler = ngx_mcds_tags_make_counted;
    make->op.data = make;

    ngx_mcds_submit(pool, &req, &make->op);
}


static void
ngx_mcds_tags_make_counted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_make_t *make = data;

    uint64_t   counter;
    ngx_str_t  rest, name;

    if (ngx_mcds_tag_number(result, &counter) == NGX_MCDS_OK) {
        rest = make->list;

        while (ngx_mcds_tags_next(&rest, &name) == NGX_OK) {
            ngx_mcds_tags_add_record(make->pool, make->place, &name, counter);
        }
    }

    ngx_free(make);
}


uint64_t
ngx_mcds_tags_counter(ngx_mcds_tags_t *tags)
{
    uint64_t            counter;
    ngx_queue_t        *q;
    ngx_mcds_record_t  *record;

    if (tags->counter) {
        return tags->counter;
    }

    counter = tags->pool->purges;

    for (q = ngx_queue_head(&tags->records);
         q != ngx_queue_sentinel(&tags->records);
         q = ngx_queue_next(q))
    {
        record = ngx_queue_data(q, ngx_mcds_record_t, queue);

        if (record->state == NGX_MCDS_RECORD_KNOWN) {
            counter = ngx_max(counter, record->purged);
        }
    }

    return counter;
}


void
ngx_mcds_tags_free(ngx_mcds_tags_t *tags)
{
    ngx_queue_t        *q;
    ngx_mcds_record_t  *record;

    if (tags == NULL) {
        return;
    }

    if (tags->event.posted) {
        ngx_delete_posted_event(&tags->event);
    }

    while (!ngx_queue_empty(&tags->records)) {
        q = ngx_queue_head(&tags->records);
        record = ngx_queue_data(q, ngx_mcds_record_t, queue);

        ngx_mcds_cancel(&record->op);
        ngx_queue_remove(q);
        ngx_free(record);
    }

    if (ngx_mcds_op_active(&tags->count)) {
        tags->count.handler = ngx_mcds_tags_counted_late;
        return;
    }

    ngx_free(tags);
}


ngx_uint_t
ngx_mcds_tags_verdict(ngx_mcds_tags_t *tags, uint64_t counter,
    ngx_str_t *list)
{
    ngx_str_t           rest, name;
    ngx_uint_t          verdict;
    ngx_mcds_record_t  *record;

    /*
     * the purge counter of the page's memcached server has not increased since
     * the page was built, so none of the page's tags was purged
     */

    if (tags->counter && counter >= tags->counter) {
        return NGX_MCDS_TAGS_VALID;
    }

    verdict = counter ? NGX_MCDS_TAGS_VALID : NGX_MCDS_TAGS_UNKNOWN;
    rest = *list;

    while (ngx_mcds_tags_next(&rest, &name) == NGX_OK) {

        record = ngx_mcds_tags_find(tags, &name);

        if (record == NULL) {
            return NGX_MCDS_TAGS_ASK;
        }

        if (counter == 0) {
            continue;
        }

        if (record->state != NGX_MCDS_RECORD_KNOWN) {
            verdict = ngx_max(verdict, NGX_MCDS_TAGS_UNKNOWN);

        } else if (counter < record->deleted) {
            verdict = NGX_MCDS_TAGS_GONE;

        } else if (counter < record->purged) {
            verdict = ngx_max(verdict, NGX_MCDS_TAGS_STALE);
        }
    }

    return verdict;
}
