
/*
 * Copyright (C) mcds authors
 *
 * nginx's own files in a program that is not nginx: a cycle without workers and
 * shared memory, an event loop that runs for as long as the program waits, and
 * a configuration as words.
 */


#ifndef _NGX_TOOL_H_INCLUDED_
#define _NGX_TOOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/* to be called first; what is logged from that level on goes to stderr */

void ngx_tool_init(ngx_uint_t log_level);


/*
 * To be called before a pool is read that may have TLS; it has its time, half a
 * millisecond.  NGX_OK or NGX_ERROR (logged, or out of memory).
 */

ngx_int_t ngx_tool_ssl_init(ngx_cycle_t *cycle);


/*
 * Runs events until *done is not 0.  NGX_OK, or NGX_ERROR if there is nothing
 * left that could make it so.
 */

ngx_int_t ngx_tool_run(ngx_uint_t *done);


/*
 * A descriptor that is no connection: the handler is called when it can be
 * read.  Its event's data is the connection, whose data is the given one.
 * unwatch: leaves the descriptor open.  NULL when out of memory.
 */

ngx_connection_t *ngx_tool_watch(int fd, ngx_event_handler_pt handler,
    void *data);
void ngx_tool_unwatch(ngx_connection_t *c);


/*
 * A file of nginx's configuration, word by word, in cf->conf_file.  open:
 * NGX_OK or NGX_ERROR (logged).  read: the words of the next directive are in
 * cf->args: NGX_OK, it ends with ";"; NGX_CONF_BLOCK_START; NGX_CONF_BLOCK_DONE
 * at "}"; NGX_CONF_FILE_DONE; NGX_ERROR (logged).  skip: to the end of a block
 * in another language, whose start was read.
 */

ngx_int_t ngx_tool_conf_open(ngx_conf_t *cf, ngx_str_t *path);
ngx_int_t ngx_tool_conf_read(ngx_conf_t *cf);
ngx_int_t ngx_tool_conf_skip(ngx_conf_t *cf);


#endif /* _NGX_TOOL_H_INCLUDED_ */
