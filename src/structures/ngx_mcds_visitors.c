
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter.h"
#include "ngx_mcds_visitors.h"
#include "ngx_mcds_index.h"


/*
 * The limits of a worker's memory.  The worker remembers counted visitors in
 * MARK_SETS hash sets of MARK_WAYS visitors each.  The number of visitors of
 * each key, once read for a request, stays in a hash table of SUM_BUCKETS
 * buckets for later requests: at most SUMS numbers, of SUMS_SIZE bytes in all,
 * besides those that requests wait for.
 */
#define NGX_MCDS_MARK_SETS        16384
#define NGX_MCDS_MARK_WAYS        4
#define NGX_MCDS_SUMS             4096
#define NGX_MCDS_SUMS_SIZE        (16 * 1024 * 1024)
#define NGX_MCDS_SUM_BUCKETS      1024

/*
 * limits, too high to be reached, of all numbers of visitors (one for each key)
 * that a worker keeps, including those that requests wait for: count and bytes
 */
#define NGX_MCDS_SUMS_MAX         262144
#define NGX_MCDS_SUMS_MAX_SIZE    (1024 * 1024 * 1024)

/*
 * The count of visitors in a slot (part of the window) may change for this many
 * seconds after the slot ends: its last visits are still being counted, and the
 * clocks of hosts differ by up to a second.
 */
#define NGX_MCDS_SETTLE           2

#define NGX_MCDS_FNV_BASIS        0xcbf29ce484222325
#define NGX_MCDS_FNV_PRIME        0x100000001b3


typedef struct {
    uint64_t              hash;
    int64_t               until;
} ngx_mcds_mark_t;


typedef struct {
    ngx_mcds_op_t         op;
    ngx_mcds_visitors_t   visitors;
    time_t                now;
    uint64_t              hash;
    ngx_str_t             key;
    ngx_str_t             suffix;      /* suffix of the key of the item that
                                          shows that the visitor was counted:
                                          ":v:" and the visitor */
} ngx_mcds_visit_t;


struct ngx_mcds_sum_s {
    ngx_queue_t           queue;
    ngx_mcds_visitors_t   visitors;
    time_t                now;
    uint64_t              value;
    ngx_mcds_sum_pt       handler;     /* handler that gets the sum of visitors;
                                          NULL: the request for it was
                                          canceled */
    void                 *data;
};


typedef struct ngx_mcds_shown_s  ngx_mcds_shown_t;


/* the count of visitors in one slot, a part of the window */

typedef struct {
    ngx_mcds_op_t         op;
    ngx_mcds_shown_t     *shown;
    uint64_t              slot;
    uint64_t              count;
    time_t                fetched;     /* when the count of visitors in this
                                          slot was read from memcached; 0: the
                                          count is not known */
} ngx_mcds_part_t;


/*
 * the number of visitors to show for one key: the sum of the counts of all
 * slots (parts of the window)
 */

struct ngx_mcds_shown_s {
    ngx_mcds_index_node_t node;        /* node in the index of shown numbers of
                                          visitors; idle, so that it may be
                                          dropped, unless a reply of memcached
                                          is missing */
    ngx_mcds_visitors_t   visitors;

    uint64_t              slot;        /* slot (part of the window) in which
                                          "value" is shown, or is being
                                          fetched */
    uint64_t              value;
    uint64_t              before;      /* the number of visitors in the previous
                                          window: it ended one slot, a part of
                                          the window, before the current one */
    time_t                fetched;

    ngx_queue_t           sums;        /* requests that wait for the number of
                                          visitors, ngx_mcds_sum_t */
    ngx_uint_t            unanswered;  /* number of slots (parts of the window)
                                          whose counts of visitors are
                                          awaited */
    ngx_uint_t            rc;

    unsigned              known:1;

    uint32_t              size;        /* number of elements of "part", a ring
                                          of the counts of visitors in slots
                                          (parts of the window) */
    ngx_mcds_part_t       part[1];
};


static ngx_uint_t ngx_mcds_visitors_known(uint64_t hash, time_t now,
    uint32_t window);
static void ngx_mcds_visitors_remember(uint64_t hash, int64_t until);
static uint64_t ngx_mcds_visitors_hash(ngx_mcds_visitors_t *visitors,
    ngx_str_t *key, ngx_str_t *visitor);
