
/*
 * Copyright (C) mcds authors
 *
 * What this worker knows of the build of a page:
 *
 *   IDLE       nobody here builds it or waits for it
 *   LOCKING    a request asks for the lock and, in the same batch and behind
 *              it, whether the page is still what the request has seen
 *   BUILDING   a request here has the lock, or memcached does not answer and
 *              it builds for this worker alone
 *   STORING    built; the store is under way, the lock still held
 *   ELSEWHERE  somebody else has the lock; while requests wait here, memcached
 *              is asked for the lock and the page, 5 ms to 100 ms apart, and
 *              at once when a worker of this host says that it is done
 *
 *        +------------------- lock free, page unchanged ------------------+
 *        v                                                                |
 *   IDLE -> LOCKING -> BUILDING -> STORING -> IDLE                        |
 *              |           |                                              |
 *              |           +-> failed: the next who waits, or IDLE        |
 *              +-> page changed: all who wait get it, IDLE                |
 *              +-> held by another: ELSEWHERE ----------------------------+
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lock.h"
#include "ngx_mcds_page.h"


/* pages that a worker remembers beyond their requests */
#define NGX_MCDS_PAGES            4096

#define NGX_MCDS_POLL_MIN         5
#define NGX_MCDS_POLL_MAX         100

/* who has found the lock held does not ask again so soon, ms */
#define NGX_MCDS_HELD             100

/* a page that memcached does not take is not offered to it so long, ms */
#define NGX_MCDS_REFUSED          60000

/* after a failed refresh nobody tries again so soon, seconds */
#define NGX_MCDS_BACKOFF          2


typedef enum {
    NGX_MCDS_IDLE = 0,
    NGX_MCDS_LOCKING,
    NGX_MCDS_BUILDING,
    NGX_MCDS_STORING,
    NGX_MCDS_ELSEWHERE
} ngx_mcds_page_state_e;


/* one read, for the requests of one turn */

typedef struct {
    ngx_mcds_page_t      *page;
    ngx_queue_t           seats;
    ngx_queue_t           queue;       /* until it is sent */
} ngx_mcds_read_t;


struct ngx_mcds_page_s {
    ngx_rbtree_node_t     node;
    ngx_queue_t           lru;         /* while nobody refers to it */
    ngx_uint_t            refs;

    ngx_mcds_pool_t      *pool;
    size_t                limit;
    ngx_mcds_read_t      *read;        /* of this turn */

    ngx_uint_t            state;
    ngx_mcds_seat_t      *owner;       /* who locks or builds, or NULL: left */
    ngx_queue_t           waiters;
    ngx_uint_t            nwaiters;

    ngx_uint_t            lock_age;
    ngx_mcds_lock_t      *lock;
    uint64_t              base;        /* CAS of the page to be replaced */
    ngx_mcds_copy_t      *built;       /* while storing */

    /* the answers of one step, lock and page */
    ngx_uint_t            missing;
    ngx_uint_t            lock_rc;
    ngx_uint_t            page_rc;
    uint64_t              page_cas;
    ngx_mcds_copy_t      *copy;

    ngx_event_t           poll;
    ngx_msec_t            poll_delay;
    ngx_msec_t            poll_next;
    ngx_atomic_uint_t     sequence;

    ngx_msec_t            held_until;  /* the lock was seen held */
    uint32_t              ttl;         /* of the value being stored */

    size_t                refused;     /* length that was too large, or 0 */
    ngx_msec_t            refused_until;

    unsigned              held:1;
    unsigned              kept:1;      /* no build, a pause after a failure */
    unsigned              big:1;       /* the last value was */
    unsigned              whole:1;     /* the page was asked with its value */
    ngx_str_t             key;
};


static ngx_mcds_copy_t *ngx_mcds_copy_create(ngx_mcds_page_t *page,
    ngx_mcds_value_t *value, uint64_t cas);
static ngx_mcds_page_t *ngx_mcds_page_get(ngx_mcds_pool_t *pool,
    ngx_str_t *key);
