
/*
 * Copyright (C) mcds authors
 *
 * Stored entries: whatever is accepted is, written again, the same bytes.
 */


#include "slow.h"
#include "ngx_mcds_entry.h"


/* fields of the stored entry that are made right, so that it is accepted */

#define FIX_MAGIC  0x01
#define FIX_SIZES  0x02
#define FIX_CRC    0x04
#define FIX_KEY    0x08           /* read the entry by its own key */
#define FIX_TOTAL  0x10


static void mend(u_char *data, size_t len, ngx_uint_t how);
static void check(ngx_mcds_entry_t *entry, u_char *data, size_t len);
static void check_headers(ngx_mcds_entry_t *entry);
static ngx_int_t same(ngx_mcds_entry_t *a, ngx_mcds_entry_t *b);
static ngx_int_t same_text(ngx_str_t *a, ngx_str_t *b);
static uint64_t get(u_char *p, size_t n);
static void put(u_char *p, size_t n, uint64_t value);


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    char              *why;
    u_char            *copy;
    size_t             at;
    uint64_t           len;
    ngx_str_t          key;
    ngx_uint_t         how;
    ngx_mcds_entry_t   entry;

    if (size == 0) {
        return 0;
    }

    how = data[0];
    data++;
    size--;

    copy = malloc(size ? size : 1);
    must(copy != NULL);
    memcpy(copy, data, size);

    mend(copy, size, how);

    ngx_str_set(&key, "key");

    if ((how & FIX_KEY) && size >= 112) {
        at = get(copy + 6, 2);
        len = get(copy + 64, 4);

        if (at <= size && len <= size - at) {
            key.data = copy + at;
            key.len = len;
        }
    }

    memset(&entry, 0xff, sizeof(entry));
    why = NULL;

    if (ngx_mcds_entry_read(&entry, copy, size, &key, &why) == NGX_OK) {
        check(&entry, copy, size);

    } else {
        must(why != NULL && *why);
    }

    free(copy);

    return 0;
}


static void
mend(u_char *data, size_t len, ngx_uint_t how)
{
    uint64_t  sum;

    if (len < 112) {
        return;
    }

    if (how & FIX_MAGIC) {
        memcpy(data, "MCDS", 4);
        data[4] = (data[4] == 2) ? 2 : 1;
        put(data + 6, 2, 112);
    }

    if (how & FIX_SIZES) {

        /* short key, extensions and headers; the rest is the body */

        put(data + 64, 4, get(data + 64, 4) % 16);
        put(data + 68, 4, get(data + 68, 4) % 32);
        put(data + 72, 4, get(data + 72, 4) % 128);

        sum = get(data + 6, 2) + get(data + 64, 4) + get(data + 68, 4)
              + get(data + 72, 4);

        if (sum <= len) {
            put(data + 76, 4, len - sum);
        }
    }

    if (how & FIX_TOTAL) {
        put(data + 40, 8, get(data + 76, 4));
        put(data + 80, 4, 0);
    }

    if (how & FIX_CRC) {
        put(data + 12, 4, ngx_mcds_crc32c(ngx_mcds_crc32c(0, data, 12),
                                          data + 16, len - 16));
    }
}


