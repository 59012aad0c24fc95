
/*
 * Copyright (C) mcds authors
 */


#include "slow.h"


#define SLOW_WORDS  1100


static void slow_line(slow_reply_t *reply, const u_char *data, size_t len);
static int slow_flags(slow_reply_t *reply, slow_text_t *word, size_t n);
static int slow_flag(slow_reply_t *reply, u_char name, slow_text_t *arg);
static int slow_is(slow_text_t *text, const char *s);
static int slow_decimal(slow_text_t *text, const char *max, uint64_t *n);
static int slow_token(u_char ch);
static void slow_directive(ngx_mcds_cache_control_t *cc, slow_text_t *name,
    int has_arg, slow_text_t *arg);
static void slow_delta(slow_text_t *arg, unsigned has, uint32_t *n);


void
slow_parse(slow_reply_t *reply, const u_char *data, size_t len)
{
    size_t  i;

    memset(reply, 0, sizeof(slow_reply_t));

    for (i = 0; i < len && i <= NGX_MCDS_MAX_LINE; i++) {

        if (data[i] == '\n') {
            reply->code = NGX_ERROR;

            if (i > 0 && data[i - 1] == '\r') {
                slow_line(reply, data, i - 1);
            }

            reply->taken = i + 1;
            return;
        }
    }

    reply->code = (len > NGX_MCDS_MAX_LINE) ? NGX_ERROR : NGX_AGAIN;
}


static void
slow_line(slow_reply_t *reply, const u_char *data, size_t len)
{
    size_t              i, n, code;
    slow_text_t         word[SLOW_WORDS], rest;

    static const char  *codes[] = { "HD", "EN", "NF", "NS", "EX", NULL };
    static ngx_uint_t   rcs[] = { NGX_MCDS_OK, NGX_MCDS_NOT_FOUND,
                                  NGX_MCDS_NOT_FOUND, NGX_MCDS_NOT_STORED,
                                  NGX_MCDS_EXISTS };

    if (len && data[len - 1] == ' ') {
        len--;
    }

    /* splits the reply's line at each space into words */

    n = 0;
    word[0].data = data;
    word[0].len = 0;

    for (i = 0; i < len; i++) {

        if (data[i] == ' ') {
            n++;
            word[n].data = data + i + 1;
            word[n].len = 0;

            if (n == SLOW_WORDS - 1) {
                return;
            }

        } else {
            word[n].len++;
        }
    }

    n++;

    /* the text behind the first word of the reply's line */

    rest.data = word[0].data + word[0].len + 1;
    rest.len = (n > 1) ? len - word[0].len - 1 : 0;

    if (slow_is(&word[0], "CLIENT_ERROR")) {

        if (slow_is(&rest, "cannot increment or decrement non-numeric value"))
        {
            reply->rc = NGX_MCDS_NOT_NUMERIC;
            reply->text = rest;
            reply->code = NGX_OK;
        }

        return;
    }

    if (slow_is(&word[0], "VERSION") || slow_is(&word[0], "SERVER_ERROR")) {

        if (rest.len == 0) {
            return;
        }

        for (i = 0; i < rest.len; i++) {
            if (rest.data[i] <= 0x1f || rest.data[i] == 0x7f) {
                return;
            }
        }

        if (slow_is(&word[0], "VERSION")) {
            reply->version = 1;

        } else {
            reply->rc = slow_is(&rest, "object too large for cache")
                            ? NGX_MCDS_TOO_LARGE : NGX_MCDS_SERVER_ERROR;
        }

        reply->text = rest;
        reply->code = NGX_OK;
        return;
    }

    if (slow_is(&word[0], "MN")) {

        if (n == 1) {
            reply->noop = 1;
            reply->code = NGX_OK;
        }

        return;
    }

    if (slow_is(&word[0], "VA")) {

        /* the length of the value fits a signed number of 64 bits */

        if (n < 2
            || !slow_decimal(&word[1], "9223372036854775807", &reply->len))
        {
            return;
        }

        reply->has = NGX_MCDS_VALUE;

        if (slow_flags(reply, word + 2, n - 2)) {
            reply->code = NGX_OK;
        }

        return;
    }

    for (code = 0; codes[code]; code++) {

        if (slow_is(&word[0], codes[code])) {
            reply->rc = rcs[code];

            if (slow_flags(reply, word + 1, n - 1)) {
                reply->code = NGX_OK;
            }

            return;
        }
    }
}


