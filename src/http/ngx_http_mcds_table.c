
/*
 * Copyright (C) mcds authors
 *
 * mcds_table: a table and its elements as resources of HTTP.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_lines.h"
#include "ngx_http_mcds_rest.h"


/* values that are asked for at once, and the most bytes of them */
#define NGX_HTTP_MCDS_TABLE_WINDOW  128
#define NGX_HTTP_MCDS_TABLE_SIZE    (16 * 1024 * 1024)


typedef struct ngx_http_mcds_table_rest_s  ngx_http_mcds_table_rest_t;


/* a name that is listed with its value */

typedef struct {
    ngx_http_mcds_table_rest_t  *tr;
    ngx_str_t                    name;
    time_t                       expiry;
    ngx_mcds_value_t            *value;
    ngx_uint_t                   missing;
} ngx_http_mcds_listed_t;


struct ngx_http_mcds_table_rest_s {
    ngx_http_mcds_rest_t         rest;
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

    /* of one element */
    ngx_mcds_value_t            *value;
    uint64_t                     cas;
    uint32_t                     crc;
    int64_t                      left;     /* seconds, -1: no limit */
    ngx_uint_t                   found;

    /* of a list */
    ngx_http_mcds_listed_t      *listed;
    ngx_uint_t                   nlisted;
    ngx_uint_t                   next;
    ngx_uint_t                   asking;
    size_t                       size;
    ngx_uint_t                   ghosts;
};


static char *ngx_http_mcds_table_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_table_conf_t *conf, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_table_start(ngx_http_mcds_rest_t *rest);
static ngx_int_t ngx_http_mcds_table_name(ngx_http_request_t *r,
    ngx_str_t *name);
static char *ngx_http_mcds_table_check_name(ngx_str_t *name);
static ngx_int_t ngx_http_mcds_table_args(ngx_http_mcds_table_rest_t *tr);

static ngx_int_t ngx_http_mcds_element_start(ngx_http_mcds_table_rest_t *tr);
static void ngx_http_mcds_element_handler(void *data,
    ngx_mcds_result_t *result);
static ngx_int_t ngx_http_mcds_element_answer(ngx_http_mcds_rest_t *rest);
static ngx_int_t ngx_http_mcds_element_change(ngx_http_mcds_table_rest_t *tr);
static ngx_int_t ngx_http_mcds_element_value(ngx_http_mcds_table_rest_t *tr,
    ngx_str_t *value);

static ngx_int_t ngx_http_mcds_table_many(ngx_http_mcds_table_rest_t *tr);
static ngx_int_t ngx_http_mcds_table_items(ngx_http_mcds_table_rest_t *tr,
    json_t *json);
static ngx_int_t ngx_http_mcds_table_item(ngx_http_mcds_table_rest_t *tr,
    ngx_mcds_table_item_t *item, const char *name, json_t *value);
