
/*
 * Copyright (C) mcds authors
 *
 * The module of arrays and tables: data that requests share in memcached.
 */


#ifndef _NGX_HTTP_MCDS_DATA_H_INCLUDED_
#define _NGX_HTTP_MCDS_DATA_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_mcds_array.h"
#include "ngx_mcds_table.h"


typedef struct {
    ngx_http_complex_value_t    name;
    ngx_uint_t                  max;
    ngx_uint_t                  unique;

    /* parameters that mcds_array_push has, but not mcds_array_api */
    ngx_http_complex_value_t    value;
    ngx_http_complex_value_t   *filter;
} ngx_http_mcds_array_conf_t;


typedef struct {
    ngx_http_complex_value_t    name;
    uint32_t                    ttl;
    ngx_msec_t                  keep;
    ngx_http_mcds_place_t       place;
} ngx_http_mcds_table_conf_t;


typedef struct {
    ngx_int_t                   index;     /* index of the variable that
                                              mcds_table_lookup sets */
    ngx_http_complex_value_t    table;
    ngx_http_complex_value_t    key;
    ngx_http_complex_value_t   *other;     /* the value that the variable of
                                              mcds_table_lookup gets if the
                                              table does not have the key, or
                                              NULL */
    ngx_msec_t                  keep;
    ngx_uint_t                  late;      /* 1: mcds_table_lookup reads the
                                              table in the preaccess phase */
    ngx_uint_t                  again;     /* 1: a later mcds_table_lookup of
                                              the block sets the variable in the
                                              same phase, so this lookup is not
                                              done */
} ngx_http_mcds_get_t;


typedef struct {
    ngx_mcds_pool_t            *pool;
    ngx_array_t                *pushes;    /* the directives mcds_array_push of
                                              the location, array of
                                              ngx_http_mcds_array_conf_t */
    ngx_array_t                *gets;      /* the directives mcds_table_lookup
                                              of the location, array of
                                              ngx_http_mcds_get_t */
    ngx_http_mcds_array_conf_t *array;
    ngx_http_mcds_table_conf_t *table;

    ngx_mcds_stat_t            *stat;      /* statistics of the location's
                                              directive mcds_array_api or
                                              mcds_table_api, or NULL */
    ngx_mcds_stat_t           **push_stats;  /* statistics of each directive
                                                mcds_array_push of the
                                                location */
    ngx_mcds_stat_t           **get_stats;

    char                       *directive; /* name of the directive for which
                                              the location needs a pool of
                                              memcached servers */
    ngx_http_mcds_place_t       place;
} ngx_http_mcds_data_conf_t;


typedef struct {
    ngx_array_t                 confs;     /* configurations of locations,
                                              servers and the http block that
                                              need a pool of memcached servers,
                                              array of ngx_http_mcds_data_conf_t
                                              * */
    ngx_uint_t                  pushes;
    ngx_uint_t                  early;     /* 1: a mcds_table_lookup reads a
                                              table in the rewrite phase */
    ngx_uint_t                  late;
} ngx_http_mcds_data_main_t;


/* The setter of the directive mcds_array_api. */

char *ngx_http_mcds_array(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* The setter of the directive mcds_array_push. */

char *ngx_http_mcds_array_push(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* The setter of the directive mcds_table_api. */

char *ngx_http_mcds_table(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* The setter of the directive mcds_table_lookup. */

char *ngx_http_mcds_table_get(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/*
 * Notes the name, the file and the line of a directive for arrays or tables,
 * for the error message if its location, server or http block has no pool of
 * memcached servers.
 */

void ngx_http_mcds_data_needs(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_data_conf_t *dcf);


/*
 * Counts an operation on an array or table that has failed in memcached, in the
 * statistics of the location, and sends problem details for the result rc,
 * ngx_mcds_rc_e.  Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_data_failed(ngx_http_request_t *r, ngx_uint_t rc);


/*
 * As ngx_http_mcds_data_failed(), for a read before a change: if memcached has
 * not answered the read, the response says that nothing was done.
 */

ngx_int_t ngx_http_mcds_data_unread(ngx_http_request_t *r, ngx_uint_t rc);


/* The content handler of mcds_array_api. */

ngx_int_t ngx_http_mcds_array_handler(ngx_http_request_t *r);


/* The log phase handler of mcds_array_push. */

ngx_int_t ngx_http_mcds_push_handler(ngx_http_request_t *r);


/*
 * When a worker exits: logs how many values mcds_array_push could not append to
 * arrays since its last message about lost values.
 */

void ngx_http_mcds_push_exit(ngx_cycle_t *cycle);


/* The content handler of mcds_table_api. */

ngx_int_t ngx_http_mcds_table_handler(ngx_http_request_t *r);


/* The rewrite phase handler of mcds_table_lookup. */

ngx_int_t ngx_http_mcds_get_early_handler(ngx_http_request_t *r);


/* The preaccess phase handler of mcds_table_lookup with phase=preaccess. */

ngx_int_t ngx_http_mcds_get_late_handler(ngx_http_request_t *r);


extern ngx_http_mcds_feature_t  ngx_http_mcds_table_feature;

extern ngx_module_t  ngx_http_mcds_data_module;


#endif /* _NGX_HTTP_MCDS_DATA_H_INCLUDED_ */
