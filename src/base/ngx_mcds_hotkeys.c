
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_hotkeys.h"


/*
 * what one request for a hot key adds to the weight of the key; the low bits of
 * a weight keep the fractions that are left after decay
 */
#define NGX_MCDS_HOTKEYS_ONE      (1 << 16)

/*
 * the decay of the weights of hot keys: each second a weight loses a sixteenth,
 * weight >> 4
 */
#define NGX_MCDS_HOTKEYS_DECAY    4

/*
 * the number of seconds after which the weight of a hot key that is no longer
 * requested has decayed below the smallest rate that mcds_status shows
 */
#define NGX_MCDS_HOTKEYS_FORGOTTEN 200

/*
 * how many times a process tries to read the hot keys of a worker, while that
 * worker is writing them, before the process gives up
 */
#define NGX_MCDS_HOTKEYS_TRIES    100


typedef struct {
    uint64_t                 weight;
    uint64_t                 value;
    uint64_t                 noted;
    uint32_t                 len;
    u_char                   data[NGX_MCDS_HOTKEYS_KEY];
} ngx_mcds_hotkeys_item_t;


typedef struct {
    ngx_uint_t                   n;
    ngx_mcds_hotkeys_item_t      items[NGX_MCDS_HOTKEYS_KEYS];
} ngx_mcds_hotkeys_list_t;


/*
 * The hot keys of one worker, in its place in shared memory.  Only the process
 * "pid" writes to the place, and makes "version" odd while it writes (a
 * sequence lock).  The times of all processes are comparable: they come from
 * the monotonic clock.
 */

struct ngx_mcds_hotkeys_place_s {
    /* the place in shared memory for the hot keys of the next worker */
    ngx_mcds_hotkeys_place_t    *next;

    /* the second in which this place for a worker's hot keys was made */
    ngx_uint_t                   since;

    ngx_atomic_t                 pid;
    ngx_atomic_t                 version;
    ngx_uint_t                   second;
    ngx_mcds_hotkeys_list_t      lists[NGX_MCDS_HOTKEYS_KINDS];
};


static void ngx_mcds_hotkeys_inherit(ngx_mcds_hotkeys_t *hotkeys);
static void ngx_mcds_hotkeys_take(ngx_mcds_topk_t *table,
    ngx_mcds_hotkeys_list_t *list);
static void ngx_mcds_hotkeys_turn(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t now);
static void ngx_mcds_hotkeys_write(ngx_mcds_hotkeys_list_t *list,
    ngx_mcds_topk_t *table);
static ngx_int_t ngx_mcds_hotkeys_copy(ngx_mcds_hotkeys_place_t *place,
    ngx_uint_t kind, ngx_uint_t now, ngx_mcds_hotkeys_list_t *list);
static uint64_t ngx_mcds_hotkeys_window(ngx_mcds_hotkeys_place_t *places,
    ngx_uint_t now);


#define ngx_mcds_hotkeys_now()        ((ngx_uint_t) (ngx_current_msec / 1000))
#define ngx_mcds_hotkeys_left(weight)                                         \
    ((weight) - ((weight) >> NGX_MCDS_HOTKEYS_DECAY))


ngx_mcds_hotkeys_t  *ngx_mcds_hotkeys;


ngx_uint_t
ngx_mcds_hotkeys_zone(ngx_mcds_hotkeys_place_t **places, ngx_uint_t workers,
    size_t max, ngx_mcds_hotkeys_alloc_pt alloc, void *data)
{
    ngx_uint_t                 n, fit;
    ngx_mcds_hotkeys_place_t  *place;

    fit = ngx_min(workers, max / sizeof(ngx_mcds_hotkeys_place_t));

    /*
     * the places for hot keys in shared memory are never freed: a worker of an
     * older configuration may still write its hot keys there
     */

    for (n = 0; n < fit; n++) {

        if (*places == NULL) {
            place = alloc(data, sizeof(ngx_mcds_hotkeys_place_t));
            if (place == NULL) {
                break;
            }

            place->since = ngx_mcds_hotkeys_now();
            *places = place;
        }

        places = &(*places)->next;
    }

    return workers - n;
}


ngx_mcds_hotkeys_t *
ngx_mcds_hotkeys_create(ngx_mcds_hotkeys_place_t *places, ngx_uint_t worker,
    ngx_log_t *log)
{
    ngx_uint_t           i;
    ngx_mcds_hotkeys_t  *hotkeys;

    hotkeys = ngx_calloc(sizeof(ngx_mcds_hotkeys_t), log);
    if (hotkeys == NULL) {
        return NULL;
    }

    hotkeys->log = log;
    hotkeys->places = places;
    hotkeys->second = ngx_mcds_hotkeys_now();

    for (i = 0; i < NGX_MCDS_HOTKEYS_KINDS; i++) {
        hotkeys->tables[i] = ngx_mcds_topk_create(NGX_MCDS_HOTKEYS_KEYS, log);

        if (hotkeys->tables[i] == NULL) {
            ngx_mcds_hotkeys_destroy(hotkeys);
            return NULL;
        }
    }

    while (places && worker--) {
        places = places->next;
    }

    hotkeys->place = places;

    if (hotkeys->place) {
        ngx_mcds_hotkeys_inherit(hotkeys);
    }

    return hotkeys;
}


