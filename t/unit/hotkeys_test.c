
/*
 * Copyright (C) mcds authors
 *
 * Tests the hot keys of a host, those requested most often, with several
 * workers that take turns: compares the rates of keys with the true ones, lets
 * rates decay, and replaces workers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_hotkeys.c"
#include "tap.h"


#define WORKERS  4
#define MEMORY   (1024 * 1024)


static void test_shares(void);
static void test_fades(void);
static void test_noise(void);
static void test_merged(void);
static void test_successor(void);
static void test_killed(void);
static void test_keys(void);
static void test_small(void);
static void test_noted(void);
static void reset(size_t size, ngx_uint_t n);
static void *alloc(void *data, size_t size);
static void work(ngx_uint_t n);
static void add(ngx_uint_t n, char *key, ngx_uint_t times);
static void publish(ngx_uint_t n);
static ngx_uint_t read_all(void);
static ngx_uint_t rate(char *key);
static ngx_uint_t about(ngx_uint_t n, ngx_uint_t want);


static size_t                     left;
static ngx_mcds_hotkeys_place_t  *places;
static ngx_mcds_hotkeys_t        *workers[WORKERS];
static ngx_mcds_hotkeys_key_t     keys[NGX_MCDS_HOTKEYS_TOP];
static ngx_uint_t                 nkeys;
static ngx_log_t                  test_log;


int
main(void)
{
    test_shares();
    test_fades();
    test_noise();
    test_merged();
    test_successor();
    test_killed();
    test_keys();
    test_small();
    test_noted();

    reset(0, 0);

    return done_testing();
}


static void
test_shares(void)
{
    ngx_uint_t  i;

    reset(MEMORY, 1);

    ok(read_all() == 0, "nothing at first");

    add(0, "a", 30);
    add(0, "b", 10);
    add(0, "c", 20);

    ok(read_all() == 3, "three keys");
    ok(rate("a") == 30000 && rate("c") == 20000 && rate("b") == 10000,
       "a rate is there at once");
    ok(keys[0].data[0] == 'a' && keys[1].data[0] == 'c'
       && keys[2].data[0] == 'b', "the hottest first");

    for (i = 0; i < 60; i++) {
        ngx_current_msec += 1000;
        add(0, "a", 30);
        add(0, "b", 10);
    }

    (void) read_all();

    ok(about(rate("a"), 30000), "it stays: %d", (int) rate("a"));
    ok(about(rate("b"), 10000), "so does another: %d", (int) rate("b"));
    ok(rate("c") < 100, "one that has ended does not: %d", (int) rate("c"));
}


static void
test_fades(void)
{
    ngx_uint_t  i, before, all;

    reset(MEMORY, 1);

    for (i = 0; i < 100; i++) {
        ngx_current_msec += 1000;
        add(0, "a", 100);
    }

    (void) read_all();
    before = rate("a");

    ngx_current_msec += 11000;
    (void) read_all();

    ok(about(rate("a"), before * 49 / 100), "half of it after 11 seconds");

    /*
     * the rate of a hot key decays by the same amount, whether the worker that
     * counts keys or the process that reads the hot keys computes the decay
     */

    add(0, "b", 1);
    all = rate("a");
    (void) read_all();
    ok(about(rate("a"), all), "also when something else comes");

    ngx_current_msec += 300 * 1000;
    ok(read_all() == 0, "nothing after minutes");

    add(0, "b", 100);
    ok(read_all() == 1, "nor when something else comes");
    ok(rate("a") == 0, "which is there");
}


/*
 * Thousands of keys with one request each do not look hot, and hide no hot key.
 */

static void
test_noise(void)
{
    char        name[20];
    ngx_uint_t  i, j, worst;

    reset(MEMORY, 1);

    for (i = 0; i < 30; i++) {
        ngx_current_msec += 1000;

        for (j = 0; j < 1000; j++) {
            (void) sprintf(name, "n%d", (int) (i * 1000 + j));
            add(0, name, 1);

            if (j % 10 == 0) {
                add(0, "hot", 1);
            }
        }
    }

    (void) read_all();

    worst = (nkeys > 1) ? keys[1].rate : 0;

    ok(rate("hot") > 100000 - 1100000 / 64 && rate("hot") <= 101000,
       "the hot one: %d", (int) rate("hot"));
    ok(keys[0].len == 3, "is the first");
    ok(worst < 1000, "others came once: %d", (int) worst);
}


