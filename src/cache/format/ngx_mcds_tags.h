
/*
 * Copyright (C) mcds authors
 *
 * The list of a page's tags in the page's entry.  Tags are names by which pages
 * are purged, see ngx_mcds_tag.h.
 */


#ifndef _NGX_MCDS_TAGS_H_INCLUDED_
#define _NGX_MCDS_TAGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


/*
 * the length of "host:", the longest prefix of a name in a page's list of tags
 */
#define NGX_MCDS_TAG_PREFIX       5

/*
 * the maximum length of one tag and of a page's whole list of tags, in bytes,
 * and the maximum number of tags in the list
 */
#define NGX_MCDS_TAG_LEN          1024
#define NGX_MCDS_TAGS_LEN         8192
#define NGX_MCDS_TAGS_MAX         128


/*
 * Returns NGX_OK if a text can be a tag of a page: it is neither empty nor too
 * long, and has no blanks and no commas.
 */

ngx_int_t ngx_mcds_tag_check(ngx_str_t *tag);


/*
 * Adds tags to the list of a page's tags, where spaces separate the names.
 * For each tag of the text, in which blanks or commas separate tags, appends
 * the prefix, "tag:" or "host:", and the tag; a tag that the list has is not
 * added again.  list has room for NGX_MCDS_TAGS_LEN bytes.  Returns
 * NGX_DECLINED if the list becomes too long, or if the text has an invalid
 * tag.
 */

ngx_int_t ngx_mcds_tags_add(ngx_str_t *list, char *prefix, ngx_str_t *text);


/*
 * These functions write and read the extension of a page's entry that has the
 * value of the purge counter (8 bytes, see ngx_mcds_tag.h) and the list of the
 * page's tags.  ngx_mcds_tags_put() writes the extension, NGX_MCDS_TAGS_EXT
 * bytes and the list, and returns the end of the list.  ngx_mcds_tags_get()
 * returns NGX_DECLINED if the entry has no tags, NGX_ERROR if the list is too
 * long or has a name other than "all", "tag:TAG" and "host:HOST".
 */

#define NGX_MCDS_TAGS_EXT         14

u_char *ngx_mcds_tags_put(u_char *p, uint64_t counter, ngx_str_t *list);
ngx_int_t ngx_mcds_tags_get(ngx_mcds_entry_t *entry, uint64_t *counter,
    ngx_str_t *list);


/*
 * Takes the first name from the list of a page's tags and advances the list.
 * Returns NGX_OK, or NGX_DONE if the list is empty.
 */

ngx_int_t ngx_mcds_tags_next(ngx_str_t *list, ngx_str_t *name);


#endif /* _NGX_MCDS_TAGS_H_INCLUDED_ */
