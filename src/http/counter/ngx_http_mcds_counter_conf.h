
/*
 * Copyright (C) mcds authors
 *
 * The setters of the directives of counters, and the functions and tables of
 * parameters that http/top and http/writeback use, too.
 */


#ifndef _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_
#define _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_param.h"


/* the setter of the directive mcds_counter */

char *ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* the setter of the directive mcds_counter_init */

char *ngx_http_mcds_counter_init(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* the setter of the directive mcds_counter_durable */

char *ngx_http_mcds_counter_durable(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* the setter of the directive mcds_counter_buffer */

char *ngx_http_mcds_counter_buffer(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* the setter of the directive mcds_visitor_counter */

char *ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* the setter of the directive mcds_counter_api */

char *ngx_http_mcds_counter_api(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* the setter of the directive mcds_return */

char *ngx_http_mcds_return(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/*
 * tables of parameters: those that the directives mcds_counter and
 * mcds_visitor_counter share, those of mcds_counter alone, and those of
 * mcds_counter_api
 */

extern ngx_http_mcds_param_t  ngx_http_mcds_counted_params[];
extern ngx_http_mcds_param_t  ngx_http_mcds_counter_params[];
extern ngx_http_mcds_param_t  ngx_http_mcds_show_params[];


/*
 * Handles the argument "off" of a counter's directive: the location, server or
 * http block has no counters.  Returns NGX_CONF_OK or NGX_CONF_ERROR (logged).
 */

char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);

/*
 * Adds a zeroed counter to the location, server or http block that is being
 * read, for the variable that the directive names.  NULL (logged) on an error.
 * The pointer is valid until the next call: the counters are an array.
 */

ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);

/*
 * NGX_CONF_ERROR (logged) if the directive of a counter has, beside its
 * parameter "read", one of the parameters in the array names, which ends with
 * NULL.
 */

char *ngx_http_mcds_counter_read_alone(ngx_conf_t *cf, ngx_command_t *cmd,
    char **names);

/*
 * Finds the counter of mcds_counter whose variable the directive names, in the
 * location, server or http block that is being read; NULL (logged) if the block
 * has no such counter.
 */

ngx_http_mcds_counter_t *ngx_http_mcds_counter_find(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);

/*
 * Parses the parameters of a directive that is an option of a counter, such as
 * mcds_counter_buffer.  Returns NGX_CONF_OK, or NGX_CONF_ERROR (logged), also
 * if the counter has the parameter "read".
 */

char *ngx_http_mcds_counter_kept(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_param_t *params);


#endif /* _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_ */
