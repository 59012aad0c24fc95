
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_api: responds with the values of counters as JSON, for pages
 * whose scripts show or increase them in the browser.  The keys in one request
 * are sent to memcached together, or as many as max_pending leaves room for.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_urlencoded.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_name.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_api.h"


/* bytes of the longest key in a request for the values of counters */
#define NGX_HTTP_MCDS_KEY_LEN     1024

/* maximum length, in bytes, of a reserved suffix of keys, such as ":lock" */
#define NGX_HTTP_MCDS_SUFFIX_LEN  16


typedef struct ngx_http_mcds_fetch_s  ngx_http_mcds_fetch_t;


/*
 * the value of one counter that a request asks for; the JSON response shows
 * null unless the number is valid
 */

typedef struct {
    ngx_mcds_op_t                 op;
    ngx_http_mcds_fetch_t        *fetch;
    ngx_str_t                     key;       /* the counter's key, as the client
                                                wrote it */
    uint64_t                      value;
    ngx_uint_t                    valid;
} ngx_http_mcds_fetched_t;


struct ngx_http_mcds_fetch_s {
    ngx_http_mcds_resource_t      res;
    ngx_http_mcds_show_t         *conf;
    ngx_mcds_stat_t              *stat;      /* the statistics of the counters
                                                of mcds_counter_api */
    ngx_http_mcds_counter_conf_t *ncf;
    ngx_str_t                     prefix;    /* prefix of the counters' keys in
                                                memcached, at the beginning of a
                                                buffer for a whole key */
    ngx_uint_t                    post;
    ngx_uint_t                    n;
    ngx_uint_t                    next;
    ngx_uint_t                    unanswered;
    ngx_http_mcds_fetched_t       number[1];
};


static ngx_int_t ngx_http_mcds_show_method(ngx_http_request_t *r,
    ngx_http_mcds_show_t *show);
static char *ngx_http_mcds_show_keys(ngx_http_request_t *r,
    ngx_http_mcds_show_t *show, ngx_str_t *prefix, ngx_array_t *keys);
static char *ngx_http_mcds_show_key(ngx_http_request_t *r,
    ngx_http_mcds_show_t *show, ngx_str_t *prefix, ngx_array_t *keys,
    ngx_str_t *text);
static ngx_uint_t ngx_http_mcds_show_taken(ngx_str_t *prefix, ngx_str_t *key);
static ngx_http_mcds_fetch_t *ngx_http_mcds_fetch_create(
    ngx_http_request_t *r, ngx_http_mcds_show_t *show, ngx_uint_t n);
static ngx_int_t ngx_http_mcds_fetch_start(ngx_http_mcds_fetch_t *fetch,
    ngx_str_t *prefix, ngx_array_t *keys);
static void ngx_http_mcds_fetch_send(ngx_http_mcds_fetch_t *fetch);
static ngx_int_t ngx_http_mcds_fetch_number(ngx_http_mcds_fetched_t *number,
    ngx_str_t *key);
static void ngx_http_mcds_fetch_get_handler(void *data,
    ngx_mcds_result_t *result);
static void ngx_http_mcds_fetch_count_handler(void *data, ngx_uint_t rc,
    uint64_t value);
static ngx_int_t ngx_http_mcds_fetch_respond(ngx_http_mcds_resource_t *res);
static u_char *ngx_http_mcds_show_number(u_char *p, ngx_http_request_t *r,
    ngx_http_mcds_shown_t *shown);


