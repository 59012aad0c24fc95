
/*
 * Copyright (C) mcds authors
 *
 * Bodies that are too large for one item: cut into parts, see
 * ngx_mcds_part.h, which are stored while the body is still coming.
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
 * Bodies up to here stay in memory until they are stored, so that who waits
 * in this worker gets them if memcached does not; bytes.
 */
#define NGX_MCDS_SPLIT_KEEP       (8 * 1024 * 1024)


typedef struct ngx_mcds_split_s  ngx_mcds_split_t;


/*
 * The last part was answered.  NGX_MCDS_OK: memcached has them all; any
 * other: it does not.
 */

typedef void (*ngx_mcds_split_pt)(void *data, ngx_mcds_split_t *split,
    ngx_uint_t rc);


/*
 * NULL when out of memory, or when the servers are known to take no parts.
 * The key is copied.  secrets: the parts are signed, see ngx_mcds_sign.h; or
 * NULL.
 */

ngx_mcds_split_t *ngx_mcds_split_create(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_array_t *secrets);


/*
 * More of the body.  NGX_ERROR: it cannot be stored (logged), and is no
 * longer whole in memory.
 */

ngx_int_t ngx_mcds_split_append(ngx_mcds_split_t *split, u_char *data,
    size_t len);


/* bytes that memcached has not answered for yet; 0 when it need not any more */
size_t ngx_mcds_split_pending(ngx_mcds_split_t *split);


/*
 * Calls the handler once, from an event of its own, when pending is not more
 * than half of what it is now.
 */

void ngx_mcds_split_wait(ngx_mcds_split_t *split,
    void (*handler)(void *data), void *data);


/*
 * That was all of it; the handler is called once, not from inside of this
 * call.  While it runs, entry and part may be used; then the split is freed,
 * and what was stored is taken back unless it was all of it.
 */

void ngx_mcds_split_end(ngx_mcds_split_t *split, ngx_mcds_split_pt handler,
    void *data);


/* gives it up before its end, and takes back what was stored */
void ngx_mcds_split_abandon(ngx_mcds_split_t *split);


/* writes into an entry where its body is */
void ngx_mcds_split_entry(ngx_mcds_split_t *split, ngx_mcds_entry_t *entry);


/* part n as it was stored, if the body was kept; otherwise NULL */
ngx_mcds_value_t *ngx_mcds_split_part(ngx_mcds_split_t *split, uint32_t n);


#endif /* _NGX_MCDS_SPLIT_H_INCLUDED_ */
