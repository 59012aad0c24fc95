
/*
 * Copyright (C) mcds authors
 *
 * Inside of proto/: what both dialects write and read alike.
 */


#ifndef _NGX_MCDS_CODEC_H_INCLUDED_
#define _NGX_MCDS_CODEC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_proto.h"


#define ngx_mcds_encode_literal(p, s)  ngx_cpymem(p, s, sizeof(s) - 1)


/* both return the end of what was written */

u_char *ngx_mcds_encode_key(u_char *p, ngx_str_t *key);
u_char *ngx_mcds_encode_decimal(u_char *p, uint64_t n);


/*
 * line: looks for a line at b->pos, without taking it.  NGX_OK: it ends at
 * *last, where its CRLF begins; NGX_AGAIN and NGX_ERROR as ngx_mcds_parse().
 * failed: leaves of the reply what the log is to show of the line; returns
 * NGX_ERROR.
 *
 * words: VERSION and the errors of a server; NGX_ERROR for anything else.
 */

ngx_int_t ngx_mcds_parse_line(ngx_mcds_reply_t *reply, ngx_buf_t *b,
    u_char **last);
ngx_int_t ngx_mcds_parse_failed(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);
ngx_int_t ngx_mcds_parse_words(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);


/*
 * Part of a line, from p on: the place behind it, or NULL.  A decimal has no
 * sign and no leading zeros; what may stand behind it is for the caller to say.
 */

u_char *ngx_mcds_parse_key(ngx_str_t *key, u_char *p, u_char *last);
u_char *ngx_mcds_parse_decimal(uint64_t *number, uint64_t max, u_char *p,
    u_char *last);


#endif /* _NGX_MCDS_CODEC_H_INCLUDED_ */
