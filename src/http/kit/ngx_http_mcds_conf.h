
/*
 * Copyright (C) mcds authors
 *
 * Helpers for directives that nginx's own slot setters cannot read.
 */


#ifndef _NGX_HTTP_MCDS_CONF_H_INCLUDED_
#define _NGX_HTTP_MCDS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


/*
 * The setter of a directive whose words set bits of a mask; cmd->post is the
 * table of words and bits.  Unlike that of nginx's own setter, the error
 * message names the directive and the words that are allowed.
 */

char *ngx_http_mcds_set_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Lists the words that a directive with a bit mask allows, each after a space,
 * as a null-terminated text in cf->temp_pool.  The text is empty when out of
 * memory.
 */

u_char *ngx_http_mcds_mask_words(ngx_conf_t *cf, ngx_conf_bitmask_t *mask);

/*
 * Makes "handler" the content handler of the location that is being read.
 * NGX_CONF_ERROR, logged, if the location already has a content handler.
 */

char *ngx_http_mcds_set_handler(ngx_conf_t *cf, ngx_http_handler_pt handler);

/*
 * Call this when locations are merged: NGX_CONF_ERROR, logged, if a later
 * directive of another module has replaced the content handler that
 * ngx_http_mcds_set_handler() set.
 */

char *ngx_http_mcds_check_handler(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *conf);

/*
 * Parses a time with units into milliseconds; NGX_ERROR if the text is not a
 * time.  Months are read on 32-bit hosts, too.
 */

int64_t ngx_http_mcds_parse_msec(ngx_str_t *text);

/*
 * Compiles a text that may contain variables; returns NGX_CONF_OK or
 * NGX_CONF_ERROR (logged), as a directive's setter does.
 */

char *ngx_http_mcds_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);


/*
 * Stores the file and line of the directive that is being read.  The file's
 * name is not copied.
 */

void ngx_http_mcds_set_place(ngx_conf_t *cf, ngx_http_mcds_place_t *place);


#endif /* _NGX_HTTP_MCDS_CONF_H_INCLUDED_ */
