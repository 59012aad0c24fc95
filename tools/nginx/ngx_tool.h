
/*
 * Copyright (C) mcds authors
 *
 * nginx's own files in another program: a cycle without workers and shared
 * memory, an event loop that runs only while the program waits, and a parser of
 * the configuration.
 */


#ifndef _NGX_TOOL_H_INCLUDED_
#define _NGX_TOOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/*
 * Initializes those structures of nginx that a command line tool needs; called
 * first.  Messages of log_level and more severe ones are written to stderr.
 */

void ngx_tool_init(ngx_uint_t log_level);


/*
 * Initializes TLS, which takes half a millisecond; called before the tool reads
 * the configuration of memcached servers that may use TLS.  Returns NGX_OK, or
 * NGX_ERROR if out of memory or for another reason, which is logged.
 */

ngx_int_t ngx_tool_ssl_init(ngx_cycle_t *cycle);


/*
 * Runs nginx's event loop until *done is not 0.  Returns NGX_OK, or NGX_ERROR
 * if no event is left that could set it.
 */

ngx_int_t ngx_tool_run(ngx_uint_t *done);


/*
 * Watches a descriptor, such as a pipe, in the event loop: the handler is
 * called when the descriptor is readable.  Returns a connection that stands for
 * the descriptor, with data in its field "data"; the handler gets this
 * connection as ev->data.  Returns NULL if no connection is free, or the
 * descriptor cannot be watched.
 */

ngx_connection_t *ngx_tool_watch(int fd, ngx_event_handler_pt handler,
    void *data);


/* Ends the watch of a descriptor, which stays open. */

void ngx_tool_unwatch(ngx_connection_t *c);


/*
 * Reads a file of nginx's configuration into cf->conf_file.  Returns NGX_OK, or
 * NGX_ERROR, which is logged.
 */

ngx_int_t ngx_tool_conf_open(ngx_conf_t *cf, ngx_str_t *path);


/*
 * Reads the words of the next directive of nginx's configuration into cf->args.
 * Returns NGX_OK for a directive that ends with ";", NGX_CONF_BLOCK_START for
 * one that ends with "{", NGX_CONF_BLOCK_DONE at "}", NGX_CONF_FILE_DONE at the
 * end, or NGX_ERROR, which is logged.
 */

ngx_int_t ngx_tool_conf_read(ngx_conf_t *cf);


/*
 * Skips to the end of a block of nginx's configuration in another language,
 * such as content_by_lua_block, whose start was read.  Returns NGX_OK, or
 * NGX_ERROR, which is logged.
 */

ngx_int_t ngx_tool_conf_skip(ngx_conf_t *cf);


#endif /* _NGX_TOOL_H_INCLUDED_ */
