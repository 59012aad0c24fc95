
/*
 * Copyright (C) mcds authors
 *
 * mcds_array_push: appends a value to an array in memcached when a request
 * ends.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_timer.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_array.h"
#include "ngx_http_mcds_data.h"


/*
 * milliseconds after which nginx logs again that values of mcds_array_push were
 * lost
 */
#define NGX_HTTP_MCDS_PUSH_SAY    10000


/* a value that mcds_array_push appends unless the array has it */

typedef struct {
    ngx_str_t                    line;
    ngx_mcds_stat_t             *stat;
} ngx_http_mcds_push_t;


static ngx_int_t ngx_http_mcds_push(ngx_http_request_t *r,
    ngx_http_mcds_data_conf_t *dcf, ngx_http_mcds_array_conf_t *conf,
    ngx_mcds_stat_t *stat);
static ngx_int_t ngx_http_mcds_push_unique(ngx_mcds_array_t *array,
    ngx_str_t *line, ngx_mcds_stat_t *stat);
static ngx_uint_t ngx_http_mcds_push_edit(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);
static void ngx_http_mcds_push_done(void *data, ngx_mcds_array_done_t *done);
static void ngx_http_mcds_push_appended(void *data,
    ngx_mcds_array_done_t *done);
static void ngx_http_mcds_push_lost(ngx_mcds_stat_t *stat, ngx_uint_t rc);
static void ngx_http_mcds_push_say(void);
static void ngx_http_mcds_push_said_handler(ngx_event_t *ev);


/*
 * how many values of mcds_array_push this worker could not append to arrays and
 * has not yet logged, and the last failure
 */

static ngx_uint_t   ngx_http_mcds_push_losses;
static ngx_uint_t   ngx_http_mcds_push_rc;

/*
 * the timer that limits the messages about lost values of mcds_array_push:
 * while it is set, nginx logs no further loss
 */

static ngx_event_t  ngx_http_mcds_push_timer;


static ngx_http_mcds_param_t  ngx_http_mcds_push_params[] = {

    { ngx_string("if="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_array_conf_t, filter),
      0, 0, 0, NULL },

      ngx_http_mcds_params_of(ngx_http_mcds_array_params)
};


