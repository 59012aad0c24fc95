
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


/*
 * bytes of the largest body of a request to an HTTP API of mcds, even if
 * client_max_body_size is larger
 */
#define NGX_HTTP_MCDS_BODY        (1024 * 1024)

/*
 * bytes of the longest name of an element, such as a row of a table, in a
 * request
 */
#define NGX_HTTP_MCDS_NAME        1024


typedef struct ngx_http_mcds_resource_s  ngx_http_mcds_resource_t;


/*
 * One request to an HTTP API for a resource (a lock, counter, log, array or
 * table in memcached).  The structure of each API begins with this structure,
 * and lives in a memory pool of its own until memcached has answered the last
 * operation, since operations under way are completed even if the client
 * leaves.  "request" is NULL once the client's request has been freed.
 */

typedef ngx_int_t (*ngx_http_mcds_resource_pt)(ngx_http_mcds_resource_t *res);

struct ngx_http_mcds_resource_s {
    ngx_http_request_t         *request;
    ngx_pool_t                 *pool;
    ngx_uint_t                  waiting;   /* number of the request's operations
                                              that memcached has not answered */
    ngx_http_mcds_resource_pt   respond;   /* responds to the request when
                                              memcached has answered all
                                              operations */
    void                      (*cancel)(ngx_http_mcds_resource_t *res);
    ngx_http_mcds_task_t       *task;      /* the structure by which the request
                                              waits for memcached in the
                                              precontent phase; NULL: it waits
                                              in its content handler */
    ngx_str_t                   body;
    ngx_str_t                   match;     /* value of the request header
                                              If-Match; data is NULL if the
                                              request has no such header */
    ngx_str_t                   none_match;

    /*
     * fields that only ngx_http_mcds_resource.c uses, while it reads the
     * request body and while the request waits in its content handler
     */
    ngx_http_mcds_resource_pt   start;
    ngx_http_mcds_park_t        park;
    size_t                      room;      /* free bytes behind the part of the
                                              request body that was read */

    unsigned                    buffered:1;  /* 1: the request body must fit
                                                into client_body_buffer_size,
                                                and If-Match and If-None-Match
                                                are ignored */
};


/*
 * For a content handler: NGX_DECLINED if the mask "possible" has the request's
 * method, and mcds_api_methods of the location allows the method.  Otherwise a
 * response was sent, and the result is the one for the handler to return.
 */

ngx_int_t ngx_http_mcds_resource_allow(ngx_http_request_t *r,
    ngx_uint_t possible);

/*
 * Responds to a request whose method the content handler does not serve.  The
 * header Allow of the response lists the methods of the mask "methods".  The
 * status is 204 for OPTIONS, if the mask has it, and otherwise 405, with
 * "detail" in problem details.  Returns the result for the handler to return.
 */

ngx_int_t ngx_http_mcds_resource_refuse(ngx_http_request_t *r,
    ngx_uint_t methods, char *detail);

/*
 * Allocates the structure of an API for the request r: size bytes, zeroed but
 * for the ngx_http_mcds_resource_t at their beginning.  The cleanup of r->pool
 * calls res->cancel, if set, which subtracts each operation that it cancels
 * from res->waiting.  NULL when out of memory.
 */

void *ngx_http_mcds_resource_create(ngx_http_request_t *r, size_t size);

/*
 * For a content handler: reads the body of POST, PUT and PATCH requests, and
 * calls start, which either returns the result for a content handler to return,
 * or starts operations of memcached, counts them in res->waiting, and returns
 * NGX_DONE.  Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_begin(ngx_http_mcds_resource_t *res,
    ngx_http_mcds_resource_pt start);

/*
 * For a content handler that has started operations of memcached by itself and
 * has read or discarded the request body: the request waits for the operations.
 * Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_wait(ngx_http_mcds_resource_t *res);

/*
 * Call this once for each operation of an API's request when memcached has
 * answered.  After the last one, unless the client has left, res->respond is
 * called at the end of this turn of the event loop; it returns the result for a
 * content handler to return, or NGX_DONE if it has started further operations.
 * If res->task is set, ngx_http_mcds_task_result() is called instead of
 * res->respond.  This call may free the resource.
 */

void ngx_http_mcds_resource_done(ngx_http_mcds_resource_t *res);


/*
 * Adds the ETag of an item to the response: the item's CAS, which a memcached
 * server may give again after a restart, and the CRC32 of its text.  Adds
 * nothing if cas is 0.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_resource_etag(ngx_http_request_t *r, uint64_t cas,
    uint32_t crc);

/*
 * 1 if the request headers If-Match and If-None-Match (RFC 9110, 13.1) permit a
 * change of the item; found is 0 if the item does not exist.
 */

ngx_uint_t ngx_http_mcds_resource_match(ngx_http_mcds_resource_t *res,
    ngx_uint_t found, uint64_t cas, uint32_t crc);


/*
 * Sends problem details for the result rc, ngx_mcds_rc_e, of an operation that
 * has failed in memcached: with status 409, 503 or 507.  Returns the result for
 * the content handler to return.
 */

ngx_int_t ngx_http_mcds_resource_failed(ngx_http_request_t *r, ngx_uint_t rc);


/*
 * Returns the media type that the client wants for the response,
 * ngx_http_mcds_type_e: that of the argument "format" (NGX_HTTP_MCDS_OTHER for
 * an unknown word), or else of the header Accept, where JSON is the default.
 */

ngx_uint_t ngx_http_mcds_resource_wants(ngx_http_request_t *r);

/* the media type of the request's body, ngx_http_mcds_type_e */

ngx_uint_t ngx_http_mcds_resource_has(ngx_http_request_t *r);


/* the request header of that name, which is in lower case, or NULL */

ngx_table_elt_t *ngx_http_mcds_resource_header(ngx_http_request_t *r,
    char *name);


/*
 * Finds an argument of the request by its name, and decodes the argument's
 * value (%XX, and "+" as a space) into memory of r->pool.  NGX_DECLINED: the
 * request has no such argument; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_resource_arg(ngx_http_request_t *r, char *name,
    ngx_str_t *value);


/*
 * Finds the name of the element (a lock, counter or row, for example) that a
 * request to an API is about: the argument "name", or else the rest of the URI
 * behind the name of a prefix location.  NGX_DECLINED: *name is set, and empty
 * if the request gives no name.  Any other result is an error for the content
 * handler to return: the argument is empty, the URI does not begin with the
 * location's name or continues it without a "/", or there is no memory.
 */

ngx_int_t ngx_http_mcds_resource_name(ngx_http_request_t *r, ngx_str_t *name);

/*
 * Checks the name of a lock, of a row of a table or of another element that a
 * request is about: NULL if the name is valid, or the error as a constant.
 */

char *ngx_http_mcds_resource_check_name(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_ */
