
/*
 * Copyright (C) mcds authors
 *
 * The statistics as a page that shows them as they change.  It is made of the
 * files in page/, which are part of the module; its script asks the location
 * that has sent it for JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"
#include "ngx_http_mcds_status.h"


/* bytes, and as many in base64 */
#define NGX_HTTP_MCDS_STATUS_NONCE   18
#define NGX_HTTP_MCDS_STATUS_NONCE64 24


/* a file of the folders that the compiler was told of, with a zero behind */

#define ngx_http_mcds_status_file(name, file)                                 \
    __asm__(".pushsection .rodata\n"                                          \
            ".global " #name "\n"                                             \
            ".hidden " #name "\n"                                             \
            #name ":\n"                                                       \
            ".incbin \"" file "\"\n"                                          \
            ".byte 0\n"                                                       \
            ".popsection\n");                                                 \
    extern u_char  name[] __attribute__((visibility("hidden")))

ngx_http_mcds_status_file(ngx_http_mcds_status_page_html, "page.html");
ngx_http_mcds_status_file(ngx_http_mcds_status_page_css, "page.css");
ngx_http_mcds_status_file(ngx_http_mcds_status_parts_js, "parts.js");
ngx_http_mcds_status_file(ngx_http_mcds_status_page_js, "page.js");


/* what a line of page.html stands for */

typedef struct {
    char                    *line;
    char                    *open;
    u_char                  *data;
    char                    *close;
} ngx_http_mcds_status_part_t;


static ngx_int_t ngx_http_mcds_status_page(ngx_http_mcds_status_text_t *text,
    ngx_str_t *nonce);
static void ngx_http_mcds_status_page_add(ngx_http_mcds_status_text_t *text,
    u_char *data, size_t len);
static ngx_int_t ngx_http_mcds_status_page_headers(ngx_http_request_t *r,
    ngx_str_t *nonce);
static ngx_int_t ngx_http_mcds_status_page_header(ngx_http_request_t *r,
    char *name, ngx_str_t *value);


/* the places of %V are for the nonce */

static ngx_http_mcds_status_part_t  ngx_http_mcds_status_parts[] = {

    { "<link rel=\"stylesheet\" href=\"page.css\">",
      "<style nonce=\"%V\">\n",
      ngx_http_mcds_status_page_css,
      "</style>" },

    { "<script src=\"parts.js\"></script>",
      "<script nonce=\"%V\">\n",
      ngx_http_mcds_status_parts_js,
      "</script>" },

    { "<script src=\"page.js\"></script>",
      "<script nonce=\"%V\">\n",
      ngx_http_mcds_status_page_js,
      "</script>" },

    { NULL, NULL, NULL, NULL }
};


ngx_int_t
ngx_http_mcds_status_html(ngx_http_request_t *r)
{
    u_char                       bytes[NGX_HTTP_MCDS_STATUS_NONCE];
    u_char                       data[NGX_HTTP_MCDS_STATUS_NONCE64];
    ngx_int_t                    rc;
    ngx_str_t                    random, nonce;
    ngx_http_mcds_status_text_t  text;

    random.len = NGX_HTTP_MCDS_STATUS_NONCE;
    random.data = bytes;
    nonce.data = data;

    ngx_mcds_random(bytes, random.len);
    ngx_encode_base64(&nonce, &random);

    ngx_memzero(&text, sizeof(ngx_http_mcds_status_text_t));
    text.pool = r->pool;

    if (ngx_http_mcds_status_page(&text, &nonce) != NGX_OK
        || ngx_http_mcds_status_page_headers(r, &nonce) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.last->buf->last_buf = (r == r->main) ? 1 : 0;
    text.last->buf->last_in_chain = 1;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = text.size;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, text.first);
}


static ngx_int_t
ngx_http_mcds_status_page(ngx_http_mcds_status_text_t *text, ngx_str_t *nonce)
{
    u_char                       *p, *place;
    size_t                        len;
    ngx_http_mcds_status_part_t  *part;

    p = ngx_http_mcds_status_page_html;

    for (part = ngx_http_mcds_status_parts; part->line; part++) {

        place = (u_char *) ngx_strstr(p, part->line);
        if (place == NULL) {
            return NGX_ERROR;
        }

        ngx_http_mcds_status_page_add(text, p, place - p);

        p = place + ngx_strlen(part->line);
        len = ngx_strlen(part->open) + nonce->len;

        place = ngx_http_mcds_status_room(text, len);
        if (place == NULL) {
            return NGX_ERROR;
        }

        ngx_http_mcds_status_add(text, ngx_sprintf(place, part->open, nonce));

        ngx_http_mcds_status_page_add(text, part->data,
                                      ngx_strlen(part->data));
        ngx_http_mcds_status_page_add(text, (u_char *) part->close,
                                      ngx_strlen(part->close));
    }

    ngx_http_mcds_status_page_add(text, p, ngx_strlen(p));

    return text->failed ? NGX_ERROR : NGX_OK;
}


/* copied: filters may change it, and the next one gets it as it is */

static void
ngx_http_mcds_status_page_add(ngx_http_mcds_status_text_t *text, u_char *data,
    size_t len)
{
    u_char  *p;

    p = ngx_http_mcds_status_room(text, len);

    if (p) {
        ngx_http_mcds_status_add(text, ngx_cpymem(p, data, len));
    }
}


/* nothing but what is in the page, and JSON of where it comes from */

static ngx_int_t
ngx_http_mcds_status_page_headers(ngx_http_request_t *r, ngx_str_t *nonce)
{
    ngx_str_t    policy, value;
    static char  format[] = "default-src 'none'; img-src data:; "
                            "style-src 'nonce-%V'; "
                            "script-src 'nonce-%V'; connect-src 'self'; "
                            "base-uri 'none'; form-action 'none'; "
                            "frame-ancestors 'self'";

    ngx_str_set(&r->headers_out.content_type, "text/html");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    ngx_str_set(&r->headers_out.charset, "utf-8");

    policy.data = ngx_pnalloc(r->pool, sizeof(format) + 2 * nonce->len);
    if (policy.data == NULL) {
        return NGX_ERROR;
    }

    policy.len = ngx_sprintf(policy.data, format, nonce, nonce) - policy.data;

    if (ngx_http_mcds_status_page_header(r, "Content-Security-Policy",
                                         &policy)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_str_set(&value, "nosniff");

    if (ngx_http_mcds_status_page_header(r, "X-Content-Type-Options", &value)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_str_set(&value, "no-referrer");

    if (ngx_http_mcds_status_page_header(r, "Referrer-Policy", &value)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_status_no_store(r);
}


static ngx_int_t
ngx_http_mcds_status_page_header(ngx_http_request_t *r, char *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key.len = ngx_strlen(name);
    h->key.data = (u_char *) name;
    h->value = *value;

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}
