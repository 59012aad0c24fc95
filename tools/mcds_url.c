
/*
 * Copyright (C) mcds authors
 */


#include "mcds_url.h"


void
mcds_url_key(mcds_t *m, ngx_str_t *url)
{
    u_char  *p, *key, *host, *last, *end;
    size_t   scheme;

    last = url->data + url->len;
    scheme = 0;

    if (url->len > 7
        && ngx_strncasecmp(url->data, (u_char *) "http://", 7) == 0)
    {
        scheme = 7;

    } else if (url->len > 8
               && ngx_strncasecmp(url->data, (u_char *) "https://", 8) == 0)
    {
        scheme = 8;
    }

    if (scheme == 0) {
        mcds_usage(m, "%s: not a URL with http:// or https://; pass the text "
                      "of mcds_cache_key with --key", url->data);
    }

    /* the fragment of the URL is cut off, since browsers do not send it */

    p = ngx_strlchr(url->data, last, '#');

    if (p) {
        last = p;
    }

    host = url->data + scheme;
    end = host + strcspn((char *) host, "/?#");

    if (end == host || ngx_strlchr(host, end, '@')) {
        mcds_usage(m, "%s: %s", url->data,
                   end == host ? "the URL has no host"
                               : "the URL must not have a user or a password");
    }

    key = mcds_alloc(m, url->len + 2);

    ngx_strlow(key, url->data, end - url->data);
    p = key + (end - url->data);

    if (end == last || *end != '/') {
        *p++ = '/';
    }

    p = ngx_cpymem(p, end, last - end);

    url->data = key;
    url->len = p - key;
}