static void
test_merged(void)
{
    ngx_uint_t  i, n;

    reset(MEMORY, WORKERS);

    for (i = 0; i < 10; i++) {
        ngx_current_msec += 1000;

        for (n = 0; n < WORKERS; n++) {
            add(n, "all", 5);
        }

        add(1, "one", 7);
        add(2, "two", 30);
    }

    ok(read_all() == 1, "what others have not published is not seen");

    for (n = 0; n < WORKERS; n++) {
        publish(n);
    }

    (void) read_all();

    ok(keys[0].len == 3 && keys[0].data[0] == 't', "the hottest of all");
    ok(about(rate("all") * 7, rate("one") * 20)
       && about(rate("two") * 7, rate("one") * 30), "their shares");

    /*
     * a worker writes no hot keys to a place in shared memory that another
     * process has taken over
     */

    work(1);
    workers[1]->place->pid = 1;
    add(1, "one", 1000);
    publish(1);
    (void) read_all();
    ok(about(rate("one") * 20, rate("all") * 7), "not the one before");
}


static void
test_successor(void)
{
    ngx_uint_t           before;
    ngx_mcds_hotkeys_t  *old;

    reset(MEMORY, 2);

    add(0, "a", 40);
    add(1, "a", 20);
    add(1, "b", 10);
    publish(1);
    (void) read_all();
    before = rate("a");

    work(1);
    old = workers[1];
    workers[1] = ngx_mcds_hotkeys_create(places, 1, &test_log);
    ngx_mcds_hotkeys_destroy(old);

    (void) read_all();
    ok(rate("a") == before, "what was published stays");

    add(1, "c", 5);
    publish(1);
    (void) read_all();
    ok(rate("a") == before && rate("c"), "its successor goes on from there");

    ok(ngx_mcds_hotkeys_zone(&places, 3, MEMORY / 8, alloc, &left) == 0
       && places->next->next && !places->next->next->next, "a place more");
    (void) read_all();
    ok(rate("a") == before, "changes nothing");
}


static void
test_killed(void)
{
    ngx_mcds_hotkeys_t  *old;

    reset(MEMORY, 2);

    add(0, "a", 40);
    add(1, "b", 40);
    publish(1);

    places->next->version++;
    ok(read_all() == 1, "who was killed while it wrote is left out");
    ok(rate("a") == 40000, "others are not");

    work(1);
    old = workers[1];
    workers[1] = ngx_mcds_hotkeys_create(places, 1, &test_log);
    ngx_mcds_hotkeys_destroy(old);

    ok(read_all() == 1, "its successor begins anew");

    add(1, "c", 40);
    publish(1);
    ok(read_all() == 2, "and is seen");

    /*
     * a race in shared memory: the old worker checked that the place for its
     * hot keys was still its own, another worker took over the place, and only
     * now the old worker begins to write there, which makes "version" odd
     */

    places->next->version++;

    add(1, "d", 40);
    publish(1);
    ok((places->next->version & 1) == 0, "its version is even afterwards");
    ok(read_all() == 3, "and all is seen when it has published again");
}


static void
test_keys(void)
{
    char        one[200], two[200];
    ngx_str_t   empty;
    ngx_uint_t  i;

    reset(MEMORY, 1);

    ngx_str_null(&empty);
    ngx_mcds_hotkeys_add(workers[0], NGX_MCDS_HOTKEYS_PAGES, &empty);
    ok(read_all() == 0, "an empty key is none");

    for (i = 0; i < sizeof(one); i++) {
        one[i] = two[i] = (i == sizeof(one) - 1) ? '\0' : 'x';
    }

    two[150] = 'y';

    add(0, one, 1);
    add(0, two, 1);

    ok(read_all() == 1, "of long keys the beginning counts");
    ok(keys[0].len == NGX_MCDS_HOTKEYS_KEY && keys[0].rate == 2000, "is shown");

    ok(ngx_mcds_hotkeys_read(workers[0], NGX_MCDS_HOTKEYS_COUNTERS, keys,
                             NGX_MCDS_HOTKEYS_TOP)
       == 0, "kinds are apart");

    for (i = 0; i < 50; i++) {
        (void) sprintf(one, "k%d", (int) i);
        add(0, one, 1 + i % 3);
    }

    ok(read_all() == NGX_MCDS_HOTKEYS_TOP, "no more than was asked for");
}


static void
test_small(void)
{
    ngx_uint_t                 n;
    ngx_mcds_hotkeys_place_t  *place;

    reset(2 * 8 * sizeof(ngx_mcds_hotkeys_place_t), WORKERS);

    for (n = 0, place = places; place; place = place->next) {
        n++;
    }

    ok(n == 2, "an eighth of the memory has room for %d", (int) n);

    add(3, "a", 10);
    publish(3);
    ok(read_all() == 0, "a worker without a place is not seen");

    add(0, "b", 10);
    ok(read_all() == 1, "others are");

    reset(64 * 1024, 1);
    add(0, "a", 10);
    ok(places == NULL && read_all() == 0, "no memory, no keys");

    reset(MEMORY, 0);
    left = 100;
    ok(ngx_mcds_hotkeys_zone(&places, 1, MEMORY / 8, alloc, &left) == 1
       && places == NULL, "nor when others have it");
}


