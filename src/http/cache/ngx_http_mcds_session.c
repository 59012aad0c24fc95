
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_cookie.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_session.h"


ngx_uint_t
ngx_http_mcds_session(ngx_http_request_t *r, ngx_array_t *names)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (names == NULL) {
        return 0;
    }

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && ngx_http_mcds_header_is(&h[i].key, "Cookie")
                && ngx_mcds_cookie_named(&h[i].value, names))
            {
                return 1;
            }
        }
    }

    return 0;
}
