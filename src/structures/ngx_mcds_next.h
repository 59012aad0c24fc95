
/*
 * Copyright (C) mcds authors
 *
 * Work that goes on in the next turn of the event loop.
 */


#ifndef _NGX_MCDS_NEXT_H_INCLUDED_
#define _NGX_MCDS_NEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/*
 * As ngx_post_event() to ngx_posted_next_events, which a worker that exits does
 * not look at: it would leave with the requests that wait for ev.  It stays
 * until nothing is posted there, and some milliseconds more.
 */

void ngx_mcds_post_next(ngx_event_t *ev);


#endif /* _NGX_MCDS_NEXT_H_INCLUDED_ */