/*
 * A hot key is shown with a value, such as that of a counter: the last value
 * that any worker has noted for the key.
 */

static void
test_noted(void)
{
    ngx_str_t  key, longer;

    reset(MEMORY, 2);

    ((ngx_time_t *) ngx_cached_time)->sec = 1000;

    ngx_str_set(&key, "a");

    add(0, "a", 3);
    ok(read_all() == 1 && keys[0].noted == 0, "no number");

    work(0);
    ngx_mcds_hotkeys_note(workers[0], NGX_MCDS_HOTKEYS_PAGES, &key, 7);
    ok(read_all() == 1 && keys[0].value == 7 && keys[0].noted,
       "a number");

    add(1, "a", 1);
    ((ngx_time_t *) ngx_cached_time)->sec++;
    work(1);
    ngx_mcds_hotkeys_note(workers[1], NGX_MCDS_HOTKEYS_PAGES, &key, 6);
    publish(1);
    ok(read_all() == 1 && keys[0].value == 6, "a later one");

    ((ngx_time_t *) ngx_cached_time)->sec++;
    work(0);
    ngx_mcds_hotkeys_note(workers[0], NGX_MCDS_HOTKEYS_PAGES, &key, 8);
    publish(0);
    ok(read_all() == 1 && keys[0].value == 8, "of the other one");

    ngx_mcds_hotkeys_note(workers[0], NGX_MCDS_HOTKEYS_PAGES, &key, 5);
    publish(0);
    ok(read_all() == 1 && keys[0].value == 8, "the larger one of a moment");

    ngx_str_set(&key, "b");
    ngx_mcds_hotkeys_note(workers[0], NGX_MCDS_HOTKEYS_PAGES, &key, 9);
    ok(read_all() == 1, "of a key that is not there");

    longer.len = NGX_MCDS_HOTKEYS_KEY;
    longer.data = (u_char *)
        "12345678901234567890123456789012345678901234567890123456789012345678"
        "9012345678901234567890123456789012345678901234567890";

    ngx_mcds_hotkeys_add(workers[0], NGX_MCDS_HOTKEYS_PAGES, &longer);
    ngx_mcds_hotkeys_note(workers[0], NGX_MCDS_HOTKEYS_PAGES, &longer, 1);
    publish(0);
    ok(read_all() == 2 && keys[1].noted == 0, "of a beginning");
}


/* Starts again with a shared memory zone of this size and n workers. */

static void
reset(size_t size, ngx_uint_t n)
{
    ngx_uint_t                 i;
    ngx_mcds_hotkeys_place_t  *next;

    for (i = 0; i < WORKERS; i++) {
        if (workers[i]) {
            ngx_mcds_hotkeys_destroy(workers[i]);
            workers[i] = NULL;
        }
    }

    for ( /* void */ ; places; places = next) {
        next = places->next;
        free(places);
    }

    left = size;

    ngx_current_msec += 1000000;

    (void) ngx_mcds_hotkeys_zone(&places, n, size / 8, alloc, &left);

    for (i = 0; i < n; i++) {
        work(i);
        workers[i] = ngx_mcds_hotkeys_create(places, i, &test_log);
    }
}


static void *
alloc(void *data, size_t size)
{
    size_t *room = data;

    if (size > *room) {
        return NULL;
    }

    *room -= size;

    return calloc(1, size);
}


/* Lets the test act as the process of worker n. */

static void
work(ngx_uint_t n)
{
    ngx_pid = 1000 + n;
}


static void
add(ngx_uint_t n, char *key, ngx_uint_t times)
{
    ngx_str_t  text;

    work(n);

    text.len = strlen(key);
    text.data = (u_char *) key;

    while (times--) {
        ngx_mcds_hotkeys_add(workers[n], NGX_MCDS_HOTKEYS_PAGES, &text);
    }
}


static void
publish(ngx_uint_t n)
{
    work(n);
    ngx_mcds_hotkeys_publish(workers[n]);
}


/*
 * Reads the hot keys of all workers into "keys", as worker 0 shows them.
 * Returns the number of keys.
 */

static ngx_uint_t
read_all(void)
{
    work(0);

    nkeys = ngx_mcds_hotkeys_read(workers[0], NGX_MCDS_HOTKEYS_PAGES, keys,
                                  NGX_MCDS_HOTKEYS_TOP);
    return nkeys;
}


static ngx_uint_t
rate(char *key)
{
    ngx_uint_t  i;

    for (i = 0; i < nkeys; i++) {
        if (keys[i].len == strlen(key)
            && memcmp(keys[i].data, key, keys[i].len) == 0)
        {
            return keys[i].rate;
        }
    }

    return 0;
}


static ngx_uint_t
about(ngx_uint_t n, ngx_uint_t want)
{
    return n * 100 >= want * 98 && n * 98 <= want * 100;
}
