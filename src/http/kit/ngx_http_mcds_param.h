
/*
 * Copyright (C) mcds authors
 *
 * The parameters of a directive as a table: names, types, fields, bounds and
 * defaults.  misc/check compares each table with docs/reference/.
 */


#ifndef _NGX_HTTP_MCDS_PARAM_H_INCLUDED_
#define _NGX_HTTP_MCDS_PARAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


typedef struct ngx_http_mcds_param_s  ngx_http_mcds_param_t;


/*
 * The function of a type of parameters: parses the value of a directive's
 * parameter, and writes it to the parameter's field.  Returns NULL, or the text
 * that completes "it must be" in the error message, or NGX_CONF_ERROR if the
 * error is logged.
 */

typedef char *(*ngx_http_mcds_param_pt)(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *value, void *conf);


/*
 * A row of a table that lists the parameters of a directive.
 *
 * A name that ends with "=" is the prefix of an argument.  With the type
 * ngx_http_mcds_param_word(), the name is the whole argument.  The name "$"
 * matches all arguments that begin with "$", and an empty name matches all that
 * no other row takes; both may match several arguments.  A row with any other
 * name is for a positional argument: these rows come first in the table, in the
 * order of the arguments.  A directive may have fewer arguments than such rows.
 *
 * Rows with the same field exclude each other.
 */

struct ngx_http_mcds_param_s {
    ngx_str_t                 name;
    ngx_http_mcds_param_pt    set;
    size_t                    offset;   /* the offset and the size of the
                                           parameter's field in the structure of
                                           the directive; the macro
                                           ngx_http_mcds_field() gives both */
    size_t                    size;
    int64_t                   low;      /* the smallest valid value of the
                                           directive's parameter: a number, time
                                           or size */
    int64_t                   high;     /* the largest valid value of the
                                           directive's parameter; 0: no limit */
    int64_t                   init;     /* the default value of the directive's
                                           parameter */
    void                     *post;     /* words that are valid values of the
                                           directive's parameter, and the
                                           numbers that they stand for,
                                           ngx_conf_enum_t; or NULL */
};


#define ngx_http_mcds_field(type, name)                                       \
    offsetof(type, name), sizeof(((type *) 0)->name)


/*
 * Two macros for the last row of a table of parameters:
 * ngx_http_mcds_params_end ends the table, ngx_http_mcds_params_of() continues
 * it with the rows of the table "params".
 */

#define ngx_http_mcds_params_end                                              \
    { ngx_null_string, NULL, 0, 0, 0, 0, 0, NULL }

#define ngx_http_mcds_params_of(params)                                       \
    { ngx_null_string, NULL, 0, 0, 0, 0, 0, params }


/*
 * Continues the table "params" of a directive's parameters with the rows of the
 * table "more".  If another table continued "params" until now, that table
 * follows "more".  An optional feature of mcds calls this function in
 * preconfiguration, each time that nginx reads a configuration.
 */

void ngx_http_mcds_params_add(ngx_http_mcds_param_t *params,
    ngx_http_mcds_param_t *more);


/* 1 if the text s, a ngx_str_t *, equals the literal "word"; case matters */

#define ngx_http_mcds_is(s, word)                                             \
    ((s)->len == sizeof(word) - 1                                             \
     && ngx_strncmp((s)->data, word, sizeof(word) - 1) == 0)


/*
 * Parses the arguments of a directive, from argument i on, by the table
 * "params", and logs all errors.  First sets each parameter's field in conf to
 * its default, if the field has 4 or 8 bytes.  Returns NGX_CONF_OK or
 * NGX_CONF_ERROR.
 */

char *ngx_http_mcds_params(ngx_conf_t *cf, ngx_command_t *cmd, ngx_uint_t i,
    ngx_http_mcds_param_t *params, void *conf);


/*
 * The setter of a directive that has one value; cmd->post is a table of
 * parameters in which each row has the name of such a directive.
 */

char *ngx_http_mcds_set_value(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * For a table of parameters in which each row has the name of a directive: sets
 * the fields of these directives to NGX_CONF_UNSET, in the new configuration of
 * a block (http, server or location).
 */

void ngx_http_mcds_values_unset(ngx_http_mcds_param_t *params, void *conf);

/*
 * For a table of parameters in which each row has the name of a directive:
 * merges the configurations of two blocks, such as a server and its location.
 * Each field of conf that is still NGX_CONF_UNSET inherits the value of prev,
 * or gets the directive's default.
 */

void ngx_http_mcds_values_merge(ngx_http_mcds_param_t *params, void *prev,
    void *conf);


/*
 * finds, in the directive that is being read, the first argument that begins
 * with the text "name"; NULL if there is no such argument
 */

ngx_str_t *ngx_http_mcds_param_given(ngx_conf_t *cf, char *name);


/* 1 if "off" is the only argument of the directive that is being read */

ngx_uint_t ngx_http_mcds_is_off(ngx_conf_t *cf);

/*
 * Call this first in the setter of a directive that a block of the
 * configuration may have once, and that may be "off": refuses a duplicate and
 * "off" in front of other arguments, and sets *field to NULL for "off".  field:
 * the address of a pointer that is NGX_CONF_UNSET_PTR until the block has the
 * directive.  Returns NGX_CONF_OK, also for "off", or else an error, which the
 * setter must return.
 */

char *ngx_http_mcds_param_off(ngx_conf_t *cf, void *field);

/*
 * Call this first in the setter of a directive that a block of the
 * configuration may have several times: for the first of these directives,
 * creates the block's list of them, with elements of size bytes; "off" sets the
 * list to NULL, and is refused in front of other arguments.  Returns
 * NGX_CONF_OK, also for "off", or else an error, which the setter must return.
 */

char *ngx_http_mcds_param_list(ngx_conf_t *cf, ngx_array_t **list, size_t size);


/*
 * Logs that a directive's value is not valid, with the text "must", which tells
 * the valid values; or, if must is NULL, that the parameter is unknown.
 * Returns NGX_CONF_ERROR.
 */

char *ngx_http_mcds_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, char *must);


#endif /* _NGX_HTTP_MCDS_PARAM_H_INCLUDED_ */
