
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter.h"
#include "ngx_mcds_visitors.h"


/* marks and shown sums that a worker remembers */
#define NGX_MCDS_MARKS            16384
#define NGX_MCDS_SUMS             1024
#define NGX_MCDS_SUM_BUCKETS      256

/*
 * For so many seconds a new slot's sum may still change: visits of the last
 * slot are on their way, and clocks of hosts differ by up to a second.
 */
#define NGX_MCDS_SETTLE           2


typedef struct {
    uint64_t              hash;
    time_t                until;
} ngx_mcds_mark_t;


typedef struct {
    ngx_mcds_visitors_t   visitors;
    time_t                now;
    uint64_t              hash;
    ngx_str_t             key;
    ngx_str_t             suffix;      /* ":v:" and the visitor */
} ngx_mcds_visit_t;


struct ngx_mcds_sum_s {
    ngx_queue_t           queue;
    ngx_mcds_sum_pt       handler;     /* NULL: canceled */
    void                 *data;
};


/* what is shown for one key */

typedef struct {
    ngx_queue_t           bucket;
    ngx_queue_t           queue;       /* the least recently used last */
    ngx_mcds_visitors_t   visitors;
    uint32_t              hash;

    uint64_t              slot;        /* of value */
    uint64_t              value;
    time_t                fetched;

    ngx_queue_t           sums;        /* ngx_mcds_sum_t, waiting */
    uint64_t              fetching;    /* slot */
    uint64_t              partial;
    ngx_uint_t            missing;     /* answers to come */
    ngx_uint_t            rc;

    unsigned              known:1;
    ngx_str_t             key;
} ngx_mcds_shown_t;


static ngx_uint_t ngx_mcds_visitors_known(uint64_t hash, time_t now);
static void ngx_mcds_visitors_remember(uint64_t hash, time_t until);
static uint64_t ngx_mcds_visitors_hash(ngx_mcds_visitors_t *visitors,
    ngx_str_t *key, ngx_str_t *visitor);
static void ngx_mcds_visitors_marked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_visitors_left(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_visitors_count(ngx_mcds_visit_t *visit);
static ngx_mcds_shown_t *ngx_mcds_visitors_shown(
    ngx_mcds_visitors_t *visitors, ngx_str_t *key);
static ngx_mcds_shown_t *ngx_mcds_visitors_shown_create(
    ngx_mcds_visitors_t *visitors, ngx_str_t *key, uint32_t hash);
static void ngx_mcds_visitors_init(void);
static void ngx_mcds_visitors_evict(void);
static ngx_int_t ngx_mcds_visitors_fetch(ngx_mcds_shown_t *shown,
    time_t now, uint64_t slot);
static void ngx_mcds_visitors_fetched(void *data, ngx_mcds_result_t *result);


static ngx_mcds_mark_t    ngx_mcds_marks[NGX_MCDS_MARKS];

static ngx_queue_t        ngx_mcds_shown_buckets[NGX_MCDS_SUM_BUCKETS];
static ngx_queue_t        ngx_mcds_shown_queue;
static ngx_uint_t         ngx_mcds_shown_count;


uint64_t
ngx_mcds_visitors_slot(ngx_mcds_visitors_t *visitors, time_t now)
{
    return now / (visitors->window / visitors->slots);
}


uint32_t
ngx_mcds_visitors_ttl(ngx_mcds_visitors_t *visitors, time_t now)
{
    uint32_t  length;

    length = visitors->window / visitors->slots;

    /* the second more is memcached's clock, which may tick at once */

    return (visitors->slots + 1) * length - now % length + 1;
}


void
ngx_mcds_visitors_visit(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    ngx_str_t *visitor, time_t now)
{
    u_char              *p, text[NGX_TIME_T_LEN];
    size_t               size;
    uint64_t             hash;
    ngx_mcds_visit_t    *visit;
    ngx_mcds_request_t   req;

    hash = ngx_mcds_visitors_hash(visitors, key, visitor);

    if (ngx_mcds_visitors_known(hash, now)) {
        return;
    }

    size = sizeof(ngx_mcds_visit_t) + key->len + visitor->len + 3;

    visit = ngx_alloc(size, ngx_cycle->log);
    if (visit == NULL) {
        return;
    }

    visit->visitors = *visitors;
    visit->now = now;
    visit->hash = hash;

    p = (u_char *) visit + sizeof(ngx_mcds_visit_t);

    visit->key.data = p;
    visit->key.len = key->len;
    p = ngx_cpymem(p, key->data, key->len);

    visit->suffix.data = p;
    visit->suffix.len = visitor->len + 3;
    p = ngx_cpymem(p, ":v:", 3);
    ngx_memcpy(p, visitor->data, visitor->len);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_ADD;
    req.key = visit->key;
    req.suffix = visit->suffix;
    req.ttl = visitors->window + 1;
    req.text.data = text;
    req.text.len = ngx_sprintf(text, "%T", now) - text;

    if (ngx_mcds_submit(visitors->pool, &req, ngx_mcds_visitors_marked, visit)
        == NULL)
    {
        ngx_free(visit);
        return;
    }

    /* until the answer says otherwise */

    ngx_mcds_visitors_remember(hash, now + visitors->window);
}


static void
ngx_mcds_visitors_marked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_visit_t    *visit;
    ngx_mcds_request_t   req;

    visit = data;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_visitors_count(visit);
        ngx_free(visit);
        return;
    }

    if (result->rc == NGX_MCDS_NOT_STORED) {

        /* counted before, through another worker: until when? */

        ngx_memzero(&req, sizeof(ngx_mcds_request_t));

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_TTL;
        req.key = visit->key;
        req.suffix = visit->suffix;

        if (ngx_mcds_submit(visit->visitors.pool, &req,
                            ngx_mcds_visitors_left, visit)
            != NULL)
        {
            return;
        }
    }

    ngx_mcds_visitors_remember(visit->hash, 0);
    ngx_free(visit);
}


