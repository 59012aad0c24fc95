
/*
 * Copyright (C) mcds authors
 *
 * The blocks of nginx's configuration, with their directives, addresses and
 * names, as mcds_site*.c read them.
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
    MCDS_LEVEL_LOCATION               /* the block is a location{}, or a block
                                         inside of one */
} mcds_level_e;


/*
 * A block of nginx's configuration, with the arguments of its directives for
 * pages.  The code of the nginx module sets conf: the site (mcds_cache_site)
 * that the block's pages belong to, and the pool of memcached servers that
 * stores them.
 */

struct mcds_scope_s {
    mcds_scope_t              *parent;
    ngx_uint_t                 level;     /* the kind of the block,
                                             mcds_level_e */
    ngx_str_t                  file;
    ngx_uint_t                 line;

    ngx_str_t                  use;
    ngx_str_t                  cache;
    ngx_str_t                  text;      /* argument of the block's
                                             mcds_cache_key */
    ngx_str_t                  args;      /* name of the directive that
                                             changes the URL's arguments in the
                                             keys of pages, or empty */
    ngx_str_t                  location;  /* prefix or exact URI of a location,
                                             with a leading slash, or empty */
    ngx_uint_t                 exact;
    ngx_uint_t                 regex;     /* 1: the location is a regular
                                             expression */
    ngx_uint_t                 no_regex;  /* 1: the location has "^~": it
                                             precedes those of its level that
                                             are regular expressions */
    ngx_uint_t                 part;      /* 1: the block is an "if" or a
                                             limit_except: it responds to some
                                             requests of the location that it
                                             is in */
    ngx_uint_t                 rest;      /* 1: inner blocks respond to all
                                             requests: the block is a server{}
                                             with a "location /", or an http{}
                                             with a server{} */
    ngx_uint_t                 own;       /* a bit for each kind of directive
                                             that the block has itself: as in
                                             nginx, it does not inherit the
                                             outer directives of that kind */

    ngx_http_core_srv_conf_t  *server;
    ngx_http_mcds_cache_conf_t  conf;
};


/*
 * the blocks of nginx's configuration: in structures of the tool, and partly in
 * those that nginx itself has for them
 */

struct mcds_sites_s {
    ngx_array_t                scopes;    /* array of mcds_scope_t *: all
                                             blocks, outer ones first */
    ngx_http_core_main_conf_t  core;      /* nginx's structure for the http{}
                                             block, of which only the ports are
                                             set */
    ngx_uint_t                 unmerged;  /* 1: a block has "merge_slashes
                                             off" */
    ngx_http_mcds_cache_main_t  cache;
};


/*
 * Adds the addresses of a "listen" directive of nginx's configuration, in
 * cf->args, to the server{} that the directive is in.
 */

void mcds_site_listen(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);


/*
 * Adds the names of a "server_name" directive of nginx's configuration, in
 * cf->args, to the server{} that the directive is in.
 */

void mcds_site_server_name(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);


/*
 * Called at the end of a server{} of nginx's configuration: adds nginx's
 * default address if the block has no "listen".
 */

void mcds_site_server_end(mcds_t *m, mcds_scope_t *scope);


/*
 * Returns the bit of scope->own for directives of this name; 0 if inner blocks
 * do not inherit the directive, or inherit it with the pool of memcached
 * servers of its own block.
 */

ngx_uint_t mcds_site_kind(ngx_str_t *name);


/*
 * Returns the pool of memcached servers that a directive of nginx's
 * configuration uses, in its own block and in the inner blocks that inherit it;
 * NULL if the pool is unknown, or if these blocks use several pools.
 */

ngx_mcds_pool_t *mcds_site_in_pool(mcds_t *m, mcds_directive_t *directive);


/*
 * Returns the pool of memcached servers that a directive of nginx's
 * configuration uses in a block that has or inherits the directive; NULL if it
 * is unknown.
 */

ngx_mcds_pool_t *mcds_site_block_pool(mcds_t *m, mcds_directive_t *directive,
    mcds_scope_t *scope);


/*
 * Sets, for each block of nginx's configuration, the site (mcds_cache_site) of
 * its pages and the pool of memcached servers that stores them.  The code that
 * does this is that of the nginx module.
 */

void mcds_site_make(mcds_t *m);


#endif /* _MCDS_SITE_H_INCLUDED_ */
