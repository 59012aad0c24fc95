
/*
 * Copyright (C) mcds authors
 *
 * The outbox (shared memory for the last known values of counters, and for the
 * unsent sums of their changes) compared with a model.  Its memory is bounded
 * without losing sums, and the outbox stays consistent when a process is killed
 * while changing it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_outbox_core.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include "tap.h"


#define KEYS    400
#define KILLS   300


typedef struct {
    volatile uint64_t  begun;
    volatile uint64_t  done;
    volatile uint64_t  taken;
} progress_t;


static void test_size(void);
static void test_known(void);
static void test_forgotten(void);
static void test_sums(void);
static void test_huge(void);
static void test_full(void);
static void test_ttl(void);
static void test_batches(void);
static void test_owner(void);
static void test_accounts(void);
static void test_hash(void);
static void test_killed(void);
static void child(progress_t *progress);
static ngx_uint_t whole(void);
static void begin(size_t size);
static ngx_mcds_account_t *account(ngx_uint_t kind, char *name);
static void make_key(ngx_uint_t i, ngx_str_t *key);
static ngx_int_t add(ngx_mcds_account_t *a, ngx_uint_t i, int64_t delta);
static int64_t take_all(ngx_mcds_account_t *a, int64_t *sums);


static u_char              *memory;
static u_char               key_data[NGX_MCDS_OUTBOX_KEY + 100];
static u_char               buf[NGX_MCDS_OUTBOX_KEY];
static ngx_shmtx_t          mutex;
static ngx_mcds_outbox_t   *outbox;


int
main(void)
{
    memory = mmap(NULL, 4 * 1024 * 1024, PROT_READ|PROT_WRITE,
                  MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    test_size();
    test_known();
    test_forgotten();
    test_sums();
    test_huge();
    test_full();
    test_ttl();
    test_batches();
    test_owner();
    test_accounts();
    test_hash();
    test_killed();

    return done_testing();
}


static void
test_size(void)
{
    size_t      size;
    ngx_uint_t  bad, least;

    bad = 0;
    least = 0;

    for (size = 0; size < 65536; size += 64) {
        ngx_memzero(memory, 65536 + 64);
        memory[size] = 0x5a;

        outbox = ngx_mcds_outbox_init(memory, size, &mutex);

        if (outbox == NULL) {
            bad += (least != 0);
            continue;
        }

        if (least == 0) {
            least = size;
        }

        /* all memory of the outbox is used, but none after its end */

        while (add(account(1, "x"), outbox->nfree, 1) == NGX_OK) {
            /* void */
        }

        bad += (memory[size] != 0x5a);
    }

    ok(bad == 0, "any size, or none");
    ok(least && least <= 16384, "16k will do: %lu", (unsigned long) least);
}


static void
test_known(void)
{
    uint64_t   a, b, c;
    ngx_str_t  pool = ngx_string("pool"), other = ngx_string("other");
    ngx_str_t  none = ngx_null_string, prefix = ngx_string("k");
    ngx_str_t  key = ngx_string("key"), rest = ngx_string("ey");

    begin(1024 * 1024);

    a = ngx_mcds_outbox_id(outbox, &pool, &none, &key);
    b = ngx_mcds_outbox_id(outbox, &other, &none, &key);
    c = ngx_mcds_outbox_id(outbox, &pool, &prefix, &rest);

    ok(a && b && a != b, "pools have counters of their own");
    ok(c && c != a && c != b, "and so have prefixes");
    ok(ngx_mcds_outbox_known(outbox, a) == 0, "nothing is known");

    ngx_current_msec = 1000000;
    ngx_mcds_outbox_learn(outbox, a, 10, 1000000);
    ok(ngx_mcds_outbox_known(outbox, a) == 10, "learned");
    ok(ngx_mcds_outbox_known(outbox, b) == 0, "of this one");

    ngx_mcds_outbox_learn(outbox, a, 12, 999990);
    ok(ngx_mcds_outbox_known(outbox, a) == 12, "a higher one");

    ngx_current_msec = 1000900;
    ngx_mcds_outbox_learn(outbox, a, 11, 1000800);
    ok(ngx_mcds_outbox_known(outbox, a) == 12, "an answer that comes late");

    ngx_current_msec = 1003000;
    ngx_mcds_outbox_learn(outbox, a, 11, 1000900);
    ok(ngx_mcds_outbox_known(outbox, a) == 12, "or much later");

    ngx_mcds_outbox_learn(outbox, a, 3, 1001001);
    ok(ngx_mcds_outbox_known(outbox, a) == 3, "was lowered");

    ngx_mcds_outbox_learn(outbox, a, (uint64_t) -1, 1003000);
    ok(ngx_mcds_outbox_known(outbox, a) == (uint64_t) -1, "the highest");

    ngx_mcds_outbox_subtract(outbox, a, (uint64_t) -1 - 7);
    ok(ngx_mcds_outbox_known(outbox, a) == 7, "subtracted");

    ngx_mcds_outbox_subtract(outbox, a, 8);
    ok(ngx_mcds_outbox_known(outbox, a) == 0, "not below 0");

    ngx_mcds_outbox_subtract(outbox, b, 1);
    ok(ngx_mcds_outbox_known(outbox, b) == 0, "of one that is not known");
}