static ngx_int_t ngx_mcds_page_cmp(ngx_mcds_page_t *page,
    ngx_mcds_pool_t *pool, ngx_str_t *key);
static void ngx_mcds_page_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_mcds_page_ref(ngx_mcds_page_t *page);
static void ngx_mcds_page_unref(ngx_mcds_page_t *page);
static void ngx_mcds_page_forget(ngx_mcds_page_t *page);
static void ngx_mcds_page_set_state(ngx_mcds_page_t *page, ngx_uint_t state);
static void ngx_mcds_page_read_handler(ngx_event_t *ev);
static void ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_no_cas(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_wait(ngx_mcds_seat_t *seat);
static void ngx_mcds_page_wait_handler(ngx_event_t *ev);
static void ngx_mcds_page_start_lock(ngx_mcds_page_t *page,
    ngx_mcds_seat_t *owner, uint64_t cas);
static void ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t rc);
static ngx_int_t ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);
static void ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_step(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_lock(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_poll(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_changed(ngx_mcds_page_t *page);
static void ngx_mcds_page_build(ngx_mcds_page_t *page);
static void ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);
static void ngx_mcds_page_elsewhere(ngx_mcds_page_t *page);
static void ngx_mcds_page_release(ngx_mcds_page_t *page, uint32_t keep);
static void ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff);
static void ngx_mcds_page_give_up(ngx_mcds_page_t *page);
static void ngx_mcds_page_unqueue(ngx_mcds_seat_t *seat);
static ngx_mcds_seat_t *ngx_mcds_page_next(ngx_mcds_page_t *page);
static void ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
static ngx_uint_t ngx_mcds_page_refused(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_put(ngx_mcds_page_t *page,
    ngx_mcds_value_t *value);
static void ngx_mcds_page_stored(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_stored_plain(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);
static void ngx_mcds_page_poll_handler(ngx_event_t *ev);
static void ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result);
static ngx_atomic_t *ngx_mcds_page_sequence(ngx_mcds_page_t *page);


#if (NGX_DEBUG)

static char  *ngx_mcds_page_states[] = {
    "idle",
    "locking",
    "building",
    "storing",
    "elsewhere"
};

#endif


/* of this worker */

static ngx_rbtree_t       ngx_mcds_pages;
static ngx_rbtree_node_t  ngx_mcds_pages_sentinel;
static ngx_queue_t        ngx_mcds_pages_idle;
static ngx_uint_t         ngx_mcds_pages_nidle;
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
        ngx_mcds_value_unref(copy->value);
        ngx_free(copy);
    }
}


/* takes a reference of the value, not the caller's; NULL: no page */

static ngx_mcds_copy_t *
ngx_mcds_copy_create(ngx_mcds_page_t *page, ngx_mcds_value_t *value,
    uint64_t cas)
{
    char             *why;
    ngx_mcds_key_t    key;
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

        why = (copy->entry.kind == NGX_MCDS_ENTRY_VARY) ? "list of headers"
              : copy->entry.parts ? "split body" : NULL;
    }

    if (why) {
        ngx_mcds_key_show(&key, &page->key);

        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "mcds: item of page \"%*s\" is not used: %s",
                      (size_t) key.len, key.data, why);
        ngx_free(copy);
        return NULL;
    }

    copy->refs = 1;
    copy->value = ngx_mcds_value_ref(value);
    copy->cas = cas;

    return copy;
}


