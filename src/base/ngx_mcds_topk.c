
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_topk.h"


#define NGX_MCDS_TOPK_FORMAT      1

/*
 * The largest number in a stored summary of top keys, so that sums cannot
 * overflow 64 bits.  Larger numbers are stored as this one.
 */
#define NGX_MCDS_TOPK_LIMIT       ((uint64_t) 1 << 56)

#define ngx_mcds_topk_bounded(n)  ngx_min(n, NGX_MCDS_TOPK_LIMIT)

/*
 * the milliseconds by which the times that nginx caches in two workers may
 * differ: one turn of the event loop
 */
#define NGX_MCDS_TOPK_MOMENT      100


static ngx_mcds_ranked_t *ngx_mcds_topk_find(ngx_mcds_topk_t *topk,
    uint32_t hash, u_char *data, size_t len);
static void ngx_mcds_topk_insert(ngx_mcds_topk_t *topk,
    uint32_t hash, u_char *data, size_t len, uint64_t count, uint64_t error);
static void ngx_mcds_topk_unlink(ngx_mcds_topk_t *topk, uint32_t i);
static void ngx_mcds_topk_up(ngx_mcds_topk_t *topk, ngx_uint_t place);
static void ngx_mcds_topk_down(ngx_mcds_topk_t *topk,
    ngx_uint_t place);
static void ngx_mcds_topk_swap(ngx_mcds_topk_t *topk, ngx_uint_t a,
    ngx_uint_t b);
static int ngx_libc_cdecl ngx_mcds_topk_cmp(const void *one,
    const void *two);
static ngx_int_t ngx_mcds_topk_read(ngx_mcds_topk_t *topk,
    ngx_uint_t n, u_char *p, u_char *end);
static ngx_uint_t ngx_mcds_topk_well_formed(u_char *data, size_t len);


#define ngx_mcds_topk_hash(data, len)  ngx_murmur_hash2(data, len)
#define ngx_mcds_topk_least(topk)                                             \
    (&(topk)->ranked[(topk)->heap[0]])


ngx_mcds_topk_t *
ngx_mcds_topk_create(ngx_uint_t max, ngx_log_t *log)
{
    u_char           *p;
    size_t            size;
    ngx_uint_t        buckets;
    ngx_mcds_topk_t  *topk;

    for (buckets = 16; buckets < max; buckets *= 2) { /* void */ }

    size = sizeof(ngx_mcds_topk_t)
           + max * (sizeof(ngx_mcds_ranked_t) + sizeof(uint32_t))
           + buckets * sizeof(uint32_t);

    topk = ngx_alloc(size, log);
    if (topk == NULL) {
        return NULL;
    }

    p = (u_char *) topk + sizeof(ngx_mcds_topk_t);

    topk->ranked = (ngx_mcds_ranked_t *) p;
    p += max * sizeof(ngx_mcds_ranked_t);

    topk->heap = (uint32_t *) p;
    p += max * sizeof(uint32_t);

    topk->buckets = (uint32_t *) p;

    topk->max = max;
    topk->mask = buckets - 1;

    ngx_mcds_topk_reset(topk);

    return topk;
}


void
ngx_mcds_topk_reset(ngx_mcds_topk_t *topk)
{
    topk->total = 0;
    topk->floor = 0;
    topk->n = 0;

    ngx_memzero(topk->buckets, (topk->mask + 1) * sizeof(uint32_t));
}


void
ngx_mcds_topk_add(ngx_mcds_topk_t *topk, ngx_str_t *key,
    uint64_t count)
{
    uint32_t            hash;
    ngx_mcds_ranked_t  *ranked;

    count = ngx_min(count,
                    NGX_MCDS_TOPK_LIMIT - ngx_mcds_topk_bounded(topk->total));

    topk->total += count;

    hash = ngx_mcds_topk_hash(key->data, key->len);
    ranked = ngx_mcds_topk_find(topk, hash, key->data, key->len);

    if (ranked) {
        ranked->count += count;
        ngx_mcds_topk_down(topk, ranked->place);
        return;
    }

    /*
     * a full summary of the most frequent keys evicts the key with the least
     * count; the floor, the count that a new key starts from, rises to the
     * count of the evicted key
     */

    if (topk->n == topk->max) {
        topk->floor = ngx_max(topk->floor,
                              ngx_mcds_topk_least(topk)->count);
    }

    ngx_mcds_topk_insert(topk, hash, key->data, key->len,
                         topk->floor + count, topk->floor);
}


