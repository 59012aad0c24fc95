
/*
 * Copyright (C) mcds authors
 *
 * The parameters of a directive, as a table: their names, types, fields, bounds
 * and defaults.  misc/check compares each table with docs/reference/.
 */


#ifndef _NGX_HTTP_MCDS_PARAM_H_INCLUDED_
#define _NGX_HTTP_MCDS_PARAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


typedef struct ngx_http_mcds_param_s  ngx_http_mcds_param_t;


/*
 * A type: writes the value to the field of the parameter.  Returns NULL, the
 * text that completes "it must be", or NGX_CONF_ERROR if the error is logged.
 */

typedef char *(*ngx_http_mcds_param_pt)(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *value, void *conf);


/*
 * A name that ends with "=" is the beginning of an argument.  The type
 * param_word makes its name the whole argument.  Of "$" and of an empty name
 * there may be several arguments: variables, and those that no other row takes.
 * Rows with other names come first: they are the first arguments in their
 * order, and may be missing if the directive allows it.
 *
 * Rows of the same field exclude each other.
 */

struct ngx_http_mcds_param_s {
    ngx_str_t                 name;
    ngx_http_mcds_param_pt    set;
    size_t                    offset;   /* by ngx_http_mcds_field() */
    size_t                    size;
    int64_t                   low;      /* of numbers, times and sizes */
    int64_t                   high;     /* 0: no limit */
    int64_t                   init;     /* the default */
    void                     *post;     /* ngx_conf_enum_t: words that stand
                                           for numbers, or NULL */
};


#define ngx_http_mcds_field(type, name)                                       \
    offsetof(type, name), sizeof(((type *) 0)->name)


/* the last row of a table; of: the rows of another table follow */

#define ngx_http_mcds_params_end                                              \
    { ngx_null_string, NULL, 0, 0, 0, 0, 0, NULL }

#define ngx_http_mcds_params_of(params)                                       \
    { ngx_null_string, NULL, 0, 0, 0, 0, 0, params }


/* a text is that literal */

#define ngx_http_mcds_is(s, word)                                             \
    ((s)->len == sizeof(word) - 1                                             \
     && ngx_strncmp((s)->data, word, sizeof(word) - 1) == 0)


/*
 * Reads the arguments from number i on, and logs all errors.  Fields of the
 * size of a number get their defaults first.
 */

char *ngx_http_mcds_params(ngx_conf_t *cf, ngx_command_t *cmd, ngx_uint_t i,
    ngx_http_mcds_param_t *params, void *conf);


/*
 * Directives with one value, on several levels: rows of a table whose names are
 * the directives.  set_value: the setter of such a directive, cmd->post is the
 * table.  unset: all of its fields become NGX_CONF_UNSET; merge: each one that
 * still is gets the value of the outer level, or the default.
 */

char *ngx_http_mcds_set_value(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void ngx_http_mcds_values_unset(ngx_http_mcds_param_t *params, void *conf);
void ngx_http_mcds_values_merge(ngx_http_mcds_param_t *params, void *prev,
    void *conf);


/* the argument that begins with that text, or NULL */

ngx_str_t *ngx_http_mcds_param_given(ngx_conf_t *cf, char *name);


/*
 * "off".  is_off: 1 if it is the only argument.
 *
 * off: of a directive of which a level has one, whose field is
 * NGX_CONF_UNSET_PTR before, and NULL after "off"; name: "off" with other
 * arguments is a name.  list: of a directive of which a level has several;
 * creates the list for the first one, "off" makes it NULL.
 */

ngx_uint_t ngx_http_mcds_is_off(ngx_conf_t *cf);
char *ngx_http_mcds_param_off(ngx_conf_t *cf, void *field, ngx_uint_t name);
char *ngx_http_mcds_param_list(ngx_conf_t *cf, ngx_array_t **list, size_t size);


/* logs that a value is not "must", or, if that is NULL, is no parameter */

char *ngx_http_mcds_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, char *must);


#endif /* _NGX_HTTP_MCDS_PARAM_H_INCLUDED_ */
