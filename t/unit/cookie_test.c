
/*
 * Copyright (C) mcds authors
 *
 * Which request headers Cookie contain a session cookie of a given name, for an
 * application in any language.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_cookie.h"
#include "tap.h"


static void test_names(void);
static void test_values(void);
static void test_patterns(void);
static void test_time(void);
static void test_random(void);

static ngx_uint_t named(const char *line, size_t len, const char *names);
static void show(ngx_uint_t good, ngx_uint_t yes, const char *line,
    size_t len, const char *names);


typedef struct {
    const char  *names;           /* cookie names to look for in "line",
                                     separated by spaces */
    const char  *line;
    size_t       len;
    ngx_uint_t   named;
} row_t;

#define yes(names, line)  { names, line, sizeof(line) - 1, 1 }
#define no(names, line)   { names, line, sizeof(line) - 1, 0 }


static void
check(row_t *row, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        show(named(row[i].line, row[i].len, row[i].names) == row[i].named,
             row[i].named, row[i].line, row[i].len, row[i].names);
    }
}


/* The places of names in the header Cookie, and their spellings. */

static void
test_names(void)
{
    static row_t  rows[] = {
        yes("SID", "SID=1"), yes("SID", "SID="), yes("SID", "SID"),
        yes("SID", "a=b;SID=1"), yes("SID", "a=b; SID=1"),
        yes("SID", "a=b;;SID"), yes("SID", "SID=1;"), yes("SID", " SID =1"),
        yes("SID", "a;SID"), yes("SID", "SID;a"), yes("SID", "SID=a; SID=b"),
        no("SID", ""), no("SID", ";"), no("SID", "="), no("SID", ";=;,=,"),
        no("SID", "XSID=1"), no("SID", "SIDX=1"), no("SID", "SI=1"),
        no("SID", "a=SID"), yes("SID", "=SID"), no("SID", "a==SID"),
        no("SID", "a=b=SID=1"), no("SID", "a=SID=1"), no("SID", "a"),

        /* ASP.NET and RFC 2965 ignore the case of names */
        yes("SID", "sid=1"), yes("sId", "SiD=1"),

        /* PHP replaces some characters of cookie names by "_" */
        yes("wp-pass_*", "wp-pass.x=1"), yes("wp-pass_*", "wp-pass x=1"),
        yes("wp-pass_*", "wp-pass[x=1"), yes("wp-pass_*", "wp-pass =1"),
        yes("a_b", "a.b=1"), yes("a.b", "a_b=1"), yes("a_b", "a[b=1"),
        yes("a_b_c", "a[b.c=1"), yes("a_b_c", "a.b c=1"),
        yes("SID", "SID[]=1"), yes("SID", "SID[a][b]=1"), yes("SID", "SID[=1"),
        yes("a_b", "a.b[c]=1"), yes("SID", "a=1;\vSID=1"),
        yes("SID", "a=1;\fSID=1"), yes("SID", "\x01SID=1"),
        yes("a,b", "a,b=1"), yes("a_SID", "a SID=1"),
        no("wp-pass_*", "wp-pass-x=1"), no("a_b", "a-b=1"),
        no("SID", "a[SID]=1"),

        /* percent-encoded names, which some applications decode */
        yes("SID", "%53ID=1"), yes("SID", "S%49%44=1"), yes("SID", "%73id=1"),
        yes("SID", "SID%00x=1"), yes("SID", "SID%5b]=1"),
        yes("SID", "%20SID=1"), yes("SID", "+SID=1"), yes("SID", " +%0bSID=1"),
        yes("a_b", "a+b=1"), yes("a_b", "a%2eb=1"), yes("a_b", "a%5Fb=1"),
        yes("S%49D", "S%49D=1"), yes("+a", "+a=1"),
        no("SID", "%53I=1"), no("SID", "%5=1"), no("SID", "%"),
        no("SID", "%5"), no("SID", "S%4gD=1"), no("SID", "a=%53ID=1"),
        no("SID", "a=%3bSID=1"), no("SID", "%2553ID=1"),

        /*
         * white space of Unicode or ISO-8859-1, and control characters, before
         * and after names
         */
        yes("SID", "a=b;\xc2\xa0SID=1"), yes("SID", "a=b;\xe2\x80\x83SID=1"),
        yes("SID", "\xa0SID\xa0=1"), yes("SID", "\xef\xbb\xbfSID=1"),
        yes("SID", "\x1cSID\x1f=1"), yes("SID", "SID\x85=1"),
        yes("\xc3\xa4SID", "\xc3\xa4SID=1"), yes("SID", "\x7fSID=1"),
        no("SID", "\xc3\xa4"), no("SID", "\xc3\xa4 x=1"),

        /* commas between cookies, and separators in front of their names */
        yes("SID", "$Version=1, SID=1"), yes("SID", "a=b,SID=1"),
        yes("SID", "a=b,SID"), yes("SID", "a=b , SID , c"),
        yes("SID", "a,SID,b=1"), yes("S*", "a,S][b"), yes("SID", "a=b;(SID=1"),
        yes("SID", "=SID=1"), yes("SID", "a=b;/SID=1"), yes("SID", "{SID=1"),
        yes("SID", "\"SID\"=1"), yes("SID", "a=b,\"SID\" = 1")
    };

    check(rows, sizeof(rows) / sizeof(rows[0]));
}


