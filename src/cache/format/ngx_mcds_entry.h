
/*
 * Copyright (C) mcds authors
 *
 * The format of a page in memcached, and of an entry in place of a page:
 * hit-for-miss mark, purge mark, or list of the headers that a page varies by.
 */


#ifndef _NGX_MCDS_ENTRY_H_INCLUDED_
#define _NGX_MCDS_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * The format of an entry, the value of an item in memcached.  All numbers are
 * little-endian and unsigned.  Times are milliseconds since the epoch.
 *
 *   at size
 *    0   4  magic, "MCDS"
 *    4   1  format: 1; 2 if the body has a coding; 3 if each request must
 *           revalidate the page
 *    5   1  kind: 0 page, 1 hit-for-miss mark, 2 list of the headers that a
 *           page varies by, 3 purge mark: the page was purged; a page that
 *           was requested from the origin before the purge must not replace
 *           the mark, unless the mark has NGX_MCDS_ENTRY_INVALID
 *    6   2  size of this header, 112; a reader skips bytes after the last
 *           field that it knows
 *    8   4  flags
 *   12   4  CRC32C of bytes 0 to 11 and of all bytes from 16 on
 *   16   8  expires at
 *   24   8  created: when the origin's response began
 *   32   8  generation, random; part of the keys of the parts of a body
 *   40   8  length of the whole body
 *   48   4  age of the response when it was created, seconds; in a list of
 *           headers: milliseconds between the third last purge and the
 *           second last one; 0xffffffff: longer
 *   52   4  seconds after the expiry during which the page may be served
 *           while it is refreshed (stale-while-revalidate); 0xffffffff: unset
 *   56   4  seconds after the expiry during which the page may be served
 *           after an error (stale-if-error); 0xffffffff: unset
 *   60   4  milliseconds until the origin responded, which are part of the
 *           age; in a list of headers: milliseconds between the second last
 *           purge and the last one; 0xffffffff: longer
 *   64   4  length of the key
 *   68   4  length of the extensions
 *   72   4  length of the headers
 *   76   4  length of the body in this item
 *   80   4  number of parts, further items with the rest of the body, see
 *           ngx_mcds_part.h; 0: none; at most 4096
 *   84   2  status, 200 to 599; 0 unless a page
 *   86   2  coding of the body: 0 none, 1 gzip, 2 zstd, see
 *           ngx_mcds_coding.h
 *   88   4  length of the data in each part but the last, which has the
 *           rest; 0 without parts
 *   92   8  length of the whole decoded body; 0 without a coding
 *  100   8  build: the id of the build that made the page, see
 *           ngx_mcds_page_build_id(); 0: unknown
 *  108   4  in a list of headers: the number of purges of its variants, the
 *           last one at "expires at"; in a variant: that number when the
 *           origin was requested
 *  112      key, extensions, headers, body
 *
 * The key is the text of mcds_cache_key, not its hash.  Each extension is a
 * type (2 bytes), a length (4 bytes) and data; a reader skips unknown types.
 * Each header line is a name, ": " (exactly one space), the value and CRLF; no
 * empty line follows the last one.  The length of the whole body is that of the
 * body in this item, or larger if there are parts; only a page has parts.  A
 * reader ignores unknown flags and reserved bytes; a change that a reader must
 * not ignore gets another format.  All lengths but the one at 92 are of stored
 * bytes.  Key, extensions and headers have at most 256 KB together; there are
 * at most 4096 header lines.  The coding is not a Content-Encoding among the
 * headers, which are those of the origin.  In format 1 the fields of the coding
 * are reserved.
 */

#define NGX_MCDS_ENTRY_HEADER     112

#define NGX_MCDS_ENTRY_PAGE       0
#define NGX_MCDS_ENTRY_PASS       1     /* an entry in place of a page that is
                                           not cacheable (hit-for-miss):
                                           requests go to the origin, and
                                           neither wait nor lock */
#define NGX_MCDS_ENTRY_VARY       2
#define NGX_MCDS_ENTRY_PURGED     3

/* flags of a page's entry, stored in memcached */
#define NGX_MCDS_ENTRY_SHARED     0x01  /* the page may be served to a request
                                           with Authorization, RFC 9111, 3.5 */
#define NGX_MCDS_ENTRY_REVALIDATE 0x02  /* the page is never served stale:
                                           must-revalidate and similar
                                           directives */
