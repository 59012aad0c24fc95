
/*
 * Copyright (C) mcds authors
 *
 * An answer as the storing filter sees it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_store.h"


static void ngx_http_mcds_answer_list(ngx_list_t *list,
    ngx_mcds_answer_t *answer);
static void ngx_http_mcds_answer_line(ngx_table_elt_t *h,
    ngx_mcds_answer_t *answer);
static void ngx_http_mcds_answer_accel(ngx_str_t *value,
    ngx_mcds_answer_t *answer);
static ngx_uint_t ngx_http_mcds_is(ngx_str_t *s, char *name, size_t len);
static size_t ngx_http_mcds_content_type_len(ngx_http_request_t *r);


#define ngx_http_mcds_header_is(h, name)                                      \
    ngx_http_mcds_is(&(h)->key, name, sizeof(name) - 1)


/*
 * Neither stored nor sent from the store: what belongs to one connection or
 * one answer (RFC 9110, 7.6.1), what frames it, what the server makes itself,
 * and what must never reach a second person.
 */

static ngx_str_t  ngx_http_mcds_dropped[] = {
    ngx_string("Accept-Ranges"),
    ngx_string("Age"),
    ngx_string("Connection"),
    ngx_string("Content-Length"),
    ngx_string("Date"),
    ngx_string("Keep-Alive"),
    ngx_string("Proxy-Authenticate"),
    ngx_string("Proxy-Authentication-Info"),
    ngx_string("Proxy-Authorization"),
    ngx_string("Proxy-Connection"),
    ngx_string("Server"),
    ngx_string("Set-Cookie"),
    ngx_string("Set-Cookie2"),
    ngx_string("Status"),
    ngx_string("TE"),
    ngx_string("Trailer"),
    ngx_string("Transfer-Encoding"),
    ngx_string("Upgrade"),
    ngx_null_string
};


ngx_uint_t
ngx_http_mcds_header_dropped(ngx_str_t *name)
{
    ngx_str_t  *s;

    for (s = ngx_http_mcds_dropped; s->len; s++) {
        if (ngx_http_mcds_is(name, (char *) s->data, s->len)) {
            return 1;
        }
    }

    return name->len > 8
           && ngx_strncasecmp(name->data, (u_char *) "X-Accel-", 8) == 0;
}


void
ngx_http_mcds_answer(ngx_http_request_t *r, ngx_mcds_answer_t *answer)
{
    time_t                     valid;
    ngx_http_mcds_loc_conf_t  *mlcf;

    ngx_memzero(answer, sizeof(ngx_mcds_answer_t));

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    answer->status = r->headers_out.status;
    answer->date = NGX_ERROR;

    valid = ngx_http_file_cache_valid(mlcf->cache_valid, answer->status);
    answer->valid = valid > 0 ? valid : -1;

    answer->authorization = (r->headers_in.authorization != NULL);

    ngx_http_mcds_answer_list(&r->headers_out.headers, answer);

    if (r->headers_out.content_encoding
        && r->headers_out.content_encoding->hash)
    {
        answer->encoded = 1;
    }

    /* with what the location hides from the client */

    if (r->upstream) {
        ngx_http_mcds_answer_list(&r->upstream->headers_in.headers, answer);
    }
}


static void
ngx_http_mcds_answer_list(ngx_list_t *list, ngx_mcds_answer_t *answer)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &list->part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].hash) {
            ngx_http_mcds_answer_line(&h[i], answer);
        }
    }
}


static void
ngx_http_mcds_answer_line(ngx_table_elt_t *h, ngx_mcds_answer_t *answer)
{
    ngx_int_t   n;
    ngx_str_t  *value;

    value = &h->value;

    if (ngx_http_mcds_header_is(h, "Cache-Control")) {
        ngx_mcds_cache_control_add(&answer->cc, value);

    } else if (ngx_http_mcds_header_is(h, "Expires")) {
        answer->expires = ngx_parse_http_time(value->data, value->len);
        answer->has_expires = 1;

    } else if (ngx_http_mcds_header_is(h, "Date")) {
        answer->date = ngx_parse_http_time(value->data, value->len);

    } else if (ngx_http_mcds_header_is(h, "Age")) {
        n = ngx_atoi(value->data, value->len);

        if (n > 0) {
            answer->age = ngx_min(n, 0x7fffffff);
        }

    } else if (ngx_http_mcds_header_is(h, "Pragma")) {
        if (ngx_http_mcds_is(value, "no-cache", 8)) {
            answer->pragma_no_cache = 1;
        }

    } else if (ngx_http_mcds_header_is(h, "Set-Cookie")
               || ngx_http_mcds_header_is(h, "Set-Cookie2"))
    {
        answer->set_cookie = 1;

    } else if (ngx_http_mcds_header_is(h, "Vary")) {
        answer->vary = 1;

    } else if (ngx_http_mcds_header_is(h, "Content-Encoding")) {
        if (!ngx_http_mcds_is(value, "identity", 8)) {
            answer->encoded = 1;
        }

    } else if (ngx_http_mcds_header_is(h, "X-Accel-Expires")) {
        ngx_http_mcds_answer_accel(value, answer);
    }
}