ngx_int_t
ngx_http_mcds_counter_api_handler(ngx_http_request_t *r)
{
    char                          *problem;
    ngx_int_t                      rc;
    ngx_str_t                      prefix;
    ngx_array_t                    keys;
    ngx_http_mcds_show_t          *show;
    ngx_http_mcds_fetch_t         *fetch;
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);
    show = ncf->show;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_http_mcds_show_method(r, show);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (r->method == NGX_HTTP_POST) {

        /*
         * the visit is counted whatever conditions the request has: nginx must
         * not compare them with the response, which has no validators
         */

        r->disable_not_modified = 1;
    }

    if (show->top && show->prefix == NULL) {
        return ngx_http_mcds_top_hooks->show(r, show->top);
    }

    if (ngx_array_init(&keys, r->pool, 4, sizeof(ngx_str_t)) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_str_null(&prefix);

    if (show->prefix) {

        if (ngx_http_complex_value(r, show->prefix, &prefix) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (prefix.len == 0) {
            return ngx_http_mcds_json_problem(r, NGX_HTTP_FORBIDDEN,
                                          "there are no counters for this "
                                          "request");
        }

        problem = ngx_http_mcds_show_keys(r, show, &prefix, &keys);

        if (problem == NGX_CONF_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (problem) {
            return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                              problem);
        }
    }

    fetch = ngx_http_mcds_fetch_create(r, show, keys.nelts);
    if (fetch == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ngx_http_mcds_fetch_start(fetch, &prefix, &keys) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (fetch->res.waiting) {
        return ngx_http_mcds_resource_wait(&fetch->res);
    }

    return ngx_http_mcds_fetch_respond(&fetch->res);
}


/*
 * NGX_DECLINED if mcds_counter_api allows the method of the request; otherwise
 * an error response was sent
 */

static ngx_int_t
ngx_http_mcds_show_method(ngx_http_request_t *r, ngx_http_mcds_show_t *show)
{
    ngx_uint_t  methods;

    methods = NGX_HTTP_GET|NGX_HTTP_HEAD|(show->count ? NGX_HTTP_POST : 0);

    if (r->method & methods) {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_resource_refuse(r, methods|NGX_HTTP_OPTIONS,
                                         show->count ? "use GET, HEAD or POST"
                                                     : "use GET or HEAD");
}


/*
 * Parses the keys of counters in a request.  Returns NULL on success,
 * NGX_CONF_ERROR when out of memory, or, if the request is not valid, the text
 * for problem details (RFC 9457).
 */

static char *
ngx_http_mcds_show_keys(ngx_http_request_t *r, ngx_http_mcds_show_t *show,
    ngx_str_t *prefix, ngx_array_t *keys)
{
    char       *problem;
    ngx_str_t   args, name, value;

    args = r->args;

    while (ngx_http_mcds_urlencoded_next(&args, &name, &value) == NGX_OK) {

        if (name.len != 3 || ngx_strncmp(name.data, "key", 3) != 0
            || value.data == NULL)
        {
            continue;
        }

        problem = ngx_http_mcds_show_key(r, show, prefix, keys, &value);
        if (problem) {
            return problem;
        }
    }

    if (keys->nelts == 0 && show->variables.nelts == 0) {
        return "there is no argument key=";
    }

    return NULL;
}


static char *
ngx_http_mcds_show_key(ngx_http_request_t *r, ngx_http_mcds_show_t *show,
    ngx_str_t *prefix, ngx_array_t *keys, ngx_str_t *text)
{
    ngx_str_t               s, *key;
    ngx_uint_t              i;
    ngx_http_mcds_shown_t  *shown;

    switch (ngx_http_mcds_urlencoded_decode(r->pool, &s, text)) {

    case NGX_OK:
        break;

    case NGX_DECLINED:
        return "a key is not well encoded";

    default:
        return NGX_CONF_ERROR;
    }

    if (s.len == 0) {
        return "a key is empty";
    }

    if (s.len > NGX_HTTP_MCDS_KEY_LEN) {
        return "a key is too long";
    }

    if (!ngx_mcds_json_utf8(&s)) {
        return "a key is not UTF-8";
    }

    /*
     * control characters in a key are refused here, since a regular expression
     * of "match=" does not exclude a final line feed: "$" matches before it
     */

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] == 0x7f) {
            return "a key has control characters";
        }
    }

    /* a POST of the key "x:lock" must not change the lock of the key "x" */

    if (r->method == NGX_HTTP_POST && ngx_http_mcds_show_taken(prefix, &s)) {
        return "a key ends with a reserved suffix";
    }

#if (NGX_PCRE)

    if (show->match) {
        switch (ngx_http_regex_exec(r, show->match, &s)) {

        case NGX_OK:
            break;

        case NGX_DECLINED:
            return "a key is not one that match= allows";

        default:
            return NGX_CONF_ERROR;
        }
    }

#endif

    shown = show->variables.elts;

    for (i = 0; i < show->variables.nelts; i++) {
        if (shown[i].name.len == s.len
            && ngx_memcmp(shown[i].name.data, s.data, s.len) == 0)
        {
            return "a key is also the name of a variable";
        }
    }

    /*
     * a key that is repeated in the request is one member of the JSON object,
     * and counts once
     */

    key = keys->elts;

    for (i = 0; i < keys->nelts; i++) {
        if (key[i].len == s.len
            && ngx_memcmp(key[i].data, s.data, s.len) == 0)
        {
            return NULL;
        }
    }

    if (keys->nelts == show->max) {
        return "there are too many keys";
    }

    key = ngx_array_push(keys);
    if (key == NULL) {
        return NGX_CONF_ERROR;
    }

    *key = s;

    return NULL;
}


