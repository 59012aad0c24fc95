
/*
 * Copyright (C) mcds authors
 */


#ifndef _NGX_MCDS_KEY_H_INCLUDED_
#define _NGX_MCDS_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * lengths of hashed keys: "sha1:" or, for a page, "<sha1:", and 40 hexadecimal
 * digits of a hash
 */
#define NGX_MCDS_KEY_HASHED       45
#define NGX_MCDS_KEY_PAGE_HASHED  46

/*
 * the first byte, after the prefix of the pool, of the key of a page or of an
 * item that belongs to a page
 */
#define NGX_MCDS_KEY_PAGE         '<'


/*
 * A key as memcached gets it.  A hash of the bytes after the prefix chooses the
 * server, as with libmemcached, whose prefix, the namespace, is not hashed.
 */

typedef struct {
    u_short       len;            /* length of the key, 1 to 250 */
    u_short       prefix;         /* length of the prefix, which is the
                                     beginning of the key */
    u_char        data[NGX_MCDS_MAX_KEY];
} ngx_mcds_key_t;


/*
 * Builds the key of anything but a page, from the prefix and the text, which is
 * base followed by suffix.  Cannot fail.  The prefix has passed
 * ngx_mcds_key_check_prefix().  Prefix, base and suffix may be empty.
 *
 * The text is used as it is if it is not empty, prefix and text have at most
 * 250 bytes together, all bytes of the text are 0x21 to 0x7e, and the text
 * neither begins with "sha1:" nor contains "<".  Any other text is replaced by
 * "sha1:" and the 40 lower-case hexadecimal digits of its SHA-1.  So different
 * texts never share a key, and no byte of a text can end a command early.
 */

void ngx_mcds_key_build(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix);


/*
 * Builds the key of a page, or of an item that belongs to a page, as
 * ngx_mcds_key_build() does.  The text begins with "<"; if it cannot be used as
 * it is, "<sha1:" and the digits of its SHA-1 replace it.  As neither a prefix
 * nor any other key contains "<", no configuration can give the key of a page
 * to anything else.
 */

void ngx_mcds_key_build_page(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix);


/*
 * Builds a printable key, to be written to a log, from the text, which is the
 * key of a page or of anything else.  Adds neither the prefix of a pool nor a
 * suffix.
 */

void ngx_mcds_key_show(ngx_mcds_key_t *key, ngx_str_t *text);


/*
 * Checks the prefix of a pool.  Returns NGX_OK if it has at most
 * NGX_MCDS_MAX_PREFIX bytes, all 0x21 to 0x7e, and no "<"; NGX_ERROR otherwise.
 */

ngx_int_t ngx_mcds_key_check_prefix(ngx_str_t *prefix);


/*
 * Looks from p on for the first byte that a key cannot have, one that is not
 * 0x21 to 0x7e.  Returns its position, or last if there is none.
 */

u_char *ngx_mcds_key_end(u_char *p, u_char *last);


/* Returns 1 if the text ends with the suffix. */

ngx_uint_t ngx_mcds_key_has_suffix(ngx_str_t *text, ngx_str_t *suffix);


#endif /* _NGX_MCDS_KEY_H_INCLUDED_ */
