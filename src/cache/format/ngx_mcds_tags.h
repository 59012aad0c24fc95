
/*
 * Copyright (C) mcds authors
 *
 * The tags of a page, names by which pages are purged, see ngx_mcds_tag.h: the
 * list of them in the page's entry.
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
 * the maximum bytes of one tag of a page and of all its tags, and the maximum
 * number of its tags
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
 * Write and read the extension of an entry for a page's tags: the purge
 * counter, 8 bytes, and the list of tags.  ngx_mcds_tags_put() writes all of
 * it with its type and length, NGX_MCDS_TAGS_EXT bytes more than the list, and
 * returns the end.  ngx_mcds_tags_get() returns NGX_DECLINED if the entry has
 * no tags, NGX_ERROR if it has more, or other, names than ngx_mcds_tags_add()
 * makes.
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