static void
ngx_mcds_visitors_left(void *data, ngx_mcds_result_t *result)
{
    time_t             until;
    ngx_mcds_visit_t  *visit;

    visit = data;
    until = 0;

    if (result->rc == NGX_MCDS_OK
        && (result->has & NGX_MCDS_TTL)
        && result->ttl > 0)
    {
        until = visit->now + ngx_min(result->ttl - 1,
                                     (int64_t) visit->visitors.window);
    }

    ngx_mcds_visitors_remember(visit->hash, until);
    ngx_free(visit);
}


static void
ngx_mcds_visitors_count(ngx_mcds_visit_t *visit)
{
    u_char      *p, *last;
    ngx_str_t    key;
    uint64_t     slot;

    slot = ngx_mcds_visitors_slot(&visit->visitors, visit->now);

    key.len = visit->key.len + 1 + NGX_INT64_LEN;
    key.data = ngx_alloc(key.len, ngx_cycle->log);
    if (key.data == NULL) {
        return;
    }

    p = key.data;
    last = ngx_slprintf(p, p + key.len, "%V:%uL", &visit->key, slot);
    key.len = last - p;

    (void) ngx_mcds_counter_add(visit->visitors.pool, &key, 1,
                                ngx_mcds_visitors_ttl(&visit->visitors,
                                                      visit->now),
                                NULL, NULL);
    ngx_free(key.data);
}


static ngx_uint_t
ngx_mcds_visitors_known(uint64_t hash, time_t now)
{
    ngx_mcds_mark_t  *mark;

    mark = &ngx_mcds_marks[hash % NGX_MCDS_MARKS];

    return mark->hash == hash && now < mark->until;
}


static void
ngx_mcds_visitors_remember(uint64_t hash, time_t until)
{
    ngx_mcds_mark_t  *mark;

    mark = &ngx_mcds_marks[hash % NGX_MCDS_MARKS];

    if (until == 0 && mark->hash != hash) {
        return;
    }

    mark->hash = hash;
    mark->until = until;
}