void
ngx_mcds_hotkeys_destroy(ngx_mcds_hotkeys_t *hotkeys)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_HOTKEYS_KINDS; i++) {
        if (hotkeys->tables[i]) {
            ngx_free(hotkeys->tables[i]);
        }
    }

    ngx_free(hotkeys);
}


static void
ngx_mcds_hotkeys_inherit(ngx_mcds_hotkeys_t *hotkeys)
{
    ngx_uint_t                 kind;
    ngx_mcds_hotkeys_list_t   *list;
    ngx_mcds_hotkeys_place_t  *place;

    place = hotkeys->place;
    place->pid = ngx_pid;
    ngx_memory_barrier();

    if (place->version & 1) {

        /*
         * the worker that had this place in shared memory before was killed
         * while it wrote its hot keys: they may be torn
         */

        for (kind = 0; kind < NGX_MCDS_HOTKEYS_KINDS; kind++) {
            place->lists[kind].n = 0;
        }

        ngx_memory_barrier();
        place->version = (place->version | 1) + 1;
        return;
    }

    list = ngx_alloc(sizeof(ngx_mcds_hotkeys_list_t), hotkeys->log);
    if (list == NULL) {
        return;
    }

    for (kind = 0; kind < NGX_MCDS_HOTKEYS_KINDS; kind++) {

        if (ngx_mcds_hotkeys_copy(place, kind, hotkeys->second, list)
            != NGX_OK)
        {
            continue;
        }

        ngx_mcds_hotkeys_take(hotkeys->tables[kind], list);
    }

    ngx_free(list);
}


static void
ngx_mcds_hotkeys_take(ngx_mcds_topk_t *table, ngx_mcds_hotkeys_list_t *list)
{
    ngx_str_t                 key;
    ngx_uint_t                i;
    ngx_mcds_hotkeys_item_t  *item;

    for (i = 0; i < list->n; i++) {
        item = &list->items[i];

        key.len = item->len;
        key.data = item->data;

        ngx_mcds_topk_add(table, &key, item->weight);

        if (item->noted) {
            ngx_mcds_topk_note(table, &key, item->value, item->noted);
        }
    }
}


void
ngx_mcds_hotkeys_add(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key)
{
    ngx_str_t   text;
    ngx_uint_t  now;

    now = ngx_mcds_hotkeys_now();

    if (now != hotkeys->second) {
        ngx_mcds_hotkeys_turn(hotkeys, now);
    }

    if (key->len == 0) {
        return;
    }

    text.data = key->data;
    text.len = ngx_min(key->len, NGX_MCDS_HOTKEYS_KEY);

    ngx_mcds_topk_add(hotkeys->tables[kind], &text, NGX_MCDS_HOTKEYS_ONE);

    hotkeys->changed = 1;
}


void
ngx_mcds_hotkeys_note(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key, uint64_t value)
{
    if (key->len == 0 || key->len >= NGX_MCDS_HOTKEYS_KEY) {
        return;
    }

    ngx_mcds_topk_note(hotkeys->tables[kind], key, value, ngx_mcds_now());

    hotkeys->changed = 1;
}


static void
ngx_mcds_hotkeys_turn(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t now)
{
    ngx_uint_t  i, n;

    n = now - hotkeys->second;
    hotkeys->second = now;

    for (i = 0; i < NGX_MCDS_HOTKEYS_KINDS; i++) {

        if (n > NGX_MCDS_HOTKEYS_FORGOTTEN) {
            ngx_mcds_topk_reset(hotkeys->tables[i]);

        } else {
            ngx_mcds_topk_decay(hotkeys->tables[i], NGX_MCDS_HOTKEYS_DECAY, n);
        }
    }
}


void
ngx_mcds_hotkeys_publish(ngx_mcds_hotkeys_t *hotkeys)
{
    ngx_uint_t                 i;
    ngx_atomic_uint_t          version;
    ngx_mcds_hotkeys_place_t  *place;

    place = hotkeys->place;

    if (!hotkeys->changed
        || place == NULL
        || place->pid != (ngx_atomic_uint_t) ngx_pid)
    {
        return;
    }

    /*
     * The worker that had this place in shared memory before may still be
     * writing its hot keys there.  "pid" already names this worker, and this
     * worker's own write makes the hot keys in the place consistent again.
     */

    version = place->version | 1;

    place->version = version;
    ngx_memory_barrier();

    place->second = hotkeys->second;

    for (i = 0; i < NGX_MCDS_HOTKEYS_KINDS; i++) {
        ngx_mcds_hotkeys_write(&place->lists[i], hotkeys->tables[i]);
    }

    ngx_memory_barrier();
    place->version = version + 1;

    hotkeys->changed = 0;
}


