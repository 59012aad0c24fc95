
/*
 * Copyright (C) mcds authors
 *
 * The key builder: what leaves is printable and short, as documented, and no
 * two texts that were ever tried have the same key.
 */


#include <ngx_sha1.h>
#include "slow.h"
#include "ngx_mcds_key.h"


#define SEEN  (1 << 20)


typedef struct {
    uint64_t    key[2];
    uint64_t    text[2];
} seen_t;


static void build(ngx_str_t *prefix, u_char *text, size_t len, size_t cut);
static void check(ngx_mcds_key_t *key, ngx_str_t *prefix, u_char *text,
    size_t len);
static void remember(u_char *key, size_t klen, u_char *text, size_t len);
static void digest(uint64_t *hash, u_char *data, size_t len);


static seen_t  seen[SEEN];


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    u_char      pad[NGX_MCDS_MAX_PREFIX + 1], *text;
    size_t      len, cut, i;
    ngx_int_t   rc;
    ngx_str_t   prefix;
    ngx_uint_t  plain;

    if (size < 4) {
        return 0;
    }

    prefix.data = pad;
    prefix.len = data[0] % 4 ? 0 : data[1] % (NGX_MCDS_MAX_PREFIX + 2);
    cut = data[2] | data[3] << 8;

    data += 4;
    size -= 4;

    if (size < prefix.len) {
        return 0;
    }

    memcpy(pad, data, prefix.len);
    data += prefix.len;
    len = size - prefix.len;

    plain = 1;

    for (i = 0; i < prefix.len; i++) {
        if (pad[i] <= ' ' || pad[i] > '~' || pad[i] == '<') {
            plain = 0;
        }
    }

    rc = ngx_mcds_key_check_prefix(&prefix);
    must(rc == (plain && prefix.len <= NGX_MCDS_MAX_PREFIX ? NGX_OK
                                                           : NGX_ERROR));

    for (i = 0; i < prefix.len; i++) {
        pad[i] = '!' + pad[i] % ('~' - '!' + 1);
        pad[i] += (pad[i] == '<');
    }

    prefix.len = ngx_min(prefix.len, NGX_MCDS_MAX_PREFIX);

    /* builds the keys of the text, and of some texts that differ a little */

    text = malloc(len + 1);
    must(text != NULL);
    memcpy(text, data, len);
    text[len] = 'x';

    build(&prefix, text, len, cut);
    build(&prefix, text, len, 0);
    build(&prefix, text, len + 1, cut);

    if (len) {
        build(&prefix, text, len - 1, cut);
        build(&prefix, text + 1, len - 1, cut);

        i = cut % len;
        text[i] ^= 1 << cut % 8;
        build(&prefix, text, len, cut);
    }

    free(text);

    return 0;
}


static void
build(ngx_str_t *prefix, u_char *text, size_t len, size_t cut)
{
    ngx_str_t       base, suffix;
    ngx_mcds_key_t  key, page;

    base.len = cut % (len + 1);
    suffix.len = len - base.len;

    /* exact copies of both strings, so that a read beyond the end is noticed */

    base.data = base.len ? malloc(base.len) : NULL;
    suffix.data = suffix.len ? malloc(suffix.len) : NULL;

    if (base.len) {
        memcpy(base.data, text, base.len);
    }

    if (suffix.len) {
        memcpy(suffix.data, text + base.len, suffix.len);
    }

    memset(&key, 0xff, sizeof(key));
    ngx_mcds_key_build(&key, prefix, &base, &suffix);
    must(memchr(key.data, '<', key.len) == NULL);

    memset(&page, 0xff, sizeof(page));
    ngx_mcds_key_build_page(&page, prefix, &base, &suffix);
    must(page.len >= 1 && page.len <= 250);
    must(memchr(page.data, '<', page.len) != NULL);

    free(base.data);
    free(suffix.data);

    check(&key, prefix, text, len);

    /* pools with different prefixes may have equal keys for different texts */

    if (prefix->len == 0) {
        remember(key.data, key.len, text, len);
    }
}


static void
check(ngx_mcds_key_t *key, ngx_str_t *prefix, u_char *text, size_t len)
{
    char        hex[NGX_MCDS_KEY_HASHED + 1];
    u_char      hash[20];
    size_t      i, left;
    ngx_sha1_t  sha1;
    ngx_uint_t  plain;

    must(key->len >= 1 && key->len <= 250);
    must(key->prefix == prefix->len);
    must(memcmp(key->data, prefix->data, prefix->len) == 0);

    for (i = 0; i < key->len; i++) {
        must(key->data[i] > ' ' && key->data[i] <= '~');
    }

    left = key->len - prefix->len;
    plain = len > 0 && prefix->len + len <= 250
            && (len < 5 || memcmp(text, "sha1:", 5) != 0);

    for (i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '<') {
            plain = 0;
        }
    }

    if (plain) {
        must(left == len && memcmp(key->data + prefix->len, text, len) == 0);
        return;
    }

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, text, len);
    ngx_sha1_final(hash, &sha1);

    memcpy(hex, "sha1:", 5);

    for (i = 0; i < 20; i++) {
        sprintf(hex + 5 + i * 2, "%02x", hash[i]);
    }

    must(left == NGX_MCDS_KEY_HASHED);
    must(memcmp(key->data + prefix->len, hex, left) == 0);
}


/*
 * checks that no other text has had this key; keys are remembered in a table,
 * in which a new key may replace an older one
 */

static void
remember(u_char *key, size_t klen, u_char *text, size_t len)
{
    seen_t     *s;
    uint64_t    k[2], t[2];

    digest(k, key, klen);
    digest(t, text, len);

    s = &seen[k[0] % SEEN];

    if (s->key[0] == k[0] && s->key[1] == k[1]) {
        must(s->text[0] == t[0] && s->text[1] == t[1]);
    }

    memcpy(s->key, k, sizeof(k));
    memcpy(s->text, t, sizeof(t));
}


/* the FNV-1a hashes of the data, read forwards and backwards */

static void
digest(uint64_t *hash, u_char *data, size_t len)
{
    size_t  i;

    hash[0] = 14695981039346656037ULL;
    hash[1] = 14695981039346656037ULL ^ len;

    for (i = 0; i < len; i++) {
        hash[0] = (hash[0] ^ data[i]) * 1099511628211ULL;
        hash[1] = (hash[1] ^ data[len - 1 - i]) * 1099511628211ULL;
    }
}