void
ngx_mcds_topk_note(ngx_mcds_topk_t *topk, ngx_str_t *key,
    uint64_t value, uint64_t time)
{
    uint32_t            hash;
    ngx_mcds_ranked_t  *ranked;

    hash = ngx_mcds_topk_hash(key->data, key->len);
    ranked = ngx_mcds_topk_find(topk, hash, key->data, key->len);

    if (ranked == NULL || time + NGX_MCDS_TOPK_MOMENT < ranked->noted) {
        return;
    }

    if (time > ranked->noted + NGX_MCDS_TOPK_MOMENT
        || value >= ranked->value)
    {
        ranked->value = value;
        ranked->noted = ngx_max(ranked->noted, time);
    }
}


void
ngx_mcds_topk_merge(ngx_mcds_topk_t *to, ngx_mcds_topk_t *from)
{
    uint64_t            floor;
    ngx_uint_t          i;
    ngx_mcds_ranked_t  *ranked, *other;

    floor = to->floor;

    to->total += from->total;
    to->floor += from->floor;

    for (i = 0; i < to->n; i++) {
        ranked = &to->ranked[i];
        other = ngx_mcds_topk_find(from, ranked->hash, ranked->data,
                                   ranked->len);

        /*
         * a key that the summary "from" does not list has a count of at most
         * from->floor
         */

        ranked->count += other ? other->count : from->floor;
        ranked->error += other ? other->error : from->floor;
    }

    for (i = to->n / 2; i > 0; i--) {
        ngx_mcds_topk_down(to, i - 1);
    }

    for (i = 0; i < from->n; i++) {
        other = &from->ranked[i];

        if (ngx_mcds_topk_find(to, other->hash, other->data, other->len)) {
            continue;
        }

        /*
         * The summary "to" does not list this key of "from".  If "to" did not
         * list the key before the merge either, "to" has counted the key at
         * most "floor" times: the merged count is at most other->count + floor.
         * If this loop has evicted the key from "to", the evicted count was at
         * least as large.  The counts of the keys left in "to" are not smaller
         * than the evicted one, so the key is not inserted again.
         */

        if (to->n == to->max) {
            ranked = ngx_mcds_topk_least(to);

            if (ranked->count >= other->count + floor) {
                to->floor = ngx_max(to->floor, other->count + floor);
                continue;
            }

            to->floor = ngx_max(to->floor, ranked->count);
        }

        ngx_mcds_topk_insert(to, other->hash, other->data, other->len,
                             other->count + floor, other->error + floor);
    }
}


static ngx_mcds_ranked_t *
ngx_mcds_topk_find(ngx_mcds_topk_t *topk, uint32_t hash,
    u_char *data, size_t len)
{
    uint32_t            i;
    ngx_mcds_ranked_t  *ranked;

    for (i = topk->buckets[hash & topk->mask]; i; i = ranked->next) {
        ranked = &topk->ranked[i - 1];

        if (ranked->hash == hash
            && ranked->len == len
            && ngx_memcmp(ranked->data, data, len) == 0)
        {
            return ranked;
        }
    }

    return NULL;
}


/*
 * inserts a new key into a summary of the most frequent keys; if the summary is
 * full, in the place of the key with the least count
 */

static void
ngx_mcds_topk_insert(ngx_mcds_topk_t *topk, uint32_t hash,
    u_char *data, size_t len, uint64_t count, uint64_t error)
{
    uint32_t            i, *bucket;
    ngx_mcds_ranked_t  *ranked;

    if (topk->n < topk->max) {
        i = topk->n++;
        topk->heap[i] = i;
        topk->ranked[i].place = i;

    } else {
        i = topk->heap[0];
        ngx_mcds_topk_unlink(topk, i);
    }

    ranked = &topk->ranked[i];
    bucket = &topk->buckets[hash & topk->mask];

    ranked->count = count;
    ranked->error = error;
    ranked->value = 0;
    ranked->noted = 0;
    ranked->hash = hash;
    ranked->len = len;
    ngx_memcpy(ranked->data, data, len);

    ranked->next = *bucket;
    *bucket = i + 1;

    ngx_mcds_topk_up(topk, ranked->place);
    ngx_mcds_topk_down(topk, ranked->place);
}


