
/*
 * Copyright (C) mcds authors
 *
 * Signed pages: only a host that knows a secret can write them.  The signature
 * is the HMAC-SHA-256 of the whole item, in which the 32 bytes of the signature
 * and the checksum count as 0.  For a page the signature is the data of the
 * extension NGX_MCDS_ENTRY_EXT_SIGN.  For a part of a body the signature is in
 * the part's header, and the HMAC is that of the item followed by the page's
 * key: this key, and the body's generation in the header, bind the part to its
 * page.
 */


#ifndef _NGX_MCDS_SIGN_H_INCLUDED_
#define _NGX_MCDS_SIGN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"


#define NGX_MCDS_SIGN_LEN         32

/*
 * the size of the extension that holds the signature in a page's entry,
 * including the extension's type and length
 */
#define NGX_MCDS_SIGN_EXT         38


/*
 * The functions for signatures of pages.  The cache calls these functions only
 * if it has secrets, the keys of mcds_cache_hmac_key.  ngx_mcds_signing is NULL
 * if this build of mcds has no signatures (MCDS_WITHOUT): there are no secrets
 * then.
 */

typedef struct {
    u_char       *(*put)(u_char *p);
    ngx_int_t     (*sign)(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry,
                      ngx_array_t *secrets);
    ngx_int_t     (*check)(u_char *data, size_t len, ngx_mcds_entry_t *entry,
                      ngx_array_t *secrets);
    ngx_int_t     (*part)(ngx_mcds_value_t *value, ngx_str_t *key,
                      ngx_array_t *secrets);
    ngx_int_t     (*part_check)(ngx_mcds_value_t *value, ngx_str_t *key,
                      ngx_array_t *secrets);
} ngx_mcds_signing_t;

extern ngx_mcds_signing_t  *ngx_mcds_signing;
extern ngx_mcds_signing_t   ngx_mcds_sign_functions;


/* Returns 0 if nginx was built without OpenSSL: pages cannot be signed. */

ngx_uint_t ngx_mcds_sign_able(void);


/*
 * Reads the secret for signatures of pages from a file, without the line end,
 * and adds it to secrets, an array of ngx_str_t.  "directive" is the name of
 * the directive that names the file, for messages in the log.  Returns
 * NGX_ERROR, and logs why, if the file cannot be read or the secret has not 16
 * to 4096 bytes.
 */

ngx_int_t ngx_mcds_sign_read(ngx_conf_t *cf, char *directive, ngx_str_t *file,
    ngx_array_t *secrets);


/*
 * Writes the extension for the signature into a page's entry; the signature is
 * empty as yet.  Returns the end of the extension.
 */

u_char *ngx_mcds_sign_put(u_char *p);


/*
 * Signs the finished entry of a page with the first one of secrets, the keys of
 * mcds_cache_hmac_key.  value has the bytes of the entry, "entry" the parsed
 * fields.  The signature is written into the extension that ngx_mcds_sign_put()
 * has added to the entry.  Returns NGX_ERROR if this extension is missing or
 * OpenSSL fails.
 */

ngx_int_t ngx_mcds_sign(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);


/*
 * Returns NGX_OK if one of secrets, the keys of mcds_cache_hmac_key, has signed
 * a page's entry, NGX_DECLINED otherwise.  data is the value of the page's
 * item; "entry" was parsed from it.
 */

ngx_int_t ngx_mcds_sign_check(u_char *data, size_t len,
    ngx_mcds_entry_t *entry, ngx_array_t *secrets);


/*
 * Signs a finished part of a page's body, created with NGX_MCDS_PART_SIGNED.
 * key is that of the page.  The part is signed with the first one of secrets,
 * the keys of mcds_cache_hmac_key.  Returns NGX_ERROR if OpenSSL fails.
 */

ngx_int_t ngx_mcds_sign_part(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets);


/*
 * Returns NGX_OK if one of secrets, the keys of mcds_cache_hmac_key, has signed
 * this part of a body for the page with this key, NGX_DECLINED otherwise.
 */

ngx_int_t ngx_mcds_sign_part_check(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets);


#endif /* _NGX_MCDS_SIGN_H_INCLUDED_ */
