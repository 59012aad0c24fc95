
/*
 * Copyright (C) mcds authors
 *
 * Texts of others in JSON.
 */


#ifndef _NGX_MCDS_JSON_H_INCLUDED_
#define _NGX_MCDS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * A text as a JSON string, without the quotes, that may stand in HTML and in
 * a script: "<", ">", "&" and "'" are written as \u00XX, what is not UTF-8 as
 * \ufffd.  Returns the end; with dst NULL, how many bytes there would be.
 */

uintptr_t ngx_mcds_json_string(u_char *dst, ngx_str_t *text);


/* 1 if the text is UTF-8, RFC 3629 */

ngx_uint_t ngx_mcds_json_utf8(ngx_str_t *text);


#endif /* _NGX_MCDS_JSON_H_INCLUDED_ */
