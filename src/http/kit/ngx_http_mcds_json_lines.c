
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_hash.h"
#include "ngx_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_json.h"


static ngx_int_t ngx_http_mcds_line_dump(ngx_pool_t *pool, json_t *json,
    size_t flags, ngx_str_t *line);
static ngx_uint_t ngx_http_mcds_line_plain(ngx_str_t *line);
static ngx_uint_t ngx_http_mcds_line_digits(ngx_str_t *line);
static ngx_uint_t ngx_http_mcds_text_plain(ngx_str_t *text);
static ngx_uint_t ngx_http_mcds_line_printable(ngx_str_t *text);
static json_t *ngx_http_mcds_body_parse(ngx_http_mcds_resource_t *res,
    ngx_str_t *text, ngx_uint_t line, ngx_int_t *rc);
static ngx_int_t ngx_http_mcds_set_grow(ngx_http_mcds_set_t *set);
static ngx_str_t *ngx_http_mcds_set_slot(ngx_http_mcds_set_t *set,
    ngx_str_t *text);


ngx_int_t
ngx_http_mcds_line_json(ngx_pool_t *pool, json_t *json, ngx_str_t *line)
{
    json_t      *back;
    ngx_int_t    rc;
    ngx_uint_t   digits, same;

    if (json_is_string(json) || json_is_integer(json)
        || json_is_boolean(json) || json_is_null(json))
    {
        return ngx_http_mcds_line_dump(pool, json, 0, line);
    }

    /*
     * A JSON number with a fraction is written with the fewest digits that
     * read back as the same number.  One of the largest numbers may not read
     * back at all with too few digits: rounded up, it is beyond the range.
     */

    for (digits = 15; digits < 17; digits++) {

        rc = ngx_http_mcds_line_dump(pool, json, JSON_REAL_PRECISION(digits),
                                     line);
        if (rc != NGX_OK) {
            return rc;
        }

        back = json_loadb((char *) line->data, line->len,
                          JSON_DECODE_ANY|JSON_ALLOW_NUL, NULL);

        same = json_equal(json, back);

        json_decref(back);

        if (same) {
            return NGX_OK;
        }
    }

    return ngx_http_mcds_line_dump(pool, json, JSON_REAL_PRECISION(17), line);
}


