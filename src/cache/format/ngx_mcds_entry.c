
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_coding.h"
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"


#define NGX_MCDS_ENTRY_PLAIN   1
#define NGX_MCDS_ENTRY_CODED   2
#define NGX_MCDS_ENTRY_ASKED   3

/*
 * the maximum of each length that an entry (the value of a page's item) has,
 * so that sums of lengths do not overflow
 */
#define NGX_MCDS_ENTRY_MAX     0x7fffffff

#define NGX_MCDS_ENTRY_ONES    0x0101010101010101ULL
#define NGX_MCDS_ENTRY_HIGH    0x8080808080808080ULL


static size_t ngx_mcds_entry_size(ngx_mcds_entry_t *entry);
static u_char *ngx_mcds_entry_copy(u_char *p, ngx_str_t *src);
static uint32_t ngx_mcds_entry_crc(u_char *data, size_t len);
static char *ngx_mcds_entry_check(ngx_mcds_entry_t *entry);
static ngx_int_t ngx_mcds_entry_check_parts(ngx_mcds_entry_t *entry);
static ngx_int_t ngx_mcds_entry_check_ext(ngx_str_t *ext);
static ngx_int_t ngx_mcds_entry_check_headers(ngx_mcds_entry_t *entry);
static u_char *ngx_mcds_entry_name_end(u_char *p, u_char *last);
static u_char *ngx_mcds_entry_value_end(u_char *p, u_char *last);


static u_char  ngx_mcds_entry_magic[] = { 'M', 'C', 'D', 'S' };


/*
 * the characters that the name of a header may have: tchar of RFC 9110, 5.6.2
 */

static u_char  ngx_mcds_entry_token[256] =
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0!\0#$%&'\0\0*+\0-.\0" "0123456789\0\0\0\0\0\0"
    "\0ABCDEFGHIJKLMNOPQRSTUVWXYZ\0\0\0^_"
    "`abcdefghijklmnopqrstuvwxyz\0|\0~";


ngx_int_t
ngx_mcds_entry_fits(ngx_mcds_entry_t *entry)
{
    u_char      *p, *last;
    ngx_uint_t   n;

    if ((uint64_t) entry->key.len + entry->ext.len + entry->headers.len
        > NGX_MCDS_ENTRY_HEAD)
    {
        return NGX_DECLINED;
    }

    p = entry->headers.data;
    last = p + entry->headers.len;

    for (n = 0; p < last; n++) {

        p = memchr(p, LF, last - p);

        if (p++ == NULL) {
            return NGX_DECLINED;
        }
    }

    return (n <= NGX_MCDS_ENTRY_LINES) ? NGX_OK : NGX_DECLINED;
}


ngx_mcds_value_t *
ngx_mcds_entry_begin(ngx_mcds_entry_t *entry, size_t room, ngx_log_t *log)
{
    size_t             size;
    u_char            *p;
    ngx_mcds_value_t  *value;

    size = ngx_mcds_entry_size(entry);

    if (size == 0 || room > NGX_MCDS_ENTRY_MAX - size) {
        ngx_log_error(NGX_LOG_ALERT, log, 0, "mcds entry is too long");
        return NULL;
    }

    value = ngx_mcds_value_create(size + room, log);
    if (value == NULL) {
        return NULL;
    }

    p = value->data + NGX_MCDS_ENTRY_HEADER;

    p = ngx_mcds_entry_copy(p, &entry->key);
    p = ngx_mcds_entry_copy(p, &entry->ext);
    p = ngx_mcds_entry_copy(p, &entry->headers);

    value->len = p - value->data;

    return value;
}