/* FNV-1a, 64 bits */

static uint64_t
ngx_mcds_visitors_hash(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    ngx_str_t *visitor)
{
    size_t    i;
    uint64_t  hash;

    hash = 0xcbf29ce484222325 ^ (uintptr_t) visitors->pool;

    for (i = 0; i < key->len; i++) {
        hash = (hash ^ key->data[i]) * 0x100000001b3;
    }

    hash = (hash ^ 0x100) * 0x100000001b3;

    for (i = 0; i < visitor->len; i++) {
        hash = (hash ^ visitor->data[i]) * 0x100000001b3;
    }

    return hash ^ (hash >> 32);
}


ngx_int_t
ngx_mcds_visitors_sum(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    time_t now, uint64_t *value, ngx_mcds_sum_pt handler, void *data,
    ngx_mcds_sum_t **sum)
{
    uint32_t           length;
    uint64_t           slot;
    ngx_mcds_sum_t    *s;
    ngx_mcds_shown_t  *shown;

    shown = ngx_mcds_visitors_shown(visitors, key);
    if (shown == NULL) {
        return NGX_ERROR;
    }

    length = visitors->window / visitors->slots;
    slot = ngx_mcds_visitors_slot(visitors, now);

    if (shown->known
        && shown->slot == slot
        && (shown->fetched == now
            || shown->fetched >= (time_t) (slot * length) + NGX_MCDS_SETTLE))
    {
        *value = shown->value;
        return NGX_OK;
    }

    s = ngx_alloc(sizeof(ngx_mcds_sum_t), ngx_cycle->log);
    if (s == NULL) {
        return NGX_ERROR;
    }

    s->handler = handler;
    s->data = data;

    ngx_queue_insert_tail(&shown->sums, &s->queue);

    if (shown->missing == 0
        && ngx_mcds_visitors_fetch(shown, now, slot) != NGX_OK)
    {
        ngx_queue_remove(&s->queue);
        ngx_free(s);
        return NGX_ERROR;
    }

    *sum = s;

    return NGX_AGAIN;
}


void
ngx_mcds_visitors_cancel(ngx_mcds_sum_t *sum)
{
    sum->handler = NULL;
}


static ngx_mcds_shown_t *
ngx_mcds_visitors_shown(ngx_mcds_visitors_t *visitors, ngx_str_t *key)
{
    uint32_t           hash;
    ngx_queue_t       *q, *bucket;
    ngx_mcds_shown_t  *shown;

    if (ngx_mcds_shown_queue.next == NULL) {
        ngx_mcds_visitors_init();
    }

    hash = ngx_crc32_long(key->data, key->len)
           ^ (visitors->window * 61 + visitors->slots);

    bucket = &ngx_mcds_shown_buckets[hash % NGX_MCDS_SUM_BUCKETS];

    for (q = ngx_queue_head(bucket);
         q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        shown = ngx_queue_data(q, ngx_mcds_shown_t, bucket);

        if (shown->hash == hash
            && shown->visitors.pool == visitors->pool
            && shown->visitors.window == visitors->window
            && shown->visitors.slots == visitors->slots
            && shown->key.len == key->len
            && ngx_memcmp(shown->key.data, key->data, key->len) == 0)
        {
            ngx_queue_remove(&shown->queue);
            ngx_queue_insert_head(&ngx_mcds_shown_queue, &shown->queue);
            return shown;
        }
    }

    return ngx_mcds_visitors_shown_create(visitors, key, hash);
}


