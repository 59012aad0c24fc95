
/*
 * Copyright (C) mcds authors
 *
 * A request, or subrequest, in the precontent phase, behind access control, so
 * that a refused request is not counted.  The start handler lets each feature
 * ask memcached, all of them in one batch, and does not wait: try_files, and
 * all that leads the request to another location, run meanwhile.  The decide
 * handler is the last one of the phase: it waits for the answers and lets the
 * features decide in the location that answers.
 */


#ifndef _NGX_HTTP_MCDS_TASK_H_INCLUDED_
#define _NGX_HTTP_MCDS_TASK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_budget.h"
#include "ngx_http_mcds_module.h"


typedef struct ngx_http_mcds_park_s  ngx_http_mcds_park_t;

typedef void (*ngx_http_mcds_park_pt)(ngx_http_mcds_park_t *park);


/*
 * A request that waits, in a handler of a phase or in its content handler.
 * Zeroed at first, but for the request, its handler, and the data of that.
 */

struct ngx_http_mcds_park_s {
    ngx_http_request_t         *request;
    ngx_http_mcds_park_pt       handler;
    void                       *data;
    ngx_queue_t                 queue;    /* while "woken" */

    unsigned                    parked:1;
    unsigned                    woken:1;  /* it is to go on, its turn has not
                                             come */
};


/*
 * Lives in a cleanup record of the request's pool, so that it outlasts internal
 * redirects, which clear r->ctx.  The contexts of the features lie behind it.
 */

typedef struct {
    ngx_http_request_t         *request;
    ngx_uint_t                  waiting;  /* answers to come */
    ngx_uint_t                  needed;   /* ... without which nothing is sent,
                                             not even a file */
    ngx_http_mcds_park_t        park;
    ngx_mcds_budget_t           budget;   /* of waits for memcached */
    ngx_mcds_wait_t             delay;    /* the one while it is parked */

    unsigned                    begun:1;     /* a feature takes part in the
                                                precontent phase */
    unsigned                    suspended:1; /* waits where it decides */
    unsigned                    refresh:1;   /* detached, has no client */
    unsigned                    seeded:1;    /* "delay" was not for memcached
                                                alone */
} ngx_http_mcds_task_t;


/*
 * A feature whose requests wait.  All but name, size and cleanup may be NULL.
 *
 * size: of its context in a task, which begins with a pointer to the task and
 * is zeroed otherwise.  offset: of that context; the kit sets it.
 *
 * prepare: the configuration has been read; the feature may need the zone.
 * init: the zone is known, handlers of phases may be added.  zone: the memory
 * is there; *data is in it, NULL in the beginning, and stays through reloads.
 * exit: the worker ends, pools are still used.
 *
 * first: before anything is asked; start: asks.  Both return NGX_DECLINED to go
 * on, or what the handler of the phase returns.  The task is NULL if none of
 * them has begun it.
 *
 * arrive: the request is in a location that may answer; NGX_OK to go on, or
 * what the handler returns.  decide: all answers have come, and the location
 * has a content handler; NGX_AGAIN to wait for more answers, NGX_DECLINED to
 * go on, or what the handler returns.
 *
 * wait: how long the feature waits for its answers, ms; 0: not at all.  Adds to
 * *others how many answers it waits for that are not memcached's.  until: since
 * when it has waited for others only.  hurry: what memcached has not answered
 * is told to be a TIMEOUT.  cleanup: the request is being freed.
 */

struct ngx_http_mcds_feature_s {
    ngx_str_t                   name;
    size_t                      size;
    size_t                      offset;

    ngx_int_t                 (*prepare)(ngx_conf_t *cf);
    ngx_int_t                 (*init)(ngx_conf_t *cf);
    void                      (*zone)(ngx_http_mcds_main_conf_t *mmcf,
                                   ngx_slab_pool_t *shpool, void **data,
                                   ngx_log_t *log);
    void                      (*exit)(ngx_cycle_t *cycle);

