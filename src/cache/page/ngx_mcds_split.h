
/*
 * Copyright (C) mcds authors
 *
 * Bodies that are too large for one item of memcached are cut into parts, which
 * are stored while the body is still being received; see ngx_mcds_part.h.
 */


#ifndef _NGX_MCDS_SPLIT_H_INCLUDED_
#define _NGX_MCDS_SPLIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_client.h"
#include "ngx_mcds_part.h"


/*
 * the maximum size of a body that stays in memory until it is stored, so that
 * requests that wait in this worker get the body even if the store fails;
 * bytes
 */
#define NGX_MCDS_SPLIT_KEEP       (8 * 1024 * 1024)


typedef struct ngx_mcds_split_s  ngx_mcds_split_t;


/*
 * The handler that is called when the store of a body in parts has ended.  rc
 * is NGX_MCDS_OK: memcached has all parts; any other code: at least one part is
 * not stored.
 */

typedef void (*ngx_mcds_split_pt)(void *data, ngx_mcds_split_t *split,
    ngx_uint_t rc);


/*
 * Creates ngx_mcds_split_t, which stores the body of a page in parts while it
 * arrives.  The key is copied.  With secrets, the keys of mcds_cache_hmac_key,
 * the parts are signed; secrets may be NULL.  Returns NULL if out of memory, or
 * if the servers are known to accept no parts.
 */

ngx_mcds_split_t *ngx_mcds_split_create(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_array_t *secrets);


/*
 * Appends data to a body that is stored in parts.  Returns NGX_ERROR if the
 * body cannot be stored and, in addition, is no longer completely in memory.
 */

ngx_int_t ngx_mcds_split_append(ngx_mcds_split_t *split, u_char *data,
    size_t len);


/*
 * Returns the number of bytes of a body in parts that memcached has not yet
 * acknowledged; 0 if the store has failed.
 */
size_t ngx_mcds_split_pending(ngx_mcds_split_t *split);


/*
 * Waits for memcached to store a body in parts: calls the handler once, from
 * an event of its own, when memcached has acknowledged at least half of the
 * bytes that were unacknowledged at this call, or the store has failed.
 */

void ngx_mcds_split_wait(ngx_mcds_split_t *split,
    void (*handler)(void *data), void *data);


/*
 * Tells ngx_mcds_split_t that the body is complete: no data will be appended.
 * The handler is called once, not from inside of this call, when all parts are
 * stored, or the store has failed; the handler may call ngx_mcds_split_entry()
 * and ngx_mcds_split_part().  When the handler returns, ngx_mcds_split_t is
 * freed and, if the store has failed, the stored parts are deleted.
 */

void ngx_mcds_split_end(ngx_mcds_split_t *split, ngx_mcds_split_pt handler,
    void *data);


/*
 * Gives up a body that is being stored in parts: frees ngx_mcds_split_t, and
 * deletes the parts that were stored.
 */
void ngx_mcds_split_abandon(ngx_mcds_split_t *split);


/* Sets the fields of a page's entry that describe the parts of its body. */
void ngx_mcds_split_entry(ngx_mcds_split_t *split, ngx_mcds_entry_t *entry);


/*
 * Returns part n of a body that was stored in parts, if the body is still in
 * memory, otherwise NULL.  Adds no reference.
 */
ngx_mcds_value_t *ngx_mcds_split_part(ngx_mcds_split_t *split, uint32_t n);


#endif /* _NGX_MCDS_SPLIT_H_INCLUDED_ */