char *
ngx_http_mcds_array_push(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_data_conf_t *dcf = conf;

    char                        *rv;
    ngx_str_t                   *value;
    ngx_http_mcds_array_conf_t  *push;

    rv = ngx_http_mcds_param_list(cf, &dcf->pushes,
                                  sizeof(ngx_http_mcds_array_conf_t));

    if (rv != NGX_CONF_OK || dcf->pushes == NULL) {
        return rv;
    }

    value = cf->args->elts;

    if (cf->args->nelts < 3 || value[1].len == 0) {
        return "needs the name of an array and a value";
    }

    push = ngx_array_push(dcf->pushes);
    if (push == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(push, sizeof(ngx_http_mcds_array_conf_t));

    if (ngx_http_mcds_compile(cf, &value[1], &push->name) != NGX_CONF_OK
        || ngx_http_mcds_compile(cf, &value[2], &push->value) != NGX_CONF_OK
        || ngx_http_mcds_params(cf, cmd, 3, ngx_http_mcds_push_params, push)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_mcds_data_needs(cf, cmd, dcf);

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_mcds_push_handler(ngx_http_request_t *r)
{
    ngx_uint_t                   i;
    ngx_http_mcds_task_t        *task;
    ngx_http_mcds_data_conf_t   *dcf;
    ngx_http_mcds_array_conf_t  *push;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    if (dcf->pushes == NULL || r != r->main) {
        return NGX_OK;
    }

    task = ngx_http_mcds_task_get(r);

    if (task && task->refresh) {
        return NGX_OK;
    }

    push = dcf->pushes->elts;

    for (i = 0; i < dcf->pushes->nelts; i++) {
        if (ngx_http_mcds_push(r, dcf, &push[i], dcf->push_stats[i])
            != NGX_OK)
        {
            ngx_http_mcds_push_lost(dcf->push_stats[i], NGX_MCDS_BUSY);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_push(ngx_http_request_t *r, ngx_http_mcds_data_conf_t *dcf,
    ngx_http_mcds_array_conf_t *conf, ngx_mcds_stat_t *stat)
{
    ngx_int_t         rc;
    ngx_str_t         text, line;
    ngx_mcds_array_t  array;

    if (conf->filter) {

        if (ngx_http_complex_value(r, conf->filter, &text) != NGX_OK) {
            return NGX_ERROR;
        }

        if (text.len == 0 || (text.len == 1 && text.data[0] == '0')) {
            return NGX_OK;
        }
    }

    if (ngx_http_complex_value(r, &conf->value, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.len == 0) {
        return NGX_OK;
    }

    rc = ngx_http_mcds_array_name(r, conf, dcf->pool, &array);

    if (rc != NGX_OK) {
        return rc == NGX_DECLINED ? NGX_OK : NGX_ERROR;
    }

    if (ngx_http_mcds_line_text(r->pool, &text, &text) != NGX_OK
        || text.len >= NGX_MCDS_ARRAY_LINE)
    {
        return NGX_ERROR;
    }

    line.len = text.len + 1;
    line.data = ngx_pnalloc(r->pool, line.len);

    if (line.data == NULL) {
        return NGX_ERROR;
    }

    *ngx_cpymem(line.data, text.data, text.len) = LF;

    ngx_mcds_stat_add(stat, NGX_MCDS_DATA_PUSH, 1);

    if (conf->unique) {
        return ngx_http_mcds_push_unique(&array, &line, stat);
    }

    return ngx_mcds_array_append(&array, &line, ngx_http_mcds_push_appended,
                                 stat);
}


static ngx_int_t
ngx_http_mcds_push_unique(ngx_mcds_array_t *array, ngx_str_t *line,
    ngx_mcds_stat_t *stat)
{
    ngx_int_t              rc;
    ngx_http_mcds_push_t  *push;

    push = ngx_alloc(sizeof(ngx_http_mcds_push_t) + line->len,
                     ngx_cycle->log);
    if (push == NULL) {
        return NGX_ERROR;
    }

    push->stat = stat;
    push->line.data = (u_char *) push + sizeof(ngx_http_mcds_push_t);
    push->line.len = line->len - 1;
    ngx_memcpy(push->line.data, line->data, line->len);

    rc = ngx_mcds_array_change(array, 1, line->len, ngx_http_mcds_push_edit,
                               ngx_http_mcds_push_done, push);
    if (rc != NGX_OK) {
        ngx_free(push);
    }

    return rc;
}


static ngx_uint_t
ngx_http_mcds_push_edit(void *data, ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added, ngx_mcds_array_edit_t *edit)
{
    ngx_http_mcds_push_t *push = data;

    ngx_http_mcds_set_t  *known;

    known = ngx_http_mcds_array_known(content, added);

    if (known == NULL) {
        return NGX_MCDS_BUSY;
    }

    if (ngx_http_mcds_set_has(known, &push->line)) {
        return NGX_MCDS_OK;
    }

    edit->kind = NGX_MCDS_ARRAY_APPEND;
    edit->text = ngx_http_mcds_array_text(&push->line, 1);

    return edit->text ? NGX_MCDS_OK : NGX_MCDS_BUSY;
}


static void
ngx_http_mcds_push_done(void *data, ngx_mcds_array_done_t *done)
{
    ngx_http_mcds_push_t *push = data;

    ngx_http_mcds_push_appended(push->stat, done);

    ngx_free(push);
}


static void
ngx_http_mcds_push_appended(void *data, ngx_mcds_array_done_t *done)
{
    if (done->rc != NGX_MCDS_OK) {
        ngx_http_mcds_push_lost(data, done->rc);
    }
}


static void
ngx_http_mcds_push_lost(ngx_mcds_stat_t *stat, ngx_uint_t rc)
{
    ngx_http_mcds_stat_failed(stat, rc);

    ngx_http_mcds_push_losses++;
    ngx_http_mcds_push_rc = rc;

    if (!ngx_http_mcds_push_timer.timer_set) {
        ngx_http_mcds_push_say();
    }
}


static void
ngx_http_mcds_push_say(void)
{
    ngx_event_t  *timer;

    if (ngx_http_mcds_push_losses == 0) {
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "\"mcds_array_push\" has lost %ui values, the last one: %s",
                  ngx_http_mcds_push_losses,
                  ngx_mcds_strerror(ngx_http_mcds_push_rc));

    ngx_http_mcds_push_losses = 0;

    timer = &ngx_http_mcds_push_timer;

    if (timer->handler == NULL) {
        ngx_mcds_timer_init(timer, ngx_http_mcds_push_said_handler);
        timer->cancelable = 1;
    }

    ngx_add_timer(timer, NGX_HTTP_MCDS_PUSH_SAY);
}


static void
ngx_http_mcds_push_said_handler(ngx_event_t *ev)
{
    ngx_http_mcds_push_say();
}


void
ngx_http_mcds_push_exit(ngx_cycle_t *cycle)
{
    ngx_http_mcds_push_say();
}
