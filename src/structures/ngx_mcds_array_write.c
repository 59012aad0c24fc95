
/*
 * Copyright (C) mcds authors
 *
 * Writing an array.  The writes of a worker to one array are done in order, in
 * rounds; writes that arrive during a round are combined in the next one:
 *
 *   append  append to the array's head item; if that fails, add the head item;
 *           if that fails, too, append again; if the head item is full, move
 *           its lines to an item of their own (a part), and append again
 *
 *   change  see ngx_mcds_array_change.c
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_array_core.h"


/*
 * the index of arrays to which a worker is writing: its hash buckets, and the
 * maximum of arrays and of bytes in it; the limit of the waiting writes,
 * NGX_MCDS_ARRAY_PENDING, is reached before the two maxima
 */
#define NGX_MCDS_ARRAY_BUCKETS    256
#define NGX_MCDS_ARRAYS           1048576
#define NGX_MCDS_ARRAYS_SIZE      (1024 * 1024 * 1024)

/* the maximum size of all unfinished writes to arrays in a worker, in bytes */
#define NGX_MCDS_ARRAY_PENDING    (32 * 1024 * 1024)

/*
 * the maximum size, in bytes, of the lines that one append command adds to an
 * array; the command combines the lines of several writes
 */
#define NGX_MCDS_ARRAY_BATCH      16384

/*
 * the number of bytes appended to an array after which, on average, the size of
 * the array's head item is checked
 */
#define NGX_MCDS_ARRAY_LOOK       8192

/*
 * milliseconds for which a worker remembers that an array is full, after it has
 * written to the array
 */
#define NGX_MCDS_ARRAY_FULL       60000


static ngx_mcds_array_work_t *ngx_mcds_array_work(ngx_mcds_array_t *array);
static ngx_int_t ngx_mcds_array_push(ngx_mcds_array_t *array,
    ngx_mcds_array_job_t *job);