/*
 * returns 1 if the prefix and the key of a counter, joined, end with a reserved
 * suffix, such as ":lock", which may begin in the prefix
 */

static ngx_uint_t
ngx_http_mcds_show_taken(ngx_str_t *prefix, ngx_str_t *key)
{
    u_char     *p, end[NGX_HTTP_MCDS_SUFFIX_LEN];
    size_t      len;
    ngx_str_t   text;

    if (key->len >= NGX_HTTP_MCDS_SUFFIX_LEN) {
        return ngx_http_mcds_counter_taken(key);
    }

    len = ngx_min(prefix->len, NGX_HTTP_MCDS_SUFFIX_LEN - key->len);

    p = ngx_cpymem(end, prefix->data + prefix->len - len, len);
    p = ngx_cpymem(p, key->data, key->len);

    text.data = end;
    text.len = p - end;

    return ngx_http_mcds_counter_taken(&text);
}


static ngx_http_mcds_fetch_t *
ngx_http_mcds_fetch_create(ngx_http_request_t *r, ngx_http_mcds_show_t *show,
    ngx_uint_t n)
{
    size_t                         size;
    ngx_http_mcds_fetch_t         *fetch;
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    size = sizeof(ngx_http_mcds_fetch_t) + n * sizeof(ngx_http_mcds_fetched_t);

    fetch = ngx_http_mcds_resource_create(r, size);
    if (fetch == NULL) {
        return NULL;
    }

    fetch->res.respond = ngx_http_mcds_fetch_respond;

    fetch->conf = show;
    fetch->stat = ncf->show_stat;
    fetch->ncf = ncf;
    fetch->post = ((r->method & NGX_HTTP_POST) != 0);
    fetch->n = n;

    return fetch;
}


static ngx_int_t
ngx_http_mcds_fetch_start(ngx_http_mcds_fetch_t *fetch, ngx_str_t *prefix,
    ngx_array_t *keys)
{
    size_t                    max;
    ngx_str_t                *key;
    ngx_uint_t                i;
    ngx_http_mcds_fetched_t  *number;

    key = keys->elts;
    max = 0;

    /* keys are also sent when the client has left, so they are copied */

    for (i = 0; i < fetch->n; i++) {
        number = &fetch->number[i];

        number->fetch = fetch;
        number->key.len = key[i].len;
        number->key.data = ngx_pstrdup(fetch->res.pool, &key[i]);

        if (number->key.data == NULL) {
            return NGX_ERROR;
        }

        max = ngx_max(max, key[i].len);
    }

    fetch->prefix.len = prefix->len;
    fetch->prefix.data = ngx_pnalloc(fetch->res.pool, prefix->len + max + 1);

    if (fetch->prefix.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(fetch->prefix.data, prefix->data, prefix->len);

    ngx_http_mcds_fetch_send(fetch);

    return NGX_OK;
}


static void
ngx_http_mcds_fetch_send(ngx_http_mcds_fetch_t *fetch)
{
    ngx_str_t                 text;
    ngx_http_mcds_fetched_t  *number;

    while (fetch->next < fetch->n
           && fetch->unanswered < ngx_mcds_pool_batch(fetch->ncf->pool, 0)
           && (fetch->res.request || fetch->post))
    {
        number = &fetch->number[fetch->next++];

        text.data = fetch->prefix.data;
        text.len = fetch->prefix.len + number->key.len;

        ngx_memcpy(text.data + fetch->prefix.len, number->key.data,
                   number->key.len);

        if (ngx_http_mcds_fetch_number(number, &text) == NGX_OK) {
            fetch->unanswered++;
            fetch->res.waiting++;
        }
    }
}


static ngx_int_t
ngx_http_mcds_fetch_number(ngx_http_mcds_fetched_t *number, ngx_str_t *key)
{
    ngx_mcds_count_t              *count;
    ngx_mcds_counter_t             counter;
    ngx_mcds_request_t             req;
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = number->fetch->ncf;

    if (number->fetch->post) {
        ngx_mcds_stat_add(ncf->show_stat, NGX_MCDS_DATA_COUNT, 1);

        if (number->fetch->conf->top) {
            ngx_http_mcds_top_hooks->count(number->fetch->conf->top, key, 1);
        }

        counter.pool = ncf->pool;
        counter.key = *key;
        counter.initial = 0;
        counter.ttl = number->fetch->conf->ttl;
        counter.update = 0;
        counter.durable = (counter.ttl == 0);
        counter.buffer = 1;

        if (ncf->writeback) {
            ngx_http_mcds_writeback_hooks->add(ncf->writeback, key, 1);
        }

        count = ngx_mcds_counter_change(&counter, 1,
                                        ngx_http_mcds_fetch_count_handler,
                                        number);

        return count ? NGX_OK : NGX_ERROR;
    }

    ngx_mcds_stat_add(ncf->show_stat, NGX_MCDS_DATA_READ, 1);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = *key;
    req.number = 1;

    number->op.handler = ngx_http_mcds_fetch_get_handler;
    number->op.data = number;

    ngx_mcds_submit(ncf->pool, &req, &number->op);

    return NGX_OK;
}


/*
 * the handler for the reply to the get of a counter: if the item in memcached
 * is not a number, the response shows null, so that no other data leaks
 */

static void
ngx_http_mcds_fetch_get_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_fetched_t *number = data;

    ngx_uint_t  rc;

    rc = result->rc;

    if (rc == NGX_MCDS_NOT_FOUND) {
        number->value = 0;
        rc = NGX_MCDS_OK;

    } else if (rc == NGX_MCDS_OK
               && (!(result->has & NGX_MCDS_VALUE)
                   || ngx_mcds_parse_number(result->data, result->len,
                                            &number->value)
                      != NGX_OK))
    {
        rc = NGX_MCDS_NOT_NUMERIC;
    }

    ngx_http_mcds_fetch_count_handler(number, rc, number->value);
}


