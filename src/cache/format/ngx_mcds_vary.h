
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
 * the list is the MD5s of the stored variants, 16 bytes each, so that mcds can
 * limit the number of variants.
 */


#ifndef _NGX_MCDS_VARY_H_INCLUDED_
#define _NGX_MCDS_VARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>


/*
 * the maximum number of headers that a page varies by, and the maximum bytes
 * of the list of their names, with its commas
 */
#define NGX_MCDS_MAX_VARY         16
#define NGX_MCDS_MAX_VARY_LEN     512

#define NGX_MCDS_VARIANT_LEN      16

/* the maximum number of variants of a page that can be configured */
#define NGX_MCDS_MAX_VARIANTS     1024

/*
 * not a header, but a name in the list of headers that a page varies by: it
 * stands for the page's route (its location and final URI), see
 * ngx_http_mcds_route.h
 */
#define NGX_MCDS_VARY_ROUTE       "!route"

/*
 * the length of the suffix that the key of a variant adds to the key of its
 * page
 */
#define NGX_MCDS_VARY_SUFFIX_LEN                                              \
    (sizeof(":vary:0123456789abcdef:") - 1 + 2 * NGX_MCDS_VARIANT_LEN)


/*
 * Adds the names of a Vary header line, or of another list, to the list of
 * headers that a page varies by: in lower case, sorted, without duplicates,
 * separated by ",".  list->data has room for NGX_MCDS_MAX_VARY_LEN bytes, and
 * list->len is 0 before the first call.  Returns NGX_DECLINED for "*", for a
 * value that is no list of tokens, or if there are too many names: no page can
 * be found by such a list.
 */

ngx_int_t ngx_mcds_vary_add(ngx_str_t *list, ngx_str_t *value);


/*
 * Returns 1 if a, a list of header names that a page varies by, contains each
 * name of the list b.
 */

ngx_uint_t ngx_mcds_vary_covers(ngx_str_t *a, ngx_str_t *b);


/*
 * Takes the first name from the list of headers that a page varies by, and
 * advances the list.  Returns NGX_OK, or NGX_DONE at the end.
 */

ngx_int_t ngx_mcds_vary_next(ngx_str_t *list, ngx_str_t *name);


/*
 * The hash that selects the variant for a request: the MD5 of the values of
 * the request headers that the page varies by.
 *
 * Values are equal if they differ only in white space around commas and at
 * their ends, or in their distribution over lines.  Accept-Encoding counts as
 * the set of "br", "gzip" and "zstd" that the client accepts, regardless of
 * order and of weights above 0.  Accept-Language and Accept-Charset are
 * compared without case (RFC 5646, 2.1.1; RFC 9110, 8.3.2).  In Accept the
 * types and the names of parameters are compared without case, the values of
 * parameters with case (RFC 9110, 8.3.1).  In these three headers white space
 * around semicolons is ignored, too.  A line with a quoted string is compared
 * as it is, but for white space at its ends.
 */

typedef enum {
    NGX_MCDS_VARIANT_EXACT = 0,
    NGX_MCDS_VARIANT_ENCODING,    /* Accept-Encoding: its value counts as the
                                     set of codings that the request accepts */
    NGX_MCDS_VARIANT_CASELESS,    /* Accept-Language and Accept-Charset:
                                     compared without case */
    NGX_MCDS_VARIANT_MEDIA        /* Accept: only the types and the names of
                                     parameters are compared without case */
} ngx_mcds_variant_e;

typedef struct {
    ngx_md5_t     md5;
    ngx_uint_t    codings;        /* bits of the codings that Accept-Encoding
                                     accepts, so far */
    ngx_uint_t    refused;        /* bits of the codings with weight 0 in the
                                     request's Accept-Encoding */
    ngx_uint_t    kind;           /* how values of the request header that is
                                     being hashed are compared,
                                     ngx_mcds_variant_e */
    unsigned      named:1;
    unsigned      any:1;          /* the request has a line of the header that
                                     is being hashed */
} ngx_mcds_variant_t;