static void ngx_mcds_array_free_job(ngx_mcds_array_job_t *job);
static void ngx_mcds_array_event_handler(ngx_event_t *ev);
static void ngx_mcds_array_free_work(ngx_mcds_array_work_t *work);
static ngx_uint_t ngx_mcds_array_take(ngx_mcds_array_work_t *work);
static ngx_int_t ngx_mcds_array_gather(ngx_mcds_array_work_t *work);
static void ngx_mcds_array_append_handler(void *data,
    ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_array_due(ngx_mcds_array_work_t *work);
static void ngx_mcds_array_tell(ngx_mcds_array_work_t *work, ngx_uint_t rc);


static ngx_mcds_index_node_t  *ngx_mcds_array_buckets[NGX_MCDS_ARRAY_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_arrays =
    ngx_mcds_index(ngx_mcds_array_buckets, NGX_MCDS_ARRAYS,
                   NGX_MCDS_ARRAYS_SIZE, 0, 0, NULL);
static size_t       ngx_mcds_array_pending;


ngx_int_t
ngx_mcds_array_append(ngx_mcds_array_t *array, ngx_str_t *lines,
    ngx_mcds_array_done_pt handler, void *data)
{
    ngx_mcds_array_job_t  *job;

    if (ngx_mcds_array_pending + lines->len > NGX_MCDS_ARRAY_PENDING) {
        return NGX_BUSY;
    }

    job = ngx_calloc(sizeof(ngx_mcds_array_job_t), ngx_cycle->log);
    if (job == NULL) {
        return NGX_ERROR;
    }

    job->handler = handler;
    job->data = data;
    job->text = ngx_mcds_value_create(lines->len + NGX_MCDS_VALUE_SPARE,
                                      ngx_cycle->log);

    if (job->text == NULL) {
        ngx_free(job);
        return NGX_ERROR;
    }

    job->size = lines->len;
    job->text->len = lines->len;
    ngx_memcpy(job->text->data, lines->data, lines->len);

    return ngx_mcds_array_push(array, job);
}


ngx_int_t
ngx_mcds_array_change(ngx_mcds_array_t *array, ngx_uint_t shared,
    size_t size, ngx_mcds_array_edit_pt edit, ngx_mcds_array_done_pt handler,
    void *data)
{
    ngx_mcds_array_job_t  *job;

    if (ngx_mcds_array_pending + size > NGX_MCDS_ARRAY_PENDING) {
        return NGX_BUSY;
    }

    job = ngx_calloc(sizeof(ngx_mcds_array_job_t), ngx_cycle->log);
    if (job == NULL) {
        return NGX_ERROR;
    }

    job->edit = edit;
    job->handler = handler;
    job->data = data;
    job->size = size;
    job->shared = shared;

    return ngx_mcds_array_push(array, job);
}


static ngx_int_t
ngx_mcds_array_push(ngx_mcds_array_t *array, ngx_mcds_array_job_t *job)
{
    ngx_mcds_array_work_t  *work;

    work = ngx_mcds_array_work(array);

    if (work == NULL) {
        ngx_mcds_value_unref(job->text);
        ngx_free(job);
        return NGX_ERROR;
    }

    ngx_mcds_array_pending += sizeof(ngx_mcds_array_job_t) + job->size;

    ngx_queue_insert_tail(&work->jobs, &job->queue);

    return NGX_OK;
}


static void
ngx_mcds_array_free_job(ngx_mcds_array_job_t *job)
{
    ngx_mcds_array_pending -= sizeof(ngx_mcds_array_job_t) + job->size;

    ngx_mcds_value_unref(job->text);
    ngx_free(job);
}


static ngx_mcds_array_work_t *
ngx_mcds_array_work(ngx_mcds_array_t *array)
{
    uint32_t                hash;
    ngx_mcds_array_work_t  *work;
    ngx_mcds_index_node_t  *node;

    hash = ngx_mcds_hash(array->key.data, array->key.len);

    for (node = ngx_mcds_index_find(&ngx_mcds_arrays, array->pool, &array->key,
                                    hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        work = ngx_mcds_index_data(node, ngx_mcds_array_work_t, node);

        if (work->array.max != array->max) {
            continue;
        }

        if (work->event.timer_set) {

            /* no write is under way, the worker remembers that it is full */

            ngx_del_timer(&work->event);
            ngx_post_event(&work->event, &ngx_posted_events);
        }

        return work;
    }

    work = ngx_calloc(sizeof(ngx_mcds_array_work_t) + array->key.len,
                      ngx_cycle->log);
    if (work == NULL) {
        return NULL;
    }

    work->array = *array;
    work->array.key.data = (u_char *) work + sizeof(ngx_mcds_array_work_t);
    ngx_memcpy(work->array.key.data, array->key.data, array->key.len);

    ngx_queue_init(&work->jobs);
    ngx_queue_init(&work->active);

    if (ngx_mcds_index_insert(&ngx_mcds_arrays, &work->node, array->pool,
                              &work->array.key, hash,
                              sizeof(ngx_mcds_array_work_t) + array->key.len)
        != NGX_OK)
    {
        ngx_free(work);
        return NULL;
    }

    work->event.handler = ngx_mcds_array_event_handler;
    work->event.data = work;
    work->event.log = ngx_cycle->log;

    /*
     * writes to the array that come in this turn of the event loop are combined
     */

    ngx_post_event(&work->event, &ngx_posted_events);

    return work;
}


static void
ngx_mcds_array_event_handler(ngx_event_t *ev)
{
    ngx_mcds_array_work_t  *work;

    work = ev->data;

    if (ngx_queue_empty(&work->jobs)) {

        if (work->full && !ev->timedout) {
            ev->cancelable = 1;
            ngx_add_timer(ev, NGX_MCDS_ARRAY_FULL);
            return;
        }

        ngx_mcds_array_free_work(work);
        return;
    }

    work->update.tries = 0;
    work->mode = ngx_mcds_array_take(work);

    if (work->mode == NGX_MCDS_ARRAY_CHANGING) {
        ngx_mcds_array_change_start(work);
        return;
    }

    if (ngx_mcds_array_gather(work) != NGX_OK) {
        ngx_mcds_array_end(work, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_array_append_send(work, NGX_MCDS_APPEND);
}


static void
ngx_mcds_array_free_work(ngx_mcds_array_work_t *work)
{
    ngx_mcds_index_remove(&ngx_mcds_arrays, &work->node);
    ngx_free(work);
}


/*
 * Moves waiting writes to an array to work->active, as many as can be made
 * together.  Returns NGX_MCDS_ARRAY_APPENDING if one append command makes them,
 * or NGX_MCDS_ARRAY_CHANGING if one compare-and-swap does.
 */

static ngx_uint_t
ngx_mcds_array_take(ngx_mcds_array_work_t *work)
{
    size_t                 size;
    ngx_uint_t             mode, first;
    ngx_queue_t           *q;
    ngx_mcds_array_job_t  *job;

    mode = NGX_MCDS_ARRAY_APPENDING;
    first = 1;
    size = 0;

    while (!ngx_queue_empty(&work->jobs)) {

        q = ngx_queue_head(&work->jobs);
        job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);

        if (first) {
            if (job->edit || work->full
                || job->text->len > NGX_MCDS_ARRAY_BATCH)
            {
                mode = NGX_MCDS_ARRAY_CHANGING;
            }

        } else if (mode == NGX_MCDS_ARRAY_CHANGING) {

            if (job->edit && !job->shared) {
                break;
            }

        } else if (job->edit
                   || size + job->text->len > NGX_MCDS_ARRAY_BATCH)
        {
            break;
        }

        size += job->size;

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&work->active, q);

        if (job->edit && !job->shared) {
            break;
        }

        if (size > NGX_MCDS_ARRAY_SIZE) {
            break;
        }

        first = 0;
    }

    return mode;
}


static ngx_int_t
ngx_mcds_array_gather(ngx_mcds_array_work_t *work)
{
    size_t                 len;
    u_char                *p;
    ngx_queue_t           *q;
    ngx_mcds_array_job_t  *job;

    q = ngx_queue_head(&work->active);
    job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);

    if (q == ngx_queue_last(&work->active)) {
        work->text = ngx_mcds_value_ref(job->text);
        return NGX_OK;
    }

    len = 0;

    for ( /* void */ ;
         q != ngx_queue_sentinel(&work->active);
         q = ngx_queue_next(q))
    {
        job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);
        len += job->text->len;
    }

    work->text = ngx_mcds_value_create(len + NGX_MCDS_VALUE_SPARE,
                                       ngx_cycle->log);
    if (work->text == NULL) {
        return NGX_ERROR;
    }

    p = work->text->data;

    for (q = ngx_queue_head(&work->active);
         q != ngx_queue_sentinel(&work->active);
         q = ngx_queue_next(q))
    {
        job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);
        p = ngx_cpymem(p, job->text->data, job->text->len);
    }

    work->text->len = len;

    return NGX_OK;
}


