
/*
 * Copyright (C) mcds authors
 *
 * The space-saving summary compared with true counts: a count is never too low,
 * and too high by at most total / max (the sum of all counts divided by the
 * maximum number of keys).  A summary contains each key whose true count is
 * above total / max, however the stream was divided, merged, stored and read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_topk.c"
#include "tap.h"


#define KEYS  2000
#define ANY   (1024 * 1024)


static void test_exact(void);
static void test_replace(void);
static void test_streams(void);
static void test_merge_small(void);
static void test_merged(void);
static void test_stored(void);
static void test_stored_few(void);
static void test_refused(void);
static void test_refused_inside(void);
static void add(ngx_mcds_topk_t *topk, ngx_uint_t n, uint64_t count);
static ngx_uint_t draw(ngx_uint_t kind);
static uint32_t number(void);
static void check(ngx_mcds_topk_t *topk, ngx_uint_t max,
    const char *name);
static ngx_uint_t sound(ngx_mcds_topk_t *topk);
static uint64_t count_of(ngx_mcds_topk_t *topk, const char *key);
static ngx_str_t text(ngx_uint_t n);
static void seal(ngx_mcds_value_t *value);
static ngx_int_t decode(ngx_mcds_topk_t *to, u_char *data, size_t len);


static uint64_t    truth[KEYS];
static uint64_t    total;
static uint32_t    seed;
static ngx_log_t   test_log;
static u_char      title[64];


int
main(void)
{
    test_exact();
    test_replace();
    test_streams();
    test_merge_small();
    test_merged();
    test_stored();
    test_stored_few();
    test_refused();
    test_refused_inside();

    return done_testing();
}


static void
test_exact(void)
{
    ngx_uint_t           i, bad;
    ngx_mcds_ranked_t   *order[64];
    ngx_mcds_topk_t     *s;

    s = ngx_mcds_topk_create(64, &test_log);

    for (i = 0; i < 640; i++) {
        add(s, i % 64, i % 64 + 1);
    }

    ok(s->n == 64 && s->floor == 0, "exact: all keys are watched");
    ok(ngx_mcds_topk_sort(s, order, 5) == 5, "exact: five are shown");

    for (bad = 0, i = 0; i < 64; i++) {
        bad += (order[i]->count != 10 * (64 - i) || order[i]->error);
    }

    ok(bad == 0, "exact: in order, with no error");
    ok(sound(s), "exact: sound");

    ngx_mcds_topk_reset(s);
    ok(s->n == 0 && s->total == 0 && count_of(s, "key 1") == 0,
       "reset: empty");

    add(s, 9, 1);
    add(s, 10, 1);
    (void) ngx_mcds_topk_sort(s, order, 64);
    ok(order[0]->len == 6 && order[1]->len == 5,
       "ties are in the order of their text");

    ngx_free(s);
}


static void
test_replace(void)
{
    ngx_mcds_topk_t  *s;

    s = ngx_mcds_topk_create(2, &test_log);

    add(s, 1, 5);
    add(s, 2, 3);
    add(s, 3, 1);

    ok(count_of(s, "key 1") == 5, "replace: the larger one stays");
    ok(count_of(s, "key 2") == 0, "replace: the smaller one goes");
    ok(count_of(s, "key 3") == 4 && s->floor == 3,
       "replace: the new one counts on from it");
    ok(ngx_mcds_topk_find(s, ngx_mcds_topk_hash((u_char *) "key 3", 5),
                          (u_char *) "key 3", 5)->error == 3,
       "replace: and says by how much it may be wrong");
    ok(s->total == 9, "replace: the total is exact");

    ngx_free(s);
}


static void
test_streams(void)
{
    ngx_uint_t        kind, max, i;
    ngx_mcds_topk_t  *s;

    static ngx_uint_t  sizes[] = { 1, 2, 10, 100, 1000, 3000 };
    static char       *kinds[] = { "even", "skewed", "new ones only" };

    for (kind = 0; kind < 3; kind++) {
        for (max = 0; max < 6; max++) {
            s = ngx_mcds_topk_create(sizes[max], &test_log);

            ngx_memzero(truth, sizeof(truth));
            total = 0;
            seed = kind * 100 + max + 1;

            for (i = 0; i < 30000; i++) {
                add(s, kind == 2 ? i % KEYS : draw(kind), 1 + number() % 3);
            }

            ngx_sprintf(title, "stream, %s, %ui keys%Z", kinds[kind],
                        sizes[max]);
            check(s, sizes[max], (char *) title);

            ngx_free(s);
        }
    }
}


static void
test_merge_small(void)
{
    ngx_mcds_topk_t  *a, *b;

    a = ngx_mcds_topk_create(2, &test_log);
    b = ngx_mcds_topk_create(2, &test_log);

    add(a, 1, 10);
    add(a, 2, 4);
    add(b, 2, 8);
    add(b, 3, 1);

    ngx_mcds_topk_merge(a, b);

    ok(count_of(a, "key 2") == 12 && count_of(a, "key 1") == 10,
       "merge: what is in both is added up");
    ok(count_of(a, "key 3") == 0 && a->floor == 1,
       "merge: what has no place raises the floor");
    ok(a->total == 23 && sound(a), "merge: the total is exact");

    ngx_mcds_topk_reset(b);
    add(b, 4, 5);
    add(b, 5, 6);
    add(b, 6, 1);           /* replaces "key 4" in the summary b */

    ngx_mcds_topk_merge(a, b);

    ok(count_of(a, "key 1") == 15 && count_of(a, "key 2") == 17,
       "merge: what the other does not watch may have been dropped there");
    ok(a->floor == 7, "merge: the floor is that of both, and of what goes");

    ngx_mcds_topk_reset(a);
    ngx_mcds_topk_reset(b);
    add(a, 1, 10);
    add(a, 2, 4);
    add(b, 3, 8);

    ngx_mcds_topk_merge(a, b);

    ok(count_of(a, "key 3") == 8 && count_of(a, "key 2") == 0
       && a->floor == 4, "merge: what is replaced raises the floor");

    ngx_free(a);
    ngx_free(b);
}


