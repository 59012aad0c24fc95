
/*
 * Copyright (C) mcds authors
 *
 * The purge counter of a memcached server, and its records of the purges by
 * tag, see ngx_mcds_tag.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_tag.h"
#include "ngx_mcds_tag_record.h"


#define NGX_MCDS_TAG_SPACE        "<mcds:"
#define NGX_MCDS_TAG_COUNTER      "<mcds:purges"


void
ngx_mcds_tag_request(ngx_mcds_request_t *req, ngx_str_t *record)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    ngx_str_set(&req->key, NGX_MCDS_TAG_SPACE);
    req->suffix = *record;
    req->page = 1;
}


void
ngx_mcds_tag_count(ngx_mcds_request_t *req, uint64_t now)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->verb = NGX_MCDS_INCR;
    req->want = NGX_MCDS_VALUE;
    ngx_str_set(&req->key, NGX_MCDS_TAG_COUNTER);
    req->page = 1;
    req->initial = now;
}


ngx_uint_t
ngx_mcds_tag_number(ngx_mcds_result_t *result, uint64_t *number)
{
    if (result->rc != NGX_MCDS_OK) {
        return result->rc;
    }

    return ((result->has & NGX_MCDS_VALUE)
            && ngx_mcds_parse_number(result->data, result->len, number)
               == NGX_OK)
           ? NGX_MCDS_OK : NGX_MCDS_NOT_NUMERIC;
}


ngx_int_t
ngx_mcds_tag_parse(ngx_mcds_result_t *result, uint64_t *purged,
    uint64_t *deleted)
{
    u_char  *p, *last;

    if (!(result->has & NGX_MCDS_VALUE)) {
        return NGX_DECLINED;
    }

    last = result->data + result->len;
    p = ngx_strlchr(result->data, last, ' ');

    if (p == NULL
        || ngx_mcds_parse_number(result->data, p - result->data, purged)
           != NGX_OK
        || ngx_mcds_parse_number(p + 1, last - p - 1, deleted) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}
