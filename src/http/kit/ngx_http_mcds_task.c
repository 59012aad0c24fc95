
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_budget.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_variables.h"


/*
 * requests whose wait for memcached is over continue behind all events that are
 * posted in this turn of the event loop; if these events post further ones, the
 * worker defers the requests again, up to so many times
 */
#define NGX_HTTP_MCDS_RESUME_LATER  8


static ngx_int_t ngx_http_mcds_start_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_decide_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_task_decide(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static ngx_http_mcds_task_t *ngx_http_mcds_task_create(ngx_http_request_t *r);
static void ngx_http_mcds_task_post_action(ngx_http_mcds_task_t *task);
static void ngx_http_mcds_park_writer(ngx_http_request_t *r);
static void ngx_http_mcds_resume_handler(ngx_event_t *ev);
static void ngx_http_mcds_resume(ngx_http_mcds_park_t *park);
static void ngx_http_mcds_task_resume(ngx_http_mcds_park_t *park);
static void ngx_http_mcds_task_cleanup(void *data);


/*
 * the requests of this worker whose wait for memcached or another result is
 * over, but that do not run yet
 */

static ngx_queue_t  ngx_http_mcds_resuming;
static ngx_event_t  ngx_http_mcds_resume_event;
static ngx_uint_t   ngx_http_mcds_resume_later;


ngx_int_t
ngx_http_mcds_feature_add(ngx_conf_t *cf, ngx_http_mcds_feature_t *feature)
{
    ngx_http_mcds_feature_t    **p;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    p = ngx_array_push(&mmcf->features);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *p = feature;

    if (mmcf->task_size == 0) {
        mmcf->task_size = ngx_align(sizeof(ngx_http_mcds_task_t),
                                    sizeof(uint64_t));
    }

    feature->offset = mmcf->task_size;

    mmcf->task_size += ngx_align(feature->size, sizeof(uint64_t));

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_task_init(ngx_conf_t *cf)
{
    ngx_array_t                *handlers;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    handlers = &cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers;

    h = ngx_array_push_n(handlers, 2);
    if (h == NULL) {
        return NGX_ERROR;
    }

    /*
     * nginx runs the handlers of a phase from the last one of the array to the
     * first: mcds's start handler is to run before all others that are in the
     * array by now, its decide handler after all others
     */

    h[1] = ngx_http_mcds_start_handler;

    h = handlers->elts;
    ngx_memmove(h + 1, h, (handlers->nelts - 2) * sizeof(*h));

    h[0] = ngx_http_mcds_decide_handler;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_start_handler(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_uint_t                   i;
    ngx_http_mcds_task_t        *task;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    task = ngx_http_mcds_task_enter(r);

    if (task && !task->begun) {
        task = NULL;
    }

    if (task && task->refresh) {
        return NGX_DECLINED;
    }

    if (task && ngx_http_mcds_is_parked(&task->park)) {

        /*
         * another module runs the phases of a request that waits for memcached:
         * the request goes on waiting
         */

        return NGX_AGAIN;
    }

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->first == NULL) {
            continue;
        }

        rc = feature[i]->first(r, task);

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->start == NULL) {
            continue;
        }

        rc = feature[i]->start(r, task);

        if (rc != NGX_DECLINED) {
            return rc;
        }

        /*
         * the function "start" of a feature, such as the cache, may have
         * created the structure by which the request waits for memcached (its
         * task)
         */

        task = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

        if (task && !task->begun) {
            task = NULL;
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_decide_handler(ngx_http_request_t *r)
{
    ngx_int_t              rc;
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_enter(r);

    if (task == NULL || !task->begun) {
        return NGX_DECLINED;
    }

    if (ngx_http_mcds_is_parked(&task->park)) {
        return NGX_AGAIN;
    }

    rc = ngx_http_mcds_task_decide(r, task);

    /*
     * the request goes on to the origin: the rules for the response are about
     * the variables of this location, although the request may have waited for
     * memcached in another location, or not at all
     */

    if (rc == NGX_DECLINED
        && ngx_http_mcds_variables_save(&task->park) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return rc;
}


static ngx_int_t
ngx_http_mcds_task_decide(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_int_t                    rc;
    ngx_uint_t                   i;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->arrive == NULL) {
            continue;
        }

        rc = feature[i]->arrive(r, task);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    /*
     * a request for a static file need not wait for a stored page, but must
     * wait for counters that its filters may show
     */

    if (task->needed || (task->waiting && r->content_handler)) {
        return ngx_http_mcds_task_suspend(r, task);
    }

    if (r->content_handler == NULL) {
        return NGX_DECLINED;
    }

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->decide == NULL) {
            continue;
        }

        rc = feature[i]->decide(r, task);

        if (rc == NGX_AGAIN) {
            return ngx_http_mcds_task_suspend(r, task);
        }

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_mcds_task_suspend(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_park(&task->park);

    if (rc != NGX_AGAIN) {
        return rc;
    }

    task->suspended = 1;

    if (task->waiting == 0) {

        /*
         * the request need not wait: all results came already, from inside the
         * calls that started the operations of memcached
         */

        ngx_http_mcds_wake(&task->park);
    }

    ngx_http_mcds_budget_begin(task);

    return NGX_AGAIN;
}


void
ngx_http_mcds_task_result(ngx_http_mcds_task_t *task)
{
    if (--task->waiting == 0 && task->suspended) {
        ngx_http_mcds_wake(&task->park);
    }
}


/*
 * This function adds two references to the request, since nginx will call
 * ngx_http_upstream_finalize_request() twice, and each call drops one.  The
 * upstream's cleanup handler makes the first call; it is called below, as in
 * ngx_http_upstream_create().  The second call comes when the header filter
 * returns NGX_ERROR.
 */

ngx_int_t
ngx_http_mcds_task_again(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u == NULL || u->cleanup == NULL || u->header_sent) {
        return NGX_DECLINED;
    }

    r->main->count += 2;

    (*u->cleanup)(r);

    ngx_http_clean_header(r);

    r->expect_trailers = 0;

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_http_mcds_wake(&task->park);

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_park(ngx_http_mcds_park_t *park)
{
    ngx_uint_t           watch;
    ngx_http_request_t  *r;

    r = park->request;

    if (ngx_http_mcds_variables_save(park) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * no client waits for the response to the request of "post_action", which
     * goes on even if the client leaves
     */

    watch = (r == r->main && !r->post_action);

    r->write_event_handler = watch ? ngx_http_mcds_park_writer
                                   : ngx_http_request_empty_handler;

    if (watch && !ngx_http_mcds_discards(r)) {

        r->read_event_handler = ngx_http_test_reading;

        if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    park->parked = 1;
    park->post_action = r->post_action;

    return NGX_AGAIN;
}


/*
 * The write handler of a request that waits, which sees that the client has
 * left: an HTTP/3 client whose request has been read completely can only leave
 * with STOP_SENDING, which sets an error in the write event alone.
 */

static void
ngx_http_mcds_park_writer(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (!c->write->error) {
        return;
    }

    c->error = 1;

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "client prematurely closed connection");

    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}


void
ngx_http_mcds_wake(ngx_http_mcds_park_t *park)
{
    if (park->woken) {
        return;
    }

    if (ngx_http_mcds_resuming.next == NULL) {
        ngx_queue_init(&ngx_http_mcds_resuming);
        ngx_http_mcds_resume_event.handler = ngx_http_mcds_resume_handler;
    }

    ngx_queue_insert_tail(&ngx_http_mcds_resuming, &park->queue);
    park->woken = 1;

    if (!ngx_http_mcds_resume_event.posted) {
        ngx_http_mcds_resume_event.log = ngx_cycle->log;
        ngx_post_event(&ngx_http_mcds_resume_event, &ngx_posted_events);
    }
}


/*
 * Continues the requests whose wait is over, as the last event of this turn of
 * the event loop: operations of other requests are sent first, so that
 * memcached works on them while these requests are served.
 */

static void
ngx_http_mcds_resume_handler(ngx_event_t *ev)
{
    ngx_queue_t  *q;

    if (!ngx_queue_empty(&ngx_posted_events)
        && ngx_http_mcds_resume_later++ < NGX_HTTP_MCDS_RESUME_LATER)
    {
        ngx_post_event(ev, &ngx_posted_events);
        return;
    }

    ngx_http_mcds_resume_later = 0;

    while (!ngx_queue_empty(&ngx_http_mcds_resuming)) {
        q = ngx_queue_head(&ngx_http_mcds_resuming);

        ngx_http_mcds_resume(ngx_queue_data(q, ngx_http_mcds_park_t, queue));
    }
}


static void
ngx_http_mcds_resume(ngx_http_mcds_park_t *park)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    ngx_http_mcds_park_cancel(park);
    ngx_http_mcds_variables_restore(park);

    r = park->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "mcds resume");

    if (r == r->main && !ngx_http_mcds_discards(r)) {
        r->read_event_handler = ngx_http_block_reading;
    }

    park->handler(park);

    ngx_http_run_posted_requests(c);
}


void
ngx_http_mcds_park_cancel(ngx_http_mcds_park_t *park)
{
    if (park->woken) {
        ngx_queue_remove(&park->queue);
    }

    park->parked = 0;
    park->woken = 0;
}


/*
 * continues a request that has waited for memcached in a phase: nginx runs the
 * phases from the handler that has suspended the request
 */

static void
ngx_http_mcds_task_resume(ngx_http_mcds_park_t *park)
{
    ngx_http_request_t    *r;
    ngx_http_mcds_task_t  *task;

    task = park->data;
    r = task->request;

    if (task->suspended) {
        task->suspended = 0;
        ngx_http_mcds_budget_end(task);
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


ngx_http_mcds_task_t *
ngx_http_mcds_task_need(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_get(r);

    return task ? task : ngx_http_mcds_task_create(r);
}


ngx_http_mcds_task_t *
ngx_http_mcds_task_begin(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_need(r);

    if (task) {
        task->begun = 1;
    }

    return task;
}


static ngx_http_mcds_task_t *
ngx_http_mcds_task_create(ngx_http_request_t *r)
{
    ngx_uint_t                   i;
    ngx_pool_cleanup_t          *cln;
    ngx_http_mcds_task_t        *task, **owner;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);

    cln = ngx_pool_cleanup_add(r->pool, mmcf->task_size);
    if (cln == NULL) {
        return NULL;
    }

    task = cln->data;
    ngx_memzero(task, mmcf->task_size);

    cln->handler = ngx_http_mcds_task_cleanup;

    task->request = r;

    task->park.request = r;
    task->park.handler = ngx_http_mcds_task_resume;
    task->park.data = task;

    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {
        owner = ngx_http_mcds_task_ctx(task, feature[i]);
        *owner = task;
    }

    ngx_http_set_ctx(r, task, ngx_http_mcds_module);

    return ngx_http_mcds_task_enter(r);
}


ngx_http_mcds_task_t *
ngx_http_mcds_task_enter(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_get(r);

    if (task && r->post_action && !task->post_action && !task->refresh) {
        ngx_http_mcds_task_post_action(task);
    }

    return task;
}


static void
ngx_http_mcds_task_post_action(ngx_http_mcds_task_t *task)
{
    ngx_uint_t                   i;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    task->post_action = 1;

    mmcf = ngx_http_get_module_main_conf(task->request, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->post_action) {
            feature[i]->post_action(task);
        }
    }
}


/*
 * the task of a request, the structure by which it waits for memcached, is
 * looked up in the cleanup records of the request's pool, since an internal
 * redirect or an error page clears r->ctx
 */

ngx_http_mcds_task_t *
ngx_http_mcds_task_find(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_mcds_task_t  *task;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_mcds_task_cleanup) {
            continue;
        }

        task = cln->data;

        if (task->request == r) {
            ngx_http_set_ctx(r, task, ngx_http_mcds_module);
            return task;
        }
    }

    return NULL;
}


static void
ngx_http_mcds_task_cleanup(void *data)
{
    ngx_http_mcds_task_t *task = data;

    ngx_uint_t                   i;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    ngx_http_mcds_park_cancel(&task->park);

    ngx_mcds_wait_cancel(&task->delay);

    mmcf = ngx_http_get_module_main_conf(task->request, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {
        feature[i]->cleanup(task);
    }
}
