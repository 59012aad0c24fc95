
/*
 * Copyright (C) mcds authors
 *
 * Keys in memcached that a client must not be able to choose.
 */


#ifndef _NGX_HTTP_MCDS_NAME_H_INCLUDED_
#define _NGX_HTTP_MCDS_NAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * the suffix that the key of a page not yet stored gets, for the item in
 * memcached that counts the requests for this page
 */
#define NGX_HTTP_MCDS_USES_SUFFIX  ":uses"


/*
 * Returns 1 if the key, of which a client has chosen a part, would collide with
 * an item that mcds keeps for another key: a lock, a limit of an item's size,
 * or a count of requests.
 */

ngx_uint_t ngx_http_mcds_key_taken(ngx_str_t *key);

/*
 * Returns 1 if the key of a counter, of which a client has chosen a part, would
 * collide with another item of mcds in memcached: one of those that are named
 * above, or the item that numbers the owners of a lock.
 */

ngx_uint_t ngx_http_mcds_counter_taken(ngx_str_t *key);


#endif /* _NGX_HTTP_MCDS_NAME_H_INCLUDED_ */