#define NGX_MCDS_ENTRY_INVALID    0x04  /* the page was fresh until it was
                                           purged; in a purge mark, which has no
                                           page: a page that was requested from
                                           the origin before the purge may be
                                           stored as stale */
#define NGX_MCDS_ENTRY_ABSOLUTE   0x08  /* nginx makes a relative Location of
                                           the page absolute */
#define NGX_MCDS_ENTRY_CONFIGURED 0x10  /* the page's lifetime is from the
                                           configuration, not the origin */
#define NGX_MCDS_ENTRY_VALIDATE   0x20  /* the page has no-cache: each request
                                           revalidates it; the entry has format
                                           3, and its body has no coding */
#define NGX_MCDS_ENTRY_NO_GRACE   0x40  /* the page may be served stale only for
                                           its stale-while-revalidate and
                                           stale-if-error, as s-maxage came with
                                           them */

#define NGX_MCDS_ENTRY_UNSET      0xffffffff

/*
 * the maximum size in bytes of the key, extensions and headers together in a
 * page's entry
 */
#define NGX_MCDS_ENTRY_HEAD       (256 * 1024)

/*
 * the maximum size in bytes of the text of mcds_cache_key in a page's entry;
 * the extensions and the headers share the rest of NGX_MCDS_ENTRY_HEAD
 */
#define NGX_MCDS_ENTRY_KEY        (128 * 1024)

/* the maximum number of header lines in the entry of a page */
#define NGX_MCDS_ENTRY_LINES      4096

/* types of the extensions (additional data) in the entry of a page */
#define NGX_MCDS_ENTRY_EXT_VARY   1
#define NGX_MCDS_ENTRY_EXT_TAG    2     /* type of the extension with the
                                           page's tags, see ngx_mcds_tag.h */
#define NGX_MCDS_ENTRY_EXT_SIGN   3     /* type of the extension with the
                                           page's signature, see
                                           ngx_mcds_sign.h */
#define NGX_MCDS_ENTRY_EXT_ROUTE  4     /* type of the extension with the
                                           page's route (location, final
                                           URI), see ngx_http_mcds_route.h */


typedef struct {
    ngx_uint_t    kind;
    uint32_t      flags;
    uint64_t      expire;         /* time when the page expires, ms */
    uint64_t      created;
    uint64_t      generation;
    uint64_t      total;          /* length of the page's whole body, with its
                                     parts */
    uint32_t      age;
    uint32_t      swr;
    uint32_t      sie;
    uint32_t      took;
    uint32_t      parts;
    uint32_t      part;           /* length of each part of the page's body but
                                     the last one */
    uint32_t      purges;
    uint64_t      build;
    ngx_uint_t    status;
    ngx_uint_t    coding;         /* coding (compression) of the stored body,
                                     ngx_mcds_coding_e */
    uint64_t      length;         /* length of the page's whole body,
                                     decoded */
    ngx_str_t     key;
    ngx_str_t     ext;
    ngx_str_t     headers;
    ngx_uint_t    lines;          /* number of the page's header lines, set
                                     when the entry is read */
    ngx_str_t     body;
} ngx_mcds_entry_t;


/*
 * Returns NGX_OK if key, extensions and headers of a page's entry are within
 * NGX_MCDS_ENTRY_HEAD and NGX_MCDS_ENTRY_LINES; NGX_DECLINED otherwise, as
 * ngx_mcds_entry_read() would reject the entry.
 */

ngx_int_t ngx_mcds_entry_fits(ngx_mcds_entry_t *entry);


/*
 * Creates the value of a memcached item with the key, extensions and headers
 * of "entry", and space for a body of "room" bytes; value->len is the offset
 * of the body.  Uses only these three fields of the entry.  Returns NULL if
 * out of memory, or if the value would be longer than 2 GiB; both are logged.
 *
 * The caller then appends the body at data + len, increases len, and calls
 * ngx_mcds_entry_finish().  So a body is received in its final place.
 */

ngx_mcds_value_t *ngx_mcds_entry_begin(ngx_mcds_entry_t *entry, size_t room,
    ngx_log_t *log);


/*
 * Writes the fixed header and the CRC of a page's entry into its value, from
 * the fields of "entry".  The length of the body is the number of bytes
 * appended to the value; entry->total is used only with parts, entry->length
 * only with a coding.  Key, extensions and headers must have the lengths they
 * had in ngx_mcds_entry_begin().  "entry" does not change.  The value is then
 * complete: only ngx_mcds_entry_mark(), ngx_mcds_entry_purge() and
 * ngx_mcds_sign() may change it.
 */