void
ngx_mcds_page_share(ngx_atomic_t *sequences, ngx_uint_t n)
{
    ngx_mcds_pages_sequences = sequences;
    ngx_mcds_pages_nsequences = n;
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

    if (seat->building) {
        ngx_mcds_page_built(seat, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }

    if (page->owner == seat) {
        page->owner = NULL;
    }

    seat->page = NULL;

    ngx_mcds_page_unref(page);
}


static ngx_mcds_page_t *
ngx_mcds_page_get(ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    uint32_t            hash;
    ngx_int_t           rc;
    ngx_mcds_page_t    *page;
    ngx_rbtree_node_t  *node;

    if (ngx_mcds_pages.root == NULL) {
        ngx_rbtree_init(&ngx_mcds_pages, &ngx_mcds_pages_sentinel,
                        ngx_mcds_page_insert);
        ngx_queue_init(&ngx_mcds_pages_idle);
        ngx_queue_init(&ngx_mcds_pages_reads);
    }

    hash = ngx_crc32_long(key->data, key->len);
    node = ngx_mcds_pages.root;

    while (node != &ngx_mcds_pages_sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        page = ngx_rbtree_data(node, ngx_mcds_page_t, node);

        rc = ngx_mcds_page_cmp(page, pool, key);

        if (rc == 0) {
            return page;
        }

        node = (rc > 0) ? node->left : node->right;
    }

    page = ngx_calloc(sizeof(ngx_mcds_page_t) + key->len, ngx_cycle->log);
    if (page == NULL) {
        return NULL;
    }

    page->node.key = hash;
    page->pool = pool;
    page->key.data = (u_char *) page + sizeof(ngx_mcds_page_t);
    page->key.len = key->len;
    ngx_memcpy(page->key.data, key->data, key->len);

    ngx_queue_init(&page->waiters);

    page->poll.handler = ngx_mcds_page_poll_handler;
    page->poll.data = page;
    page->poll.log = ngx_cycle->log;
    page->poll.cancelable = 1;

    ngx_rbtree_insert(&ngx_mcds_pages, &page->node);
    ngx_queue_insert_head(&ngx_mcds_pages_idle, &page->lru);
    ngx_mcds_pages_nidle++;

    return page;
}


static ngx_int_t
ngx_mcds_page_cmp(ngx_mcds_page_t *page, ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    if (page->pool != pool) {
        return (uintptr_t) page->pool > (uintptr_t) pool ? 1 : -1;
    }

    return ngx_memn2cmp(page->key.data, key->data, page->key.len, key->len);
}


/* equal hashes are ordered too: the tree moves them to either side */

static void
ngx_mcds_page_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_mcds_page_t     *page, *other;
    ngx_rbtree_node_t  **p;

    page = ngx_rbtree_data(node, ngx_mcds_page_t, node);

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            other = ngx_rbtree_data(temp, ngx_mcds_page_t, node);

            p = (ngx_mcds_page_cmp(other, page->pool, &page->key) > 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static void
ngx_mcds_page_ref(ngx_mcds_page_t *page)
{
    if (page->refs++ == 0) {
        ngx_queue_remove(&page->lru);
        ngx_mcds_pages_nidle--;
    }
}


static void
ngx_mcds_page_unref(ngx_mcds_page_t *page)
{
    ngx_queue_t  *q;

    if (--page->refs) {
        return;
    }

    /* nobody waits and nothing is under way */

    ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);

    ngx_queue_insert_head(&ngx_mcds_pages_idle, &page->lru);

    if (ngx_mcds_pages_nidle++ >= NGX_MCDS_PAGES) {
        q = ngx_queue_last(&ngx_mcds_pages_idle);
        ngx_mcds_page_forget(ngx_queue_data(q, ngx_mcds_page_t, lru));
    }
}


static void
ngx_mcds_page_forget(ngx_mcds_page_t *page)
{
    if (page->poll.timer_set) {
        ngx_del_timer(&page->poll);
    }

    ngx_queue_remove(&page->lru);
    ngx_mcds_pages_nidle--;

    ngx_rbtree_delete(&ngx_mcds_pages, &page->node);
    ngx_free(page);
}


static void
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


ngx_int_t
ngx_mcds_page_lookup(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;
    ngx_mcds_read_t  *read;

    page = seat->page;
    read = page->read;

    if (read == NULL) {
        read = ngx_alloc(sizeof(ngx_mcds_read_t), ngx_cycle->log);
        if (read == NULL) {
            return NGX_ERROR;
        }

        read->page = page;
        ngx_queue_init(&read->seats);
        ngx_queue_insert_tail(&ngx_mcds_pages_reads, &read->queue);

        page->read = read;
        ngx_mcds_page_ref(page);

        if (!ngx_mcds_pages_read_event.posted) {
            ngx_mcds_pages_read_event.handler = ngx_mcds_page_read_handler;
            ngx_mcds_pages_read_event.log = ngx_cycle->log;

            ngx_post_event(&ngx_mcds_pages_read_event, &ngx_posted_events);
        }
    }

    ngx_queue_insert_tail(&read->seats, &seat->queue);
    seat->want_copy = 1;

    return NGX_OK;
}


static void
ngx_mcds_page_read_handler(ngx_event_t *ev)
{
    ngx_queue_t         *q;
    ngx_mcds_page_t     *page;
    ngx_mcds_read_t     *read;
    ngx_mcds_result_t    result;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;

    while (!ngx_queue_empty(&ngx_mcds_pages_reads)) {
        q = ngx_queue_head(&ngx_mcds_pages_reads);
        ngx_queue_remove(q);

        read = ngx_queue_data(q, ngx_mcds_read_t, queue);
        page = read->page;
        page->read = NULL;

        req.key = page->key;
        req.limit = page->limit;
        req.bulk = page->big;

        if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_read_done, read)
            == NULL)
        {
            ngx_memzero(&result, sizeof(ngx_mcds_result_t));
            result.rc = NGX_MCDS_BUSY;
            ngx_mcds_page_read_done(read, &result);
        }
    }
}


