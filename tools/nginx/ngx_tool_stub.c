
/*
 * Copyright (C) mcds authors
 *
 * Stubs for names of nginx and of the module that the linked code refers to but
 * a program does not need: master and workers, the resolver, pages in memory.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "../../src/client/ngx_mcds_resolve.h"
#include "ngx_mcds_local.h"


volatile ngx_cycle_t  *ngx_cycle;
ngx_uint_t             ngx_process;
ngx_uint_t             ngx_exiting;
ngx_uint_t             ngx_use_epoll_rdhup;
ngx_pid_t              ngx_pid;


void
ngx_debug_point(void)
{
    /* void */
}


void
ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *prefix, ngx_str_t *key,
    ngx_uint_t forget)
{
    /* void */
}


/*
 * replaces the function that resolves a server's name again: the tool ends
 * before an address expires
 */

void
ngx_mcds_resolve_connected(ngx_mcds_server_t *server)
{
    /* void */
}


void
ngx_mcds_resolve_next(ngx_mcds_server_t *server)
{
    /* void */
}


void
ngx_mcds_resolve_stop(ngx_mcds_server_t *server)
{
    /* void */
}