static void
ngx_mcds_topk_unlink(ngx_mcds_topk_t *topk, uint32_t i)
{
    uint32_t  *p;

    p = &topk->buckets[topk->ranked[i].hash & topk->mask];

    while (*p != i + 1) {
        p = &topk->ranked[*p - 1].next;
    }

    *p = topk->ranked[i].next;
}


static void
ngx_mcds_topk_up(ngx_mcds_topk_t *topk, ngx_uint_t place)
{
    ngx_uint_t  parent;

    while (place) {
        parent = (place - 1) / 2;

        if (topk->ranked[topk->heap[parent]].count
            <= topk->ranked[topk->heap[place]].count)
        {
            return;
        }

        ngx_mcds_topk_swap(topk, place, parent);
        place = parent;
    }
}


static void
ngx_mcds_topk_down(ngx_mcds_topk_t *topk, ngx_uint_t place)
{
    ngx_uint_t  child;

    for ( ;; ) {
        child = 2 * place + 1;

        if (child >= topk->n) {
            return;
        }

        if (child + 1 < topk->n
            && topk->ranked[topk->heap[child + 1]].count
               < topk->ranked[topk->heap[child]].count)
        {
            child++;
        }

        if (topk->ranked[topk->heap[place]].count
            <= topk->ranked[topk->heap[child]].count)
        {
            return;
        }

        ngx_mcds_topk_swap(topk, place, child);
        place = child;
    }
}


static void
ngx_mcds_topk_swap(ngx_mcds_topk_t *topk, ngx_uint_t a, ngx_uint_t b)
{
    uint32_t  i;

    i = topk->heap[a];
    topk->heap[a] = topk->heap[b];
    topk->heap[b] = i;

    topk->ranked[topk->heap[a]].place = a;
    topk->ranked[topk->heap[b]].place = b;
}


void
ngx_mcds_topk_decay(ngx_mcds_topk_t *topk, ngx_uint_t shift,
    ngx_uint_t times)
{
    ngx_uint_t          i;
    ngx_mcds_ranked_t  *ranked;

    while (times--) {
        topk->total -= topk->total >> shift;
        topk->floor -= topk->floor >> shift;

        /*
         * the decay keeps the order of the keys' counts, so the heap of keys
         * by count stays valid
         */

        for (i = 0; i < topk->n; i++) {
            ranked = &topk->ranked[i];

            ranked->count -= ranked->count >> shift;
            ranked->error -= ranked->error >> shift;
        }
    }
}


ngx_uint_t
ngx_mcds_topk_sort(ngx_mcds_topk_t *topk, ngx_mcds_ranked_t **order,
    ngx_uint_t max)
{
    ngx_uint_t  i;

    for (i = 0; i < topk->n; i++) {
        order[i] = &topk->ranked[i];
    }

    ngx_qsort(order, topk->n, sizeof(ngx_mcds_ranked_t *),
              ngx_mcds_topk_cmp);

    return ngx_min(topk->n, max);
}


/*
 * compares the counts of two keys; keys with equal counts are in the order of
 * their texts, so that all hosts agree
 */

static int ngx_libc_cdecl
ngx_mcds_topk_cmp(const void *one, const void *two)
{
    ngx_mcds_ranked_t  *first, *second;

    first = *(ngx_mcds_ranked_t **) one;
    second = *(ngx_mcds_ranked_t **) two;

    if (first->count != second->count) {
        return first->count > second->count ? -1 : 1;
    }

    return ngx_memn2cmp(first->data, second->data, first->len, second->len);
}


