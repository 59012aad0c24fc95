
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_MCDS_H_INCLUDED_
#define _NGX_MCDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_MCDS_VERSION          "0.1.0"

/* the longest key that memcached accepts, in bytes */
#define NGX_MCDS_MAX_KEY          250

/*
 * The longest prefix of the keys of a pool, in bytes.  It leaves room for a
 * hashed key and for the suffix of a structure, such as a counter or a lock.
 */
#define NGX_MCDS_MAX_PREFIX       128

/*
 * The longest relative time to live of an item, in seconds: memcached takes a
 * larger number for an absolute time.
 */
#define NGX_MCDS_MAX_TTL          2592000


/*
 * The number of seconds that an item may end too early.  memcached counts whole
 * seconds, so that an item ends up to one second before its time to live is
 * over.  memcached's timer also falls behind by a fraction of a millisecond
 * each second; about every 20 minutes memcached's clock skips a second to catch
 * up, and items may end yet another second early.
 */

#define NGX_MCDS_TTL_EARLY        2

/*
 * the time to live to send to memcached, in seconds, for an item that must last
 * at least the given number of seconds; 0, no expiry, stays 0, and 30 days is
 * the maximum
 */
#define ngx_mcds_ttl_lasting(seconds)                                         \
    ((seconds) ? ngx_min((seconds) + NGX_MCDS_TTL_EARLY, NGX_MCDS_MAX_TTL) : 0)

/*
 * the number of seconds that an item stored with the time to live "ttl" is
 * guaranteed to last
 */
#define ngx_mcds_ttl_sure(ttl)                                                \
    ((ttl) > NGX_MCDS_TTL_EARLY ? (ttl) - NGX_MCDS_TTL_EARLY : 0)

/*
 * the number of seconds that an item is guaranteed to last, given the remaining
 * time to live that memcached reports; -1: the item does not expire
 */
#define ngx_mcds_ttl_left(ttl)    ((ttl) < 0 ? -1 : ngx_mcds_ttl_sure(ttl))


/*
 * 1 in a worker, or in the only process of an nginx without a master; 0 in the
 * cache manager and the cache loader, where nginx calls init_process, too
 */
#define ngx_mcds_is_worker()                                                  \
    (ngx_process == NGX_PROCESS_WORKER || ngx_process == NGX_PROCESS_SINGLE)


/*
 * The results of operations in memcached: answers, and failures.  Each result
 * has a text for logs and a word for statistics.  The results before DOWN are
 * replies of the server.  With DOWN, BUSY and TLS the request was not sent, or
 * was a get for whose value there was no memory; with TIMEOUT, CLOSED and
 * PROTOCOL it is unknown whether the server executed the request.
 */

#define NGX_MCDS_ANSWER_LIST(X)                                               \
    /* the command succeeded; the reply to a get has a value */               \
    X(OK, "ok", "ok")                                                         \
    X(NOT_FOUND, "not found", "not_found")                                    \
    /* nothing was stored: the key of an add exists, or that of an append     \
       does not */                                                            \
    X(NOT_STORED, "not stored", "not_stored")                                 \
    /* the item was not changed, since its CAS value is not the expected      \
       one */                                                                 \
    X(EXISTS, "exists", "exists")

#define NGX_MCDS_FAILURE_LIST(X)                                              \
    /* the value to be incremented or decremented is not a number */          \
    X(NOT_NUMERIC, "not a number", "not_numeric")                             \
    /* the value is larger than the server's item limit */                    \
    X(TOO_LARGE, "too large", "too_large")                                    \
    /* the server reported an error, such as out of memory */                 \
    X(SERVER_ERROR, "server error", "server_error")                           \
    /* the command was not sent: the breaker of the server is open, or the    \
       connection was lost before the command could be sent */                \
    X(DOWN, "server is down", "down")                                         \
    /* the command was not sent: the queue of the connection is full; or it   \
       was a get, and the worker has no memory for the value */               \
    X(BUSY, "queue is full", "busy")                                          \
    /* the command was not sent: the TLS handshake with the server failed */  \
    X(TLS, "TLS handshake failed", "tls")                                     \
    /* the server did not reply within the deadline */                        \
    X(TIMEOUT, "timed out", "timeout")                                        \
    /* the connection to the server was refused or lost */                    \
    X(CLOSED, "connection closed", "closed")                                  \
    /* the server sent a malformed or unexpected reply */                     \
    X(PROTOCOL, "protocol error", "protocol")


#define ngx_mcds_rc(name, text, word)  NGX_MCDS_##name,

typedef enum {
    NGX_MCDS_ANSWER_LIST(ngx_mcds_rc)
    NGX_MCDS_FAILURE_LIST(ngx_mcds_rc)
    NGX_MCDS_RC_LAST
} ngx_mcds_rc_e;


/* 1 if the result of an operation is a reply of the server */
#define ngx_mcds_answered(rc)     ((rc) < NGX_MCDS_DOWN)

/* 0 if an operation with this result surely changed nothing on the server */
#define ngx_mcds_sent(rc)         ((rc) < NGX_MCDS_DOWN || (rc) > NGX_MCDS_TLS)


