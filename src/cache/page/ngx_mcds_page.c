
/*
 * Copyright (C) mcds authors
 *
 * The pages that a worker knows, the seats at them, and reading.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_newer.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"
#include "ngx_mcds_vary.h"


/* pages that a worker remembers beyond their requests, and their bytes */
#define NGX_MCDS_PAGES            4096
#define NGX_MCDS_PAGES_SIZE       (16 * 1024 * 1024)

/* with those of requests, of which there are never so many */
#define NGX_MCDS_PAGES_ALL        1048576
#define NGX_MCDS_PAGES_ALL_SIZE   (1024 * 1024 * 1024)

#define NGX_MCDS_PAGES_BUCKETS    4096

/* the zone keeps copies for as long as it has room, ms */
#define NGX_MCDS_KEPT             (24 * 60 * 60 * 1000)


static size_t ngx_mcds_page_weight(ngx_mcds_copy_t *copy);
static ngx_mcds_page_t *ngx_mcds_page_get(ngx_mcds_pool_t *pool,
    ngx_str_t *key);
static ngx_mcds_page_t *ngx_mcds_page_find(ngx_mcds_pool_t *pool,
    ngx_str_t *key, uint32_t hash);
static void ngx_mcds_page_forget(ngx_mcds_index_node_t *node);
static void ngx_mcds_page_read_handler(ngx_event_t *ev);
static void ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result);
static ngx_int_t ngx_mcds_page_read_local(ngx_mcds_read_t *read,
    ngx_mcds_result_t *result);
static ngx_mcds_copy_t *ngx_mcds_page_unasked(ngx_mcds_page_t *page);
static ngx_uint_t ngx_mcds_page_read_window(ngx_mcds_read_t *read);
static void ngx_mcds_page_read_opened(void *data, ngx_uint_t rc);
static void ngx_mcds_page_no_cas(ngx_mcds_page_t *page);


#if (NGX_DEBUG)

static char  *ngx_mcds_page_states[] = {
    NGX_MCDS_STATES(ngx_mcds_page_state_name)
    NULL
};

#endif


/* of this worker */