static int
slow_flags(slow_reply_t *reply, slow_text_t *word, size_t n)
{
    size_t       i, j;
    slow_text_t  arg;

    for (i = 0; i < n; i++) {

        if (word[i].len == 0) {
            return 0;
        }

        for (j = 0; j < i; j++) {
            if (word[j].data[0] == word[i].data[0]) {
                return 0;
            }
        }

        arg.data = word[i].data + 1;
        arg.len = word[i].len - 1;

        if (!slow_flag(reply, word[i].data[0], &arg)) {
            return 0;
        }
    }

    return 1;
}


static int
slow_flag(slow_reply_t *reply, u_char name, slow_text_t *arg)
{
    size_t       i;
    uint64_t     n;
    const char  *hex, *digit;

    switch (name) {

    case 'W':
    case 'X':
    case 'Z':
        return arg->len == 0;

    case 'k':
        for (i = 0; i < arg->len; i++) {
            if (arg->data[i] <= 0x20 || arg->data[i] >= 0x7f) {
                return 0;
            }
        }

        reply->key = *arg;
        reply->has |= NGX_MCDS_KEY;
        return arg->len >= 1 && arg->len <= 250;

    case 'O':
        hex = "0123456789abcdef";
        n = 0;

        for (i = 0; i < arg->len; i++) {
            digit = arg->data[i] ? strchr(hex, arg->data[i]) : NULL;

            if (digit == NULL) {
                return 0;
            }

            n = n * 16 + (digit - hex);
        }

        reply->opaque = n;
        reply->has |= NGX_MCDS_OPAQUE;

        return arg->len == 1
               || (arg->len > 1 && arg->len <= 8 && arg->data[0] != '0');

    case 'c':
        reply->has |= NGX_MCDS_CAS;
        return slow_decimal(arg, "18446744073709551615", &reply->cas);

    case 't':
        reply->has |= NGX_MCDS_TTL;

        if (slow_is(arg, "-1")) {
            reply->ttl = -1;
            return 1;
        }

        if (!slow_decimal(arg, "9223372036854775807", &n)) {
            return 0;
        }

        reply->ttl = (int64_t) n;
        return 1;

    case 'f':
        reply->has |= NGX_MCDS_FLAGS;
        return slow_decimal(arg, "4294967295", &reply->flags);

    default:
        return 0;
    }
}


static int
slow_is(slow_text_t *text, const char *s)
{
    return text->len == strlen(s) && memcmp(text->data, s, text->len) == 0;
}


/*
 * parses a decimal number without leading zeros, which is compared with the
 * maximum as text
 */

static int
slow_decimal(slow_text_t *text, const char *max, uint64_t *n)
{
    size_t  i;

    if (text->len == 0
        || (text->len > 1 && text->data[0] == '0')
        || text->len > strlen(max))
    {
        return 0;
    }

    *n = 0;

    for (i = 0; i < text->len; i++) {

        if (text->data[i] < '0' || text->data[i] > '9') {
            return 0;
        }

        *n = *n * 10 + (text->data[i] - '0');
    }

    return text->len < strlen(max) || memcmp(text->data, max, text->len) <= 0;
}


ngx_int_t
slow_number(const u_char *data, size_t len, uint64_t *number)
{
    size_t       zeros;
    slow_text_t  text;

    while (len && data[len - 1] == ' ') {
        len--;
    }

    if (len == 0 || len > 20) {
        return NGX_ERROR;
    }

    for (zeros = 0; zeros < len - 1 && data[zeros] == '0'; zeros++) {
        /* void */
    }

    text.data = data + zeros;
    text.len = len - zeros;

    return slow_decimal(&text, "18446744073709551615", number) ? NGX_OK
                                                               : NGX_ERROR;
}


ngx_int_t
slow_version(const u_char *data, size_t len, uint64_t major, uint64_t minor,
    uint64_t patch)
{
    size_t       i, part;
    uint64_t     n[3];
    slow_text_t  text;

    i = 0;

    for (part = 0; part < 3; part++) {

        if (part) {
            if (i == len || data[i] != '.') {
                return NGX_ERROR;
            }

            i++;
        }

        text.data = data + i;
        text.len = 0;

        while (i < len && data[i] >= '0' && data[i] <= '9') {
            i++;
            text.len++;
        }

        if (!slow_decimal(&text, "1000000", &n[part])) {
            return NGX_ERROR;
        }
    }

    if (n[0] != major) {
        return n[0] > major ? NGX_OK : NGX_DECLINED;
    }

    if (n[1] != minor) {
        return n[1] > minor ? NGX_OK : NGX_DECLINED;
    }

    return n[2] >= patch ? NGX_OK : NGX_DECLINED;
}


