
/*
 * Copyright (C) mcds authors
 *
 * What directives that are more than a slot have in common.
 */


#ifndef _NGX_HTTP_MCDS_CONF_H_INCLUDED_
#define _NGX_HTTP_MCDS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


/*
 * set_mask: as the setter of nginx's core, whose message lacks the name of the
 * directive.  mask_words: the words of a mask, each with a space before it.
 *
 * set_handler: makes it the content handler of the location; NGX_CONF_ERROR
 * (logged) if there is one already.  check_handler: the same if there came
 * another one later, when all was read.
 *
 * parse_msec: milliseconds, or NGX_ERROR; months, too, where nginx's own number
 * of them has 32 bits.
 */

char *ngx_http_mcds_set_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
u_char *ngx_http_mcds_mask_words(ngx_conf_t *cf, ngx_conf_bitmask_t *mask);
char *ngx_http_mcds_set_handler(ngx_conf_t *cf, ngx_http_handler_pt handler);
char *ngx_http_mcds_check_handler(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *conf);
int64_t ngx_http_mcds_parse_msec(ngx_str_t *text);

/* a text that may contain variables; returns what a directive returns */

char *ngx_http_mcds_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);


/* where the directive stands that is being read */

void ngx_http_mcds_set_place(ngx_conf_t *cf, ngx_http_mcds_place_t *place);


#endif /* _NGX_HTTP_MCDS_CONF_H_INCLUDED_ */