static ngx_mcds_index_node_t  *ngx_mcds_pages_buckets[NGX_MCDS_PAGES_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_pages =
    ngx_mcds_index(ngx_mcds_pages_buckets, NGX_MCDS_PAGES_ALL,
                   NGX_MCDS_PAGES_ALL_SIZE, NGX_MCDS_PAGES,
                   NGX_MCDS_PAGES_SIZE, ngx_mcds_page_forget);
static ngx_queue_t        ngx_mcds_pages_mine;
static size_t             ngx_mcds_pages_kept;
static ngx_queue_t        ngx_mcds_pages_reads;
static ngx_event_t        ngx_mcds_pages_read_event;
static ngx_atomic_t      *ngx_mcds_pages_sequences;
static ngx_uint_t         ngx_mcds_pages_nsequences;


ngx_mcds_copy_t *
ngx_mcds_copy_ref(ngx_mcds_copy_t *copy)
{
    copy->refs++;

    return copy;
}


void
ngx_mcds_copy_unref(ngx_mcds_copy_t *copy)
{
    if (copy && --copy->refs == 0) {
        if (copy->kept) {
            copy->unkeep(copy->kept);
        }

        ngx_mcds_copy_unref(copy->first);

        if (copy->prepared) {
            ngx_free(copy->prepared);
        }

        ngx_mcds_value_unref(copy->value);

        if (copy->page) {
            ngx_mcds_page_unref(copy->page);
        }

        ngx_free(copy);
    }
}


/* takes a reference of the value, not the caller's; NULL: no page */

ngx_mcds_copy_t *
ngx_mcds_copy_create(ngx_mcds_page_t *page, ngx_mcds_value_t *value,
    ngx_mcds_stamp_t *stamp)
{
    char             *why;
    ngx_mcds_copy_t  *copy;

    copy = ngx_alloc(sizeof(ngx_mcds_copy_t), ngx_cycle->log);
    if (copy == NULL) {
        return NULL;
    }

    if (ngx_mcds_entry_read(&copy->entry, value->data, value->len, &page->key,
                            &why)
        == NGX_OK)
    {
        /* what later versions may write, and this one cannot serve */

        why = (copy->entry.kind == NGX_MCDS_ENTRY_VARY
               && ngx_mcds_vary_check(&copy->entry.ext, &copy->entry.body)
                  != NGX_OK) ? "no list of headers"
              : (copy->entry.total > page->limit
                 || copy->entry.length > page->limit) ? "too large"
              : NULL;
    }

    if (why) {
        ngx_mcds_page_not_used(page, why);
        ngx_free(copy);
        return NULL;
    }

    /* what was built here is judged by the clock that it was built by */

    if (stamp && stamp->cas) {
        ngx_mcds_skew_mend(&copy->entry, page->pool, ngx_mcds_now(),
                           ngx_cycle->log);
    }

    copy->refs = 1;
    copy->page = page;
    copy->value = ngx_mcds_value_ref(value);
    copy->checked = NULL;
    copy->prepared = NULL;
    copy->kept = NULL;
    copy->first = NULL;

    if (stamp) {
        copy->stamp = *stamp;

    } else {
        ngx_memzero(&copy->stamp, sizeof(ngx_mcds_stamp_t));
    }

    ngx_mcds_page_ref(page);
    ngx_mcds_page_saw(page, copy);

    return copy;
}


ngx_int_t
ngx_mcds_copy_signed(ngx_mcds_copy_t *copy, ngx_array_t *secrets)
{
    ngx_mcds_key_t     key;
    ngx_mcds_page_t   *page;
    ngx_mcds_entry_t  *entry;

    entry = &copy->entry;

    if (secrets == NULL
        || copy->checked == secrets
        || entry->kind == NGX_MCDS_ENTRY_PURGED)
    {
        return NGX_OK;
    }

    if (ngx_mcds_sign_check(copy->value->data, copy->value->len, entry,
                            secrets)
        != NGX_OK)
    {
        ngx_mcds_key_show(&key, &entry->key);

        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "page \"%*s\" is not signed",
                      (size_t) key.len, key.data);

        return NGX_DECLINED;
    }

    /* for all that are given this copy */

    copy->checked = secrets;

    page = copy->page;

    if (page && page->cut_cas && page->cut_cas == copy->stamp.cas) {
        page->cut_signed = secrets;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_page_signed(ngx_mcds_copy_t *copy, ngx_queue_t *seats)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    for (q = ngx_queue_head(seats);
         q != ngx_queue_sentinel(seats);
         q = ngx_queue_next(q))
    {
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        if (ngx_mcds_copy_signed(copy, seat->secrets) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


void
ngx_mcds_page_stamp(ngx_mcds_stamp_t *stamp, ngx_mcds_result_t *result)
{
    stamp->cas = result->cas;
    stamp->flags = result->flags;
}


void
ngx_mcds_page_not_used(ngx_mcds_page_t *page, char *why)
{
    ngx_mcds_key_t  key;

    ngx_mcds_key_show(&key, &page->key);

    ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                  "mcds: item of page \"%*s\" is not used: %s",
                  (size_t) key.len, key.data, why);
}


void
ngx_mcds_page_saw(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    if (copy->stamp.cas == 0) {
        return;
    }

    if (copy->entry.kind == NGX_MCDS_ENTRY_VARY) {
        ngx_mcds_page_remember(page, copy);
    }

    if (copy->entry.parts == 0) {
        return;
    }

    page->cut.generation = copy->entry.generation;
    page->cut.total = copy->entry.total;
    page->cut.parts = copy->entry.parts;
    page->cut.part = copy->entry.part;
    page->cut_cas = copy->stamp.cas;
    page->cut_signed = copy->checked;
}


void
ngx_mcds_page_share(ngx_atomic_t *sequences, ngx_uint_t n)
{
    ngx_mcds_pages_sequences = sequences;
    ngx_mcds_pages_nsequences = n;
}


ngx_atomic_t *
ngx_mcds_page_sequence(ngx_mcds_page_t *page)
{
    if (ngx_mcds_pages_sequences == NULL) {
        return NULL;
    }

    return &ngx_mcds_pages_sequences[page->number % ngx_mcds_pages_nsequences];
}


void
ngx_mcds_page_moved(ngx_mcds_page_t *page)
{
    ngx_atomic_t  *sequence;

    sequence = ngx_mcds_page_sequence(page);

    if (sequence) {
        (void) ngx_atomic_fetch_add(sequence, 1);
    }
}


ngx_int_t
ngx_mcds_page_sit(ngx_mcds_seat_t *seat, ngx_mcds_pool_t *pool,
    ngx_str_t *key, size_t limit, ngx_mcds_page_pt handler, void *data)
{
    ngx_mcds_page_t  *page;

    page = ngx_mcds_page_get(pool, key);
    if (page == NULL) {
        return NGX_ERROR;
    }

    ngx_mcds_page_ref(page);

    page->limit = ngx_max(page->limit, limit);

    ngx_memzero(seat, sizeof(ngx_mcds_seat_t));

    seat->page = page;
    seat->handler = handler;
    seat->data = data;

    return NGX_OK;
}


void
ngx_mcds_page_leave(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (page == NULL) {
        return;
    }

    if (seat->want_copy) {
        ngx_queue_remove(&seat->queue);
        seat->want_copy = 0;

    } else if (seat->queued) {
        ngx_mcds_page_unqueue(seat);
    }

    ngx_mcds_page_waited(seat, NGX_MCDS_ZONE_WAIT_ABORTED);

    if (seat->building) {
        ngx_mcds_page_built(seat, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }

    if (page->owner == seat) {
        page->owner = NULL;
    }

    seat->page = NULL;

    ngx_mcds_page_unref(page);
}


void
ngx_mcds_page_hand(ngx_mcds_seat_t *from, ngx_mcds_seat_t *to)
{
    *to = *from;
    to->page->owner = to;

    from->page = NULL;
    from->building = 0;
}


static ngx_mcds_page_t *
ngx_mcds_page_get(ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    uint32_t          hash;
    ngx_mcds_page_t  *page;

    hash = ngx_mcds_hash(key->data, key->len);

    page = ngx_mcds_page_find(pool, key, hash);
    if (page) {
        return page;
    }

    page = ngx_calloc(sizeof(ngx_mcds_page_t) + key->len, ngx_cycle->log);
    if (page == NULL) {
        return NULL;
    }

    page->pool = pool;
    page->key.data = (u_char *) page + sizeof(ngx_mcds_page_t);
    page->key.len = key->len;
    ngx_memcpy(page->key.data, key->data, key->len);
    page->place = ngx_mcds_local_place(&page->key);
    page->number = ngx_mcds_crc32c(0, key->data, key->len);

    ngx_queue_init(&page->waiters);

    page->poll.data = page;
    page->poll.log = ngx_cycle->log;
    page->poll.cancelable = 1;

    if (ngx_mcds_index_insert(&ngx_mcds_pages, &page->node, pool, &page->key,
                              hash, sizeof(ngx_mcds_page_t) + key->len)
        != NGX_OK)
    {
        ngx_free(page);
        return NULL;
    }

    return page;
}


static ngx_mcds_page_t *
ngx_mcds_page_find(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t hash)
{
    ngx_mcds_index_node_t  *node;

    node = ngx_mcds_index_find(&ngx_mcds_pages, pool, key, hash);

    return node ? ngx_mcds_index_data(node, ngx_mcds_page_t, node) : NULL;
}


ngx_uint_t
ngx_mcds_page_used(ngx_mcds_seat_t *seat, ngx_str_t *key)
{
    ngx_uint_t        used;
    ngx_mcds_page_t  *page;

    page = ngx_mcds_page_find(seat->page->pool, key,
                              ngx_mcds_hash(key->data, key->len));
    if (page == NULL) {
        return 0;
    }

    used = page->used;
    page->used = 0;

    return used;
}


void
ngx_mcds_page_ref(ngx_mcds_page_t *page)
{
    if (page->refs++ == 0) {
        ngx_mcds_index_busy(&ngx_mcds_pages, &page->node);

        ngx_mcds_memory.pages = ngx_mcds_pages.idle_size;
    }
}


void
ngx_mcds_page_unref(ngx_mcds_page_t *page)
{
    if (--page->refs) {
        return;
    }

    /* nobody waits and nothing is under way */

    ngx_mcds_page_rest(page);

    ngx_mcds_index_resize(&ngx_mcds_pages, &page->node,
                          sizeof(ngx_mcds_page_t) + page->key.len
                          + (page->list ? page->list->value->size : 0));

    ngx_mcds_index_idle(&ngx_mcds_pages, &page->node);

    ngx_mcds_memory.pages = ngx_mcds_pages.idle_size;
}


static void
ngx_mcds_page_forget(ngx_mcds_index_node_t *node)
{
    ngx_mcds_page_t  *page;

    page = ngx_mcds_index_data(node, ngx_mcds_page_t, node);

    if (page->poll.timer_set) {
        ngx_del_timer(&page->poll);
    }

    if (page->forget) {
        page->forget(page);
    }

    ngx_free(page);
}


void
ngx_mcds_page_set_state(ngx_mcds_page_t *page, ngx_uint_t state)
{
    if (page->state == state) {
        return;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, ngx_cycle->log, 0,
                   "mcds page \"%V\": %s, was %s", &page->key,
                   ngx_mcds_page_states[state],
                   ngx_mcds_page_states[page->state]);

    page->state = state;
}


u_char *
ngx_mcds_page_id(ngx_mcds_page_t *page)
{
    if (!page->named) {
        ngx_mcds_local_id(page->hold.id, &page->pool->name, &page->key);
        page->named = 1;
    }

    return page->hold.id;
}


/* with what is prepared of each line */

static size_t
ngx_mcds_page_weight(ngx_mcds_copy_t *copy)
{
    return copy->value->len + copy->entry.lines * NGX_MCDS_COPY_LINE;
}


void
ngx_mcds_page_keep(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy,
    ngx_atomic_uint_t purges)
{
    size_t            size;
    ngx_queue_t      *q;
    ngx_mcds_page_t  *last;

    size = ngx_mcds_local_size();

    if (!page->local
        || size == 0
        || copy->entry.parts
        || copy->entry.kind != NGX_MCDS_ENTRY_PAGE
        || ngx_mcds_page_weight(copy) > size / 8)
    {
        ngx_mcds_page_drop(page);
        return;
    }

    page->mine_asked = ngx_mcds_clock(ngx_current_msec);
    page->mine_purges = purges;

    if (page->mine == copy) {
        return;
    }

    ngx_mcds_page_drop(page);

    page->mine = ngx_mcds_copy_ref(copy);
    ngx_mcds_pages_kept += ngx_mcds_page_weight(copy);

    if (ngx_mcds_pages_mine.next == NULL) {
        ngx_queue_init(&ngx_mcds_pages_mine);
    }

    ngx_queue_insert_head(&ngx_mcds_pages_mine, &page->mine_lru);

    /* other workers do not get what was purged while it was on its way */

    if (purges == ngx_mcds_local_purges(page->place)) {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(page), copy->value,
                                  &copy->stamp);
    }

    while (ngx_mcds_pages_kept > size) {
        q = ngx_queue_last(&ngx_mcds_pages_mine);
        last = ngx_queue_data(q, ngx_mcds_page_t, mine_lru);

        ngx_mcds_page_drop(last);
    }
}


void
ngx_mcds_page_keep_unasked(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_mcds_page_keep(page, copy, ngx_mcds_local_purges(page->place));

    page->mine_asked = ngx_mcds_clock(ngx_current_msec) - NGX_MCDS_KEPT;
}


void
ngx_mcds_page_drop(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_t  *copy;

    copy = page->mine;

    if (copy) {
        page->mine = NULL;
        ngx_queue_remove(&page->mine_lru);
        ngx_mcds_pages_kept -= ngx_mcds_page_weight(copy);

        ngx_mcds_copy_unref(copy);
    }
}


ngx_mcds_copy_t *
ngx_mcds_page_kept(ngx_mcds_page_t *page, ngx_mcds_stamp_t *stamp)
{
    ngx_mcds_copy_t   *copy;
    ngx_mcds_stamp_t   found;
    ngx_mcds_value_t  *value;

    if (page->mine
        && (stamp == NULL || ngx_mcds_stamp_same(&page->mine->stamp, stamp)))
    {
        ngx_queue_remove(&page->mine_lru);
        ngx_queue_insert_head(&ngx_mcds_pages_mine, &page->mine_lru);

        copy = page->mine;

        /* the clock was set back since then */

        if (copy->entry.created > ngx_mcds_now() + NGX_MCDS_SKEW_MAX) {
            ngx_mcds_skew_mend(&copy->entry, page->pool, ngx_mcds_now(),
                               ngx_cycle->log);
        }

        return copy;
    }

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), stamp, NGX_MCDS_KEPT,
                               &found);
    if (value == NULL) {
        return NULL;
    }

    copy = ngx_mcds_copy_create(page, value, &found);
    ngx_mcds_value_unref(value);

    if (copy) {
        ngx_mcds_page_keep_unasked(page, copy);
        ngx_mcds_copy_unref(copy);
    }

    return page->mine;
}


ngx_mcds_copy_t *
ngx_mcds_page_known(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (seat->local != NGX_MCDS_LOCAL_TIMED
        || page->mine == NULL
        || (page->mine->entry.flags & NGX_MCDS_ENTRY_VALIDATE)
        || page->mine_purges != ngx_mcds_local_purges(page->place)
        || ngx_mcds_clock(ngx_current_msec) - page->mine_asked
           >= seat->local_time)
    {
        return NULL;
    }

    page->used = 1;

    return ngx_mcds_page_kept(page, NULL);
}


ngx_int_t
ngx_mcds_page_lookup(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;
    ngx_mcds_read_t  *read;

    page = seat->page;
    read = page->read;

    if (ngx_mcds_pages_read_event.handler == NULL) {
        ngx_queue_init(&ngx_mcds_pages_reads);
        ngx_mcds_pages_read_event.handler = ngx_mcds_page_read_handler;
        ngx_mcds_pages_read_event.log = ngx_cycle->log;
    }

    if (read == NULL) {
        read = ngx_calloc(sizeof(ngx_mcds_read_t), ngx_cycle->log);
        if (read == NULL) {
            return NGX_ERROR;
        }

        read->page = page;
        read->op.handler = ngx_mcds_page_read_done;
        read->op.data = read;
        ngx_queue_init(&read->seats);
        ngx_queue_insert_tail(&ngx_mcds_pages_reads, &read->queue);

        page->read = read;
        ngx_mcds_page_ref(page);

        if (!ngx_mcds_pages_read_event.posted) {
            ngx_post_event(&ngx_mcds_pages_read_event, &ngx_posted_events);
        }
    }

    ngx_queue_insert_tail(&read->seats, &seat->queue);
    seat->want_copy = 1;

    if (seat->local) {
        page->local = 1;
    }

    return NGX_OK;
}


static void
ngx_mcds_page_read_handler(ngx_event_t *ev)
{
    ngx_queue_t         *q;
    ngx_mcds_page_t     *page;
    ngx_mcds_read_t     *read;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.newer = ngx_mcds_newer;
    req.page = 1;
    req.movable = 1;

    while (!ngx_queue_empty(&ngx_mcds_pages_reads)) {
        q = ngx_queue_head(&ngx_mcds_pages_reads);
        ngx_queue_remove(q);

        read = ngx_queue_data(q, ngx_mcds_read_t, queue);
        page = read->page;
        page->read = NULL;

        /* a copy that is at hand is only confirmed */

        read->purges = ngx_mcds_local_purges(page->place);
        read->whole = (!page->local || ngx_mcds_page_kept(page, NULL) == NULL);

        req.want = NGX_MCDS_CAS|NGX_MCDS_FLAGS;

        if (read->whole) {
            req.want |= NGX_MCDS_VALUE;
        }

        req.key = page->key;
        req.limit = page->limit;
        req.bulk = read->whole && page->big;

        ngx_mcds_submit(page->pool, &req, &read->op);
    }
}


static void
ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t         outcome;
    ngx_mcds_page_t   *page;
    ngx_mcds_read_t   *read;
    ngx_mcds_stamp_t   stamp;
    ngx_mcds_value_t  *value;

    read = data;
    page = read->page;
    outcome = NGX_MCDS_PAGE_MISSING;

    if (page->local) {
        switch (ngx_mcds_page_read_local(read, result)) {

        case NGX_AGAIN:
            return;

        case NGX_OK:
            ngx_mcds_page_read_end(read, NGX_MCDS_PAGE_FOUND);
            return;

        default: /* NGX_DECLINED */
            break;
        }
    }

    if (result->rc == NGX_MCDS_OK && !ngx_queue_empty(&read->seats)) {
        page->big = (result->len >= NGX_MCDS_BULK);

        value = ngx_mcds_result_value(result, ngx_cycle->log);

        if (value) {
            ngx_mcds_page_stamp(&stamp, result);
            read->copy = ngx_mcds_copy_create(page, value, &stamp);
            ngx_mcds_value_unref(value);
        }

        if (read->copy) {
            outcome = NGX_MCDS_PAGE_FOUND;
            ngx_mcds_page_keep(page, read->copy, read->purges);

            if (read->copy->entry.kind == NGX_MCDS_ENTRY_VARY) {
                ngx_mcds_page_confirmed(page, read->purges);
            }
        }

        if (result->cas == 0) {
            ngx_mcds_page_no_cas(page);
            outcome = NGX_MCDS_PAGE_FAILED;
        }

    } else if (!ngx_mcds_answered(result->rc)) {
        outcome = NGX_MCDS_PAGE_FAILED;
    }

    if (outcome == NGX_MCDS_PAGE_FOUND
        && read->copy->entry.parts
        && ngx_mcds_page_signed(read->copy, &read->seats) == NGX_OK)
    {
        if (ngx_mcds_stream_open(read->copy, ngx_mcds_page_read_window(read),
                                 ngx_mcds_page_read_opened, read)
            == NGX_OK)
        {
            return;
        }

        outcome = NGX_MCDS_PAGE_FAILED;
    }

    ngx_mcds_page_read_end(read, outcome);
}


