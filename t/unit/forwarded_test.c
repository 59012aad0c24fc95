
/*
 * Copyright (C) mcds authors
 *
 * Which request headers, such as X-Forwarded-Host, make an application respond
 * as for another request, and when two of them have the same meaning.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_forwarded.h"
#include "tap.h"


static void test_names(void);
static void test_values(void);
static void test_texts(void);
static void test_random(void);

static ngx_str_t string(const char *text);
static const char *text(const char *name, const char *value);


static void
test_names(void)
{
    ngx_str_t    name, list[2], *found;
    ngx_uint_t   i;
    ngx_array_t  names;

    static struct {
        const char  *header;
        const char  *name;              /* NULL: not a forwarding header;
                                           "method": overrides the method */
    } rows[] = {
        { "X-Forwarded-Host", "x-forwarded-host" },
        { "x-forwarded-host", "x-forwarded-host" },
        { "X_FORWARDED_HOST", "x-forwarded-host" },
        { "X.Forwarded_Host", "x-forwarded-host" },
        { "X-Forwarded0Host", NULL }, { "XxForwarded-Host", NULL },
        { "X-Forwarded-Hos", NULL }, { "X-Forwarded-Host1", NULL },
        { "X-Forwarded-For", NULL }, { "X-Real-IP", NULL }, { "Host", NULL },
        { "Forwarded", "forwarded" }, { "X-Rewrite-URL", "x-rewrite-url" },
        { "X-HTTP-Method-Override", "method" },
        { "x_http_method_override", "method" },
        { "X-HTTP-Method", "method" }, { "X-Method-Override", "method" },
        { "X-Method", NULL }, { "X-HTTP-Methods", NULL }, { "", NULL }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        name = string(rows[i].header);
        found = ngx_mcds_forwarded_name(NULL, &name);

        if (rows[i].name && strcmp(rows[i].name, "method") == 0) {
            ok(found == NULL && ngx_mcds_forwarded_method(&name),
               "'%s' overrides the method", rows[i].header);
            continue;
        }

        ok((rows[i].name
            ? found && strcmp((char *) found->data, rows[i].name) == 0
            : found == NULL)
           && !ngx_mcds_forwarded_method(&name),
           "'%s' is %s", rows[i].header,
           rows[i].name ? rows[i].name : "no such header");
    }

    list[0] = string("X-Tenant");
    list[1] = string("x-host");
    names.elts = list;
    names.nelts = 2;

    name = string("x_tenant");
    ok(ngx_mcds_forwarded_name(&names, &name) == &list[0], "one of a list");

    name = string("X-Forwarded-Host");
    ok(ngx_mcds_forwarded_name(&names, &name) == NULL, "instead of others");

    names.nelts = 0;
    name = string("X-Host");
    ok(ngx_mcds_forwarded_name(&names, &name) == NULL, "an empty list");
}


static void
test_values(void)
{
    ngx_str_t       name, value;
    ngx_uint_t      i;
    ngx_mcds_own_t  own;

    static struct {
        const char  *name;
        const char  *value;
        ngx_uint_t   differs;
    } rows[] = {
        { "x-forwarded-host", "example.com:8443", 0 },
        { "x-forwarded-host", "EXAMPLE.com:8443", 1 },
        { "x-forwarded-host", "example.com", 1 },
        { "x-forwarded-host", "evil:8443", 1 },
        { "x-forwarded-host", "", 1 },
        { "x-forwarded-host", "example.com:8443, evil", 1 },
        { "x-forwarded-proto", "https", 0 },
        { "x-forwarded-proto", "HTTPS", 1 },
        { "x-forwarded-proto", "http", 1 },
        { "x-forwarded-proto", "https,http", 1 },
        { "X-Forwarded-Proto", "https", 0 },
        { "x-forwarded-ssl", "on", 0 }, { "x-forwarded-ssl", "off", 1 },
        { "x-forwarded-ssl", "ON", 1 }, { "front-end-https", "on", 0 },
        { "front-end-https", "On", 1 }, { "front-end-https", "1", 1 },
        { "x-forwarded-port", "8443", 0 }, { "x-forwarded-port", "443", 1 },
        { "x-forwarded-port", "8443x", 1 }, { "x-forwarded-port", "", 1 },
        { "x-forwarded-port", "08443", 1 },
        { "x-forwarded-port", "99999999999999999999", 1 },
        { "x-forwarded-prefix", "/a", 1 }, { "x-forwarded-prefix", "", 1 },
        { "x-original-url", "/", 1 }, { "x-tenant", "a", 1 },

        { "forwarded", "", 0 }, { "forwarded", "for=1.2.3.4", 0 },
        { "forwarded", "for=1.2.3.4;proto=https;by=x", 0 },
        { "forwarded", "For=\"[2001:db8::1]:4711\", for=_a", 0 },
        { "forwarded", "for=1;host=\"example.com:8443\"", 0 },
        { "forwarded", "for=1 ; Host=example.com:8443 , for=2", 0 },
        { "forwarded", "HOST=example.com:8443;Proto=https", 0 },
        { "forwarded", "host=example.COM:8443", 1 },
        { "forwarded", "for=1;proto=Https", 1 },
        { "forwarded", "for=1;proto=http", 1 },
        { "forwarded", "for=1, for=2;host=evil", 1 },
        { "forwarded", "host=evil", 1 }, { "forwarded", "HOST=evil", 1 },
        { "forwarded", "for=1;secret=2", 1 }, { "forwarded", ";,;for=1;", 0 },
        { "forwarded", "for", 1 }, { "forwarded", "for=1 host=evil", 1 },
        { "forwarded", "for=\"1;host=evil\"", 1 },
        { "forwarded", "for=\"1", 1 }, { "forwarded", "for=\"\\\"\"", 1 },
        { "forwarded", "for=1=2", 1 }, { "forwarded", "=1", 1 },
        { "forwarded", "for=a\"b", 1 }, { "forwarded", "for=\"a\"b", 1 }
    };

    own.scheme = string("https");
    own.host = string("example.com:8443");
    own.port = 8443;
    own.local_port = 8443;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        name = string(rows[i].name);
        value.len = strlen(rows[i].value);
        value.data = malloc(value.len);
        memcpy(value.data, rows[i].value, value.len);

        ok(ngx_mcds_forwarded_differs(&name, &value, &own) == rows[i].differs,
           "%s: '%s' %s", rows[i].name, rows[i].value,
           rows[i].differs ? "differs" : "is what nginx has");

        free(value.data);
    }

    name = string("x-forwarded-port");
    value = string("8443");
    own.local_port = 443;
    ok(ngx_mcds_forwarded_differs(&name, &value, &own), "another port listens");

    own.scheme = string("http");
    name = string("x-forwarded-ssl");
    value = string("off");
    ok(!ngx_mcds_forwarded_differs(&name, &value, &own), "no TLS");
}


