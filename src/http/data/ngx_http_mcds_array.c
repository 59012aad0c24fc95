
/*
 * Copyright (C) mcds authors
 *
 * mcds_array_api: an array, a list of JSON values in memcached, as an HTTP
 * resource.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_array.h"
#include "ngx_http_mcds_data.h"


typedef struct {
    ngx_http_mcds_resource_t     res;
    ngx_http_mcds_array_conf_t  *conf;
    ngx_mcds_array_t             array;
    ngx_mcds_array_read_t        read;     /* the read of the array that a GET
                                              waits for */
    ngx_uint_t                   method;
    ngx_uint_t                   type;
    ngx_uint_t                   rc;
    ngx_uint_t                   refused;  /* 1: If-Match or If-None-Match does
                                              not permit the request to change
                                              the array */
    ngx_mcds_array_done_t        done;

    ngx_http_mcds_text_t         text;     /* the body of the response to a GET
                                              of an array */
    uint64_t                     cas;
    uint32_t                     crc;

    ngx_array_t                  add;      /* array of ngx_str_t: the values to
                                              append, as lines of JSON */
    ngx_http_mcds_set_t          remove;
} ngx_http_mcds_array_api_t;


/*
 * The set of an array's values, those in memcached and those that are going to
 * be appended.  The requests whose edits are combined in one change of the
 * array use it to find duplicates.
 */

typedef struct {
    ngx_http_mcds_set_t      set;
    size_t                   added;    /* number of bytes, from the start of
                                          the text to append to the array, whose
                                          values the set already contains */
} ngx_http_mcds_array_memo_t;


static ngx_int_t ngx_http_mcds_array_start(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_array_write(ngx_http_mcds_array_api_t *ar);
static ngx_int_t ngx_http_mcds_array_body(ngx_http_mcds_array_api_t *ar);
static ngx_int_t ngx_http_mcds_array_patch(ngx_http_mcds_array_api_t *ar);
static ngx_int_t ngx_http_mcds_array_lines_of(ngx_http_mcds_array_api_t *ar,
    json_t *json, ngx_uint_t remove);
static void ngx_http_mcds_array_read_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_http_mcds_array_surplus(
    ngx_http_mcds_array_conf_t *conf, ngx_mcds_array_content_t *content);
static ngx_int_t ngx_http_mcds_array_show(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_http_mcds_array_edit(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);
static ngx_uint_t ngx_http_mcds_array_merge(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit, ngx_pool_t *pool);
static ngx_int_t ngx_http_mcds_array_keep(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content, ngx_array_t *lines,
    ngx_http_mcds_set_t *known);
static ngx_http_mcds_array_memo_t *ngx_http_mcds_array_memo(
    ngx_mcds_array_content_t *content);
static void ngx_http_mcds_array_done_handler(void *data,
    ngx_mcds_array_done_t *done);
static ngx_int_t ngx_http_mcds_array_respond(ngx_http_mcds_resource_t *res);


ngx_http_mcds_param_t  ngx_http_mcds_array_params[] = {

    { ngx_string("max="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_array_conf_t, max),
      1, 1000000, 0, NULL },

    { ngx_string("unique"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_array_conf_t, unique),
      1, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_array(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_data_conf_t *dcf = conf;

    ngx_str_t  *value;

    if (dcf->array) {
        return "is duplicate";
    }

    dcf->array = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_array_conf_t));
    if (dcf->array == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs the name of an array";
    }

    if (ngx_http_mcds_compile(cf, &value[1], &dcf->array->name) != NGX_CONF_OK
        || ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_array_params,
                                dcf->array)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_mcds_data_needs(cf, cmd, dcf);

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_array_handler);
}


ngx_int_t
ngx_http_mcds_array_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_http_mcds_data_conf_t  *dcf;
    ngx_http_mcds_array_api_t  *ar;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    rc = ngx_http_mcds_resource_allow(r, NGX_HTTP_GET|NGX_HTTP_HEAD
                                     |NGX_HTTP_POST|NGX_HTTP_PUT
                                     |NGX_HTTP_PATCH|NGX_HTTP_DELETE);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    ngx_mcds_stat_add(dcf->stat,
                      (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
                      ? NGX_MCDS_DATA_READ : NGX_MCDS_DATA_CHANGE, 1);

    ar = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_array_api_t));
    if (ar == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ar->conf = dcf->array;
    ar->array.pool = dcf->pool;
    ar->method = r->method;
    ar->res.respond = ngx_http_mcds_array_respond;

    return ngx_http_mcds_resource_begin(&ar->res, ngx_http_mcds_array_start);
}


