
/*
 * Copyright (C) mcds authors
 *
 * Names in memcached that clients must not be able to choose.
 */


#ifndef _NGX_HTTP_MCDS_NAME_H_INCLUDED_
#define _NGX_HTTP_MCDS_NAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the number of requests for a page that is not stored yet has this suffix */
#define NGX_HTTP_MCDS_USES_SUFFIX  ":uses"


/*
 * 1 if a key that a client has a part in is the name of an item that belongs
 * to another key: a lock, the limit of an item's size, a number of uses.
 */

ngx_uint_t ngx_http_mcds_key_taken(ngx_str_t *key);


#endif /* _NGX_HTTP_MCDS_NAME_H_INCLUDED_ */