void
ngx_mcds_array_append_send(ngx_mcds_array_work_t *work, ngx_uint_t verb)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    work->mode = NGX_MCDS_ARRAY_APPENDING;
    work->verb = verb;

    req.verb = verb;
    req.key = work->array.key;
    req.value = work->text;
    req.single = 1;

    work->op.handler = ngx_mcds_array_append_handler;
    work->op.data = work;

    ngx_mcds_submit(work->array.pool, &req, &work->op);
}


static void
ngx_mcds_array_append_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_array_work_t  *work;

    work = data;

    switch (result->rc) {

    case NGX_MCDS_OK:
        ngx_memzero(&work->done, sizeof(ngx_mcds_array_done_t));
        work->done.found = 1;

        if (work->verb == NGX_MCDS_APPEND && ngx_mcds_array_due(work)) {
            ngx_mcds_array_tell(work, NGX_MCDS_OK);

            work->mode = NGX_MCDS_ARRAY_LOOKING;
            work->update.tries = 0;

            ngx_mcds_array_change_start(work);
            return;
        }

        ngx_mcds_array_end(work, NGX_MCDS_OK);
        return;

    case NGX_MCDS_NOT_FOUND:
    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_TOO_LARGE:
        break;

    default:
        ngx_mcds_array_end(work, result->rc);
        return;
    }

    if (work->verb == NGX_MCDS_ADD) {

        if (result->rc != NGX_MCDS_NOT_STORED) {
            ngx_mcds_array_end(work, result->rc);
            return;
        }

        /*
         * the array exists: another worker has just created it, or its head
         * item is full
         */

        ngx_mcds_array_append_send(work, NGX_MCDS_APPEND);
        return;
    }

    if (++work->update.tries >= NGX_MCDS_ARRAY_ROUNDS) {
        ngx_mcds_array_end(work, NGX_MCDS_TOO_LARGE);
        return;
    }

    if (work->update.tries % 2 && result->rc != NGX_MCDS_TOO_LARGE) {
        ngx_mcds_array_append_send(work, NGX_MCDS_ADD);
        return;
    }

    work->mode = NGX_MCDS_ARRAY_MAKING_ROOM;

    ngx_mcds_array_change_start(work);
}


/*
 * Returns 1 if the array's head item is to be read after an append, to check
 * its size, which the reply to an append does not tell.  The choice is random,
 * so that a worker keeps no state for each array.
 */

static ngx_uint_t
ngx_mcds_array_due(ngx_mcds_array_work_t *work)
{
    ngx_uint_t  lines;

    if ((size_t) ngx_random() % NGX_MCDS_ARRAY_LOOK < work->text->len) {
        return 1;
    }

    if (work->array.max == 0) {
        return 0;
    }

    lines = ngx_mcds_array_lines(work->text->data,
                                 work->text->data + work->text->len);

    return (ngx_uint_t) ngx_random() % (work->array.max / 4 + 4) < lines;
}


void
ngx_mcds_array_end(ngx_mcds_array_work_t *work, ngx_uint_t rc)
{
    if (work->mode == NGX_MCDS_ARRAY_CHANGING && rc == NGX_MCDS_OK) {
        work->full = 0;
    }

    ngx_mcds_array_tell(work, rc);
    ngx_mcds_array_next_round(work);
}


static void
ngx_mcds_array_tell(ngx_mcds_array_work_t *work, ngx_uint_t rc)
{
    ngx_queue_t            *q;
    ngx_mcds_array_job_t   *job;
    ngx_mcds_array_done_t   done;

    while (!ngx_queue_empty(&work->active)) {

        q = ngx_queue_head(&work->active);
        job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);
        ngx_queue_remove(q);

        done = work->done;
        done.rc = (job->rc != NGX_MCDS_OK) ? job->rc : rc;

        if (job->handler) {
            job->handler(job->data, &done);
        }

        ngx_mcds_array_free_job(job);
    }
}


void
ngx_mcds_array_next_round(ngx_mcds_array_work_t *work)
{
    ngx_mcds_value_unref(work->text);
    work->text = NULL;

    ngx_post_event(&work->event, &ngx_posted_events);
}