/* seconds, or "@" and a time since the epoch; 0 is "do not store" */

static void
ngx_http_mcds_answer_accel(ngx_str_t *value, ngx_mcds_answer_t *answer)
{
    ngx_int_t  n;

    if (value->len == 0) {
        return;
    }

    if (value->data[0] == '@') {
        n = ngx_atoi(value->data + 1, value->len - 1);

        if (n != NGX_ERROR) {
            answer->accel = n;
            answer->has_accel = 1;
        }

        return;
    }

    n = ngx_atoi(value->data, value->len);

    if (n != NGX_ERROR) {
        answer->accel = ngx_time() + ngx_min(n, 0x7fffffff);
        answer->has_accel = 1;
    }
}


static ngx_uint_t
ngx_http_mcds_is(ngx_str_t *s, char *name, size_t len)
{
    return s->len == len
           && ngx_strncasecmp(s->data, (u_char *) name, len) == 0;
}


ngx_int_t
ngx_http_mcds_stored_headers(ngx_http_request_t *r, ngx_str_t *headers)
{
    u_char           *p;
    size_t            size;
    ngx_uint_t        i, writing;
    ngx_str_t         name;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    size = ngx_http_mcds_content_type_len(r);

    if (size) {
        size += sizeof("Content-Type: " CRLF) - 1;
    }

    if (r->headers_out.last_modified == NULL
        && r->headers_out.last_modified_time != -1)
    {
        size += sizeof("Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT"
                       CRLF) - 1;
    }

    p = NULL;

    for (writing = 0; writing < 2; writing++) {

        part = &r->headers_out.headers.part;
        h = part->elts;

        for (i = 0; /* void */ ; i++) {

            if (i >= part->nelts) {
                if (part->next == NULL) {
                    break;
                }

                part = part->next;
                h = part->elts;
                i = 0;
            }

            if (h[i].hash == 0 || ngx_http_mcds_header_dropped(&h[i].key)) {
                continue;
            }

            if (ngx_mcds_entry_header_check(&h[i].key, &h[i].value)
                != NGX_OK)
            {
                return NGX_DECLINED;
            }

            if (!writing) {
                size += h[i].key.len + h[i].value.len + 4;
                continue;
            }

            p = ngx_sprintf(p, "%V: %V" CRLF, &h[i].key, &h[i].value);
        }

        if (writing) {
            break;
        }

        p = ngx_pnalloc(r->pool, size + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        headers->data = p;
    }

    if (r->headers_out.content_type.len) {
        ngx_str_set(&name, "Content-Type");

        if (ngx_mcds_entry_header_check(&name, &r->headers_out.content_type)
            != NGX_OK)
        {
            return NGX_DECLINED;
        }

        p = ngx_sprintf(p, "Content-Type: %V", &r->headers_out.content_type);

        if (r->headers_out.content_type_len == r->headers_out.content_type.len
            && r->headers_out.charset.len)
        {
            p = ngx_sprintf(p, "; charset=%V", &r->headers_out.charset);
        }

        *p++ = CR;
        *p++ = LF;
    }

    if (r->headers_out.last_modified == NULL
        && r->headers_out.last_modified_time != -1)
    {
        p = ngx_cpymem(p, "Last-Modified: ", sizeof("Last-Modified: ") - 1);
        p = ngx_http_time(p, r->headers_out.last_modified_time);
        *p++ = CR;
        *p++ = LF;
    }

    headers->len = p - headers->data;

    return NGX_OK;
}


static size_t
ngx_http_mcds_content_type_len(ngx_http_request_t *r)
{
    size_t  len;

    len = r->headers_out.content_type.len;

    if (len
        && r->headers_out.content_type_len == len
        && r->headers_out.charset.len)
    {
        len += sizeof("; charset=") - 1 + r->headers_out.charset.len;
    }

    return len;
}
