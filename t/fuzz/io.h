
/*
 * Copyright (C) mcds authors
 *
 * The event loop and the network that client/ sees: no clock, no socket; a
 * fuzzer hands over bytes and gets those that were sent.
 */


#ifndef _IO_H_INCLUDED_
#define _IO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef struct {
    ngx_connection_t   *connection;    /* the newest, NULL: closed */
    ngx_uint_t          opened;

    const u_char       *in;            /* what recv() gets, then NGX_AGAIN */
    size_t              in_len;
    ngx_uint_t          eof;           /* or the end */

    u_char              out[8192];     /* what was sent on the newest */
    size_t              out_len;
    u_char              first[8192];   /* ... on the first, once it is gone */
    size_t              first_len;
    size_t              room;          /* of the socket's buffer */

    ngx_uint_t          slow;          /* connect() takes its time */

    /* instead of all this: a network of the fuzzer's own */
    ngx_int_t         (*connect)(ngx_connection_t *c);
    ssize_t           (*recv)(ngx_connection_t *c, u_char *buf, size_t size);
    ssize_t           (*send)(ngx_connection_t *c, u_char *buf, size_t size);
    void              (*close)(ngx_connection_t *c);
} io_t;


extern io_t  io;


/* forgets all; runs what was posted; later: milliseconds pass, timers run */
void io_reset(void);
void io_posted(void);
void io_later(ngx_msec_t ms);


#endif /* _IO_H_INCLUDED_ */
