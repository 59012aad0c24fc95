
/*
 * Copyright (C) mcds authors
 *
 * The directives of counters.
 */


#ifndef _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_
#define _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_param.h"


char *ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_counter_init(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_counter_durable(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_counter_buffer(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_counters(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_return(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* parameters of mcds_counter and mcds_visitor_counter */

extern ngx_http_mcds_param_t  ngx_http_mcds_counted_params[];


/*
 * What several of them share, while the configuration is read.
 *
 * off: obeys "off".  add: a new counter of this level for the variable that the
 * directive names, NULL when that cannot be (logged).  read_alone: logs that
 * "read" stands beside a parameter of names, which end with NULL.
 *
 * written_back: mcds_counter_writeback with the variable of a counter.
 */

char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);
ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);
char *ngx_http_mcds_counter_read_alone(ngx_conf_t *cf, ngx_command_t *cmd,
    char **names);
char *ngx_http_mcds_counter_written_back(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf);


#endif /* _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_ */