/*
 * If the outbox receives the values of more counters than it has room for, it
 * forgets the values that it received the longest time ago.
 */

static void
test_forgotten(void)
{
    uint64_t    i, n;
    ngx_uint_t  recent, old, hot;

    begin(256 * 1024);

    n = outbox->nsets * NGX_MCDS_OUTBOX_WAYS;

    for (i = 1; i <= 4 * n; i++) {
        ngx_current_msec++;
        ngx_mcds_outbox_learn(outbox, i * 0x9e3779b97f4a7c15ULL, i, 0);
        ngx_mcds_outbox_learn(outbox, 42, i, 0);
    }

    recent = 0;
    old = 0;
    hot = ngx_mcds_outbox_known(outbox, 42) == 4 * n;

    for (i = 1; i <= 4 * n; i++) {
        if (ngx_mcds_outbox_known(outbox, i * 0x9e3779b97f4a7c15ULL) == i) {
            (i > 3 * n + n / 2) ? recent++ : old++;
        }
    }

    ok(recent + old <= n && recent + old > n * 9 / 10,
       "as many as there is room for: %lu", (unsigned long) n);
    ok(recent > n / 2 * 9 / 10, "the recent ones: %lu",
       (unsigned long) recent);
    ok(hot, "who is heard of stays");
}


static void
test_sums(void)
{
    int64_t              model[KEYS], got[KEYS], delta;
    ngx_uint_t           i, n, bad, nfree;
    ngx_mcds_account_t  *a, *b;

    begin(1024 * 1024);
    nfree = outbox->nfree;

    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");
    b = account(NGX_MCDS_OUTBOX_BUFFER, "b");

    ok(!ngx_mcds_account_dirty(a), "clean");

    bad = 0;
    ngx_memzero(model, sizeof(model));

    for (n = 0; n < 20000; n++) {
        i = ngx_random() % KEYS;
        delta = (int64_t) (ngx_random() % 100) - 30;
        model[i] += delta;

        bad += (add(a, i, delta) != NGX_OK);

        if (n % 10 == 0) {
            bad += (add(b, i, 1) != NGX_OK);
        }
    }

    ok(bad == 0, "all is kept");
    ok(ngx_mcds_account_dirty(a), "dirty");

    ngx_memzero(got, sizeof(got));
    (void) take_all(a, got);

    for (i = 0; i < KEYS; i++) {
        bad += (model[i] != got[i]);
    }

    ok(bad == 0, "sums are right");

    ngx_mcds_outbox_check(outbox, a);
    ngx_mcds_outbox_check(outbox, b);
    ok(!ngx_mcds_account_dirty(a), "taken: clean");
    ok(ngx_mcds_account_dirty(b), "the other is not");
    ok(ngx_mcds_outbox_left(outbox, b) == 2000, "what is left");

    ok(take_all(b, got) == 2000, "another account");
    ok(outbox->nfree == nfree, "no room is lost");
    ok(whole(), "whole");
}


/*
 * the unsent sum of a counter's changes has a minimum and a maximum; a change
 * that would exceed one of them is refused
 */

