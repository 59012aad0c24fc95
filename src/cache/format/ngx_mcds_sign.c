
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#if (NGX_SSL)
#include <ngx_event_openssl.h>
#include <openssl/hmac.h>
#endif

#include "ngx_mcds_sign.h"


#define NGX_MCDS_SIGN_MIN         16
#define NGX_MCDS_SIGN_MAX         4096

/* the offset of the signature in an item with a part of a page's body */
#define NGX_MCDS_SIGN_PART        NGX_MCDS_PART_HEADER


static ngx_int_t ngx_mcds_sign_compare(u_char *data, size_t len, size_t at,
    ngx_str_t *key, ngx_array_t *secrets);
static ngx_int_t ngx_mcds_sign_make(u_char *data, size_t len, size_t at,
    ngx_str_t *key, ngx_str_t *secret, u_char *mac);
static ngx_int_t ngx_mcds_sign_find(ngx_mcds_entry_t *entry, size_t header,
    size_t *at);


ngx_mcds_signing_t  ngx_mcds_sign_functions = {
    ngx_mcds_sign_put,
    ngx_mcds_sign,
    ngx_mcds_sign_check,
    ngx_mcds_sign_part,
    ngx_mcds_sign_part_check
};


ngx_uint_t
ngx_mcds_sign_able(void)
{
#if (NGX_SSL)
    return 1;
#else
    return 0;
#endif
}


ngx_int_t
ngx_mcds_sign_read(ngx_conf_t *cf, char *directive, ngx_str_t *file,
    ngx_array_t *secrets)
{
    u_char      buf[NGX_MCDS_SIGN_MAX + 2];
    ssize_t     n;
    ngx_fd_t    fd;
    ngx_err_t   err;
    ngx_str_t  *secret;

    fd = ngx_open_file(file->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"%s\": " ngx_open_file_n " \"%V\" failed",
                           directive, file);
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, buf, sizeof(buf));
    err = ngx_errno;

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", file);
    }

    if (n == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                           "\"%s\": " ngx_read_fd_n " \"%V\" failed",
                           directive, file);
        return NGX_ERROR;
    }

    while (n > 0 && (buf[n - 1] == CR || buf[n - 1] == LF)) {
        n--;
    }

    if (n < NGX_MCDS_SIGN_MIN || n > NGX_MCDS_SIGN_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%s\": key in \"%V\" must be 16 to 4096 bytes "
                           "long", directive, file);
        ngx_explicit_memzero(buf, sizeof(buf));
        return NGX_ERROR;
    }

    secret = ngx_array_push(secrets);

    if (secret) {
        secret->len = n;
        secret->data = ngx_pnalloc(cf->pool, n);

        if (secret->data) {
            ngx_memcpy(secret->data, buf, n);

        } else {
            secret = NULL;
        }
    }

    ngx_explicit_memzero(buf, sizeof(buf));

    return secret ? NGX_OK : NGX_ERROR;
}


u_char *
ngx_mcds_sign_put(u_char *p)
{
    *p++ = NGX_MCDS_ENTRY_EXT_SIGN;
    *p++ = 0;
    *p++ = NGX_MCDS_SIGN_LEN;
    *p++ = 0;
    *p++ = 0;
    *p++ = 0;

    ngx_memzero(p, NGX_MCDS_SIGN_LEN);

    return p + NGX_MCDS_SIGN_LEN;
}


