
/*
 * Copyright (C) mcds authors
 *
 * Counts requests and responses in memcached, and gives the numbers of the
 * counters to variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_counter_async.h"
#include "ngx_http_mcds_hotkeys.h"
#include "ngx_http_mcds_name.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_outbox.h"
#include "ngx_http_mcds_visitor.h"


static ngx_int_t ngx_http_mcds_counting_prepare(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_counting_init(ngx_conf_t *cf);
static void ngx_http_mcds_counting_exit(ngx_cycle_t *cycle);
static ngx_http_mcds_counter_ctx_t *ngx_http_mcds_counter_get(
    ngx_http_request_t *r);
static ngx_http_mcds_counter_ctx_t *ngx_http_mcds_counter_need(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_counting_start(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static ngx_int_t ngx_http_mcds_counting_all(ngx_http_request_t *r,
    ngx_http_mcds_counter_conf_t *ncf);
static ngx_uint_t ngx_http_mcds_counting_refused(ngx_http_request_t *r,
    ngx_http_mcds_counter_conf_t *ncf);
static ngx_http_mcds_number_t *ngx_http_mcds_number_find(
    ngx_http_mcds_counter_ctx_t *ctx, ngx_uint_t index);
static ngx_int_t ngx_http_mcds_count(ngx_http_request_t *r,
    ngx_http_mcds_number_t *number);
static ngx_int_t ngx_http_mcds_count_send(ngx_http_request_t *r,
    ngx_http_mcds_number_t *number, ngx_mcds_counter_t *c, int64_t delta);
static ngx_uint_t ngx_http_mcds_hotkeys_kind(ngx_http_mcds_counter_t *counter);
static ngx_int_t ngx_http_mcds_test_count(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_uint_t *counts);
static ngx_int_t ngx_http_mcds_delta(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, int64_t *delta);
static ngx_int_t ngx_http_mcds_counter_of(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_counter_t *c);
static void ngx_http_mcds_count_response(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_mcds_pool_t *pool,
    ngx_mcds_stat_t *stat, ngx_http_mcds_writeback_t *writeback,
    ngx_str_t *key);
static ngx_uint_t ngx_http_mcds_counts_status(ngx_http_request_t *r,
    ngx_array_t *statuses);
static void ngx_http_mcds_increment_counted(void *data, ngx_str_t *key,
    int64_t delta);
static void ngx_http_mcds_counted(void *data, ngx_uint_t rc, uint64_t value);
static void ngx_http_mcds_logged(void *data, ngx_uint_t rc, uint64_t value);
static ngx_int_t ngx_http_mcds_counting_log(ngx_http_request_t *r);
static ngx_msec_t ngx_http_mcds_counting_wait(ngx_http_mcds_task_t *task,
    ngx_uint_t *others);
static void ngx_http_mcds_counting_cleanup(ngx_http_mcds_task_t *task);
static void ngx_http_mcds_counting_hurry(ngx_http_mcds_task_t *task);
static ngx_int_t ngx_http_mcds_number_refresh(ngx_http_request_t *r,
    ngx_http_variable_t *var, ngx_http_variable_value_t *v);
static void ngx_http_mcds_number_too_early(ngx_http_request_t *r,
    ngx_uint_t index);


ngx_http_mcds_top_hooks_t        *ngx_http_mcds_top_hooks;
ngx_http_mcds_writeback_hooks_t  *ngx_http_mcds_writeback_hooks;


ngx_http_mcds_feature_t  ngx_http_mcds_counter_feature = {
    ngx_string("counter"),
    sizeof(ngx_http_mcds_counter_ctx_t),
    0,
    ngx_http_mcds_counting_prepare,
    ngx_http_mcds_counting_init,
    ngx_http_mcds_outbox_zone,
    ngx_http_mcds_counting_exit,
    NULL,                                  /* first */
    ngx_http_mcds_counting_start,
    NULL,                                  /* arrive */
    NULL,                                  /* decide */
    ngx_http_mcds_counting_wait,
    NULL,                                  /* until */
    ngx_http_mcds_counting_hurry,
    ngx_http_mcds_counting_cleanup,
    NULL                                   /* post_action */
};