static void
ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t         outcome;
    ngx_queue_t       *q;
    ngx_mcds_page_t   *page;
    ngx_mcds_copy_t   *copy;
    ngx_mcds_read_t   *read;
    ngx_mcds_seat_t   *seat;
    ngx_mcds_value_t  *value;

    read = data;
    page = read->page;
    copy = NULL;
    outcome = NGX_MCDS_PAGE_MISSING;

    if (result->rc == NGX_MCDS_OK && !ngx_queue_empty(&read->seats)) {
        page->big = (result->len >= NGX_MCDS_BULK);

        value = ngx_mcds_result_value(result, ngx_cycle->log);

        if (value) {
            copy = ngx_mcds_copy_create(page, value, result->cas);
            ngx_mcds_value_unref(value);
        }

        if (copy) {
            outcome = NGX_MCDS_PAGE_FOUND;
        }

        if (result->cas == 0) {
            ngx_mcds_page_no_cas(page);

            ngx_mcds_copy_unref(copy);
            copy = NULL;
            outcome = NGX_MCDS_PAGE_FAILED;
        }

    } else if (!ngx_mcds_answered(result->rc)) {
        outcome = NGX_MCDS_PAGE_FAILED;
    }

    while (!ngx_queue_empty(&read->seats)) {
        q = ngx_queue_head(&read->seats);
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        ngx_queue_remove(q);
        seat->want_copy = 0;

        seat->handler(seat->data, outcome, copy);
    }

    ngx_mcds_copy_unref(copy);
    ngx_free(read);
    ngx_mcds_page_unref(page);
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


ngx_int_t
ngx_mcds_page_enter(ngx_mcds_seat_t *seat, ngx_mcds_enter_t *enter,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = seat->page;
    page->lock_age = enter->lock_age;

    seat->wait = enter->wait;
    seat->max_waiters = enter->max_waiters;
    seat->refresh = enter->refresh;
    seat->has_old = enter->has_old;

    if (page->state == NGX_MCDS_IDLE) {

        if (page->held
            && (ngx_msec_int_t) (page->held_until - ngx_current_msec) <= 0)
        {
            page->held = 0;
        }

        /* what cannot be stored cannot be waited for on other workers */

        if (enter->local || ngx_mcds_page_refused(page)) {
            page->base = enter->cas;
            page->owner = seat;

            ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);
            seat->building = 1;

            *outcome = NGX_MCDS_PAGE_BUILD;
            return NGX_DONE;
        }

        if (!seat->refresh || !page->held) {
            ngx_mcds_page_start_lock(page, seat, enter->cas);
            return NGX_OK;
        }
    }

    if (seat->refresh) {
        *outcome = NGX_MCDS_PAGE_OTHER;
        return NGX_DONE;
    }

    if (ngx_mcds_page_wait(seat) != NGX_OK) {
        *outcome = NGX_MCDS_PAGE_TIMEOUT;
        return NGX_DONE;
    }

    return NGX_OK;
}


