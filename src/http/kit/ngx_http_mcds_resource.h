
/*
 * Copyright (C) mcds authors
 *
 * Counters, locks, logs, arrays, tables and purges as resources of HTTP:
 * methods, bodies, ETags, and a request that waits for memcached.
 */


#ifndef _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_
#define _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_text.h"


/* the largest body of a request, whatever client_max_body_size says; bytes */
#define NGX_HTTP_MCDS_BODY        (1024 * 1024)

/* the longest name of an element, bytes */
#define NGX_HTTP_MCDS_NAME        1024


typedef struct ngx_http_mcds_resource_s  ngx_http_mcds_resource_t;


/*
 * One request.  It lives in a pool of its own until the last operation has
 * been answered, since what was begun is finished also when the client has
 * left; then, and only then, request is NULL.  The first member of what who
 * uses it needs, too.
 */

typedef ngx_int_t (*ngx_http_mcds_resource_pt)(ngx_http_mcds_resource_t *res);

struct ngx_http_mcds_resource_s {
    ngx_http_request_t         *request;
    ngx_pool_t                 *pool;
    ngx_uint_t                  waiting;   /* operations under way */
    ngx_http_mcds_resource_pt   answer;    /* when there are none any more */
    void                      (*cancel)(ngx_http_mcds_resource_t *res);
    ngx_http_mcds_task_t       *task;      /* in a phase: it waits instead */
    ngx_str_t                   body;
    ngx_str_t                   match;     /* If-Match, or empty */
    ngx_str_t                   none_match;

    /* of resource.c */
    ngx_http_mcds_resource_pt   start;
    ngx_http_mcds_park_t        park;
    size_t                      room;      /* behind the body */

    unsigned                    buffered:1;  /* the body must fit into
                                                client_body_buffer_size, and
                                                there are no conditions */
};


/*
 * allow: NGX_DECLINED: mcds_api_methods of the location allows the method, and
 * it is a possible one; otherwise the request was answered, and the handler is
 * to return this.  refuse: answers a request with another method than these:
 * OPTIONS, if it is one of them, with what there is, any other with 405.
 *
 * create: size bytes, all 0 but the resource they begin with; NULL when out
 * of memory.
 *
 * begin: returns what a content handler is to return.  Reads the body, if
 * there may be one, and calls start, which either returns what the content
 * handler would return, or has begun operations and returns NGX_DONE.
 *
 * wait: the same for a content handler that has begun operations by itself, and
 * has read or discarded the body.
 *
 * done: an operation was answered; after the last one answer is called, if
 * the client is still there, which returns as start does.  Nothing of it is
 * to be used after that.
 *
 * cancel, if there is one, is called when the request is freed: an operation
 * that it cancels is not counted in waiting any more.
 */

ngx_int_t ngx_http_mcds_resource_allow(ngx_http_request_t *r,
    ngx_uint_t possible);
ngx_int_t ngx_http_mcds_resource_refuse(ngx_http_request_t *r,
    ngx_uint_t methods, char *detail);
void *ngx_http_mcds_resource_create(ngx_http_request_t *r, size_t size);
ngx_int_t ngx_http_mcds_resource_begin(ngx_http_mcds_resource_t *res,
    ngx_http_mcds_resource_pt start);
ngx_int_t ngx_http_mcds_resource_wait(ngx_http_mcds_resource_t *res);
void ngx_http_mcds_resource_done(ngx_http_mcds_resource_t *res);


/*
 * ETags are made of the CAS of an item, which a server may give again after a
 * restart, and the CRC32 of its text.
 *
 * etag: sends it; nothing when cas is 0.  match: 1 if If-Match and
 * If-None-Match allow to change what was found.
 */

ngx_int_t ngx_http_mcds_resource_etag(ngx_http_request_t *r, uint64_t cas,
    uint32_t crc);
ngx_uint_t ngx_http_mcds_resource_match(ngx_http_mcds_resource_t *res,
    ngx_uint_t found, uint64_t cas, uint32_t crc);


/* a problem for a result of memcached, ngx_mcds_rc_e */

ngx_int_t ngx_http_mcds_resource_failed(ngx_http_request_t *r, ngx_uint_t rc);


/*
 * What is asked for: type: application/json, application/x-ndjson or
 * text/plain, by the argument "format" or Accept; is_json: whether the body is
 * of that type.
 */

ngx_uint_t ngx_http_mcds_resource_wants(ngx_http_request_t *r);
ngx_uint_t ngx_http_mcds_resource_has(ngx_http_request_t *r);


/* a header of the request, by its name in lower case; NULL: there is none */

ngx_table_elt_t *ngx_http_mcds_resource_header(ngx_http_request_t *r,
    char *name);


/* the value of an argument, decoded; NGX_DECLINED: there is none */

ngx_int_t ngx_http_mcds_resource_arg(ngx_http_request_t *r, char *name,
    ngx_str_t *value);


/*
 * name: of the element that a request is about: the argument "name", or what
 * follows in the URI behind the name of a location that is a prefix; it may be
 * empty.  NGX_DECLINED: the URI cannot be that of an element; NGX_ERROR: out of
 * memory.  check_name: what is wrong with a name, or NULL.
 */

ngx_int_t ngx_http_mcds_resource_name(ngx_http_request_t *r, ngx_str_t *name);
char *ngx_http_mcds_resource_check_name(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_RESOURCE_H_INCLUDED_ */
