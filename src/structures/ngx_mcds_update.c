
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_update.h"


static void ngx_mcds_update_send(ngx_mcds_update_t *update,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler);
static void ngx_mcds_update_got(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_update_wrote(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_update_event_handler(ngx_event_t *ev);


void
ngx_mcds_update(ngx_mcds_update_t *update)
{
    update->tries = 0;

    ngx_mcds_update_read(update);
}


void
ngx_mcds_update_read(ngx_mcds_update_t *update)
{
    if (update->read) {
        update->read(update->data);
        return;
    }

    ngx_mcds_update_send(update, &update->get, ngx_mcds_update_got);
}


static void
ngx_mcds_update_send(ngx_mcds_update_t *update, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler)
{
    update->op.handler = handler;
    update->op.data = update;

    if (update->server) {
        ngx_mcds_submit_to(update->pool, update->server - 1, req, &update->op);

    } else {
        ngx_mcds_submit(update->pool, req, &update->op);
    }
}


static void
ngx_mcds_update_got(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_update_t *update = data;

    ngx_int_t            rc;
    ngx_mcds_request_t  *get, req;

    get = &update->get;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = (result->rc == NGX_MCDS_NOT_FOUND) ? NGX_MCDS_ADD
                                                  : NGX_MCDS_SET;
    req.cas = (result->rc == NGX_MCDS_OK) ? result->cas : 0;

    req.key = get->key;
    req.suffix = get->suffix;
    req.place = get->place;
    req.by_key = get->by_key;
    req.single = get->single;
    req.page = get->page;
    req.movable = get->movable;

    if (update->force && update->tries == update->max) {
        req.verb = NGX_MCDS_SET;
        req.cas = 0;
    }

    rc = update->edit(update->data, result, &req);

    if (rc == NGX_DONE) {
        return;
    }

    if (rc == NGX_ABORT) {
        req.verb = NGX_MCDS_DELETE;
    }

    ngx_mcds_update_write(update, &req);

    ngx_mcds_value_unref(req.value);
}


void
ngx_mcds_update_write(ngx_mcds_update_t *update, ngx_mcds_request_t *req)
{
    ngx_mcds_update_send(update, req, ngx_mcds_update_wrote);
}


static void
ngx_mcds_update_wrote(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_update_t *update = data;

    switch (result->rc) {

    case NGX_MCDS_NOT_FOUND:

        if (update->gone) {
            break;
        }

        /* fall through */

    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_EXISTS:

        if (ngx_mcds_update_again(update) == NGX_OK) {
            return;
        }

        break;
    }

    update->handler(update->data, result);
}


ngx_int_t
ngx_mcds_update_again(ngx_mcds_update_t *update)
{
    ngx_msec_t  wait;

    if (update->tries++ >= update->max) {
        return NGX_DECLINED;
    }

    wait = update->again ? update->again(update->data, update->tries) : 0;

    if (wait == 0) {
        ngx_mcds_update_read(update);
        return NGX_OK;
    }

    update->event.handler = ngx_mcds_update_event_handler;
    update->event.data = update;
    update->event.log = ngx_cycle->log;

    ngx_add_timer(&update->event, wait);

    return NGX_OK;
}


static void
ngx_mcds_update_event_handler(ngx_event_t *ev)
{
    ngx_mcds_update_read(ev->data);
}


void
ngx_mcds_update_cancel(ngx_mcds_update_t *update)
{
    ngx_mcds_cancel(&update->op);

    if (update->event.timer_set) {
        ngx_del_timer(&update->event);
    }
}
