
/*
 * Copyright (C) mcds authors
 *
 * Parses the lines of a server's reply to "stats".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_server.h"


#define ngx_mcds_usage_name(name, word)  ngx_string(word),

static ngx_str_t  ngx_mcds_usage_names[NGX_MCDS_USAGE_LAST] = {
    ngx_null_string,                    /* the time of the report is taken from
                                           this host, not from "stats" */
    NGX_MCDS_USAGE_LIST(ngx_mcds_usage_name)
};


void
ngx_mcds_usage_line(ngx_mcds_server_t *server, ngx_str_t *name,
    ngx_str_t *value)
{
    uint64_t    n;
    ngx_uint_t  i;

    for (i = NGX_MCDS_USAGE_TIME + 1; i < NGX_MCDS_USAGE_LAST; i++) {

        if (name->len == ngx_mcds_usage_names[i].len
            && ngx_memcmp(name->data, ngx_mcds_usage_names[i].data, name->len)
               == 0)
        {
            if (ngx_mcds_parse_number(value->data, value->len, &n) == NGX_OK) {
                ngx_mcds_stat_usage(server->stat, i, n);
            }

            return;
        }
    }
}
