
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
 * Logs the current address of the server if it is new; called when a connection
 * to this address is ready.
 */

void ngx_mcds_resolve_connected(ngx_mcds_server_t *server);


/*
 * Moves the server to the next address of its name, if the name has several
 * addresses; called when the current address could not be reached.
 */

void ngx_mcds_resolve_next(ngx_mcds_server_t *server);


/* Stops the look-ups of the server's name, and frees their results. */

void ngx_mcds_resolve_stop(ngx_mcds_server_t *server);


#endif /* _NGX_MCDS_RESOLVE_H_INCLUDED_ */
