
/*
 * Copyright (C) mcds authors
 *
 * Writes untrusted text as JSON.
 */


#ifndef _NGX_MCDS_JSON_H_INCLUDED_
#define _NGX_MCDS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Writes a text as the inside of a JSON string, without the quotes.  The result
 * is also safe in HTML and in a script: "<", ">", "&" and "'" become \u00XX,
 * and each byte that is not UTF-8 becomes \ufffd.  Returns the end of the
 * output or, if dst is NULL, the length that the output would have.
 */

uintptr_t ngx_mcds_json_string(u_char *dst, ngx_str_t *text);


/* Returns 1 if the text is UTF-8 (RFC 3629). */

ngx_uint_t ngx_mcds_json_utf8(ngx_str_t *text);


#endif /* _NGX_MCDS_JSON_H_INCLUDED_ */