/* NGX_DECLINED: it may not wait */

static ngx_int_t
ngx_mcds_page_wait(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (seat->wait == 0 || page->nwaiters >= seat->max_waiters) {
        return NGX_DECLINED;
    }

    ngx_queue_insert_tail(&page->waiters, &seat->queue);
    seat->queued = 1;
    page->nwaiters++;

    seat->timer.handler = ngx_mcds_page_wait_handler;
    seat->timer.data = seat;
    seat->timer.log = ngx_cycle->log;

    ngx_add_timer(&seat->timer, seat->wait);

    if (page->state == NGX_MCDS_STORING
        || (page->state == NGX_MCDS_ELSEWHERE && !page->missing))
    {
        ngx_mcds_page_set_poll(page);
    }

    return NGX_OK;
}


static void
ngx_mcds_page_wait_handler(ngx_event_t *ev)
{
    ngx_mcds_seat_t  *seat;

    seat = ev->data;

    ngx_mcds_page_unqueue(seat);

    seat->handler(seat->data, NGX_MCDS_PAGE_TIMEOUT, NULL);
}


static void
ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_seat_t *owner,
    uint64_t cas)
{
    ngx_mcds_page_set_state(page, NGX_MCDS_LOCKING);

    page->owner = owner;
    page->base = cas;
    page->missing = 1;
    page->lock_rc = NGX_MCDS_BUSY;
    page->page_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    if (ngx_mcds_lock_acquire(page->pool, &page->key, page->lock_age,
                              ngx_mcds_page_locked, page)
        == NGX_OK)
    {
        page->missing++;
    }

    /* behind the lock's command on the same connection, see the top */

    (void) ngx_mcds_page_ask(page, cas == 0);

    if (--page->missing == 0) {

        /* out of memory; the owner hears of it in a posted event */

        ngx_mcds_page_elsewhere(page);
        ngx_mcds_page_unref(page);
    }
}


static void
ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    page->lock = lock;
    page->lock_rc = rc;

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


/* whole: with its value; otherwise only whether it has changed */

static ngx_int_t
ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = whole ? NGX_MCDS_VALUE|NGX_MCDS_CAS : NGX_MCDS_CAS;
    req.key = page->key;
    req.limit = page->limit;

    page->whole = whole;
    page->page_rc = NGX_MCDS_BUSY;
    page->page_cas = 0;

    if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_asked, page) == NULL) {
        return NGX_ERROR;
    }

    page->missing++;

    return NGX_OK;
}


static void
ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_value_t  *value;

    page = data;

    page->page_rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        page->page_cas = result->cas;

        if (result->has & NGX_MCDS_VALUE) {
            page->big = (result->len >= NGX_MCDS_BULK);

            value = ngx_mcds_result_value(result, ngx_cycle->log);

            if (value) {
                page->copy = ngx_mcds_copy_create(page, value, result->cas);
                ngx_mcds_value_unref(value);
            }
        }
    }

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


/* lock and page have answered */

static void
ngx_mcds_page_step(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_t  *copy;

    switch (ngx_mcds_page_changed(page)) {

    case NGX_AGAIN:

        /* changed, and now its value is on the way */

        return;

    case NGX_OK:
        copy = page->copy;
        page->copy = NULL;

        ngx_mcds_page_release(page, 0);
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);

        ngx_mcds_page_found(page, copy);
        ngx_mcds_copy_unref(copy);
        break;

    default: /* NGX_DECLINED */

        if (page->state == NGX_MCDS_LOCKING) {
            ngx_mcds_page_step_lock(page);

        } else {
            ngx_mcds_page_step_poll(page);
        }

        break;
    }

    ngx_mcds_page_unref(page);
}


/*
 * NGX_OK: there is another page than that of base, and here it is;
 * NGX_DECLINED: there is not.
 */

