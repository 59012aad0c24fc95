
/*
 * Copyright (C) mcds authors
 *
 * The tags of a page, as its entry has them, see ngx_mcds_tag.h.
 */


#ifndef _NGX_MCDS_TAGS_H_INCLUDED_
#define _NGX_MCDS_TAGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


/* "host:", the longest of what stands before a name in a record's */
#define NGX_MCDS_TAG_PREFIX       5

/* of one tag, and of one page, bytes; and how many a page may have */
#define NGX_MCDS_TAG_LEN          1024
#define NGX_MCDS_TAGS_LEN         8192
#define NGX_MCDS_TAGS_MAX         128


/* NGX_OK if it can be a tag: not empty nor too long, no blanks, no commas */

ngx_int_t ngx_mcds_tag_check(ngx_str_t *tag);


/*
 * The list of a page: names of records, with spaces between.  add: appends
 * "tag:" and each tag of a text in which blanks or commas are between them,
 * or with a prefix that is not "tag:" the text as one.  list has room for
 * NGX_MCDS_TAGS_LEN bytes.  NGX_DECLINED: that is too much, or not a tag.
 */

ngx_int_t ngx_mcds_tags_add(ngx_str_t *list, char *prefix, ngx_str_t *text);


/*
 * The extension of a page: the counter, 8 bytes, and the list.  put writes
 * all of it with its type and length, NGX_MCDS_TAGS_EXT bytes more than the
 * list; returns the end.  get: NGX_DECLINED if the entry has none, NGX_ERROR if
 * it has more, or other, names than add makes.
 */

#define NGX_MCDS_TAGS_EXT         14

u_char *ngx_mcds_tags_put(u_char *p, uint64_t counter, ngx_str_t *list);
ngx_int_t ngx_mcds_tags_get(ngx_mcds_entry_t *entry, uint64_t *counter,
    ngx_str_t *list);


/* takes the first name from a list; NGX_DONE: there is none */

ngx_int_t ngx_mcds_tags_next(ngx_str_t *list, ngx_str_t *name);


#endif /* _NGX_MCDS_TAGS_H_INCLUDED_ */