ngx_int_t
ngx_http_mcds_array_name(ngx_http_request_t *r,
    ngx_http_mcds_array_conf_t *conf, ngx_mcds_pool_t *pool,
    ngx_mcds_array_t *array)
{
    ngx_memzero(array, sizeof(ngx_mcds_array_t));

    array->pool = pool;
    array->max = conf->max;

    if (ngx_http_complex_value(r, &conf->name, &array->key) != NGX_OK) {
        return NGX_ERROR;
    }

    return array->key.len ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_array_start(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_array_api_t *ar = (ngx_http_mcds_array_api_t *) res;

    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = res->request;

    rc = ngx_http_mcds_array_name(r, ar->conf, ar->array.pool, &ar->array);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                          "there is no array for this "
                                          "request");
    }

    ar->array.key.data = ngx_pstrdup(res->pool, &ar->array.key);
    if (ar->array.key.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!(ar->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return ngx_http_mcds_array_write(ar);
    }

    ar->type = ngx_http_mcds_resource_wants(r);

    if (ar->type == NGX_HTTP_MCDS_OTHER) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "format must be json, ndjson or "
                                          "text");
    }

    ar->text.pool = res->pool;

    ar->read.array = ar->array;
    ar->read.handler = ngx_http_mcds_array_read_handler;
    ar->read.data = ar;

    ngx_mcds_array_read(&ar->read);

    res->waiting++;

    return NGX_DONE;
}


