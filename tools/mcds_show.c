
/*
 * Copyright (C) mcds authors
 *
 * What is shown: JSON, or the same as lines for people.
 */


#include "mcds.h"


#define MCDS_INDENT               2


static ngx_uint_t mcds_utf8(u_char *p, u_char *last);
static void mcds_lines(json_t *value, int indent);
static void mcds_scalar(json_t *value);
static ngx_uint_t mcds_simple(json_t *value);


/*
 * How many bytes the character at p has, 0 if it is none that may be shown:
 * broken, or a control character, or one that turns the line around.
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


void
mcds_print(u_char *data, size_t len)
{
    u_char      *p, *last;
    ngx_uint_t   n;

    last = data + len;

    for (p = data; p < last; p += n) {
        n = mcds_utf8(p, last);

        if (n == 0) {
            printf("\\x%02x", *p);
            n = 1;

        } else {
            (void) fwrite(p, 1, n, stdout);
        }
    }
}


/* what JSON can hold stays as it is; any other byte is written as \xNN */

json_t *
mcds_str(u_char *data, size_t len)
{
    u_char  *buf, *p;
    size_t   i;
    json_t  *json;

    json = json_stringn(len ? (char *) data : "", len);

    if (json) {
        return json;
    }

    buf = malloc(4 * len + 1);

    if (buf == NULL) {
        mcds_no_memory();
    }

    for (i = 0, p = buf; i < len; i++) {
        if (data[i] < 0x80) {
            *p++ = data[i];

        } else {
            p = ngx_sprintf(p, "\\x%02xd", (u_int) data[i]);
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

    if (sec > 253402300799 || gmtime_r(&sec, &tm) == NULL) {
        return json_null();
    }

    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    (void) snprintf(text + n, sizeof(text) - n, ".%03dZ", (int) (ms % 1000));

    return json_string(text);
}


json_t *
mcds_hex(uint64_t n)
{
    char  text[32];

    (void) snprintf(text, sizeof(text), "%016llx", (unsigned long long) n);

    return json_string(text);
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
    char  *text;

    if (!m->o.json) {
        mcds_lines(value, 0);
        json_decref(value);
        return;
    }

    /* pure ASCII, which no terminal takes for anything else */

    text = json_dumps(value, JSON_COMPACT|JSON_ENSURE_ASCII|JSON_ENCODE_ANY);

    if (text == NULL) {
        mcds_no_memory();
    }

    /* DEL need not be escaped in JSON, but is here */

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


/* what goes behind its name: all but a list and an object that are not empty */

static ngx_uint_t
mcds_simple(json_t *value)
{
    return json_array_size(value) == 0 && json_object_size(value) == 0;
}


static void
mcds_scalar(json_t *value)
{
    switch (json_typeof(value)) {

    case JSON_STRING:
        mcds_print((u_char *) json_string_value(value),
                   json_string_length(value));
        break;

    case JSON_INTEGER:
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;

    case JSON_REAL:
        printf("%.3f", json_real_value(value));
        break;

    case JSON_TRUE:
        printf("yes");
        break;

    case JSON_FALSE:
        printf("no");
        break;

    default:
        printf("-");
    }
}
