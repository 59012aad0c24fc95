
/*
 * Copyright (C) mcds authors
 *
 * A request for a table or for an element of one, see ngx_http_mcds_resource.h.
 */


#ifndef _NGX_HTTP_MCDS_TABLE_H_INCLUDED_
#define _NGX_HTTP_MCDS_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_resource.h"


typedef struct ngx_http_mcds_table_api_s  ngx_http_mcds_table_api_t;


/* a name that is listed with its value */

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
    ngx_str_t                    name;     /* of an element, or empty */
    ngx_uint_t                   method;
    ngx_uint_t                   type;
    ngx_uint_t                   values;   /* ... are listed, too */
    uint32_t                     ttl;
    ngx_uint_t                   rc;

    ngx_mcds_table_item_t       *items;    /* to change */
    ngx_uint_t                   n;
    ngx_mcds_table_change_t      change;

    /* of one element */
    ngx_mcds_op_t                op;
    ngx_mcds_value_t            *value;
    uint64_t                     cas;
    uint32_t                     crc;
    int64_t                      left;     /* seconds, -1: no limit */
    ngx_uint_t                   found;

    /* of a list */
    ngx_mcds_array_read_t        read;
    ngx_http_mcds_listed_t      *listed;
    ngx_uint_t                   nlisted;
    ngx_uint_t                   next;
    ngx_uint_t                   asking;
    size_t                       size;
    ngx_uint_t                   ghosts;
};


/*
 * Each begins something and goes on with tr->res.answer: NGX_DONE, or a
 * status.  start: the element that the request names.  many: those of a POST.
 * list: the names.  change: what is in tr->items.  clear: after all elements
 * have gone, their names do.
 */

ngx_int_t ngx_http_mcds_element_start(ngx_http_mcds_table_api_t *tr);
ngx_int_t ngx_http_mcds_table_many(ngx_http_mcds_table_api_t *tr);
ngx_int_t ngx_http_mcds_table_list(ngx_http_mcds_table_api_t *tr);
ngx_int_t ngx_http_mcds_table_change(ngx_http_mcds_table_api_t *tr);
ngx_int_t ngx_http_mcds_table_clear(ngx_http_mcds_resource_t *res);


#endif /* _NGX_HTTP_MCDS_TABLE_H_INCLUDED_ */
