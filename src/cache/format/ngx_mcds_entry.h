
/*
 * Copyright (C) mcds authors
 *
 * A stored page: what lies under its key in memcached.
 */


#ifndef _NGX_MCDS_ENTRY_H_INCLUDED_
#define _NGX_MCDS_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * All numbers are little-endian and unsigned.  Times are milliseconds since
 * the epoch.
 *
 *   at  size
 *    0    4  magic, "MCDS"
 *    4    1  format: 1; 2 if the body is in a coding; 3 if the origin is to
 *            be asked about the page for each request
 *    5    1  kind: 0 page, 1 hit-for-miss mark, 2 list of varying headers,
 *            3 purged: there is no page, and none that was asked for before
 *    6    2  size of this header, 112; what a reader does not know behind
 *            its own last field is skipped
 *    8    4  flags
 *   12    4  CRC32C of bytes 0 to 11 and of all bytes from 16 on
 *   16    8  expire before
 *   24    8  created: when the origin's answer began
 *   32    8  generation, random; names the parts of a split body
 *   40    8  length of the whole body
 *   48    4  age of the answer when it was created, seconds; of a list of
 *            varying headers: milliseconds between the last purge but one and
 *            the one before it; 0xffffffff: more
 *   52    4  seconds it may be served after "expire before" while it is
 *            refreshed (stale-while-revalidate); 0xffffffff: not said
 *   56    4  the same after an error (stale-if-error); 0xffffffff: not said
 *   60    4  milliseconds that the origin took until it answered; they count
 *            to the age; of a list: those between the last two purges;
 *            0xffffffff: more
 *   64    4  length of the key
 *   68    4  length of the extensions
 *   72    4  length of the headers
 *   76    4  length of the body in this item
 *   80    4  number of parts, further items that hold the rest of the body,
 *            see ngx_mcds_part.h; 0: none; at most 4096
 *   84    2  status, 200 to 599; 0 unless a page
 *   86    2  coding of the body: 0 none, 1 gzip, 2 zstd, see
 *            ngx_mcds_coding.h
 *   88    4  length of the data of each part but the last, which is what is
 *            left; 0 without parts
 *   92    8  length of the whole body without its coding; 0 without one
 *  100    8  build: names the build that has made the page, see
 *            ngx_mcds_page_build_id(); 0: not said
 *  108    4  of a list of varying headers: how often its variants were purged,
 *            the last time at "expire before"; of a variant: how often they
 *            had been before its origin was asked
 *  112       key, extensions, headers, body
 *
 * The key is the text of mcds_cache_key, not the hash of it.  Extensions are
 * any number of: type (2 bytes), length (4 bytes), data; a reader skips types
 * it does not know.  Headers are lines of a name, ": " (just one space), the
 * value and CRLF; there is no empty line at the end.  Without parts the length
 * of the whole body is that of the body in this item, with them it is larger;
 * only a page has parts.  Flags and reserved bytes that a reader does not know
 * are skipped; what must not be skipped is another format.  All lengths but
 * that at 92 are of what is stored.  Key, extensions and headers are 256 KB
 * long together at most, and the headers have 4096 lines at most.  The coding
 * is no Content-Encoding among the headers: they say what the origin has sent.
 * In format 1 the fields of the coding are reserved.
 */

#define NGX_MCDS_ENTRY_HEADER     112

#define NGX_MCDS_ENTRY_PAGE       0
#define NGX_MCDS_ENTRY_PASS       1     /* hit-for-miss: do not wait, do not
                                           lock */
#define NGX_MCDS_ENTRY_VARY       2
#define NGX_MCDS_ENTRY_PURGED     3

/* flags */
#define NGX_MCDS_ENTRY_SHARED     0x01  /* may answer a request that carries
                                           Authorization, RFC 9111, 3.5 */
#define NGX_MCDS_ENTRY_REVALIDATE 0x02  /* never served stale: must-revalidate
                                           and the like */
#define NGX_MCDS_ENTRY_INVALID    0x04  /* was fresh until it was purged; of
                                           PURGED: a page that was asked for
                                           before may be stored so */
#define NGX_MCDS_ENTRY_ABSOLUTE   0x08  /* nginx makes a Location that begins
                                           with a slash absolute */
#define NGX_MCDS_ENTRY_CONFIGURED 0x10  /* the configuration gave its lifetime,
                                           not the origin */
#define NGX_MCDS_ENTRY_VALIDATE   0x20  /* no-cache: the origin is asked about
                                           it for each request; has a format of
                                           its own, without a coding */
#define NGX_MCDS_ENTRY_NO_GRACE   0x40  /* served stale for the times of swr and
                                           sie alone: s-maxage beside them */

#define NGX_MCDS_ENTRY_UNSET      0xffffffff

/* key, extensions and headers together; bytes */
#define NGX_MCDS_ENTRY_HEAD       (256 * 1024)

/* the text of mcds_cache_key; the rest is room for marks, lists and headers */
#define NGX_MCDS_ENTRY_KEY        (128 * 1024)

/* lines of headers */
#define NGX_MCDS_ENTRY_LINES      4096

/* extensions */
#define NGX_MCDS_ENTRY_EXT_VARY   1
#define NGX_MCDS_ENTRY_EXT_TAG    2     /* see ngx_mcds_tag.h */
#define NGX_MCDS_ENTRY_EXT_SIGN   3     /* see ngx_mcds_sign.h */
#define NGX_MCDS_ENTRY_EXT_ROUTE  4     /* see ngx_http_mcds_route.h */


