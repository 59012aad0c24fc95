
/*
 * Copyright (C) mcds authors
 *
 * Runs operations of memcached, and waits for their results in nginx's event
 * loop.
 */


#include "mcds.h"
#include "ngx_mcds_distribution.h"
#include "ngx_mcds_conn.h"


/*
 * milliseconds between two checks whether memcached has answered all operations
 */
#define MCDS_SETTLE               5


typedef struct {
    mcds_t       *m;
    ngx_event_t   event;
    ngx_msec_t    end;
    ngx_uint_t    done;
} mcds_settle_t;


static void mcds_answered(void *data, ngx_mcds_result_t *result);
static void mcds_settle_handler(ngx_event_t *ev);


ngx_uint_t
mcds_do(mcds_t *m, ngx_mcds_request_t *req, mcds_answer_t *answer)
{
    ngx_mcds_op_t  op;

    ngx_memzero(answer, sizeof(mcds_answer_t));
    ngx_memzero(&op, sizeof(ngx_mcds_op_t));

    op.handler = mcds_answered;
    op.data = answer;

    ngx_mcds_submit(m->pool, req, &op);

    mcds_wait(&answer->done);

    return answer->rc;
}


static void
mcds_answered(void *data, ngx_mcds_result_t *result)
{
    mcds_answer_t *answer = data;

    answer->done = 1;
    answer->rc = result->rc;
    answer->has = result->has;
    answer->cas = result->cas;
    answer->ttl = result->ttl;

    if (result->rc == NGX_MCDS_OK && (result->has & NGX_MCDS_VALUE)) {
        answer->value = ngx_mcds_result_value(result, ngx_cycle->log);

        if (answer->value == NULL) {
            mcds_no_memory();
        }

        answer->text.data = answer->value->data;
        answer->text.len = result->len;

        if (answer->value == result->value) {
            answer->text.data = result->data;
        }
    }
}


void
mcds_answer_free(mcds_answer_t *answer)
{
    ngx_mcds_value_unref(answer->value);
    answer->value = NULL;
}


void
mcds_wait(ngx_uint_t *done)
{
    if (ngx_tool_run(done) != NGX_OK) {
        fprintf(stderr, "mcds: nothing happens any more\n");
        exit(MCDS_UNREACHABLE);
    }
}


void
mcds_settle(mcds_t *m)
{
    mcds_settle_t  settle;

    ngx_memzero(&settle, sizeof(mcds_settle_t));

    settle.m = m;
    settle.event.handler = mcds_settle_handler;
    settle.event.data = &settle;
    settle.event.log = ngx_cycle->log;

    ngx_time_update();
    settle.end = ngx_current_msec + m->o.timeout;

    ngx_add_timer(&settle.event, 0);

    mcds_wait(&settle.done);
}


static void
mcds_settle_handler(ngx_event_t *ev)
{
    ngx_uint_t          i, n, pending;
    mcds_settle_t      *settle;
    ngx_mcds_pool_t   **pool;
    ngx_mcds_server_t  *server;

    settle = ev->data;
    pool = settle->m->pools.elts;
    pending = 0;

    for (i = 0; i < settle->m->pools.nelts; i++) {
        server = pool[i]->servers.elts;

        for (n = 0; n < pool[i]->servers.nelts; n++) {
            pending += server[n].control ? server[n].control->pending : 0;
            pending += server[n].bulk ? server[n].bulk->pending : 0;
        }
    }

    if (pending == 0
        || (ngx_msec_int_t) (ngx_current_msec - settle->end) >= 0)
    {
        settle->done = 1;
        return;
    }

    ngx_add_timer(ev, MCDS_SETTLE);
}


ngx_str_t *
mcds_server(mcds_t *m, ngx_mcds_request_t *req)
{
    ngx_str_t           none;
    ngx_uint_t          i;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    ngx_str_null(&none);
    ngx_mcds_op_key(&key, m->pool, req, req->by_key ? &none : &req->suffix);

    i = ngx_mcds_distribution_get(m->pool, key.data + key.prefix,
                                  key.len - key.prefix, req->movable);

    server = m->pool->servers.elts;

    return &server[i].name;
}


uint64_t
mcds_now(void)
{
    ngx_time_update();

    return ngx_mcds_now();
}
