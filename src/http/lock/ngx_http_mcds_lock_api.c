
/*
 * Copyright (C) mcds authors
 *
 * mcds_lock_api: locks as HTTP resources, for programs that have no client of
 * memcached, and for inspection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_lock.h"


/* the maximum number of requests that wait in a worker for the same lock */
#define NGX_HTTP_MCDS_LOCK_API_WAITERS 1000


typedef struct {
    ngx_http_mcds_resource_t        res;
    ngx_http_mcds_lock_api_conf_t  *conf;
    ngx_mcds_pool_t                *pool;
    ngx_mcds_stat_t                *stat;
    ngx_uint_t                      method;
    ngx_str_t                       name;
    ngx_mcds_lock_item_t            item;  /* the lock as the client requests
                                              it, later as memcached has it */
    ngx_mcds_lock_change_t          change;
    uint32_t                        ttl;
    ngx_msec_t                      wait;
    ngx_msec_t                      start;  /* time at which the request began
                                               to wait for the lock */
    ngx_mcds_lock_t                *lock;  /* the lock that the request waits
                                              for, or NULL */

    ngx_uint_t                      rc;    /* the result of the lock's operation
                                              in memcached, ngx_mcds_rc_e */
    ngx_uint_t                      status; /* the result of the wait for the
                                               lock, ngx_mcds_lock_e */
    ngx_uint_t                      known; /* 1: "item" has the owner and the
                                              fencing token of the lock as
                                              memcached has them */
    int64_t                         left;  /* seconds until the lock expires;
                                              -1: unknown */
    u_char                          owner[NGX_MCDS_LOCK_OWNER];
} ngx_http_mcds_lock_api_t;


