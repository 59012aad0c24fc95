
/*
 * Copyright (C) mcds authors
 *
 * Events posted to the next turn of the event loop, for which an exiting worker
 * waits.
 */


#ifndef _NGX_MCDS_POSTED_H_INCLUDED_
#define _NGX_MCDS_POSTED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/*
 * Posts an event to ngx_posted_next_events, as ngx_post_event() does, and keeps
 * the worker from exiting until the event has run, and for some milliseconds
 * more.  Otherwise nginx does not wait for posted events when a worker exits:
 * the requests that wait for ev would be cut off.
 */

void ngx_mcds_post_later(ngx_event_t *ev);


#endif /* _NGX_MCDS_POSTED_H_INCLUDED_ */
