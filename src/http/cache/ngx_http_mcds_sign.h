
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
#include "ngx_mcds_sign.h"
#include "ngx_http_mcds_cache.h"


/*
 * Signs the complete entry of a page, if the location has mcds_cache_hmac_key;
 * ngx_mcds_snapshot_signed() checks the signature.  If signing fails, the page
 * is stored without a signature, and not served.
 */

static ngx_inline void
ngx_http_mcds_sign(ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry)
{
    if (ccf->secrets) {
        (void) ngx_mcds_signing->sign(value, entry, ccf->secrets);
    }
}


/* parses the directive mcds_cache_hmac_key: the keys that sign pages */

char *ngx_http_mcds_cache_hmac_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_SIGN_H_INCLUDED_ */