ngx_mcds_value_t *
ngx_mcds_topk_encode(ngx_mcds_topk_t *topk, size_t size,
    ngx_log_t *log)
{
    u_char              *p;
    size_t               len, more;
    uint64_t             floor;
    ngx_uint_t           i, n;
    ngx_mcds_value_t    *value;
    ngx_mcds_ranked_t  **order;

    order = ngx_alloc(topk->max * sizeof(ngx_mcds_ranked_t *), log);
    if (order == NULL) {
        return NULL;
    }

    (void) ngx_mcds_topk_sort(topk, order, topk->n);

    len = NGX_MCDS_TOPK_HEADER;

    for (n = 0; n < topk->n; n++) {
        more = 8 + 8 + 1 + order[n]->len;

        if (len + more > size) {
            break;
        }

        len += more;
    }

    floor = topk->floor;

    if (n < topk->n) {
        floor = ngx_max(floor, order[n]->count);
    }

    value = ngx_mcds_value_create(len + NGX_MCDS_VALUE_SPARE, log);

    if (value == NULL) {
        ngx_free(order);
        return NULL;
    }

    p = value->data + 12;

    p = ngx_mcds_put(p, n, 4);
    p = ngx_mcds_put(p, ngx_mcds_topk_bounded(topk->total), 8);
    p = ngx_mcds_put(p, ngx_mcds_topk_bounded(floor), 8);

    for (i = 0; i < n; i++) {
        p = ngx_mcds_put(p, ngx_mcds_topk_bounded(order[i]->count), 8);
        p = ngx_mcds_put(p, ngx_mcds_topk_bounded(order[i]->error), 8);
        p = ngx_mcds_put(p, order[i]->len, 1);
        p = ngx_cpymem(p, order[i]->data, order[i]->len);
    }

    ngx_free(order);

    value->len = len;

    p = ngx_cpymem(value->data, "MCDT", 4);
    p = ngx_mcds_put(p, NGX_MCDS_TOPK_FORMAT, 4);
    (void) ngx_mcds_put(p, ngx_crc32_long(value->data + 12, len - 12), 4);

    return value;
}


ngx_int_t
ngx_mcds_topk_decode(ngx_mcds_topk_t *topk, u_char *data, size_t len,
    ngx_log_t *log)
{
    ngx_int_t         rc;
    ngx_uint_t        n;
    ngx_mcds_topk_t  *stored;

    if (!ngx_mcds_topk_well_formed(data, len)) {
        return NGX_DECLINED;
    }

    n = ngx_mcds_take(data + 12, 4);

    stored = ngx_mcds_topk_create(ngx_max(n, 1), log);
    if (stored == NULL) {
        return NGX_ERROR;
    }

    stored->total = ngx_mcds_take(data + 16, 8);
    stored->floor = ngx_mcds_take(data + 24, 8);

    rc = ngx_mcds_topk_read(stored, n, data + NGX_MCDS_TOPK_HEADER,
                            data + len);
    if (rc == NGX_OK) {
        ngx_mcds_topk_merge(topk, stored);
    }

    ngx_free(stored);

    return rc;
}


static ngx_int_t
ngx_mcds_topk_read(ngx_mcds_topk_t *topk, ngx_uint_t n, u_char *p,
    u_char *end)
{
    size_t      len;
    uint32_t    hash;
    uint64_t    count, error, last;
    ngx_uint_t  i;

    last = NGX_MCDS_TOPK_LIMIT;

    if (topk->total > last || topk->floor > last) {
        return NGX_DECLINED;
    }

    for (i = 0; i < n; i++) {

        if (end - p < 17) {
            return NGX_DECLINED;
        }

        count = ngx_mcds_take(p, 8);
        error = ngx_mcds_take(p + 8, 8);
        len = p[16];
        p += 17;

        if (len == 0
            || (size_t) (end - p) < len
            || count > last
            || count < topk->floor
            || error > count)
        {
            return NGX_DECLINED;
        }

        hash = ngx_mcds_topk_hash(p, len);

        if (ngx_mcds_topk_find(topk, hash, p, len)) {
            return NGX_DECLINED;
        }

        ngx_mcds_topk_insert(topk, hash, p, len, count, error);

        last = count;
        p += len;
    }

    return p == end ? NGX_OK : NGX_DECLINED;
}


static ngx_uint_t
ngx_mcds_topk_well_formed(u_char *data, size_t len)
{
    uint64_t  n;

    if (len < NGX_MCDS_TOPK_HEADER
        || ngx_memcmp(data, "MCDT", 4) != 0
        || data[4] != NGX_MCDS_TOPK_FORMAT)
    {
        return 0;
    }

    n = ngx_mcds_take(data + 12, 4);

    return n <= NGX_MCDS_TOPK_MAX
           && len >= NGX_MCDS_TOPK_HEADER + n * 18
           && ngx_mcds_take(data + 8, 4)
              == ngx_crc32_long(data + 12, len - 12);
}