typedef struct {
    ngx_uint_t    kind;
    uint32_t      flags;
    uint64_t      expire;         /* expire before */
    uint64_t      created;
    uint64_t      generation;
    uint64_t      total;          /* length of the whole body */
    uint32_t      age;
    uint32_t      swr;
    uint32_t      sie;
    uint32_t      took;
    uint32_t      parts;
    uint32_t      part;           /* length of each but the last */
    uint32_t      purges;
    uint64_t      build;
    ngx_uint_t    status;
    ngx_uint_t    coding;         /* of the body as it is stored,
                                     ngx_mcds_coding_e */
    uint64_t      length;         /* of the whole body without it */
    ngx_str_t     key;
    ngx_str_t     ext;
    ngx_str_t     headers;
    ngx_uint_t    lines;          /* of headers, when it was read */
    ngx_str_t     body;
} ngx_mcds_entry_t;


/*
 * NGX_OK if key, extensions and headers of an entry are within the bounds that
 * ngx_mcds_entry_read() holds it to: those of NGX_MCDS_ENTRY_HEAD and
 * NGX_MCDS_ENTRY_LINES.  NGX_DECLINED otherwise: no reader would take it.
 */

ngx_int_t ngx_mcds_entry_fits(ngx_mcds_entry_t *entry);


/*
 * Writing is in two steps, so that a body can be received in its place.
 *
 * begin: a value that holds the key, extensions and headers of the entry and
 * has room for a body of room bytes; its len stands where the body begins.
 * Uses the entry's key, ext and headers only.  NULL when out of memory, or
 * when it would be longer than 2 GiB (logged).
 *
 * The caller then appends the body at data + len and moves len (room must
 * suffice: see ngx_mcds_entry_grow).
 *
 * finish: fills in the fixed header from the other fields of the entry; the
 * body's length is what was appended, total the same unless parts is not 0,
 * length is used with a coding only; computes the CRC.  Key, ext and headers
 * must have the lengths that begin saw; the entry is not changed.  No further
 * change of the value after that.
 */

ngx_mcds_value_t *ngx_mcds_entry_begin(ngx_mcds_entry_t *entry, size_t room,
    ngx_log_t *log);
void ngx_mcds_entry_finish(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);


/*
 * The client flags of a finished value: the upper half of its CRC, in the upper
 * half, which clients of other languages leave alone.
 */

uint32_t ngx_mcds_entry_client_flags(ngx_mcds_value_t *value);


/*
 * Sets flags of a finished entry, and the time it expires, if that is not
 * past; the value must have one reference.
 */

void ngx_mcds_entry_mark(ngx_mcds_value_t *value, uint32_t flags,
    uint64_t expire);


/*
 * purge: the variants of a finished list were purged, they have expired then.
 * purged: when the first of the purges of a list came that its variant does not
 * know; if the list has forgotten that, the earliest time that can be.
 */

void ngx_mcds_entry_purge(ngx_mcds_value_t *value, uint64_t expire);
uint64_t ngx_mcds_entry_purged(ngx_mcds_entry_t *list,
    ngx_mcds_entry_t *variant);


/*
 * Makes room for at least more bytes behind len.  The value must have one
 * reference and may move: the new place is returned; NULL when out of memory
 * or longer than 2 GiB, then the old value is still there.  When it moves it
 * grows by half at least.
 */

ngx_mcds_value_t *ngx_mcds_entry_grow(ngx_mcds_value_t *value, size_t more,
    ngx_log_t *log);


/*
 * Reads an entry; its strings point into data.  NGX_OK only if every check
 * holds: magic, format, sizes that add up to len exactly, CRC, kind, status,
 * coding, lengths of the body, well-formed extensions, header lines that are
 * "token: value" without control characters (HTAB in a value is allowed), a key
 * equal to the one given.  NGX_DECLINED otherwise: a miss, never an error; *why
 * then is a short constant text for the debug log, and the entry is not
 * defined.
 */

ngx_int_t ngx_mcds_entry_read(ngx_mcds_entry_t *entry, u_char *data,
    size_t len, ngx_str_t *key, char **why);


/* the length of the data of part n, of a page that has it */

size_t ngx_mcds_entry_part(ngx_mcds_entry_t *entry, uint32_t n);


/* the data of the first extension of a type; NGX_DECLINED: there is none */

ngx_int_t ngx_mcds_entry_ext(ngx_mcds_entry_t *entry, ngx_uint_t type,
    ngx_str_t *data);


/*
 * Takes the next line from headers (which moves on): NGX_OK with name and
 * value, NGX_DONE at the end.  The headers were checked by
 * ngx_mcds_entry_read().
 */

ngx_int_t ngx_mcds_entry_header(ngx_str_t *headers, ngx_str_t *name,
    ngx_str_t *value);


/* the same for the next line of that name, whatever its case */

ngx_int_t ngx_mcds_entry_find(ngx_str_t *headers, ngx_str_t *name,
    ngx_str_t *value);


/*
 * NGX_OK if the line may be stored and sent: the name is an RFC 9110 token,
 * the value has no control character but HTAB.  NGX_DECLINED otherwise.
 */

ngx_int_t ngx_mcds_entry_header_check(ngx_str_t *name, ngx_str_t *value);


/*
 * CRC32C (Castagnoli), as iSCSI, RFC 3720, B.4; crc is 0 for the first call
 * and the result of the call before for data that continues.
 */

uint32_t ngx_mcds_crc32c(uint32_t crc, u_char *data, size_t len);


#endif /* _NGX_MCDS_ENTRY_H_INCLUDED_ */
