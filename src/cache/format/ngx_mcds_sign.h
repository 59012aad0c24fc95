
/*
 * Copyright (C) mcds authors
 *
 * Pages that only those can write who have a secret: HMAC-SHA-256 of the whole
 * item, with the 32 bytes of the signature and the checksum taken as 0.  The
 * signature is the data of an extension, NGX_MCDS_ENTRY_EXT_SIGN.  That of a
 * part stands in its header, and is of the key of its page, too, which follows
 * the item; the generation makes it a part of that one page.
 */


#ifndef _NGX_MCDS_SIGN_H_INCLUDED_
#define _NGX_MCDS_SIGN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"


#define NGX_MCDS_SIGN_LEN         32

/* the extension with its type and length */
#define NGX_MCDS_SIGN_EXT         38


/* 0 if this nginx has no library for it */

ngx_uint_t ngx_mcds_sign_able(void);


/*
 * Adds what is in a file to secrets (ngx_str_t), without the end of its line;
 * directive is for messages.
 */

ngx_int_t ngx_mcds_sign_read(ngx_conf_t *cf, char *directive, ngx_str_t *file,
    ngx_array_t *secrets);


/* writes the extension, not signed yet; returns the end */

u_char *ngx_mcds_sign_put(u_char *p);


/*
 * Signs a finished entry, which begins at data and has the extension;
 * NGX_ERROR: it has none, or the library fails.  check: NGX_OK if one of the
 * secrets (ngx_str_t) has signed it.  entry was read from data, or written to
 * it.
 */

ngx_int_t ngx_mcds_sign(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
ngx_int_t ngx_mcds_sign_check(u_char *data, size_t len,
    ngx_mcds_entry_t *entry, ngx_array_t *secrets);


/*
 * The same of a finished part, begun with NGX_MCDS_PART_SIGNED, of the page of
 * a key.  check: of one that was read.
 */

ngx_int_t ngx_mcds_sign_part(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets);
ngx_int_t ngx_mcds_sign_part_check(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets);


#endif /* _NGX_MCDS_SIGN_H_INCLUDED_ */
