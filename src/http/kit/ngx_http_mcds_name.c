
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_lease.h"
#include "ngx_mcds_lock.h"
#include "ngx_mcds_item_size.h"
#include "ngx_http_mcds_name.h"


/*
 * clients choose URIs, and so keys of pages: with a suffix that mcds uses, the
 * key would be that of another page's lock, size limit or count of requests
 */

ngx_uint_t
ngx_http_mcds_key_taken(ngx_str_t *key)
{
    ngx_str_t  *s;

    static ngx_str_t  suffixes[] = {
        ngx_string(NGX_MCDS_LEASE_SUFFIX),
        ngx_string(NGX_MCDS_ITEM_SIZE_SUFFIX),
        ngx_string(NGX_HTTP_MCDS_USES_SUFFIX),
        ngx_null_string
    };

    for (s = suffixes; s->len; s++) {
        if (ngx_mcds_key_ends(key, s)) {
            return 1;
        }
    }

    return 0;
}


/*
 * a counter could have the key of the item that counts the owners of a lock of
 * mcds_lock; a page could not, since the keys of pages have "<" in front
 */

ngx_uint_t
ngx_http_mcds_counter_taken(ngx_str_t *key)
{
    ngx_str_t  fence = ngx_string(NGX_MCDS_LOCK_FENCE);

    return ngx_http_mcds_key_taken(key) || ngx_mcds_key_ends(key, &fence);
}
