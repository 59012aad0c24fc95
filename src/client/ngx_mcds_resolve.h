
/*
 * Copyright (C) mcds authors
 *
 * Private to client/: names of servers that are looked up at run time.  The
 * functions have no effect on a server with a fixed address.
 */


#ifndef _NGX_MCDS_RESOLVE_H_INCLUDED_
#define _NGX_MCDS_RESOLVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * A connection to the current address of the server is ready: logs a new
 * address.
 */

void ngx_mcds_resolve_connected(ngx_mcds_server_t *server);


/*
 * The current address of the server could not be reached: the server moves to
 * the next address of its name, if there is one.
 */

void ngx_mcds_resolve_next(ngx_mcds_server_t *server);


/* Stops the look-ups of the server's name, and frees their results. */

void ngx_mcds_resolve_stop(ngx_mcds_server_t *server);


#endif /* _NGX_MCDS_RESOLVE_H_INCLUDED_ */