/*
 * NGX_OK: read->copy is one of this host's; NGX_AGAIN: the value is on its
 * way; NGX_DECLINED: there is none to be used.
 */

static ngx_int_t
ngx_mcds_page_read_local(ngx_mcds_read_t *read, ngx_mcds_result_t *result)
{
    ngx_queue_t         *q;
    ngx_mcds_copy_t     *copy;
    ngx_mcds_page_t     *page;
    ngx_mcds_seat_t     *seat;
    ngx_mcds_stamp_t     stamp;
    ngx_mcds_request_t   req;

    page = read->page;

    if (!ngx_mcds_answered(result->rc)) {

        for (q = ngx_queue_head(&read->seats);
             q != ngx_queue_sentinel(&read->seats);
             q = ngx_queue_next(q))
        {
            seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);
            seat->silent = 1;
        }

        copy = ngx_mcds_page_unasked(page);

    } else if (result->rc == NGX_MCDS_OK && !read->whole && result->cas) {

        ngx_mcds_page_stamp(&stamp, result);
        copy = ngx_mcds_page_kept(page, &stamp);

        if (copy) {
            page->mine_asked = ngx_mcds_clock(ngx_current_msec);
            page->mine_purges = read->purges;

        } else {

            /* another page by now */

            ngx_memzero(&req, sizeof(ngx_mcds_request_t));

            req.verb = NGX_MCDS_GET;
            req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS;
            req.newer = ngx_mcds_newer;
            req.page = 1;
            req.movable = 1;
            req.key = page->key;
            req.limit = page->limit;
            req.bulk = page->big;

            read->whole = 1;

            ngx_mcds_submit(page->pool, &req, &read->op);

            return NGX_AGAIN;
        }

    } else {

        if (result->rc != NGX_MCDS_OK) {
            ngx_mcds_page_drop(page);
        }

        return NGX_DECLINED;
    }

    if (copy == NULL) {
        return NGX_DECLINED;
    }

    read->copy = ngx_mcds_copy_ref(copy);

    return NGX_OK;
}


