
/*
 * Copyright (C) mcds authors
 *
 * The maximum length of a value on the servers of a pool.  Each worker learns
 * this limit by trying.
 */


#ifndef _NGX_MCDS_ITEM_SIZE_H_INCLUDED_
#define _NGX_MCDS_ITEM_SIZE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/*
 * Returns the maximum length of a value in one item of the pool's servers, as
 * far as this worker knows; bytes.
 */

size_t ngx_mcds_item_size(ngx_mcds_pool_t *pool);


/*
 * A value longer than memcached accepts is split into parts: returns the length
 * of a part with its header, in bytes; 0: such a value is not split.
 */

size_t ngx_mcds_item_size_level(ngx_mcds_pool_t *pool);


/*
 * Notes that the servers of a pool refuse a value of len bytes: values that
 * are longer than the next smaller length to try are split from now on.
 * Returns NGX_DECLINED if there is no smaller length to try.
 */

ngx_int_t ngx_mcds_item_size_learn(ngx_mcds_pool_t *pool, size_t len);


/*
 * the suffix of a page's key for an item that only shows whether memcached
 * accepts a value of its length
 */

#define NGX_MCDS_ITEM_SIZE_SUFFIX ":size"


/*
 * Finds out whether the servers accept a value of len bytes for a page's key.
 * A memcached that refuses a value removes the item that the key has, which may
 * be the one that says that the page was purged; so, instead of the page, a
 * value of zeros, of at least len bytes, is sent under the key with
 * NGX_MCDS_ITEM_SIZE_SUFFIX.  NGX_OK: the handler is called once, when
 * memcached has replied, even if the maximum length is still not known exactly.
 * NGX_DECLINED: no value is sent, as it is known whether this length is
 * accepted, or out of memory.
 */

ngx_int_t ngx_mcds_item_size_try(ngx_mcds_pool_t *pool, ngx_str_t *key,
    size_t len, void (*handler)(void *data), void *data);


#endif /* _NGX_MCDS_ITEM_SIZE_H_INCLUDED_ */
