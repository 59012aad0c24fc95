
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_tag.h"


#define NGX_MCDS_TAG_SPACE        "<mcds:"
#define NGX_MCDS_TAG_COUNTER      "<mcds:purges"

/* two numbers and a space */
#define NGX_MCDS_TAG_RECORD       41

/* then the record is written over */
#define NGX_MCDS_TAG_TRIES        16


typedef struct ngx_mcds_tag_purge_s  ngx_mcds_tag_purge_t;


/* what is asked of one server */

typedef struct {
    ngx_mcds_tag_purge_t *purge;
    ngx_uint_t            server;      /* its index */
    uint64_t              counter;
    ngx_uint_t            tries;
    ngx_uint_t            reached;     /* the counter was moved on */
    ngx_mcds_op_t         op;
    ngx_mcds_op_t         raise;       /* beside what is done to the record */
} ngx_mcds_tag_leg_t;


/* a purge under way; the record is behind the legs */

struct ngx_mcds_tag_purge_s {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            how;
    uint64_t              counter;     /* the largest of all servers */
    ngx_mcds_tag_pt       handler;
    void                 *data;
    ngx_str_t             record;
    ngx_uint_t            waiting;
    ngx_uint_t            rc;
    ngx_uint_t            n;
    ngx_mcds_tag_leg_t    legs[1];
};


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
    ngx_uint_t            waiting;
    ngx_uint_t            told;        /* before all have answered */
    ngx_mcds_op_t         count;
};


typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            place;
    ngx_mcds_op_t         op;
    ngx_str_t             list;
} ngx_mcds_tag_make_t;


