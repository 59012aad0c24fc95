
/*
 * Copyright (C) mcds authors
 *
 * What lengths of values the servers of a pool take: memcached does not tell,
 * it has to be found out.
 */


#ifndef _NGX_MCDS_LIMIT_H_INCLUDED_
#define _NGX_MCDS_LIMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/*
 * The longest value that one item of the pool's servers takes, as far as this
 * worker knows.
 */

size_t ngx_mcds_limit(ngx_mcds_pool_t *pool);


/* the length of what larger ones are split into; 0: they are not */

size_t ngx_mcds_limit_level(ngx_mcds_pool_t *pool);


/*
 * A value of this length was TOO_LARGE: what is longer than what is tried next
 * is split from now on.  NGX_OK, or NGX_DECLINED if nothing smaller is tried.
 */

ngx_int_t ngx_mcds_limit_learn(ngx_mcds_pool_t *pool, size_t len);


/*
 * A memcached that refuses a value removes the old one, which may be the mark
 * of a purge.  So it is asked with another value, under the key with SUFFIX,
 * whether it takes one of this length.  NGX_OK: the handler will be called,
 * once, when more is known, if not all.  NGX_DECLINED: this is known, or cannot
 * be found out.
 */

#define NGX_MCDS_LIMIT_SUFFIX     ":size"

ngx_int_t ngx_mcds_limit_try(ngx_mcds_pool_t *pool, ngx_str_t *key, size_t len,
    void (*handler)(void *data), void *data);


#endif /* _NGX_MCDS_LIMIT_H_INCLUDED_ */
