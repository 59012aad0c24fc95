
/*
 * Copyright (C) mcds authors
 *
 * Operations that are waited for.
 */


#include "mcds.h"
#include "ngx_mcds_choice.h"
#include "ngx_mcds_conn.h"


static void mcds_answered(void *data, ngx_mcds_result_t *result);


ngx_uint_t
mcds_do(mcds_t *m, ngx_mcds_request_t *req, mcds_answer_t *answer)
{
    ngx_memzero(answer, sizeof(mcds_answer_t));

    if (ngx_mcds_submit(m->pool, req, mcds_answered, answer) == NULL) {
        mcds_no_memory();
    }

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


ngx_str_t *
mcds_server(mcds_t *m, ngx_mcds_request_t *req)
{
    ngx_str_t           none;
    ngx_uint_t          i;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    ngx_str_null(&none);
    ngx_mcds_op_key(&key, m->pool, req, req->by_key ? &none : &req->suffix);

    i = ngx_mcds_choice_get(m->pool, key.data + key.prefix,
                            key.len - key.prefix, req->movable);

    server = m->pool->servers.elts;

    return &server[i].name;
}


uint64_t
mcds_now(void)
{
    ngx_tool_update_time();

    return ngx_mcds_now();
}