static uint64_t ngx_mcds_visitors_fnv(uint64_t hash, ngx_str_t *s);
static void ngx_mcds_visitors_marked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_visitors_left(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_visitors_count(ngx_mcds_visit_t *visit);
static ngx_mcds_shown_t *ngx_mcds_visitors_shown(
    ngx_mcds_visitors_t *visitors, ngx_str_t *key);
static ngx_mcds_shown_t *ngx_mcds_visitors_shown_create(
    ngx_mcds_visitors_t *visitors, ngx_str_t *key, uint32_t hash);
static void ngx_mcds_visitors_unused(ngx_mcds_shown_t *shown);
static void ngx_mcds_visitors_drop(ngx_mcds_index_node_t *node);
static void ngx_mcds_visitors_fetch(ngx_mcds_shown_t *shown, time_t now,
    uint64_t slot);
static ngx_uint_t ngx_mcds_visitors_final(ngx_mcds_part_t *part,
    uint32_t length);
static void ngx_mcds_visitors_fetched(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_visitors_add_up(ngx_mcds_shown_t *shown);
static uint64_t ngx_mcds_visitors_value(ngx_mcds_shown_t *shown,
    ngx_mcds_visitors_t *visitors, time_t now);


static ngx_mcds_mark_t    ngx_mcds_marks[NGX_MCDS_MARK_SETS]
                                        [NGX_MCDS_MARK_WAYS];

static ngx_mcds_index_node_t  *ngx_mcds_shown_buckets[NGX_MCDS_SUM_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_shown =
    ngx_mcds_index(ngx_mcds_shown_buckets, NGX_MCDS_SUMS_MAX,
                   NGX_MCDS_SUMS_MAX_SIZE, NGX_MCDS_SUMS, NGX_MCDS_SUMS_SIZE,
                   ngx_mcds_visitors_drop);


uint64_t
ngx_mcds_visitors_slot(ngx_mcds_visitors_t *visitors, time_t now)
{
    return now / (visitors->window / visitors->slots);
}


uint32_t
ngx_mcds_visitors_ttl(ngx_mcds_visitors_t *visitors, time_t now)
{
    uint32_t  length, ttl;

    length = visitors->window / visitors->slots;

    /*
     * the item with the count of visitors in a slot (part of the window) lives
     * one second more, as memcached's clock, of whole seconds, may tick just
     * after the item is stored
     */

    ttl = (visitors->slots + 2) * length - now % length + 1;

    return ngx_min(ttl, NGX_MCDS_MAX_TTL);
}


uint64_t
ngx_mcds_visitors_jitter(uint64_t value, uint32_t jitter, ngx_str_t *key,
    time_t now)
{
    double      noise;
    int64_t     sum;
    uint64_t    hash, n;
    ngx_uint_t  i;

    /*
     * The noise for the number of visitors is the sum of twelve uniform random
     * numbers from -1/2 to 1/2, which has almost a normal distribution, of
     * standard deviation 1.  This needs no mathematical library, whose last
     * digits may differ between hosts.
     */

    hash = ngx_mcds_visitors_fnv(NGX_MCDS_FNV_BASIS, key);
    sum = -6 * 65535;

    for (i = 0; i < 3; i++) {

        /* a step of the random number generator splitmix64 */

        n = hash + ((uint64_t) now * 3 + i + 1) * 0x9e3779b97f4a7c15;
        n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
        n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
        n = n ^ (n >> 31);

        sum += (n & 0xffff) + (n >> 16 & 0xffff) + (n >> 32 & 0xffff)
               + (n >> 48);
    }

    noise = (double) value * jitter / (100 * NGX_MCDS_JITTER_PERCENT)
            * sum / 65536;

    if (noise < 0) {
        n = -noise + 0.5;
        return value > n ? value - n : 0;
    }

    return value + (uint64_t) (noise + 0.5);
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

    if (ngx_mcds_visitors_known(hash, now, visitors->window)) {
        return;
    }

    size = sizeof(ngx_mcds_visit_t) + key->len + visitor->len + 3;

    visit = ngx_alloc(size, ngx_cycle->log);
    if (visit == NULL) {
        return;
    }

    ngx_memzero(&visit->op, sizeof(ngx_mcds_op_t));

    visit->op.handler = ngx_mcds_visitors_marked;
    visit->op.data = visit;

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

    ngx_mcds_submit(visitors->pool, &req, &visit->op);

    /*
     * assume that memcached has stored the item which shows that the visitor
     * was counted, until the reply says otherwise
     */

    ngx_mcds_visitors_remember(hash, now + visitors->window);
}


static void
ngx_mcds_visitors_marked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_visit_t    *visit;
    ngx_mcds_request_t   req;

    visit = data;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_stat_add(visit->visitors.stat, NGX_MCDS_DATA_VISITORS, 1);

        ngx_mcds_visitors_count(visit);
        ngx_free(visit);
        return;
    }

    if (result->rc == NGX_MCDS_NOT_STORED) {

        /*
         * the visitor was counted already: ask memcached for the time to live
         * of the item that shows that the visitor was counted
         */

        ngx_memzero(&req, sizeof(ngx_mcds_request_t));

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE|NGX_MCDS_TTL;
        req.key = visit->key;
        req.suffix = visit->suffix;

        visit->op.handler = ngx_mcds_visitors_left;

        ngx_mcds_submit(visit->visitors.pool, &req, &visit->op);
        return;
    }

    ngx_mcds_stat_add(visit->visitors.stat, NGX_MCDS_DATA_FAILED + result->rc,
                      1);

    ngx_mcds_visitors_remember(visit->hash, 0);
    ngx_free(visit);
}


static void
ngx_mcds_visitors_left(void *data, ngx_mcds_result_t *result)
{
    int64_t            left, until;
    uint64_t           time;
    ngx_mcds_visit_t  *visit;

    visit = data;
    left = 0;

    if (result->rc == NGX_MCDS_OK) {

        if (result->has & NGX_MCDS_TTL) {
            left = result->ttl - 1;

        } else if (ngx_mcds_parse_number(result->data, result->len, &time)
                   == NGX_OK)
        {
            /*
             * the server does not report the time to live of the item that
             * shows that the visitor was counted: it is computed from the
             * item's value, the time of the visit
             */
            left = (int64_t) time + visit->visitors.window - visit->now;
        }
    }

    until = 0;

    if (left > 0) {
        until = visit->now + ngx_min(left,
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
ngx_mcds_visitors_known(uint64_t hash, time_t now, uint32_t window)
{
    ngx_uint_t        i;
    ngx_mcds_mark_t  *mark;

    mark = ngx_mcds_marks[hash % NGX_MCDS_MARK_SETS];

    for (i = 0; i < NGX_MCDS_MARK_WAYS; i++) {
        if (mark[i].hash == hash) {

            /*
             * if the clock was set back, a visitor must not count as already
             * counted for longer than the window
             */

            return now < mark[i].until && mark[i].until <= now + window;
        }
    }

    return 0;
}


/*
 * Remembers that a visitor was counted, and until when the visitor is not
 * counted again.  Of the visitors in the same hash set, the one whose time ends
 * first is forgotten.
 */

static void
ngx_mcds_visitors_remember(uint64_t hash, int64_t until)
{
    ngx_uint_t        i;
    ngx_mcds_mark_t  *mark, *room;

    mark = ngx_mcds_marks[hash % NGX_MCDS_MARK_SETS];
    room = &mark[(hash >> 32) % NGX_MCDS_MARK_WAYS];

    for (i = 0; i < NGX_MCDS_MARK_WAYS; i++) {

        if (mark[i].hash == hash) {
            mark[i].until = until;
            return;
        }

        if (mark[i].until < room->until) {
            room = &mark[i];
        }
    }

    if (until) {
        room->hash = hash;
        room->until = until;
    }
}


static uint64_t
ngx_mcds_visitors_hash(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    ngx_str_t *visitor)
{
    uint64_t  hash;

    hash = NGX_MCDS_FNV_BASIS ^ (uintptr_t) visitors->pool;

    hash = ngx_mcds_visitors_fnv(hash, key);
    hash = (hash ^ 0x100) * NGX_MCDS_FNV_PRIME;
    hash = ngx_mcds_visitors_fnv(hash, visitor);

    return hash ^ (hash >> 32);
}


/* continues the hash FNV-1a, of 64 bits, with the bytes of a string */

static uint64_t
ngx_mcds_visitors_fnv(uint64_t hash, ngx_str_t *s)
{
    size_t  i;

    for (i = 0; i < s->len; i++) {
        hash = (hash ^ s->data[i]) * NGX_MCDS_FNV_PRIME;
    }

    return hash;
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
        *value = ngx_mcds_visitors_value(shown, visitors, now);
        ngx_mcds_visitors_unused(shown);
        return NGX_OK;
    }

    s = ngx_alloc(sizeof(ngx_mcds_sum_t), ngx_cycle->log);
    if (s == NULL) {
        ngx_mcds_visitors_unused(shown);
        return NGX_ERROR;
    }

    s->visitors = *visitors;
    s->now = now;
    s->handler = handler;
    s->data = data;

    ngx_queue_insert_tail(&shown->sums, &s->queue);

    ngx_mcds_index_busy(&ngx_mcds_shown, &shown->node);

    if (shown->unanswered == 0) {
        ngx_mcds_visitors_fetch(shown, now, slot);
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
    uint32_t                hash;
    ngx_mcds_shown_t       *shown;
    ngx_mcds_index_node_t  *node;

    hash = ngx_mcds_hash(key->data, key->len)
           ^ (visitors->window * 61 + visitors->slots * 2
              + visitors->interpolate);

    for (node = ngx_mcds_index_find(&ngx_mcds_shown, visitors->pool, key,
                                    hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        shown = ngx_mcds_index_data(node, ngx_mcds_shown_t, node);

        if (shown->visitors.window == visitors->window
            && shown->visitors.slots == visitors->slots
            && shown->visitors.interpolate == visitors->interpolate)
        {
            return shown;
        }
    }

    return ngx_mcds_visitors_shown_create(visitors, key, hash);
}


static ngx_mcds_shown_t *
ngx_mcds_visitors_shown_create(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    uint32_t hash)
{
    size_t             len;
    uint32_t           i, size;
    ngx_str_t          name;
    ngx_mcds_shown_t  *shown;

    size = visitors->slots + visitors->interpolate;

    len = offsetof(ngx_mcds_shown_t, part) + size * sizeof(ngx_mcds_part_t);

    shown = ngx_calloc(len + key->len, ngx_cycle->log);
    if (shown == NULL) {
        return NULL;
    }

    shown->visitors = *visitors;
    name.data = (u_char *) shown + len;
    name.len = key->len;
    ngx_memcpy(name.data, key->data, key->len);

    shown->size = size;

    for (i = 0; i < size; i++) {
        shown->part[i].op.handler = ngx_mcds_visitors_fetched;
        shown->part[i].op.data = &shown->part[i];
        shown->part[i].shown = shown;
    }

    ngx_queue_init(&shown->sums);

    if (ngx_mcds_index_insert(&ngx_mcds_shown, &shown->node, visitors->pool,
                              &name, hash, len + key->len)
        != NGX_OK)
    {
        ngx_free(shown);
        return NULL;
    }

    return shown;
}


/*
 * Lets the index of shown numbers of visitors drop the given number when the
 * index needs room, unless a reply of memcached for the number is missing.
 */

static void
ngx_mcds_visitors_unused(ngx_mcds_shown_t *shown)
{
    if (shown->unanswered == 0) {
        ngx_mcds_index_idle(&ngx_mcds_shown, &shown->node);
    }
}


static void
ngx_mcds_visitors_drop(ngx_mcds_index_node_t *node)
{
    ngx_free(ngx_mcds_index_data(node, ngx_mcds_shown_t, node));
}


static void
ngx_mcds_visitors_fetch(ngx_mcds_shown_t *shown, time_t now, uint64_t slot)
{
    u_char               suffix[1 + NGX_INT64_LEN];
    uint32_t             i, length;
    uint64_t             n;
    ngx_mcds_part_t     *part;
    ngx_mcds_request_t   req;

    length = shown->visitors.window / shown->visitors.slots;

    shown->slot = slot;
    shown->fetched = now;
    shown->known = 0;
    shown->rc = NGX_MCDS_OK;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.number = 1;
    req.key = shown->node.key;
    req.suffix.data = suffix;

    for (i = 1; i <= shown->size; i++) {

        n = slot - i;
        part = &shown->part[n % shown->size];

        if (i > 1 && part->slot == n && ngx_mcds_visitors_final(part, length))
        {
            continue;
        }

        part->slot = n;
        part->count = 0;
        part->fetched = 0;

        req.suffix.len = ngx_sprintf(suffix, ":%uL", n) - suffix;

        ngx_mcds_submit(shown->visitors.pool, &req, &part->op);

        shown->unanswered++;
    }
}


/*
 * Returns 1 if the count of visitors in a slot (part of the window) is final,
 * and not read again: it was read a whole slot after the end of the slot, when
 * hosts with late clocks have counted, too.
 */

static ngx_uint_t
ngx_mcds_visitors_final(ngx_mcds_part_t *part, uint32_t length)
{
    return part->fetched
           >= (time_t) ((part->slot + 1) * length
                        + ngx_max(length, NGX_MCDS_SETTLE));
}


static void
ngx_mcds_visitors_fetched(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t         rc;
    ngx_queue_t       *q, sums;
    ngx_mcds_sum_t    *sum;
    ngx_mcds_part_t   *part;
    ngx_mcds_shown_t  *shown;

    part = data;
    shown = part->shown;

    rc = result->rc;

    if (rc == NGX_MCDS_OK
        && ngx_mcds_parse_number(result->data, result->len, &part->count)
           != NGX_OK)
    {
        rc = NGX_MCDS_NOT_NUMERIC;
    }

    if (rc == NGX_MCDS_OK || rc == NGX_MCDS_NOT_FOUND) {
        part->fetched = shown->fetched;

    } else {
        shown->rc = rc;
    }

    if (--shown->unanswered) {
        return;
    }

    if (shown->rc == NGX_MCDS_OK) {
        ngx_mcds_visitors_add_up(shown);
    }

    ngx_queue_init(&sums);
    ngx_queue_add(&sums, &shown->sums);
    ngx_queue_init(&shown->sums);

    for (q = ngx_queue_head(&sums);
         q != ngx_queue_sentinel(&sums);
         q = ngx_queue_next(q))
    {
        sum = ngx_queue_data(q, ngx_mcds_sum_t, queue);
        sum->value = ngx_mcds_visitors_value(shown, &sum->visitors, sum->now);
    }

    /*
     * the handler of a waiting request may ask for the next number of visitors,
     * or cause "shown" to be dropped
     */

    rc = shown->rc;

    ngx_mcds_visitors_unused(shown);

    while (!ngx_queue_empty(&sums)) {
        q = ngx_queue_head(&sums);
        ngx_queue_remove(q);

        sum = ngx_queue_data(q, ngx_mcds_sum_t, queue);

        if (sum->handler) {
            sum->handler(sum->data, rc, sum->value);
        }

        ngx_free(sum);
    }
}


static void
ngx_mcds_visitors_add_up(ngx_mcds_shown_t *shown)
{
    uint32_t  i;
    uint64_t  n, count;

    shown->known = 1;
    shown->value = 0;
    shown->before = 0;

    for (i = 1; i <= shown->size; i++) {

        n = shown->slot - i;
        count = shown->part[n % shown->size].count;

        if (i <= shown->visitors.slots) {
            shown->value += count;
        }

        if (i > 1) {
            shown->before += count;
        }
    }
}


static uint64_t
ngx_mcds_visitors_value(ngx_mcds_shown_t *shown,
    ngx_mcds_visitors_t *visitors, time_t now)
{
    int64_t   second, length;
    uint64_t  value;

    value = shown->value;

    if (visitors->interpolate) {

        /*
         * the second within the slot (part of the window), from 1 to its
         * length; after a wait for memcached the slot may be over
         */

        length = visitors->window / visitors->slots;
        second = now - (time_t) shown->slot * length + 1;
        second = ngx_max(ngx_min(second, length), 1);

        value = (shown->before * (length - second) + value * second
                 + length / 2)
                / length;
    }

    if (visitors->jitter) {
        value = ngx_mcds_visitors_jitter(value, visitors->jitter,
                                         &shown->node.key, now);
    }

    return value;
}