static ngx_int_t ngx_http_mcds_table_value(ngx_http_mcds_table_rest_t *tr,
    json_t *json, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_table_change(ngx_http_mcds_table_rest_t *tr);
static void ngx_http_mcds_table_change_handler(void *data, ngx_uint_t rc);
static ngx_int_t ngx_http_mcds_table_changed(ngx_http_mcds_rest_t *rest);

static ngx_int_t ngx_http_mcds_table_list(ngx_http_mcds_table_rest_t *tr);
static void ngx_http_mcds_table_list_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_http_mcds_table_listed(ngx_http_mcds_table_rest_t *tr,
    ngx_mcds_array_content_t *content);
static void ngx_http_mcds_table_ask(ngx_http_mcds_table_rest_t *tr);
static void ngx_http_mcds_table_value_handler(void *data,
    ngx_mcds_result_t *result);
static ngx_int_t ngx_http_mcds_table_shown(ngx_http_mcds_rest_t *rest);
static ngx_int_t ngx_http_mcds_table_show(ngx_http_mcds_table_rest_t *tr,
    ngx_http_mcds_text_t *text, ngx_http_mcds_listed_t *listed,
    ngx_uint_t first);
static void ngx_http_mcds_table_ghosts(ngx_http_mcds_table_rest_t *tr);
static void ngx_http_mcds_table_ghosts_handler(void *data, ngx_uint_t rc);
static ngx_int_t ngx_http_mcds_table_clear(ngx_http_mcds_rest_t *rest);
static void ngx_http_mcds_table_cleared(void *data,
    ngx_mcds_array_done_t *done);
static ngx_int_t ngx_http_mcds_table_empty(ngx_http_mcds_rest_t *rest);
static void ngx_http_mcds_table_cleanup(void *data);


char *
ngx_http_mcds_table(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_data_conf_t *dcf = conf;

    ngx_str_t                 *value;
    ngx_uint_t                 i;
    ngx_http_core_loc_conf_t  *clcf;

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

    if (ngx_http_mcds_data_value(cf, &value[1], &dcf->table->name)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mcds_table_param(cf, cmd, dcf->table, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    ngx_http_mcds_data_needs(cf, cmd, dcf);

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_mcds_table_handler;

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_table_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_table_conf_t *conf, ngx_str_t *value)
{
    time_t     ttl;
    ngx_str_t  s;

    if (value->len > 4 && ngx_strncmp(value->data, "ttl=", 4) == 0
        && conf->ttl == 0)
    {
        s.data = value->data + 4;
        s.len = value->len - 4;

        ttl = ngx_parse_time(&s, 1);

        if (ttl > 0 && ttl <= NGX_MCDS_MAX_TTL) {
            conf->ttl = ttl;
            return NGX_CONF_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be 1s to "
                           "30d", value, &cmd->name);
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_data_invalid(cf, cmd, value);
}


ngx_int_t
ngx_http_mcds_table_handler(ngx_http_request_t *r)
{
    char                        *problem;
    ngx_int_t                    rc;
    ngx_str_t                    name;
    ngx_uint_t                   possible;
    ngx_pool_cleanup_t          *cln;
    ngx_http_mcds_data_conf_t   *dcf;
    ngx_http_mcds_table_rest_t  *tr;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    rc = ngx_http_mcds_table_name(r, &name);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return NGX_HTTP_NOT_FOUND;
    }

    possible = NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_DELETE
               |(name.len ? NGX_HTTP_PUT : NGX_HTTP_POST);

    rc = ngx_http_mcds_rest_allow(r, dcf->methods, possible);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (name.len) {

        problem = ngx_http_mcds_table_check_name(&name);

        if (problem) {

            if (ngx_http_discard_request_body(r) != NGX_OK) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                              problem);
        }
    }

    tr = ngx_http_mcds_rest_create(r, sizeof(ngx_http_mcds_table_rest_t));
    if (tr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_pool_cleanup_add(tr->rest.pool, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_mcds_table_cleanup;
    cln->data = tr;

    tr->conf = dcf->table;
    tr->table.pool = dcf->pool;
    tr->method = r->method;

    tr->name.len = name.len;
    tr->name.data = ngx_pstrdup(tr->rest.pool, &name);

    if (tr->name.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_rest_begin(&tr->rest, ngx_http_mcds_table_start);
}


/*
 * The element's name: the argument "name", or what of the URI follows the
 * name of a location that is a prefix.  Empty: it is about the table.
 */

static ngx_int_t
ngx_http_mcds_table_name(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_int_t                  rc;
    ngx_uint_t                 prefix;
    ngx_http_core_loc_conf_t  *clcf;

    rc = ngx_http_mcds_rest_arg(r, "name", name);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    ngx_str_null(name);

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    prefix = !clcf->exact_match && !clcf->named;

#if (NGX_PCRE)
    if (clcf->regex) {
        prefix = 0;
    }
#endif

    if (!prefix || r->uri.len <= clcf->name.len) {
        return NGX_OK;
    }

    name->data = r->uri.data + clcf->name.len;
    name->len = r->uri.len - clcf->name.len;

    if (clcf->name.len && name->data[-1] == '/') {
        return NGX_OK;
    }

    if (name->data[0] != '/') {
        return NGX_DECLINED;
    }

    name->data++;
    name->len--;

    return NGX_OK;
}


/* NULL, or what is wrong */

static char *
ngx_http_mcds_table_check_name(ngx_str_t *name)
{
    size_t  i;

    if (name->len == 0) {
        return "a name is empty";
    }

    if (name->len > NGX_MCDS_TABLE_NAME) {
        return "a name is longer than 1024 bytes";
    }

    for (i = 0; i < name->len; i++) {
        if (name->data[i] < 0x20 || name->data[i] == 0x7f) {
            return "a name has control characters";
        }
    }

    if (!ngx_http_mcds_json_utf8(name)) {
        return "a name is not UTF-8";
    }

    return NULL;
}


static ngx_int_t
ngx_http_mcds_table_start(ngx_http_mcds_rest_t *rest)
{
    ngx_http_mcds_table_rest_t *tr = (ngx_http_mcds_table_rest_t *) rest;

    ngx_int_t            rc;
    ngx_str_t            key;
    ngx_http_request_t  *r;

    r = rest->request;

    if (ngx_http_complex_value(r, &tr->conf->name, &key) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (key.len == 0) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                          "there is no table for this "
                                          "request");
    }

    tr->table.key.len = key.len;
    tr->table.key.data = ngx_pstrdup(rest->pool, &key);

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

    if (rest->match.len || rest->none_match.len) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "If-Match and If-None-Match are for "
                                          "one element");
    }

    if (tr->method & NGX_HTTP_POST) {
        return ngx_http_mcds_table_many(tr);
    }

    return ngx_http_mcds_table_list(tr);
}


/* NGX_DECLINED, or what was answered */

static ngx_int_t
ngx_http_mcds_table_args(ngx_http_mcds_table_rest_t *tr)
{
    time_t               ttl;
    ngx_str_t            value;
    ngx_http_request_t  *r;

    r = tr->rest.request;

    tr->ttl = tr->conf->ttl;
    tr->type = ngx_http_mcds_rest_wants(r);

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


/* with a condition the element must be known before it is changed */

static ngx_int_t
ngx_http_mcds_element_start(ngx_http_mcds_table_rest_t *tr)
{
    u_char              suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_int_t           rc;
    ngx_mcds_request_t  req;

    if (!(tr->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {

        tr->items = ngx_pcalloc(tr->rest.pool, sizeof(ngx_mcds_table_item_t));
        if (tr->items == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        tr->n = 1;
        tr->items->name = tr->name;
        tr->items->ttl = tr->ttl;

        if (tr->method & NGX_HTTP_DELETE) {
            tr->items->kind = NGX_MCDS_TABLE_DELETE;

        } else {
            rc = ngx_http_mcds_element_value(tr, &tr->items->value);
            if (rc != NGX_DECLINED) {
                return rc;
            }
        }

        if (tr->rest.match.len == 0 && tr->rest.none_match.len == 0) {
            return ngx_http_mcds_table_change(tr);
        }
    }

    ngx_mcds_table_request(&req, &tr->table, &tr->name, suffix);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;

    if (ngx_mcds_submit(tr->table.pool, &req, ngx_http_mcds_element_handler,
                        tr)
        == NULL)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    tr->rest.waiting++;
    tr->rest.answer = ngx_http_mcds_element_answer;

    return NGX_DONE;
}


static void
ngx_http_mcds_element_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_table_rest_t *tr = data;

    tr->rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        tr->found = 1;
        tr->cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;
        tr->left = (result->has & NGX_MCDS_TTL) ? result->ttl : -1;
        tr->crc = ngx_crc32_long(result->data, result->len);

        tr->value = ngx_mcds_value_create(result->len + 1, ngx_cycle->log);

        if (tr->value == NULL) {
            tr->rc = NGX_MCDS_BUSY;

        } else {
            tr->value->len = result->len;
            ngx_memcpy(tr->value->data, result->data, result->len);
        }
    }

    ngx_http_mcds_rest_done(&tr->rest);
}


static ngx_int_t
ngx_http_mcds_element_answer(ngx_http_mcds_rest_t *rest)
{
    ngx_http_mcds_table_rest_t *tr = (ngx_http_mcds_table_rest_t *) rest;

    u_char                *p;
    ngx_str_t              value;
    ngx_http_request_t    *r;
    ngx_http_mcds_text_t   text;

    r = rest->request;

    if (tr->rc != NGX_MCDS_OK && tr->rc != NGX_MCDS_NOT_FOUND) {
        return ngx_http_mcds_rest_failed(r, tr->rc);
    }

    if (!(tr->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return ngx_http_mcds_element_change(tr);
    }

    if (!tr->found) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                          "there is no element of this name");
    }

    value.data = tr->value->data;
    value.len = tr->value->len;

    ngx_memzero(&text, sizeof(ngx_http_mcds_text_t));
    text.pool = r->pool;

    if (tr->type == NGX_HTTP_MCDS_TEXT) {
        ngx_http_mcds_text_put(&text, value.data, value.len);

    } else if (ngx_http_mcds_line_put(&text, &value) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_mcds_text_put(&text, (u_char *) "\n", 1);

    if (tr->left >= 0) {

        p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 1);
        if (p == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        (void) ngx_sprintf(p, "%L%Z", tr->left);

        if (ngx_http_mcds_json_header(r, "X-TTL", (char *) p) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (ngx_http_mcds_rest_etag(r, tr->cas, tr->crc) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_text_send(r, &text, tr->type);
}


static ngx_int_t
ngx_http_mcds_element_change(ngx_http_mcds_table_rest_t *tr)
{
    if (!ngx_http_mcds_rest_match(&tr->rest, tr->found, tr->cas, tr->crc)) {
        return ngx_http_mcds_json_problem(tr->rest.request,
                                          NGX_HTTP_PRECONDITION_FAILED,
                                          "the element is not, or no longer, "
                                          "what the condition says");
    }

    if (tr->found) {

        if (tr->cas == 0) {
            return ngx_http_mcds_rest_failed(tr->rest.request,
                                             NGX_MCDS_SERVER_ERROR);
        }

        tr->items->cas = tr->cas;

    } else if (tr->items->kind == NGX_MCDS_TABLE_SET) {
        tr->items->kind = NGX_MCDS_TABLE_ADD;
    }

    return ngx_http_mcds_table_change(tr);
}


/* NGX_DECLINED, or what was answered */

static ngx_int_t
ngx_http_mcds_element_value(ngx_http_mcds_table_rest_t *tr, ngx_str_t *value)
{
    json_t     *json;
    ngx_int_t   rc;

    if (ngx_http_mcds_rest_has(tr->rest.request) == NGX_HTTP_MCDS_JSON) {

        json = ngx_http_mcds_body_load(&tr->rest, &rc);
        if (json == NULL) {
            return rc;
        }

        rc = ngx_http_mcds_table_value(tr, json, value);

        json_decref(json);

        if (rc != NGX_DECLINED) {
            return rc;
        }

    } else if (tr->rest.body.len) {
        *value = tr->rest.body;

    } else {
        ngx_str_set(value, "1");
    }

    if (value->len > NGX_MCDS_TABLE_VALUE) {
        return ngx_http_mcds_json_problem(tr->rest.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "the value is larger than 16 KB");
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_table_many(ngx_http_mcds_table_rest_t *tr)
{
    json_t              *json;
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = tr->rest.request;

    if (ngx_http_mcds_rest_has(r) != NGX_HTTP_MCDS_JSON) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "the body must be "
                                          "application/json");
    }

    json = ngx_http_mcds_body_load(&tr->rest, &rc);
    if (json == NULL) {
        return rc;
    }

    rc = ngx_http_mcds_table_items(tr, json);

    json_decref(json);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (tr->n == 0) {
        return ngx_http_mcds_json_no_content(r);
    }

    return ngx_http_mcds_table_change(tr);
}


static ngx_int_t
ngx_http_mcds_table_items(ngx_http_mcds_table_rest_t *tr, json_t *json)
{
    size_t       i;
    json_t      *value;
    ngx_int_t    rc;
    ngx_uint_t   n;
    const char  *name;

    if (!json_is_object(json) && !json_is_array(json)) {
        return ngx_http_mcds_json_problem(tr->rest.request,
                                          NGX_HTTP_BAD_REQUEST,
                                          "the body must be an object of "
                                          "names and values, or an array of "
                                          "names");
    }

    n = json_is_object(json) ? json_object_size(json) : json_array_size(json);

    tr->items = ngx_pcalloc(tr->rest.pool,
                            (n + 1) * sizeof(ngx_mcds_table_item_t));
    if (tr->items == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    json_object_foreach(json, name, value) {

        rc = ngx_http_mcds_table_item(tr, &tr->items[tr->n++], name, value);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    json_array_foreach(json, i, value) {

        name = json_string_value(value);

        if (name == NULL) {
            return ngx_http_mcds_json_problem(tr->rest.request,
                                              NGX_HTTP_BAD_REQUEST,
                                              "names must be strings");
        }

        rc = ngx_http_mcds_table_item(tr, &tr->items[tr->n++], name, NULL);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_table_item(ngx_http_mcds_table_rest_t *tr,
    ngx_mcds_table_item_t *item, const char *name, json_t *value)
{
    char       *problem;
    ngx_int_t   rc;
    ngx_str_t   s;

    s.data = (u_char *) name;
    s.len = ngx_strlen(name);

    problem = ngx_http_mcds_table_check_name(&s);

    if (problem) {
        return ngx_http_mcds_json_problem(tr->rest.request,
                                          NGX_HTTP_BAD_REQUEST, problem);
    }

    item->name.len = s.len;
    item->name.data = ngx_pstrdup(tr->rest.pool, &s);

    if (item->name.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    item->ttl = tr->ttl;

    if (value == NULL) {
        ngx_str_set(&item->value, "1");
        return NGX_DECLINED;
    }

    if (json_is_null(value)) {
        item->kind = NGX_MCDS_TABLE_DELETE;
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_table_value(tr, value, &item->value);

    if (rc == NGX_DECLINED && item->value.len > NGX_MCDS_TABLE_VALUE) {
        return ngx_http_mcds_json_problem(tr->rest.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "a value is larger than 16 KB");
    }

    return rc;
}


/* a string is its text, anything else its JSON */

static ngx_int_t
ngx_http_mcds_table_value(ngx_http_mcds_table_rest_t *tr, json_t *json,
    ngx_str_t *value)
{
    ngx_str_t  s;

    if (!json_is_string(json)) {
        return ngx_http_mcds_line_json(tr->rest.pool, json, value) == NGX_OK
               ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    s.data = (u_char *) json_string_value(json);
    s.len = json_string_length(json);

    value->len = s.len;
    value->data = ngx_pstrdup(tr->rest.pool, &s);

    return value->data ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_mcds_table_change(ngx_http_mcds_table_rest_t *tr)
{
    if (ngx_mcds_table_change(&tr->table, tr->items, tr->n,
                              ngx_http_mcds_table_change_handler, tr)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    tr->rest.waiting++;
    tr->rest.answer = ngx_http_mcds_table_changed;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_change_handler(void *data, ngx_uint_t rc)
{
    ngx_http_mcds_table_rest_t *tr = data;

    tr->rc = rc;

    ngx_http_mcds_rest_done(&tr->rest);
}


static ngx_int_t
ngx_http_mcds_table_changed(ngx_http_mcds_rest_t *rest)
{
    ngx_http_mcds_table_rest_t *tr = (ngx_http_mcds_table_rest_t *) rest;

    ngx_uint_t              i;
    ngx_http_request_t     *r;
    ngx_mcds_table_item_t  *item;

    r = rest->request;

    for (i = 0; i < tr->n; i++) {
        item = &tr->items[i];

        switch (item->rc) {

        case NGX_MCDS_OK:
            break;

        case NGX_MCDS_EXISTS:
        case NGX_MCDS_NOT_STORED:
            return ngx_http_mcds_json_problem(r, NGX_HTTP_PRECONDITION_FAILED,
                                              "the element was changed at the "
                                              "same time");

        case NGX_MCDS_NOT_FOUND:

            if (item->cas) {
                return ngx_http_mcds_json_problem(r,
                                                 NGX_HTTP_PRECONDITION_FAILED,
                                                 "the element has gone at the "
                                                 "same time");
            }

            if (tr->name.len) {
                return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                                  "there is no element of "
                                                  "this name");
            }

            break;

        default:
            return ngx_http_mcds_rest_failed(r, item->rc);
        }
    }

    if (tr->rc != NGX_MCDS_OK) {

        /* elements are, the list may not be; to repeat it is no harm */

        return ngx_http_mcds_rest_failed(r, tr->rc == NGX_MCDS_TOO_LARGE
                                            ? NGX_MCDS_TOO_LARGE
                                            : NGX_MCDS_TIMEOUT);
    }

    if ((tr->method & NGX_HTTP_DELETE) && tr->name.len == 0) {
        return ngx_http_mcds_table_clear(rest);
    }

    return ngx_http_mcds_json_no_content(r);
}


static ngx_int_t
ngx_http_mcds_table_list(ngx_http_mcds_table_rest_t *tr)
{
    ngx_mcds_array_t  array;

    ngx_mcds_table_array(&tr->table, &array);

    if (ngx_mcds_array_read(&array, ngx_http_mcds_table_list_handler, tr)
        == NULL)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    tr->rest.waiting++;
    tr->rest.answer = ngx_http_mcds_table_shown;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_list_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content)
{
    ngx_http_mcds_table_rest_t *tr = data;

    if (rc == NGX_MCDS_OK) {
        tr->cas = content->cas;
        tr->crc = content->crc;

        rc = ngx_http_mcds_table_listed(tr, content);
    }

    tr->rc = rc;

    if (rc == NGX_MCDS_OK && tr->values) {
        tr->asking = 1;
        ngx_http_mcds_table_ask(tr);
        return;
    }

    ngx_http_mcds_rest_done(&tr->rest);
}


/* the names that are there, copied */

static ngx_uint_t
ngx_http_mcds_table_listed(ngx_http_mcds_table_rest_t *tr,
    ngx_mcds_array_content_t *content)
{
    u_char                  *p;
    size_t                   len;
    ngx_uint_t               i, rc;
    ngx_mcds_table_name_t   *name;
    ngx_mcds_table_names_t   names;
    ngx_http_mcds_listed_t  *listed;

    rc = NGX_MCDS_BUSY;

    if (ngx_mcds_table_names(&names, content, ngx_time()) != NGX_OK) {
        goto done;
    }

    len = 0;

    for (i = 0; i < names.n; i++) {
        len += names.name[i].there ? names.name[i].name.len : 0;
    }

    p = ngx_pnalloc(tr->rest.pool, len + 1);
    tr->listed = ngx_pcalloc(tr->rest.pool, (names.there + 1)
                                            * sizeof(ngx_http_mcds_listed_t));

    if (p == NULL || tr->listed == NULL) {
        goto done;
    }

    for (i = 0; i < names.n; i++) {
        name = &names.name[i];

        if (!name->there) {
            continue;
        }

        listed = &tr->listed[tr->nlisted++];

        listed->tr = tr;
        listed->expiry = name->expiry;
        listed->name.data = p;
        listed->name.len = name->name.len;

        p = ngx_cpymem(p, name->name.data, name->name.len);
    }

    rc = NGX_MCDS_OK;

done:

    ngx_mcds_table_names_free(&names);

    return rc;
}


static void
ngx_http_mcds_table_ask(ngx_http_mcds_table_rest_t *tr)
{
    u_char                   suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_mcds_request_t       req;
    ngx_http_mcds_listed_t  *listed;

    while (tr->rest.request
           && tr->rc == NGX_MCDS_OK
           && tr->asking <= NGX_HTTP_MCDS_TABLE_WINDOW
           && tr->next < tr->nlisted)
    {
        listed = &tr->listed[tr->next++];

        if (listed->name.len > NGX_MCDS_TABLE_NAME) {
            continue;
        }

        ngx_mcds_table_request(&req, &tr->table, &listed->name, suffix);

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE;

        if (ngx_mcds_submit(tr->table.pool, &req,
                            ngx_http_mcds_table_value_handler, listed)
            == NULL)
        {
            tr->rc = NGX_MCDS_BUSY;
            break;
        }

        tr->asking++;
    }

    /* one that stands for all */

    if (tr->asking == 1) {
        ngx_http_mcds_rest_done(&tr->rest);
    }
}


static void
ngx_http_mcds_table_value_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_listed_t *listed = data;

    ngx_http_mcds_table_rest_t  *tr;

    tr = listed->tr;

    switch (result->rc) {

    case NGX_MCDS_OK:
        tr->size += result->len;

        if (tr->size > NGX_HTTP_MCDS_TABLE_SIZE) {
            tr->rc = NGX_MCDS_TOO_LARGE;
            break;
        }

        listed->value = ngx_mcds_value_create(result->len + 1,
                                              ngx_cycle->log);
        if (listed->value == NULL) {
            tr->rc = NGX_MCDS_BUSY;
            break;
        }

        listed->value->len = result->len;
        ngx_memcpy(listed->value->data, result->data, result->len);
        break;

    case NGX_MCDS_NOT_FOUND:
        listed->missing = 1;
        tr->ghosts++;
        break;

    default:
        tr->rc = result->rc;
        break;
    }

    tr->asking--;

    ngx_http_mcds_table_ask(tr);
}


static ngx_int_t
ngx_http_mcds_table_shown(ngx_http_mcds_rest_t *rest)
{
    ngx_http_mcds_table_rest_t *tr = (ngx_http_mcds_table_rest_t *) rest;

    ngx_uint_t             i, first;
    ngx_http_request_t    *r;
    ngx_http_mcds_text_t   text;

    r = rest->request;

    if (tr->rc != NGX_MCDS_OK) {
        return ngx_http_mcds_rest_failed(r, tr->rc);
    }

    if (tr->method & NGX_HTTP_DELETE) {

        tr->items = ngx_pcalloc(rest->pool, (tr->nlisted + 1)
                                            * sizeof(ngx_mcds_table_item_t));
        if (tr->items == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        for (i = 0; i < tr->nlisted; i++) {
            tr->items[i].kind = NGX_MCDS_TABLE_DELETE;
            tr->items[i].name = tr->listed[i].name;
        }

        tr->n = tr->nlisted;

        return tr->n ? ngx_http_mcds_table_change(tr)
                     : ngx_http_mcds_table_clear(rest);
    }

    ngx_memzero(&text, sizeof(ngx_http_mcds_text_t));
    text.pool = rest->pool;

    if (tr->type == NGX_HTTP_MCDS_JSON) {
        ngx_http_mcds_text_put(&text, (u_char *) (tr->values ? "{" : "["), 1);
    }

    first = 1;

    for (i = 0; i < tr->nlisted; i++) {

        if (tr->listed[i].missing) {
            continue;
        }

        if (ngx_http_mcds_table_show(tr, &text, &tr->listed[i], first)
            != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        first = 0;
    }

    if (tr->type == NGX_HTTP_MCDS_JSON) {
        ngx_http_mcds_text_put(&text, (u_char *) (tr->values ? "}\n" : "]\n"),
                               2);
    }

    ngx_http_mcds_table_ghosts(tr);

    if (ngx_http_mcds_rest_etag(r, tr->values ? 0 : tr->cas, tr->crc)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_text_send(r, &text, tr->type);
}


static ngx_int_t
ngx_http_mcds_table_show(ngx_http_mcds_table_rest_t *tr,
    ngx_http_mcds_text_t *text, ngx_http_mcds_listed_t *listed,
    ngx_uint_t first)
{
    ngx_str_t  value;

    if (tr->type == NGX_HTTP_MCDS_TEXT) {

        ngx_http_mcds_text_put(text, listed->name.data, listed->name.len);

        if (listed->value) {
            ngx_http_mcds_text_put(text, (u_char *) " ", 1);
            ngx_http_mcds_text_put(text, listed->value->data,
                                   listed->value->len);
        }

        ngx_http_mcds_text_put(text, (u_char *) "\n", 1);

        return NGX_OK;
    }

    if (tr->type == NGX_HTTP_MCDS_JSON && !first) {
        ngx_http_mcds_text_put(text, (u_char *) ",", 1);
    }

    if (tr->type == NGX_HTTP_MCDS_NDJSON && tr->values) {
        ngx_http_mcds_text_put(text, (u_char *) "{", 1);
    }

    if (ngx_http_mcds_line_put(text, &listed->name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (listed->value) {
        value.data = listed->value->data;
        value.len = listed->value->len;

        ngx_http_mcds_text_put(text, (u_char *) ":", 1);

        if (ngx_http_mcds_line_put(text, &value) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (tr->type == NGX_HTTP_MCDS_NDJSON) {
        ngx_http_mcds_text_put(text, (u_char *) (tr->values ? "}\n" : "\n"),
                               tr->values ? 2 : 1);
    }

    return NGX_OK;
}


/* what memcached has dropped is dropped from the list, too */

static void
ngx_http_mcds_table_ghosts(ngx_http_mcds_table_rest_t *tr)
{
    u_char                      *p;
    ngx_uint_t                   i;
    ngx_pool_t                  *pool;
    ngx_mcds_table_item_t       *item;
    ngx_http_mcds_listed_t      *listed;

    if (tr->ghosts == 0) {
        return;
    }

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return;
    }

    item = ngx_pcalloc(pool, tr->ghosts * sizeof(ngx_mcds_table_item_t));
    if (item == NULL) {
        ngx_destroy_pool(pool);
        return;
    }

    tr->ghosts = 0;

    for (i = 0; i < tr->nlisted; i++) {
        listed = &tr->listed[i];

        if (!listed->missing) {
            continue;
        }

        p = ngx_pstrdup(pool, &listed->name);
        if (p == NULL) {
            break;
        }

        item[tr->ghosts].kind = NGX_MCDS_TABLE_CHECK;
        item[tr->ghosts].name.data = p;
        item[tr->ghosts].name.len = listed->name.len;
        item[tr->ghosts].expiry = listed->expiry;

        tr->ghosts++;
    }

    if (tr->ghosts == 0
        || ngx_mcds_table_change(&tr->table, item, tr->ghosts,
                                 ngx_http_mcds_table_ghosts_handler, pool)
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
    }
}


static void
ngx_http_mcds_table_ghosts_handler(void *data, ngx_uint_t rc)
{
    ngx_destroy_pool(data);
}


/* all elements are gone; now the lines that say so */

static ngx_int_t
ngx_http_mcds_table_clear(ngx_http_mcds_rest_t *rest)
{
    ngx_http_mcds_table_rest_t *tr = (ngx_http_mcds_table_rest_t *) rest;

    if (ngx_mcds_table_compact(&tr->table, ngx_http_mcds_table_cleared, tr)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rest->waiting++;
    rest->answer = ngx_http_mcds_table_empty;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_cleared(void *data, ngx_mcds_array_done_t *done)
{
    ngx_http_mcds_table_rest_t *tr = data;

    ngx_http_mcds_rest_done(&tr->rest);
}


/* lines that are of no use any more are no reason to fail */

static ngx_int_t
ngx_http_mcds_table_empty(ngx_http_mcds_rest_t *rest)
{
    return ngx_http_mcds_json_no_content(rest->request);
}


static void
ngx_http_mcds_table_cleanup(void *data)
{
    ngx_http_mcds_table_rest_t *tr = data;

    ngx_uint_t  i;

    ngx_mcds_value_unref(tr->value);

    for (i = 0; i < tr->nlisted; i++) {
        ngx_mcds_value_unref(tr->listed[i].value);
    }
}