/* the copy to use when memcached does not answer, or NULL */

static ngx_mcds_copy_t *
ngx_mcds_page_unasked(ngx_mcds_page_t *page)
{
    /* of what was purged here, the zone knows whether it may be used */

    if (page->mine_purges != ngx_mcds_local_purges(page->place)) {
        ngx_mcds_page_drop(page);
    }

    return ngx_mcds_page_kept(page, NULL);
}


void
ngx_mcds_page_hurry(ngx_mcds_seat_t *seat)
{
    ngx_mcds_copy_t  *copy;
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (page == NULL) {
        return;
    }

    if (!seat->want_copy) {

        if (page->owner == seat
            && page->state == NGX_MCDS_LOCKING
            && !page->hurried)
        {
            ngx_mcds_page_hurry_lock(page);
        }

        return;
    }

    ngx_queue_remove(&seat->queue);
    seat->want_copy = 0;

    copy = NULL;

    if (seat->local) {
        seat->silent = 1;
        copy = ngx_mcds_page_unasked(page);
    }

    if (copy) {
        page->used = 1;
    }

    seat->handler(seat->data, copy ? NGX_MCDS_PAGE_FOUND
                                   : NGX_MCDS_PAGE_FAILED, copy);
}


/* who answers by headers alone, or by some middle part, needs no first ones */

