
/*
 * Copyright (C) mcds authors
 *
 * nginx's connections, timers and posted events in a program with one process:
 * the necessary parts of ngx_init_cycle() and ngx_event_process_init().  The
 * event method is poll(), as epoll does not accept a regular file as standard
 * input.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_tool.h"


#define NGX_TOOL_CONNECTIONS      512
#define NGX_TOOL_FILES            1024


static void ngx_tool_connections_init(ngx_cycle_t *cycle);


extern ngx_module_t  ngx_poll_module;


static ngx_log_t          ngx_tool_log;
static ngx_cycle_t        ngx_tool_cycle;
static u_char             ngx_tool_host[NGX_MAXHOSTNAMELEN];

static ngx_connection_t   ngx_tool_connections[NGX_TOOL_CONNECTIONS];
static ngx_event_t        ngx_tool_events[NGX_TOOL_CONNECTIONS][2];
static ngx_connection_t  *ngx_tool_files[NGX_TOOL_FILES];


void
ngx_tool_init(ngx_uint_t log_level)
{
    ngx_cycle_t         *cycle;
    ngx_event_module_t  *poll;

    ngx_pid = ngx_getpid();
    ngx_pagesize = getpagesize();
    ngx_time_init();

    srandom(ngx_pid ^ ngx_cached_time->msec);

    cycle = &ngx_tool_cycle;
    ngx_tool_log.log_level = log_level;
    cycle->log = &ngx_tool_log;
    ngx_cycle = cycle;

    if (gethostname((char *) ngx_tool_host, NGX_MAXHOSTNAMELEN) == 0) {
        ngx_tool_host[NGX_MAXHOSTNAMELEN - 1] = '\0';
        cycle->hostname.data = ngx_tool_host;
        cycle->hostname.len = ngx_strlen(ngx_tool_host);
        ngx_strlow(ngx_tool_host, ngx_tool_host, cycle->hostname.len);
    }

    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);
    ngx_tool_connections_init(cycle);

    poll = ngx_poll_module.ctx;

    if (ngx_event_timer_init(cycle->log) != NGX_OK
        || poll->actions.init(cycle, 0) != NGX_OK)
    {
        exit(1);
    }
}


static void
ngx_tool_connections_init(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    c = NULL;

    for (i = NGX_TOOL_CONNECTIONS; i-- > 0; c = &ngx_tool_connections[i]) {
        ngx_tool_connections[i].data = c;
        ngx_tool_connections[i].read = &ngx_tool_events[i][0];
        ngx_tool_connections[i].write = &ngx_tool_events[i][1];
        ngx_tool_connections[i].fd = (ngx_socket_t) -1;
    }

    cycle->connections = ngx_tool_connections;
    cycle->connection_n = NGX_TOOL_CONNECTIONS;
    cycle->free_connections = c;
    cycle->free_connection_n = NGX_TOOL_CONNECTIONS;
    cycle->files = ngx_tool_files;
    cycle->files_n = NGX_TOOL_FILES;

    ngx_queue_init(&cycle->reusable_connections_queue);
}


ngx_int_t
ngx_tool_run(ngx_uint_t *done)
{
    ngx_msec_t    timer;
    ngx_cycle_t  *cycle;

    cycle = &ngx_tool_cycle;

    ngx_time_update();

    for ( ;; ) {
        ngx_event_process_posted(cycle, &ngx_posted_events);

        if (*done) {
            return NGX_OK;
        }

        timer = ngx_event_find_timer();

        if (!ngx_queue_empty(&ngx_posted_next_events)) {
            ngx_event_move_posted_next(cycle);
            timer = 0;
        }

        if (timer == NGX_TIMER_INFINITE
            && cycle->free_connection_n == cycle->connection_n)
        {
            return NGX_ERROR;
        }

        (void) ngx_process_events(cycle, timer, NGX_UPDATE_TIME);

        ngx_event_expire_timers();
    }
}


ngx_connection_t *
ngx_tool_watch(int fd, ngx_event_handler_pt handler, void *data)
{
    ngx_connection_t  *c;

    c = ngx_get_connection(fd, ngx_cycle->log);

    if (c == NULL) {
        return NULL;
    }

    c->data = data;
    c->read->log = c->log;
    c->read->handler = handler;

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK) {
        ngx_free_connection(c);
        return NULL;
    }

    return c;
}


void
ngx_tool_unwatch(ngx_connection_t *c)
{
    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;
}
