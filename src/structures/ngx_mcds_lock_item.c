
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_lock.h"


u_char *
ngx_mcds_lock_write(u_char *buf, ngx_mcds_lock_item_t *item)
{
    return ngx_sprintf(buf, "%uL %V", item->number, &item->owner);
}


ngx_int_t
ngx_mcds_lock_read(ngx_mcds_lock_item_t *item, u_char *data, size_t len)
{
    u_char  *p;

    p = ngx_strlchr(data, data + len, ' ');

    if (p == NULL
        || ngx_mcds_parse_number(data, p - data, &item->number) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    p++;

    item->owner.data = p;
    item->owner.len = data + len - p;

    return ngx_mcds_lock_check(&item->owner) == NGX_OK ? NGX_OK
                                                       : NGX_DECLINED;
}


ngx_int_t
ngx_mcds_lock_check(ngx_str_t *owner)
{
    size_t  i;

    if (owner->len == 0 || owner->len > NGX_MCDS_LOCK_OWNER) {
        return NGX_DECLINED;
    }

    for (i = 0; i < owner->len; i++) {
        if (owner->data[i] < 0x21 || owner->data[i] > 0x7e) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


uint64_t
ngx_mcds_lock_first(uint64_t now, uint64_t seen)
{
    return now > seen ? now : seen + 1;
}


ngx_msec_t
ngx_mcds_lock_interval(ngx_msec_t waited, ngx_msec_t wait, ngx_uint_t random)
{
    ngx_msec_t  half;

    half = NGX_MCDS_LOCK_INTERVAL / 2;

    if (waited > wait / 2) {
        half /= 2;
    }

    return half + random % (half + 1);
}


ngx_msec_t
ngx_mcds_lock_pause(ngx_msec_t series)
{
    return series < NGX_MCDS_LOCK_SERIES ? 0 : NGX_MCDS_LOCK_PAUSE;
}
