
/*
 * Copyright (C) mcds authors
 *
 * A request to mcds_table_api, for a table or for one element of a table: its
 * structure, which begins with that of ngx_http_mcds_resource.h, and the
 * functions that serve it.
 */


#ifndef _NGX_HTTP_MCDS_TABLE_H_INCLUDED_
#define _NGX_HTTP_MCDS_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_resource.h"


typedef struct ngx_http_mcds_table_api_s  ngx_http_mcds_table_api_t;


/*
 * the name of one element of a table, and its value, for a response that lists
 * the table
 */

typedef struct {
    ngx_http_mcds_table_api_t  *tr;
    ngx_mcds_op_t               op;
    ngx_str_t                   name;
    int64_t                     expiry;
    ngx_mcds_value_t           *value;
    ngx_uint_t                  missing;
} ngx_http_mcds_listed_t;


struct ngx_http_mcds_table_api_s {
    ngx_http_mcds_resource_t     res;
    ngx_http_mcds_table_conf_t  *conf;
    ngx_mcds_table_t             table;
    ngx_str_t                    name;     /* the name of the element in the
                                              request; empty: the whole table */
    ngx_uint_t                   method;
    ngx_uint_t                   type;
    ngx_uint_t                   values;   /* 1: the response that lists the
                                              table shows the values of its
                                              elements, too */
    uint32_t                     ttl;
    ngx_uint_t                   rc;

    ngx_mcds_table_item_t       *items;    /* the elements of the table that the
                                              request changes */
    ngx_uint_t                   n;
    ngx_mcds_table_change_t      change;

    /* fields for a request for one element of a table */
    ngx_mcds_op_t                op;
    ngx_mcds_value_t            *value;
    uint64_t                     cas;
    uint32_t                     crc;
    int64_t                      left;     /* seconds until the element of the
                                              table expires; -1: never */
    ngx_uint_t                   found;

    /* fields for a request that lists a whole table */
    ngx_mcds_array_read_t        read;
    ngx_http_mcds_listed_t      *listed;
    ngx_uint_t                   nlisted;
    ngx_uint_t                   next;
    ngx_uint_t                   asking;
    size_t                       size;
    ngx_uint_t                   ghosts;
};


/*
 * Starts a request for one element of a table: GET, HEAD, PUT or DELETE.
 * Returns NGX_DONE, and calls tr->res.respond when memcached has answered, or
 * returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_element_start(ngx_http_mcds_table_api_t *tr);


/*
 * Starts to process a client's POST to a table, which changes the elements that
 * the request's body names.  Returns as ngx_http_mcds_element_start() does.
 */

ngx_int_t ngx_http_mcds_table_many(ngx_http_mcds_table_api_t *tr);


/*
 * Starts a GET, HEAD or DELETE of a whole table by reading the table's list of
 * names.  Returns as ngx_http_mcds_element_start() does.
 */

ngx_int_t ngx_http_mcds_table_list(ngx_http_mcds_table_api_t *tr);


/*
 * Carries out a request to mcds_table_api that changes elements of a table:
 * sets or deletes each of those that the array tr->items names.  Returns
 * NGX_DONE.
 */

ngx_int_t ngx_http_mcds_table_change(ngx_http_mcds_table_api_t *tr);


/*
 * Called when a request has deleted all elements of a table: removes their
 * names from the table's list of names.  Returns NGX_DONE, or the status of an
 * error response.
 */

ngx_int_t ngx_http_mcds_table_clear(ngx_http_mcds_resource_t *res);


#endif /* _NGX_HTTP_MCDS_TABLE_H_INCLUDED_ */