void
ngx_mcds_entry_finish(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry)
{
    u_char    *p, *crc;
    size_t     body;
    uint64_t   total;

    body = value->len - ngx_mcds_entry_size(entry);
    total = entry->parts ? entry->total : body;

    p = ngx_cpymem(value->data, ngx_mcds_entry_magic, 4);

    *p++ = (u_char) ((entry->flags & NGX_MCDS_ENTRY_VALIDATE)
                     ? NGX_MCDS_ENTRY_ASKED
                     : entry->coding ? NGX_MCDS_ENTRY_CODED
                                     : NGX_MCDS_ENTRY_PLAIN);
    *p++ = (u_char) entry->kind;
    p = ngx_mcds_put(p, NGX_MCDS_ENTRY_HEADER, 2);
    p = ngx_mcds_put(p, entry->flags, 4);

    crc = p;
    p += 4;

    p = ngx_mcds_put(p, entry->expire, 8);
    p = ngx_mcds_put(p, entry->created, 8);
    p = ngx_mcds_put(p, entry->generation, 8);
    p = ngx_mcds_put(p, total, 8);
    p = ngx_mcds_put(p, entry->age, 4);
    p = ngx_mcds_put(p, entry->swr, 4);
    p = ngx_mcds_put(p, entry->sie, 4);
    p = ngx_mcds_put(p, entry->took, 4);
    p = ngx_mcds_put(p, entry->key.len, 4);
    p = ngx_mcds_put(p, entry->ext.len, 4);
    p = ngx_mcds_put(p, entry->headers.len, 4);
    p = ngx_mcds_put(p, body, 4);
    p = ngx_mcds_put(p, entry->parts, 4);
    p = ngx_mcds_put(p, entry->status, 2);
    p = ngx_mcds_put(p, entry->coding, 2);
    p = ngx_mcds_put(p, entry->parts ? entry->part : 0, 4);
    p = ngx_mcds_put(p, entry->coding ? entry->length : 0, 8);
    p = ngx_mcds_put(p, entry->build, 8);
    (void) ngx_mcds_put(p, entry->purges, 4);

    ngx_mcds_put(crc, ngx_mcds_entry_crc(value->data, value->len), 4);
}


uint32_t
ngx_mcds_entry_client_flags(ngx_mcds_value_t *value)
{
    return (uint32_t) ngx_mcds_take(value->data + 12, 4) & 0xffff0000;
}


void
ngx_mcds_entry_mark(ngx_mcds_value_t *value, uint32_t flags, uint64_t expire)
{
    u_char  *p;

    p = value->data;

    ngx_mcds_put(p + 8, ngx_mcds_take(p + 8, 4) | flags, 4);

    if (ngx_mcds_take(p + 16, 8) > expire) {
        ngx_mcds_put(p + 16, expire, 8);
    }

    ngx_mcds_put(p + 12, ngx_mcds_entry_crc(p, value->len), 4);
}


void
ngx_mcds_entry_purge(ngx_mcds_value_t *value, uint64_t expire)
{
    u_char    *p;
    uint64_t   last;

    p = value->data;
    last = ngx_mcds_take(p + 16, 8);

    ngx_mcds_put(p + 48, ngx_mcds_take(p + 60, 4), 4);
    ngx_mcds_put(p + 60, expire > last
                         ? ngx_min(expire - last, NGX_MCDS_ENTRY_UNSET) : 0,
                 4);
    ngx_mcds_put(p + 16, expire, 8);
    ngx_mcds_put(p + 108, ngx_mcds_take(p + 108, 4) + 1, 4);
    ngx_mcds_put(p + 12, ngx_mcds_entry_crc(p, value->len), 4);
}


uint64_t
ngx_mcds_entry_purged(ngx_mcds_entry_t *list, ngx_mcds_entry_t *variant)
{
    uint64_t  back;

    back = 0;

    switch (list->purges - variant->purges) {

    case 3:
        back = (list->age == NGX_MCDS_ENTRY_UNSET) ? list->expire : list->age;

        /* fall through */

    case 2:
        back += (list->took == NGX_MCDS_ENTRY_UNSET) ? list->expire
                                                     : list->took;
        /* fall through */

    case 1:

        if (back < list->expire) {
            return list->expire - back;
        }
    }

    /*
     * The list of the headers that the page varies by has lost the time of this
     * variant's first purge.  That purge cannot be earlier than the request for
     * the variant to the origin: return the time of the request, limited to
     * the time of the last purge.
     */

    return ngx_min(list->expire, variant->created - variant->took);
}