static void ngx_mcds_tag_request(ngx_mcds_request_t *req, ngx_str_t *record);
static void ngx_mcds_tag_count(ngx_mcds_request_t *req, uint64_t now);
static void ngx_mcds_tag_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_write(ngx_mcds_tag_purge_t *purge);
static void ngx_mcds_tag_raised(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_read(ngx_mcds_tag_leg_t *leg);
static void ngx_mcds_tag_got(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_set(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_done(ngx_mcds_tag_purge_t *purge, ngx_uint_t rc);
static void ngx_mcds_tag_end(ngx_mcds_tag_purge_t *purge);
static ngx_uint_t ngx_mcds_tag_number(ngx_mcds_result_t *result,
    uint64_t *number);
static ngx_int_t ngx_mcds_tag_parse(ngx_mcds_result_t *result,
    uint64_t *purged, uint64_t *deleted);
static ngx_int_t ngx_mcds_tags_check(ngx_str_t *list);
static ngx_int_t ngx_mcds_tags_next(ngx_str_t *list, ngx_str_t *name);
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


ngx_int_t
ngx_mcds_tag_check(ngx_str_t *tag)
{
    size_t  i;
    u_char  c;

    if (tag->len == 0 || tag->len > NGX_MCDS_TAG_LEN) {
        return NGX_DECLINED;
    }

    for (i = 0; i < tag->len; i++) {
        c = tag->data[i];

        if (c <= ' ' || c == ',' || c == 0x7f) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static void
ngx_mcds_tag_request(ngx_mcds_request_t *req, ngx_str_t *record)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    ngx_str_set(&req->key, NGX_MCDS_TAG_SPACE);
    req->suffix = *record;
    req->page = 1;
}


ngx_int_t
ngx_mcds_tag_purge(ngx_mcds_pool_t *pool, ngx_str_t *record, ngx_uint_t how,
    uint64_t now, ngx_mcds_tag_pt handler, void *data)
{
    u_char                *p;
    ngx_uint_t             i, n;
    ngx_mcds_request_t     req;
    ngx_mcds_tag_leg_t    *leg;
    ngx_mcds_tag_purge_t  *purge;

    n = pool->servers.nelts;

    purge = ngx_calloc(sizeof(ngx_mcds_tag_purge_t)
                       + n * sizeof(ngx_mcds_tag_leg_t) + record->len,
                       ngx_cycle->log);
    if (purge == NULL) {
        return NGX_ERROR;
    }

    purge->pool = pool;
    purge->how = how;
    purge->handler = handler;
    purge->data = data;
    purge->n = n;

    /* more than any counter has begun with, be it that of a server not asked */

    purge->counter = now;

    p = (u_char *) purge + sizeof(ngx_mcds_tag_purge_t)
        + n * sizeof(ngx_mcds_tag_leg_t);

    purge->record.data = p;
    purge->record.len = record->len;
    ngx_memcpy(p, record->data, record->len);

    ngx_mcds_tag_count(&req, now);
    req.delta = 1;

    for (i = 0; i < n; i++) {

        if (ngx_mcds_disabled(pool, i)) {

            /* it does not come back with what it had */

            continue;
        }

        leg = &purge->legs[i];
        leg->purge = purge;
        leg->server = i;
        leg->op.handler = ngx_mcds_tag_counted;
        leg->op.data = leg;
        leg->raise.handler = ngx_mcds_tag_raised;
        leg->raise.data = purge;

        ngx_mcds_submit_to(pool, i, &req, &leg->op);
        purge->waiting++;
    }

    if (purge->waiting == 0) {
        ngx_free(purge);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* asks for the counter, and makes it where there is none */

static void
ngx_mcds_tag_count(ngx_mcds_request_t *req, uint64_t now)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->verb = NGX_MCDS_INCR;
    req->want = NGX_MCDS_VALUE;
    ngx_str_set(&req->key, NGX_MCDS_TAG_COUNTER);
    req->page = 1;
    req->initial = now;
}


static void
ngx_mcds_tag_counted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_leg_t *leg = data;

    ngx_uint_t             rc;
    ngx_mcds_tag_purge_t  *purge;

    purge = leg->purge;
    rc = ngx_mcds_tag_number(result, &leg->counter);

    if (rc == NGX_MCDS_OK) {
        purge->counter = ngx_max(purge->counter, leg->counter);
        leg->reached = 1;

    } else {
        purge->rc = rc;
    }

    if (--purge->waiting == 0) {
        ngx_mcds_tag_write(purge);
    }
}


/*
 * The servers that have answered agree on the largest of their numbers: it is
 * above what any page got from any of them before.
 */

static void
ngx_mcds_tag_write(ngx_mcds_tag_purge_t *purge)
{
    ngx_uint_t           i;
    ngx_mcds_tag_leg_t  *leg;
    ngx_mcds_request_t   req;

    ngx_mcds_tag_count(&req, purge->counter);

    for (i = 0; i < purge->n; i++) {
        leg = &purge->legs[i];

        if (!leg->reached) {
            continue;
        }

        if (leg->counter < purge->counter) {
            req.delta = purge->counter - leg->counter;

            ngx_mcds_submit_to(purge->pool, i, &req, &leg->raise);
            purge->waiting++;
        }

        ngx_mcds_tag_read(leg);
        purge->waiting++;
    }

    if (purge->waiting == 0) {
        ngx_mcds_tag_end(purge);
    }
}


static void
ngx_mcds_tag_raised(void *data, ngx_mcds_result_t *result)
{
    uint64_t  counter;

    ngx_mcds_tag_done(data, ngx_mcds_tag_number(result, &counter));
}


static void
ngx_mcds_tag_read(ngx_mcds_tag_leg_t *leg)
{
    ngx_mcds_request_t  req;

    ngx_mcds_tag_request(&req, &leg->purge->record);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    req.limit = NGX_MCDS_TAG_RECORD;

    leg->op.handler = ngx_mcds_tag_got;

    ngx_mcds_submit_to(leg->purge->pool, leg->server, &req, &leg->op);
}


static void
ngx_mcds_tag_got(void *data, ngx_mcds_result_t *result)
{
    u_char                 buf[NGX_MCDS_TAG_RECORD + 1];
    uint64_t               purged, deleted, n;
    ngx_mcds_request_t     req;
    ngx_mcds_tag_leg_t    *leg;
    ngx_mcds_tag_purge_t  *purge;

    leg = data;
    purge = leg->purge;
    n = purge->counter;

    if (!ngx_mcds_answered(result->rc)
        || result->rc == NGX_MCDS_SERVER_ERROR)
    {
        ngx_mcds_tag_done(purge, result->rc);
        return;
    }

    /* what is not known is not valid any more, whatever it was */

    if (result->rc != NGX_MCDS_OK
        || ngx_mcds_tag_parse(result, &purged, &deleted) != NGX_OK)
    {
        purged = n;
        deleted = n;
    }

    purged = ngx_max(purged, n);

    if (purge->how == NGX_MCDS_PURGE_DELETE) {
        deleted = ngx_max(deleted, n);
    }

    ngx_mcds_tag_request(&req, &purge->record);

    req.verb = (result->rc == NGX_MCDS_NOT_FOUND) ? NGX_MCDS_ADD
                                                  : NGX_MCDS_SET;
    req.cas = (result->rc == NGX_MCDS_OK) ? result->cas : 0;

    if (leg->tries++ == NGX_MCDS_TAG_TRIES) {
        deleted = purged;

        req.verb = NGX_MCDS_SET;
        req.cas = 0;
    }

    req.text.data = buf;
    req.text.len = ngx_sprintf(buf, "%uL %uL", purged, deleted) - buf;

    leg->op.handler = ngx_mcds_tag_set;

    ngx_mcds_submit_to(purge->pool, leg->server, &req, &leg->op);
}


static void
ngx_mcds_tag_set(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_leg_t *leg = data;

    switch (result->rc) {

    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_EXISTS:
    case NGX_MCDS_NOT_FOUND:

        /* somebody was faster: once more, with what is there now */

        if (leg->tries <= NGX_MCDS_TAG_TRIES) {
            ngx_mcds_tag_read(leg);
            return;
        }

        break;
    }

    ngx_mcds_tag_done(leg->purge, result->rc);
}


/* the purge is as good as its worst server */

static void
ngx_mcds_tag_done(ngx_mcds_tag_purge_t *purge, ngx_uint_t rc)
{
    if (rc != NGX_MCDS_OK) {
        purge->rc = rc;
    }

    if (--purge->waiting == 0) {
        ngx_mcds_tag_end(purge);
    }
}


static void
ngx_mcds_tag_end(ngx_mcds_tag_purge_t *purge)
{
    purge->handler(purge->data, purge->rc);

    ngx_free(purge);
}


static ngx_uint_t
ngx_mcds_tag_number(ngx_mcds_result_t *result, uint64_t *number)
{
    if (result->rc != NGX_MCDS_OK) {
        return result->rc;
    }

    return ((result->has & NGX_MCDS_VALUE)
            && ngx_mcds_parse_number(result->data, result->len, number)
               == NGX_OK)
           ? NGX_MCDS_OK : NGX_MCDS_NOT_NUMERIC;
}


static ngx_int_t
ngx_mcds_tag_parse(ngx_mcds_result_t *result, uint64_t *purged,
    uint64_t *deleted)
{
    u_char  *p, *last;

    if (!(result->has & NGX_MCDS_VALUE)) {
        return NGX_DECLINED;
    }

    last = result->data + result->len;
    p = ngx_strlchr(result->data, last, ' ');

    if (p == NULL
        || ngx_mcds_parse_number(result->data, p - result->data, purged)
           != NGX_OK
        || ngx_mcds_parse_number(p + 1, last - p - 1, deleted) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_tags_add(ngx_str_t *list, char *prefix, ngx_str_t *text)
{
    u_char      *p, *end, *last, *to;
    size_t       len;
    ngx_str_t    rest, name, tag;
    ngx_uint_t   n;

    len = ngx_strlen(prefix);
    p = text->data;
    last = p + text->len;

    while (p < last) {

        if (*p == ' ' || *p == ',' || *p == '\t') {
            p++;
            continue;
        }

        end = p;

        while (end < last && *end != ' ' && *end != ',' && *end != '\t') {
            end++;
        }

        tag.data = p;
        tag.len = end - p;
        p = end;

        if (ngx_mcds_tag_check(&tag) != NGX_OK
            || list->len + 1 + len + tag.len > NGX_MCDS_TAGS_LEN)
        {
            return NGX_DECLINED;
        }

        to = list->data + list->len;

        if (list->len) {
            *to++ = ' ';
        }

        name.data = to;
        to = ngx_cpymem(to, prefix, len);
        to = ngx_cpymem(to, tag.data, tag.len);
        name.len = to - name.data;

        /* once is enough */

        rest = *list;

        for (n = 0; ngx_mcds_tags_next(&rest, &tag) == NGX_OK; n++) {
            if (tag.len == name.len
                && ngx_memcmp(tag.data, name.data, name.len) == 0)
            {
                to = NULL;
                break;
            }
        }

        if (to == NULL) {
            continue;
        }

        if (n == NGX_MCDS_TAGS_MAX) {
            return NGX_DECLINED;
        }

        list->len = to - list->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_tags_next(ngx_str_t *list, ngx_str_t *name)
{
    u_char  *p, *last;

    if (list->len == 0) {
        return NGX_DONE;
    }

    last = list->data + list->len;
    p = ngx_strlchr(list->data, last, ' ');

    if (p == NULL) {
        p = last;
    }

    name->data = list->data;
    name->len = p - name->data;

    p = ngx_min(p + 1, last);

    list->data = p;
    list->len = last - p;

    return NGX_OK;
}


u_char *
ngx_mcds_tags_put(u_char *p, uint64_t counter, ngx_str_t *list)
{
    ngx_uint_t  i;
    uint32_t    len;

    len = (uint32_t) list->len + 8;

    *p++ = NGX_MCDS_ENTRY_EXT_TAG;
    *p++ = 0;

    for (i = 0; i < 4; i++) {
        *p++ = (u_char) (len >> (8 * i));
    }

    for (i = 0; i < 8; i++) {
        *p++ = (u_char) (counter >> (8 * i));
    }

    return ngx_cpymem(p, list->data, list->len);
}


ngx_int_t
ngx_mcds_tags_get(ngx_mcds_entry_t *entry, uint64_t *counter, ngx_str_t *list)
{
    u_char      *p;
    ngx_str_t    ext;
    ngx_uint_t   i;

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_TAG, &ext) != NGX_OK) {
        return NGX_DECLINED;
    }

    if (ext.len < 8 || ext.len > 8 + NGX_MCDS_TAGS_LEN) {
        return NGX_ERROR;
    }

    p = ext.data;
    *counter = 0;

    for (i = 0; i < 8; i++) {
        *counter |= (uint64_t) p[i] << (8 * i);
    }

    list->data = p + 8;
    list->len = ext.len - 8;

    return ngx_mcds_tags_check(list);
}


/* each name is asked for, and made if it is not there */

static ngx_int_t
ngx_mcds_tags_check(ngx_str_t *list)
{
    size_t       len;
    ngx_str_t    rest, name;
    ngx_uint_t   n;

    rest = *list;

    for (n = 0; ngx_mcds_tags_next(&rest, &name) == NGX_OK; n++) {

        if (n == NGX_MCDS_TAGS_MAX) {
            return NGX_ERROR;
        }

        if (name.len == 3 && ngx_strncmp(name.data, "all", 3) == 0) {
            continue;
        }

        len = (name.len > 4 && ngx_strncmp(name.data, "tag:", 4) == 0) ? 4
              : (name.len > 5 && ngx_strncmp(name.data, "host:", 5) == 0) ? 5
              : 0;

        name.data += len;
        name.len -= len;

        if (len == 0 || ngx_mcds_tag_check(&name) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


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
    tags->waiting++;

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

    return tags->waiting ? NGX_OK : NGX_DONE;
}


void
ngx_mcds_tags_hurry(ngx_mcds_tags_t *tags)
{
    if (tags == NULL || tags->waiting == 0 || tags->told) {
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
    tags->waiting++;

    return NGX_OK;
}


static void
ngx_mcds_tags_counted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tags_take_counter(data, result);
    ngx_mcds_tags_done(data);
}


/* it was freed, but the pool's number is one that this worker may need */

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
    if (--tags->waiting) {
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


/* records that are not there; nobody waits for that */

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

    /* nothing at all was purged since */

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
