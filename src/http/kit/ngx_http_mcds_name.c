
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
 * Returns 1 if a key ends with a suffix that mcds uses.  Clients choose URIs,
 * and so keys of pages: a page with such a key would collide with the lock, the
 * size limit or the count of requests of another page.
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
        if (ngx_mcds_key_has_suffix(key, s)) {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns 1 if a counter with this key would collide with another item of mcds,
 * such as the item with the suffix ":fence" that numbers the owners of a lock
 * of mcds_lock.  A page cannot collide with that item, since the keys of pages
 * begin with "<".
 */

ngx_uint_t
ngx_http_mcds_counter_taken(ngx_str_t *key)
{
    ngx_str_t  fence = ngx_string(NGX_MCDS_LOCK_FENCE);

    return ngx_http_mcds_key_taken(key) || ngx_mcds_key_has_suffix(key, &fence);
}
