
/*
 * Copyright (C) mcds authors
 *
 * The parameters of mcds_counter_api, which http/counter and http/top use.
 */


#ifndef _NGX_HTTP_MCDS_COUNTER_API_H_INCLUDED_
#define _NGX_HTTP_MCDS_COUNTER_API_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"


typedef struct {
    ngx_str_t                     name;
    ngx_int_t                     index;
} ngx_http_mcds_shown_t;


struct ngx_http_mcds_show_s {
    ngx_http_complex_value_t     *prefix;    /* text that mcds puts in front of
                                                each counter's key in a
                                                request; NULL: keys in requests
                                                are ignored */
    ngx_array_t                   variables; /* array of
                                                ngx_http_mcds_shown_t:
                                                variables of counters whose
                                                numbers the response shows,
                                                too */
    ngx_http_mcds_top_t          *top;       /* the list of the keys counted
                                                most (mcds_counter_top): the
                                                location shows the list or, with
                                                "count", adds to it */
    void                         *match;     /* ngx_http_regex_t that the keys
                                                of counters must match */
    ngx_uint_t                    max;
    time_t                        ttl;       /* lifetime of counters in
                                                memcached, seconds; 0:
                                                unlimited */
    ngx_uint_t                    count;
};


#endif /* _NGX_HTTP_MCDS_COUNTER_API_H_INCLUDED_ */
