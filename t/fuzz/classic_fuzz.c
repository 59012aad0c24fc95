
/*
 * Copyright (C) mcds authors
 *
 * The parser of classic replies: a stream of them in random pieces, each the
 * reply to a command that the input names, compared with a slow parser that is
 * written from the header alone.
 */


#include "slow.h"


#define WORDS     6


typedef struct {
    const char         *name;
    ngx_uint_t          word;
    ngx_uint_t          rc;
} line_t;


static ngx_int_t compare(const u_char *data, size_t len, ngx_uint_t words,
    slow_reply_t *slow);
static void classic(slow_reply_t *reply, const u_char *data, size_t len,
    ngx_uint_t words);
static void classic_line(slow_reply_t *reply, const u_char *data, size_t len,
    ngx_uint_t words);
static void classic_value(slow_reply_t *reply, slow_text_t *word, int n,
    ngx_uint_t cas);
static int key(slow_text_t *word);
static int classic_text(slow_reply_t *reply, const u_char *data, size_t len,
    const char *word);
static int decimal(slow_text_t *text, const char *max, uint64_t *n);
static int is(const u_char *data, size_t len, const char *text);


static line_t  lines[] = {
    { "END", NGX_MCDS_WORD_END, NGX_MCDS_NOT_FOUND },
    { "STORED", NGX_MCDS_WORD_STORED, NGX_MCDS_OK },
    { "NOT_STORED", NGX_MCDS_WORD_NOT_STORED, NGX_MCDS_NOT_STORED },
    { "EXISTS", NGX_MCDS_WORD_EXISTS, NGX_MCDS_EXISTS },
    { "NOT_FOUND", NGX_MCDS_WORD_NOT_FOUND, NGX_MCDS_NOT_FOUND },
    { "DELETED", NGX_MCDS_WORD_DELETED, NGX_MCDS_OK },
    { "TOUCHED", NGX_MCDS_WORD_TOUCHED, NGX_MCDS_OK },
    { "ERROR", NGX_MCDS_WORD_ERROR, NGX_MCDS_SERVER_ERROR },
    { NULL, 0, 0 }
};


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    size_t           pos, len;
    uint32_t         random;
    ngx_uint_t       words;
    slow_reply_t     slow;
    ngx_mcds_cmd_t   cmd;

    if (size < 2) {
        return 0;
    }

    memset(&cmd, 0, sizeof(cmd));

    cmd.verb = (data[0] & 0x3f) == 0x3f ? NGX_MCDS_STATS : data[0] % 10;
    cmd.want = (data[0] & 0x40) ? NGX_MCDS_CAS : 0;
    cmd.cas = (data[0] & 0x80) ? 7 : 0;

    /* the classic protocol has no command for NGX_MCDS_NOOP */

    if (cmd.verb == NGX_MCDS_NOOP) {
        return 0;
    }

    words = ngx_mcds_classic_words(&cmd);
    random = data[1] * 2654435761U + 1;

    data += 2;
    size -= 2;

    pos = 0;
    len = 0;

    while (pos < size) {

        random = random * 1103515245 + 12345;
        len += 1 + (random >> 16) % ((random >> 8) % 2 ? 24 : 4000);
        len = ngx_min(len, size - pos);

        while (len) {

            if (compare(data + pos, len, words, &slow) == NGX_ERROR) {
                return 0;
            }

            if (slow.code == NGX_AGAIN) {
                break;
            }

            pos += slow.taken;
            len -= slow.taken;

            if (slow.has & NGX_MCDS_VALUE) {

                if (slow.len > size - pos || size - pos - slow.len < 7) {
                    return 0;
                }

                pos += slow.len + 7;
                len -= ngx_min(len, slow.len + 7);
            }
        }

        if (pos + len == size) {
            break;
        }
    }

    return 0;
}