ngx_int_t
ngx_mcds_sign(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    size_t  at, header;
    u_char  mac[NGX_MCDS_SIGN_LEN];

    header = (size_t) value->data[6] | (size_t) value->data[7] << 8;

    if (ngx_mcds_sign_find(entry, header, &at) != NGX_OK
        || ngx_mcds_sign_make(value->data, value->len, at, NULL,
                              secrets->elts, mac)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(value->data + at, mac, NGX_MCDS_SIGN_LEN);

    /*
     * the checksum of the page's entry covers the signature, so it is computed
     * again
     */

    ngx_mcds_entry_mark(value, 0, (uint64_t) -1);

    return NGX_OK;
}


ngx_int_t
ngx_mcds_sign_check(u_char *data, size_t len, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    size_t  at, header;

    header = (size_t) data[6] | (size_t) data[7] << 8;

    if (ngx_mcds_sign_find(entry, header, &at) != NGX_OK) {
        return NGX_DECLINED;
    }

    return ngx_mcds_sign_compare(data, len, at, NULL, secrets);
}


ngx_int_t
ngx_mcds_sign_part(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets)
{
    u_char  mac[NGX_MCDS_SIGN_LEN];

    if (ngx_mcds_sign_make(value->data, value->len, NGX_MCDS_SIGN_PART, key,
                           secrets->elts, mac)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(value->data + NGX_MCDS_SIGN_PART, mac, NGX_MCDS_SIGN_LEN);

    ngx_mcds_part_sum(value);

    return NGX_OK;
}


ngx_int_t
ngx_mcds_sign_part_check(ngx_mcds_value_t *value, ngx_str_t *key,
    ngx_array_t *secrets)
{
    if (ngx_mcds_part_data(value) - value->data < NGX_MCDS_PART_SIGNED) {
        return NGX_DECLINED;
    }

    return ngx_mcds_sign_compare(value->data, value->len, NGX_MCDS_SIGN_PART,
                                 key, secrets);
}


static ngx_int_t
ngx_mcds_sign_compare(u_char *data, size_t len, size_t at, ngx_str_t *key,
    ngx_array_t *secrets)
{
    size_t       n;
    u_char       mac[NGX_MCDS_SIGN_LEN], differs;
    ngx_str_t   *secret;
    ngx_uint_t   i;

    secret = secrets->elts;

    for (i = 0; i < secrets->nelts; i++) {

        if (ngx_mcds_sign_make(data, len, at, key, &secret[i], mac) != NGX_OK)
        {
            return NGX_DECLINED;
        }

        /*
         * the signatures of pages are compared in constant time, so that the
         * duration does not reveal the first difference
         */

        differs = 0;

        for (n = 0; n < NGX_MCDS_SIGN_LEN; n++) {
            differs |= mac[n] ^ data[at + n];
        }

        if (differs == 0) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/*
 * finds the offset of the signature in an item of memcached that has a page's
 * entry
 */

static ngx_int_t
ngx_mcds_sign_find(ngx_mcds_entry_t *entry, size_t header, size_t *at)
{
    ngx_str_t  sign;

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_SIGN, &sign) != NGX_OK
        || sign.len != NGX_MCDS_SIGN_LEN)
    {
        return NGX_DECLINED;
    }

    *at = header + entry->key.len + (sign.data - entry->ext.data);

    return NGX_OK;
}


/*
 * computes the signature of an item of memcached: of its bytes, and of the
 * page's key after them unless key is NULL
 */

static ngx_int_t
ngx_mcds_sign_make(u_char *data, size_t len, size_t at, ngx_str_t *key,
    ngx_str_t *secret, u_char *mac)
{
#if (NGX_SSL)

    u_char         zero[NGX_MCDS_SIGN_LEN];
    HMAC_CTX      *hmac;
    ngx_int_t      rc;
    unsigned int   n;

    hmac = HMAC_CTX_new();
    if (hmac == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(zero, NGX_MCDS_SIGN_LEN);

    rc = HMAC_Init_ex(hmac, secret->data, (int) secret->len, EVP_sha256(),
                      NULL)
         && HMAC_Update(hmac, data, 12)
         && HMAC_Update(hmac, zero, 4)
         && HMAC_Update(hmac, data + 16, at - 16)
         && HMAC_Update(hmac, zero, NGX_MCDS_SIGN_LEN)
         && HMAC_Update(hmac, data + at + NGX_MCDS_SIGN_LEN,
                        len - at - NGX_MCDS_SIGN_LEN)
         && (key == NULL || HMAC_Update(hmac, key->data, key->len))
         && HMAC_Final(hmac, mac, &n);

    HMAC_CTX_free(hmac);

    return rc ? NGX_OK : NGX_ERROR;

#else

    return NGX_ERROR;

#endif
}