ngx_mcds_value_t *
ngx_mcds_entry_grow(ngx_mcds_value_t *value, size_t more, ngx_log_t *log)
{
    size_t             size;
    ngx_mcds_value_t  *grown;

    if (more <= value->size - value->len) {
        return value;
    }

    if (value->len > NGX_MCDS_ENTRY_MAX
        || more > NGX_MCDS_ENTRY_MAX - value->len)
    {
        ngx_log_error(NGX_LOG_ALERT, log, 0, "mcds entry is too long");
        return NULL;
    }

    /*
     * the value of the page's entry grows by half at least, so that a body
     * that arrives in small pieces is rarely copied
     */

    size = value->size + value->size / 2;

    if (size < value->len + more) {
        size = value->len + more;
    }

    if (size > NGX_MCDS_ENTRY_MAX) {
        size = NGX_MCDS_ENTRY_MAX;
    }

    grown = ngx_mcds_value_create(size, log);
    if (grown == NULL) {
        return NULL;
    }

    ngx_memcpy(grown->data, value->data, value->len);
    grown->len = value->len;

    ngx_mcds_value_unref(value);

    return grown;
}


ngx_int_t
ngx_mcds_entry_read(ngx_mcds_entry_t *entry, u_char *data, size_t len,
    ngx_str_t *key, char **why)
{
    size_t    header;
    u_char   *p;
    uint64_t  sum;

    if (len < NGX_MCDS_ENTRY_HEADER
        || ngx_memcmp(data, ngx_mcds_entry_magic, 4) != 0)
    {
        *why = "not an entry";
        return NGX_DECLINED;
    }

    if (data[4] < NGX_MCDS_ENTRY_PLAIN || data[4] > NGX_MCDS_ENTRY_ASKED) {
        *why = "unknown format";
        return NGX_DECLINED;
    }

    /* later versions of mcds may write entries with a longer fixed header */

    header = ngx_mcds_take(data + 6, 2);

    entry->key.len = ngx_mcds_take(data + 64, 4);
    entry->ext.len = ngx_mcds_take(data + 68, 4);
    entry->headers.len = ngx_mcds_take(data + 72, 4);
    entry->body.len = ngx_mcds_take(data + 76, 4);

    sum = (uint64_t) header + entry->key.len + entry->ext.len
          + entry->headers.len + entry->body.len;

    if (header < NGX_MCDS_ENTRY_HEADER
        || sum != len
        || sum - header - entry->body.len > NGX_MCDS_ENTRY_HEAD)
    {
        *why = "wrong sizes";
        return NGX_DECLINED;
    }

    if (ngx_mcds_take(data + 12, 4) != ngx_mcds_entry_crc(data, len)) {
        *why = "wrong checksum";
        return NGX_DECLINED;
    }

    entry->kind = data[5];
    entry->flags = ngx_mcds_take(data + 8, 4)
                   & ~(uint32_t) NGX_MCDS_ENTRY_VALIDATE;
    entry->expire = ngx_mcds_take(data + 16, 8);
    entry->created = ngx_mcds_take(data + 24, 8);
    entry->generation = ngx_mcds_take(data + 32, 8);
    entry->total = ngx_mcds_take(data + 40, 8);
    entry->age = ngx_mcds_take(data + 48, 4);
    entry->swr = ngx_mcds_take(data + 52, 4);
    entry->sie = ngx_mcds_take(data + 56, 4);
    entry->took = ngx_mcds_take(data + 60, 4);
    entry->parts = ngx_mcds_take(data + 80, 4);
    entry->status = ngx_mcds_take(data + 84, 2);
    entry->part = ngx_mcds_take(data + 88, 4);
    entry->build = ngx_mcds_take(data + 100, 8);
    entry->purges = ngx_mcds_take(data + 108, 4);
    entry->coding = NGX_MCDS_CODING_NONE;
    entry->length = entry->total;

    if (data[4] == NGX_MCDS_ENTRY_ASKED) {
        entry->flags |= NGX_MCDS_ENTRY_VALIDATE;
    }

    if (data[4] == NGX_MCDS_ENTRY_CODED) {
        entry->coding = ngx_mcds_take(data + 86, 2);
        entry->length = ngx_mcds_take(data + 92, 8);

        if (entry->coding != NGX_MCDS_CODING_GZIP
            && entry->coding != NGX_MCDS_CODING_ZSTD)
        {
            *why = "unknown coding";
            return NGX_DECLINED;
        }
    }

    p = data + header;

    entry->key.data = p;
    p += entry->key.len;

    entry->ext.data = p;
    p += entry->ext.len;

    entry->headers.data = p;
    p += entry->headers.len;

    entry->body.data = p;

    *why = ngx_mcds_entry_check(entry);

    if (*why) {
        return NGX_DECLINED;
    }

    if (key->len != entry->key.len
        || (key->len
            && ngx_memcmp(key->data, entry->key.data, key->len) != 0))
    {
        *why = "key of another page";
        return NGX_DECLINED;
    }

    return NGX_OK;
}