    ngx_int_t                 (*first)(ngx_http_request_t *r,
                                   ngx_http_mcds_task_t *task);
    ngx_int_t                 (*start)(ngx_http_request_t *r,
                                   ngx_http_mcds_task_t *task);
    ngx_int_t                 (*arrive)(ngx_http_request_t *r,
                                   ngx_http_mcds_task_t *task);
    ngx_int_t                 (*decide)(ngx_http_request_t *r,
                                   ngx_http_mcds_task_t *task);

    ngx_msec_t                (*wait)(ngx_http_mcds_task_t *task,
                                   ngx_uint_t *others);
    ngx_msec_t                (*until)(ngx_http_mcds_task_t *task);
    void                      (*hurry)(ngx_http_mcds_task_t *task);
    void                      (*cleanup)(ngx_http_mcds_task_t *task);
};


/* the context of a feature */

#define ngx_http_mcds_task_ctx(task, feature)                                 \
    ((void *) ((u_char *) (task) + (feature)->offset))


/*
 * In preconfiguration: adds a feature.  The order of the features is that in
 * which they are called.
 */

ngx_int_t ngx_http_mcds_feature_add(ngx_conf_t *cf,
    ngx_http_mcds_feature_t *feature);


/* when the configuration has been read and some location uses a pool */

ngx_int_t ngx_http_mcds_task_init(ngx_conf_t *cf);


/* the task of r, or NULL; find: behind an internal redirect */

ngx_http_mcds_task_t *ngx_http_mcds_task_find(ngx_http_request_t *r);


static ngx_inline ngx_http_mcds_task_t *
ngx_http_mcds_task_get(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    if (task || (!r->internal && !r->filter_finalize)) {
        return task;
    }

    return ngx_http_mcds_task_find(r);
}


/*
 * The task of r, a new one if there is none; NULL when out of memory.  begin:
 * and from now on the handlers of the precontent phase call the features.
 */

ngx_http_mcds_task_t *ngx_http_mcds_task_need(ngx_http_request_t *r);
ngx_http_mcds_task_t *ngx_http_mcds_task_begin(ngx_http_request_t *r);


/*
 * park: sets both event handlers of the request: it is ended when its client
 * leaves, and nothing else comes of an event.  A subrequest has no client.
 * NGX_AGAIN: it waits; otherwise what the handler is to return.
 *
 * wake: the request goes on at the end of this turn, with all others that are
 * woken: its handler is called, in which it may be parked again.  It may be
 * woken before it is parked.
 *
 * cancel: the request is being freed.
 */

ngx_int_t ngx_http_mcds_park(ngx_http_mcds_park_t *park);
void ngx_http_mcds_wake(ngx_http_mcds_park_t *park);
void ngx_http_mcds_park_cancel(ngx_http_mcds_park_t *park);


/*
 * While it is parked, handlers of phases are called by something else that
 * runs the phases, and are to return NGX_AGAIN.
 */

#define ngx_http_mcds_is_parked(p)  ((p)->parked || (p)->woken)


/* for a handler of the phase: r waits; the handler is to return the result */

ngx_int_t ngx_http_mcds_task_suspend(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);


/*
 * An answer has come.  After the last one the request goes on at the end of
 * this turn, with all others that were answered.
 */

void ngx_http_mcds_task_wake(ngx_http_mcds_task_t *task);


/*
 * To be called by the header filter when r, which has asked an upstream, is to
 * ask once more: the answer is dropped, and the content handler runs again at
 * the end of this turn.  NGX_OK: the filter must return NGX_ERROR.
 * NGX_DECLINED: nothing was done, since it is no upstream that answers, or not
 * from inside of its own call.
 */

ngx_int_t ngx_http_mcds_task_again(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);


/*
 * is_error_page: 1 if the request was led to an error page, as far as is known.
 * is_accel: 1 if the origin's answer was X-Accel-Redirect.
 */

ngx_uint_t ngx_http_mcds_is_error_page(ngx_http_request_t *r);
ngx_uint_t ngx_http_mcds_is_accel(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_TASK_H_INCLUDED_ */
