
/*
 * Copyright (C) mcds authors
 *
 * nginx's configuration, as it was read: in the files site*.c and mcds_page.c.
 */


#ifndef _MCDS_SITE_H_INCLUDED_
#define _MCDS_SITE_H_INCLUDED_


#include "mcds.h"
#include <ngx_http.h>
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_site.h"


typedef enum {
    MCDS_LEVEL_OTHER = 0,
    MCDS_LEVEL_MAIN,
    MCDS_LEVEL_HTTP,
    MCDS_LEVEL_SERVER,
    MCDS_LEVEL_LOCATION               /* and what is in it, or "if" */
} mcds_level_e;


/*
 * A level of the configuration, and what its directives say there.  conf is
 * what the module makes of it: the site of its pages, and their pool.
 */

struct mcds_scope_s {
    mcds_scope_t              *parent;
    ngx_uint_t                 level;     /* mcds_level_e */
    ngx_str_t                  file;
    ngx_uint_t                 line;

    ngx_str_t                  use;
    ngx_str_t                  cache;
    ngx_str_t                  text;      /* of mcds_cache_key */
    ngx_str_t                  args;      /* the directive that changes those
                                             of the key, or none */
    ngx_str_t                  location;  /* a prefix or the whole URI, with a
                                             slash; or empty */
    ngx_uint_t                 exact;
    ngx_uint_t                 rest;      /* it has a "location /" */

    ngx_http_core_srv_conf_t  *server;
    ngx_http_mcds_cache_conf_t  conf;
};


/* the server{} blocks of a configuration, in nginx's own structures */

struct mcds_sites_s {
    ngx_array_t                scopes;    /* mcds_scope_t *, outer ones first */
    ngx_http_core_main_conf_t  core;      /* its ports */
    ngx_http_mcds_cache_main_t  cache;
};


/*
 * listen, server_name: what cf->args say of the scope's server{}.  end: it is
 * read; one without a "listen" has nginx's.
 */

void mcds_site_listen(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);
void mcds_site_server_name(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);
void mcds_site_server_end(mcds_t *m, mcds_scope_t *scope);


/* gives all scopes the sites that their pages have, by the module's own code */

void mcds_site_make(mcds_t *m);


#endif /* _MCDS_SITE_H_INCLUDED_ */