void ngx_mcds_entry_finish(ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);


/*
 * Returns the client flags of memcached that an entry (the value of a page's
 * item) is stored with.  Their upper 16 bits are those of the entry's CRC; the
 * lower 16 bits, which clients in other languages use, are 0.
 */

uint32_t ngx_mcds_entry_client_flags(ngx_mcds_value_t *value);


/*
 * Adds flags to the finished entry of a page, and replaces the page's expiry
 * time by "expire", milliseconds since the epoch, if "expire" is earlier.  The
 * value must have only one reference.
 */

void ngx_mcds_entry_mark(ngx_mcds_value_t *value, uint32_t flags,
    uint64_t expire);


/*
 * Records a purge in a finished list of the headers that a page varies by: the
 * existing variants of the page expire at "expire", milliseconds since the
 * epoch.
 */

void ngx_mcds_entry_purge(ngx_mcds_value_t *value, uint64_t expire);


/*
 * Returns the time of the first purge after a variant of a page was requested
 * from the origin.  "list", the page's list of the headers that it varies by,
 * has the times of the last three purges; if the purge is not among them,
 * returns a time that is not later than the purge.
 */

uint64_t ngx_mcds_entry_purged(ngx_mcds_entry_t *list,
    ngx_mcds_entry_t *variant);


/*
 * Makes room for at least "more" bytes after the end of the value of a page's
 * entry.  The value must have only one reference.  A value that is too small
 * is replaced by one of at least 1.5 times its size, but of at most 2 GiB.
 * Returns the value to use; NULL, with the old value unchanged, if out of
 * memory or if more than 2 GiB would be needed.
 */

ngx_mcds_value_t *ngx_mcds_entry_grow(ngx_mcds_value_t *value, size_t more,
    ngx_log_t *log);


/*
 * Reads a page's entry from the value of an item; its strings point into data.
 * Returns NGX_OK only if every check holds: magic, format, sizes that add up
 * to len, CRC, kind, status, coding, lengths of the body, well-formed
 * extensions, header lines of the form "token: value" without control
 * characters (a value may contain HTAB), and a key equal to the given one.
 * Otherwise returns NGX_DECLINED, which is a miss, not an error: the entry is
 * undefined, and *why is a short constant text for the debug log.
 */

ngx_int_t ngx_mcds_entry_read(ngx_mcds_entry_t *entry, u_char *data,
    size_t len, ngx_str_t *key, char **why);


/*
 * Returns the length of the data of part n of a page's body.  n is counted
 * from 0 and must be less than entry->parts.
 */

size_t ngx_mcds_entry_part(ngx_mcds_entry_t *entry, uint32_t n);


/*
 * Finds the first extension (additional data, such as the page's tags) of this
 * type, NGX_MCDS_ENTRY_EXT_*, in the entry of a page, and sets data, which
 * points into the entry.  Returns NGX_DECLINED if there is no such extension.
 */

ngx_int_t ngx_mcds_entry_ext(ngx_mcds_entry_t *entry, ngx_uint_t type,
    ngx_str_t *data);


/*
 * Takes the next header line from the headers of a page's entry, and advances
 * headers.  Returns NGX_OK with name and value, or NGX_DONE at the end.  The
 * headers must have passed ngx_mcds_entry_read().
 */

ngx_int_t ngx_mcds_entry_header(ngx_str_t *headers, ngx_str_t *name,
    ngx_str_t *value);


/*
 * Takes the next header line of this name from the headers of a page's entry,
 * and advances headers behind that line.  Names are compared without case.
 * Returns NGX_OK with value, or NGX_DONE if there is no such line.
 */

ngx_int_t ngx_mcds_entry_find(ngx_str_t *headers, ngx_str_t *name,
    ngx_str_t *value);


/*
 * Returns NGX_OK if a header line of the origin may be stored and sent: the
 * name is a token (RFC 9110, 5.6.2), and the value has no control character
 * but HTAB. Returns NGX_DECLINED otherwise.
 */

ngx_int_t ngx_mcds_entry_header_check(ngx_str_t *name, ngx_str_t *value);


/*
 * Computes the CRC32C of data (Castagnoli; as in iSCSI, RFC 3720, B.4).  crc
 * is 0 for the first bytes, and the previous result for bytes that follow
 * them.
 */

uint32_t ngx_mcds_crc32c(uint32_t crc, u_char *data, size_t len);


#endif /* _NGX_MCDS_ENTRY_H_INCLUDED_ */