/*
 * Hosts count keys in small summaries of their own, which are stored, read and
 * merged.
 */

static void
test_merged(void)
{
    ngx_uint_t         i, kind, max, pieces;
    ngx_mcds_value_t  *value, *next;
    ngx_mcds_topk_t   *piece, *all;

    for (kind = 0; kind < 2; kind++) {
        for (max = 20; max <= 500; max += 240) {

            ngx_memzero(truth, sizeof(truth));
            total = 0;
            seed = kind + max;

            piece = ngx_mcds_topk_create(max, &test_log);
            value = NULL;
            pieces = 0;

            for (i = 0; i < 40000; i++) {
                add(piece, draw(kind), 1);

                if (number() % 200 && i != 39999) {
                    continue;
                }

                all = ngx_mcds_topk_create(max, &test_log);

                if (value) {
                    (void) decode(all, value->data, value->len);
                }

                ngx_mcds_topk_merge(all, piece);
                next = ngx_mcds_topk_encode(all, ANY, &test_log);

                ngx_mcds_value_unref(value);
                value = next;

                ngx_free(all);
                ngx_mcds_topk_reset(piece);
                pieces++;
            }

            all = ngx_mcds_topk_create(max, &test_log);
            (void) decode(all, value->data, value->len);

            ngx_sprintf(title, "%ui pieces, %ui keys%Z", pieces, max);
            check(all, max, (char *) title);

            ngx_free(all);
            ngx_free(piece);
            ngx_mcds_value_unref(value);
        }
    }

    /* two full summaries of keys, merged into a smaller one */

    ngx_memzero(truth, sizeof(truth));
    total = 0;

    piece = ngx_mcds_topk_create(300, &test_log);
    all = ngx_mcds_topk_create(100, &test_log);

    for (i = 0; i < 20000; i++) {
        add(piece, draw(1), 1);
        add(all, draw(0), 1);
    }

    ngx_mcds_topk_merge(all, piece);
    check(all, 100, "different sizes");

    ngx_free(piece);
    ngx_free(all);
}


static void
test_stored(void)
{
    ngx_str_t          key;
    ngx_uint_t         i;
    ngx_mcds_value_t  *value;
    ngx_mcds_topk_t   *s, *t;
    u_char             odd[NGX_MCDS_TOPK_KEY];

    s = ngx_mcds_topk_create(50, &test_log);
    t = ngx_mcds_topk_create(50, &test_log);

    for (i = 0; i < 500; i++) {
        add(s, i % 70, i % 7 + 1);
    }

    for (i = 0; i < sizeof(odd); i++) {
        odd[i] = (u_char) i;
    }

    key.data = odd;
    key.len = sizeof(odd);
    ngx_mcds_topk_add(s, &key, (uint64_t) 1 << 40);

    value = ngx_mcds_topk_encode(s, ANY, &test_log);

    ok(value->size >= value->len + 2, "stored: has two bytes to spare");
    ok(decode(t, value->data, value->len) == NGX_OK, "stored: is read");
    ok(t->total == s->total && t->floor == s->floor && t->n == s->n,
       "stored: total, floor and number are the same");
    ok(ngx_mcds_topk_find(t, ngx_mcds_topk_hash(odd, sizeof(odd)), odd,
                          sizeof(odd))
       != NULL, "stored: any bytes are a key");
    ok(sound(t), "stored: sound");

    ngx_mcds_value_unref(value);

    ngx_mcds_topk_reset(s);
    ngx_mcds_topk_reset(t);
    value = ngx_mcds_topk_encode(s, ANY, &test_log);

    ok(value->len == NGX_MCDS_TOPK_HEADER
       && decode(t, value->data, value->len) == NGX_OK && t->n == 0,
       "stored: an empty one");

    ngx_mcds_value_unref(value);
    ngx_free(s);
    ngx_free(t);
}


