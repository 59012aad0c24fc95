
/*
 * Copyright (C) mcds authors
 *
 * The pages that a worker knows: those that requests use now, and those that
 * the worker remembers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_newer.h"
#include "ngx_mcds_page_core.h"


/*
 * the limits of the pages that a worker remembers though no request uses them:
 * their number, and their bytes
 */
#define NGX_MCDS_PAGES            4096
#define NGX_MCDS_PAGES_SIZE       (16 * 1024 * 1024)

/*
 * the maximum number and size in bytes of all pages that a worker knows; both
 * limits are so high that no load reaches them
 */
#define NGX_MCDS_PAGES_ALL        1048576
#define NGX_MCDS_PAGES_ALL_SIZE   (1024 * 1024 * 1024)

#define NGX_MCDS_PAGES_BUCKETS    4096


static ngx_mcds_page_t *ngx_mcds_page_find(ngx_mcds_pool_t *pool,
    ngx_str_t *key, uint32_t hash);
static void ngx_mcds_page_forget(ngx_mcds_index_node_t *node);


#if (NGX_DEBUG)

static char  *ngx_mcds_page_states[] = {
    NGX_MCDS_STATES(ngx_mcds_page_state_name)
    NULL
};

#endif


/* the pages that this worker knows, by their keys */

static ngx_mcds_index_node_t  *ngx_mcds_pages_buckets[NGX_MCDS_PAGES_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_pages =
    ngx_mcds_index(ngx_mcds_pages_buckets, NGX_MCDS_PAGES_ALL,
                   NGX_MCDS_PAGES_ALL_SIZE, NGX_MCDS_PAGES,
                   NGX_MCDS_PAGES_SIZE, ngx_mcds_page_forget);
static ngx_atomic_t      *ngx_mcds_pages_sequences;
static ngx_uint_t         ngx_mcds_pages_nsequences;


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
ngx_mcds_page_request(ngx_mcds_page_t *page, ngx_mcds_request_t *req,
    ngx_uint_t want)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->verb = NGX_MCDS_GET;
    req->want = want;
    req->newer = (want & NGX_MCDS_FLAGS) ? ngx_mcds_newer : NULL;
    req->key = page->key;
    req->limit = page->limit;
    req->page = 1;
    req->movable = 1;
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
ngx_mcds_page_build_ended(ngx_mcds_page_t *page)
{
    ngx_atomic_t  *sequence;

    sequence = ngx_mcds_page_sequence(page);

    if (sequence) {
        (void) ngx_atomic_fetch_add(sequence, 1);
    }
}


ngx_mcds_page_t *
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
ngx_mcds_page_used(ngx_mcds_waiter_t *waiter, ngx_str_t *key)
{
    ngx_uint_t        used;
    ngx_mcds_page_t  *page;

    page = ngx_mcds_page_find(waiter->page->pool, key,
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

    /*
     * no request waits for the page, and no memcached command about it is
     * under way, so its state is reset
     */

    ngx_mcds_page_set_idle(page);

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
        ngx_mcds_local_id(page->hold.id, &page->pool->name,
                          &page->pool->prefix, &page->key);
        page->named = 1;
    }

    return page->hold.id;
}


ngx_uint_t
ngx_mcds_page_refused(ngx_mcds_page_t *page)
{
    if (page->refused
        && page->refused_until <= ngx_mcds_clock(ngx_current_msec))
    {
        page->refused = 0;
    }

    return page->refused != 0;
}