/*
 * Inside of another cookie's value, a name is found only where some application
 * begins a cookie: after white space, a comma, a quote or another separator.
 * Except after a comma, "=" must follow the name.
 */

static void
test_values(void)
{
    static row_t  rows[] = {
        yes("SID", "a=\"x; SID=1\""), yes("SID", "a=\"x;SID=1"),
        yes("SID", "a=\"x, SID=1\""), yes("SID", "a=\"SID=1\""),
        yes("SID", "a=\"x\" SID=1"), yes("SID", "a=\"x\"SID=1"),
        yes("SID", "a=\"x\\\"SID=1\""), yes("SID", "a=b SID=1"),
        yes("SID", "a=b\tSID=1"), yes("SID", "a=b\x01SID=1"),
        yes("SID", "a=b\xa0SID=1"), yes("SID", "a=b[SID=1"),
        yes("SID", "a=b]SID=1"), yes("SID", "a=b SID = 1"),
        yes("SID", "a=b SID\t=1"), yes("SID", "a=b;\"x\"SID=1"),

        no("SID", "a=b SID"), no("SID", "a=\" SID\""), no("SID", "a=\"SID\""),
        no("SID", "a=b:SID=1"), no("SID", "a=b&SID=1"), no("SID", "a=b|SID=1"),
        no("SID", "a=b/SID=1"), no("SID", "a=b?SID=1"), no("SID", "a=b+SID=1"),
        no("SID", "a=b%20SID=1"), no("SID", "a=%22x%3B%20SID%3D1%22"),

        /* headers Cookie of real browsers */
#define names  "SID session sessionid *_session PHPSESSID *Token"
        no(names, "_ga=GA1.2.1830612905.1690000000; _gid=GA1.2.1.2; "
                  "_gat=1; _ga_ABC123=GS1.1.1690000000.1.1.1690000001.0.0.0"),
        no(names, "_fbp=fb.1.1690000000000.123456789; "
                  "_fbc=fb.1.1690000000000.IwAR2_session-x"),
        no(names, "_pk_id.1.1fff=0f3b.1690000000.; _pk_ses.1.1fff=*"),
        no(names, "__utma=1.2.3.4.5.6; __utmc=1; __utmz=1.2.3.4.utmcsr=google|"
                  "utmccn=(organic)|utmcmd=organic|utmctr=(not%20provided)"),
        no(names, "utm_source=a; utm_medium=b; utm_campaign=spring sale, now"),
        no(names, "CookieConsent={stamp:'p4J2Qw==',necessary:true,"
                  "preferences:false,statistics:false,session:true,"
                  "method:'explicit',ver:1,utc:1690000000000,region:'de'}"),
        no(names, "cookieyes-consent=consentid:UGVJ,consent:yes,action:yes,"
                  "necessary:yes,functional:yes,analytics:yes,other:yes"),
        no(names, "OptanonConsent=isGpcEnabled=0&datestamp=Tue+Aug+01+2023&"
                  "version=202301.1.0&session=1&consentId=8c-6f&"
                  "groups=C0001%3A1%2CC0002%3A0&AwaitingReconsent=false"),
        no(names, "consent={\"session\":true,\"PHPSESSID\":\"x\", "
                  "\"user_session\" : \"a=b\"}"),
        no(names, "consent=%7B%22session%22%3Atrue%7D; "
                  "c=[\"session\",\"SID\"]"),
        no(names, "euconsent-v2=CPtGDMAPtGDMAAGABCENC-CgAAAAAAAAAAwIAAAAAAA.Y"),
        no(names, "_hjSessionUser_12=eyJpZCI6Ij0=; _hjSession_12=eyJpZCI=="),
        no(names, "mp_1_mixpanel=%7B%22distinct_id%22%3A%20%22a%22%2C%22"
                  "session%22%3A%20%22a%3Db%22%7D"),
        no(names, "ajs_user_id=\"a1\"; ajs_group_id=null; amp_1=x_y...1h.1h"),
        no(names, "landing=https://example.com/?session=1&SID=2#PHPSESSID=3"),
        no(names, "intercom-id-x=a; __hssc=1.1.1; __hstc=1.a.b; hubspotutk=c"),
        no(names, "theme=dark; lang=de-DE,de;q=0.9; tz=Europe/Berlin")
#undef names
    };

    check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
test_patterns(void)
{
    static row_t  rows[] = {
        yes("*", "a=1"), yes("*", "a"), no("*", " ; ="),
        yes("a* b*", "bx=1"), yes("*_session", "my_session=1"),
        yes("*_session", "_session=1"), yes("*_session", "my.session=1"),
        no("*_session", "mysession=1"), no("*_session", "my_sessions=1"),
        yes("*a*b*", "xaxbx=1"), yes("*a*b", "abab=1"), no("*a*b", "aba=1"),
        yes("a*", "a=1"), yes("a**b", "ab=1"), yes("*b", "a%62=1"),
        yes("a*b", "a%00b=1"), yes("*a", "xa[b]=1"), no("*a", "xab[b]=1"),
        yes("a*c", "a,b,c=1"), yes("ASP.NET_SessionId", "asp.net_sessionid=1"),
        yes("*_", "a =1"), yes("__Secure-*", "__secure-x=1")
    };

    check(rows, sizeof(rows) / sizeof(rows[0]));
}


/*
 * The time to search a header Cookie depends only on its length, whatever its
 * content.
 */

static void
test_time(void)
{
    char        *line;
    size_t       i, len;
    ngx_uint_t   n;

    static const char  *rows[] = {
        "+", "%20", "a ", "_,", " ,", "\"", "a=b ", "[", "%2", "a;", "\xa0",
        "s_", "_sessio"
    };

    len = 32768;
    line = malloc(len + 8);

    for (n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {

        for (i = 0; i < len; i += strlen(rows[n])) {
            strcpy(line + i, rows[n]);
        }

        ok(!named(line, len, "*_session S*s*n*x *x wp-* a_b_c_d"),
           "32 kB of '%s'", rows[n]);
    }

    free(line);
}


/* No byte beyond the end of any header Cookie is read. */

static void
test_random(void)
{
    char        line[64];
    size_t      len, k;
    ngx_uint_t  i, found;

    static const char  *rows[] = {
        "SID", "a_session", "a", "%", "%5", "%53", "%00", "=", ";", ",", " ",
        "\"", "\\", "[", "]", "+", ".", "\x01", "\xa0", "\xc2\xa0", "{", "*"
    };

    srandom(tap_seed(1));
    found = 0;

    for (i = 0; i < 100000; i++) {
        len = 0;

        for (k = random() % 8; k; k--) {
            strcpy(line + len, rows[random() % (sizeof(rows)
                                                / sizeof(rows[0]))]);
            len += strlen(line + len);
        }

        found += named(line, len, "SID *_session a*b %*");
    }

    ok(found > 1000 && found < 90000, "100000 lines at random");
}


/*
 * Looks for names in an exact copy of the header Cookie, so that a read beyond
 * its end is noticed.
 */

static ngx_uint_t
named(const char *line, size_t len, const char *names)
{
    char        *copy, *word, *save;
    ngx_str_t    text, list[16];
    ngx_uint_t   found;
    ngx_array_t  array;

    copy = strdup(names);

    array.elts = list;
    array.nelts = 0;

    for (word = strtok_r(copy, " ", &save);
         word;
         word = strtok_r(NULL, " ", &save))
    {
        list[array.nelts].data = (u_char *) word;
        list[array.nelts++].len = strlen(word);
    }

    text.len = len;
    text.data = malloc(len ? len : 1);
    memcpy(text.data, line, len);

    found = ngx_mcds_cookie_named(&text, &array);

    free(text.data);
    free(copy);

    return found;
}


static void
show(ngx_uint_t good, ngx_uint_t yes, const char *line, size_t len,
    const char *names)
{
    char    text[512], *p;
    size_t  i;

    p = text;

    for (i = 0; i < len && p < text + sizeof(text) - 5; i++) {
        p += (line[i] >= ' ' && line[i] < 0x7f)
             ? sprintf(p, "%c", line[i] == '#' ? '.' : line[i])
             : sprintf(p, "\\x%02x", (u_char) line[i]);
    }

    *p = '\0';

    ok(good, "'%s' %s of %s", text, yes ? "is" : "is none", names);
}


int
main(void)
{
    test_names();
    test_values();
    test_patterns();
    test_time();
    test_random();

    return done_testing();
}
