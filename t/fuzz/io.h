
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
    ngx_connection_t   *connection;    /* the newest connection; NULL: it is
                                          closed */
    ngx_uint_t          opened;

    const u_char       *in;            /* bytes that recv() gets, before
                                          NGX_AGAIN */
    size_t              in_len;
    ngx_uint_t          eof;           /* 1: the server closes the connection
                                          after these bytes */

    u_char              out[8192];     /* bytes sent on the newest connection */
    size_t              out_len;
    u_char              first[8192];   /* bytes sent on the first connection, if
                                          there is a second one */
    size_t              first_len;
    size_t              room;          /* maximum number of bytes that may be
                                          sent on a connection */

    ngx_uint_t          slow;          /* 1: connect() does not succeed at
                                          once */

    /* functions of a fuzzer that simulates its own network, or NULL */
    ngx_int_t         (*connect)(ngx_connection_t *c);
    ssize_t           (*recv)(ngx_connection_t *c, u_char *buf, size_t size);
    ssize_t           (*send)(ngx_connection_t *c, u_char *buf, size_t size);
    void              (*close)(ngx_connection_t *c);
} io_t;


extern io_t  io;


/*
 * io_reset() resets the network, io_posted() runs the posted events, and
 * io_later() lets milliseconds pass and runs the timers that expire.
 */
void io_reset(void);
void io_posted(void);
void io_later(ngx_msec_t ms);


#endif /* _IO_H_INCLUDED_ */
