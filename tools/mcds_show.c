
/*
 * Copyright (C) mcds authors
 *
 * Prints the results of commands, which are JSON values: as JSON, or as text
 * for people.
 */


#include "mcds.h"
#include "ngx_mcds_json.h"


#define MCDS_INDENT               2

/* the last second of the year 9999, since the epoch */
#define MCDS_SHOW_LAST            253402300799

/*
 * significant digits of a real number with --json: 0.1 is not printed as
 * 0.10000000000000001
 */
#define MCDS_DIGITS               15


static ngx_uint_t mcds_utf8(u_char *p, u_char *last);
static size_t mcds_character(u_char *p, u_char *last);
static void mcds_lines(json_t *value, int indent);
static ngx_uint_t mcds_simple(json_t *value);
static char *mcds_text(json_t *value);
static int mcds_width(const char *text);
static ngx_uint_t mcds_flat(json_t *list);
static void mcds_columns(json_t *list);
static void mcds_scalar(json_t *value);


/*
 * The length of the UTF-8 character at p; 0 if it is malformed, a control
 * character, or one that changes the direction of text.
 */

static ngx_uint_t
mcds_utf8(u_char *p, u_char *last)
{
    uint32_t    ch;
    ngx_uint_t  i, len;

    static uint32_t  least[] = { 0, 0, 0x80, 0x800, 0x10000 };

    if (*p < 0x80) {
        return *p >= 0x20 && *p != 0x7f;
    }

    len = (*p >= 0xf0) ? 4 : (*p >= 0xe0) ? 3 : 2;

    if (*p < 0xc2 || *p > 0xf4 || (ngx_uint_t) (last - p) < len) {
        return 0;
    }

    ch = *p & (0xff >> (len + 1));

    for (i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }

        ch = (ch << 6) | (p[i] & 0x3f);
    }

    if (ch < least[len] || ch > 0x10ffff || (ch >= 0xd800 && ch < 0xe000)
        || ch < 0xa0
        || (ch >= 0x200b && ch <= 0x200f)
        || (ch >= 0x2028 && ch <= 0x202e)
        || (ch >= 0x2060 && ch <= 0x206f)
        || ch == 0xfeff)
    {
        return 0;
    }

    return len;
}


char *
mcds_escape(u_char *data, size_t len)
{
    u_char      *p, *last, *buf, *to;
    ngx_uint_t   n;

    buf = malloc(4 * len + 1);

    if (buf == NULL) {
        mcds_no_memory();
    }

    to = buf;
    last = data + len;

    for (p = data; p < last; p += n) {
        n = mcds_utf8(p, last);

        if (n == 0) {
            to = ngx_sprintf(to, "\\x%02xd", (u_int) *p);
            n = 1;

        } else {
            to = ngx_cpymem(to, p, n);
        }
    }

    *to = '\0';

    return (char *) buf;
}


void
mcds_print(u_char *data, size_t len)
{
    char  *text;

    text = mcds_escape(data, len);
    (void) fputs(text, stdout);
    free(text);
}


/*
 * the length of the UTF-8 character at p, which may be a control character; 0
 * if it is malformed
 */

static size_t
mcds_character(u_char *p, u_char *last)
{
    ngx_str_t  text;

    text.data = p;

    for (text.len = 1; text.len <= 4; text.len++) {
        if ((size_t) (last - p) >= text.len && ngx_mcds_json_utf8(&text)) {
            return text.len;
        }
    }

    return 0;
}


/*
 * a JSON string of bytes: text that JSON can represent is kept, any other byte
 * becomes \xNN
 */

json_t *
mcds_str(u_char *data, size_t len)
{
    u_char  *buf, *p, *last;
    size_t   n;
    json_t  *json;

    json = json_stringn(len ? (char *) data : "", len);

    if (json) {
        return json;
    }

    buf = malloc(4 * len + 1);

    if (buf == NULL) {
        mcds_no_memory();
    }

    last = data + len;

    for (p = buf; data < last; data += n) {
        n = mcds_character(data, last);

        if (n == 0) {
            p = ngx_sprintf(p, "\\x%02xd", (u_int) *data);
            n = 1;

        } else {
            p = ngx_cpymem(p, data, n);
        }
    }

    json = json_stringn((char *) buf, p - buf);

    free(buf);

    return json;
}


json_t *
mcds_json(ngx_str_t *text)
{
    return mcds_str(text->data, text->len);
}


json_t *
mcds_time(uint64_t ms)
{
    char       text[64];
    time_t     sec;
    size_t     n;
    struct tm  tm;

    sec = ms / 1000;

    if (ms / 1000 > MCDS_SHOW_LAST
        || (uint64_t) sec != ms / 1000
        || gmtime_r(&sec, &tm) == NULL)
    {
        return json_null();
    }

    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    (void) snprintf(text + n, sizeof(text) - n, ".%03dZ", (int) (ms % 1000));

    return json_string(text);
}


json_t *
mcds_count(uint64_t n)
{
    u_char  text[NGX_INT64_LEN];

    if (n <= INT64_MAX) {
        return json_integer(n);
    }

    return mcds_str(text, ngx_sprintf(text, "%uL", n) - text);
}


void
mcds_put(json_t *object, char *name, json_t *value)
{
    if (value == NULL || json_object_set_new(object, name, value) != 0) {
        mcds_no_memory();
    }
}


void
mcds_show(mcds_t *m, json_t *value)
{
    if (!m->o.json) {

        /* a list without elements has no lines, as scripts expect */

        if (!json_is_array(value) || json_array_size(value)) {
            mcds_lines(value, 0);
        }

        json_decref(value);
        return;
    }

    mcds_dump(value, MCDS_DIGITS);
}


