
/*
 * Copyright (C) mcds authors
 *
 * Which requests one stored page answers: RFC 9111, 4.1.
 *
 * Under the key of a page that varies lies an entry of NGX_MCDS_ENTRY_VARY
 * with the names of the request headers (NGX_MCDS_ENTRY_EXT_VARY) and a random
 * generation.  The page for the values of one request lies under the text
 *
 *     <key>:vary:<generation, 16 hex digits>:<MD5 of the values, 32>
 *
 * so that whatever removes or replaces the list takes all variants with it.
 * Its body is the MD5s of the variants that were stored, 16 bytes each, so that
 * their number is bounded.
 */


#ifndef _NGX_MCDS_VARY_H_INCLUDED_
#define _NGX_MCDS_VARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>


/* names and bytes of a list, with its commas */
#define NGX_MCDS_MAX_VARY         16
#define NGX_MCDS_MAX_VARY_LEN     512

#define NGX_MCDS_VARIANT_LEN      16

/* of a page, and the most that the configuration may allow */
#define NGX_MCDS_MAX_VARIANTS     1024

/* among the names, no header: the route, see ngx_http_mcds_route.h */
#define NGX_MCDS_VARY_ROUTE       "!route"

/* what follows the key */
#define NGX_MCDS_VARY_SUFFIX_LEN                                              \
    (sizeof(":vary:0123456789abcdef:") - 1 + 2 * NGX_MCDS_VARIANT_LEN)


/*
 * A list of names: lower case, in the order of the alphabet, each once,
 * separated by ",".  Begin with len 0 and room for NGX_MCDS_MAX_VARY_LEN bytes
 * in data.
 *
 * add: the names of a Vary line, or of another such list.  NGX_OK;
 * NGX_DECLINED with "*" among them, with something that is no list of tokens,
 * or when they are too many: no page can be found by such a list.
 *
 * covers: 1 if every name of b is one of a.
 */

ngx_int_t ngx_mcds_vary_add(ngx_str_t *list, ngx_str_t *value);
ngx_uint_t ngx_mcds_vary_covers(ngx_str_t *a, ngx_str_t *b);


/* the first name of list, which moves on: NGX_OK, or NGX_DONE at the end */

ngx_int_t ngx_mcds_vary_next(ngx_str_t *list, ngx_str_t *name);


/*
 * The values of a request, one name after the other, in the order of the list.
 * begin; for each name: name, then all its lines in their order, none if there
 * are none; end: NGX_MCDS_VARIANT_LEN bytes.
 *
 * Values count as equal if they differ only in white space about commas and at
 * their ends, or in how they are spread over lines; Accept-Encoding counts as
 * the set of "br", "gzip" and "zstd" that it accepts, whatever their order and
 * weights above 0.  Accept-Language and Accept-Charset count without case (RFC
 * 5646, 2.1.1; RFC 9110, 8.3.2), Accept without that of types and names of
 * parameters, whose values may depend on it (RFC 9110, 8.3.1); in these three
 * white space about semicolons does not count, either.  A line with a quoted
 * string counts as it is.
 */

typedef enum {
    NGX_MCDS_VARIANT_EXACT = 0,
    NGX_MCDS_VARIANT_ENCODING,    /* Accept-Encoding */
    NGX_MCDS_VARIANT_CASELESS,    /* Accept-Language, Accept-Charset */
    NGX_MCDS_VARIANT_MEDIA        /* Accept */
} ngx_mcds_variant_e;

typedef struct {
    ngx_md5_t     md5;
    ngx_uint_t    codings;        /* accepted so far */
    ngx_uint_t    refused;        /* named with weight 0 */
    ngx_uint_t    kind;           /* of the name */
    unsigned      named:1;
    unsigned      any:1;          /* a line of this name was seen */
} ngx_mcds_variant_t;

void ngx_mcds_variant_begin(ngx_mcds_variant_t *variant);
void ngx_mcds_variant_name(ngx_mcds_variant_t *variant, ngx_str_t *name);
void ngx_mcds_variant_line(ngx_mcds_variant_t *variant, ngx_str_t *value);
void ngx_mcds_variant_end(ngx_mcds_variant_t *variant, u_char *hash);


/*
 * accepted: the set of codings, behind the lines of Accept-Encoding.  coded:
 * NGX_OK if the value of a Content-Encoding is in the set: all who accept the
 * same set may be sent it.
 */

ngx_uint_t ngx_mcds_variant_accepted(ngx_mcds_variant_t *variant);
ngx_int_t ngx_mcds_vary_coded(ngx_uint_t codings, ngx_str_t *value);


/*
 * suffix: writes what follows the key, NGX_MCDS_VARY_SUFFIX_LEN bytes; the end.
 * base: the key without what looks like one, a part of key.
 */

u_char *ngx_mcds_vary_suffix(u_char *p, uint64_t generation, u_char *hash);
void ngx_mcds_vary_base(ngx_str_t *key, ngx_str_t *base);


/*
 * The entry of a list.  check: NGX_OK if ext has names and body is a row of
 * variants, not too many; names: those of ext; has: 1 if the variant is one of
 * body; ext: writes the extension, NGX_MCDS_VARY_EXT and the bytes of names;
 * the end.
 */

#define NGX_MCDS_VARY_EXT         6

ngx_int_t ngx_mcds_vary_check(ngx_str_t *ext, ngx_str_t *body);
void ngx_mcds_vary_names(ngx_str_t *ext, ngx_str_t *names);
ngx_uint_t ngx_mcds_vary_has(ngx_str_t *body, u_char *hash);
u_char *ngx_mcds_vary_ext(u_char *p, ngx_str_t *names);


#endif /* _NGX_MCDS_VARY_H_INCLUDED_ */
