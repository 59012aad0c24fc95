
/*
 * Copyright (C) mcds authors
 *
 * The most frequent keys among more keys than fit into memory, by the
 * space-saving algorithm (Metwally, Agrawal, El Abbadi 2005).  A summary
 * watches a fixed number of keys.  A new key takes the place of the key with
 * the least count, and continues from that count.  So a count is never too
 * small, and too large by at most total / max: the sum of all counts divided by
 * the number of watched keys.  Each key that came more than total / max times
 * is among the watched ones.
 *
 * Merging two summaries keeps these bounds (Cafaro, Pulimeno, Tempesta 2016),
 * so that workers and hosts can count on their own.
 *
 * Pure functions, no I/O, no clock.
 */


#ifndef _NGX_MCDS_TOPK_H_INCLUDED_
#define _NGX_MCDS_TOPK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * the maximum number of keys in a summary of the most frequent keys; so many
 * fit into an item of 1 MB
 */
#define NGX_MCDS_TOPK_MAX         3000

/* the longest key in a summary of the most frequent keys, in bytes */
#define NGX_MCDS_TOPK_KEY         255


/*
 * The stored format of a summary of the most frequent keys.  All numbers are
 * little-endian and unsigned.
 *
 *   at  size
 *    0     4  magic, "MCDT"
 *    4     1  format, 1
 *    5     3  reserved, 0
 *    8     4  CRC32 (as in zlib) of all bytes from 12 on
 *   12     4  number of keys
 *   16     8  total: the sum of all counts
 *   24     8  floor: a key that is not listed has at most this count
 *   32        the keys, the highest count first:
 *          8    count
 *          8    error: how much too large the count may be
 *          1    length of the key, 1 to 255
 *               the key
 */

#define NGX_MCDS_TOPK_HEADER      32

/* the maximum size of a key in a stored summary of the most frequent keys */
#define NGX_MCDS_TOPK_RANKED      (8 + 8 + 1 + NGX_MCDS_TOPK_KEY)


typedef struct {
    uint64_t               count;
    uint64_t               error;
    uint64_t               value;    /* the last known value of the key, such
                                        as that of a counter; not the count */
    uint64_t               noted;    /* time when ngx_mcds_topk_note() last set
                                        the key's "value", ms; 0: never */
    uint32_t               hash;
    uint32_t               next;     /* number of the next key in the same
                                        bucket of the hash table, counted from
                                        1; 0: none */
    uint32_t               place;    /* position of the key in the heap, by
                                        count */
    uint32_t               len;
    u_char                 data[NGX_MCDS_TOPK_KEY + 1];
} ngx_mcds_ranked_t;


typedef struct {
    uint64_t               total;
    uint64_t               floor;
    ngx_uint_t             n;
    ngx_uint_t             max;
    ngx_uint_t             mask;
    ngx_mcds_ranked_t     *ranked;   /* the n keys whose requests are counted,
                                        in no order */
    uint32_t              *heap;     /* a heap of the keys by their indexes in
                                        "ranked", the least count first */
    uint32_t              *buckets;
} ngx_mcds_topk_t;


/*
 * Creates an empty summary of the most frequent keys, of at most max keys, to
 * be freed with ngx_free().  Returns NULL if out of memory.
 */

ngx_mcds_topk_t *ngx_mcds_topk_create(ngx_uint_t max, ngx_log_t *log);


/* Removes all keys and counts from a summary of the most frequent keys. */

void ngx_mcds_topk_reset(ngx_mcds_topk_t *topk);


/*
 * Adds count to the count of the key in a summary of the most frequent keys.
 * The key, of 1 to NGX_MCDS_TOPK_KEY bytes, is copied.
 */

void ngx_mcds_topk_add(ngx_mcds_topk_t *topk, ngx_str_t *key,
    uint64_t count);


/*
 * Notes a value, such as that of a counter, beside its key, if the key is in
 * the summary of the most frequent keys.  An older value is replaced.  Of two
 * values noted at about the same time the larger one stays, since their order
 * is unknown.  time: milliseconds, not 0.  Values stay in this summary, in
 * memory: ngx_mcds_topk_encode() and ngx_mcds_topk_merge() do not copy them.
 */

void ngx_mcds_topk_note(ngx_mcds_topk_t *topk, ngx_str_t *key,
    uint64_t value, uint64_t time);


/*
 * Adds the counts of the summary of keys "from" to those of the summary "to";
 * "from" does not change.
 */

void ngx_mcds_topk_merge(ngx_mcds_topk_t *to, ngx_mcds_topk_t *from);


/*
 * Reduces all numbers of a summary of keys (counts, errors, total and floor) by
 * 1 / 2^shift, and repeats this as often as "times" says, so that recent
 * requests for a key weigh more than old ones; the order of keys stays.  A
 * number below 2^shift does not decrease any further.
 */

void ngx_mcds_topk_decay(ngx_mcds_topk_t *topk, ngx_uint_t shift,
    ngx_uint_t times);


/*
 * Fills the array "order", which has room for topk->n keys, with the keys of a
 * summary of keys, the highest count first.  Returns the smaller of topk->n and
 * max.
 */

ngx_uint_t ngx_mcds_topk_sort(ngx_mcds_topk_t *topk,
    ngx_mcds_ranked_t **order, ngx_uint_t max);


/*
 * Encodes the most frequent keys of a summary of keys, as many as fit into size
 * bytes, as a value for memcached.  The value's buffer has room for the CRLF
 * that the client appends.  Returns NULL if out of memory.
 */

ngx_mcds_value_t *ngx_mcds_topk_encode(ngx_mcds_topk_t *topk,
    size_t size, ngx_log_t *log);


/*
 * Adds the stored summary of keys in data to the summary topk.  Returns NGX_OK;
 * NGX_DECLINED if the data is malformed, with topk unchanged; or NGX_ERROR if
 * out of memory.
 */

ngx_int_t ngx_mcds_topk_decode(ngx_mcds_topk_t *topk, u_char *data,
    size_t len, ngx_log_t *log);


#endif /* _NGX_MCDS_TOPK_H_INCLUDED_ */