static void
test_huge(void)
{
    int64_t              got[KEYS], huge;
    ngx_uint_t           i, bad, nfree;
    ngx_mcds_account_t  *a;

    begin(1024 * 1024);
    nfree = outbox->nfree;

    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");
    huge = 1000000000000000000;
    bad = 0;

    for (i = 0; i < 10; i++) {
        bad += (add(a, 1, huge) != (i < 4 ? NGX_OK : NGX_BUSY));
        bad += (add(a, 2, -huge) != (i < 4 ? NGX_OK : NGX_BUSY));
    }

    ok(bad == 0, "huge: refused when a sum is full");
    ok(a->lost == (uint64_t) huge * 12, "huge: lost");
    ok(add(a, 1, -huge) == NGX_OK && add(a, 1, huge) == NGX_OK,
       "huge: in the other direction there is room");

    ok(add(a, 3, NGX_MCDS_OUTBOX_MAX) == NGX_OK
       && add(a, 4, -NGX_MCDS_OUTBOX_MAX) == NGX_OK, "huge: the largest");
    ok(add(a, 3, 1) == NGX_BUSY && add(a, 4, -1) == NGX_BUSY,
       "huge: and one more");

    ngx_memzero(got, sizeof(got));
    (void) take_all(a, got);

    ok(got[1] == 4 * huge && got[2] == -4 * huge, "huge: sums are right");
    ok(got[3] == NGX_MCDS_OUTBOX_MAX && got[4] == -NGX_MCDS_OUTBOX_MAX,
       "huge: as are the largest");
    ok(outbox->nfree == nfree, "huge: no room is lost");
}


static void
test_full(void)
{
    ngx_uint_t           i, n, nfree;
    ngx_str_t            key;
    ngx_mcds_account_t  *a;
    ngx_mcds_outbox_item_t  item;

    begin(64 * 1024);
    nfree = outbox->nfree;
    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");

    for (n = 0; add(a, n, 1) == NGX_OK; n++) {
        /* void */
    }

    ok(n > 10 && a->lost == 1, "full after %lu, said", (unsigned long) n);
    ok(add(a, 0, 5) == NGX_OK, "those that are there go on");

    for (i = 1; i < 1000; i++) {
        (void) add(a, n + i, -3);
    }

    ok(a->lost >= 1 + 990 * 3, "what is lost is counted");
    ok(ngx_mcds_outbox_crowded(outbox), "crowded");

    (void) take_all(a, NULL);
    ok(outbox->nfree == nfree, "no room is lost");
    ok(!ngx_mcds_outbox_crowded(outbox), "not crowded");

    key.data = key_data;
    key.len = NGX_MCDS_OUTBOX_KEY + 1;
    item.key = key;
    item.delta = 1;
    item.flags = 1;

    ok(ngx_mcds_outbox_add(outbox, a, &item) == NGX_BUSY, "too long a key");
}


static void
test_ttl(void)
{
    ngx_uint_t               cursor;
    ngx_mcds_account_t      *a;
    ngx_mcds_outbox_item_t   item;

    begin(64 * 1024);
    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");

    ngx_str_set(&item.key, "key");
    item.delta = 7;
    item.initial = 1000;
    item.ttl = 60;
    item.flags = 5;

    (void) ngx_mcds_outbox_add(outbox, a, &item);

    ((ngx_time_t *) ngx_cached_time)->sec += 20;
    cursor = 0;

    ok(ngx_mcds_outbox_take(outbox, a, &cursor, &item, buf) == NGX_OK
       && item.ttl == 40 && item.delta == 7 && item.initial == 1000
       && item.flags == 5 && item.key.len == 3,
       "what is left of its time");

    (void) ngx_mcds_outbox_add(outbox, a, &item);

    ((ngx_time_t *) ngx_cached_time)->sec += 40;

    ok(take_all(a, NULL) == 0 && ngx_mcds_outbox_left(outbox, a) == 0,
       "nothing is");
}


/* Each count that was added to the outbox is acknowledged exactly once. */