static ngx_int_t
ngx_http_mcds_line_dump(ngx_pool_t *pool, json_t *json, size_t flags,
    ngx_str_t *line)
{
    flags |= JSON_COMPACT|JSON_ENCODE_ANY;

    line->len = json_dumpb(json, NULL, 0, flags);

    if (line->len == 0) {
        return NGX_ERROR;
    }

    line->data = ngx_pnalloc(pool, line->len);

    if (line->data == NULL) {
        return NGX_ERROR;
    }

    /*
     * the first call of json_dumpb() tells the length of the JSON text; in the
     * second call, jansson may fail to allocate memory
     */

    return (json_dumpb(json, (char *) line->data, line->len, flags)
            == line->len) ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_mcds_line_text(ngx_pool_t *pool, ngx_str_t *text, ngx_str_t *line)
{
    json_t     *json;
    ngx_int_t   rc;
    ngx_str_t   s;

    if (ngx_mcds_json_utf8(text)) {
        json = json_stringn((char *) text->data, text->len);

    } else {

        s.len = ngx_mcds_json_string(NULL, text) + 2;
        s.data = ngx_pnalloc(pool, s.len);

        if (s.data == NULL) {
            return NGX_ERROR;
        }

        s.data[0] = '"';
        (void) ngx_mcds_json_string(s.data + 1, text);
        s.data[s.len - 1] = '"';

        json = json_loadb((char *) s.data, s.len,
                          JSON_DECODE_ANY|JSON_ALLOW_NUL, NULL);
    }

    if (json == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_mcds_line_dump(pool, json, 0, line);

    json_decref(json);

    return rc;
}


ngx_int_t
ngx_http_mcds_line_same(ngx_pool_t *pool, ngx_str_t *text, ngx_str_t *line)
{
    json_t     *json;
    ngx_int_t   rc;

    if (ngx_http_mcds_line_plain(text) || ngx_http_mcds_line_digits(text)) {
        *line = *text;
        return NGX_OK;
    }

    json = json_loadb((char *) text->data, text->len,
                      JSON_DECODE_ANY|JSON_ALLOW_NUL, NULL);

    if (json == NULL) {
        return ngx_http_mcds_line_text(pool, text, line);
    }

    rc = ngx_http_mcds_line_json(pool, json, line);

    json_decref(json);

    return rc;
}


ngx_int_t
ngx_http_mcds_line_show(ngx_pool_t *pool, ngx_str_t *line, ngx_str_t *text)
{
    json_t     *json;
    ngx_str_t   s;

    if (ngx_http_mcds_line_plain(line)) {
        text->data = line->data + 1;
        text->len = line->len - 2;
        return NGX_OK;
    }

    json = json_loadb((char *) line->data, line->len,
                      JSON_DECODE_ANY|JSON_ALLOW_NUL, NULL);

    *text = *line;

    if (json_is_string(json)) {
        s.data = (u_char *) json_string_value(json);
        s.len = json_string_length(json);

        if (ngx_http_mcds_line_printable(&s)) {

            text->data = ngx_pstrdup(pool, &s);
            text->len = s.len;

            if (text->data == NULL) {
                json_decref(json);
                return NGX_ERROR;
            }
        }
    }

    json_decref(json);

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_line_put(ngx_http_mcds_text_t *to, ngx_str_t *text)
{
    ngx_str_t  line;

    if (ngx_http_mcds_text_plain(text)) {
        ngx_http_mcds_text_put(to, (u_char *) "\"", 1);
        ngx_http_mcds_text_put(to, text->data, text->len);
        ngx_http_mcds_text_put(to, (u_char *) "\"", 1);

        return NGX_OK;
    }

    if (ngx_http_mcds_line_text(to->pool, text, &line) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_mcds_text_put(to, line.data, line.len);

    return NGX_OK;
}


/*
 * 1 if a stored JSON text is a string without escapes; such a text, as most
 * stored texts are, need not be parsed
 */

static ngx_uint_t
ngx_http_mcds_line_plain(ngx_str_t *line)
{
    ngx_str_t  s;

    if (line->len < 2
        || line->data[0] != '"' || line->data[line->len - 1] != '"')
    {
        return 0;
    }

    s.data = line->data + 1;
    s.len = line->len - 2;

    return ngx_http_mcds_text_plain(&s);
}


/*
 * 1 if a stored JSON text is an integer of 1 to 18 digits, without a sign or
 * leading zeros: mcds writes the integer in the same way, so that the text need
 * not be parsed
 */

static ngx_uint_t
ngx_http_mcds_line_digits(ngx_str_t *line)
{
    size_t  i;

    if (line->len == 0 || line->len > 18
        || (line->len > 1 && line->data[0] == '0'))
    {
        return 0;
    }

    for (i = 0; i < line->len; i++) {
        if (line->data[i] < '0' || line->data[i] > '9') {
            return 0;
        }
    }

    return 1;
}


/* 1 if the text, written as a JSON string, needs no escapes */

static ngx_uint_t
ngx_http_mcds_text_plain(ngx_str_t *text)
{
    u_char  *p, *last;

    last = text->data + text->len;

    for (p = text->data; p < last; p++) {
        if (*p == '"' || *p == '\\' || *p < 0x20) {
            return 0;
        }
    }

    return ngx_mcds_json_utf8(text);
}


static ngx_uint_t
ngx_http_mcds_line_printable(ngx_str_t *text)
{
    size_t  i;

    for (i = 0; i < text->len; i++) {
        if (text->data[i] < 0x20 || text->data[i] == 0x7f) {
            return 0;
        }
    }

    return 1;
}


json_t *
ngx_http_mcds_body_load(ngx_http_mcds_resource_t *res, ngx_int_t *rc)
{
    return ngx_http_mcds_body_parse(res, &res->body, 0, rc);
}


static json_t *
ngx_http_mcds_body_parse(ngx_http_mcds_resource_t *res, ngx_str_t *text,
    ngx_uint_t line, ngx_int_t *rc)
{
    u_char        *detail;
    json_t        *json;
    json_error_t   error;

    json = json_loadb((char *) text->data, text->len,
                      JSON_DECODE_ANY|JSON_REJECT_DUPLICATES, &error);

    if (json) {
        return json;
    }

    /*
     * jansson's own error message quotes the request's body, which must not go
     * to the response
     */

    detail = ngx_pnalloc(res->pool, 128);
    if (detail == NULL) {
        *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return NULL;
    }

    (void) ngx_sprintf(detail, "the body is not the JSON that is taken here: "
                       "line %ui, column %d%Z",
                       line ? line : (ngx_uint_t) error.line, error.column);

    *rc = ngx_http_mcds_json_problem(res->request, NGX_HTTP_BAD_REQUEST,
                                     (char *) detail);
    return NULL;
}


json_t *
ngx_http_mcds_body_array(ngx_http_mcds_resource_t *res, ngx_uint_t single,
    ngx_int_t *rc)
{
    u_char      *p, *last, *end;
    json_t      *json, *array;
    ngx_str_t    line;
    ngx_uint_t   n, type;

    type = ngx_http_mcds_resource_has(res->request);

    if (type != NGX_HTTP_MCDS_JSON && type != NGX_HTTP_MCDS_NDJSON) {

        /*
         * only JSON is accepted, against cross-site request forgery: a page of
         * another site can send a body of a type such as text/plain without a
         * preflight request
         */

        *rc = ngx_http_mcds_json_problem(res->request,
                                         NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                         "the body must be application/json "
                                         "or application/x-ndjson");
        return NULL;
    }

    array = json_array();
    if (array == NULL) {
        *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return NULL;
    }

    if (type == NGX_HTTP_MCDS_JSON) {

        json = ngx_http_mcds_body_load(res, rc);

        if (json == NULL) {
            json_decref(array);
            return NULL;
        }

        if (json_is_array(json)) {
            json_decref(array);
            return json;
        }

        if (single) {

            if (json_array_append_new(array, json) == -1) {
                goto failed;
            }

            return array;
        }

        json_decref(json);
        json_decref(array);

        *rc = ngx_http_mcds_json_problem(res->request, NGX_HTTP_BAD_REQUEST,
                                         "the body must be an array");
        return NULL;
    }

    p = res->body.data;
    last = p + res->body.len;

    for (n = 1; p < last; n++) {

        end = memchr(p, LF, last - p);
        if (end == NULL) {
            end = last;
        }

        line.data = p;
        line.len = end - p;

        p = (end == last) ? last : end + 1;

        if (line.len == 0 || (line.len == 1 && line.data[0] == CR)) {
            continue;
        }

        json = ngx_http_mcds_body_parse(res, &line, n, rc);

        if (json == NULL) {
            json_decref(array);
            return NULL;
        }

        if (json_array_append_new(array, json) == -1) {
            goto failed;
        }
    }

    return array;

failed:

    json_decref(array);
    *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;

    return NULL;
}


ngx_int_t
ngx_http_mcds_set_add(ngx_http_mcds_set_t *set, ngx_str_t *text)
{
    ngx_str_t  *slot;

    if (set->n * 2 >= set->size && ngx_http_mcds_set_grow(set) != NGX_OK) {
        return NGX_ERROR;
    }

    slot = ngx_http_mcds_set_slot(set, text);

    if (slot->data) {
        return NGX_DECLINED;
    }

    *slot = *text;
    set->n++;

    return NGX_OK;
}


ngx_uint_t
ngx_http_mcds_set_has(ngx_http_mcds_set_t *set, ngx_str_t *text)
{
    return set->n && ngx_http_mcds_set_slot(set, text)->data;
}


static ngx_int_t
ngx_http_mcds_set_grow(ngx_http_mcds_set_t *set)
{
    ngx_str_t            *slot;
    ngx_uint_t            i;
    ngx_http_mcds_set_t   old;

    old = *set;

    set->size = old.size ? old.size * 4 : 64;
    set->slots = ngx_pcalloc(set->pool, set->size * sizeof(ngx_str_t));

    if (set->slots == NULL) {
        *set = old;
        return NGX_ERROR;
    }

    for (i = 0; i < old.size; i++) {
        if (old.slots[i].data) {
            slot = ngx_http_mcds_set_slot(set, &old.slots[i]);
            *slot = old.slots[i];
        }
    }

    return NGX_OK;
}


static ngx_str_t *
ngx_http_mcds_set_slot(ngx_http_mcds_set_t *set, ngx_str_t *text)
{
    ngx_str_t   *slot;
    ngx_uint_t   i;

    for (i = ngx_mcds_hash(text->data, text->len) & (set->size - 1);
         /* void */ ;
         i = (i + 1) & (set->size - 1))
    {
        slot = &set->slots[i];

        if (slot->data == NULL
            || (slot->len == text->len
                && ngx_memcmp(slot->data, text->data, text->len) == 0))
        {
            return slot;
        }
    }
}
