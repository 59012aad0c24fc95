
/*
 * Copyright (C) mcds authors
 *
 * How the store of a page treats another version of the page, which another
 * worker or host has stored meanwhile.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lack.h"
#include "ngx_mcds_page_store.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"


static ngx_int_t ngx_mcds_store_other(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result, ngx_mcds_entry_t *other);
static ngx_uint_t ngx_mcds_store_older(ngx_mcds_store_t *store,
    ngx_mcds_entry_t *other);


ngx_uint_t
ngx_mcds_store_newer(ngx_mcds_store_t *store, ngx_mcds_result_t *result)
{
    ngx_mcds_entry_t  other;

    return ngx_mcds_store_other(store, result, &other) == NGX_OK
           && (other.kind == NGX_MCDS_ENTRY_PAGE
               || other.kind == NGX_MCDS_ENTRY_PASS)
           && !(other.flags & NGX_MCDS_ENTRY_INVALID)
           && ngx_mcds_store_older(store, &other);
}


/*
 * Returns 1 if the page in memcached was invalidated, but not deleted, during
 * the build, and the built page is newer: the built page is stored as expired.
 * Without this store, an ever older page would stay in memcached if unsafe
 * requests, such as POST, invalidate the page faster than it is built.
 */

ngx_uint_t
ngx_mcds_store_invalidated(ngx_mcds_store_t *store, ngx_mcds_result_t *result)
{
    ngx_mcds_entry_t  other, *entry;

    entry = &store->snapshot->entry;

    if (ngx_mcds_store_other(store, result, &other) != NGX_OK
        || !(other.flags & NGX_MCDS_ENTRY_INVALID)
        || (entry->flags & NGX_MCDS_ENTRY_REVALIDATE))
    {
        return 0;
    }

    if (other.kind == NGX_MCDS_ENTRY_PURGED) {
        return !store->renewed;
    }

    return other.kind == NGX_MCDS_ENTRY_PAGE
           && (!store->renewed || other.generation == entry->generation)
           && ngx_mcds_store_older(store, &other);
}


/*
 * Reads the version of a page that another worker or host has stored meanwhile,
 * from the item that memcached has now.  Returns NGX_DECLINED if the item is
 * invalid or not signed, or needs a feature that this build of mcds lacks.
 */

static ngx_int_t
ngx_mcds_store_other(ngx_mcds_store_t *store, ngx_mcds_result_t *result,
    ngx_mcds_entry_t *other)
{
    char  *why;

    if (result->cas == 0
        || ngx_mcds_entry_read(other, result->data, result->len,
                               &store->page->key, &why)
           != NGX_OK
        || (store->secrets
            && other->kind == NGX_MCDS_ENTRY_PAGE
            && ngx_mcds_signing->check(result->data, result->len, other,
                                       store->secrets)
               != NGX_OK)
        || ngx_mcds_entry_lacks(other))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_mcds_store_older(ngx_mcds_store_t *store, ngx_mcds_entry_t *other)
{
    ngx_mcds_entry_t  *entry;

    entry = &store->snapshot->entry;

    return other->created + entry->took + NGX_MCDS_SKEW < entry->created;
}


/*
 * Makes a copy of the built page, and marks the copy as expired.  As the page
 * was invalidated during its build, the copy expires at the start of the build,
 * less NGX_MCDS_SKEW for other hosts' clocks.
 */

ngx_int_t
ngx_mcds_store_expire(ngx_mcds_store_t *store)
{
    ngx_mcds_entry_t  *entry;
    ngx_mcds_value_t  *value;

    if (store->expired) {
        return NGX_OK;
    }

    value = ngx_mcds_value_create(store->snapshot->value->len
                                  + NGX_MCDS_VALUE_SPARE, ngx_cycle->log);
    if (value == NULL) {
        return NGX_ERROR;
    }

    value->len = store->snapshot->value->len;
    ngx_memcpy(value->data, store->snapshot->value->data, value->len);

    entry = &store->snapshot->entry;

    ngx_mcds_entry_mark(value, NGX_MCDS_ENTRY_INVALID,
                        entry->created - entry->took - NGX_MCDS_SKEW);

    if (store->secrets) {
        (void) ngx_mcds_signing->sign(value, entry, store->secrets);
    }

    store->expired = value;

    return NGX_OK;
}


ngx_mcds_value_t *
ngx_mcds_store_value(ngx_mcds_store_t *store)
{
    return store->expired ? store->expired : store->snapshot->value;
}
