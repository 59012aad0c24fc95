
/*
 * Copyright (C) mcds authors
 *
 * Requests to mcds_table_api for one element of a table, GET, HEAD, PUT and
 * DELETE, and for several elements, POST.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_table.h"


static void ngx_http_mcds_element_handler(void *data,
    ngx_mcds_result_t *result);
static ngx_int_t ngx_http_mcds_element_respond(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_element_change(ngx_http_mcds_table_api_t *tr);
static ngx_int_t ngx_http_mcds_element_value(ngx_http_mcds_table_api_t *tr,
    ngx_str_t *value);
static ngx_int_t ngx_http_mcds_table_items(ngx_http_mcds_table_api_t *tr,
    json_t *json);
static ngx_int_t ngx_http_mcds_table_item(ngx_http_mcds_table_api_t *tr,
    ngx_mcds_table_item_t *item, const char *name, json_t *value);
static ngx_int_t ngx_http_mcds_table_value(ngx_http_mcds_table_api_t *tr,
    json_t *json, ngx_str_t *value);
static void ngx_http_mcds_table_change_handler(void *data, ngx_uint_t rc);
static ngx_int_t ngx_http_mcds_table_changed(ngx_http_mcds_resource_t *res);


/*
 * A request with If-Match or If-None-Match that changes an element of a table
 * reads the element first.
 */

ngx_int_t
ngx_http_mcds_element_start(ngx_http_mcds_table_api_t *tr)
{
    u_char              suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_int_t           rc;
    ngx_mcds_request_t  req;

    if (!(tr->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {

        tr->items = ngx_pcalloc(tr->res.pool, sizeof(ngx_mcds_table_item_t));
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

        if (tr->res.match.data == NULL && tr->res.none_match.data == NULL) {
            return ngx_http_mcds_table_change(tr);
        }
    }

    ngx_mcds_table_request(&req, &tr->table, &tr->name, suffix);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;

    tr->op.handler = ngx_http_mcds_element_handler;
    tr->op.data = tr;

    ngx_mcds_submit(tr->table.pool, &req, &tr->op);

    tr->res.waiting++;
    tr->res.respond = ngx_http_mcds_element_respond;

    return NGX_DONE;
}


static void
ngx_http_mcds_element_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_table_api_t *tr = data;

    tr->rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        tr->found = 1;
        tr->cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;
        tr->left = (result->has & NGX_MCDS_TTL)
                   ? ngx_mcds_ttl_left(result->ttl) : -1;
        tr->crc = ngx_crc32_long(result->data, result->len);

        tr->value = ngx_mcds_value_create(result->len + 1, ngx_cycle->log);

        if (tr->value == NULL) {
            tr->rc = NGX_MCDS_BUSY;

        } else {
            tr->value->len = result->len;
            ngx_memcpy(tr->value->data, result->data, result->len);
        }
    }

    ngx_http_mcds_resource_done(&tr->res);
}


