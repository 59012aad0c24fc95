
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
 * Sets the handler and the log of a timer.  The data of the timer is a dummy
 * connection without a descriptor, as nginx's debug log expects a connection
 * there.
 */

void ngx_mcds_timer_init(ngx_event_t *ev, ngx_event_handler_pt handler);


#endif /* _NGX_MCDS_TIMER_H_INCLUDED_ */
