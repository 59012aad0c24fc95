
/*
 * Copyright (C) mcds authors
 *
 * Content codings, RFC 9110, 8.4: bodies are coded and decoded in pieces, as
 * they come.  And what an Accept-Encoding says of them, 12.5.3.
 */


#ifndef _NGX_MCDS_CODING_H_INCLUDED_
#define _NGX_MCDS_CODING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* as they are stored, see ngx_mcds_entry.h */

typedef enum {
    NGX_MCDS_CODING_NONE = 0,
    NGX_MCDS_CODING_GZIP,
    NGX_MCDS_CODING_ZSTD
} ngx_mcds_coding_e;


typedef struct ngx_mcds_encoder_s  ngx_mcds_encoder_t;
typedef struct ngx_mcds_decoder_s  ngx_mcds_decoder_t;


/* its name; of a name: NGX_MCDS_CODING_NONE if it is not known */

ngx_str_t *ngx_mcds_coding_name(ngx_uint_t coding);
ngx_uint_t ngx_mcds_coding_find(ngx_str_t *name);


/* levels from 1 to that; 0 as level is the usual one */

ngx_int_t ngx_mcds_coding_max_level(ngx_uint_t coding);


/* NULL: out of memory.  free: of NULL, too */

ngx_mcds_encoder_t *ngx_mcds_encoder_create(ngx_uint_t coding,
    ngx_int_t level);
void ngx_mcds_encoder_free(ngx_mcds_encoder_t *encoder);


/*
 * More of a body; last: that was all of it.  What becomes of it is handed to
 * the handler, maybe in several pieces, which are gone when that returns.
 * NGX_OK; NGX_ERROR; or what else the handler has returned.  Nothing can be
 * done with the encoder after that but to free it.
 */

typedef ngx_int_t (*ngx_mcds_encoded_pt)(void *data, u_char *p, size_t len);

ngx_int_t ngx_mcds_encoder_run(ngx_mcds_encoder_t *encoder, u_char *p,
    size_t len, ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data);


/*
 * length: of the body without its coding.  A window of 8 MB is the most that
 * is accepted, as RFC 9659 has it; what the encoder makes needs 256 KB.
 */

ngx_mcds_decoder_t *ngx_mcds_decoder_create(ngx_uint_t coding,
    uint64_t length);
void ngx_mcds_decoder_free(ngx_mcds_decoder_t *decoder);


/*
 * Decodes what is in "in" to *pos, but not beyond end; both move on.  NGX_OK:
 * there is no room; NGX_AGAIN: more is needed, "in" is empty; NGX_DONE: that
 * was all; NGX_ERROR: it is broken, or not of the length that was given, or
 * something is behind its end.
 */

ngx_int_t ngx_mcds_decoder_run(ngx_mcds_decoder_t *decoder, ngx_str_t *in,
    u_char **pos, u_char *end);


/*
 * Accept-Encoding.  init; then all of its lines; accepts: 1 if a body may be
 * sent in the coding, and is not rather wanted without one.
 */

typedef struct {
    ngx_int_t    gzip;            /* weight in thousandths; -1: not named */
    ngx_int_t    zstd;
    ngx_int_t    identity;
    ngx_int_t    any;
} ngx_mcds_accept_t;

void ngx_mcds_accept_init(ngx_mcds_accept_t *accept);
void ngx_mcds_accept_line(ngx_mcds_accept_t *accept, ngx_str_t *value);
ngx_uint_t ngx_mcds_accepts(ngx_mcds_accept_t *accept, ngx_uint_t coding);


#endif /* _NGX_MCDS_CODING_H_INCLUDED_ */