size_t
ngx_mcds_entry_part(ngx_mcds_entry_t *entry, uint32_t n)
{
    if (n < entry->parts - 1) {
        return entry->part;
    }

    return (size_t) (entry->total - entry->body.len
                     - (uint64_t) n * entry->part);
}


ngx_int_t
ngx_mcds_entry_ext(ngx_mcds_entry_t *entry, ngx_uint_t type, ngx_str_t *data)
{
    u_char  *p, *last;
    size_t   len;

    p = entry->ext.data;
    last = p + entry->ext.len;

    /*
     * ngx_mcds_entry_read() has checked the lengths of the entry's extensions
     */

    while (last - p >= 6) {
        len = ngx_mcds_take(p + 2, 4);

        if (ngx_mcds_take(p, 2) == type) {
            data->data = p + 6;
            data->len = len;
            return NGX_OK;
        }

        p += 6 + len;
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_mcds_entry_header(ngx_str_t *headers, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *colon, *last;

    if (headers->len == 0) {
        return NGX_DONE;
    }

    p = headers->data;
    last = p + headers->len;

    colon = memchr(p, ':', last - p);
    if (colon == NULL) {
        return NGX_DONE;
    }

    name->data = p;
    name->len = colon - p;

    p = memchr(colon, LF, last - colon);
    if (p == NULL) {
        return NGX_DONE;
    }

    /* the header's value is between ": " and CRLF in the entry */

    value->data = colon + 2;
    value->len = p - 1 - value->data;

    headers->data = p + 1;
    headers->len = last - headers->data;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_entry_find(ngx_str_t *headers, ngx_str_t *name, ngx_str_t *value)
{
    ngx_int_t  rc;
    ngx_str_t  key;

    do {
        rc = ngx_mcds_entry_header(headers, &key, value);
    } while (rc == NGX_OK
             && (key.len != name->len
                 || ngx_strncasecmp(key.data, name->data, key.len) != 0));

    return rc;
}


ngx_int_t
ngx_mcds_entry_header_check(ngx_str_t *name, ngx_str_t *value)
{
    u_char  *last;

    if (name->len == 0) {
        return NGX_DECLINED;
    }

    last = name->data + name->len;

    if (ngx_mcds_entry_name_end(name->data, last) != last) {
        return NGX_DECLINED;
    }

    if (value->len == 0) {
        return NGX_OK;
    }

    last = value->data + value->len;

    if (ngx_mcds_entry_value_end(value->data, last) != last) {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * returns the length of everything in a page's entry but the body; 0: too long
 */

static size_t
ngx_mcds_entry_size(ngx_mcds_entry_t *entry)
{
    if (entry->key.len > NGX_MCDS_ENTRY_MAX / 4
        || entry->ext.len > NGX_MCDS_ENTRY_MAX / 4
        || entry->headers.len > NGX_MCDS_ENTRY_MAX / 4)
    {
        return 0;
    }

    return NGX_MCDS_ENTRY_HEADER + entry->key.len + entry->ext.len
           + entry->headers.len;
}


static u_char *
ngx_mcds_entry_copy(u_char *p, ngx_str_t *src)
{
    /*
     * copies a string of an entry; the data of an empty ngx_str_t may be NULL
     */

    return src->len ? ngx_cpymem(p, src->data, src->len) : p;
}


static uint32_t
ngx_mcds_entry_crc(u_char *data, size_t len)
{
    uint32_t  crc;

    crc = ngx_mcds_crc32c(0, data, 12);

    return ngx_mcds_crc32c(crc, data + 16, len - 16);
}


/*
 * checks a page's entry; returns NULL, or the reason why the entry is invalid
 */

static char *
ngx_mcds_entry_check(ngx_mcds_entry_t *entry)
{
    switch (entry->kind) {

    case NGX_MCDS_ENTRY_PAGE:

        if (entry->status < 200 || entry->status > 599) {
            return "wrong status";
        }

        break;

    case NGX_MCDS_ENTRY_PASS:
    case NGX_MCDS_ENTRY_VARY:
    case NGX_MCDS_ENTRY_PURGED:

        if (entry->status != 0) {
            return "wrong status";
        }

        break;

    default:
        return "unknown kind";
    }

    if (ngx_mcds_entry_check_parts(entry) != NGX_OK) {
        return "wrong length of the body";
    }

    if (ngx_mcds_entry_check_ext(&entry->ext) != NGX_OK) {
        return "wrong extensions";
    }

    if (ngx_mcds_entry_check_headers(entry) != NGX_OK) {
        return "wrong headers";
    }

    return NULL;
}


static ngx_int_t
ngx_mcds_entry_check_parts(ngx_mcds_entry_t *entry)
{
    uint64_t  rest;

    if (entry->coding
        && (entry->kind != NGX_MCDS_ENTRY_PAGE || entry->length == 0))
    {
        return NGX_DECLINED;
    }

    if (entry->parts == 0) {
        return (entry->total == entry->body.len) ? NGX_OK : NGX_DECLINED;
    }

    if (entry->kind != NGX_MCDS_ENTRY_PAGE
        || entry->parts > NGX_MCDS_MAX_PARTS
        || entry->part == 0
        || entry->total <= entry->body.len)
    {
        return NGX_DECLINED;
    }

    /*
     * the last part of a page's body is neither empty nor longer than the other
     * parts
     */

    rest = entry->total - entry->body.len;

    return ((rest - 1) / entry->part == entry->parts - 1)
           ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_mcds_entry_check_ext(ngx_str_t *ext)
{
    size_t    left;
    u_char   *p;
    uint32_t  len;

    p = ext->data;
    left = ext->len;

    while (left) {

        if (left < 6) {
            return NGX_DECLINED;
        }

        len = ngx_mcds_take(p + 2, 4);

        if (len > left - 6) {
            return NGX_DECLINED;
        }

        p += 6 + (size_t) len;
        left -= 6 + (size_t) len;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_entry_check_headers(ngx_mcds_entry_t *entry)
{
    u_char  *p, *name, *last;

    p = entry->headers.data;
    last = p + entry->headers.len;

    entry->lines = 0;

    while (p < last) {

        name = p;
        p = ngx_mcds_entry_name_end(p, last);

        if (p == name || last - p < 4 || p[0] != ':' || p[1] != ' ') {
            return NGX_DECLINED;
        }

        p = ngx_mcds_entry_value_end(p + 2, last);

        if (last - p < 2 || p[0] != CR || p[1] != LF) {
            return NGX_DECLINED;
        }

        p += 2;

        if (++entry->lines > NGX_MCDS_ENTRY_LINES) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* returns the first byte that is not part of a header's name */

static u_char *
ngx_mcds_entry_name_end(u_char *p, u_char *last)
{
    while (p < last && ngx_mcds_entry_token[*p]) {
        p++;
    }

    return p;
}


/* returns the first control character, other than HTAB, in a header's value */

static u_char *
ngx_mcds_entry_value_end(u_char *p, u_char *last)
{
    uint64_t  word, del;

    while (last - p >= 8) {
        ngx_memcpy(&word, p, 8);

        /*
         * test eight bytes of a header's value at once (SWAR): is any of them
         * below 0x20, or DEL?
         */

        del = word ^ (NGX_MCDS_ENTRY_ONES * 0x7f);

        word = (((word - NGX_MCDS_ENTRY_ONES * 0x20) & ~word)
                | ((del - NGX_MCDS_ENTRY_ONES) & ~del))
               & NGX_MCDS_ENTRY_HIGH;

        if (word == 0) {
            p += 8;
            continue;
        }

#if (NGX_HAVE_LITTLE_ENDIAN && (__GNUC__ || __clang__))

        /*
         * the first byte that the SWAR test has marked in "word" is a control
         * character in the header's value, maybe HTAB; the bytes marked behind
         * it may be allowed characters
         */

        p += __builtin_ctzll(word) / 8;

        if (*p != '\t') {
            return p;
        }

        p++;

#else

        break;

#endif
    }

    while (p < last && ((*p >= 0x20 && *p != 0x7f) || *p == '\t')) {
        p++;
    }

    return p;
}