static ngx_int_t
ngx_http_mcds_array_write(ngx_http_mcds_array_api_t *ar)
{
    ngx_int_t          rc;
    ngx_str_t          lines;
    ngx_uint_t         shared;
    ngx_mcds_value_t  *text;

    if (ngx_array_init(&ar->add, ar->res.pool, 8, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ar->remove.pool = ar->res.pool;

    rc = NGX_DECLINED;

    if (ar->method == NGX_HTTP_PATCH) {
        rc = ngx_http_mcds_array_patch(ar);

    } else if (ar->method != NGX_HTTP_DELETE) {
        rc = ngx_http_mcds_array_body(ar);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    shared = (ar->method == NGX_HTTP_POST
              && ar->res.match.data == NULL
              && ar->res.none_match.data == NULL);

    if (shared && ar->add.nelts == 0) {
        return ngx_http_mcds_json_no_content(ar->res.request);
    }

    if (shared && !ar->conf->unique) {

        text = ngx_http_mcds_array_text(ar->add.elts, ar->add.nelts);
        if (text == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        lines.data = text->data;
        lines.len = text->len;

        rc = ngx_mcds_array_append(&ar->array, &lines,
                                   ngx_http_mcds_array_done_handler, ar);

        ngx_mcds_value_unref(text);

    } else {
        rc = ngx_mcds_array_change(&ar->array, shared, 0,
                                   ngx_http_mcds_array_edit,
                                   ngx_http_mcds_array_done_handler, ar);
    }

    if (rc == NGX_BUSY) {
        return ngx_http_mcds_data_failed(ar->res.request, NGX_MCDS_BUSY);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ar->res.waiting++;

    return NGX_DONE;
}


/*
 * Reads the values for an array from the request's body.  Returns NGX_DECLINED,
 * or, on an error, the result for the content handler to return.
 */

static ngx_int_t
ngx_http_mcds_array_body(ngx_http_mcds_array_api_t *ar)
{
    json_t     *json;
    ngx_int_t   rc;

    json = ngx_http_mcds_body_array(&ar->res,
                                    ar->method == NGX_HTTP_POST, &rc);
    if (json == NULL) {
        return rc;
    }

    rc = ngx_http_mcds_array_lines_of(ar, json, 0);

    json_decref(json);

    return rc;
}


static ngx_int_t
ngx_http_mcds_array_patch(ngx_http_mcds_array_api_t *ar)
{
    json_t      *json, *value, *add, *remove;
    ngx_int_t    rc;
    const char  *key;

    if (ngx_http_mcds_resource_has(ar->res.request) != NGX_HTTP_MCDS_JSON) {
        return ngx_http_mcds_json_problem(ar->res.request,
                                          NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "the body must be "
                                          "application/json");
    }

    json = ngx_http_mcds_body_load(&ar->res, &rc);
    if (json == NULL) {
        return rc;
    }

    add = NULL;
    remove = NULL;
    rc = json_is_object(json) ? NGX_DECLINED : NGX_ERROR;

    json_object_foreach(json, key, value) {

        if (ngx_strcmp(key, "add") == 0 && json_is_array(value)) {
            add = value;

        } else if (ngx_strcmp(key, "remove") == 0 && json_is_array(value)) {
            remove = value;

        } else {
            rc = NGX_ERROR;
        }
    }

    if (rc == NGX_ERROR) {
        rc = ngx_http_mcds_json_problem(ar->res.request,
                                        NGX_HTTP_BAD_REQUEST,
                                        "the body must be an object of the "
                                        "arrays 'add' and 'remove'");
    }

    if (rc == NGX_DECLINED && add) {
        rc = ngx_http_mcds_array_lines_of(ar, add, 0);
    }

    if (rc == NGX_DECLINED && remove) {
        rc = ngx_http_mcds_array_lines_of(ar, remove, 1);
    }

    json_decref(json);

    return rc;
}


static ngx_int_t
ngx_http_mcds_array_lines_of(ngx_http_mcds_array_api_t *ar, json_t *json,
    ngx_uint_t remove)
{
    size_t      i;
    json_t     *value;
    ngx_str_t   line, *add;

    json_array_foreach(json, i, value) {

        if (ngx_http_mcds_line_json(ar->res.pool, value, &line) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (line.len >= NGX_MCDS_ARRAY_LINE) {
            return ngx_http_mcds_json_problem(ar->res.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "a value is larger than 64 KB");
        }

        if (remove) {
            if (ngx_http_mcds_set_add(&ar->remove, &line) == NGX_ERROR) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            continue;
        }

        add = ngx_array_push(&ar->add);
        if (add == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        *add = line;
    }

    return NGX_DECLINED;
}


static void
ngx_http_mcds_array_read_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content)
{
    ngx_http_mcds_array_api_t *ar = data;

    ar->rc = rc;

    if (rc == NGX_MCDS_OK && ar->res.request) {
        ar->cas = content->cas;
        ar->crc = content->crc;

        if (ngx_http_mcds_array_show(ar, content) != NGX_OK) {
            ar->text.failed = 1;
        }
    }

    ngx_http_mcds_resource_done(&ar->res);
}


/* returns how many of the array's oldest values exceed its limit "max" */

static ngx_uint_t
ngx_http_mcds_array_surplus(ngx_http_mcds_array_conf_t *conf,
    ngx_mcds_array_content_t *content)
{
    ngx_str_t               line;
    ngx_uint_t              n;
    ngx_mcds_array_place_t  place;

    if (conf->max == 0) {
        return 0;
    }

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    for (n = 0; ngx_mcds_array_next(content, &place, &line) == NGX_OK; n++) {
        /* void */
    }

    return (n > conf->max) ? n - conf->max : 0;
}


static ngx_int_t
ngx_http_mcds_array_show(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content)
{
    ngx_int_t               rc;
    ngx_str_t               line, shown;
    ngx_uint_t              skip, first;
    ngx_pool_t             *pool;
    ngx_mcds_array_place_t  place;

    skip = ngx_http_mcds_array_surplus(ar->conf, content);

    if (ar->type == NGX_HTTP_MCDS_JSON) {
        ngx_http_mcds_text_put(&ar->text, (u_char *) "[", 1);
    }

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    first = 1;
    rc = NGX_OK;

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {

        if (skip) {
            skip--;
            continue;
        }

        if (ar->type == NGX_HTTP_MCDS_TEXT) {
            rc = ngx_http_mcds_line_show(pool, &line, &shown);

        } else {
            rc = ngx_http_mcds_line_same(pool, &line, &shown);
        }

        if (rc != NGX_OK) {
            break;
        }

        if (ar->type == NGX_HTTP_MCDS_JSON && !first) {
            ngx_http_mcds_text_put(&ar->text, (u_char *) ",", 1);
        }

        ngx_http_mcds_text_put(&ar->text, shown.data, shown.len);

        if (ar->type != NGX_HTTP_MCDS_JSON) {
            ngx_http_mcds_text_put(&ar->text, (u_char *) "\n", 1);
        }

        first = 0;
    }

    ngx_destroy_pool(pool);

    if (ar->type == NGX_HTTP_MCDS_JSON) {
        ngx_http_mcds_text_put(&ar->text, (u_char *) "]\n", 2);
    }

    return rc;
}


static ngx_uint_t
ngx_http_mcds_array_edit(void *data, ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added, ngx_mcds_array_edit_t *edit)
{
    ngx_http_mcds_array_api_t *ar = data;

    ngx_uint_t   rc;
    ngx_pool_t  *pool;

    ar->refused = !ngx_http_mcds_resource_match(&ar->res, content->found,
                                                content->cas, content->crc);
    if (ar->refused) {
        return NGX_MCDS_EXISTS;
    }

    if (ar->method == NGX_HTTP_DELETE) {

        if (content->found) {
            edit->kind = NGX_MCDS_ARRAY_REPLACE;
        }

        return NGX_MCDS_OK;
    }

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_MCDS_BUSY;
    }

    rc = ngx_http_mcds_array_merge(ar, content, added, edit, pool);

    ngx_destroy_pool(pool);

    return rc;
}


static ngx_uint_t
ngx_http_mcds_array_merge(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit, ngx_pool_t *pool)
{
    ngx_str_t            *text, *add;
    ngx_uint_t            i, removed;
    ngx_array_t           lines;
    ngx_http_mcds_set_t   known, *all;

    if (ngx_array_init(&lines, pool, 64, sizeof(ngx_str_t)) != NGX_OK) {
        return NGX_MCDS_BUSY;
    }

    ngx_memzero(&known, sizeof(ngx_http_mcds_set_t));
    known.pool = pool;

    all = NULL;
    removed = 0;

    if (ar->method == NGX_HTTP_PATCH && ar->remove.n) {

        switch (ngx_http_mcds_array_keep(ar, content, &lines, &known)) {

        case NGX_OK:
            removed = 1;
            break;

        case NGX_DECLINED:
            lines.nelts = 0;
            break;

        default:
            return NGX_MCDS_BUSY;
        }
    }

    if (ar->conf->unique && ar->method != NGX_HTTP_PUT && !removed) {

        all = ngx_http_mcds_array_known(content, added);
        if (all == NULL) {
            return NGX_MCDS_BUSY;
        }
    }

    add = ar->add.elts;

    for (i = 0; i < ar->add.nelts; i++) {

        if (all && ngx_http_mcds_set_has(all, &add[i])) {
            continue;
        }

        if (ar->conf->unique) {

            switch (ngx_http_mcds_set_add(&known, &add[i])) {

            case NGX_OK:
                break;

            case NGX_DECLINED:
                continue;

            default:
                return NGX_MCDS_BUSY;
            }
        }

        text = ngx_array_push(&lines);
        if (text == NULL) {
            return NGX_MCDS_BUSY;
        }

        *text = add[i];
    }

    edit->kind = (ar->method == NGX_HTTP_PUT || removed)
                 ? NGX_MCDS_ARRAY_REPLACE : NGX_MCDS_ARRAY_APPEND;

    if (lines.nelts == 0) {

        if (edit->kind == NGX_MCDS_ARRAY_APPEND || !content->found) {
            edit->kind = NGX_MCDS_ARRAY_SAME;
        }

        return NGX_MCDS_OK;
    }

    edit->text = ngx_http_mcds_array_text(lines.elts, lines.nelts);

    return edit->text ? NGX_MCDS_OK : NGX_MCDS_BUSY;
}


/*
 * Collects the values that a PATCH leaves in the array, as JSON, unchanged from
 * the array in memcached.  The oldest values, those beyond "max", are left out:
 * clients do not see these values any more, but would see them again when newer
 * values are removed.  NGX_DECLINED: the PATCH removes no value; NGX_ERROR: out
 * of memory.
 */

static ngx_int_t
ngx_http_mcds_array_keep(ngx_http_mcds_array_api_t *ar,
    ngx_mcds_array_content_t *content, ngx_array_t *lines,
    ngx_http_mcds_set_t *known)
{
    ngx_int_t                rc;
    ngx_str_t                line, same, *text;
    ngx_uint_t               skip;
    ngx_mcds_array_place_t   place;

    rc = NGX_DECLINED;
    skip = ngx_http_mcds_array_surplus(ar->conf, content);

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {

        if (skip) {
            skip--;
            continue;
        }

        if (ngx_http_mcds_line_same(lines->pool, &line, &same) != NGX_OK) {
            return NGX_ERROR;
        }

        if (ngx_http_mcds_set_has(&ar->remove, &same)) {
            rc = NGX_OK;
            continue;
        }

        text = ngx_array_push(lines);

        if (text == NULL
            || (ar->conf->unique
                && ngx_http_mcds_set_add(known, &same) == NGX_ERROR))
        {
            return NGX_ERROR;
        }

        *text = line;
    }

    return rc;
}


ngx_http_mcds_set_t *
ngx_http_mcds_array_known(ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added)
{
    u_char                      *p, *last, *end;
    size_t                       len;
    ngx_str_t                    line;
    ngx_http_mcds_array_memo_t  *memo;

    memo = content->memo;

    if (memo == NULL) {
        memo = ngx_http_mcds_array_memo(content);
        if (memo == NULL) {
            return NULL;
        }

        content->memo = memo;
    }

    len = added ? added->len : 0;

    if (len == memo->added) {
        return &memo->set;
    }

    /*
     * One change of the array combines the edits of several requests.  The
     * value "added" has the text that the earlier edits append; it is freed
     * when the next edit appends more.  So memo->set, the set of all values of
     * the array, gets copies of the values in this text.
     */

    p = ngx_pnalloc(content->pool, len - memo->added);
    if (p == NULL) {
        return NULL;
    }

    last = ngx_cpymem(p, added->data + memo->added, len - memo->added);
    memo->added = len;

    while (p < last) {
        end = memchr(p, LF, last - p);

        line.data = p;
        line.len = end - p;
        p = end + 1;

        if (ngx_http_mcds_set_add(&memo->set, &line) == NGX_ERROR) {
            content->memo = NULL;
            return NULL;
        }
    }

    return &memo->set;
}


static ngx_http_mcds_array_memo_t *
ngx_http_mcds_array_memo(ngx_mcds_array_content_t *content)
{
    ngx_str_t                    line, same;
    ngx_mcds_array_place_t       place;
    ngx_http_mcds_array_memo_t  *memo;

    memo = ngx_pcalloc(content->pool, sizeof(ngx_http_mcds_array_memo_t));
    if (memo == NULL) {
        return NULL;
    }

    memo->set.pool = content->pool;

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {

        if (ngx_http_mcds_line_same(content->pool, &line, &same) != NGX_OK
            || ngx_http_mcds_set_add(&memo->set, &same) == NGX_ERROR)
        {
            return NULL;
        }
    }

    return memo;
}


ngx_mcds_value_t *
ngx_http_mcds_array_text(ngx_str_t *line, ngx_uint_t n)
{
    u_char            *p;
    size_t             len;
    ngx_uint_t         i;
    ngx_mcds_value_t  *text;

    len = 0;

    for (i = 0; i < n; i++) {
        len += line[i].len + 1;
    }

    text = ngx_mcds_value_create(len + NGX_MCDS_VALUE_SPARE, ngx_cycle->log);
    if (text == NULL) {
        return NULL;
    }

    p = text->data;

    for (i = 0; i < n; i++) {
        p = ngx_cpymem(p, line[i].data, line[i].len);
        *p++ = LF;
    }

    text->len = len;

    return text;
}


static void
ngx_http_mcds_array_done_handler(void *data, ngx_mcds_array_done_t *done)
{
    ngx_http_mcds_array_api_t *ar = data;

    ar->rc = done->rc;
    ar->done = *done;

    ngx_http_mcds_resource_done(&ar->res);
}


static ngx_int_t
ngx_http_mcds_array_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_array_api_t *ar = (ngx_http_mcds_array_api_t *) res;

    ngx_http_request_t  *r;

    r = res->request;

    if (ar->refused) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_PRECONDITION_FAILED,
                                          "the array is not, or no longer, "
                                          "what the condition says");
    }

    if (ar->rc != NGX_MCDS_OK) {
        return ngx_http_mcds_data_failed(r, ar->rc);
    }

    if (ar->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) {

        if (ngx_http_mcds_resource_etag(r, ar->cas, ar->crc) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        return ngx_http_mcds_text_send(r, &ar->text, ar->type);
    }

    /*
     * RFC 9110, 9.3.4: the response to a PUT has no ETag, as the array may have
     * fewer values than the request's body, in another spelling
     */

    if (ar->method != NGX_HTTP_PUT
        && ar->done.found
        && ngx_http_mcds_resource_etag(r, ar->done.cas, ar->done.crc) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_json_no_content(r);
}
