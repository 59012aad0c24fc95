
/*
 * Copyright (C) mcds authors
 *
 * The reply parser: a stream of replies in random pieces, compared with the
 * slow parser at each of them.
 */


#include "slow.h"


static ngx_int_t compare(const u_char *data, size_t len, slow_reply_t *slow);
static void compare_reply(ngx_mcds_reply_t *reply, slow_reply_t *slow,
    u_char *copy, const u_char *data);
static void compare_text(ngx_str_t *text, slow_text_t *slow, u_char *copy,
    const u_char *data);
static void compare_number(const u_char *data, size_t len);
static void compare_version(const u_char *data, size_t len);


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    size_t        pos, len;
    uint32_t      random;
    slow_reply_t  slow;

    if (size == 0) {
        return 0;
    }

    random = data[0] * 2654435761U + 1;
    data++;
    size--;

    pos = 0;
    len = 0;

    while (pos < size) {

        /* some more bytes of the stream of replies have arrived */

        random = random * 1103515245 + 12345;
        len += 1 + (random >> 16) % ((random >> 8) % 2 ? 24 : 4000);
        len = ngx_min(len, size - pos);

        for ( ;; ) {

            if (compare(data + pos, len, &slow) == NGX_ERROR) {
                return 0;
            }

            if (slow.code == NGX_AGAIN) {
                break;
            }

            pos += slow.taken;
            len -= slow.taken;

            if (slow.has & NGX_MCDS_VALUE) {

                if (slow.len > size - pos || size - pos - slow.len < 2) {
                    return 0;
                }

                compare_number(data + pos, slow.len);

                pos += slow.len + 2;
                len -= ngx_min(len, slow.len + 2);
            }

            if (len == 0) {
                break;
            }
        }

        if (pos + len == size) {
            break;
        }
    }

    return 0;
}


static ngx_int_t
compare(const u_char *data, size_t len, slow_reply_t *slow)
{
    u_char            *copy;
    ngx_int_t          rc;
    ngx_buf_t          b;
    ngx_mcds_reply_t   reply;

    slow_parse(slow, data, len);

    /* an exact copy of the data, so that a read beyond the end is noticed */

    copy = malloc(len ? len : 1);
    must(copy != NULL);
    memcpy(copy, data, len);

    memset(&b, 0, sizeof(b));
    b.start = copy;
    b.pos = copy;
    b.last = copy + len;
    b.end = b.last;

    rc = ngx_mcds_parse(&reply, &b);

    must(rc == slow->code);
    must(memcmp(copy, data, len) == 0);

    if (rc == NGX_OK) {
        must(b.pos == copy + slow->taken);
        compare_reply(&reply, slow, copy, data);

    } else {
        must(b.pos == copy);
        must(reply.has == 0);
    }

    if (rc == NGX_ERROR) {
        must(reply.text.len <= 128);
        must(reply.text.data == copy && reply.text.len <= len);
    }

    must(b.last == copy + len);

    free(copy);

    return rc;
}


static void
compare_reply(ngx_mcds_reply_t *reply, slow_reply_t *slow, u_char *copy,
    const u_char *data)
{
    must(reply->rc == slow->rc);
    must(reply->has == slow->has);
    must(reply->len == slow->len);
    must(reply->cas == slow->cas);
    must(reply->ttl == slow->ttl);
    must(reply->flags == slow->flags);
    must(reply->opaque == slow->opaque);
    must(reply->noop == (unsigned) slow->noop);
    must(reply->version == (unsigned) slow->version);

    compare_text(&reply->key, &slow->key, copy, data);
    compare_text(&reply->text, &slow->text, copy, data);

    if (slow->version) {
        compare_version(slow->text.data, slow->text.len);
    }
}


static void
compare_text(ngx_str_t *text, slow_text_t *slow, u_char *copy,
    const u_char *data)
{
    must(text->len == slow->len);

    if (slow->len) {
        must(text->data - copy == slow->data - data);
    }
}


static void
compare_number(const u_char *data, size_t len)
{
    u_char    *copy;
    uint64_t   n, m;
    ngx_int_t  rc;

    copy = malloc(len ? len : 1);
    must(copy != NULL);
    memcpy(copy, data, len);

    rc = ngx_mcds_parse_number(copy, len, &n);
    must(rc == slow_number(data, len, &m));

    if (rc == NGX_OK) {
        must(n == m);
    }

    free(copy);
}


static void
compare_version(const u_char *data, size_t len)
{
    ngx_str_t  text;

    text.len = len;
    text.data = malloc(len ? len : 1);
    must(text.data != NULL);
    memcpy(text.data, data, len);

    must(ngx_mcds_version_at_least(&text, 1, 6, 18)
         == slow_version(data, len, 1, 6, 18));

    free(text.data);
}