static void
check(ngx_mcds_entry_t *entry, u_char *data, size_t len)
{
    char              *why;
    size_t             i;
    ngx_uint_t         plain;
    ngx_mcds_entry_t   again;
    ngx_mcds_value_t  *value;

    must(memcmp(data, "MCDS", 4) == 0);
    must(entry->coding ? data[4] == 2 : data[4] == 1 || data[4] == 3);
    must(((entry->flags & NGX_MCDS_ENTRY_VALIDATE) != 0) == (data[4] == 3));
    must(entry->coding ? entry->coding <= 2 && entry->length
                       : entry->length == entry->total);
    must(entry->body.data + entry->body.len == data + len);
    must(entry->kind <= NGX_MCDS_ENTRY_PURGED);
    must(entry->kind == NGX_MCDS_ENTRY_PAGE
         ? entry->status >= 200 && entry->status <= 599 : entry->status == 0);
    must(entry->parts ? entry->total > entry->body.len
                      : entry->total == entry->body.len);
    must(entry->parts == 0
         || (entry->part != 0
             && ngx_mcds_entry_part(entry, entry->parts - 1) > 0
             && ngx_mcds_entry_part(entry, entry->parts - 1) <= entry->part));

    check_headers(entry);

    value = ngx_mcds_entry_begin(entry, entry->body.len, ngx_cycle->log);
    must(value != NULL);

    if (entry->body.len) {
        memcpy(value->data + value->len, entry->body.data, entry->body.len);
    }

    value->len += entry->body.len;

    ngx_mcds_entry_finish(value, entry);

    /* an entry that is written again loses only fields unknown to the code */

    plain = (get(data + 6, 2) == 112);

    /* version 3 is for pages that are validated for each request */

    if (((get(data + 8, 4) & NGX_MCDS_ENTRY_VALIDATE) != 0) != (data[4] == 3)) {
        plain = 0;
    }

    for (i = entry->coding ? 88 : 86; i < 108; i++) {
        plain = plain
                && (data[i] == 0 || (entry->coding && i >= 92 && i < 100));
    }

    if (plain) {
        must(value->len == len);
        must(memcmp(value->data, data, len) == 0);
    }

    must(ngx_mcds_entry_read(&again, value->data, value->len, &entry->key,
                             &why)
         == NGX_OK);
    must(same(entry, &again));

    ngx_mcds_value_unref(value);
}


static void
check_headers(ngx_mcds_entry_t *entry)
{
    size_t      i;
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   left, name, value;

    left = entry->headers;
    p = left.data;

    for ( ;; ) {
        rc = ngx_mcds_entry_header(&left, &name, &value);

        if (rc == NGX_DONE) {
            break;
        }

        must(rc == NGX_OK);
        must(name.data == p && name.len > 0);
        must(value.data == p + name.len + 2);
        must(ngx_mcds_entry_header_check(&name, &value) == NGX_OK);

        for (i = 0; i < name.len; i++) {
            must(name.data[i] > ' ' && name.data[i] < 0x7f
                 && strchr("()<>@,;:\\\"/[]?={}", name.data[i]) == NULL);
        }

        for (i = 0; i < value.len; i++) {
            must(value.data[i] == '\t'
                 || (value.data[i] >= ' ' && value.data[i] != 0x7f));
        }

        p = value.data + value.len;
        must(p[0] == CR && p[1] == LF);
        p += 2;
        must(left.data == p);
    }

    must(p == entry->headers.data + entry->headers.len);
}


static ngx_int_t
same(ngx_mcds_entry_t *a, ngx_mcds_entry_t *b)
{
    return a->kind == b->kind && a->flags == b->flags
           && a->expire == b->expire && a->created == b->created
           && a->generation == b->generation && a->total == b->total
           && a->age == b->age && a->swr == b->swr && a->sie == b->sie
           && a->took == b->took && a->parts == b->parts
           && (a->parts == 0 || a->part == b->part)
           && a->status == b->status
           && a->coding == b->coding && a->length == b->length
           && a->purges == b->purges
           && same_text(&a->key, &b->key) && same_text(&a->ext, &b->ext)
           && same_text(&a->headers, &b->headers)
           && same_text(&a->body, &b->body);
}


static ngx_int_t
same_text(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}


static uint64_t
get(u_char *p, size_t n)
{
    uint64_t  value;

    for (value = 0; n; n--) {
        value = value << 8 | p[n - 1];
    }

    return value;
}


static void
put(u_char *p, size_t n, uint64_t value)
{
    for ( /* void */ ; n; n--) {
        *p++ = (u_char) value;
        value >>= 8;
    }
}