static ngx_int_t ngx_http_mcds_lock_api_start(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_lock_api_args(ngx_http_mcds_lock_api_t *lr);
static ngx_int_t ngx_http_mcds_lock_api_body(ngx_http_mcds_lock_api_t *lr);
static char *ngx_http_mcds_lock_api_member(ngx_http_mcds_lock_api_t *lr,
    const char *key, json_t *value);
static char *ngx_http_mcds_lock_api_param(ngx_http_mcds_lock_api_t *lr,
    const char *name, ngx_str_t *value);
static char *ngx_http_mcds_lock_api_ttl(ngx_http_mcds_lock_api_t *lr,
    ngx_int_t ttl);
static char *ngx_http_mcds_lock_api_wait(ngx_http_mcds_lock_api_t *lr,
    ngx_int_t wait);
static ngx_int_t ngx_http_mcds_lock_api_acquire(
    ngx_http_mcds_lock_api_t *lr);
static void ngx_http_mcds_lock_api_acquired(void *data,
    ngx_mcds_lock_t *lock, ngx_uint_t status);
static void ngx_http_mcds_lock_api_cancel(ngx_http_mcds_resource_t *res);
static void ngx_http_mcds_lock_api_state_handler(void *data,
    ngx_mcds_lock_state_t *state);
static void ngx_http_mcds_lock_api_keep(ngx_http_mcds_lock_api_t *lr,
    uint64_t number, ngx_str_t *owner);
static ngx_int_t ngx_http_mcds_lock_api_respond(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_lock_api_refused(
    ngx_http_mcds_lock_api_t *lr);
static ngx_int_t ngx_http_mcds_lock_api_show(ngx_http_mcds_lock_api_t *lr);


ngx_int_t
ngx_http_mcds_lock_api_handler(ngx_http_request_t *r)
{
    char                           *problem;
    ngx_int_t                       rc;
    ngx_str_t                       name;
    ngx_http_mcds_lock_api_t       *lr;
    ngx_http_mcds_lock_loc_conf_t  *llcf;

    llcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_lock_module);

    rc = ngx_http_mcds_resource_name(r, &name);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (name.len == 0) {
        return NGX_HTTP_NOT_FOUND;
    }

    rc = ngx_http_mcds_resource_allow(r, NGX_HTTP_GET|NGX_HTTP_HEAD
                                     |NGX_HTTP_POST|NGX_HTTP_PUT
                                     |NGX_HTTP_DELETE);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    problem = ngx_http_mcds_resource_check_name(&name);

    if (problem == NULL && ngx_mcds_lock_is_fence(&name)) {
        problem = "this name counts the owners of another lock";
    }

    if (problem) {
        return ngx_http_mcds_json_refuse(r, NGX_HTTP_BAD_REQUEST, problem);
    }

    lr = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_lock_api_t));
    if (lr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lr->conf = llcf->lock_api;
    lr->pool = llcf->pool;
    lr->stat = llcf->lock_api_stat;
    lr->method = r->method;
    lr->ttl = llcf->lock_api->ttl;
    lr->left = -1;

    lr->item.owner.data = lr->owner;

    lr->name.len = name.len;
    lr->name.data = ngx_pstrdup(lr->res.pool, &name);

    if (lr->name.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lr->res.respond = ngx_http_mcds_lock_api_respond;
    lr->res.cancel = ngx_http_mcds_lock_api_cancel;

    return ngx_http_mcds_resource_begin(&lr->res, ngx_http_mcds_lock_api_start);
}


static ngx_int_t
ngx_http_mcds_lock_api_start(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_lock_api_t *lr = (ngx_http_mcds_lock_api_t *) res;

    ngx_int_t  rc;

    lr->change.pool = lr->pool;
    lr->change.key = lr->name;
    lr->change.handler = ngx_http_mcds_lock_api_state_handler;
    lr->change.data = lr;

    if (lr->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) {

        ngx_mcds_lock_change(&lr->change);

        ngx_mcds_stat_add(lr->stat, NGX_MCDS_STAT_LOCK_READ, 1);

        res->waiting++;

        return NGX_DONE;
    }

    rc = ngx_http_mcds_lock_api_args(lr);

    if (rc == NGX_DECLINED) {
        rc = ngx_http_mcds_lock_api_body(lr);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (lr->method == NGX_HTTP_POST) {
        return ngx_http_mcds_lock_api_acquire(lr);
    }

    if (lr->item.owner.len == 0) {
        return ngx_http_mcds_json_problem(res->request, NGX_HTTP_BAD_REQUEST,
                                          "the owner must be named");
    }

    lr->change.item = lr->item;
    lr->change.ttl = (lr->method == NGX_HTTP_PUT) ? lr->ttl : 0;

    ngx_mcds_lock_change(&lr->change);

    ngx_mcds_stat_add(lr->stat,
                      lr->method == NGX_HTTP_PUT ? NGX_MCDS_STAT_LOCK_RENEW
                                                 : NGX_MCDS_STAT_LOCK_RELEASE,
                      1);

    res->waiting++;

    return NGX_DONE;
}


/*
 * reads the parameters of a lock from the request's arguments; returns
 * NGX_DECLINED if they are valid, otherwise the result for the content handler
 * to return
 */

static ngx_int_t
ngx_http_mcds_lock_api_args(ngx_http_mcds_lock_api_t *lr)
{
    char        *problem;
    ngx_int_t    rc;
    ngx_str_t    value;
    ngx_uint_t   i;

    static char  *names[] = { "owner", "token", "ttl", "wait", NULL };

    for (i = 0; names[i]; i++) {

        rc = ngx_http_mcds_resource_arg(lr->res.request, names[i], &value);

        if (rc == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc == NGX_DECLINED) {
            continue;
        }

        problem = ngx_http_mcds_lock_api_param(lr, names[i], &value);

        if (problem) {
            return ngx_http_mcds_json_problem(lr->res.request,
                                              NGX_HTTP_BAD_REQUEST, problem);
        }
    }

    return NGX_DECLINED;
}


/*
 * reads the parameters of a lock from the request's body, which is JSON; a page
 * of another site cannot send the type application/json without a preflight
 * request
 */

static ngx_int_t
ngx_http_mcds_lock_api_body(ngx_http_mcds_lock_api_t *lr)
{
    char        *problem;
    json_t      *json, *value;
    ngx_int_t    rc;
    const char  *key;

    if (ngx_http_mcds_resource_has(lr->res.request) != NGX_HTTP_MCDS_JSON
        && (lr->method == NGX_HTTP_POST || lr->res.body.len))
    {
        return ngx_http_mcds_json_problem(lr->res.request,
                                          NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "the body must be "
                                          "application/json");
    }

    if (lr->res.body.len == 0) {
        return NGX_DECLINED;
    }

    json = ngx_http_mcds_body_load(&lr->res, &rc);
    if (json == NULL) {
        return rc;
    }

    problem = json_is_object(json) ? NULL : "the body must be an object";

    json_object_foreach(json, key, value) {
        if (problem == NULL) {
            problem = ngx_http_mcds_lock_api_member(lr, key, value);
        }
    }

    json_decref(json);

    return problem ? ngx_http_mcds_json_problem(lr->res.request,
                                                NGX_HTTP_BAD_REQUEST, problem)
                   : NGX_DECLINED;
}


/*
 * reads one parameter of a lock from a member of the JSON object in the
 * request's body; returns NULL if the parameter is valid, otherwise the text of
 * an error for the client
 */

static char *
ngx_http_mcds_lock_api_member(ngx_http_mcds_lock_api_t *lr, const char *key,
    json_t *value)
{
    double     n;
    ngx_str_t  text;

    if (json_is_string(value)) {
        text.data = (u_char *) json_string_value(value);
        text.len = json_string_length(value);

        return ngx_http_mcds_lock_api_param(lr, key, &text);
    }

    if (ngx_strcmp(key, "token") == 0 && json_is_integer(value)
        && json_integer_value(value) > 0)
    {
        lr->item.number = json_integer_value(value);
        return NULL;
    }

    n = json_is_number(value) ? json_number_value(value) : -1;

    if (ngx_strcmp(key, "ttl") == 0 && json_is_integer(value)) {
        return ngx_http_mcds_lock_api_ttl(lr, n > NGX_MCDS_MAX_TTL
                                              ? NGX_ERROR : (ngx_int_t) n);
    }

    if (ngx_strcmp(key, "wait") == 0) {
        n *= 1000;

        return ngx_http_mcds_lock_api_wait(lr,
                                           (n < 0 || n > NGX_MAX_INT32_VALUE)
                                           ? NGX_ERROR : (ngx_int_t) n);
    }

    return "only 'owner', 'token', 'ttl' and 'wait' can be said";
}


static char *
ngx_http_mcds_lock_api_param(ngx_http_mcds_lock_api_t *lr, const char *name,
    ngx_str_t *value)
{
    if (ngx_strcmp(name, "owner") == 0) {

        if (ngx_mcds_lock_check(value) != NGX_OK) {
            return "owner must be 1 to 64 characters, ASCII without blanks";
        }

        ngx_memcpy(lr->owner, value->data, value->len);
        lr->item.owner.len = value->len;

        return NULL;
    }

    if (ngx_strcmp(name, "token") == 0) {

        if (ngx_mcds_parse_number(value->data, value->len, &lr->item.number)
            != NGX_OK
            || lr->item.number == 0)
        {
            return "token must be a number";
        }

        return NULL;
    }

    if (ngx_strcmp(name, "ttl") == 0) {
        return ngx_http_mcds_lock_api_ttl(lr, ngx_parse_time(value, 1));
    }

    if (ngx_strcmp(name, "wait") == 0) {
        return ngx_http_mcds_lock_api_wait(lr, ngx_parse_time(value, 0));
    }

    return "only 'owner', 'token', 'ttl' and 'wait' can be said";
}


static char *
ngx_http_mcds_lock_api_ttl(ngx_http_mcds_lock_api_t *lr, ngx_int_t ttl)
{
    if (ttl < NGX_MCDS_LOCK_MIN_TTL || ttl > (ngx_int_t) lr->conf->max_ttl) {
        return "ttl must be 2s to max_ttl of mcds_lock_api";
    }

    lr->ttl = ttl;

    return NULL;
}


static char *
ngx_http_mcds_lock_api_wait(ngx_http_mcds_lock_api_t *lr, ngx_int_t wait)
{
    if (wait < 0 || wait > (ngx_int_t) lr->conf->max_wait) {
        return "wait must be a time up to max_wait of mcds_lock_api";
    }

    lr->wait = wait;

    return NULL;
}


static ngx_int_t
ngx_http_mcds_lock_api_acquire(ngx_http_mcds_lock_api_t *lr)
{
    ngx_mcds_lock_wish_t  wish;

    wish.pool = lr->pool;
    wish.key = lr->name;
    wish.owner = lr->item.owner;
    wish.ttl = lr->ttl;
    wish.wait = lr->wait;
    wish.waiters = NGX_HTTP_MCDS_LOCK_API_WAITERS;

    lr->start = ngx_current_msec;

    lr->lock = ngx_mcds_lock_acquire(&wish,
                                     ngx_http_mcds_lock_api_acquired, lr);
    if (lr->lock == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lr->res.waiting++;

    return NGX_DONE;
}


static void
ngx_http_mcds_lock_api_acquired(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t status)
{
    ngx_http_mcds_lock_api_t *lr = data;

    lr->lock = NULL;
    lr->status = status;

    ngx_mcds_stat_add(lr->stat, NGX_MCDS_STAT_LOCK_HELD + status, 1);
    ngx_mcds_stat_time(lr->stat, NGX_MCDS_STAT_LOCK_TIME,
                       ngx_current_msec - lr->start);

    if (status == NGX_MCDS_LOCK_HELD && ngx_http_mcds_is_left(&lr->res.park)) {

        /*
         * the client has left, and nginx has led the request to its
         * "post_action": nobody would learn that the client owns the lock
         */

        ngx_mcds_lock_release(lock);

    } else if (status == NGX_MCDS_LOCK_HELD) {
        lr->left = ngx_mcds_ttl_sure(ngx_mcds_ttl_lasting(lr->ttl));

        ngx_http_mcds_lock_api_keep(lr, ngx_mcds_lock_number(lock),
                                    ngx_mcds_lock_owner(lock));
        ngx_mcds_lock_leave(lock);
    }

    ngx_http_mcds_resource_done(&lr->res);
}


/* a client that has left no longer waits for the lock */

static void
ngx_http_mcds_lock_api_cancel(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_lock_api_t *lr = (ngx_http_mcds_lock_api_t *) res;

    if (lr->lock) {
        ngx_mcds_lock_release(lr->lock);
        lr->lock = NULL;

        res->waiting--;
    }
}


static void
ngx_http_mcds_lock_api_state_handler(void *data, ngx_mcds_lock_state_t *state)
{
    ngx_http_mcds_lock_api_t *lr = data;

    lr->rc = state->rc;
    lr->left = state->ttl;

    /*
     * if the lock has another owner or none, this is not counted as a failure
     * of memcached
     */

    if (lr->rc != NGX_MCDS_OK && lr->rc != NGX_MCDS_NOT_FOUND
        && lr->rc != NGX_MCDS_EXISTS)
    {
        ngx_mcds_stat_add(lr->stat, NGX_MCDS_STAT_LOCK_FAILED + lr->rc, 1);
    }

    if (state->item) {
        ngx_http_mcds_lock_api_keep(lr, state->item->number,
                                    &state->item->owner);
    }

    ngx_http_mcds_resource_done(&lr->res);
}


static void
ngx_http_mcds_lock_api_keep(ngx_http_mcds_lock_api_t *lr, uint64_t number,
    ngx_str_t *owner)
{
    lr->known = 1;

    lr->item.number = number;
    lr->item.owner.len = owner->len;
    ngx_memmove(lr->owner, owner->data, owner->len);
}


static ngx_int_t
ngx_http_mcds_lock_api_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_lock_api_t *lr = (ngx_http_mcds_lock_api_t *) res;

    ngx_http_request_t  *r;

    r = res->request;

    if (lr->method == NGX_HTTP_POST) {
        return lr->status == NGX_MCDS_LOCK_HELD
               ? ngx_http_mcds_lock_api_show(lr)
               : ngx_http_mcds_lock_api_refused(lr);
    }

    if (lr->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) {
        return (lr->rc == NGX_MCDS_OK || lr->rc == NGX_MCDS_NOT_FOUND)
               ? ngx_http_mcds_lock_api_show(lr)
               : ngx_http_mcds_resource_failed(r, lr->rc);
    }

    switch (lr->rc) {

    case NGX_MCDS_OK:
        return lr->method == NGX_HTTP_PUT ? ngx_http_mcds_lock_api_show(lr)
                                          : ngx_http_mcds_json_no_content(r);

    case NGX_MCDS_EXISTS:
        return ngx_http_mcds_json_problem(r, NGX_HTTP_CONFLICT,
                                          "the lock has another owner");

    case NGX_MCDS_NOT_FOUND:
        return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                          "the lock has no owner");

    default:
        return ngx_http_mcds_resource_failed(r, lr->rc);
    }
}


static ngx_int_t
ngx_http_mcds_lock_api_refused(ngx_http_mcds_lock_api_t *lr)
{
    char                *detail;
    ngx_http_request_t  *r;

    r = lr->res.request;

    switch (lr->status) {

    case NGX_MCDS_LOCK_UNAVAILABLE:

        /*
         * memcached may have granted the lock to this request although the
         * reply of memcached was lost: the client is told of a timeout
         */

        return ngx_http_mcds_resource_failed(r, NGX_MCDS_TIMEOUT);

    case NGX_MCDS_LOCK_FULL:
        detail = "the lock has another owner, and too many wait for it";
        break;

    default:
        detail = "the lock has another owner";
    }

    if (ngx_http_mcds_header_text(r, "Retry-After", "1") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_json_problem(r, NGX_HTTP_MCDS_LOCKED, detail);
}


static ngx_int_t
ngx_http_mcds_lock_api_show(ngx_http_mcds_lock_api_t *lr)
{
    json_t     *json;
    ngx_int_t   rc;
    ngx_str_t   line, text;
    ngx_uint_t  held;

    held = (lr->rc == NGX_MCDS_OK);

    json = json_object();

    if (json == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    (void) json_object_set_new(json, "name",
                               json_stringn((char *) lr->name.data,
                                            lr->name.len));
    (void) json_object_set_new(json, "held", json_boolean(held));

    if (held && lr->known) {
        (void) json_object_set_new(json, "owner",
                                   json_stringn((char *) lr->owner,
                                                lr->item.owner.len));
    }

    if (held && lr->known && lr->item.number) {
        (void) json_object_set_new(json, "token",
                                   json_integer(lr->item.number));
    }

    if (held && lr->left >= 0) {
        (void) json_object_set_new(json, "ttl", json_integer(lr->left));
    }

    rc = ngx_http_mcds_line_json(lr->res.pool, json, &line);

    json_decref(json);

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * the JSON text about the lock is copied into memory that lives until the
     * response is sent
     */

    text.data = ngx_pnalloc(lr->res.request->pool, line.len + 1);
    if (text.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.len = ngx_sprintf(text.data, "%V\n", &line) - text.data;

    return ngx_http_mcds_json_send(lr->res.request, &text);
}
