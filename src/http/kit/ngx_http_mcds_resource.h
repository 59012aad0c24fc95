
/*
 * Copyright (C) mcds authors
 *
 * Counters, locks, logs, arrays, tables and purges as HTTP resources: methods,
 * bodies, ETags, and a request that waits for memcached.
 */


#ifndef _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_
#define _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_text.h"


/* bytes of the largest request body, whatever client_max_body_size is */
#define NGX_HTTP_MCDS_BODY        (1024 * 1024)

/* the longest name that a request gives, bytes */
#define NGX_HTTP_MCDS_NAME        1024


typedef struct ngx_http_mcds_resource_s  ngx_http_mcds_resource_t;


/*
 * One request for a resource, as the first member of the feature's own
 * structure.  It lives in a pool of its own until memcached has answered the
 * last operation, since operations under way are completed even if the client
 * leaves.  "request" is NULL from the moment when the client's request is
 * freed.
 */

typedef ngx_int_t (*ngx_http_mcds_resource_pt)(ngx_http_mcds_resource_t *res);

struct ngx_http_mcds_resource_s {
    ngx_http_request_t         *request;
    ngx_pool_t                 *pool;
    ngx_uint_t                  waiting;   /* operations that memcached has not
                                              answered */
    ngx_http_mcds_resource_pt   answer;    /* called when "waiting" is 0 */
    void                      (*cancel)(ngx_http_mcds_resource_t *res);
    ngx_http_mcds_task_t       *task;      /* the task that waits instead, for
                                              a request in a phase */
    ngx_str_t                   body;
    ngx_str_t                   match;     /* If-Match, or empty */
    ngx_str_t                   none_match;

    /* fields that only resource.c uses */
    ngx_http_mcds_resource_pt   start;
    ngx_http_mcds_park_t        park;
    size_t                      room;      /* free bytes behind the body */

    unsigned                    buffered:1;  /* the body must fit into
                                                client_body_buffer_size, and
                                                conditions are ignored */
};


/*
 * NGX_DECLINED if the method is among the possible ones and mcds_api_methods
 * of the location allows the method.  Otherwise a response was sent, and the
 * handler returns this result.
 */

ngx_int_t ngx_http_mcds_resource_allow(ngx_http_request_t *r,
    ngx_uint_t possible);

/*
 * Responds to a method that is not allowed: to OPTIONS, if the mask methods
 * has it, with 204 and the header Allow, to any other with 405 and problem
 * details.  Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_refuse(ngx_http_request_t *r,
    ngx_uint_t methods, char *detail);

/*
 * Allocates size bytes, zeroed but for the resource at their beginning.  The
 * cleanup of r->pool calls res->cancel, if set, which takes each operation
 * that it cancels off res->waiting.  NULL when out of memory.
 */

void *ngx_http_mcds_resource_create(ngx_http_request_t *r, size_t size);

/*
 * For a content handler: reads the body of POST, PUT and PATCH, and calls
 * start, which either returns a content handler's result, or starts
 * operations, counts them in res->waiting, and returns NGX_DONE.  Returns the
 * result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_begin(ngx_http_mcds_resource_t *res,
    ngx_http_mcds_resource_pt start);

/*
 * For a content handler that has started operations by itself and has read or
 * discarded the body: the request waits for the operations.  Returns the
 * result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_wait(ngx_http_mcds_resource_t *res);

/*
 * Call this once for each operation when memcached has answered.  After the
 * last one, res->answer is called at the end of this turn, unless the client
 * has left, and returns as start does.  The resource may be freed by this
 * call.
 */

void ngx_http_mcds_resource_done(ngx_http_mcds_resource_t *res);


/*
 * Sends the ETag of an item: its CAS, which a server may give again after a
 * restart, and the CRC32 of its text.  Sends nothing if cas is 0.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_resource_etag(ngx_http_request_t *r, uint64_t cas,
    uint32_t crc);

/*
 * 1 if If-Match and If-None-Match (RFC 9110, 13.1) permit a change of the
 * item; found is 0 if the item does not exist.
 */

ngx_uint_t ngx_http_mcds_resource_match(ngx_http_mcds_resource_t *res,
    ngx_uint_t found, uint64_t cas, uint32_t crc);


/*
 * Sends problem details for the result rc of memcached, ngx_mcds_rc_e: 409,
 * 503 or 507.  Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_failed(ngx_http_request_t *r, ngx_uint_t rc);


/*
 * The type that the client asks for, ngx_http_mcds_type_e: by the argument
 * "format", where any unknown word is OTHER, or else by Accept, where JSON is
 * the default.
 */

ngx_uint_t ngx_http_mcds_resource_wants(ngx_http_request_t *r);

/* the type of the request's body, ngx_http_mcds_type_e */

ngx_uint_t ngx_http_mcds_resource_has(ngx_http_request_t *r);


/* the request header of that name, in lower case, or NULL */

ngx_table_elt_t *ngx_http_mcds_resource_header(ngx_http_request_t *r,
    char *name);


/*
 * The value of an argument, form-decoded into memory of r->pool.
 * NGX_DECLINED: the request has no such argument; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_resource_arg(ngx_http_request_t *r, char *name,
    ngx_str_t *value);


/*
 * The name of the element that a request is about: the argument "name", or
 * else the rest of the URI behind the name of a prefix location; the name may
 * be empty.  NGX_DECLINED: the URI continues the location's name without a
 * "/"; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_resource_name(ngx_http_request_t *r, ngx_str_t *name);

/* NULL if the name is valid, or the error as a constant */

char *ngx_http_mcds_resource_check_name(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_ */
