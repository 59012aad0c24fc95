
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_budget.h"


static void ngx_http_mcds_budget_over(void *data);


void
ngx_http_mcds_budget_begin(ngx_http_mcds_task_t *task)
{
    ngx_msec_t                   timeout, wait;
    ngx_uint_t                   i, others;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(task->request, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    others = 0;
    timeout = 0;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->wait) {
            wait = feature[i]->wait(task, &others);
            timeout = ngx_max(timeout, wait);
        }
    }

    if (task->waiting <= others || timeout == 0) {
        return;
    }

    task->seeded = 0;

    ngx_mcds_wait_begin(&task->delay, &task->budget, timeout,
                        ngx_http_mcds_budget_over, task);
}


void
ngx_http_mcds_budget_end(ngx_http_mcds_task_t *task)
{
    ngx_msec_t                   until;
    ngx_uint_t                   i;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    if (task->seeded) {

        /*
         * while the request waited, a location or another host was asked for
         * the initial value of a counter: this wait does not count towards
         * the time that the request may wait for memcached
         */

        ngx_mcds_wait_cancel(&task->delay);
        return;
    }

    mmcf = ngx_http_get_module_main_conf(task->request, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    until = ngx_current_msec;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->until) {
            until = feature[i]->until(task);
        }
    }

    ngx_mcds_wait_end(&task->delay, until);
}


static void
ngx_http_mcds_budget_over(void *data)
{
    ngx_http_mcds_task_t *task = data;

    ngx_uint_t                   i, waiting;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(task->request, ngx_http_mcds_module);
    feature = mmcf->features.elts;

    waiting = task->waiting;

    for (i = 0; i < mmcf->features.nelts; i++) {
        if (feature[i]->hurry) {
            feature[i]->hurry(task);
        }
    }

    if (task->waiting < waiting) {
        ngx_http_mcds_budget_log(task->request);
    }
}


void
ngx_http_mcds_budget_log(ngx_http_request_t *r)
{
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "the request no longer waits for memcached");
}