static void
ngx_mcds_hotkeys_write(ngx_mcds_hotkeys_list_t *list, ngx_mcds_topk_t *table)
{
    ngx_uint_t                i;
    ngx_mcds_ranked_t        *ranked;
    ngx_mcds_hotkeys_item_t  *item;

    list->n = table->n;

    for (i = 0; i < table->n; i++) {
        ranked = &table->ranked[i];
        item = &list->items[i];

        /*
         * up to "error" of a hot key's count may come from requests for another
         * key, which this key has evicted from the summary: publish the lower
         * bound, count - error, as the weight of the key
         */

        item->weight = ranked->count - ranked->error;
        item->value = ranked->value;
        item->noted = ranked->noted;
        item->len = ranked->len;
        ngx_memcpy(item->data, ranked->data, ranked->len);
    }
}


ngx_uint_t
ngx_mcds_hotkeys_read(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_mcds_hotkeys_key_t *keys, ngx_uint_t max)
{
    uint64_t                    window;
    ngx_uint_t                  n, now, all;
    ngx_mcds_hotkeys_list_t    *list;
    ngx_mcds_topk_t            *sum;
    ngx_mcds_ranked_t         **order;
    ngx_mcds_hotkeys_place_t   *place;

    if (hotkeys->places == NULL) {
        return 0;
    }

    ngx_mcds_hotkeys_publish(hotkeys);

    now = ngx_mcds_hotkeys_now();
    all = 0;

    for (place = hotkeys->places; place; place = place->next) {
        all += NGX_MCDS_HOTKEYS_KEYS;
    }

    /*
     * the summary that adds up the hot keys of all workers has room for each of
     * these keys, so that no key is evicted and the sums are exact
     */

    sum = ngx_mcds_topk_create(all, hotkeys->log);
    order = ngx_alloc(all * sizeof(ngx_mcds_ranked_t *), hotkeys->log);
    list = ngx_alloc(sizeof(ngx_mcds_hotkeys_list_t), hotkeys->log);

    n = 0;

    if (sum == NULL || order == NULL || list == NULL) {
        goto done;
    }

    for (place = hotkeys->places; place; place = place->next) {

        if (ngx_mcds_hotkeys_copy(place, kind, now, list) != NGX_OK) {
            continue;
        }

        ngx_mcds_hotkeys_take(sum, list);
    }

    max = ngx_mcds_topk_sort(sum, order, max);
    window = ngx_mcds_hotkeys_window(hotkeys->places, now);

    for ( /* void */ ; n < max; n++) {
        keys[n].rate = order[n]->count * 1000 / window;

        if (keys[n].rate == 0) {
            break;
        }

        keys[n].value = order[n]->value;
        keys[n].noted = order[n]->noted;
        keys[n].len = order[n]->len;
        ngx_memcpy(keys[n].data, order[n]->data, order[n]->len);
    }

done:

    ngx_free(list);
    ngx_free(order);
    ngx_free(sum);

    return n;
}


/*
 * Copies the hot keys that a worker has published, with their weights decayed
 * to the time now.  Returns NGX_DECLINED if the worker's place in shared memory
 * is empty, too old or being written.
 */

static ngx_int_t
ngx_mcds_hotkeys_copy(ngx_mcds_hotkeys_place_t *place, ngx_uint_t kind,
    ngx_uint_t now, ngx_mcds_hotkeys_list_t *list)
{
    ngx_uint_t         i, n, seconds;
    ngx_atomic_uint_t  version;

    seconds = 0;
    version = 0;

    for (n = 0; n < NGX_MCDS_HOTKEYS_TRIES; n++) {
        version = place->version;
        ngx_memory_barrier();

        if (version & 1) {
            ngx_cpu_pause();
            continue;
        }

        *list = place->lists[kind];
        seconds = now - place->second;

        ngx_memory_barrier();

        if (place->version == version) {
            break;
        }
    }

    if (n == NGX_MCDS_HOTKEYS_TRIES || version == 0) {
        return NGX_DECLINED;
    }

    /*
     * the cached time of the worker that wrote the hot keys may be ahead of
     * this worker's
     */

    if ((ngx_int_t) seconds < 0) {
        seconds = 0;
    }

    if (seconds > NGX_MCDS_HOTKEYS_FORGOTTEN) {
        return NGX_DECLINED;
    }

    for (i = 0; i < list->n; i++) {
        for (n = 0; n < seconds; n++) {
            list->items[i].weight =
                                ngx_mcds_hotkeys_left(list->items[i].weight);
        }
    }

    return NGX_OK;
}


/*
 * Returns the weight that a key would have now if it had been requested once
 * in each second since places->since, when this host began to count hot keys.
 */

static uint64_t
ngx_mcds_hotkeys_window(ngx_mcds_hotkeys_place_t *places, ngx_uint_t now)
{
    uint64_t    weight;
    ngx_uint_t  i, n;

    n = ngx_min(now - places->since, NGX_MCDS_HOTKEYS_FORGOTTEN);
    weight = NGX_MCDS_HOTKEYS_ONE;

    for (i = 0; i < n; i++) {
        weight = ngx_mcds_hotkeys_left(weight) + NGX_MCDS_HOTKEYS_ONE;
    }

    return weight;
}
