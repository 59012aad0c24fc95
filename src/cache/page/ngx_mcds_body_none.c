
/*
 * Copyright (C) mcds authors
 *
 * Replaces the functions that read and store bodies in parts if mcds is
 * compiled without "large" (MCDS_WITHOUT).  ngx_mcds_split_create() returns
 * NULL, as if memcached accepted no value of a part's length, and
 * ngx_mcds_snapshot_create() refuses an entry whose body is in parts; so only
 * a purge may call one of the other functions for a body that is in parts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body.h"
#include "ngx_mcds_split.h"


ngx_mcds_split_t *
ngx_mcds_split_create(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_array_t *secrets)
{
    return NULL;
}


ngx_int_t
ngx_mcds_split_append(ngx_mcds_split_t *split, u_char *data, size_t len)
{
    return NGX_ERROR;
}


size_t
ngx_mcds_split_pending(ngx_mcds_split_t *split)
{
    return 0;
}


void
ngx_mcds_split_wait(ngx_mcds_split_t *split, void (*handler)(void *data),
    void *data)
{
    /* void */
}


void
ngx_mcds_split_end(ngx_mcds_split_t *split, ngx_mcds_split_pt handler,
    void *data)
{
    /* void */
}


void
ngx_mcds_split_abandon(ngx_mcds_split_t *split)
{
    /* void */
}


void
ngx_mcds_split_entry(ngx_mcds_split_t *split, ngx_mcds_entry_t *entry)
{
    /* void */
}


void
ngx_mcds_body_cut(ngx_mcds_entry_t *entry, ngx_mcds_cut_t *cut)
{
    ngx_memzero(cut, sizeof(ngx_mcds_cut_t));
}


ngx_uint_t
ngx_mcds_body_same(ngx_mcds_cut_t *cut, ngx_mcds_entry_t *entry)
{
    return 0;
}


/*
 * this build of mcds cannot cut bodies into parts; the parts of a page that
 * another host has stored stay until they expire
 */

void
ngx_mcds_body_drop(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_cut_t *cut, uint32_t linger)
{
    /* void */
}


ngx_int_t
ngx_mcds_body_check(ngx_mcds_snapshot_t *snapshot, ngx_uint_t window,
    ngx_mcds_body_pt handler, void *data)
{
    return NGX_ERROR;
}


ngx_mcds_body_t *
ngx_mcds_body_open(ngx_mcds_snapshot_t *snapshot, off_t from, off_t to,
    ngx_array_t *secrets, void (*handler)(void *data), void *data)
{
    return NULL;
}


void
ngx_mcds_body_close(ngx_mcds_body_t *body)
{
    /* void */
}


ngx_int_t
ngx_mcds_body_next(ngx_mcds_body_t *body, ngx_mcds_body_part_t **part,
    ngx_str_t *data)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_mcds_body_signed(ngx_mcds_body_t *body)
{
    return NGX_OK;
}


off_t
ngx_mcds_body_skip(ngx_mcds_entry_t *entry, off_t byte)
{
    return 0;
}


ngx_uint_t
ngx_mcds_body_ended(ngx_mcds_body_t *body)
{
    return 1;
}


void
ngx_mcds_body_done(ngx_mcds_body_t *body, ngx_mcds_body_part_t *part)
{
    /* void */
}


ngx_int_t
ngx_mcds_body_keep(ngx_mcds_snapshot_t *snapshot, ngx_mcds_split_t *split)
{
    return NGX_DECLINED;
}
