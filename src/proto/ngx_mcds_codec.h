
/*
 * Copyright (C) mcds authors
 *
 * Private to proto/: functions that the meta and the classic protocol of
 * memcached share.
 */


#ifndef _NGX_MCDS_CODEC_H_INCLUDED_
#define _NGX_MCDS_CODEC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_proto.h"


#define ngx_mcds_encode_literal(p, s)  ngx_cpymem(p, s, sizeof(s) - 1)


/* Copies the key into a command line, and returns the end of the copy. */

u_char *ngx_mcds_encode_key(u_char *p, ngx_str_t *key);


/*
 * Clears the reply, and looks for a whole line at b->pos, without consuming the
 * line.  NGX_OK: *last is the CRLF at the line's end; NGX_AGAIN: the line is
 * incomplete; NGX_ERROR: the line is too long or ends with an LF without a CR,
 * and reply->text is the beginning of the line, for the log.
 */

ngx_int_t ngx_mcds_parse_line(ngx_mcds_reply_t *reply, ngx_buf_t *b,
    u_char **last);


/*
 * Handles a reply that is malformed: clears the reply, and sets reply->text to
 * the part of the line that is safe to log.  Always returns NGX_ERROR.
 */

ngx_int_t ngx_mcds_parse_failed(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);


/*
 * Parses the replies that the meta and the classic protocol have in common:
 * VERSION, SERVER_ERROR, and the CLIENT_ERROR about a value that is no number.
 * Returns NGX_ERROR for any other line.
 */

ngx_int_t ngx_mcds_parse_words(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);


/*
 * Parses a key at p in a reply, up to a space or last.  Returns the end of the
 * key, or NULL if it is malformed.
 */

u_char *ngx_mcds_parse_key(ngx_str_t *key, u_char *p, u_char *last);


/*
 * Parses a decimal number of at most max at p in a reply, without a sign and
 * without leading zeros.  Returns the first byte that is not a digit, which the
 * caller has to check, or NULL if there is no such number.
 */

u_char *ngx_mcds_parse_decimal(uint64_t *number, uint64_t max, u_char *p,
    u_char *last);


#endif /* _NGX_MCDS_CODEC_H_INCLUDED_ */
