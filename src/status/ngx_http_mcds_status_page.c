
/*
 * Copyright (C) mcds authors
 *
 * The statistics as an HTML page that updates itself.  The page consists of
 * the files in page/, which config.make writes into
 * ngx_http_mcds_status_page.h, each with a zero byte at its end.  The script
 * of the page requests JSON from the location of the page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_status.h"
#include "ngx_http_mcds_status_page.h"


/*
 * bytes of the nonce in the Content-Security-Policy of the live page, and its
 * length in base64
 */
#define NGX_HTTP_MCDS_STATUS_NONCE   18
#define NGX_HTTP_MCDS_STATUS_NONCE64 24

#define NGX_HTTP_MCDS_STATUS_LINK                                             \
    "<a id=\"prometheus\" href=\"?format=prometheus\">Prometheus</a>"


/*
 * a line of page.html, the source of the live page, and the text that replaces
 * the line
 */

typedef struct {
    char                    *line;
    char                    *open;
    u_char                  *data;
    char                    *close;
    ngx_uint_t               format;    /* format of the statistics; if the
                                           location's mcds_status does not allow
                                           it, the live page contains neither
                                           the text of the field "line" nor the
                                           other three texts */
} ngx_http_mcds_status_part_t;


static ngx_int_t ngx_http_mcds_status_page(ngx_http_mcds_status_text_t *text,
    ngx_str_t *nonce, ngx_uint_t fixed);
static ngx_int_t ngx_http_mcds_status_page_headers(ngx_http_request_t *r,
    ngx_str_t *nonce);


/*
 * lines of the live page that other texts replace; "%V" in the second column is
 * the nonce of the Content-Security-Policy
 */

static ngx_http_mcds_status_part_t  ngx_http_mcds_status_parts[] = {

    { "<link rel=\"stylesheet\" href=\"page.css\">",
      "<style nonce=\"%V\">\n",
      ngx_http_mcds_status_page_css,
      "</style>",
      NGX_HTTP_MCDS_STATUS_HTML },

    { NGX_HTTP_MCDS_STATUS_LINK,
      NGX_HTTP_MCDS_STATUS_LINK,
      (u_char *) "",
      "",
      NGX_HTTP_MCDS_STATUS_PROMETHEUS },

    { "<script src=\"parts.js\"></script>",
      "<script nonce=\"%V\">\n",
      ngx_http_mcds_status_parts_js,
      "</script>",
      NGX_HTTP_MCDS_STATUS_HTML },

    { "<script src=\"hosts.js\"></script>",
      "<script nonce=\"%V\">\n",
      ngx_http_mcds_status_hosts_js,
      "</script>",
      NGX_HTTP_MCDS_STATUS_HTML },

    { "<script src=\"page.js\"></script>",
      "<script nonce=\"%V\">\n",
      ngx_http_mcds_status_page_js,
      "</script>",
      NGX_HTTP_MCDS_STATUS_HTML },

    { NULL, NULL, NULL, NULL, 0 }
};


ngx_int_t
ngx_http_mcds_status_html(ngx_http_request_t *r, ngx_uint_t fixed)
{
    u_char                       bytes[NGX_HTTP_MCDS_STATUS_NONCE];
    u_char                       data[NGX_HTTP_MCDS_STATUS_NONCE64];
    ngx_str_t                    random, nonce;
    ngx_http_mcds_status_text_t  text;

    random.len = NGX_HTTP_MCDS_STATUS_NONCE;
    random.data = bytes;
    nonce.data = data;

    ngx_mcds_random(bytes, random.len);
    ngx_encode_base64(&nonce, &random);

    ngx_memzero(&text, sizeof(ngx_http_mcds_status_text_t));
    text.pool = r->pool;

    if (ngx_http_mcds_status_page(&text, &nonce, fixed) != NGX_OK
        || ngx_http_mcds_status_page_headers(r, &nonce) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_status_send(r, &text, NGX_HTTP_OK, "text/html");
}


static ngx_int_t
ngx_http_mcds_status_page(ngx_http_mcds_status_text_t *text, ngx_str_t *nonce,
    ngx_uint_t fixed)
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

        ngx_http_mcds_status_copy(text, (char *) p, place - p);

        p = place + ngx_strlen(part->line);

        if (fixed != NGX_HTTP_MCDS_STATUS_AUTO && fixed != part->format) {
            continue;
        }

        len = ngx_strlen(part->open) + nonce->len;

        place = ngx_http_mcds_status_room(text, len);
        if (place == NULL) {
            return NGX_ERROR;
        }

        ngx_http_mcds_status_add(text, ngx_sprintf(place, part->open, nonce));

        ngx_http_mcds_status_copy(text, (char *) part->data,
                                  ngx_strlen(part->data));
        ngx_http_mcds_status_copy(text, part->close, ngx_strlen(part->close));
    }

    ngx_http_mcds_status_copy(text, (char *) p, ngx_strlen(p));

    return text->failed ? NGX_ERROR : NGX_OK;
}


/*
 * Adds the headers of the live page: its Content-Security-Policy allows only
 * the styles, scripts and images inside of the page, and requests to its own
 * server.
 */

static ngx_int_t
ngx_http_mcds_status_page_headers(ngx_http_request_t *r, ngx_str_t *nonce)
{
    u_char       *policy;
    static char   format[] = "default-src 'none'; img-src data:; "
                             "style-src 'nonce-%V'; "
                             "script-src 'nonce-%V'; connect-src 'self'; "
                             "base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'self'%Z";

    ngx_str_set(&r->headers_out.charset, "utf-8");

    policy = ngx_pnalloc(r->pool, sizeof(format) + 2 * nonce->len);
    if (policy == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(policy, format, nonce, nonce);

    if (ngx_http_mcds_header_text(r, "Content-Security-Policy",
                                  (char *) policy)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_header_text(r, "X-Content-Type-Options", "nosniff")
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_header_text(r, "Referrer-Policy", "no-referrer");
}