static ngx_int_t
compare(const u_char *data, size_t len, ngx_uint_t words, slow_reply_t *slow)
{
    u_char            *copy;
    ngx_int_t          rc;
    ngx_buf_t          b;
    ngx_mcds_reply_t   reply;

    classic(slow, data, len, words);

    /* an exact copy of the data, so that a read beyond the end is noticed */

    copy = malloc(len);
    must(copy != NULL);
    memcpy(copy, data, len);

    memset(&b, 0, sizeof(b));
    b.start = copy;
    b.pos = copy;
    b.last = copy + len;
    b.end = b.last;

    rc = ngx_mcds_classic_parse(&reply, &b, words);

    must(rc == slow->code);
    must(memcmp(copy, data, len) == 0);
    must(b.last == copy + len);
    must(b.pos == copy + (rc == NGX_OK ? slow->taken : 0));

    if (rc == NGX_OK) {
        must(reply.rc == slow->rc);
        must(reply.has == slow->has);
        must(reply.len == slow->len);
        must(reply.cas == slow->cas);
        must(reply.flags == slow->flags);
        must(reply.version == (unsigned) slow->version);
        must(reply.number == ((words & NGX_MCDS_WORD_NUMBER)
                              && data[0] >= '0' && data[0] <= '9'));
        must(reply.stat == (data[0] == 'S' && data[1] == 'T'
                            && data[2] == 'A'));
        must(!reply.noop && reply.ttl == 0 && reply.opaque == 0);
        must(reply.key.len == slow->key.len);
        must(reply.text.len == slow->text.len);

        if (reply.key.len) {
            must(reply.key.data - copy == slow->key.data - data);
        }

        if (reply.text.len) {
            must(reply.text.data - copy == slow->text.data - data);
        }

    } else {
        must(reply.has == 0);
    }

    if (rc == NGX_ERROR) {
        must(reply.text.len <= 128);
        must(reply.text.data == copy && reply.text.len <= len);
    }

    free(copy);

    return rc;
}


static void
classic(slow_reply_t *reply, const u_char *data, size_t len, ngx_uint_t words)
{
    size_t  i;

    memset(reply, 0, sizeof(slow_reply_t));

    for (i = 0; i < len && i <= NGX_MCDS_MAX_LINE; i++) {

        if (data[i] == '\n') {
            reply->code = NGX_ERROR;

            if (i > 0 && data[i - 1] == '\r') {
                classic_line(reply, data, i - 1, words);
            }

            reply->taken = i + 1;
            return;
        }
    }

    reply->code = (len > NGX_MCDS_MAX_LINE) ? NGX_ERROR : NGX_AGAIN;
}


