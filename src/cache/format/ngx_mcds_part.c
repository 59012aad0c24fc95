
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"


#define NGX_MCDS_PART_FORMAT      1


static uint32_t ngx_mcds_part_crc(u_char *data, size_t len);


static u_char  ngx_mcds_part_magic[] = { 'M', 'C', 'D', 'P' };


ngx_mcds_value_t *
ngx_mcds_part_begin(size_t header, size_t room, ngx_log_t *log)
{
    ngx_mcds_value_t  *value;

    value = ngx_mcds_value_create(header + room + NGX_MCDS_VALUE_SPARE, log);
    if (value == NULL) {
        return NULL;
    }

    ngx_memzero(value->data, header);
    ngx_mcds_put(value->data + 6, header, 2);

    value->len = header;

    return value;
}


void
ngx_mcds_part_finish(ngx_mcds_value_t *value, uint64_t generation, uint32_t n)
{
    u_char  *p;

    p = value->data;

    ngx_memcpy(p, ngx_mcds_part_magic, 4);

    p[4] = (u_char) NGX_MCDS_PART_FORMAT;

    ngx_mcds_put(p + 8, p + value->len - ngx_mcds_part_data(value), 4);
    ngx_mcds_put(p + 16, generation, 8);
    ngx_mcds_put(p + 24, n, 4);

    ngx_mcds_part_sum(value);
}


u_char *
ngx_mcds_part_data(ngx_mcds_value_t *value)
{
    return value->data + ngx_mcds_take(value->data + 6, 2);
}


void
ngx_mcds_part_sum(ngx_mcds_value_t *value)
{
    ngx_mcds_put(value->data + 12,
                 ngx_mcds_part_crc(value->data, value->len), 4);
}


ngx_int_t
ngx_mcds_part_read(ngx_str_t *body, u_char *data, size_t len,
    uint64_t generation, uint32_t n, size_t expected)
{
    size_t  header;

    if (len < NGX_MCDS_PART_HEADER
        || ngx_memcmp(data, ngx_mcds_part_magic, 4) != 0
        || data[4] != NGX_MCDS_PART_FORMAT)
    {
        return NGX_DECLINED;
    }

    header = (size_t) ngx_mcds_take(data + 6, 2);

    if (header < NGX_MCDS_PART_HEADER
        || header > len
        || len - header != expected
        || ngx_mcds_take(data + 8, 4) != expected
        || ngx_mcds_take(data + 16, 8) != generation
        || ngx_mcds_take(data + 24, 4) != n
        || ngx_mcds_take(data + 12, 4) != ngx_mcds_part_crc(data, len))
    {
        return NGX_DECLINED;
    }

    body->data = data + header;
    body->len = expected;

    return NGX_OK;
}


void
ngx_mcds_part_suffix(ngx_str_t *suffix, uint64_t generation, uint32_t n)
{
    suffix->len = ngx_sprintf(suffix->data, ":part:%016xL:%uD", generation, n)
                  - suffix->data;
}


static uint32_t
ngx_mcds_part_crc(u_char *data, size_t len)
{
    uint32_t  crc;

    crc = ngx_mcds_crc32c(0, data, 12);

    return ngx_mcds_crc32c(crc, data + 16, len - 16);
}