static int
slow_token(u_char ch)
{
    return ch && strchr("!#$%&'*+-.^_`|~0123456789"
                        "abcdefghijklmnopqrstuvwxyz"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ", ch) != NULL;
}


/*
 * parses a line of Cache-Control byte by byte, with one state for each place in
 * its grammar
 */

void
slow_cache_control(ngx_mcds_cache_control_t *cc, const u_char *data,
    size_t len)
{
    int          has_arg;
    u_char       ch;
    size_t       i;
    slow_text_t  name, arg;

    enum { OUTSIDE, NAME, EQUALS, ARG, QUOTED, ESCAPED, BEHIND } state;

    state = OUTSIDE;
    has_arg = 0;
    memset(&name, 0, sizeof(name));
    memset(&arg, 0, sizeof(arg));

    for (i = 0; i <= len; i++) {

        /* the end of the line counts as a comma, except inside of quotes */

        if (i == len && (state == QUOTED || state == ESCAPED)) {
            cc->malformed = 1;
            return;
        }

        ch = (i == len) ? ',' : data[i];

        switch (state) {

        case OUTSIDE:
            if (ch == ',' || ch == ' ' || ch == '\t') {
                continue;
            }

            if (!slow_token(ch)) {
                cc->malformed = 1;
                return;
            }

            name.data = data + i;
            name.len = 1;
            arg.data = NULL;
            arg.len = 0;
            has_arg = 0;
            state = NAME;
            continue;

        case NAME:
            if (slow_token(ch)) {
                name.len++;
                continue;
            }

            if (ch == '=') {
                has_arg = 1;
                state = EQUALS;
                continue;
            }

            break;

        case EQUALS:
            arg.data = data + i;

            if (ch == '"') {
                arg.data++;
                state = QUOTED;
                continue;
            }

            if (!slow_token(ch)) {
                cc->malformed = 1;
                return;
            }

            arg.len = 1;
            state = ARG;
            continue;

        case ARG:
            if (slow_token(ch)) {
                arg.len++;
                continue;
            }

            break;

        case QUOTED:
            if (ch == '"') {
                state = BEHIND;
                continue;
            }

            /* fall through */

        case ESCAPED:
            if ((ch < 0x20 && ch != '\t') || ch == 0x7f) {
                cc->malformed = 1;
                return;
            }

            arg.len++;
            state = (state == QUOTED && ch == '\\') ? ESCAPED : QUOTED;
            continue;

        case BEHIND:
            break;
        }

        /* a directive of Cache-Control has ended */

        if (ch == ' ' || ch == '\t') {
            state = BEHIND;
            continue;
        }

        if (ch != ',') {
            cc->malformed = 1;
            return;
        }

        slow_directive(cc, &name, has_arg, &arg);
        state = OUTSIDE;
    }
}


static void
slow_directive(ngx_mcds_cache_control_t *cc, slow_text_t *name, int has_arg,
    slow_text_t *arg)
{
    char    text[32];
    size_t  i;

    if (name->len >= sizeof(text)) {
        return;
    }

    for (i = 0; i < name->len; i++) {
        text[i] = (char) tolower(name->data[i]);
    }

    text[i] = '\0';

    if (strcmp(text, "max-age") == 0) {
        slow_delta(arg, cc->has_max_age, &cc->max_age);
        cc->has_max_age = 1;

    } else if (strcmp(text, "s-maxage") == 0) {
        slow_delta(arg, cc->has_s_maxage, &cc->s_maxage);
        cc->has_s_maxage = 1;

    } else if (strcmp(text, "stale-while-revalidate") == 0) {
        slow_delta(arg, cc->has_swr, &cc->swr);
        cc->has_swr = 1;

    } else if (strcmp(text, "stale-if-error") == 0) {
        slow_delta(arg, cc->has_sie, &cc->sie);
        cc->has_sie = 1;
    }

    cc->no_store |= (strcmp(text, "no-store") == 0);
    cc->no_cache |= (strcmp(text, "no-cache") == 0);
    cc->private |= (strcmp(text, "private") == 0);
    cc->public |= (strcmp(text, "public") == 0 && !has_arg);
    cc->must_revalidate |= (strcmp(text, "must-revalidate") == 0);
    cc->proxy_revalidate |= (strcmp(text, "proxy-revalidate") == 0);
}


static void
slow_delta(slow_text_t *arg, unsigned has, uint32_t *n)
{
    size_t    i;
    uint64_t  value;

    value = 0;

    for (i = 0; i < arg->len; i++) {

        if (arg->data[i] < '0' || arg->data[i] > '9') {
            value = 0;
            break;
        }

        value = value * 10 + (arg->data[i] - '0');

        if (value > 2147483648U) {
            value = 2147483648U;
        }
    }

    if (!has || value < *n) {
        *n = (uint32_t) value;
    }
}