static ngx_int_t
ngx_mcds_page_changed(ngx_mcds_page_t *page)
{
    if (page->copy) {
        return NGX_OK;
    }

    if (page->page_rc == NGX_MCDS_NOT_FOUND) {
        page->base = 0;
        return NGX_DECLINED;
    }

    if (page->page_rc != NGX_MCDS_OK || page->page_cas == page->base) {
        return NGX_DECLINED;
    }

    if (!page->whole && ngx_mcds_page_ask(page, 1) == NGX_OK) {
        return NGX_AGAIN;
    }

    /* something that is no page: to be replaced as it is now */

    page->base = page->page_cas;

    return NGX_DECLINED;
}


static void
ngx_mcds_page_step_lock(ngx_mcds_page_t *page)
{
    if (page->lock_rc != NGX_MCDS_NOT_STORED) {

        /* the lock is held, or there is no lock to be had: then the build
           is for this worker alone */

        ngx_mcds_page_build(page);
        return;
    }

    page->held = 1;
    page->held_until = ngx_current_msec + NGX_MCDS_HELD;

    ngx_mcds_page_elsewhere(page);
}


static void
ngx_mcds_page_step_poll(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    if (page->lock_rc != NGX_MCDS_OK) {

        /* nobody builds it any more, or memcached does not answer */

        seat = ngx_mcds_page_next(page);

        if (seat) {
            ngx_mcds_page_start_lock(page, seat, page->base);
            return;
        }
    }

    if (page->kept) {
        ngx_mcds_page_give_up(page);
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


/* somebody here is to build; the lock is page->lock, or NULL */

static void
ngx_mcds_page_build(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    seat = page->owner;

    if (seat == NULL) {
        seat = ngx_mcds_page_next(page);
    }

    if (seat == NULL) {
        ngx_mcds_page_release(page, 0);
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);

    page->owner = seat;
    seat->building = 1;

    ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_BUILD, NULL);
}


/* for all who are here: the owner, if there is one, and those who wait */

static void
ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_uint_t        outcome;
    ngx_mcds_seat_t  *seat;

    outcome = (copy->entry.kind == NGX_MCDS_ENTRY_PASS)
              ? NGX_MCDS_PAGE_PASS : NGX_MCDS_PAGE_FOUND;

    seat = page->owner;
    page->owner = NULL;

    if (seat) {
        ngx_mcds_page_tell(seat, outcome, copy);
    }

    for ( ;; ) {
        seat = ngx_mcds_page_next(page);

        if (seat == NULL) {
            break;
        }

        ngx_mcds_page_tell(seat, outcome, copy);
    }
}


/* somebody else builds: the owner goes on with the old page or waits */

static void
ngx_mcds_page_elsewhere(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    ngx_mcds_page_set_state(page, NGX_MCDS_ELSEWHERE);

    page->poll_delay = NGX_MCDS_POLL_MIN;
    page->poll_next = ngx_current_msec + NGX_MCDS_POLL_MIN;

    if (ngx_mcds_pages_sequences) {
        page->sequence = *ngx_mcds_page_sequence(page);
    }

    seat = page->owner;
    page->owner = NULL;

    if (seat && seat->refresh) {
        ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_OTHER, NULL);

    } else if (seat && ngx_mcds_page_wait(seat) != NGX_OK) {
        ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_TIMEOUT, NULL);
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


static void
ngx_mcds_page_release(ngx_mcds_page_t *page, uint32_t keep)
{
    if (page->lock) {
        ngx_mcds_lock_release(page->lock, keep);
        page->lock = NULL;
    }
}


static ngx_mcds_seat_t *
ngx_mcds_page_next(ngx_mcds_page_t *page)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    if (ngx_queue_empty(&page->waiters)) {
        return NULL;
    }

    q = ngx_queue_head(&page->waiters);
    seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

    ngx_mcds_page_unqueue(seat);

    return seat;
}


static void
ngx_mcds_page_unqueue(ngx_mcds_seat_t *seat)
{
    ngx_queue_remove(&seat->queue);
    seat->queued = 0;
    seat->page->nwaiters--;

    if (seat->timer.timer_set) {
        ngx_del_timer(&seat->timer);
    }
}


