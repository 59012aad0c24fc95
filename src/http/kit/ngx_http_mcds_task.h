
/*
 * Copyright (C) mcds authors
 *
 * A request, or subrequest, in the precontent phase.  This phase runs after
 * access control, so that a refused request is not counted.  The start handler
 * lets each feature send its operations to memcached, all in one batch, and
 * does not wait: meanwhile try_files, and all that redirects the request to
 * another location, run.  Only a purge of a page makes the request wait in the
 * start handler.  The decide handler is the last one of the phase: it waits for
 * the results, then calls the features in the location that responds.
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
 * The wait of a request, in a handler of a phase or in its content handler,
 * until a result comes, such as the reply of memcached.  The code that
 * allocates the structure zeroes it, and sets request, handler and data.
 */

struct ngx_http_mcds_park_s {
    ngx_http_request_t         *request;
    ngx_http_mcds_park_pt       handler;
    void                       *data;
    ngx_queue_t                 queue;    /* link in the worker's list of
                                             requests that continue at the end
                                             of this turn of the event loop */
    ngx_http_variable_value_t  *variables; /* with "saved": the values that the
                                              variables of the request had when
                                              it last began to wait, or went on
                                              to the origin */

    unsigned                    saved:1;
    unsigned                    parked:1;
    unsigned                    woken:1;  /* 1: the request continues at the
                                             end of this turn of the event
                                             loop */
    unsigned                    post_action:1; /* r->post_action of the request
                                                  r when it began to wait */
};


/*
 * The task of a request, the structure by which it waits for memcached: the
 * results that it waits for, and, behind this structure in memory, the contexts
 * of the features (cache, counters and others).  It lives in a cleanup record
 * of the request's pool, so that it outlasts internal redirects, which clear
 * r->ctx.
 */

typedef struct {
    ngx_http_request_t         *request;
    ngx_uint_t                  waiting;  /* number of results, such as replies
                                             of memcached, that the request
                                             waits for */
    ngx_uint_t                  needed;   /* number of results, such as replies
                                             of memcached, that the request
                                             waits for even if it is for a
                                             static file */
    ngx_http_mcds_park_t        park;
    ngx_mcds_budget_t           budget;   /* limits the sum of the request's
                                             waits for memcached */
    ngx_mcds_wait_t             delay;    /* the request's current wait for
                                             memcached */

    unsigned                    begun:1;     /* 1: a feature of mcds, such as
                                                the cache, takes part in the
                                                request's precontent phase */
    unsigned                    suspended:1; /* 1: the request waits in
                                                ngx_http_mcds_decide_handler()
                                                or, if it purges a page, in
                                                ngx_http_mcds_start_handler() */
    unsigned                    refresh:1;   /* 1: the worker itself made the
                                                request, to build a page in the
                                                background */
    unsigned                    post_action:1; /* 1: the features were told
                                                  that nginx has led the request
                                                  to its "post_action" */
    unsigned                    seeded:1;    /* 1: the request has waited not
                                                only for memcached, but also for
                                                another location or host to give
                                                a counter's initial value */
} ngx_http_mcds_task_t;


/*
 * A feature of mcds, such as the cache or the counters, whose requests wait for
 * memcached.  All members but name, size and cleanup may be NULL.
 *
 * size: bytes of the feature's context, the data that it has for one request.
 * The context lies in the memory of the request's ngx_http_mcds_task_t (task),
 * begins with a pointer to the task, and is otherwise zeroed.  offset: the
 * context's place in the task, set by ngx_http_mcds_feature_add().
 *
 * prepare: called when the configuration has been read, whether or not it uses
 * mcds.  init: called next, if the configuration uses mcds; the feature may add
 * handlers of phases.  Both return NGX_ERROR only when out of memory.  zone:
 * called when mcds_zone exists; *data is the feature's memory in it, NULL at
 * first, and is kept through reloads.  exit: called when the worker exits,
 * before its connections to memcached are closed.
 *
 * first: called before any operation is sent; start: sends operations.  Both
 * return NGX_DECLINED to continue, or the result for the phase's handler to
 * return.  The task is NULL if no feature has begun one for the request.
 *
 * arrive: called when the request comes to the end of the precontent phase, and
 * again after a wait there, or if a redirect leads the request to the end of
 * the phase in another location; NGX_OK to continue, or the result for the
 * phase's handler to return.  decide: called when all results have come and the
 * location has a content handler; NGX_AGAIN to wait for further results,
 * NGX_DECLINED to continue, or the result for the phase's handler to return.
 *
 * wait: returns the longest time that the feature waits for its results,
 * milliseconds, or 0 if it sets no limit, and adds to *others the number of
 * results that do not come from memcached.  until: returns the time since which
 * the feature has waited only for results that do not come from memcached, or
 * the current time.  hurry: ends with NGX_MCDS_TIMEOUT all operations that
 * memcached has not answered.  cleanup: called when the request is freed.
 *
 * post_action: called once when nginx has led the request to its "post_action",
 * before the location of "post_action" is known: the feature gives up what
 * others wait for, and lets the request continue if it waited for the feature.
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
    void                      (*post_action)(ngx_http_mcds_task_t *task);
};


/*
 * A pointer to the context of a feature, such as the cache: the data that it
 * has for one request.  The context lies in the memory of the request's task:
 * ngx_http_mcds_task_t, by which the request waits for memcached.
 */