static ngx_uint_t
ngx_mcds_page_read_window(ngx_mcds_read_t *read)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    for (q = ngx_queue_head(&read->seats);
         q != ngx_queue_sentinel(&read->seats);
         q = ngx_queue_next(q))
    {
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        if (!seat->no_body) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_mcds_page_read_opened(void *data, ngx_uint_t rc)
{
    ngx_mcds_read_t *read = data;

    ngx_uint_t  outcome;

    if (ngx_mcds_answered(rc) && rc != NGX_MCDS_OK) {
        ngx_mcds_page_not_used(read->page, "parts are missing");
    }

    outcome = (rc == NGX_MCDS_OK) ? NGX_MCDS_PAGE_FOUND
              : ngx_mcds_answered(rc) ? NGX_MCDS_PAGE_MISSING
              : NGX_MCDS_PAGE_FAILED;

    ngx_mcds_page_read_end(read, outcome);
}


void
ngx_mcds_page_read_end(ngx_mcds_read_t *read, ngx_uint_t outcome)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    if (outcome == NGX_MCDS_PAGE_FOUND) {
        read->page->used = 1;
    }

    while (!ngx_queue_empty(&read->seats)) {
        q = ngx_queue_head(&read->seats);
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        ngx_queue_remove(q);
        seat->want_copy = 0;

        seat->handler(seat->data, outcome,
                      outcome == NGX_MCDS_PAGE_FOUND ? read->copy : NULL);
    }

    ngx_mcds_copy_unref(read->copy);
    ngx_mcds_page_unref(read->page);
    ngx_free(read);
}


/* memcached -C: no telling whether a page is still the one that was seen */

static void
ngx_mcds_page_no_cas(ngx_mcds_page_t *page)
{
    static ngx_uint_t  warned;

    if (!warned) {
        warned = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\" (option -C), "
                      "its pages are not used", &page->pool->name);
    }
}
