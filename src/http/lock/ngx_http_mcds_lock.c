
/*
 * Copyright (C) mcds authors
 *
 * mcds_lock: the request continues when it holds the lock; the lock is released
 * when the request's memory is freed, however the request ends.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_budget.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_lock.h"


typedef struct ngx_http_mcds_lock_ctx_s  ngx_http_mcds_lock_ctx_t;
typedef struct ngx_http_mcds_lock_claim_s  ngx_http_mcds_lock_claim_t;


/*
 * a lock that a request has asked for; a request may have several, by internal
 * redirects
 */

struct ngx_http_mcds_lock_claim_s {
    ngx_http_mcds_lock_claim_t  *next;
    ngx_http_mcds_lock_ctx_t    *ctx;
    ngx_mcds_pool_t             *pool;
    ngx_str_t                    key;
    ngx_http_mcds_lock_conf_t   *conf;
    ngx_mcds_stat_t             *stat;
    ngx_mcds_lock_t             *lock;     /* the lock that the request holds or
                                              waits for; NULL: it was released
                                              or refused */
    ngx_uint_t                   status;   /* the result of the request for the
                                              lock, ngx_mcds_lock_e */
    uint64_t                     number;   /* the fencing token of the lock; 0:
                                              it was not acquired, or the
                                              request still waits for it */
};


struct ngx_http_mcds_lock_ctx_s {
    ngx_http_mcds_task_t        *task;
    ngx_http_mcds_lock_claim_t  *claims;   /* list of the request's locks, that
                                              of its latest location first */
    ngx_mcds_budget_t            patience; /* the time that the request may wait
                                              if another owner holds the lock */
    ngx_msec_t                   start;
    ngx_msec_t                   wait;
    ngx_http_upstream_t         *upstream; /* r->upstream of the request r when
                                              it came to its error page */
    unsigned                     error_page:1; /* 1: the request has come to an
                                                  error page */
    unsigned                     left:1;      /* 1: the client has left while
                                                 the request waited for a lock,
                                                 and the location of
                                                 "post_action" is not known
                                                 yet */
    unsigned                     asked:1;     /* 1: the request has asked for a
                                                 lock */
    unsigned                     waiting:1;
    unsigned                     answered:1;  /* 1: the lock was granted or
                                                 refused, but the request has
                                                 not continued yet */
    unsigned                     refused:1;
    unsigned                     longer:1;    /* 1: another owner holds the
                                                 lock: the request may wait
                                                 longer than the timeout of
                                                 the memcached servers */
};


static ngx_int_t ngx_http_mcds_lock_take(ngx_http_request_t *r,
    ngx_http_mcds_lock_loc_conf_t *llcf);
static ngx_http_mcds_lock_claim_t *ngx_http_mcds_lock_find(
    ngx_http_mcds_lock_ctx_t *ctx, ngx_http_mcds_lock_loc_conf_t *llcf,
    ngx_str_t *key);
static void ngx_http_mcds_lock_acquired(void *data,
    ngx_mcds_lock_t *lock, ngx_uint_t status);
