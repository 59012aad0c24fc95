
/*
 * Copyright (C) mcds authors
 *
 * Content codings (RFC 9110, 8.4).  Bodies are encoded and decoded piece by
 * piece.  Accept-Encoding (12.5.3) tells which codings a client accepts.
 */


#ifndef _NGX_MCDS_CODING_H_INCLUDED_
#define _NGX_MCDS_CODING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * the codings (compression) of stored bodies; the numbers are stored in the
 * entries of pages, see ngx_mcds_entry.h
 */

typedef enum {
    NGX_MCDS_CODING_NONE = 0,
    NGX_MCDS_CODING_GZIP,
    NGX_MCDS_CODING_ZSTD
} ngx_mcds_coding_e;


typedef struct ngx_mcds_encoder_s  ngx_mcds_encoder_t;
typedef struct ngx_mcds_decoder_s  ngx_mcds_decoder_t;


/*
 * Returns the name of a coding of bodies, such as "gzip"; an empty string for
 * NGX_MCDS_CODING_NONE.
 */

ngx_str_t *ngx_mcds_coding_name(ngx_uint_t coding);


/*
 * Returns the coding of bodies with this name, such as "gzip", or
 * NGX_MCDS_CODING_NONE if it is unknown.
 */

ngx_uint_t ngx_mcds_coding_find(ngx_str_t *name);


/*
 * Returns the maximum compression level of gzip or zstd; the minimum is 1, and
 * level 0 stands for the default of the compression library.
 */

ngx_int_t ngx_mcds_coding_max_level(ngx_uint_t coding);


/*
 * Creates an encoder, which compresses a body.  Returns NULL if out of memory.
 */

ngx_mcds_encoder_t *ngx_mcds_encoder_create(ngx_uint_t coding,
    ngx_int_t level);


/* Frees an encoder of bodies, which may be NULL. */

void ngx_mcds_encoder_free(ngx_mcds_encoder_t *encoder);


/*
 * The handler that receives the compressed bytes of a body from an encoder;
 * they are valid only during the call.  Any result but NGX_OK stops the
 * encoder.
 */

typedef ngx_int_t (*ngx_mcds_encoded_pt)(void *data, u_char *p, size_t len);


/*
 * Compresses the next bytes of a body; last: these are the body's final bytes.
 * The handler is called for each piece of compressed bytes.  Returns NGX_OK,
 * NGX_ERROR, or the result of the handler if it was not NGX_OK.  After any
 * result but NGX_OK the encoder can only be freed.
 */

ngx_int_t ngx_mcds_encoder_run(ngx_mcds_encoder_t *encoder, u_char *p,
    size_t len, ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data);


/*
 * Creates a decoder of compressed bodies; length is that of the decoded body.
 * The decoder accepts a zstd window of up to 8 MB, the limit of RFC 9659;
 * bodies encoded by ngx_mcds_encoder_run() need 256 KB.  Returns NULL if out
 * of memory.
 */

ngx_mcds_decoder_t *ngx_mcds_decoder_create(ngx_uint_t coding,
    uint64_t length);


/* Frees a decoder of bodies, which may be NULL. */

void ngx_mcds_decoder_free(ngx_mcds_decoder_t *decoder);


/*
 * Decodes bytes of a compressed body from "in" to *pos, but not beyond end;
 * advances both.  NGX_OK: the output is full.  NGX_AGAIN: "in" is empty, more
 * input is needed.  NGX_DONE: the body is complete.  NGX_ERROR: the body is
 * malformed, has not the expected length, or is followed by other bytes.
 */

ngx_int_t ngx_mcds_decoder_run(ngx_mcds_decoder_t *decoder, ngx_str_t *in,
    u_char **pos, u_char *end);


/* the weights of the codings that a request's Accept-Encoding lists */

typedef struct {
    ngx_int_t    gzip;            /* weight of gzip in Accept-Encoding, in
                                     thousandths; -1: gzip is not listed;
                                     likewise zstd, identity and any ("*") */
    ngx_int_t    zstd;
    ngx_int_t    identity;
    ngx_int_t    any;
} ngx_mcds_accept_t;


/*
 * Starts the evaluation of a request's Accept-Encoding: no coding is listed
 * yet.
 */

void ngx_mcds_accept_init(ngx_mcds_accept_t *accept);


/*
 * Evaluates one header line of a request's Accept-Encoding; called for each
 * line.
 */

void ngx_mcds_accept_line(ngx_mcds_accept_t *accept, ngx_str_t *value);


/*
 * Returns 1 if a client accepts a body in a coding, such as gzip, and does not
 * prefer an unencoded one.
 */

ngx_uint_t ngx_mcds_accepts(ngx_mcds_accept_t *accept, ngx_uint_t coding);


#endif /* _NGX_MCDS_CODING_H_INCLUDED_ */
