
/*
 * Copyright (C) mcds authors
 *
 * Requests to mcds_table_api for a whole table: GET shows the names, or the
 * names and values, of its elements; DELETE deletes them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_table.h"


/*
 * for a response that lists a table: the maximum number of values that are
 * being read at a time, and of the bytes of all values
 */
#define NGX_HTTP_MCDS_TABLE_WINDOW  128
#define NGX_HTTP_MCDS_TABLE_SIZE    (16 * 1024 * 1024)


static void ngx_http_mcds_table_list_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_http_mcds_table_listed(ngx_http_mcds_table_api_t *tr,
    ngx_mcds_array_content_t *content);
static void ngx_http_mcds_table_ask(ngx_http_mcds_table_api_t *tr);
static void ngx_http_mcds_table_value_handler(void *data,
    ngx_mcds_result_t *result);
static ngx_int_t ngx_http_mcds_table_shown(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_table_show(ngx_http_mcds_table_api_t *tr,
    ngx_http_mcds_text_t *text, ngx_http_mcds_listed_t *listed,
    ngx_uint_t first);
static void ngx_http_mcds_table_ghosts(ngx_http_mcds_table_api_t *tr);
static void ngx_http_mcds_table_ghosts_handler(void *data, ngx_uint_t rc);
static void ngx_http_mcds_table_cleared(void *data,
    ngx_mcds_array_done_t *done);
static ngx_int_t ngx_http_mcds_table_empty(ngx_http_mcds_resource_t *res);


ngx_int_t
ngx_http_mcds_table_list(ngx_http_mcds_table_api_t *tr)
{
    ngx_mcds_table_array(&tr->table, &tr->read.array);

    tr->read.handler = ngx_http_mcds_table_list_handler;
    tr->read.data = tr;

    ngx_mcds_array_read(&tr->read);

    tr->res.waiting++;
    tr->res.respond = ngx_http_mcds_table_shown;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_list_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content)
{
    ngx_http_mcds_table_api_t *tr = data;

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

    ngx_http_mcds_resource_done(&tr->res);
}


/*
 * Copies the names of a table's elements from the table's list of names,
 * without those of deleted and expired elements.  Returns NGX_MCDS_OK, or
 * NGX_MCDS_BUSY when out of memory.
 */

static ngx_uint_t
ngx_http_mcds_table_listed(ngx_http_mcds_table_api_t *tr,
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

    p = ngx_pnalloc(tr->res.pool, len + 1);
    tr->listed = ngx_pcalloc(tr->res.pool, (names.there + 1)
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

        /*
         * names of elements disappear when the elements expire, without a
         * change of the table's list of names, so the ETag depends on the names
         * that the response shows, too
         */

        ngx_crc32_update(&tr->crc, name->name.data, name->name.len);
    }

    rc = NGX_MCDS_OK;

done:

    ngx_mcds_table_names_free(&names);

    return rc;
}


static void
ngx_http_mcds_table_ask(ngx_http_mcds_table_api_t *tr)
{
    u_char                   suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_uint_t               batch;
    ngx_mcds_request_t       req;
    ngx_http_mcds_listed_t  *listed;

    batch = ngx_mcds_pool_batch(tr->table.pool, 0);
    batch = ngx_min(NGX_HTTP_MCDS_TABLE_WINDOW, batch);

    while (tr->res.request
           && tr->rc == NGX_MCDS_OK
           && tr->asking <= batch
           && tr->next < tr->nlisted)
    {
        listed = &tr->listed[tr->next++];

        ngx_mcds_table_request(&req, &tr->table, &listed->name, suffix);

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE;

        listed->op.handler = ngx_http_mcds_table_value_handler;
        listed->op.data = listed;

        ngx_mcds_submit(tr->table.pool, &req, &listed->op);

        tr->asking++;
    }

    /*
     * "asking" is the number of values of the table that are being read from
     * memcached, plus 1: if it is 1, all reads of values have ended
     */

    if (tr->asking == 1) {
        ngx_http_mcds_resource_done(&tr->res);
    }
}


static void
ngx_http_mcds_table_value_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_listed_t *listed = data;

    ngx_http_mcds_table_api_t  *tr;

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
ngx_http_mcds_table_shown(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_table_api_t *tr = (ngx_http_mcds_table_api_t *) res;

    ngx_uint_t             i, first;
    ngx_http_request_t    *r;
    ngx_http_mcds_text_t   text;

    r = res->request;

    if (tr->rc != NGX_MCDS_OK) {
        return ngx_http_mcds_data_unread(r, tr->rc);
    }

    if (tr->method & NGX_HTTP_DELETE) {

        tr->items = ngx_pcalloc(res->pool, (tr->nlisted + 1)
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
                     : ngx_http_mcds_table_clear(res);
    }

    ngx_memzero(&text, sizeof(ngx_http_mcds_text_t));
    text.pool = res->pool;

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

    if (ngx_http_mcds_resource_etag(r, tr->values ? 0 : tr->cas, tr->crc)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_text_send(r, &text, tr->type);
}


static ngx_int_t
ngx_http_mcds_table_show(ngx_http_mcds_table_api_t *tr,
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


/*
 * Removes from a table's list of names those of elements that memcached has
 * evicted.
 */

static void
ngx_http_mcds_table_ghosts(ngx_http_mcds_table_api_t *tr)
{
    u_char                      *p;
    ngx_uint_t                   i;
    ngx_pool_t                  *pool;
    ngx_mcds_table_item_t       *item;
    ngx_mcds_table_change_t     *change;
    ngx_http_mcds_listed_t      *listed;

    if (tr->ghosts == 0) {
        return;
    }

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return;
    }

    change = ngx_pcalloc(pool, sizeof(ngx_mcds_table_change_t));
    item = ngx_pcalloc(pool, tr->ghosts * sizeof(ngx_mcds_table_item_t));

    /*
     * the table's key is copied, since the change of its list of names may last
     * longer than the request that has started it
     */

    p = ngx_pstrdup(pool, &tr->table.key);

    if (change == NULL || item == NULL || p == NULL) {
        ngx_destroy_pool(pool);
        return;
    }

    change->table.pool = tr->table.pool;
    change->table.key.data = p;
    change->table.key.len = tr->table.key.len;
    change->items = item;
    change->handler = ngx_http_mcds_table_ghosts_handler;
    change->data = pool;

    for (i = 0; i < tr->nlisted; i++) {
        listed = &tr->listed[i];

        if (!listed->missing) {
            continue;
        }

        p = ngx_pstrdup(pool, &listed->name);
        if (p == NULL) {
            break;
        }

        item->kind = NGX_MCDS_TABLE_CHECK;
        item->name.data = p;
        item->name.len = listed->name.len;
        item->expiry = listed->expiry;

        item++;
        change->n++;
    }

    if (change->n == 0) {
        ngx_destroy_pool(pool);
        return;
    }

    ngx_mcds_table_change(change);
}


static void
ngx_http_mcds_table_ghosts_handler(void *data, ngx_uint_t rc)
{
    ngx_destroy_pool(data);
}


/*
 * Called when a request has deleted all elements of a table: removes their
 * names from the table's list of names.
 */

ngx_int_t
ngx_http_mcds_table_clear(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_table_api_t *tr = (ngx_http_mcds_table_api_t *) res;

    if (ngx_mcds_table_compact(&tr->table, ngx_http_mcds_table_cleared, tr)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    res->waiting++;
    res->respond = ngx_http_mcds_table_empty;

    return NGX_DONE;
}


static void
ngx_http_mcds_table_cleared(void *data, ngx_mcds_array_done_t *done)
{
    ngx_http_mcds_table_api_t *tr = data;

    ngx_http_mcds_resource_done(&tr->res);
}


static ngx_int_t
ngx_http_mcds_table_empty(ngx_http_mcds_resource_t *res)
{
    return ngx_http_mcds_json_no_content(res->request);
}
