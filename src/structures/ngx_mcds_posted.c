
/*
 * Copyright (C) mcds authors
 *
 * An exiting worker waits for all timers that are not cancelable.  While any
 * event is posted to the next turn of the event loop, one such timer keeps the
 * worker alive, and looks at intervals whether events are left: a timer for
 * each event would cost more than the event's work.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_posted.h"
#include "ngx_mcds_timer.h"


/* the interval at which a timer looks for events posted to the next turn, ms */
#define NGX_MCDS_POSTED_TIME 20


static void ngx_mcds_posted_handler(ngx_event_t *ev);


static ngx_event_t  ngx_mcds_posted_timer;


void
ngx_mcds_post_later(ngx_event_t *ev)
{
    ngx_post_event(ev, &ngx_posted_next_events);

    if (!ngx_mcds_posted_timer.timer_set) {
        ngx_mcds_timer_init(&ngx_mcds_posted_timer, ngx_mcds_posted_handler);
        ngx_add_timer(&ngx_mcds_posted_timer, NGX_MCDS_POSTED_TIME);
    }
}


static void
ngx_mcds_posted_handler(ngx_event_t *ev)
{
    if (!ngx_queue_empty(&ngx_posted_next_events)) {
        ngx_add_timer(ev, NGX_MCDS_POSTED_TIME);
    }
}
