
/*
 * Copyright (C) mcds authors
 *
 * Lists: what the content handler and the pushes of requests share.
 */


#ifndef _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_
#define _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_lines.h"
#include "ngx_http_mcds_param.h"


/* parameters of both directives */

extern ngx_http_mcds_param_t  ngx_http_mcds_array_params[];


/* the list of this request; NGX_DECLINED: its name is empty */

ngx_int_t ngx_http_mcds_array_name(ngx_http_request_t *r,
    ngx_http_mcds_array_conf_t *conf, ngx_mcds_pool_t *pool,
    ngx_mcds_array_t *array);


/*
 * All values of a list, and those that are to be added by the edits before,
 * which may be NULL; made once for the edits that are done together, nothing is
 * to be added to it.  NULL: out of memory.
 */

ngx_http_mcds_set_t *ngx_http_mcds_array_known(
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added);


/* n lines as they are stored, for the caller to unref; NULL: no memory */

ngx_mcds_value_t *ngx_http_mcds_array_text(ngx_str_t *line, ngx_uint_t n);


#endif /* _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_ */