static ngx_int_t
ngx_http_mcds_element_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_table_api_t *tr = (ngx_http_mcds_table_api_t *) res;

    u_char                *p;
    ngx_str_t              value;
    ngx_http_request_t    *r;
    ngx_http_mcds_text_t   text;

    r = res->request;

    if (tr->rc != NGX_MCDS_OK && tr->rc != NGX_MCDS_NOT_FOUND) {
        return ngx_http_mcds_data_unread(r, tr->rc);
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

        if (ngx_http_mcds_header_text(r, "X-TTL", (char *) p) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (ngx_http_mcds_resource_etag(r, tr->cas, tr->crc) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_text_send(r, &text, tr->type);
}


static ngx_int_t
ngx_http_mcds_element_change(ngx_http_mcds_table_api_t *tr)
{
    if (!ngx_http_mcds_resource_match(&tr->res, tr->found, tr->cas, tr->crc)) {
        return ngx_http_mcds_json_problem(tr->res.request,
                                          NGX_HTTP_PRECONDITION_FAILED,
                                          "the element is not, or no longer, "
                                          "what the condition says");
    }

    if (tr->found) {

        if (tr->cas == 0) {
            return ngx_http_mcds_data_failed(tr->res.request,
                                             NGX_MCDS_SERVER_ERROR);
        }

        tr->items->cas = tr->cas;

    } else if (tr->items->kind == NGX_MCDS_TABLE_SET) {
        tr->items->kind = NGX_MCDS_TABLE_ADD;
    }

    return ngx_http_mcds_table_change(tr);
}


/*
 * Reads the value of a table's element from the body of a PUT.  Returns
 * NGX_DECLINED if the value is valid, otherwise the result for the content
 * handler to return.
 */

static ngx_int_t
ngx_http_mcds_element_value(ngx_http_mcds_table_api_t *tr, ngx_str_t *value)
{
    json_t     *json;
    ngx_int_t   rc;

    if (ngx_http_mcds_resource_has(tr->res.request) == NGX_HTTP_MCDS_JSON) {

        json = ngx_http_mcds_body_load(&tr->res, &rc);
        if (json == NULL) {
            return rc;
        }

        rc = ngx_http_mcds_table_value(tr, json, value);

        json_decref(json);

        if (rc != NGX_DECLINED) {
            return rc;
        }

    } else if (tr->res.body.len) {
        *value = tr->res.body;

    } else {
        ngx_str_set(value, "1");
    }

    if (value->len > NGX_MCDS_TABLE_VALUE) {
        return ngx_http_mcds_json_problem(tr->res.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "the value is larger than 16 KB");
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_mcds_table_many(ngx_http_mcds_table_api_t *tr)
{
    json_t              *json;
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = tr->res.request;

    if (ngx_http_mcds_resource_has(r) != NGX_HTTP_MCDS_JSON) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "the body must be "
                                          "application/json");
    }

    json = ngx_http_mcds_body_load(&tr->res, &rc);
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
ngx_http_mcds_table_items(ngx_http_mcds_table_api_t *tr, json_t *json)
{
    size_t       i;
    json_t      *value;
    ngx_int_t    rc;
    ngx_uint_t   n;
    const char  *name;

    if (!json_is_object(json) && !json_is_array(json)) {
        return ngx_http_mcds_json_problem(tr->res.request,
                                          NGX_HTTP_BAD_REQUEST,
                                          "the body must be an object of "
                                          "names and values, or an array of "
                                          "names");
    }

    n = json_is_object(json) ? json_object_size(json) : json_array_size(json);

    tr->items = ngx_pcalloc(tr->res.pool,
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
            return ngx_http_mcds_json_problem(tr->res.request,
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
ngx_http_mcds_table_item(ngx_http_mcds_table_api_t *tr,
    ngx_mcds_table_item_t *item, const char *name, json_t *value)
{
    char       *problem;
    ngx_int_t   rc;
    ngx_str_t   s;

    s.data = (u_char *) name;
    s.len = ngx_strlen(name);

    problem = ngx_http_mcds_resource_check_name(&s);

    if (problem) {
        return ngx_http_mcds_json_problem(tr->res.request,
                                          NGX_HTTP_BAD_REQUEST, problem);
    }

    item->name.len = s.len;
    item->name.data = ngx_pstrdup(tr->res.pool, &s);

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
        return ngx_http_mcds_json_problem(tr->res.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "a value is larger than 16 KB");
    }

    return rc;
}


/*
 * Converts the JSON value of a table's element to the text that is stored: the
 * content of a JSON string, or any other value as JSON.  Returns NGX_DECLINED
 * on success, or NGX_HTTP_INTERNAL_SERVER_ERROR when out of memory.
 */

static ngx_int_t
ngx_http_mcds_table_value(ngx_http_mcds_table_api_t *tr, json_t *json,
    ngx_str_t *value)
{
    ngx_str_t  s;

    if (!json_is_string(json)) {
        return ngx_http_mcds_line_json(tr->res.pool, json, value) == NGX_OK
               ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    s.data = (u_char *) json_string_value(json);
    s.len = json_string_length(json);

    value->len = s.len;
    value->data = ngx_pstrdup(tr->res.pool, &s);

    return value->data ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_int_t
ngx_http_mcds_table_change(ngx_http_mcds_table_api_t *tr)
{
    tr->change.table = tr->table;
    tr->change.items = tr->items;
    tr->change.n = tr->n;
    tr->change.handler = ngx_http_mcds_table_change_handler;
    tr->change.data = tr;

    ngx_mcds_table_change(&tr->change);

    tr->res.waiting++;
    tr->res.respond = ngx_http_mcds_table_changed;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_change_handler(void *data, ngx_uint_t rc)
{
    ngx_http_mcds_table_api_t *tr = data;

    tr->rc = rc;

    ngx_http_mcds_resource_done(&tr->res);
}


static ngx_int_t
ngx_http_mcds_table_changed(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_table_api_t *tr = (ngx_http_mcds_table_api_t *) res;

    ngx_uint_t              i;
    ngx_http_request_t     *r;
    ngx_mcds_table_item_t  *item;

    r = res->request;

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

            /*
             * of several elements, memcached may have changed others, even if
             * it could not be asked for this one
             */

            return ngx_http_mcds_data_failed(r, tr->n > 1
                                                && !ngx_mcds_sent(item->rc)
                                                ? NGX_MCDS_TIMEOUT
                                                : item->rc);
        }
    }

    if (tr->rc != NGX_MCDS_OK) {

        /*
         * memcached has changed the elements of the table, but perhaps not its
         * list of names; the client may safely repeat the request
         */

        return ngx_http_mcds_data_failed(r, tr->rc == NGX_MCDS_TOO_LARGE
                                            ? NGX_MCDS_TOO_LARGE
                                            : NGX_MCDS_TIMEOUT);
    }

    if ((tr->method & NGX_HTTP_DELETE) && tr->name.len == 0) {
        return ngx_http_mcds_table_clear(res);
    }

    return ngx_http_mcds_json_no_content(r);
}
