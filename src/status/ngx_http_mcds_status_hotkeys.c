
/*
 * Copyright (C) mcds authors
 *
 * The keys requested most often (the hot keys) as JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_hotkeys.h"
#include "ngx_mcds_json.h"
#include "ngx_http_mcds_status.h"


static void ngx_http_mcds_status_hotkeys_kind(ngx_http_mcds_status_text_t *text,
    ngx_uint_t kind);
static void ngx_http_mcds_status_hotkey(ngx_http_mcds_status_text_t *text,
    ngx_mcds_hotkeys_key_t *key);
static size_t ngx_http_mcds_status_hotkey_part(ngx_str_t *s);


void
ngx_http_mcds_status_hotkeys(ngx_http_mcds_status_text_t *text)
{
    ngx_http_mcds_status_printf(text, "\"hot\":{\"pages\":[");
    ngx_http_mcds_status_hotkeys_kind(text, NGX_MCDS_HOTKEYS_PAGES);
    ngx_http_mcds_status_printf(text, "],\"counters\":[");
    ngx_http_mcds_status_hotkeys_kind(text, NGX_MCDS_HOTKEYS_COUNTERS);
    ngx_http_mcds_status_printf(text, "],\"visitors\":[");
    ngx_http_mcds_status_hotkeys_kind(text, NGX_MCDS_HOTKEYS_VISITORS);
    ngx_http_mcds_status_printf(text, "]}");
}


static void
ngx_http_mcds_status_hotkeys_kind(ngx_http_mcds_status_text_t *text,
    ngx_uint_t kind)
{
    ngx_uint_t               i, n;
    ngx_mcds_hotkeys_key_t  *keys;

    if (ngx_mcds_hotkeys == NULL) {
        return;
    }

    keys = ngx_palloc(text->pool,
                      NGX_MCDS_HOTKEYS_TOP * sizeof(ngx_mcds_hotkeys_key_t));
    if (keys == NULL) {
        text->failed = 1;
        return;
    }

    n = ngx_mcds_hotkeys_read(ngx_mcds_hotkeys, kind, keys,
                              NGX_MCDS_HOTKEYS_TOP);

    for (i = 0; i < n; i++) {

        if (i) {
            ngx_http_mcds_status_printf(text, ",");
        }

        ngx_http_mcds_status_hotkey(text, &keys[i]);
    }
}


static void
ngx_http_mcds_status_hotkey(ngx_http_mcds_status_text_t *text,
    ngx_mcds_hotkeys_key_t *key)
{
    u_char     *p;
    size_t      len;
    ngx_str_t   s;
    ngx_uint_t  cut;

    s.data = key->data;
    s.len = key->len;

    cut = (s.len == NGX_MCDS_HOTKEYS_KEY);

    if (cut) {
        s.len -= ngx_http_mcds_status_hotkey_part(&s);
    }

    len = sizeof("{\"key\":\"\\u2026\",\"rate\":") + NGX_INT64_LEN + 4
          + ngx_mcds_json_string(NULL, &s);

    p = ngx_http_mcds_status_room(text, len);
    if (p == NULL) {
        return;
    }

    p = ngx_cpymem(p, "{\"key\":\"", sizeof("{\"key\":\"") - 1);
    p = (u_char *) ngx_mcds_json_string(p, &s);
    p = ngx_sprintf(p, "%s\",\"rate\":%uL.%03uL", cut ? "\\u2026" : "",
                    key->rate / 1000, key->rate % 1000);

    ngx_http_mcds_status_add(text, p);

    if (key->noted) {
        ngx_http_mcds_status_printf(text,
                                    ",\"value\":%uL,\"seen\":%uL.%03uL",
                                    key->value, key->noted / 1000,
                                    key->noted % 1000);
    }

    ngx_http_mcds_status_printf(text, "}");
}


/*
 * returns the number of bytes of a UTF-8 character that is truncated at the end
 * of the key s; 0 if there is none
 */

static size_t
ngx_http_mcds_status_hotkey_part(ngx_str_t *s)
{
    u_char  c;
    size_t  len, whole;

    for (len = 1; len < 4 && (s->data[s->len - len] & 0xc0) == 0x80; len++) {
        /* void */
    }

    c = s->data[s->len - len];
    whole = (c >= 0xf0) ? 4 : (c >= 0xe0) ? 3 : (c >= 0xc0) ? 2 : 0;

    return (len < whole) ? len : 0;
}
