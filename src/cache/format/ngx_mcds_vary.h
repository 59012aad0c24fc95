
/*
 * Copyright (C) mcds authors
 *
 * Pages that vary: the variant that answers a request, RFC 9111, 4.1.
 *
 * The key of a page that varies holds an entry of NGX_MCDS_ENTRY_VARY, the
 * list, with the names of the request headers (NGX_MCDS_ENTRY_EXT_VARY) and a
 * random generation.  The variant for the header values of a request has the
 * key
 *
 *   <key>:vary:<generation, 16 hex digits>:<MD5 of the values, 32>
 *
 * so that removing or replacing the list invalidates all variants.  The body of
 * the list is the MD5s of the stored variants, 16 bytes each, which bounds
 * their number.
 */


#ifndef _NGX_MCDS_VARY_H_INCLUDED_
#define _NGX_MCDS_VARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>


/*
 * the maximum number of header names that a page varies by, and the maximum
 * bytes of their list with its commas
 */
#define NGX_MCDS_MAX_VARY         16
#define NGX_MCDS_MAX_VARY_LEN     512

#define NGX_MCDS_VARIANT_LEN      16

/* the maximum number of variants of a page that can be configured */
#define NGX_MCDS_MAX_VARIANTS     1024

/*
 * a name in the list of headers that is no header: it stands for the route,
 * see ngx_http_mcds_route.h
 */
#define NGX_MCDS_VARY_ROUTE       "!route"

/* the length of the suffix that a variant's key adds to the page's key */
#define NGX_MCDS_VARY_SUFFIX_LEN                                              \
    (sizeof(":vary:0123456789abcdef:") - 1 + 2 * NGX_MCDS_VARIANT_LEN)


/*
 * Adds the names of a Vary header line, or of another list, to a list of
 * header names: in lower case, sorted, without duplicates, separated by ",".
 * list->data has room for NGX_MCDS_MAX_VARY_LEN bytes, and list->len is 0
 * before the first call.  Returns NGX_DECLINED for "*", for a value that is no
 * list of tokens, or if there are too many names: no page can be found by such
 * a list.
 */

ngx_int_t ngx_mcds_vary_add(ngx_str_t *list, ngx_str_t *value);


/* Returns 1 if the list of header names a contains each name of b. */

ngx_uint_t ngx_mcds_vary_covers(ngx_str_t *a, ngx_str_t *b);


/*
 * Takes the first name from a list of header names and advances the list.
 * Returns NGX_OK, or NGX_DONE at the end.
 */

ngx_int_t ngx_mcds_vary_next(ngx_str_t *list, ngx_str_t *name);


/*
 * The hash of the header values of a request that selects the variant for it.
 *
 * Values are equal if they differ only in white space around commas and at
 * their ends, or in their distribution over lines.  Accept-Encoding counts as
 * the set of "br", "gzip" and "zstd" that the client accepts, regardless of
 * order and of weights above 0.  Accept-Language and Accept-Charset are
 * compared without case (RFC 5646, 2.1.1; RFC 9110, 8.3.2); of Accept the
 * types and the names of parameters are, but not the values of parameters (RFC
 * 9110, 8.3.1).  In these three white space around semicolons is ignored, too.
 * A line with a quoted string is compared as it is.
 */

typedef enum {
    NGX_MCDS_VARIANT_EXACT = 0,
    NGX_MCDS_VARIANT_ENCODING,    /* the header Accept-Encoding */
    NGX_MCDS_VARIANT_CASELESS,    /* Accept-Language, Accept-Charset */
    NGX_MCDS_VARIANT_MEDIA        /* the header Accept */
} ngx_mcds_variant_e;

typedef struct {
    ngx_md5_t     md5;
    ngx_uint_t    codings;        /* bits of the codings that the request
                                     accepts, so far */
    ngx_uint_t    refused;        /* bits of the codings with weight 0 in
                                     Accept-Encoding */
    ngx_uint_t    kind;           /* kind of the header whose lines are added */
    unsigned      named:1;
    unsigned      any:1;          /* a line of this header was added */
} ngx_mcds_variant_t;


/* Starts the hash of a request's header values that selects its variant. */

void ngx_mcds_variant_begin(ngx_mcds_variant_t *variant);


/*
 * Starts the next header in the hash of a request's header values, in the
 * order of the list of header names.
 */

void ngx_mcds_variant_name(ngx_mcds_variant_t *variant, ngx_str_t *name);


/*
 * Adds a line of the header to the hash of a request's header values; called
 * for each line of the header, in their order, if there are any.
 */

void ngx_mcds_variant_line(ngx_mcds_variant_t *variant, ngx_str_t *value);


/* Writes the hash of a request's header values, NGX_MCDS_VARIANT_LEN bytes. */

void ngx_mcds_variant_end(ngx_mcds_variant_t *variant, u_char *hash);


/*
 * Returns the set of codings that the request accepts; called after the lines
 * of Accept-Encoding were added.
 */

ngx_uint_t ngx_mcds_variant_accepted(ngx_mcds_variant_t *variant);


/*
 * Returns NGX_OK if all codings of a Content-Encoding value are in the set:
 * each client that accepts this set may get the body.  Otherwise NGX_DECLINED.
 */

ngx_int_t ngx_mcds_vary_coded(ngx_uint_t codings, ngx_str_t *value);


/*
 * Writes the suffix that a variant's key adds to the page's key,
 * NGX_MCDS_VARY_SUFFIX_LEN bytes.  Returns its end.
 */

u_char *ngx_mcds_vary_suffix(u_char *p, uint64_t generation, u_char *hash);


/*
 * Sets base to the part of a key before the suffix of a variant, or to the
 * whole key if it has no such suffix.
 */

void ngx_mcds_vary_base(ngx_str_t *key, ngx_str_t *base);


/* the size of the extension for a list of header names, without the names */

#define NGX_MCDS_VARY_EXT         6


/*
 * Returns NGX_OK if the extensions and the body of an entry are a valid list
 * of the headers that a page varies by: the names are normalized, and the body
 * is an array of at most NGX_MCDS_MAX_VARIANTS hashes.  Otherwise
 * NGX_DECLINED.
 */

ngx_int_t ngx_mcds_vary_check(ngx_str_t *ext, ngx_str_t *body);


/*
 * Sets names to the header names in the extensions of an entry; empty if there
 * are none.
 */

void ngx_mcds_vary_names(ngx_str_t *ext, ngx_str_t *names);


/*
 * Returns 1 if the body of a list of variants has the variant with this hash.
 */

ngx_uint_t ngx_mcds_vary_has(ngx_str_t *body, u_char *hash);


/*
 * Writes the extension with the header names that a page varies by:
 * NGX_MCDS_VARY_EXT bytes and the names.  Returns its end.
 */

u_char *ngx_mcds_vary_ext(u_char *p, ngx_str_t *names);


/*
 * The functions above for variants that pages call; ngx_mcds_varying is NULL
 * if the feature is left out of this build: there are no lists of headers
 * then.
 */

typedef struct {
    ngx_int_t   (*check)(ngx_str_t *ext, ngx_str_t *body);
    void        (*base)(ngx_str_t *key, ngx_str_t *base);
} ngx_mcds_varying_t;

extern ngx_mcds_varying_t  *ngx_mcds_varying;
extern ngx_mcds_varying_t   ngx_mcds_vary_functions;


#endif /* _NGX_MCDS_VARY_H_INCLUDED_ */
