
/*
 * Copyright (C) mcds authors
 *
 * Request headers by which an application takes a request for another one:
 * those of proxies, that say how a client has asked them, and those that say
 * which method is meant.
 */


#ifndef _NGX_MCDS_FORWARDED_H_INCLUDED_
#define _NGX_MCDS_FORWARDED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* what the request is without such headers */

typedef struct {
    ngx_str_t     scheme;         /* "http" or "https" */
    ngx_str_t     host;           /* the header Host, with its port */
    ngx_uint_t    port;           /* of that, or of the scheme */
    ngx_uint_t    local_port;     /* where the server listens */
} ngx_mcds_own_t;


/*
 * 1 if a method override has this name.  Here and below, names are the same in
 * any case, and with any character in place of "-": CGI makes "_" of it, and
 * PHP "_" of "." and some more.
 */

ngx_uint_t ngx_mcds_forwarded_method(ngx_str_t *name);


/*
 * name: which of the names a header has, or NULL; names is an array of
 * ngx_str_t, or NULL for the built-in ones.  add: the built-in ones to names;
 * NGX_ERROR: out of memory.
 */

ngx_str_t *ngx_mcds_forwarded_name(ngx_array_t *names, ngx_str_t *header);
ngx_int_t ngx_mcds_forwarded_add(ngx_array_t *names);


/*
 * differs: 1 if the value of the header of this name says something else than
 * own.  A host, a scheme or a port is compared, if the name is a built-in one
 * that has such a value; anything else differs.
 *
 * write: adds name and value to a text that is another one for any other name
 * or value.  Of "Forwarded", the addresses ("for", "by") are left out, unless
 * it is malformed.  At most NGX_MCDS_FORWARDED_LEN, and the bytes of both, are
 * written; the end is returned.
 */

#define NGX_MCDS_FORWARDED_LEN                                                \
    (2 * NGX_SIZE_T_LEN + sizeof(":,:,") - 1)

ngx_uint_t ngx_mcds_forwarded_differs(ngx_str_t *name, ngx_str_t *value,
    ngx_mcds_own_t *own);
u_char *ngx_mcds_forwarded_write(u_char *p, ngx_str_t *name,
    ngx_str_t *value);


#endif /* _NGX_MCDS_FORWARDED_H_INCLUDED_ */
