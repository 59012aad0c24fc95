
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


/*
 * What several of them share, while the configuration is read.
 *
 * is_off: the directive has the one word "off"; off: obeys it.  add: a new
 * counter of this level for the variable that the directive names, NULL when
 * that cannot be (logged).
 *
 * param: reads a parameter that both directives have; NGX_OK, NGX_DECLINED
 * when it is none of these, NGX_ERROR (logged).
 *
 * duplicate: logs that a parameter is there twice; returns NGX_ERROR.  word: 1
 * if the text is that word.  on: reads "on" or "off"; NGX_DECLINED if it is
 * neither.
 *
 * written_back: mcds_counter_writeback with the variable of a counter.
 */

ngx_uint_t ngx_http_mcds_counter_is_off(ngx_conf_t *cf);
char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);
ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);
ngx_int_t ngx_http_mcds_counter_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value);
ngx_int_t ngx_http_mcds_counter_duplicate(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value);
ngx_uint_t ngx_http_mcds_counter_word(ngx_str_t *text, char *word);
ngx_int_t ngx_http_mcds_counter_on(ngx_str_t *text, ngx_uint_t *flag);
char *ngx_http_mcds_counter_written_back(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf);


#endif /* _NGX_HTTP_MCDS_COUNTER_CONF_H_INCLUDED_ */