static void
ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    seat->handler(seat->data, outcome,
                  outcome == NGX_MCDS_PAGE_FOUND ? copy : NULL);
}


void
ngx_mcds_page_built(ngx_mcds_seat_t *seat, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl)
{
    ngx_mcds_copy_t  *copy;
    ngx_mcds_page_t  *page;

    page = seat->page;

    seat->building = 0;
    page->owner = NULL;

    copy = NULL;

    if (value) {
        copy = ngx_mcds_copy_create(page, value, 0);
        ngx_mcds_value_unref(value);

        if (copy == NULL) {
            how = NGX_MCDS_BUILD_FAILED;
        }
    }

    if (how == NGX_MCDS_BUILD_FAILED
        || how == NGX_MCDS_BUILD_BACKOFF
        || copy == NULL)
    {
        ngx_mcds_copy_unref(copy);
        ngx_mcds_page_failed(page, how == NGX_MCDS_BUILD_BACKOFF);
        return;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_STORING);
    ngx_mcds_page_ref(page);

    page->built = copy;
    page->ttl = ttl;
    page->big = (copy->value->len >= NGX_MCDS_BULK);

    ngx_mcds_page_found(page, copy);

    if (ngx_mcds_page_refused(page) && copy->value->len >= page->refused) {
        ngx_mcds_page_stored(page, NULL);
        return;
    }

    page->refused = 0;

    if (ngx_mcds_page_put(page, copy->value) != NGX_OK) {
        ngx_mcds_page_stored(page, NULL);
    }
}


static ngx_uint_t
ngx_mcds_page_refused(ngx_mcds_page_t *page)
{
    if (page->refused
        && (ngx_msec_int_t) (page->refused_until - ngx_current_msec) <= 0)
    {
        page->refused = 0;
    }

    return page->refused != 0;
}


/* who has an old page does not wait for another try */

static void
ngx_mcds_page_give_up(ngx_mcds_page_t *page)
{
    ngx_queue_t      *q, *next;
    ngx_mcds_seat_t  *seat;

    for (q = ngx_queue_head(&page->waiters);
         q != ngx_queue_sentinel(&page->waiters);
         q = next)
    {
        next = ngx_queue_next(q);
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        if (seat->has_old) {
            ngx_mcds_page_unqueue(seat);
            ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_TIMEOUT, NULL);
        }
    }
}


static void
ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff)
{
    if (backoff) {
        ngx_mcds_page_give_up(page);
    }

    if (!ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_build(page);
        return;
    }

    if (backoff) {
        ngx_mcds_page_release(page, NGX_MCDS_BACKOFF);
        page->held = 1;
        page->held_until = ngx_current_msec + NGX_MCDS_BACKOFF * 1000;

    } else {
        ngx_mcds_page_release(page, 0);
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);

    if (ngx_mcds_pages_sequences) {
        (void) ngx_atomic_fetch_add(ngx_mcds_page_sequence(page), 1);
    }
}


