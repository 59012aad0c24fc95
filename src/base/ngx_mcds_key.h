
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_MCDS_KEY_H_INCLUDED_
#define _NGX_MCDS_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/* "sha1:", or of a page "<sha1:", and 40 hexadecimal digits */
#define NGX_MCDS_KEY_HASHED       45
#define NGX_MCDS_KEY_PAGE_HASHED  46

/* how the names of pages, and of whatever belongs to them, begin */
#define NGX_MCDS_KEY_PAGE         '<'


/*
 * A key as memcached gets it.  The part behind the prefix is what chooses the
 * server: libmemcached leaves its namespace out of the hash.
 */

typedef struct {
    u_short       len;            /* prefix included, 1 to 250 */
    u_short       prefix;         /* bytes of the prefix at the start */
    u_char        data[NGX_MCDS_MAX_KEY];
} ngx_mcds_key_t;


/*
 * Builds the key from a prefix (already checked, at most NGX_MCDS_MAX_PREFIX
 * bytes, may be empty) and the text base followed by suffix (may be empty).
 * The text is used as it is if it is not empty, prefix and text are together
 * 250 bytes at most, all its bytes are 0x21 to 0x7e, it does not begin with
 * "sha1:", and has no "<".  Any other text is replaced by "sha1:" and the 40
 * lower-case hexadecimal digits of the SHA-1 of base and suffix together.  So
 * different texts never share a key, and no byte of a text can end a command
 * early.  Never fails.
 *
 * page: of a page, or of what belongs to one, the text begins with "<"; if it
 * cannot be used as it is, it is replaced by "<sha1:" and those digits.
 * Neither prefixes nor the keys of anything else have a "<", so that no
 * configuration can give the key of a page to anything else.
 */

void ngx_mcds_key_build(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix);
void ngx_mcds_key_build_page(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix);


/*
 * The key of a text, or of a page's, without prefix and suffix: safe to be
 * shown in a log.
 */

void ngx_mcds_key_show(ngx_mcds_key_t *key, ngx_str_t *text);


/*
 * NGX_OK if the text may stand in front of a key: at most NGX_MCDS_MAX_PREFIX
 * bytes, all 0x21 to 0x7e, and no "<"; NGX_ERROR otherwise.
 */

ngx_int_t ngx_mcds_key_check_prefix(ngx_str_t *prefix);


/* 1 if the text ends with the suffix */

ngx_uint_t ngx_mcds_key_ends(ngx_str_t *text, ngx_str_t *suffix);


#endif /* _NGX_MCDS_KEY_H_INCLUDED_ */
