
/*
 * Copyright (C) mcds authors
 *
 * The configuration that all features of mcds (the cache, counters, locks and
 * others) share.
 */


#ifndef _NGX_HTTP_MCDS_MODULE_H_INCLUDED_
#define _NGX_HTTP_MCDS_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat.h"


#define NGX_HTTP_MCDS_LEVELS                                                  \
    NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF


typedef struct ngx_http_mcds_feature_s  ngx_http_mcds_feature_t;


typedef struct {
    ngx_array_t                 pools;    /* the pools of memcached servers,
                                             array of ngx_mcds_pool_t * */
    ngx_array_t                 features; /* the features of mcds, such as the
                                             cache, array of
                                             ngx_http_mcds_feature_t * */
    size_t                      task_size;  /* bytes of the structure for a
                                               request that waits for memcached
                                               (its task), with the data of all
                                               features */
    void                      **main_conf;  /* main configurations of all HTTP
                                               modules */

    ngx_shm_zone_t             *zone;
    size_t                      zone_size;
    ngx_mcds_stats_t            stats;
    ngx_core_conf_t            *core;

    ngx_uint_t                  used;     /* 1: a location uses a pool of
                                             memcached servers */
    ngx_uint_t                  recursive;  /* 1: a location has
                                               "recursive_error_pages on" */
    ngx_uint_t                  hasty;    /* 1: nginx has warned that a lock
                                             may expire before memcached has
                                             answered */
    ngx_uint_t                  status;   /* 1: a location shows the status
                                             page */
} ngx_http_mcds_main_conf_t;


/*
 * the file and line of a directive in the configuration, for messages that are
 * logged after the directive was read
 */

typedef struct {
    ngx_str_t                   file;
    ngx_uint_t                  line;
} ngx_http_mcds_place_t;


typedef struct {
    ngx_str_t                   use;
    ngx_http_mcds_place_t       use_place;
    ngx_mcds_pool_t            *pool;
    ngx_uint_t                  methods;  /* bits of the methods that
                                             mcds_api_methods allows; 0: the
                                             directive is absent */

    char                       *stat_kind;   /* the location's kind, between
                                                the names of server and
                                                location in statistics: " = ",
                                                " ~ " ... */
    ngx_http_core_loc_conf_t   *location;  /* the location that the block is or
                                              is part of */

    ngx_http_handler_pt         handler;  /* the content handler that mcds has
                                             set for the location, or NULL */
    ngx_str_t                   handler_name;  /* the directive of mcds that has
                                                  set the content handler of the
                                                  location */
    ngx_http_mcds_place_t       handler_place;
} ngx_http_mcds_loc_conf_t;


/*
 * Call this in preconfiguration: adds nginx variables of which only the name,
 * the handler, its data and the flags are given; the array vars ends with
 * ngx_http_null_variable.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_add_vars(ngx_conf_t *cf, ngx_http_variable_t *vars);


extern ngx_module_t  ngx_http_mcds_module;


#endif /* _NGX_HTTP_MCDS_MODULE_H_INCLUDED_ */
