
/*
 * Copyright (C) mcds authors
 *
 * mcds_table_api: a table and its elements as HTTP resources.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_table.h"


static ngx_int_t ngx_http_mcds_table_start(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_table_args(ngx_http_mcds_table_api_t *tr);
static void ngx_http_mcds_table_cleanup(void *data);


static ngx_http_mcds_param_t  ngx_http_mcds_table_params[] = {

    { ngx_string("ttl="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_table_conf_t, ttl),
      1, NGX_MCDS_MAX_TTL, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_table(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_data_conf_t *dcf = conf;

    ngx_str_t  *value;

    if (dcf->table) {
        return "is duplicate";
    }

    dcf->table = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_table_conf_t));
    if (dcf->table == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs the name of a table";
    }

    if (ngx_http_mcds_compile(cf, &value[1], &dcf->table->name) != NGX_CONF_OK
        || ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_table_params,
                                dcf->table)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_mcds_set_place(cf, &dcf->table->place);
    ngx_http_mcds_data_needs(cf, cmd, dcf);

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_table_handler);
}


ngx_int_t
ngx_http_mcds_table_handler(ngx_http_request_t *r)
{
    char                       *problem;
    ngx_int_t                   rc;
    ngx_str_t                   name;
    ngx_uint_t                  possible;
    ngx_pool_cleanup_t         *cln;
    ngx_http_mcds_data_conf_t  *dcf;
    ngx_http_mcds_table_api_t  *tr;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    rc = ngx_http_mcds_resource_name(r, &name);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    possible = NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_DELETE
               |(name.len ? NGX_HTTP_PUT : NGX_HTTP_POST);

    rc = ngx_http_mcds_resource_allow(r, possible);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (name.len) {

        problem = ngx_http_mcds_resource_check_name(&name);

        if (problem) {
            return ngx_http_mcds_json_refuse(r, NGX_HTTP_BAD_REQUEST, problem);
        }
    }

    ngx_mcds_stat_add(dcf->stat,
                      (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
                      ? NGX_MCDS_DATA_READ : NGX_MCDS_DATA_CHANGE, 1);

    tr = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_table_api_t));
    if (tr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_pool_cleanup_add(tr->res.pool, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_mcds_table_cleanup;
    cln->data = tr;

    tr->conf = dcf->table;
    tr->table.pool = dcf->pool;
    tr->method = r->method;

    tr->name.len = name.len;
    tr->name.data = ngx_pstrdup(tr->res.pool, &name);

    if (tr->name.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_resource_begin(&tr->res, ngx_http_mcds_table_start);
}


static ngx_int_t
ngx_http_mcds_table_start(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_table_api_t *tr = (ngx_http_mcds_table_api_t *) res;

    ngx_int_t            rc;
    ngx_str_t            key;
    ngx_http_request_t  *r;

    r = res->request;

    if (ngx_http_complex_value(r, &tr->conf->name, &key) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (key.len == 0) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                          "there is no table for this "
                                          "request");
    }

    tr->table.key.len = key.len;
    tr->table.key.data = ngx_pstrdup(res->pool, &key);

    if (tr->table.key.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_mcds_table_args(tr);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (tr->name.len) {
        return ngx_http_mcds_element_start(tr);
    }

    if (res->match.data || res->none_match.data) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "If-Match and If-None-Match are for "
                                          "one element");
    }

    if (tr->method & NGX_HTTP_POST) {
        return ngx_http_mcds_table_many(tr);
    }

    return ngx_http_mcds_table_list(tr);
}


/*
 * Reads the query arguments of a request for a table.  Returns NGX_DECLINED if
 * they are valid, otherwise the result for the content handler to return.
 */

static ngx_int_t
ngx_http_mcds_table_args(ngx_http_mcds_table_api_t *tr)
{
    time_t               ttl;
    ngx_str_t            value;
    ngx_http_request_t  *r;

    r = tr->res.request;

    tr->ttl = tr->conf->ttl;
    tr->type = ngx_http_mcds_resource_wants(r);

    if (tr->type == NGX_HTTP_MCDS_OTHER) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "format must be json, ndjson or "
                                          "text");
    }

    if (ngx_http_arg(r, (u_char *) "values", 6, &value) == NGX_OK) {
        tr->values = (value.len && value.data[0] != '0');
    }

    if (ngx_http_arg(r, (u_char *) "ttl", 3, &value) != NGX_OK) {
        return NGX_DECLINED;
    }

    ttl = ngx_parse_time(&value, 1);

    if (value.len == 0 || ttl < 1 || ttl > NGX_MCDS_MAX_TTL) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "ttl must be 1s to 30d");
    }

    if (tr->table.pool->no_ttl) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "what this pool holds does not end "
                                          "by itself");
    }

    tr->ttl = ttl;

    return NGX_DECLINED;
}


static void
ngx_http_mcds_table_cleanup(void *data)
{
    ngx_http_mcds_table_api_t *tr = data;

    ngx_uint_t  i;

    ngx_mcds_value_unref(tr->value);

    for (i = 0; i < tr->nlisted; i++) {
        ngx_mcds_value_unref(tr->listed[i].value);
    }
}
