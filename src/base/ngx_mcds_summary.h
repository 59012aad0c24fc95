
/*
 * Copyright (C) mcds authors
 *
 * The keys that come most often, of more keys than can be remembered: the
 * space-saving algorithm (Metwally, Agrawal, El Abbadi 2005).  A summary
 * watches a fixed number of keys.  A key that is not watched takes the place
 * of the one that came least, and counts on from there; so its count is too
 * large by at most that, and by at most total / max.  Counts are never too
 * small, and who came more than total / max times is among the keys.
 *
 * Two summaries are merged without loss of that (Cafaro, Pulimeno, Tempesta
 * 2016), so that workers and hosts may count apart.
 *
 * Pure functions, no I/O, no clock.
 */


#ifndef _NGX_MCDS_SUMMARY_H_INCLUDED_
#define _NGX_MCDS_SUMMARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/* keys that a summary may watch; with these, one fits an item of 1 MB */
#define NGX_MCDS_SUMMARY_MAX      3000

/* a longer key is not watched; bytes */
#define NGX_MCDS_SUMMARY_KEY      255


/*
 * As it is stored.  All numbers are little-endian and unsigned.
 *
 *   at  size
 *    0    4  magic, "MCDT"
 *    4    1  format, 1
 *    5    3  reserved, 0
 *    8    4  CRC32 (that of zlib) of all bytes from 12 on
 *   12    4  number of keys
 *   16    8  total: all that was counted
 *   24    8  floor: no key that is not here came more often
 *   32       the keys, those that came most often first:
 *            8  count
 *            8  error: the count may be too large by so much
 *            1  length of the key, 1 to 255
 *               the key
 */

#define NGX_MCDS_SUMMARY_HEADER   32

/* the most that a key needs */
#define NGX_MCDS_SUMMARY_RANKED   (8 + 8 + 1 + NGX_MCDS_SUMMARY_KEY)


typedef struct {
    uint64_t               count;
    uint64_t               error;
    uint64_t               value;    /* noted with the key, and when; */
    uint64_t               noted;    /* 0: none was */
    uint32_t               hash;
    uint32_t               next;     /* in the bucket, its number + 1, or 0 */
    uint32_t               place;    /* in the heap */
    uint32_t               len;
    u_char                 data[NGX_MCDS_SUMMARY_KEY + 1];
} ngx_mcds_ranked_t;


typedef struct {
    uint64_t               total;
    uint64_t               floor;
    ngx_uint_t             n;
    ngx_uint_t             max;
    ngx_uint_t             mask;
    ngx_mcds_ranked_t     *ranked;   /* n of them, in no order */
    uint32_t              *heap;     /* the least count first */
    uint32_t              *buckets;
} ngx_mcds_summary_t;


/* an empty one, to be freed by ngx_free(); NULL when out of memory */

ngx_mcds_summary_t *ngx_mcds_summary_create(ngx_uint_t max, ngx_log_t *log);
void ngx_mcds_summary_reset(ngx_mcds_summary_t *summary);


/* key is 1 to NGX_MCDS_SUMMARY_KEY bytes long */

void ngx_mcds_summary_add(ngx_mcds_summary_t *summary, ngx_str_t *key,
    uint64_t count);


/*
 * A number that the key has, as long as it is watched.  One that was noted
 * later stays, and the larger one of two that were noted at about the same
 * time, since it is not known which one came first.  time: milliseconds, not
 * 0.  It is neither stored nor merged.
 */

void ngx_mcds_summary_note(ngx_mcds_summary_t *summary, ngx_str_t *key,
    uint64_t value, uint64_t time);


/* adds what "from" has counted to "to" */

void ngx_mcds_summary_merge(ngx_mcds_summary_t *to, ngx_mcds_summary_t *from);


/*
 * Takes a part of 2^shift away from all counts and errors, so many times, so
 * that what comes now weighs more than what came before; their order stays.
 * What is below 2^shift does not fall any more.
 */

void ngx_mcds_summary_decay(ngx_mcds_summary_t *summary, ngx_uint_t shift,
    ngx_uint_t times);


/*
 * The first max keys, those with the highest counts first; order has room
 * for summary->n of them.  Returns how many there are.
 */

ngx_uint_t ngx_mcds_summary_sort(ngx_mcds_summary_t *summary,
    ngx_mcds_ranked_t **order, ngx_uint_t max);


/*
 * encode: a value with the first keys, as many as fit size bytes, and with
 * room for two bytes more; NULL when out of memory.
 *
 * decode: adds what is stored to a summary.  NGX_OK; NGX_DECLINED when it is
 * not one, then nothing was added; NGX_ERROR when out of memory.
 */

ngx_mcds_value_t *ngx_mcds_summary_encode(ngx_mcds_summary_t *summary,
    size_t size, ngx_log_t *log);
ngx_int_t ngx_mcds_summary_decode(ngx_mcds_summary_t *summary, u_char *data,
    size_t len, ngx_log_t *log);


#endif /* _NGX_MCDS_SUMMARY_H_INCLUDED_ */