void
mcds_dump(json_t *value, size_t digits)
{
    char  *text;

    /* JSON is printed in pure ASCII, which is safe for any terminal */

    text = json_dumps(value, JSON_COMPACT|JSON_ENSURE_ASCII|JSON_ENCODE_ANY
                             |JSON_REAL_PRECISION(digits));

    if (text == NULL) {
        mcds_no_memory();
    }

    /* the byte DEL is valid in JSON, but not safe for a terminal */

    for (char *p = text; *p; p++) {
        if (*p == 0x7f) {
            (void) fputs("\\u007f", stdout);

        } else {
            (void) putchar(*p);
        }
    }

    (void) putchar('\n');

    free(text);
    json_decref(value);
}


static void
mcds_lines(json_t *value, int indent)
{
    int          width;
    size_t       i;
    json_t      *v;
    const char  *name;

    if (mcds_simple(value)) {
        printf("%*s", indent, "");
        mcds_scalar(value);
        printf("\n");
        return;
    }

    if (indent == 0 && mcds_flat(value)) {
        mcds_columns(value);
        return;
    }

    if (json_is_array(value)) {
        json_array_foreach(value, i, v) {

            if (i && indent == 0 && json_is_object(v)) {
                printf("\n");
            }

            mcds_lines(v, indent);
        }

        return;
    }

    width = 0;

    json_object_foreach(value, name, v) {
        if (mcds_simple(v)) {
            width = ngx_max(width, (int) ngx_strlen(name));
        }
    }

    json_object_foreach(value, name, v) {
        printf("%*s", indent, "");
        mcds_print((u_char *) name, ngx_strlen(name));

        if (mcds_simple(v)) {
            printf("%*s", width + 2 - (int) ngx_strlen(name), "");
            mcds_scalar(v);
            printf("\n");

        } else {
            printf("\n");
            mcds_lines(v, indent + MCDS_INDENT);
        }
    }
}


/*
 * 1 if a JSON value fits on the line of its name: it is not a list or an object
 * with elements
 */

static ngx_uint_t
mcds_simple(json_t *value)
{
    return json_array_size(value) == 0 && json_object_size(value) == 0;
}


/*
 * returns a JSON value, for one line of text, as a string from malloc(); "-" is
 * null, or a list or object without elements
 */

static char *
mcds_text(json_t *value)
{
    char  text[64];

    switch (json_typeof(value)) {

    case JSON_STRING:
        return mcds_escape((u_char *) json_string_value(value),
                           json_string_length(value));

    case JSON_INTEGER:
        (void) snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
                        json_integer_value(value));
        break;

    case JSON_REAL:
        (void) snprintf(text, sizeof(text), "%.3f", json_real_value(value));
        break;

    case JSON_TRUE:
        (void) strcpy(text, "yes");
        break;

    case JSON_FALSE:
        (void) strcpy(text, "no");
        break;

    default:
        (void) strcpy(text, "-");
    }

    return mcds_escape((u_char *) text, ngx_strlen(text));
}


/*
 * the number of columns that a text takes on a terminal, if each of its
 * characters takes one
 */

static int
mcds_width(const char *text)
{
    int  n;

    for (n = 0; *text; text++) {
        n += ((*text & 0xc0) != 0x80);
    }

    return n;
}


/*
 * returns 1 if a JSON list can be printed as a table: its elements are objects
 * whose values are no lists and no objects
 */

static ngx_uint_t
mcds_flat(json_t *list)
{
    size_t       i;
    json_t      *object, *v;
    const char  *name;

    if (json_array_size(list) == 0) {
        return 0;
    }

    json_array_foreach(list, i, object) {

        if (!json_is_object(object)) {
            return 0;
        }

        json_object_foreach(object, name, v) {
            if (!mcds_simple(v)) {
                return 0;
            }
        }
    }

    return 1;
}


/* prints a JSON list of objects as a table with a header */

static void
mcds_columns(json_t *list)
{
    int          width, left;
    char        *text;
    size_t       i;
    json_t      *widths, *object, *v;
    const char  *name, *p;

    widths = json_object();

    json_array_foreach(list, i, object) {
        json_object_foreach(object, name, v) {
            text = mcds_text(v);

            width = ngx_max(mcds_width(text), mcds_width(name));
            width = ngx_max(width, (int) json_integer_value(
                                             json_object_get(widths, name)));

            mcds_put(widths, (char *) name, json_integer(width));
            free(text);
        }
    }

    left = 0;

    json_object_foreach(widths, name, v) {
        printf("%*s", left, "");

        for (p = name; *p; p++) {
            (void) putchar(ngx_toupper(*p));
        }

        left = (int) json_integer_value(v) - mcds_width(name) + MCDS_INDENT;
    }

    printf("\n");

    json_array_foreach(list, i, object) {
        left = 0;

        json_object_foreach(widths, name, v) {
            text = json_object_get(object, name)
                   ? mcds_text(json_object_get(object, name))
                   : mcds_escape((u_char *) "-", 1);

            printf("%*s%s", left, "", text);

            left = (int) json_integer_value(v) - mcds_width(text)
                   + MCDS_INDENT;
            free(text);
        }

        printf("\n");
    }

    json_decref(widths);
}


static void
mcds_scalar(json_t *value)
{
    char  *text;

    text = mcds_text(value);
    (void) fputs(text, stdout);
    free(text);
}