static void
test_stored_few(void)
{
    ngx_uint_t         i;
    ngx_mcds_value_t  *value;
    ngx_mcds_topk_t   *s, *t;

    s = ngx_mcds_topk_create(200, &test_log);
    t = ngx_mcds_topk_create(200, &test_log);

    ngx_memzero(truth, sizeof(truth));
    total = 0;

    for (i = 0; i < 20000; i++) {
        add(s, draw(i % 2), 1);
    }

    value = ngx_mcds_topk_encode(s, 1100, &test_log);

    ok(decode(t, value->data, value->len) == NGX_OK
       && value->len <= 1100 && value->len > 1100 - 25 && t->n >= 40,
       "few: the first ones, as many as fit");
    check(t, 40, "few");

    ngx_mcds_value_unref(value);
    ngx_mcds_topk_reset(s);
    ngx_mcds_topk_reset(t);

    for (i = 1; i < 5; i++) {
        add(s, i, 2 * i);
    }

    value = ngx_mcds_topk_encode(s, 32 + 2 * 22 + 21, &test_log);
    (void) decode(t, value->data, value->len);

    ok(count_of(t, "key 4") == 8 && count_of(t, "key 2") == 0
       && t->floor == 4 && t->total == 20,
       "few: the first one that is not stored is the floor");

    ngx_mcds_value_unref(value);
    ngx_free(s);
    ngx_free(t);
}


static void
test_refused(void)
{
    size_t             n;
    ngx_uint_t         bit, bad;
    ngx_mcds_value_t  *value;
    ngx_mcds_topk_t   *s, *t;

    s = ngx_mcds_topk_create(5, &test_log);
    t = ngx_mcds_topk_create(5, &test_log);

    add(s, 1, 5);
    add(s, 2, 3);
    value = ngx_mcds_topk_encode(s, ANY, &test_log);

    for (bad = 0, n = 0; n < value->len; n++) {
        bad += (decode(t, value->data, n) != NGX_DECLINED);
    }

    ok(bad == 0, "refused: all that was cut off");

    for (bad = 0, n = 0; n < value->len; n++) {

        /* bytes 5 to 7 of a stored summary are reserved */

        for (bit = 1; bit < 256 && (n < 5 || n > 7); bit *= 2) {
            value->data[n] ^= bit;
            bad += (decode(t, value->data, value->len) != NGX_DECLINED);
            value->data[n] ^= bit;
        }
    }

    ok(bad == 0, "refused: each bit that is another one");

    value->data[value->len] = 'x';
    ok(decode(t, value->data, value->len + 1) == NGX_DECLINED,
       "refused: what is longer");
    ok(t->n == 0 && t->total == 0 && t->floor == 0,
       "refused: nothing was added");

    ngx_mcds_value_unref(value);
    ngx_free(s);
    ngx_free(t);
}


/* Stored summaries with a valid checksum, but one wrong field, are refused. */

static void
test_refused_inside(void)
{
    ngx_uint_t         i;
    ngx_mcds_value_t  *value;
    ngx_mcds_topk_t   *s, *t;

    static struct {
        char        *name;
        ngx_uint_t   at;
        u_char       byte;
    } wrong[] = {
        { "fewer keys than it says", 12, 3 },
        { "more keys than it says", 12, 1 },
        { "keys that it does not have", 13, 0x0b },
        { "too many keys", 15, 0xff },
        { "a total that is too large", 23, 2 },
        { "a floor above the counts", 24, 4 },
        { "a count that is too large", 32 + 7, 2 },
        { "an error above its count", 32 + 8, 6 },
        { "an empty key", 32 + 16, 0 },
        { "a key that is too long", 32 + 16, 200 },
        { "the same key twice", 54 + 17 + 4, '1' },
        { "a count that is not in order", 54, 6 }
    };

    s = ngx_mcds_topk_create(5, &test_log);
    t = ngx_mcds_topk_create(5, &test_log);

    add(s, 1, 5);
    add(s, 2, 3);

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        value = ngx_mcds_topk_encode(s, ANY, &test_log);

        value->data[wrong[i].at] = wrong[i].byte;
        seal(value);

        ok(decode(t, value->data, value->len) == NGX_DECLINED && t->n == 0,
           "refused: %s", wrong[i].name);

        ngx_mcds_value_unref(value);
    }

    value = ngx_mcds_topk_encode(s, ANY, &test_log);
    seal(value);
    ok(decode(t, value->data, value->len) == NGX_OK && t->n == 2,
       "refused: not the right one");

    ngx_mcds_value_unref(value);
    ngx_free(s);
    ngx_free(t);
}


