
/*
 * Copyright (C) mcds authors
 *
 * Which page a URL, or a key, is of: the site is a part of its name.
 */


#ifndef _MCDS_PAGE_H_INCLUDED_
#define _MCDS_PAGE_H_INCLUDED_


#include "mcds.h"
#include <ngx_http.h>


typedef struct {
    ngx_str_t         name;       /* "<site>key", as memcached has it */
    ngx_mcds_pool_t  *pool;
    char             *why;        /* of a URL, why its key may be another one;
                                     or NULL */
} mcds_page_t;


/*
 * The pages of n URLs, and of all --key behind them, or ends the program: with
 * a list, if several sites may have one of them.
 *
 * The server{} of a URL is chosen as nginx does, of those that cache something:
 * by its port, then by its host.  If none of them listens on that port, nginx
 * is behind a load balancer: by its host alone.
 */

ngx_array_t *mcds_pages(mcds_t *m, ngx_str_t *urls, ngx_uint_t n);


/* 1 if the server is one of these, ngx_http_core_srv_conf_t * */

ngx_uint_t mcds_page_one_of(ngx_array_t *servers,
    ngx_http_core_srv_conf_t *server);


/* adds "key" and "site" of such a name.  absent: that page is not there */

void mcds_page_put(json_t *o, ngx_str_t *name);
void mcds_page_absent(mcds_t *m, mcds_page_t *page);


#endif /* _MCDS_PAGE_H_INCLUDED_ */