#define ngx_http_mcds_task_ctx(task, feature)                                 \
    ((void *) ((u_char *) (task) + (feature)->offset))


/*
 * Call this in preconfiguration: adds a feature of mcds, such as the cache.
 * The functions of features are called in the order in which the features were
 * added.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_feature_add(ngx_conf_t *cf,
    ngx_http_mcds_feature_t *feature);


/*
 * Adds the handlers of mcds to the precontent phase, for a configuration in
 * which a location uses a pool of memcached servers.  NGX_OK, or NGX_ERROR when
 * out of memory.
 */

ngx_int_t ngx_http_mcds_task_init(ngx_conf_t *cf);


/*
 * Finds the task of the request r, the structure by which it waits for
 * memcached, in the cleanup records of r's pool, as is necessary after an
 * internal redirect; NULL if r has no task.  Use ngx_http_mcds_task_get()
 * instead, which searches the records only if r->ctx has no task.
 */

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
 * For a handler of a phase, instead of ngx_http_mcds_task_get(): returns the
 * task of the request r, the structure by which it waits for memcached; NULL if
 * r has none.  If nginx has led r to its "post_action", the features are told.
 */

ngx_http_mcds_task_t *ngx_http_mcds_task_enter(ngx_http_request_t *r);


/*
 * Returns the task of the request r, the structure by which it waits for
 * memcached, and creates the task if r has none.  NULL when out of memory.
 */

ngx_http_mcds_task_t *ngx_http_mcds_task_need(ngx_http_request_t *r);

/*
 * The task of the request r, the structure by which it waits for memcached,
 * created if r has none.  From now on, mcds's handlers of the precontent phase
 * call the features, such as the cache, for r.  NULL when out of memory.
 */

ngx_http_mcds_task_t *ngx_http_mcds_task_begin(ngx_http_request_t *r);


/*
 * Lets a request wait until ngx_http_mcds_wake() continues it: a main request
 * gets event handlers that finalize it if the client leaves; a subrequest, and
 * a request of "post_action", get one that does nothing.  The request goes on
 * with the values that its variables have now.  NGX_AGAIN: the request waits;
 * otherwise the result for the handler to return.
 */

ngx_int_t ngx_http_mcds_park(ngx_http_mcds_park_t *park);


/*
 * Continues a request that waits: park->handler is called at the end of this
 * turn of the event loop, and may let the request wait again.  The function may
 * be called before ngx_http_mcds_park().
 */

void ngx_http_mcds_wake(ngx_http_mcds_park_t *park);

/*
 * Call this when a request is freed that may still wait: the handler, which
 * would continue the request, is not called any more.
 */

void ngx_http_mcds_park_cancel(ngx_http_mcds_park_t *park);


/*
 * True while the request waits for memcached or another result: if another
 * module runs the phases of the request meanwhile, mcds's handlers of phases
 * return NGX_AGAIN.
 */

#define ngx_http_mcds_is_parked(p)  ((p)->parked || (p)->woken)

/*
 * True if the client left during the request's latest wait, and nginx has led
 * the request to its "post_action".
 */

#define ngx_http_mcds_is_left(p)                                              \
    ((p)->request->post_action && !(p)->post_action)


/*
 * For a handler of the precontent phase: the request waits for the results,
 * such as replies of memcached, that are counted in its task (task->waiting).
 * The budget of the request limits its waits for memcached.  Returns the result
 * for the handler to return.
 */

ngx_int_t ngx_http_mcds_task_suspend(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);


/*
 * Call this for each result of memcached that a request waits for and that is
 * counted in its task (task->waiting).  After the last result, the request
 * continues at the end of this turn of the event loop.
 */

void ngx_http_mcds_task_result(ngx_http_mcds_task_t *task);


/*
 * For a header filter: repeats a request to an upstream.  The response is
 * dropped, and the content handler runs again at the end of this turn of the
 * event loop.
 * NGX_OK: the filter must return NGX_ERROR.  NGX_DECLINED: not possible, since
 * the response does not come from an upstream, or its header is sent already.
 */

ngx_int_t ngx_http_mcds_task_again(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);


#endif /* _NGX_HTTP_MCDS_TASK_H_INCLUDED_ */