static ngx_int_t
ngx_http_mcds_counting_prepare(ngx_conf_t *cf)
{
    ngx_http_mcds_refresh_value = ngx_http_mcds_number_refresh;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_counting_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt           *h;
    ngx_http_core_main_conf_t     *cmcf;
    ngx_http_mcds_counter_main_t  *nmcf;

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);

    if (nmcf->responses) {
        cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

        h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = ngx_http_mcds_counting_log;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_counting_exit(ngx_cycle_t *cycle)
{
    ngx_mcds_counter_async_exit(cycle->log);
}


static ngx_http_mcds_counter_ctx_t *
ngx_http_mcds_counter_get(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_get(r);

    return (task && task->begun)
           ? ngx_http_mcds_task_ctx(task, &ngx_http_mcds_counter_feature)
           : NULL;
}


static ngx_http_mcds_counter_ctx_t *
ngx_http_mcds_counter_need(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_begin(r);

    return task ? ngx_http_mcds_task_ctx(task, &ngx_http_mcds_counter_feature)
                : NULL;
}


static ngx_int_t
ngx_http_mcds_counting_start(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    if (ncf->counters == NULL || r != r->main) {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_counting_all(r, ncf) == NGX_OK
           ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_mcds_counting_all(ngx_http_request_t *r,
    ngx_http_mcds_counter_conf_t *ncf)
{
    size_t                        size;
    ngx_uint_t                    i, n;
    ngx_http_mcds_counter_ctx_t  *ctx;
    ngx_http_mcds_counter_t      *counter;
    ngx_http_mcds_numbers_t      *numbers;

    if (ngx_http_mcds_counting_refused(r, ncf)) {
        return NGX_OK;
    }

    ctx = ngx_http_mcds_counter_need(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    counter = ncf->counters->elts;
    n = 0;

    for (i = 0; i < ncf->counters->nelts; i++) {
        if (ngx_http_mcds_number_find(ctx, counter[i].index) == NULL) {
            n++;
        }
    }

    if (n == 0) {
        return NGX_OK;
    }

    size = offsetof(ngx_http_mcds_numbers_t, number)
           + n * sizeof(ngx_http_mcds_number_t);

    numbers = ngx_pcalloc(r->pool, size);
    if (numbers == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < ncf->counters->nelts; i++) {

        if (ngx_http_mcds_number_find(ctx, counter[i].index)) {
            continue;
        }

        n = numbers->n++;

        numbers->number[n].task = ctx->task;
        numbers->number[n].counter = &counter[i];
        numbers->number[n].pool = ncf->pool;
        numbers->number[n].stat = ncf->counter_stats[i];
        numbers->number[n].writeback = ncf->writeback;

        if (ngx_http_mcds_count(r, &numbers->number[n]) != NGX_OK) {
            break;
        }
    }

    numbers->next = ctx->numbers;
    ctx->numbers = numbers;

    return i < ncf->counters->nelts ? NGX_ERROR : NGX_OK;
}


/*
 * Returns 1 if a request is redirected to an error page whose location inherits
 * its counters from the server.  The server's counters are for the original
 * request, which may have been refused, so the error page is not counted.
 */

static ngx_uint_t
ngx_http_mcds_counting_refused(ngx_http_request_t *r,
    ngx_http_mcds_counter_conf_t *ncf)
{
    ngx_http_core_srv_conf_t      *cscf;
    ngx_http_mcds_counter_conf_t  *server;

    if (r->err_status == 0) {
        return 0;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
    server = cscf->ctx->loc_conf[ngx_http_mcds_counter_module.ctx_index];

    return ncf->counters == server->counters;
}


static ngx_int_t
ngx_http_mcds_count(ngx_http_request_t *r, ngx_http_mcds_number_t *number)
{
    int64_t                   delta;
    ngx_str_t                 key;
    ngx_uint_t                counts;
    ngx_mcds_counter_t        c;
    ngx_http_mcds_counter_t  *counter;

    counter = number->counter;

    if (ngx_http_complex_value(r, &counter->key, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    if (key.len == 0 || (counter->init && ngx_http_mcds_counter_taken(&key))) {
        return NGX_OK;
    }

    number->hot = key;
    ngx_http_mcds_hotkeys_add(ngx_http_mcds_hotkeys_kind(counter), &key);
    counts = 0;

    if (counter->response) {

        number->key.data = ngx_pstrdup(r->pool, &key);
        if (number->key.data == NULL) {
            return NGX_ERROR;
        }

        number->key.len = key.len;

    } else if (ngx_http_mcds_test_count(r, counter, &counts) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!counter->response) {
        ngx_mcds_stat_add(number->stat, counts ? NGX_MCDS_DATA_COUNT
                                               : NGX_MCDS_DATA_READ, 1);
    }

    if (counter->visitor) {
        return ngx_http_mcds_visitor_start(r, counter, number, number->pool,
                                           &key, counts);
    }

    delta = 0;

    if (counts && ngx_http_mcds_delta(r, counter, &delta) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_counter_of(r, counter, number->pool, &key, &c)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (counter->top && delta > 0) {
        ngx_http_mcds_top_hooks->count(counter->top, &key, delta);
    }

    return ngx_http_mcds_count_send(r, number, &c, delta);
}


/* changes the counter c by delta, or reads it if delta is 0 */

static ngx_int_t
ngx_http_mcds_count_send(ngx_http_request_t *r, ngx_http_mcds_number_t *number,
    ngx_mcds_counter_t *c, int64_t delta)
{
    uint64_t                  value;
    ngx_uint_t                seeded;
    ngx_mcds_source_t         source;
    ngx_http_mcds_counter_t  *counter;

    counter = number->counter;
    seeded = (counter->init && delta && !counter->async);

    /*
     * the URI that gives the initial value is computed now: try_files and
     * rewrites can change variables of the request before memcached replies
     * whether there is a counter
     */

    if (seeded
        && ngx_http_complex_value(r, counter->init, &number->init) != NGX_OK)
    {
        return NGX_ERROR;
    }

    source = counter->source;

    if (delta && number->writeback && counter->writeback) {

        if (seeded) {
            source.counted = ngx_http_mcds_increment_counted;
            source.data = number->writeback;

        } else {
            ngx_http_mcds_writeback_hooks->add(number->writeback, &c->key,
                                               delta);
        }
    }

    /* when out of memory, the page is sent without the counter's value */

    if (counter->async) {
        if (ngx_mcds_counter_async_change(c, delta, counter->flush,
                                          number->stat, &value)
            == NGX_OK)
        {
            ngx_http_mcds_number_set(number, value);
        }

        return NGX_OK;
    }

    if (seeded) {
        number->increment = ngx_mcds_seed_change(c, delta, &source,
                                                 ngx_http_mcds_counted, number);

        if (number->increment == NULL && source.counted) {
            ngx_http_mcds_increment_counted(source.data, &c->key, delta);
        }

    } else {
        number->count = ngx_mcds_counter_change(c, delta,
                                                ngx_http_mcds_counted, number);
    }

    if (number->count || number->increment) {
        number->task->waiting++;
        number->task->needed++;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mcds_hotkeys_kind(ngx_http_mcds_counter_t *counter)
{
    return counter->visitor ? NGX_MCDS_HOTKEYS_VISITORS
                            : NGX_MCDS_HOTKEYS_COUNTERS;
}


/*
 * sets *counts to 1 if the counter's parameters "read" and "if=" let the
 * request count
 */

static ngx_int_t
ngx_http_mcds_test_count(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter,
    ngx_uint_t *counts)
{
    ngx_str_t  value;

    if (counter->filter == NULL) {
        *counts = !counter->read;
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, counter->filter, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    *counts = (value.len && !(value.len == 1 && value.data[0] == '0'));

    return NGX_OK;
}


/*
 * sets *delta to the number that the request adds to the counter: 1, or the
 * value of the counter's parameter "by="
 */

static ngx_int_t
ngx_http_mcds_delta(ngx_http_request_t *r, ngx_http_mcds_counter_t *counter,
    int64_t *delta)
{
    ngx_str_t                      value;
    ngx_http_mcds_counter_main_t  *nmcf;
    ngx_http_mcds_number_var_t    *number;

    if (counter->by == NULL) {
        *delta = counter->delta;
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, counter->by, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    *delta = 0;

    if (value.len == 0
        || ngx_http_mcds_counter_delta(&value, delta) == NGX_OK)
    {
        return NGX_OK;
    }

    nmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_counter_module);
    number = nmcf->numbers.elts;
    number += counter->index;

    if (!number->refused) {
        number->refused = 1;

        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "\"by=\" of variable \"%V\" is no number: \"%V\", "
                      "it is not counted", &number->name, &value);
    }

    return NGX_OK;
}


/* sets c to the item in memcached that holds the counter's value */

static ngx_int_t
ngx_http_mcds_counter_of(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_counter_t *c)
{
    u_char    *p;
    time_t     now;
    uint32_t   ttl;

    c->pool = pool;
    c->key = *key;
    c->initial = counter->initial;
    c->ttl = counter->ttl;
    c->update = 0;
    c->durable = counter->durable;
    c->buffer = counter->buffer;

    if (counter->period.length == 0) {
        return NGX_OK;
    }

    now = ngx_time();

    p = ngx_pnalloc(r->pool, key->len + 1 + NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    c->key.data = p;
    c->key.len = ngx_sprintf(p, "%V:%uL", key,
                             ngx_mcds_period_number(&counter->period, now))
                 - p;

    ttl = ngx_mcds_period_ttl(&counter->period, now);

    c->ttl = ngx_max(c->ttl, ttl);

    return NGX_OK;
}


/*
 * Log phase handler: counts the responses for the counters of each location
 * that the request has passed, and of the location in which it has ended.
 */

static ngx_int_t
ngx_http_mcds_counting_log(ngx_http_request_t *r)
{
    ngx_uint_t                     i;
    ngx_http_mcds_counter_ctx_t   *ctx;
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_numbers_t       *numbers;
    ngx_http_mcds_counter_conf_t  *ncf;

    if (r != r->main) {
        return NGX_OK;
    }

    ctx = ngx_http_mcds_counter_get(r);

    if (ctx) {

        for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

            for (i = 0; i < numbers->n; i++) {
                ngx_http_mcds_count_response(r, numbers->number[i].counter,
                                             numbers->number[i].pool,
                                             numbers->number[i].stat,
                                             numbers->number[i].writeback,
                                             &numbers->number[i].key);
            }
        }
    }

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    if (ncf->counters == NULL) {
        return NGX_OK;
    }

    counter = ncf->counters->elts;

    for (i = 0; i < ncf->counters->nelts; i++) {

        if (ctx == NULL
            || ngx_http_mcds_number_find(ctx, counter[i].index) == NULL)
        {
            ngx_http_mcds_count_response(r, &counter[i], ncf->pool,
                                         ncf->counter_stats[i],
                                         ncf->writeback, NULL);
        }
    }

    return NGX_OK;
}


static void
ngx_http_mcds_count_response(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_mcds_pool_t *pool,
    ngx_mcds_stat_t *stat, ngx_http_mcds_writeback_t *writeback,
    ngx_str_t *key)
{
    int64_t             delta;
    uint64_t            value;
    ngx_str_t           text;
    ngx_uint_t          counts;
    ngx_mcds_counter_t  c;

    if (!counter->response
        || !ngx_http_mcds_counts_status(r, counter->statuses)
        || ngx_http_mcds_test_count(r, counter, &counts) != NGX_OK
        || !counts
        || ngx_http_mcds_delta(r, counter, &delta) != NGX_OK
        || delta == 0)
    {
        return;
    }

    if (key == NULL) {

        if (ngx_http_complex_value(r, &counter->key, &text) != NGX_OK) {
            return;
        }

        key = &text;
        ngx_http_mcds_hotkeys_add(NGX_MCDS_HOTKEYS_COUNTERS, key);
    }

    if (key->len == 0
        || ngx_http_mcds_counter_of(r, counter, pool, key, &c) != NGX_OK)
    {
        return;
    }

    ngx_mcds_stat_add(stat, NGX_MCDS_DATA_COUNT, 1);

    if (counter->top && delta > 0) {
        ngx_http_mcds_top_hooks->count(counter->top, key, delta);
    }

    if (writeback && counter->writeback) {
        ngx_http_mcds_writeback_hooks->add(writeback, &c.key, delta);
    }

    if (counter->async) {
        (void) ngx_mcds_counter_async_change(&c, delta, counter->flush, stat,
                                             &value);
        return;
    }

    (void) ngx_mcds_counter_change(&c, delta, ngx_http_mcds_logged, stat);
}


static ngx_uint_t
ngx_http_mcds_counts_status(ngx_http_request_t *r, ngx_array_t *statuses)
{
    ngx_uint_t  i, status, *counted;

    if (statuses == NULL) {
        return 1;
    }

    /*
     * the response's status, which is the value of $status in the access log,
     * is compared with the statuses that the counter counts
     */

    status = r->err_status ? r->err_status : r->headers_out.status;

    counted = statuses->elts;

    for (i = 0; i < statuses->nelts; i++) {
        if (counted[i] == status || counted[i] == status / 100) {
            return 1;
        }
    }

    return 0;
}


/*
 * Adds a change of a counter to the sum that mcds_counter_writeback posts to a
 * location.  If a URI gives the counter's initial value, mcds calls this
 * function only when that number is known, or will not come.
 */

static void
ngx_http_mcds_increment_counted(void *data, ngx_str_t *key, int64_t delta)
{
    ngx_http_mcds_writeback_hooks->add(data, key, delta);
}


static void
ngx_http_mcds_counted(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_number_t *number = data;

    if (number->increment && ngx_mcds_seed_sought(number->increment)) {
        number->task->seeded = 1;
    }

    number->count = NULL;
    number->increment = NULL;

    if (rc == NGX_MCDS_OK) {
        ngx_http_mcds_number_set(number, value);

    } else {
        ngx_http_mcds_stat_failed(number->stat, rc);
    }

    number->task->needed--;

    ngx_http_mcds_task_result(number->task);
}


void
ngx_http_mcds_number_set(ngx_http_mcds_number_t *number, uint64_t value)
{
    number->valid = 1;
    number->value = value;

    ngx_http_mcds_hotkeys_note(ngx_http_mcds_hotkeys_kind(number->counter),
                               &number->hot, value);
}


/*
 * the handler for the result of a counter that counts in the log phase: the
 * counter's value is not shown any more, but failures are counted in the
 * statistics
 */

static void
ngx_http_mcds_logged(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_mcds_stat_t *stat = data;

    if (rc != NGX_MCDS_OK) {
        ngx_http_mcds_stat_failed(stat, rc);
    }
}


static ngx_msec_t
ngx_http_mcds_counting_wait(ngx_http_mcds_task_t *task, ngx_uint_t *others)
{
    ngx_msec_t                    timeout;
    ngx_uint_t                    i;
    ngx_http_mcds_numbers_t      *numbers;
    ngx_http_mcds_counter_ctx_t  *ctx;

    if (task->needed == 0) {
        return 0;
    }

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_counter_feature);

    timeout = 0;

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {
            timeout = ngx_max(timeout, numbers->number[i].pool->timeout);
        }
    }

    return timeout;
}


static void
ngx_http_mcds_counting_cleanup(ngx_http_mcds_task_t *task)
{
    ngx_uint_t                    i;
    ngx_http_mcds_numbers_t      *numbers;
    ngx_http_mcds_counter_ctx_t  *ctx;

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_counter_feature);

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {

            if (numbers->number[i].count) {
                ngx_mcds_counter_cancel(numbers->number[i].count);
            }

            if (numbers->number[i].increment) {
                ngx_mcds_seed_cancel(numbers->number[i].increment);
            }

            ngx_http_mcds_visitor_cancel(&numbers->number[i]);
        }
    }

    ctx->numbers = NULL;
}


static void
ngx_http_mcds_counting_hurry(ngx_http_mcds_task_t *task)
{
    ngx_uint_t                    i;
    ngx_http_mcds_number_t       *number;
    ngx_http_mcds_numbers_t      *numbers;
    ngx_http_mcds_counter_ctx_t  *ctx;

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_counter_feature);

    for (numbers = ctx->numbers; numbers && task->needed;
         numbers = numbers->next)
    {
        for (i = 0; i < numbers->n; i++) {
            number = &numbers->number[i];

            if (number->increment && ngx_mcds_seed_sought(number->increment)) {

                /*
                 * the request goes on waiting for the counter's initial value
                 * from another location: mcds_counter_init has its own
                 * "timeout=" for that
                 */

                task->seeded = 1;
                continue;
            }

            if (number->count) {
                ngx_mcds_counter_cancel(number->count);
                ngx_http_mcds_counted(number, NGX_MCDS_TIMEOUT, 0);

            } else if (number->increment) {
                ngx_mcds_seed_cancel(number->increment);
                ngx_http_mcds_counted(number, NGX_MCDS_TIMEOUT, 0);
            }

            ngx_http_mcds_visitor_hurry(number);
        }
    }
}


static ngx_http_mcds_number_t *
ngx_http_mcds_number_find(ngx_http_mcds_counter_ctx_t *ctx, ngx_uint_t index)
{
    ngx_uint_t                i;
    ngx_http_mcds_numbers_t  *numbers;

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {
            if (numbers->number[i].counter->index == index) {
                return &numbers->number[i];
            }
        }
    }

    return NULL;
}


/*
 * a counter's variable has the same value in a subrequest as in its main
 * request: the number that the main request shows
 */

ngx_int_t
ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                       *p;
    ngx_http_mcds_counter_ctx_t  *ctx;
    ngx_http_mcds_number_t       *number;

    ctx = ngx_http_mcds_counter_get(r->main);

    number = ctx ? ngx_http_mcds_number_find(ctx, data) : NULL;

    if (number == NULL) {
        ngx_http_mcds_number_too_early(r, data);
    }

    if (number == NULL || !number->valid) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;
    v->len = ngx_mcds_decimal(p, number->value) - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/*
 * gives a request that refreshes a page, and is not counted, the number that a
 * counter's variable has in the client's request that starts the refresh
 */

static ngx_int_t
ngx_http_mcds_number_refresh(ngx_http_request_t *r, ngx_http_variable_t *var,
    ngx_http_variable_value_t *v)
{
    ngx_http_mcds_number_t       *number;
    ngx_http_mcds_counter_ctx_t  *ctx;

    if (var->get_handler != ngx_http_mcds_number_variable) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_mcds_counter_get(r->main);

    number = ctx ? ngx_http_mcds_number_find(ctx, var->data) : NULL;

    if (number == NULL || !number->valid) {
        return NGX_DECLINED;
    }

    ngx_memzero(v, sizeof(ngx_http_variable_value_t));

    return ngx_http_mcds_number_variable(r, v, var->data);
}


static void
ngx_http_mcds_number_too_early(ngx_http_request_t *r, ngx_uint_t index)
{
    ngx_uint_t                     i;
    ngx_http_mcds_task_t          *task;
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_conf_t  *ncf;
    ngx_http_mcds_counter_main_t  *nmcf;
    ngx_http_mcds_number_var_t    *number;

    /*
     * a request that reads a counter's variable too early causes no warning if
     * it was refused, or ended early, or refreshes a page: such a request is
     * not counted
     */

    task = ngx_http_mcds_task_get(r);

    if (task && task->refresh) {
        return;
    }

    r = r->main;

    if (r->header_sent || r->err_status || r->count == 0) {
        return;
    }

    nmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_counter_module);
    number = nmcf->numbers.elts;

    if (number[index].warned) {
        return;
    }

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    if (ncf->counters == NULL) {
        return;
    }

    counter = ncf->counters->elts;

    for (i = 0; i < ncf->counters->nelts; i++) {

        if (counter[i].index == index) {
            number[index].warned = 1;

            ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                          "variable \"%V\" is empty when it is read before "
                          "the precontent phase", &number[index].name);
            return;
        }
    }
}
