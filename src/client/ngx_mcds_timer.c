
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_timer.h"


void
ngx_mcds_timer_init(ngx_event_t *ev, ngx_event_handler_pt handler)
{
    static ngx_connection_t  dummy;

    dummy.fd = (ngx_socket_t) -1;

    ev->handler = handler;
    ev->data = &dummy;
    ev->log = ngx_cycle->log;
}