static void
test_batches(void)
{
    int64_t                  added, acked, content, again;
    ngx_int_t                rc;
    ngx_uint_t               n, i, cursor, fresh, max, nfree;
    ngx_mcds_account_t      *a, *b;
    ngx_mcds_outbox_item_t   item;

    begin(1024 * 1024);
    nfree = outbox->nfree;

    a = account(NGX_MCDS_OUTBOX_POST, "a");
    b = account(NGX_MCDS_OUTBOX_POST, "b");

    added = 0;
    acked = 0;

    for (n = 0; n < 300; n++) {

        for (i = ngx_random() % 100; i; i--) {
            added += i;
            (void) add(a, ngx_random() % KEYS, i);
            (void) add(b, ngx_random() % KEYS, 1);
        }

        fresh = ngx_mcds_outbox_open(outbox, a);
        cursor = 0;
        content = 0;
        max = 1 + ngx_random() % 60;

        for (i = 0; i < max; /* void */) {
            rc = ngx_mcds_outbox_mark(outbox, a, 1, &cursor, &item, buf);

            if (rc == NGX_DONE) {
                break;
            }

            if (rc == NGX_OK) {
                content += item.delta;
                i++;
            }
        }

        /* a late acknowledgment of an earlier batch of counts */

        ngx_mcds_outbox_ack(outbox, a, a->batch - 1);

        /*
         * another worker reads the batch of unsent counts again, as the origin
         * has not acknowledged it: the batch has the same counts as before,
         * without the 3 that is added here
         */

        added += 3;
        (void) add(a, ngx_random() % KEYS, 3);

        cursor = 0;
        again = 0;

        for ( ;; ) {
            rc = ngx_mcds_outbox_mark(outbox, a, 0, &cursor, &item, buf);

            if (rc == NGX_DONE) {
                break;
            }

            again += (rc == NGX_OK) ? item.delta : 0;
        }

        if (!fresh || again != content
            || ngx_mcds_outbox_open(outbox, a) != 0)
        {
            break;
        }

        ngx_mcds_outbox_ack(outbox, a, a->batch);
        ngx_mcds_outbox_ack(outbox, a, a->batch);
        acked += content;
    }

    ok(n == 300, "a batch does not change until it is acknowledged");
    ok(ngx_mcds_outbox_left(outbox, a) == (uint64_t) (added - acked),
       "what is left: %ld of %ld", (long) (added - acked), (long) added);

    while (ngx_mcds_account_dirty(a)) {
        (void) ngx_mcds_outbox_open(outbox, a);
        cursor = 0;

        for ( ;; ) {
            rc = ngx_mcds_outbox_mark(outbox, a, 1, &cursor, &item, buf);

            if (rc == NGX_DONE) {
                break;
            }

            acked += (rc == NGX_OK) ? item.delta : 0;
        }

        ngx_mcds_outbox_ack(outbox, a, a->batch);
        ngx_mcds_outbox_check(outbox, a);
    }

    ok(added == acked, "all is acknowledged, once");
    ok(ngx_mcds_account_dirty(b), "not that of others");

    (void) ngx_mcds_outbox_open(outbox, b);

    for (cursor = 0;
         ngx_mcds_outbox_mark(outbox, b, 1, &cursor, &item, buf) != NGX_DONE;
         /* void */ )
    {
        /* void */
    }

    ngx_mcds_outbox_ack(outbox, b, b->batch);
    ok(outbox->nfree == nfree, "no room is lost");
    ok(whole(), "whole");
}


static void
test_owner(void)
{
    int                  status;
    ngx_mcds_account_t  *a;

    begin(64 * 1024);
    a = account(NGX_MCDS_OUTBOX_POST, "a");

    ngx_pid = getpid();

    ok(ngx_mcds_outbox_own(outbox, a), "free");
    ok(ngx_mcds_outbox_own(outbox, a), "mine");

    a->owner = getppid();
    a->alive = ngx_current_msec;
    ok(!ngx_mcds_outbox_own(outbox, a), "another's");

    ngx_mcds_outbox_disown(a);
    ok(a->owner == getppid(), "not mine to give up");

    ngx_current_msec += NGX_MCDS_OUTBOX_DEAD + 1;
    ok(ngx_mcds_outbox_own(outbox, a), "of one who hangs");
    ngx_mcds_outbox_disown(a);
    ok(a->owner == 0, "given up");

    a->owner = fork();
    a->alive = ngx_current_msec;

    if (a->owner == 0) {
        _exit(0);
    }

    (void) waitpid(a->owner, &status, 0);
    ok(ngx_mcds_outbox_own(outbox, a), "of one who is gone");
}


static void
test_accounts(void)
{
    char                 name[200];
    ngx_str_t            s;
    ngx_uint_t           i, n;
    ngx_mcds_account_t  *a, *b;

    begin(64 * 1024);

    a = account(1, "x");
    ok(a && account(1, "x") == a && account(2, "x") != a, "by kind and name");

    s.data = (u_char *) "new";
    s.len = 3;
    b = ngx_mcds_outbox_account(outbox, 2, &s, 100);
    ok(b != a && account(1, "x") == a,
       "one of long ago stays while others are unused");

    memset(name, 'n', sizeof(name));
    s.data = (u_char *) name;
    s.len = sizeof(name);

    a = ngx_mcds_outbox_account(outbox, 1, &s, 1);
    name[199] = 'm';
    ok(a && ngx_mcds_outbox_account(outbox, 1, &s, 1) != a, "long names");

    for (n = 0; n < 100; n++) {
        s.len = sprintf(name, "%lu", (unsigned long) n);

        if (ngx_mcds_outbox_account(outbox, 2, &s, 1) == NULL) {
            break;
        }
    }

    ok(n > 20 && n < 100, "there are not more than some");

    a = account(1, "x");
    a->added++;
    s.len = sprintf(name, "0");
    b = ngx_mcds_outbox_account(outbox, 2, &s, 100);
    i = 0;

    for (n = 200; n < 300; n++) {
        s.len = sprintf(name, "%lu", (unsigned long) n);
        i += (ngx_mcds_outbox_account(outbox, 2, &s, 100) != NULL);
    }

    ok(i > 20 && a->kind == 1 && a->len == 1,
       "those of long ago make room, unless they have something");
    ok(b->kind == 2 && b->len == 1 && b->name[0] == '0',
       "or are used by a new configuration");
}