/* Starts the hash that selects the variant of a page for a request. */

void ngx_mcds_variant_begin(ngx_mcds_variant_t *variant);


/*
 * Starts the next request header in the hash that selects the variant for a
 * request.  Headers are added in the order of the list of headers that the page
 * varies by.
 */

void ngx_mcds_variant_name(ngx_mcds_variant_t *variant, ngx_str_t *name);


/*
 * Adds a line of the request header that ngx_mcds_variant_name() has started to
 * the hash that selects the variant for a request; called for each line of the
 * header, in the order of the lines.
 */

void ngx_mcds_variant_line(ngx_mcds_variant_t *variant, ngx_str_t *value);


/*
 * Ends the hash that selects the variant for a request, and writes it to
 * "hash", NGX_MCDS_VARIANT_LEN bytes.
 */

void ngx_mcds_variant_end(ngx_mcds_variant_t *variant, u_char *hash);


/*
 * Returns the set of codings that a request accepts by its Accept-Encoding;
 * called after the lines of this header were added.
 */

ngx_uint_t ngx_mcds_variant_accepted(ngx_mcds_variant_t *variant);


/*
 * Returns NGX_OK if the set "codings" has all codings in "value", the
 * Content-Encoding of a response: each client that accepts this set may get the
 * body.  Otherwise NGX_DECLINED.
 */

ngx_int_t ngx_mcds_vary_coded(ngx_uint_t codings, ngx_str_t *value);


/*
 * Writes the suffix that a variant's key adds to the key of its page,
 * NGX_MCDS_VARY_SUFFIX_LEN bytes.  Returns the end of the suffix.
 */

u_char *ngx_mcds_vary_suffix(u_char *p, uint64_t generation, u_char *hash);


/*
 * If key is the key of a variant, sets base to the key of the variant's page:
 * the part of key before the suffix.  Otherwise sets base to the whole key.
 */

void ngx_mcds_vary_base(ngx_str_t *key, ngx_str_t *base);


/*
 * the size of an entry's extension with the names of the headers that a page
 * varies by, not counting the names themselves
 */

#define NGX_MCDS_VARY_EXT         6


/*
 * Returns NGX_OK if an entry, by its extensions and its body, is a valid list
 * of the headers that a page varies by: the names are normalized, and the body
 * is an array of at most NGX_MCDS_MAX_VARIANTS hashes of variants.  Otherwise
 * NGX_DECLINED.
 */

ngx_int_t ngx_mcds_vary_check(ngx_str_t *ext, ngx_str_t *body);


/*
 * Sets *names to the names of the headers that a page varies by.  One of the
 * extensions of an entry (typed fields behind the key) has the names; *names is
 * empty if the entry has no such extension.
 */

void ngx_mcds_vary_names(ngx_str_t *ext, ngx_str_t *names);


/*
 * Returns 1 if the list of a page's variants contains the variant with this
 * hash; body is the body of the list's entry.
 */

ngx_uint_t ngx_mcds_vary_has(ngx_str_t *body, u_char *hash);


/*
 * Writes the extension of an entry with the names of the headers that a page
 * varies by: NGX_MCDS_VARY_EXT bytes and the names.  Returns its end.
 */

u_char *ngx_mcds_vary_ext(u_char *p, ngx_str_t *names);


/*
 * The functions for lists of the headers that pages vary by; ngx_mcds_varying
 * is NULL if this build of mcds has no variants (MCDS_WITHOUT): there are no
 * such lists then.
 */

typedef struct {
    ngx_int_t   (*check)(ngx_str_t *ext, ngx_str_t *body);
    void        (*base)(ngx_str_t *key, ngx_str_t *base);
} ngx_mcds_varying_t;

extern ngx_mcds_varying_t  *ngx_mcds_varying;
extern ngx_mcds_varying_t   ngx_mcds_vary_functions;


#endif /* _NGX_MCDS_VARY_H_INCLUDED_ */
