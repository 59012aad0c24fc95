
/*
 * Copyright (C) mcds authors
 *
 * Request headers that make an application take a request for a different one:
 * the headers in which proxies pass on the original request, and those that
 * override the method.
 */


#ifndef _NGX_MCDS_FORWARDED_H_INCLUDED_
#define _NGX_MCDS_FORWARDED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * the scheme, host and ports of a request as nginx sees them, without the
 * headers that proxies add, such as X-Forwarded-Host
 */

typedef struct {
    ngx_str_t     scheme;         /* the request's scheme, "http" or "https" */
    ngx_str_t     host;           /* the request's header Host, with its port */
    ngx_uint_t    port;           /* port in the request's Host, or the default
                                     port of the scheme */
    ngx_uint_t    local_port;     /* port on which nginx received the
                                     request */
} ngx_mcds_own_t;


/*
 * Returns 1 if a header of this name, such as X-HTTP-Method-Override,
 * overrides the method of the request.  All names in this file are compared
 * without case, and any character but a letter or digit is equal to "-": CGI
 * turns "-" into "_", and PHP turns "." and other characters into "_".
 */

ngx_uint_t ngx_mcds_forwarded_method(ngx_str_t *name);


/*
 * Returns the name in names, an array of ngx_str_t, that is equal to the name
 * of a request header, or NULL.  If names is NULL, mcds's own list of headers
 * that proxies add, such as X-Forwarded-Host, is used.
 */

ngx_str_t *ngx_mcds_forwarded_name(ngx_array_t *names, ngx_str_t *header);


/*
 * Adds mcds's own list of headers that proxies add, such as X-Forwarded-Host,
 * to names, an array of ngx_str_t.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_forwarded_add(ngx_array_t *names);


/*
 * the maximum number of bytes that ngx_mcds_forwarded_write() needs for a
 * header in the text of a cache key, beside its name and its value
 */

#define NGX_MCDS_FORWARDED_LEN                                                \
    (2 * NGX_SIZE_T_LEN + sizeof(":,:,") - 1)


/*
 * Returns 1 if the value of a forwarding header, such as X-Forwarded-Host,
 * contradicts "own", the request as nginx sees it.  Only headers that mcds
 * knows itself, without configuration, and that tell a host, scheme or port are
 * compared; the value of any other header counts as different.
 */

ngx_uint_t ngx_mcds_forwarded_differs(ngx_str_t *name, ngx_str_t *value,
    ngx_mcds_own_t *own);


/*
 * Writes name and value of a forwarding header, such as X-Forwarded-Host, to
 * the text of a cache key so that different headers have different texts.  The
 * addresses ("for", "by") of "Forwarded" are left out, unless the value is
 * malformed.  Writes at most NGX_MCDS_FORWARDED_LEN bytes plus the lengths of
 * name and value.  Returns the end.
 */

u_char *ngx_mcds_forwarded_write(u_char *p, ngx_str_t *name,
    ngx_str_t *value);


#endif /* _NGX_MCDS_FORWARDED_H_INCLUDED_ */
