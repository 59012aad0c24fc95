
/*
 * Copyright (C) mcds authors
 *
 * What was built: those who wait are told, and memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/* a page that memcached does not take is not offered to it so long, ms */
#define NGX_MCDS_REFUSED          60000


static ngx_int_t ngx_mcds_page_put(ngx_mcds_page_t *page,
    ngx_mcds_value_t *value);
static void ngx_mcds_page_stored(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_stored_plain(void *data, ngx_mcds_result_t *result);


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


ngx_uint_t
ngx_mcds_page_refused(ngx_mcds_page_t *page)
{
    if (page->refused
        && (ngx_msec_int_t) (page->refused_until - ngx_current_msec) <= 0)
    {
        page->refused = 0;
    }

    return page->refused != 0;
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
    req.movable = 1;

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

    ngx_mcds_page_moved(page);

    ngx_mcds_page_found(page, copy);

    ngx_mcds_copy_unref(copy);
    ngx_mcds_page_unref(page);
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
    req.movable = 1;

    (void) ngx_mcds_submit(page->pool, &req, ngx_mcds_page_stored_plain, NULL);

    ngx_mcds_value_unref(value);
}


static void
ngx_mcds_page_stored_plain(void *data, ngx_mcds_result_t *result)
{
    /* void */
}
