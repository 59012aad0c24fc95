
/*
 * Copyright (C) mcds authors
 */


#include "mcds_url.h"


static char *mcds_url_wrong(u_char *host, u_char *end, u_char *last);


void
mcds_url_key(mcds_t *m, ngx_str_t *url)
{
    char    *wrong;
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

    wrong = mcds_url_wrong(host, end, last);

    if (wrong) {
        mcds_usage(m, "%s: the URL %s", url->data, wrong);
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


/*
 * returns what is wrong with a URL, from its host to "end" and its path to
 * "last", for which nginx cannot have a page, or NULL
 */

static char *
mcds_url_wrong(u_char *host, u_char *end, u_char *last)
{
    u_char     *p;
    ngx_int_t   port;

    if (ngx_strlchr(host, end, '@')) {
        return "must not have a user or a password";
    }

    if (end == host || *host == ':') {
        return "has no host";
    }

    p = (*host == '[') ? ngx_strlchr(host, end, ']') : host;
    p = p ? ngx_strlchr(p, end, ':') : NULL;

    if (p && ++p < end) {
        port = ngx_atoi(p, end - p);

        if (port < 1 || port > 65535) {
            return "has no port from 1 to 65535";
        }
    }

    /* nginx refuses a request with such a character */

    for (p = host; p < last; p++) {
        if (*p <= ' ' || *p == 0x7f) {
            return "must not have spaces and control characters, write %20 "
                   "and the like";
        }
    }

    return NULL;
}
