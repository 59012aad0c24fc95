
/*
 * Copyright (C) mcds authors
 *
 * Inside of client/: names of servers that are looked up while running.
 */


#ifndef _NGX_MCDS_RESOLVE_H_INCLUDED_
#define _NGX_MCDS_RESOLVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * All of them do nothing for a server whose address stays.  connected: a
 * connection to the present address is ready.  next: the present address could
 * not be reached: the server takes the next one of its name, if there is one.
 * stop: nothing is asked any more; what has been learned is forgotten.
 */

void ngx_mcds_resolve_connected(ngx_mcds_server_t *server);
void ngx_mcds_resolve_next(ngx_mcds_server_t *server);
void ngx_mcds_resolve_stop(ngx_mcds_server_t *server);


#endif /* _NGX_MCDS_RESOLVE_H_INCLUDED_ */
