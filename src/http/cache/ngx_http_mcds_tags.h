
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_tag: the tags of pages, and the purges by tag.
 */


#ifndef _NGX_HTTP_MCDS_TAGS_H_INCLUDED_
#define _NGX_HTTP_MCDS_TAGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The functions for the tags of pages that the rest of the cache calls.
 *
 * start: looks up the purges of the tags that the page is likely to have.
 * NGX_OK, or NGX_ERROR when out of memory.
 *
 * judge: compares the tags of the page ctx->snapshot with the purges.  NGX_OK:
 * *verdict is set, ngx_mcds_tags_e; NGX_AGAIN: a reply of memcached is to come;
 * NGX_ERROR: out of memory.
 *
 * store: sets *ext to the extension for the tags of a page to be stored.
 * NGX_OK; NGX_DECLINED: the tags cannot be stored; NGX_ERROR: out of memory.
 *
 * renew: updates the purge counter in the entry of a page that the origin has
 * confirmed.
 * NGX_OK, or NGX_ERROR when out of memory.
 *
 * hurry, free, check, purge: see ngx_mcds_tag.h.
 */

typedef struct {
    ngx_int_t   (*start)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_http_mcds_cache_conf_t *ccf);
    ngx_int_t   (*judge)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_http_mcds_cache_conf_t *ccf, ngx_uint_t *verdict);
    ngx_int_t   (*store)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *ext);
    ngx_int_t   (*renew)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_mcds_entry_t *entry);
    void        (*hurry)(ngx_mcds_tags_t *tags);
    void        (*free)(ngx_mcds_tags_t *tags);
    ngx_int_t   (*check)(ngx_str_t *tag);
    ngx_int_t   (*purge)(ngx_mcds_pool_t *pool, ngx_str_t *record,
                    ngx_uint_t how, uint64_t now, ngx_mcds_tag_pt handler,
                    void *data);
} ngx_http_mcds_tagging_t;


/*
 * The functions for the tags of pages; NULL: this build of mcds has no tags
 * (MCDS_WITHOUT), so no location has tags, and stored pages that have tags are
 * not used.
 */

extern ngx_http_mcds_tagging_t  *ngx_http_mcds_tagging;
extern ngx_http_mcds_tagging_t   ngx_http_mcds_tags_functions;


/*
 * parses the directive mcds_cache_tag: the tags of pages, by which they are
 * purged
 */

char *ngx_http_mcds_cache_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_MCDS_TAGS_H_INCLUDED_ */