static void
test_texts(void)
{
    ngx_uint_t  i;

    static struct {
        const char  *name;
        const char  *value;
        const char  *text;
    } rows[] = {
        { "x-host", "evil", "6:x-host,4:evil," },
        { "X-Host", "evil", "6:x-host,4:evil," },
        { "x-host", "", "6:x-host,0:," },
        { "x-host", "a,4:evil,", "6:x-host,9:a,4:evil,," },
        { "forwarded", "for=1;host=evil", "9:forwarded,9:host=evil," },
        { "forwarded", "for=2;Host=\"evil\"", "9:forwarded,9:host=evil," },
        { "forwarded", "host=a;proto=b;for=1,for=2;host=c",
          "9:forwarded,22:host=a;proto=b;,host=c," },
        { "forwarded", "for=1 host=a", "9:forwarded,12:for=1 host=a," },
        { "forwarded", "host=\"a b\"", "9:forwarded,10:host=\"a b\"," },
        { "forwarded", "for=1", "9:forwarded,0:," }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(strcmp(text(rows[i].name, rows[i].value), rows[i].text) == 0,
           "%s: '%s' is written as '%s'", rows[i].name, rows[i].value,
           rows[i].text);
    }
}


/*
 * Random values of the header "Forwarded": the text that represents a value in
 * the cache key fits into its buffer; and some values, but not most, agree with
 * the host and the scheme of the request.
 */

static void
test_random(void)
{
    char            value[128];
    size_t          k;
    ngx_str_t       name, v;
    ngx_uint_t      i, same;
    ngx_mcds_own_t  own;

    static const char  *rows[] = {
        "for", "by", "host", "proto", "x", "=", "=", "=", "\"", "\"", ";", ",",
        " ", "a", "http", "1.2.3.4", "\\", "\t", "[::1]", "=\"a\"", "for=1;",
        "host=a", "proto=http,"
    };

    ngx_memzero(&own, sizeof(ngx_mcds_own_t));
    own.scheme = string("http");
    own.host = string("a");
    name = string("forwarded");

    srandom(tap_seed(1));
    same = 0;

    for (i = 0; i < 100000; i++) {
        value[0] = '\0';

        for (k = random() % 9; k; k--) {
            strcat(value, rows[random() % (sizeof(rows) / sizeof(rows[0]))]);
        }

        (void) text("forwarded", value);

        v.len = strlen(value);
        v.data = malloc(v.len);
        memcpy(v.data, value, v.len);
        same += !ngx_mcds_forwarded_differs(&name, &v, &own);
        free(v.data);
    }

    ok(same > 1000 && same < 50000, "100000 values at random");
}


static ngx_str_t
string(const char *text)
{
    ngx_str_t  s;

    s.data = (u_char *) text;
    s.len = strlen(text);

    return s;
}


static const char *
text(const char *name, const char *value)
{
    u_char       *p, *last;
    size_t        size;
    ngx_str_t     n, v;

    static char   result[256];

    n = string(name);
    v = string(value);

    size = NGX_MCDS_FORWARDED_LEN + n.len + v.len;

    p = malloc(size);
    last = ngx_mcds_forwarded_write(p, &n, &v);

    memcpy(result, p, last - p);
    result[last - p] = '\0';

    free(p);

    return result;
}


int
main(void)
{
    test_names();
    test_values();
    test_texts();
    test_random();

    return done_testing();
}
