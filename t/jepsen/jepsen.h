
/*
 * Copyright (C) mcds authors
 *
 * The clock and the bodies of pages, which all programs of the long chaos run
 * share.  A body names its page, the time of the request to the origin, and its
 * user.  A hash of the whole body is at the end, so that a torn, mixed or
 * changed body is recognized.
 *
 *   jepsen path=/r/k/5 v=81723123456 n=17 user=all lang=none size=5000
 *   ... filling ...
 *   16 hexadecimal digits
 */


#ifndef _JEPSEN_H_INCLUDED_
#define _JEPSEN_H_INCLUDED_


#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


#define JEPSEN_HASH      16
#define JEPSEN_MIN_BODY  200


/*
 * The microseconds of the monotonic clock, which is the same for all programs.
 */

static inline uint64_t
jepsen_now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static inline uint64_t
jepsen_hash(const char *p, size_t len)
{
    uint64_t  h, word;

    h = 0x9e3779b97f4a7c15 ^ len;

    while (len) {
        word = 0;
        memcpy(&word, p, len < 8 ? len : 8);
        h = (h ^ word) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
        p += len < 8 ? len : 8;
        len -= len < 8 ? len : 8;
    }

    return h;
}


/* xorshift; each client and each connection has a state of its own. */

static inline uint64_t
jepsen_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;

    return *state;
}


static inline uint64_t
jepsen_below(uint64_t *state, uint64_t n)
{
    return (jepsen_random(state) >> 11) % n;
}


/*
 * Fills buf with a body of this size, which is at least JEPSEN_MIN_BODY and has
 * room for the names.  The filling looks like replies of memcached, and
 * compresses well.
 */

static inline void
jepsen_body(char *buf, size_t size, const char *path, uint64_t version,
    uint64_t n, const char *user, const char *lang)
{
    int     len, line;
    size_t  used, room;
    char    text[80], sum[JEPSEN_HASH + 1];

    room = size - JEPSEN_HASH;
    used = snprintf(buf, room, "jepsen path=%s v=%llu n=%llu user=%s lang=%s "
                    "size=%zu\n", path, (unsigned long long) version,
                    (unsigned long long) n, user, lang, size);

    for (line = 0; used < room; line++) {
        len = snprintf(text, sizeof(text), "%llu.%d\r\nVA 3 c1 O%d\r\nEND\r\n"
                       "HD\r\n", (unsigned long long) n, line, line % 97);

        if ((size_t) len > room - used) {
            len = room - used;
        }

        memcpy(buf + used, text, len);
        used += len;
    }

    snprintf(sum, sizeof(sum), "%016llx",
             (unsigned long long) jepsen_hash(buf, room));
    memcpy(buf + room, sum, JEPSEN_HASH);
}


/*
 * Returns "ok", or the name of the fault; sets version and n if the hash is
 * right.
 */

static inline const char *
jepsen_check(const char *body, size_t len, const char *path, const char *user,
    const char *lang, uint64_t *version, uint64_t *n)
{
    size_t              size;
    char                sum[JEPSEN_HASH + 1], p[256], u[64], l[64];
    unsigned long long  v, number;

    *version = 0;
    *n = 0;

    if (len < JEPSEN_MIN_BODY) {
        return "torn";
    }

    snprintf(sum, sizeof(sum), "%016llx",
             (unsigned long long) jepsen_hash(body, len - JEPSEN_HASH));

    if (memcmp(body + len - JEPSEN_HASH, sum, JEPSEN_HASH) != 0
        || sscanf(body, "jepsen path=%255s v=%llu n=%llu user=%63s lang=%63s "
                  "size=%zu", p, &v, &number, u, l, &size) != 6
        || size != len)
    {
        return "torn";
    }

    *version = v;
    *n = number;

    if (strcmp(p, path) != 0) {
        return "path";
    }

    if (strcmp(u, user) != 0) {
        return "private";
    }

    return strcmp(l, lang) ? "variant" : "ok";
}


/*
 * Copies the value of a field in a head that ends with a zero.  name is CRLF,
 * the name of the field and a colon.  Without the field the result is empty; a
 * value that is too long is truncated.
 */

static inline void
jepsen_field(const char *head, const char *name, char *to, size_t size)
{
    const char  *p;
    size_t       n;

    p = strcasestr(head, name);
    to[0] = '\0';

    if (p) {
        p += strlen(name);
        p += strspn(p, " ");
        n = strcspn(p, "\r");
        snprintf(to, size, "%.*s", (int) n, p);
    }
}


#endif /* _JEPSEN_H_INCLUDED_ */
