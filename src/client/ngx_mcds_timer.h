
/*
 * Copyright (C) mcds authors
 *
 * Timers without a connection.
 */


#ifndef _NGX_MCDS_TIMER_H_INCLUDED_
#define _NGX_MCDS_TIMER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/*
 * Sets the handler, the log of the cycle, and as data a connection without a
 * descriptor: nginx's debug log looks for one there.
 */

void ngx_mcds_timer_init(ngx_event_t *ev, ngx_event_handler_pt handler);


#endif /* _NGX_MCDS_TIMER_H_INCLUDED_ */
