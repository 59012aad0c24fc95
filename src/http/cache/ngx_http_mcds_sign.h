
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_hmac_key: signatures of pages.
 */


#ifndef _NGX_HTTP_MCDS_SIGN_H_INCLUDED_
#define _NGX_HTTP_MCDS_SIGN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Adds room for a signature to the extensions of a page, in memory of r->pool,
 * if the location signs.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_sign_ext(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *ext);

/*
 * Signs a complete entry, if the location signs; ngx_mcds_copy_signed() checks
 * the signature.
 */

void ngx_http_mcds_sign(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);

/* the setter of mcds_cache_hmac_key */

char *ngx_http_mcds_cache_hmac_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_SIGN_H_INCLUDED_ */