static ngx_mcds_shown_t *
ngx_mcds_visitors_shown_create(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    uint32_t hash)
{
    ngx_mcds_shown_t  *shown;

    if (ngx_mcds_shown_count >= NGX_MCDS_SUMS) {
        ngx_mcds_visitors_evict();
    }

    shown = ngx_calloc(sizeof(ngx_mcds_shown_t) + key->len, ngx_cycle->log);
    if (shown == NULL) {
        return NULL;
    }

    shown->visitors = *visitors;
    shown->hash = hash;
    shown->key.data = (u_char *) shown + sizeof(ngx_mcds_shown_t);
    shown->key.len = key->len;
    ngx_memcpy(shown->key.data, key->data, key->len);

    ngx_queue_init(&shown->sums);

    ngx_queue_insert_tail(
                       &ngx_mcds_shown_buckets[hash % NGX_MCDS_SUM_BUCKETS],
                       &shown->bucket);
    ngx_queue_insert_head(&ngx_mcds_shown_queue, &shown->queue);
    ngx_mcds_shown_count++;

    return shown;
}


static void
ngx_mcds_visitors_init(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_SUM_BUCKETS; i++) {
        ngx_queue_init(&ngx_mcds_shown_buckets[i]);
    }

    ngx_queue_init(&ngx_mcds_shown_queue);
}


/* the oldest that waits for nothing; all may wait, then there are more */

static void
ngx_mcds_visitors_evict(void)
{
    ngx_queue_t       *q;
    ngx_mcds_shown_t  *shown;

    for (q = ngx_queue_last(&ngx_mcds_shown_queue);
         q != ngx_queue_sentinel(&ngx_mcds_shown_queue);
         q = ngx_queue_prev(q))
    {
        shown = ngx_queue_data(q, ngx_mcds_shown_t, queue);

        if (shown->missing == 0) {
            ngx_queue_remove(q);
            ngx_queue_remove(&shown->bucket);
            ngx_mcds_shown_count--;
            ngx_free(shown);
            return;
        }
    }
}


static ngx_int_t
ngx_mcds_visitors_fetch(ngx_mcds_shown_t *shown, time_t now, uint64_t slot)
{
    u_char               suffix[1 + NGX_INT64_LEN];
    uint32_t             i;
    ngx_mcds_request_t   req;

    shown->fetching = slot;
    shown->fetched = now;
    shown->partial = 0;
    shown->rc = NGX_MCDS_OK;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = shown->key;
    req.suffix.data = suffix;

    for (i = 1; i <= shown->visitors.slots; i++) {

        req.suffix.len = ngx_sprintf(suffix, ":%uL", slot - i) - suffix;

        if (ngx_mcds_submit(shown->visitors.pool, &req,
                            ngx_mcds_visitors_fetched, shown)
            == NULL)
        {
            shown->rc = NGX_MCDS_BUSY;
            break;
        }

        shown->missing++;
    }

    return shown->missing ? NGX_OK : NGX_ERROR;
}


static void
ngx_mcds_visitors_fetched(void *data, ngx_mcds_result_t *result)
{
    uint64_t           n, value;
    ngx_uint_t         rc;
    ngx_queue_t       *q, sums;
    ngx_mcds_sum_t    *sum;
    ngx_mcds_shown_t  *shown;

    shown = data;

    if (result->rc == NGX_MCDS_OK) {

        if (ngx_mcds_parse_number(result->data, result->len, &n) == NGX_OK) {
            shown->partial += n;

        } else {
            shown->rc = NGX_MCDS_NOT_NUMERIC;
        }

    } else if (result->rc != NGX_MCDS_NOT_FOUND) {
        shown->rc = result->rc;
    }

    if (--shown->missing) {
        return;
    }

    if (shown->rc == NGX_MCDS_OK) {
        shown->known = 1;
        shown->slot = shown->fetching;
        shown->value = shown->partial;

    } else {
        shown->known = 0;
    }

    /* a handler may ask for the next sum, or have this one evicted */

    rc = shown->rc;
    value = shown->partial;

    ngx_queue_init(&sums);
    ngx_queue_add(&sums, &shown->sums);
    ngx_queue_init(&shown->sums);

    while (!ngx_queue_empty(&sums)) {
        q = ngx_queue_head(&sums);
        ngx_queue_remove(q);

        sum = ngx_queue_data(q, ngx_mcds_sum_t, queue);

        if (sum->handler) {
            sum->handler(sum->data, rc, value);
        }

        ngx_free(sum);
    }
}