static void
ngx_http_mcds_fetch_count_handler(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_fetched_t *number = data;

    number->valid = (rc == NGX_MCDS_OK);
    number->value = value;

    if (rc != NGX_MCDS_OK) {
        ngx_http_mcds_stat_failed(number->fetch->stat, rc);
    }

    number->fetch->unanswered--;

    ngx_http_mcds_fetch_send(number->fetch);

    ngx_http_mcds_resource_done(&number->fetch->res);
}


static ngx_int_t
ngx_http_mcds_fetch_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_fetch_t *fetch = (ngx_http_mcds_fetch_t *) res;

    u_char                   *p;
    size_t                    size;
    ngx_str_t                 text;
    ngx_uint_t                i;
    ngx_http_request_t       *r;
    ngx_http_mcds_show_t     *show;
    ngx_http_mcds_shown_t    *shown;
    ngx_http_mcds_fetched_t  *number;

    r = res->request;
    show = fetch->conf;

    shown = show->variables.elts;
    size = sizeof("{}" CRLF);

    for (i = 0; i < show->variables.nelts; i++) {
        size += sizeof("\"\":,") - 1 + shown[i].name.len + NGX_INT64_LEN;
    }

    for (i = 0; i < fetch->n; i++) {
        size += sizeof("\"\":,") - 1 + NGX_INT64_LEN
                + ngx_mcds_json_string(NULL, &fetch->number[i].key);
    }

    p = ngx_pnalloc(r->pool, size);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.data = p;

    *p++ = '{';

    for (i = 0; i < show->variables.nelts; i++) {
        p = ngx_http_mcds_show_number(p, r, &shown[i]);
        *p++ = ',';
    }

    for (i = 0; i < fetch->n; i++) {
        number = &fetch->number[i];

        *p++ = '"';
        p = (u_char *) ngx_mcds_json_string(p, &number->key);
        p = ngx_cpymem(p, "\":", 2);

        p = number->valid ? ngx_sprintf(p, "%uL", number->value)
                          : ngx_cpymem(p, "null", 4);
        *p++ = ',';
    }

    p--;

    *p++ = '}';
    *p++ = CR;
    *p++ = LF;

    text.len = p - text.data;

    return ngx_http_mcds_json_send(r, &text);
}


static u_char *
ngx_http_mcds_show_number(u_char *p, ngx_http_request_t *r,
    ngx_http_mcds_shown_t *shown)
{
    uint64_t                    number;
    ngx_http_variable_value_t  *v;

    p = ngx_sprintf(p, "\"%V\":", &shown->name);

    v = ngx_http_get_flushed_variable(r, shown->index);

    if (v == NULL || v->not_found
        || ngx_mcds_parse_number(v->data, v->len, &number) != NGX_OK)
    {
        return ngx_cpymem(p, "null", 4);
    }

    return ngx_sprintf(p, "%uL", number);
}
