
/*
 * Copyright (C) mcds authors
 *
 * Finds the page that a URL or a key on the command line means: its site, its
 * pool, and the name under which memcached has the page.
 */


#ifndef _MCDS_PAGE_H_INCLUDED_
#define _MCDS_PAGE_H_INCLUDED_


#include "mcds.h"
#include <ngx_http.h>


typedef struct {
    ngx_str_t         name;       /* name of the page in memcached, with its
                                     site: "<site>key" */
    ngx_mcds_pool_t  *pool;
    char             *why;        /* the reason why nginx may store the page
                                     under another key, or NULL */
} mcds_page_t;


/*
 * Returns the pages of n URLs and of all --key, an array of mcds_page_t.  Ends
 * the tool with a list of sites if several may have a page.  If a page's pool
 * has "eject", probes the pool's servers: other servers stand in for those that
 * are down.
 *
 * For a URL, only the server{} blocks that cache pages are considered.  As in
 * nginx, the URL's port chooses among them, then its host.  If none of these
 * blocks listens on the port, nginx is assumed to be behind a load balancer,
 * and the host alone decides.
 */

ngx_array_t *mcds_pages(mcds_t *m, ngx_str_t *urls, ngx_uint_t n);


/*
 * Returns 1 if servers, an array of ngx_http_core_srv_conf_t *, contains the
 * server{} block "server".
 */

ngx_uint_t mcds_page_one_of(ngx_array_t *servers,
    ngx_http_core_srv_conf_t *server);


/* Adds the members "key" and "site" for the name of a page to a JSON object. */

void mcds_page_put(json_t *o, ngx_str_t *name);


/*
 * If nginx may store the page under another key than that in page->name, prints
 * the reason, page->why, as an error: the item that the tool finds is perhaps
 * not the page that nginx serves.  Otherwise does nothing.
 */

void mcds_page_doubt(mcds_t *m, mcds_page_t *page);


#endif /* _MCDS_PAGE_H_INCLUDED_ */