static void ngx_http_mcds_lock_over(void *data);
static ngx_int_t ngx_http_mcds_lock_wait(ngx_http_mcds_lock_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_lock_note_error_page(ngx_http_request_t *r,
    ngx_http_mcds_lock_ctx_t *ctx);
static void ngx_http_mcds_lock_post_action(ngx_http_mcds_task_t *task);
static ngx_uint_t ngx_http_mcds_lock_same(ngx_http_request_t *r,
    ngx_http_mcds_lock_claim_t *claim);
static void ngx_http_mcds_lock_drop(ngx_http_mcds_lock_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_lock_judge(ngx_http_request_t *r,
    ngx_http_mcds_lock_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_lock_refuse(ngx_http_request_t *r,
    ngx_http_mcds_lock_ctx_t *ctx, ngx_uint_t status, char *retry_after);
static ngx_http_mcds_lock_ctx_t *ngx_http_mcds_lock_get_ctx(
    ngx_http_request_t *r);
static void ngx_http_mcds_lock_cleanup(ngx_http_mcds_task_t *task);
static ngx_int_t ngx_http_mcds_lock_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_lock_token_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_lock_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


ngx_http_mcds_feature_t  ngx_http_mcds_lock_feature = {
    ngx_string("lock"),
    sizeof(ngx_http_mcds_lock_ctx_t),
    0,
    NULL,                                  /* prepare */
    NULL,                                  /* init */
    NULL,                                  /* zone */
    NULL,                                  /* exit */
    NULL,                                  /* first */
    NULL,                                  /* start */
    NULL,                                  /* arrive */
    NULL,                                  /* decide */
    NULL,                                  /* wait */
    NULL,                                  /* until */
    NULL,                                  /* hurry */
    ngx_http_mcds_lock_cleanup,
    ngx_http_mcds_lock_post_action
};


/* the values of $mcds_lock_status, indexed by ngx_mcds_lock_e */

#define ngx_http_mcds_lock_word(name, word)  ngx_string(word),

static ngx_str_t  ngx_http_mcds_lock_statuses[] = {
    NGX_MCDS_LOCK_LIST(ngx_http_mcds_lock_word)
    ngx_string("lost")
};


static ngx_http_variable_t  ngx_http_mcds_lock_vars[] = {

    { ngx_string("mcds_lock_status"), NULL,
      ngx_http_mcds_lock_status_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_lock_token"), NULL,
      ngx_http_mcds_lock_token_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_lock_wait"), NULL,
      ngx_http_mcds_lock_time_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_mcds_lock_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mcds_add_vars(cf, ngx_http_mcds_lock_vars);
}


ngx_int_t
ngx_http_mcds_lock_handler(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t           *task;
    ngx_http_mcds_lock_ctx_t       *ctx;
    ngx_http_mcds_lock_loc_conf_t  *llcf;

    if (r != r->main) {
        return NGX_DECLINED;
    }

    task = ngx_http_mcds_task_enter(r);

    if (task && ngx_http_mcds_is_parked(&task->park)) {

        /*
         * the phases of a request run that waits for a lock or for another
         * reply of memcached: another module runs them, or the client has left
         * and nginx has led the request to its "post_action"; the request goes
         * on waiting
         */

        return NGX_AGAIN;
    }

    ctx = ngx_http_mcds_lock_get_ctx(r);
    llcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_lock_module);

    if (ctx && ctx->left) {
        ctx->left = 0;

        if (!ngx_http_mcds_lock_same(r, ctx->claims)) {
            ngx_http_mcds_lock_drop(ctx);

        } else if (ctx->waiting) {
            return ngx_http_mcds_lock_wait(ctx);
        }
    }

    if (ctx) {

        if (ctx->answered) {

            if (ctx->claims->lock
                || ctx->claims->conf == llcf->lock
                || !r->post_action)
            {
                return ngx_http_mcds_lock_judge(r, ctx);
            }

            /*
             * the location of "post_action" has the lock for which the client
             * waited, but perhaps waits longer for it: it asks again
             */

            ngx_http_mcds_lock_drop(ctx);
        }

        /*
         * The error page of a request that has already asked for a lock does
         * not ask for another one.  With "post_action", each location asks:
         * nginx does not tell an error page from the location of a further
         * "post_action", which must not run without its lock.
         */

        if (!r->post_action && ngx_http_mcds_lock_note_error_page(r, ctx)) {
            return NGX_DECLINED;
        }
    }

    if (llcf->lock == NULL) {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_lock_take(r, llcf);
}


static ngx_int_t
ngx_http_mcds_lock_take(ngx_http_request_t *r,
    ngx_http_mcds_lock_loc_conf_t *llcf)
{
    ngx_str_t                    key;
    ngx_http_mcds_lock_claim_t  *claim;
    ngx_http_mcds_task_t        *task;
    ngx_mcds_lock_wish_t         wish;
    ngx_http_mcds_lock_ctx_t    *ctx;

    if (ngx_http_complex_value(r, &llcf->lock->key, &key) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (key.len == 0) {
        return NGX_DECLINED;
    }

    if (ngx_mcds_lock_is_fence(&key)) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "key \"%V\" of \"mcds_lock\" counts the owners of "
                      "another lock", &key);
        return NGX_HTTP_BAD_REQUEST;
    }

    ctx = ngx_http_mcds_lock_get_ctx(r);

    if (ctx && ngx_http_mcds_lock_find(ctx, llcf, &key)) {
        return NGX_DECLINED;
    }

    task = ngx_http_mcds_task_need(r);
    if (task == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_lock_feature);
    ctx->asked = 1;

    (void) ngx_http_mcds_lock_note_error_page(r, ctx);

    claim = ngx_pcalloc(r->pool, sizeof(ngx_http_mcds_lock_claim_t));
    if (claim == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    claim->ctx = ctx;
    claim->pool = llcf->pool;
    claim->key = key;
    claim->conf = llcf->lock;
    claim->stat = llcf->stat;

    ngx_memzero(&wish, sizeof(ngx_mcds_lock_wish_t));

    wish.pool = llcf->pool;
    wish.key = key;
    wish.ttl = llcf->lock->ttl;
    wish.wait = llcf->lock->wait;
    wish.waiters = llcf->lock->waiters;

    claim->lock = ngx_mcds_lock_acquire(&wish,
                                        ngx_http_mcds_lock_acquired,
                                        claim);
    if (claim->lock == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    claim->next = ctx->claims;
    ctx->claims = claim;

    ctx->waiting = 1;
    ctx->start = ngx_current_msec;

    return ngx_http_mcds_lock_wait(ctx);
}


/*
 * Finds a lock that the request has already, or passes without.  Its claim
 * becomes the first of the list: the variables show the state and number of
 * this lock, not those of a lock that was taken since.  NULL: the request is to
 * ask for the lock.
 */

static ngx_http_mcds_lock_claim_t *
ngx_http_mcds_lock_find(ngx_http_mcds_lock_ctx_t *ctx,
    ngx_http_mcds_lock_loc_conf_t *llcf, ngx_str_t *key)
{
    ngx_http_mcds_lock_claim_t  *claim, *later;

    later = NULL;

    for (claim = ctx->claims; claim; claim = claim->next) {

        if (claim->pool == llcf->pool && ngx_mcds_same(&claim->key, key)) {
            break;
        }

        later = claim;
    }

    if (claim == NULL) {
        return NULL;
    }

    if (claim->lock == NULL
        && (claim->status != NGX_MCDS_LOCK_UNAVAILABLE
            || llcf->lock->unavailable != NGX_HTTP_MCDS_LOCK_PASS))
    {
        /*
         * another location has let the request pass without the lock, which
         * this location does not, or has refused the request, which has come to
         * a location that takes its lock all the same
         */

        return NULL;
    }

    if (later) {
        later->next = claim->next;
        claim->next = ctx->claims;
        ctx->claims = claim;
    }

    return claim;
}


static ngx_int_t
ngx_http_mcds_lock_wait(ngx_http_mcds_lock_ctx_t *ctx)
{
    ngx_int_t              rc;
    ngx_http_mcds_task_t  *task;

    task = ctx->task;

    ctx->longer = 0;

    rc = ngx_http_mcds_park(&task->park);

    if (rc == NGX_AGAIN) {
        ngx_mcds_wait_begin(&task->delay, &task->budget,
                            ctx->claims->pool->timeout,
                            ngx_http_mcds_lock_over, ctx);
    }

    return rc;
}


static void
ngx_http_mcds_lock_acquired(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t status)
{
    ngx_http_mcds_lock_claim_t *claim = data;

    ngx_http_mcds_task_t      *task;
    ngx_http_mcds_lock_ctx_t  *ctx;

    ctx = claim->ctx;
    task = ctx->task;

    claim->lock = lock;
    claim->status = status;

    ngx_mcds_stat_add(claim->stat, NGX_MCDS_STAT_LOCK_HELD + status, 1);

    if (status == NGX_MCDS_LOCK_LOST) {
        ngx_log_error(NGX_LOG_WARN, task->request->connection->log, 0,
                      "\"mcds_lock\" has lost \"%V\" while the request is "
                      "running", &claim->key);
        return;
    }

    ctx->waiting = 0;
    ctx->answered = 1;

    if (ctx->left) {

        /* the request does not wait, or for something else by now */

    } else if (status == NGX_MCDS_LOCK_LATE
        || (lock && ngx_mcds_lock_waited(lock)))
    {
        /*
         * the time for which the request has waited for another owner of the
         * lock does not count towards the time that it may wait for memcached
         */

        ngx_mcds_wait_cancel(&task->delay);

    } else {
        ngx_mcds_wait_end(&task->delay, ngx_current_msec);
    }

    ngx_mcds_stat_time(claim->stat, NGX_MCDS_STAT_LOCK_TIME,
                       ngx_current_msec - ctx->start);

    if (!ctx->left) {
        ngx_http_mcds_wake(&task->park);
    }
}


/*
 * Called when the time for which a request may wait for a lock is over.  If
 * another owner holds the lock, the request waits once more, for "wait=" plus
 * the timeout of the pool of memcached servers.  Otherwise, or after that, the
 * lock counts as unavailable; if memcached grants it later, mcds releases it at
 * once.
 */

static void
ngx_http_mcds_lock_over(void *data)
{
    ngx_http_mcds_lock_ctx_t *ctx = data;

    ngx_http_mcds_lock_claim_t  *claim;

    claim = ctx->claims;

    if (!ctx->waiting || claim->lock == NULL) {
        return;
    }

    if (ngx_mcds_lock_waited(claim->lock) && !ctx->longer) {
        ctx->longer = 1;

        ngx_memzero(&ctx->patience, sizeof(ngx_mcds_budget_t));

        ngx_mcds_wait_cancel(&ctx->task->delay);
        ngx_mcds_wait_begin(&ctx->task->delay, &ctx->patience,
                            claim->conf->wait + claim->pool->timeout,
                            ngx_http_mcds_lock_over, ctx);
        return;
    }

    ngx_mcds_lock_release(claim->lock);

    ngx_http_mcds_budget_log(ctx->task->request);

    ngx_http_mcds_lock_acquired(claim, NULL, NGX_MCDS_LOCK_UNAVAILABLE);
}


/*
 * Returns 1 if the location is that of an error page, and notes the first such
 * location.  A location is none if an upstream has led the request to it by
 * X-Accel-Redirect, though another upstream was asked, or the request was at an
 * error page, before: the location makes the response.
 */

static ngx_uint_t
ngx_http_mcds_lock_note_error_page(ngx_http_request_t *r,
    ngx_http_mcds_lock_ctx_t *ctx)
{
    if (!ctx->refused && !ngx_http_mcds_is_error_page(r)) {
        return 0;
    }

    if (!ctx->error_page) {
        ctx->error_page = 1;
        ctx->upstream = r->upstream;
        return 1;
    }

    return r->upstream == ctx->upstream || !ngx_http_mcds_is_accel(r);
}


/*
 * If the client has left while its request waited for a lock, the request does
 * not wait for it until it has come to a location of "post_action" with the
 * same lock; another location makes it give up the lock.
 */

static void
ngx_http_mcds_lock_post_action(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_lock_ctx_t  *ctx;

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_lock_feature);

    if (!ctx->waiting && !ctx->answered) {
        return;
    }

    ctx->left = 1;

    /*
     * the time for which the client has waited for the lock does not count
     * towards the time that "post_action" may wait for memcached
     */

    ngx_mcds_wait_cancel(&task->delay);

    ngx_http_mcds_park_cancel(&task->park);
}


/* 1 if mcds_lock of the request's location has the lock of this claim */

static ngx_uint_t
ngx_http_mcds_lock_same(ngx_http_request_t *r,
    ngx_http_mcds_lock_claim_t *claim)
{
    ngx_str_t                       key;
    ngx_http_mcds_lock_loc_conf_t  *llcf;

    llcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_lock_module);

    if (llcf->lock == NULL || llcf->pool != claim->pool
        || ngx_http_complex_value(r, &llcf->lock->key, &key) != NGX_OK)
    {
        return 0;
    }

    return ngx_mcds_same(&claim->key, &key);
}


/*
 * Called when the client of a request that waits for a lock has left, and nginx
 * has led the request to a location with another lock or none: the request
 * gives up the lock.
 */

static void
ngx_http_mcds_lock_drop(ngx_http_mcds_lock_ctx_t *ctx)
{
    ngx_http_mcds_lock_claim_t  *claim;

    claim = ctx->claims;
    ctx->claims = claim->next;

    if (claim->lock) {
        ngx_mcds_lock_release(claim->lock);
    }

    ctx->waiting = 0;
    ctx->answered = 0;
    ctx->wait += ngx_current_msec - ctx->start;
}


static ngx_int_t
ngx_http_mcds_lock_judge(ngx_http_request_t *r, ngx_http_mcds_lock_ctx_t *ctx)
{
    ngx_http_mcds_lock_claim_t  *claim;
    ngx_http_mcds_lock_conf_t   *conf;

    claim = ctx->claims;
    conf = claim->conf;

    ctx->answered = 0;
    ctx->wait += ngx_current_msec - ctx->start;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "mcds lock \"%V\": %V", &claim->key,
                   &ngx_http_mcds_lock_statuses[claim->status]);

    switch (claim->status) {

    case NGX_MCDS_LOCK_HELD:
    case NGX_MCDS_LOCK_LOST:
        claim->number = ngx_mcds_lock_number(claim->lock);
        return NGX_DECLINED;

    case NGX_MCDS_LOCK_UNAVAILABLE:

        if (conf->unavailable == NGX_HTTP_MCDS_LOCK_PASS) {
            return NGX_DECLINED;
        }

        return ngx_http_mcds_lock_refuse(r, ctx, conf->unavailable,
                                         conf->retry_after ? conf->retry_after
                                                           : "1");

    default:
        return ngx_http_mcds_lock_refuse(r, ctx, conf->status,
                                         conf->retry_after);
    }
}


static ngx_int_t
ngx_http_mcds_lock_refuse(ngx_http_request_t *r, ngx_http_mcds_lock_ctx_t *ctx,
    ngx_uint_t status, char *retry_after)
{
    ctx->refused = 1;
    ctx->error_page = 0;

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "\"mcds_lock\" refuses the request, \"%V\" is %V",
                  &ctx->claims->key,
                  &ngx_http_mcds_lock_statuses[ctx->claims->status]);

    if (retry_after
        && ngx_http_mcds_header_text(r, "Retry-After", retry_after) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return status;
}


/*
 * the context that mcds_lock has in a request; NULL: the request has not asked
 * for a lock
 */

static ngx_http_mcds_lock_ctx_t *
ngx_http_mcds_lock_get_ctx(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t      *task;
    ngx_http_mcds_lock_ctx_t  *ctx;

    task = ngx_http_mcds_task_get(r);
    if (task == NULL) {
        return NULL;
    }

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_lock_feature);

    return ctx->asked ? ctx : NULL;
}


static void
ngx_http_mcds_lock_cleanup(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_lock_claim_t  *claim;
    ngx_http_mcds_lock_ctx_t    *ctx;

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_lock_feature);

    for (claim = ctx->claims; claim; claim = claim->next) {
        if (claim->lock) {
            ngx_mcds_lock_release(claim->lock);
        }
    }
}