static void
classic_line(slow_reply_t *reply, const u_char *data, size_t len,
    ngx_uint_t words)
{
    int          n;
    size_t       i;
    line_t      *line;
    uint64_t     number;
    slow_text_t  word[WORDS];

    for (line = lines; line->name; line++) {
        if (is(data, len, line->name)) {
            reply->rc = line->rc;
            reply->code = (words & line->word) ? NGX_OK : NGX_ERROR;
            return;
        }
    }

    word[0].data = data;
    word[0].len = len;

    if ((words & NGX_MCDS_WORD_NUMBER)
        && decimal(&word[0], "18446744073709551615", &number))
    {
        reply->text = word[0];
        reply->code = NGX_OK;
        return;
    }

    if (classic_text(reply, data, len, "VERSION ")) {
        reply->version = 1;
        reply->code = (words & NGX_MCDS_WORD_VERSION) ? NGX_OK : NGX_ERROR;
        return;
    }

    if (classic_text(reply, data, len, "SERVER_ERROR ")) {
        reply->rc = is(reply->text.data, reply->text.len,
                       "object too large for cache")
                        ? NGX_MCDS_TOO_LARGE : NGX_MCDS_SERVER_ERROR;
        reply->code = NGX_OK;
        return;
    }

    if (is(data, len, "CLIENT_ERROR cannot increment or decrement "
                      "non-numeric value"))
    {
        (void) classic_text(reply, data, len, "CLIENT_ERROR ");
        reply->rc = NGX_MCDS_NOT_NUMERIC;
        reply->code = (words & NGX_MCDS_WORD_NUMBER) ? NGX_OK : NGX_ERROR;
        return;
    }

    /* splits the reply's line at each space into words */

    for (n = 0, i = 0; n < WORDS; n++) {

        word[n].data = data + i;
        word[n].len = 0;

        while (i < len && data[i] != ' ') {
            word[n].len++;
            i++;
        }

        if (i == len) {
            break;
        }

        i++;
    }

    if ((words & NGX_MCDS_WORD_STAT)
        && is(word[0].data, word[0].len, "STAT") && n > 0
        && key(&word[1]))
    {
        reply->key = word[1];
        reply->text.data = word[1].data + word[1].len + (n > 1);
        reply->text.len = data + len - reply->text.data;
        reply->code = NGX_OK;
        return;
    }

    if (is(word[0].data, word[0].len, "VALUE")) {

        if (words & NGX_MCDS_WORD_VALUE) {
            classic_value(reply, word, n + 1, 0);
        }

        if (words & NGX_MCDS_WORD_VALUE_CAS) {
            classic_value(reply, word, n + 1, 1);
        }
    }
}


static void
classic_value(slow_reply_t *reply, slow_text_t *word, int n, ngx_uint_t cas)
{
    uint64_t  flags, len, number;

    if (n != (cas ? 5 : 4) || !key(&word[1])) {
        return;
    }

    number = 0;

    if (!decimal(&word[2], "4294967295", &flags)
        || !decimal(&word[3], "9223372036854775807", &len)
        || (cas && !decimal(&word[4], "18446744073709551615", &number)))
    {
        return;
    }

    reply->code = NGX_OK;
    reply->has = NGX_MCDS_VALUE|NGX_MCDS_FLAGS|NGX_MCDS_KEY
                 |(cas ? NGX_MCDS_CAS : 0);
    reply->key = word[1];
    reply->flags = flags;
    reply->len = len;
    reply->cas = number;
}


static int
key(slow_text_t *word)
{
    size_t  i;

    for (i = 0; i < word->len; i++) {
        if (word->data[i] < 0x21 || word->data[i] > 0x7e) {
            return 0;
        }
    }

    return word->len > 0 && word->len <= 250;
}


/*
 * sets reply->text to the text behind the first word of a reply's line; returns
 * 0 if the line has another first word, or the text a control character
 */

static int
classic_text(slow_reply_t *reply, const u_char *data, size_t len,
    const char *word)
{
    size_t  i;

    if (len <= strlen(word) || memcmp(data, word, strlen(word)) != 0) {
        return 0;
    }

    for (i = strlen(word); i < len; i++) {
        if (data[i] < 0x20 || data[i] == 0x7f) {
            return 0;
        }
    }

    reply->text.data = data + strlen(word);
    reply->text.len = len - strlen(word);

    return 1;
}


/*
 * parses a decimal number, which is compared with the maximum as text: the
 * longer text is the larger number
 */

static int
decimal(slow_text_t *text, const char *max, uint64_t *n)
{
    char    digits[32];
    size_t  i;

    if (text->len == 0 || text->len > strlen(max)
        || (text->len > 1 && text->data[0] == '0'))
    {
        return 0;
    }

    for (i = 0; i < text->len; i++) {
        if (text->data[i] < '0' || text->data[i] > '9') {
            return 0;
        }
    }

    memcpy(digits, text->data, text->len);
    digits[text->len] = '\0';

    if (text->len == strlen(max) && strcmp(digits, max) > 0) {
        return 0;
    }

    *n = strtoull(digits, NULL, 10);

    return 1;
}


static int
is(const u_char *data, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(data, text, len) == 0;
}
