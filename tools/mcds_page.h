
/*
 * Copyright (C) mcds authors
 *
 * The page of a URL or a key: its name contains the site.
 */


#ifndef _MCDS_PAGE_H_INCLUDED_
#define _MCDS_PAGE_H_INCLUDED_


#include "mcds.h"
#include <ngx_http.h>


typedef struct {
    ngx_str_t         name;       /* "<site>key", as in memcached */
    ngx_mcds_pool_t  *pool;
    char             *why;        /* why the key of a URL may be different, or
                                     NULL */
} mcds_page_t;


/*
 * Returns the pages of n URLs and of all --key.  Ends the program with a list
 * of sites if several may contain a page.
 *
 * The server{} block of a URL is chosen among those that cache pages as nginx
 * does: by its port, then by its host.  If none of them listens on that port
 * nginx is behind a load balancer, and the host alone decides.
 */

ngx_array_t *mcds_pages(mcds_t *m, ngx_str_t *urls, ngx_uint_t n);


/*
 * Returns 1 if servers, an array of ngx_http_core_srv_conf_t *, contains the
 * server.
 */

ngx_uint_t mcds_page_one_of(ngx_array_t *servers,
    ngx_http_core_srv_conf_t *server);


/* Adds "key" and "site" of the name of a page. */

void mcds_page_put(json_t *o, ngx_str_t *name);


/* Reports that memcached does not have the page. */

void mcds_page_absent(mcds_t *m, mcds_page_t *page);


#endif /* _MCDS_PAGE_H_INCLUDED_ */