/*
 * the get_handler of $mcds_lock_status: the status of the request's latest
 * lock, or "lost" if any of its locks was lost
 */

static ngx_int_t
ngx_http_mcds_lock_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                   *status;
    ngx_http_mcds_lock_claim_t  *claim;
    ngx_http_mcds_lock_ctx_t    *ctx;

    ctx = ngx_http_mcds_lock_get_ctx(r->main);

    if (ctx == NULL || ctx->waiting || ctx->claims == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    status = &ngx_http_mcds_lock_statuses[ctx->claims->status];

    for (claim = ctx->claims; claim; claim = claim->next) {
        if (claim->status == NGX_MCDS_LOCK_LOST) {
            status = &ngx_http_mcds_lock_statuses[NGX_MCDS_LOCK_LOST];
        }
    }

    v->data = status->data;
    v->len = status->len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_lock_token_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mcds_lock_ctx_t  *ctx;

    ctx = ngx_http_mcds_lock_get_ctx(r->main);

    if (ctx == NULL || ctx->claims == NULL || ctx->claims->number == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(v->data, "%uL", ctx->claims->number) - v->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_lock_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_msec_t                 ms;
    ngx_http_mcds_lock_ctx_t  *ctx;

    ctx = ngx_http_mcds_lock_get_ctx(r->main);

    if (ctx == NULL || ctx->claims == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    ms = ctx->wait;

    if (ctx->waiting) {
        ms += ngx_current_msec - ctx->start;
    }

    v->data = ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(v->data, "%T.%03M", (time_t) (ms / 1000), ms % 1000)
             - v->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}