/*
 * Returns the lower-case text of a result of an operation, for logs: a constant
 * string, never NULL, also for a number out of range.
 */

char *ngx_mcds_strerror(ngx_uint_t rc);


/*
 * A value of memcached: bytes that memcached operations and HTTP requests share
 * by reference, without a copy.  A value lives on the heap, never in a pool of
 * nginx.  The reference count needs no atomic operation, since a worker has one
 * thread.  The bytes must not change while the value has more than one
 * reference.
 */

typedef struct {
    uint32_t      refs;
    ngx_fd_t      fd;             /* the file that holds the value, see
                                     ngx_mcds_memfile.h, or
                                     NGX_INVALID_FILE */
    size_t        size;           /* bytes allocated for the value's data */
    size_t        len;            /* bytes of the value's data in use */
    u_char        data[1];
} ngx_mcds_value_t;


/* the number of bytes to allocate for a value and its data */

#define ngx_mcds_value_room(size)  (offsetof(ngx_mcds_value_t, data) + (size))


/*
 * the number of bytes that a value to be sent to memcached must have room for
 * after its data: the memcached client appends a CRLF, see ngx_mcds_request_t
 */
#define NGX_MCDS_VALUE_SPARE  2


/*
 * Creates a value with one reference, room for size bytes and len 0.  Returns
 * NULL, and logs an error, if out of memory.
 */

ngx_mcds_value_t *ngx_mcds_value_create(size_t size, ngx_log_t *log);


/* Adds a reference to the value, and returns the value. */

ngx_mcds_value_t *ngx_mcds_value_ref(ngx_mcds_value_t *value);


/* Drops a reference to the value, which may be NULL; the last one frees it. */

void ngx_mcds_value_unref(ngx_mcds_value_t *value);


/*
 * Returns the current time of nginx's clock, in milliseconds since the epoch.
 */

uint64_t ngx_mcds_now(void);

/*
 * Converts a time_t to seconds since the epoch.  A time_t of 32 bits is taken
 * as unsigned, which is enough until 2106.
 */
#if (NGX_TIME_T_SIZE == 4)
#define ngx_mcds_epoch(sec)       ((uint64_t) (uint32_t) (sec))
#else
#define ngx_mcds_epoch(sec)       ((uint64_t) (sec))
#endif

/*
 * Converts a time of nginx's monotonic clock, in milliseconds, to 64 bits.  On
 * a 32-bit system ngx_msec_t wraps around after 49 days; the result of
 * ngx_mcds_clock() does not, and all processes of a host agree on it.
 */
#if (NGX_PTR_SIZE == 8)

#define ngx_mcds_clock(msec)      ((uint64_t) (msec))

#else

uint64_t ngx_mcds_clock(ngx_msec_t msec);

#endif

/*
 * Converts seconds to milliseconds, for a timer.  The result is limited to half
 * of the range of ngx_msec_t, 24 days on a 32-bit system.
 */
#define ngx_mcds_msec(sec)                                                    \
    ((ngx_msec_t) ngx_min((uint64_t) (sec) * 1000, NGX_MAX_INT_T_VALUE))


/*
 * Writes the number n in the given number of bytes, the least significant byte
 * first, and returns the end of the bytes.  If the number of bytes is a
 * constant, this compiles to one store.
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


/*
 * Reads a number from the given number of bytes, the least significant byte
 * first.
 */

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


/* Returns 1 if both strings are equal. */

static ngx_inline ngx_uint_t
ngx_mcds_same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0
               || a->data == b->data
               || ngx_memcmp(a->data, b->data, a->len) == 0);
}


/*
 * Takes the next word from a list of words that are separated by commas, spaces
 * or tabs, and advances "list".  Returns NGX_DECLINED if no word is left.
 */

ngx_int_t ngx_mcds_word_next(ngx_str_t *list, ngx_str_t *word);


/*
 * Writes the number n in decimal, 20 digits at most, and returns the end of the
 * digits.
 */

u_char *ngx_mcds_decimal(u_char *p, uint64_t n);


/*
 * Returns 1 if a text equals a name of the same length, such as that of a
 * header, without regard to case.  Of the bytes of a name (letters, digits,
 * hyphens and slashes) only letters have bit 0x40, and the two cases of a
 * letter differ in bit 0x20.
 */

static ngx_inline ngx_uint_t
ngx_mcds_is_name(u_char *text, u_char *name, size_t len)
{
    uint64_t  t, n;

    for ( /* void */ ; len >= 8; text += 8, name += 8, len -= 8) {
        ngx_memcpy(&t, text, 8);
        ngx_memcpy(&n, name, 8);

        if ((t ^ n) & ~(n >> 1 & 0x2020202020202020ULL)) {
            return 0;
        }
    }

    for ( /* void */ ; len; text++, name++, len--) {
        if ((*text ^ *name) & ~(*name >> 1 & 0x20)) {
            return 0;
        }
    }

    return 1;
}


/*
 * Fills the buffer with random bytes: from getrandom(), or from ngx_random() if
 * the kernel's generator would block.
 */

void ngx_mcds_random(void *bytes, size_t len);


#endif /* _NGX_MCDS_H_INCLUDED_ */