static void
add(ngx_mcds_topk_t *topk, ngx_uint_t n, uint64_t count)
{
    ngx_str_t  key;

    key = text(n);
    truth[n] += count;
    total += count;

    ngx_mcds_topk_add(topk, &key, count);
}


static ngx_uint_t
draw(ngx_uint_t kind)
{
    ngx_uint_t  n;

    if (kind == 0) {
        return number() % KEYS;
    }

    /* half of the drawn keys have the index 0, a quarter the index 1, ... */

    for (n = 0; n < 12 && number() % 2; n++) { /* void */ }

    return n < 12 ? n : number() % KEYS;
}


static uint32_t
number(void)
{
    seed = seed * 1664525 + 1013904223;

    return seed >> 8;
}


static void
check(ngx_mcds_topk_t *topk, ngx_uint_t max, const char *what)
{
    uint64_t            bound;
    ngx_str_t           key;
    ngx_uint_t          i, low, high, lost, wrong;
    ngx_mcds_ranked_t  *ranked;

    bound = total / max;
    low = high = lost = wrong = 0;

    for (i = 0; i < KEYS; i++) {
        key = text(i);

        ranked = ngx_mcds_topk_find(topk,
                                    ngx_mcds_topk_hash(key.data,
                                                       key.len),
                                    key.data, key.len);

        if (ranked == NULL) {
            lost += (truth[i] > bound || truth[i] > topk->floor);
            continue;
        }

        low += (ranked->count < truth[i]);
        high += (ranked->count - truth[i] > bound);
        wrong += (ranked->count - ranked->error > truth[i]);
    }

    ok(low == 0, "%s: no count is too low", what);
    ok(high == 0, "%s: none is too high by more than total / max", what);
    ok(wrong == 0, "%s: none by more than its error", what);
    ok(lost == 0, "%s: who came more often is there", what);
    ok(topk->total == total && topk->floor <= bound
       && topk->n <= topk->max && sound(topk),
       "%s: total and floor", what);
}


/*
 * Returns 1 if a summary's heap, the keys' places in the heap and the hash
 * buckets agree.
 */

static ngx_uint_t
sound(ngx_mcds_topk_t *topk)
{
    ngx_uint_t          i;
    ngx_mcds_ranked_t  *ranked;

    for (i = 0; i < topk->n; i++) {
        ranked = &topk->ranked[topk->heap[i]];

        if (ranked->place != i
            || ranked->count < topk->floor
            || (i && ranked->count
                     < topk->ranked[topk->heap[(i - 1) / 2]].count)
            || ngx_mcds_topk_find(topk, ranked->hash, ranked->data,
                                  ranked->len)
               != ranked)
        {
            return 0;
        }
    }

    return 1;
}


static uint64_t
count_of(ngx_mcds_topk_t *topk, const char *key)
{
    size_t              len;
    ngx_mcds_ranked_t  *ranked;

    len = ngx_strlen(key);
    ranked = ngx_mcds_topk_find(topk,
                                ngx_mcds_topk_hash((u_char *) key, len),
                                (u_char *) key, len);

    return ranked ? ranked->count : 0;
}


static ngx_str_t
text(ngx_uint_t n)
{
    ngx_str_t      s;
    static u_char  buf[32];

    s.data = buf;
    s.len = ngx_sprintf(buf, "key %ui", n) - buf;

    return s;
}


static void
seal(ngx_mcds_value_t *value)
{
    (void) ngx_mcds_put(value->data + 8,
                        ngx_crc32_long(value->data + 12, value->len - 12), 4);
}


/*
 * Decodes an exact copy of a summary, so that a read beyond its end is noticed.
 */

static ngx_int_t
decode(ngx_mcds_topk_t *to, u_char *data, size_t len)
{
    u_char     *copy;
    ngx_int_t   rc;

    copy = malloc(len);
    ngx_memcpy(copy, data, len);

    rc = ngx_mcds_topk_decode(to, copy, len, &test_log);

    free(copy);

    return rc;
}