static ngx_int_t
ngx_mcds_page_put(ngx_mcds_page_t *page, ngx_mcds_value_t *value)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = page->base ? NGX_MCDS_SET : NGX_MCDS_ADD;
    req.key = page->key;
    req.cas = page->base;
    req.ttl = page->ttl;
    req.value = value;

    if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_stored, page) == NULL)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_mcds_page_stored(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_key_t    key;
    ngx_mcds_copy_t  *copy;
    ngx_mcds_page_t  *page;

    page = data;
    copy = page->built;

    /*
     * NOT_FOUND: the old page was deleted meanwhile.  Whoever did so knows
     * more than an origin that was asked before; if it was evicted, the next
     * request builds once more.
     */

    if (result && result->rc == NGX_MCDS_TOO_LARGE) {
        ngx_mcds_key_show(&key, &page->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "page \"%*s\" of %uz bytes is too large for memcached",
                      (size_t) key.len, key.data, copy->value->len);

        page->refused = copy->value->len;
        page->refused_until = ngx_current_msec + NGX_MCDS_REFUSED;
    }

    page->built = NULL;
    page->held = 0;

    ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
    ngx_mcds_page_release(page, 0);

    if (ngx_mcds_pages_sequences) {
        (void) ngx_atomic_fetch_add(ngx_mcds_page_sequence(page), 1);
    }

    ngx_mcds_page_found(page, copy);

    ngx_mcds_copy_unref(copy);
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


void
ngx_mcds_page_store(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    uint64_t cas, ngx_uint_t replace)
{
    ngx_mcds_page_t     *page;
    ngx_mcds_request_t   req;

    page = seat->page;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = (cas || replace) ? NGX_MCDS_SET : NGX_MCDS_ADD;
    req.key = page->key;
    req.cas = replace ? 0 : cas;
    req.value = value;

    (void) ngx_mcds_submit(page->pool, &req, ngx_mcds_page_stored_plain, NULL);

    ngx_mcds_value_unref(value);
}


static void
ngx_mcds_page_stored_plain(void *data, ngx_mcds_result_t *result)
{
    /* void */
}


static void
ngx_mcds_page_set_poll(ngx_mcds_page_t *page)
{
    ngx_msec_int_t  left;

    if (page->poll.timer_set) {
        return;
    }

    if (page->state == NGX_MCDS_STORING) {
        ngx_add_timer(&page->poll, 1);
        return;
    }

    left = (ngx_msec_int_t) (page->poll_next - ngx_current_msec);
    left = ngx_max(left, 1);

    if (ngx_mcds_pages_sequences) {
        left = ngx_min(left, NGX_MCDS_POLL_MIN);
    }

    ngx_add_timer(&page->poll, left);
}


static void
ngx_mcds_page_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t           due;
    ngx_msec_t           delay;
    ngx_mcds_page_t     *page;
    ngx_atomic_uint_t    sequence;
    ngx_mcds_request_t   req;

    page = ev->data;

    if (ngx_queue_empty(&page->waiters)) {
        if (page->state == NGX_MCDS_ELSEWHERE && !page->missing) {
            ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        }

        return;
    }

    if (page->state == NGX_MCDS_STORING) {
        ngx_mcds_page_found(page, page->built);
        return;
    }

    if (page->state != NGX_MCDS_ELSEWHERE || page->missing) {
        return;
    }

    due = ((ngx_msec_int_t) (page->poll_next - ngx_current_msec) <= 0);

    if (ngx_mcds_pages_sequences) {
        sequence = *ngx_mcds_page_sequence(page);

        if (sequence != page->sequence) {
            page->sequence = sequence;
            due = 1;
        }
    }

    if (!due) {
        ngx_mcds_page_set_poll(page);
        return;
    }

    /* jitter is only ever downwards */

    delay = ngx_min(page->poll_delay * 3 / 2 + 1, NGX_MCDS_POLL_MAX);
    page->poll_delay = delay;
    page->poll_next = ngx_current_msec + delay
                      - (ngx_msec_t) ngx_random() % (delay / 4 + 1);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = page->key;
    ngx_str_set(&req.suffix, NGX_MCDS_LOCK_SUFFIX);
    req.by_key = 1;

    page->lock_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_lock_asked, page)
        != NULL)
    {
        page->missing++;
    }

    (void) ngx_mcds_page_ask(page, page->base == 0);

    if (page->missing == 0) {
        ngx_mcds_page_set_poll(page);
        ngx_mcds_page_unref(page);
    }
}


static void
ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t *page = data;

    page->lock_rc = result->rc;
    page->kept = (result->rc == NGX_MCDS_OK
                  && result->len == sizeof(NGX_MCDS_LOCK_KEPT) - 1
                  && ngx_memcmp(result->data, NGX_MCDS_LOCK_KEPT, result->len)
                     == 0);

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


static ngx_atomic_t *
ngx_mcds_page_sequence(ngx_mcds_page_t *page)
{
    return &ngx_mcds_pages_sequences[page->node.key
                                     % ngx_mcds_pages_nsequences];
}