/* The test vectors of SipHash-2-4. */

static void
test_hash(void)
{
    u_char      text[64];
    uint64_t    want[4] = { 0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL,
                            0x93f5f5799a932462ULL, 0xa129ca6149be45e5ULL };
    ngx_uint_t  i, lens[4] = { 0, 1, 8, 15 }, good;

    begin(64 * 1024);

    outbox->secret[0] = 0x0706050403020100ULL;
    outbox->secret[1] = 0x0f0e0d0c0b0a0908ULL;

    for (i = 0; i < 64; i++) {
        text[i] = i;
    }

    good = 0;

    for (i = 0; i < 4; i++) {
        good += (ngx_mcds_outbox_hash(outbox, 0, text, lens[i]) == want[i]);
    }

    ok(good == 4, "a known hash");
}


/* A child process changes the outbox until it is killed, repeatedly. */

static void
test_killed(void)
{
    int                  status;
    int64_t              sum;
    uint64_t             late;
    ngx_uint_t           i, bad, torn, seed, nfree;
    progress_t          *progress;
    ngx_mcds_account_t  *a, *b;
    struct timespec      ts;

    progress = mmap(NULL, 4096, PROT_READ|PROT_WRITE,
                    MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    begin(128 * 1024);
    nfree = outbox->nfree;
    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");
    b = account(NGX_MCDS_OUTBOX_POST, "b");

    seed = tap_seed(0);
    bad = 0;
    torn = 0;
    late = 0;

    for (i = 0; i < KILLS; i++) {
        pid_t  pid;

        pid = fork();

        if (pid == 0) {
            ngx_pid = getpid();
            srandom(seed + i);
            child(progress);
        }

        ts.tv_sec = 0;
        ts.tv_nsec = 200000 + random() % 1000000;
        nanosleep(&ts, NULL);

        kill(pid, SIGKILL);
        (void) waitpid(pid, &status, 0);

        torn += (progress->begun - progress->done != late);
        late = progress->begun - progress->done;

        bad += !whole();
        ngx_mcds_outbox_sweep(outbox);
        bad += !whole();
    }

    ok(bad == 0, "whole after %d kills, %lu in the middle of something",
       KILLS, (unsigned long) torn);

    sum = progress->taken + ngx_mcds_outbox_left(outbox, a);

    ok(sum >= (int64_t) progress->done - KILLS
       && sum <= (int64_t) progress->begun,
       "at most one is lost with each: %ld, %lu were added", (long) sum,
       (unsigned long) progress->done);

    (void) take_all(a, NULL);

    if (b->batch) {
        ngx_mcds_outbox_ack(outbox, b, b->batch);
    }

    while (ngx_mcds_account_dirty(b)) {
        ngx_mcds_outbox_item_t  item;
        ngx_uint_t              cursor = 0;

        (void) ngx_mcds_outbox_open(outbox, b);

        while (ngx_mcds_outbox_mark(outbox, b, 1, &cursor, &item, buf)
               != NGX_DONE)
        {
            /* void */
        }

        ngx_mcds_outbox_ack(outbox, b, b->batch);
        ngx_mcds_outbox_check(outbox, b);
    }

    ngx_mcds_outbox_sweep(outbox);
    ok(outbox->nfree == nfree, "no room is lost");
}


static void
child(progress_t *progress)
{
    ngx_uint_t               cursor;
    ngx_mcds_account_t      *a, *b;
    ngx_mcds_outbox_item_t   item;

    a = account(NGX_MCDS_OUTBOX_BUFFER, "a");
    b = account(NGX_MCDS_OUTBOX_POST, "b");

    for ( ;; ) {

        switch (random() % 8) {

        case 0:
            cursor = 0;

            if (ngx_mcds_outbox_take(outbox, a, &cursor, &item, buf)
                == NGX_OK)
            {
                progress->taken += item.delta;
            }

            break;

        case 1:
            (void) ngx_mcds_outbox_open(outbox, b);
            cursor = 0;

            while (ngx_mcds_outbox_mark(outbox, b, 1, &cursor, &item, buf)
                   != NGX_DONE)
            {
                /* void */
            }

            ngx_mcds_outbox_ack(outbox, b, b->batch);
            break;

        case 2:
            (void) add(b, random() % KEYS, 1);
            break;

        case 3:
            ngx_mcds_outbox_learn(outbox, 1 + random() % 5000, random(), 0);
            break;

        default:
            progress->begun++;

            if (add(a, random() % KEYS, 1) == NGX_OK) {
                progress->done++;

            } else {
                progress->begun--;
            }
        }
    }
}


/*
 * Returns 1 if each slot of the outbox is in one list at most, and the list of
 * free slots has at least as many slots as outbox->nfree tells; otherwise 0.
 */

static ngx_uint_t
whole(void)
{
    static u_char  seen[65536];

    uint32_t          n, more;
    ngx_uint_t        i, nfree;
    ngx_mcds_slot_t  *slot;

    ngx_memzero(seen, sizeof(seen));

    for (i = 0; i < outbox->nheads; i++) {

        for (n = outbox->heads[i]; n; n = slot->next) {
            slot = ngx_mcds_outbox_slot(outbox, n);

            if (n > outbox->nslots || seen[n]++ || slot->account == 0) {
                return 0;
            }

            for (more = slot->more;
                 more;
                 more = ngx_mcds_outbox_slot(outbox, more)->more)
            {
                if (more > outbox->nslots || seen[more]++) {
                    return 0;
                }
            }
        }
    }

    nfree = 0;

    for (n = outbox->free; n; n = ngx_mcds_outbox_slot(outbox, n)->next) {
        if (n > outbox->nslots || seen[n]++) {
            return 0;
        }

        nfree++;
    }

    return nfree >= outbox->nfree;
}


static void
begin(size_t size)
{
    ngx_memzero(memory, size);

    outbox = ngx_mcds_outbox_init(memory, size, &mutex);
}


static ngx_mcds_account_t *
account(ngx_uint_t kind, char *name)
{
    ngx_str_t  s;

    s.data = (u_char *) name;
    s.len = ngx_strlen(name);

    return ngx_mcds_outbox_account(outbox, kind, &s, 1);
}


/* Makes a key, short or long, of the number i. */

static void
make_key(ngx_uint_t i, ngx_str_t *key)
{
    static ngx_uint_t  lens[] = { 10, 12, 30, 71, 72, 73, 100, 190, 191, 192,
                                  193, 310, 311, 1000, NGX_MCDS_OUTBOX_KEY };

    ngx_memset(key_data, 'a' + i % 26, sizeof(key_data));

    (void) ngx_sprintf(key_data, "%08ui", i);

    key->data = key_data;
    key->len = lens[i % (sizeof(lens) / sizeof(ngx_uint_t))];
}


static ngx_int_t
add(ngx_mcds_account_t *a, ngx_uint_t i, int64_t delta)
{
    ngx_mcds_outbox_item_t  item;

    make_key(i, &item.key);

    item.delta = delta;
    item.initial = 0;
    item.ttl = 0;
    item.flags = (a->kind == NGX_MCDS_OUTBOX_BUFFER);

    return ngx_mcds_outbox_add(outbox, a, &item);
}


static int64_t
take_all(ngx_mcds_account_t *a, int64_t *sums)
{
    int64_t                  sum;
    ngx_int_t                rc;
    ngx_str_t                key;
    ngx_uint_t               cursor, i;
    ngx_mcds_outbox_item_t   item;

    cursor = 0;
    sum = 0;

    for ( ;; ) {
        rc = ngx_mcds_outbox_take(outbox, a, &cursor, &item, buf);

        if (rc == NGX_DONE) {
            return sum;
        }

        if (rc == NGX_AGAIN) {
            continue;
        }

        sum += item.delta;

        if (sums) {
            i = ngx_atoi(item.key.data, 8);
            make_key(i, &key);

            if (key.len == item.key.len
                && ngx_memcmp(key.data, item.key.data, key.len) == 0)
            {
                sums[i] += item.delta;
            }
        }
    }
}
