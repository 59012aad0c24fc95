
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_MCDS_H_INCLUDED_
#define _NGX_MCDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_MCDS_VERSION          "0.1.0"

/* memcached's limit on a key, in bytes */
#define NGX_MCDS_MAX_KEY          250

/* a pool's prefix leaves room for a hashed key and a structure's suffix */
#define NGX_MCDS_MAX_PREFIX       128

/* memcached takes a longer relative time for an absolute one; seconds */
#define NGX_MCDS_MAX_TTL          2592000


/*
 * memcached counts whole seconds, so that an item ends up to a second earlier
 * than its time to live says.  Its timer is late by a part of a millisecond
 * each second; about every 20 minutes it has missed one, and the clock skips
 * it: that is another second.
 *
 * ttl_lasting: the time to live of an item that is promised to last so many
 * seconds; 0 is 0, and one of 30 days cannot be longer.  ttl_sure: for how long
 * an item lasts at least, by its time to live; ttl_left: the same of what
 * memcached says, with which -1 is for ever.
 */

#define NGX_MCDS_TTL_EARLY        2

#define ngx_mcds_ttl_lasting(seconds)                                         \
    ((seconds) ? ngx_min((seconds) + NGX_MCDS_TTL_EARLY, NGX_MCDS_MAX_TTL) : 0)
#define ngx_mcds_ttl_sure(ttl)                                                \
    ((ttl) > NGX_MCDS_TTL_EARLY ? (ttl) - NGX_MCDS_TTL_EARLY : 0)
#define ngx_mcds_ttl_left(ttl)    ((ttl) < 0 ? -1 : ngx_mcds_ttl_sure(ttl))


/*
 * What became of an operation.  The first group are answers of the server.
 * After DOWN, BUSY and TLS nothing was sent; after TIMEOUT, CLOSED and PROTOCOL
 * it is not known whether the server has done what it was asked.
 */

typedef enum {
    NGX_MCDS_OK = 0,              /* done, or here is the value */
    NGX_MCDS_NOT_FOUND,
    NGX_MCDS_NOT_STORED,          /* add: somebody was first */
    NGX_MCDS_EXISTS,              /* the CAS differs: somebody changed it */
    NGX_MCDS_NOT_NUMERIC,         /* increment of what is not a number */
    NGX_MCDS_TOO_LARGE,           /* larger than the server's item limit */
    NGX_MCDS_SERVER_ERROR,        /* out of memory and the like */

    NGX_MCDS_DOWN,                /* the breaker is open, or the connection
                                     was lost, before it was sent */
    NGX_MCDS_BUSY,                /* the queue is full, nothing was sent */
    NGX_MCDS_TLS,                 /* no handshake, nothing was sent */

    NGX_MCDS_TIMEOUT,             /* no answer within the deadline */
    NGX_MCDS_CLOSED,              /* connection refused or lost */
    NGX_MCDS_PROTOCOL,            /* an answer that cannot be trusted */

    NGX_MCDS_RC_LAST
} ngx_mcds_rc_e;


#define ngx_mcds_answered(rc)     ((rc) < NGX_MCDS_DOWN)
#define ngx_mcds_sent(rc)         ((rc) < NGX_MCDS_DOWN || (rc) > NGX_MCDS_TLS)


/*
 * The lower-case text of a code, for logs; a constant, never NULL, also for
 * values out of range.
 */

char *ngx_mcds_strerror(ngx_uint_t rc);


/*
 * Bytes shared between an operation, the requests that read them and the
 * store that writes them.  Lives on the heap, never in a pool.  A worker has
 * one thread, so the count is a plain number.  Contents do not change once
 * there are two references.
 */

typedef struct {
    ngx_uint_t    refs;
    size_t        size;           /* bytes allocated behind data */
    size_t        len;            /* bytes in use */
    u_char        data[1];
} ngx_mcds_value_t;


/*
 * create: a value of one reference with room for size bytes and len 0; NULL
 * when out of memory (logged).  ref returns its argument.  unref frees with
 * the last reference; NULL is allowed.
 */

ngx_mcds_value_t *ngx_mcds_value_create(size_t size, ngx_log_t *log);
ngx_mcds_value_t *ngx_mcds_value_ref(ngx_mcds_value_t *value);
void ngx_mcds_value_unref(ngx_mcds_value_t *value);


/*
 * now: milliseconds since the epoch.  epoch: such seconds, of which 32 bits
 * are enough for after 2038, too.
 *
 * clock: a time of nginx's clock, for what is remembered for long.  Where that
 * one has 32 bits it begins anew after 49 days; this one does not, and is the
 * same in all processes.  msec: milliseconds of so many seconds, as a time
 * from now: where half of the clock's range, 24 days, is less, that.
 */

uint64_t ngx_mcds_now(void);

#if (NGX_TIME_T_SIZE == 4)
#define ngx_mcds_epoch(sec)       ((uint64_t) (uint32_t) (sec))
#else
#define ngx_mcds_epoch(sec)       ((uint64_t) (sec))
#endif

#if (NGX_PTR_SIZE == 8)

#define ngx_mcds_clock(msec)      ((uint64_t) (msec))

#else

uint64_t ngx_mcds_clock(ngx_msec_t msec);

#endif

#define ngx_mcds_msec(sec)                                                    \
    ((ngx_msec_t) ngx_min((uint64_t) (sec) * 1000, NGX_MAX_INT_T_VALUE))


/*
 * Numbers of so many bytes, a constant, so that it is one instruction, the
 * lowest one first; put: returns their end.
 */

static ngx_inline u_char *
ngx_mcds_put(u_char *p, uint64_t n, ngx_uint_t bytes)
{
#if (NGX_HAVE_LITTLE_ENDIAN)

    return ngx_cpymem(p, &n, bytes);

#else

    while (bytes--) {
        *p++ = (u_char) n;
        n >>= 8;
    }

    return p;

#endif
}


static ngx_inline uint64_t
ngx_mcds_take(u_char *p, ngx_uint_t bytes)
{
    uint64_t  n;

    n = 0;

#if (NGX_HAVE_LITTLE_ENDIAN)

    ngx_memcpy(&n, p, bytes);

#else

    while (bytes--) {
        n = n << 8 | p[bytes];
    }

#endif

    return n;
}


/* 1 if both are the same text */

static ngx_inline ngx_uint_t
ngx_mcds_same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0
               || a->data == b->data
               || ngx_memcmp(a->data, b->data, a->len) == 0);
}


/* random bytes, as good as the system has them without waiting */

void ngx_mcds_random(void *bytes, size_t len);


#endif /* _NGX_MCDS_H_INCLUDED_ */
