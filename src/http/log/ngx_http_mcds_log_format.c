
/*
 * Copyright (C) mcds authors
 *
 * The formats that log_format defines.  The structures of nginx's log module
 * are private and differ between builds of one version, so mcds keeps the
 * arguments of each log_format while the configuration is read, and compiles
 * them itself.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_log.h"


typedef enum {
    NGX_HTTP_MCDS_ESCAPE_DEFAULT = 0,
    NGX_HTTP_MCDS_ESCAPE_JSON,
    NGX_HTTP_MCDS_ESCAPE_NONE
} ngx_http_mcds_escape_e;


/*
 * the index that an element of a log format has if it writes a constant text,
 * or $pipe, which nginx has in log formats alone; other elements have the index
 * of their variable
 */
#define NGX_HTTP_MCDS_LOG_TEXT    (-1)
#define NGX_HTTP_MCDS_LOG_PIPE    (-2)


typedef struct {
    ngx_int_t                   index;
    ngx_str_t                   text;
} ngx_http_mcds_log_op_t;


static void ngx_http_mcds_log_formats_cleanup(void *data);
static char *ngx_http_mcds_log_format(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_http_mcds_log_format_t *ngx_http_mcds_log_format_add(
    ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf, ngx_str_t *name);
static ngx_int_t ngx_http_mcds_log_combined(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf);
static ngx_int_t ngx_http_mcds_log_compile(ngx_conf_t *cf,
    ngx_http_mcds_log_format_t *format);
static ngx_int_t ngx_http_mcds_log_compile_word(ngx_conf_t *cf,
    ngx_array_t *ops, ngx_str_t *word);
static u_char *ngx_http_mcds_log_variable(ngx_http_variable_value_t *value,
    ngx_uint_t escape, u_char *p, u_char *last);
static u_char *ngx_http_mcds_log_escape(u_char *p, u_char *last,
    u_char *src, size_t len);
static u_char *ngx_http_mcds_log_escape_json(u_char *p, u_char *last,
    u_char *src, size_t len);


extern ngx_module_t  ngx_http_log_module;


static ngx_command_t  *ngx_http_mcds_log_watched;
static char         *(*ngx_http_mcds_log_original)(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);


/* the format "combined", which nginx predefines for access_log */

static ngx_str_t  ngx_http_mcds_log_combined_words[] = {
    ngx_string("$remote_addr - $remote_user [$time_local] "),
    ngx_string("\"$request\" $status $body_bytes_sent "),
    ngx_string("\"$http_referer\" \"$http_user_agent\""),
    ngx_null_string
};


ngx_int_t
ngx_http_mcds_log_formats_watch(ngx_conf_t *cf)
{
    ngx_command_t       *cmd;
    ngx_pool_cleanup_t  *cln;

    /*
     * the collection of log_format directives ends by a cleanup handler, too,
     * since nginx does not call init_main_conf if the configuration has an
     * error
     */

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_mcds_log_formats_cleanup;

    for (cmd = ngx_http_log_module.commands; cmd->name.len; cmd++) {

        if (cmd->set != ngx_http_mcds_log_format
            && cmd->name.len == sizeof("log_format") - 1
            && ngx_strncmp(cmd->name.data, "log_format", cmd->name.len) == 0)
        {
            ngx_http_mcds_log_watched = cmd;
            ngx_http_mcds_log_original = cmd->set;
            cmd->set = ngx_http_mcds_log_format;
        }
    }

    return NGX_OK;
}


void
ngx_http_mcds_log_formats_unwatch(void)
{
    if (ngx_http_mcds_log_watched) {
        ngx_http_mcds_log_watched->set = ngx_http_mcds_log_original;
        ngx_http_mcds_log_watched = NULL;
    }
}


static void
ngx_http_mcds_log_formats_cleanup(void *data)
{
    ngx_http_mcds_log_formats_unwatch();
}


static char *
ngx_http_mcds_log_format(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                        *rv;
    ngx_str_t                   *value, *word;
    ngx_uint_t                   i;
    ngx_http_mcds_log_main_t    *lmcf;
    ngx_http_mcds_log_format_t  *format;

    rv = ngx_http_mcds_log_original(cf, cmd, conf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_log_module);

    value = cf->args->elts;

    format = ngx_http_mcds_log_format_add(cf, lmcf, &value[1]);
    if (format == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        word = ngx_array_push(&format->words);
        if (word == NULL) {
            return NGX_CONF_ERROR;
        }

        *word = value[i];
    }

    return NGX_CONF_OK;
}


static ngx_http_mcds_log_format_t *
ngx_http_mcds_log_format_add(ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf,
    ngx_str_t *name)
{
    ngx_http_mcds_log_format_t  *format, **p;

    format = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_log_format_t));
    if (format == NULL) {
        return NULL;
    }

    format->name = *name;

    if (ngx_array_init(&format->words, cf->pool, 4, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NULL;
    }

    p = ngx_array_push(&lmcf->formats);
    if (p == NULL) {
        return NULL;
    }

    *p = format;

    return format;
}


ngx_http_mcds_log_format_t *
ngx_http_mcds_log_format_find(ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf,
    ngx_http_mcds_log_use_t *use)
{
    ngx_str_t                   *name;
    ngx_uint_t                   i;
    ngx_http_mcds_log_format_t **formats;

    if (ngx_http_mcds_log_combined(cf, lmcf) != NGX_OK) {
        return NULL;
    }

    name = &use->format_name;
    formats = lmcf->formats.elts;

    for (i = 0; i < lmcf->formats.nelts; i++) {

        if (formats[i]->name.len != name->len
            || ngx_strncmp(formats[i]->name.data, name->data, name->len) != 0)
        {
            continue;
        }

        if (formats[i]->ops == NULL
            && ngx_http_mcds_log_compile(cf, formats[i]) != NGX_OK)
        {
            return NULL;
        }

        return formats[i];
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"mcds_log\": there is no \"log_format\" \"%*s\" in "
                  "%V:%ui", ngx_min(name->len, NGX_MAX_CONF_ERRSTR / 2),
                  name->data, &use->place.file, use->place.line);

    return NULL;
}


/*
 * adds the log format "combined", unless an earlier call has added it; the
 * configuration cannot define it: nginx refuses a log_format of this name
 */

static ngx_int_t
ngx_http_mcds_log_combined(ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf)
{
    ngx_str_t                   *word, *w, name;
    ngx_uint_t                   i;
    ngx_http_mcds_log_format_t  *format, **formats;

    ngx_str_set(&name, "combined");

    formats = lmcf->formats.elts;

    for (i = 0; i < lmcf->formats.nelts; i++) {
        if (formats[i]->name.len == name.len
            && ngx_strncmp(formats[i]->name.data, name.data, name.len) == 0)
        {
            return NGX_OK;
        }
    }

    format = ngx_http_mcds_log_format_add(cf, lmcf, &name);
    if (format == NULL) {
        return NGX_ERROR;
    }

    for (w = ngx_http_mcds_log_combined_words; w->len; w++) {

        word = ngx_array_push(&format->words);
        if (word == NULL) {
            return NGX_ERROR;
        }

        *word = *w;
    }

    return NGX_OK;
}


/*
 * compiles a log format; besides lack of memory, a variable that is not valid
 * is the only error, since nginx's log module has refused all other errors
 */

static ngx_int_t
ngx_http_mcds_log_compile(ngx_conf_t *cf, ngx_http_mcds_log_format_t *format)
{
    ngx_str_t   *word;
    ngx_uint_t   i;

    format->ops = ngx_array_create(cf->pool, 16,
                                   sizeof(ngx_http_mcds_log_op_t));
    if (format->ops == NULL) {
        return NGX_ERROR;
    }

    word = format->words.elts;
    i = 0;

    if (format->words.nelts
        && ngx_strncmp(word[0].data, "escape=", 7) == 0)
    {
        if (ngx_strcmp(word[0].data + 7, "json") == 0) {
            format->escape = NGX_HTTP_MCDS_ESCAPE_JSON;

        } else if (ngx_strcmp(word[0].data + 7, "none") == 0) {
            format->escape = NGX_HTTP_MCDS_ESCAPE_NONE;
        }

        i = 1;
    }

    for ( /* void */ ; i < format->words.nelts; i++) {
        if (ngx_http_mcds_log_compile_word(cf, format->ops, &word[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_log_compile_word(ngx_conf_t *cf, ngx_array_t *ops,
    ngx_str_t *word)
{
    u_char                  *p, *last, c;
    ngx_str_t                name;
    ngx_uint_t               bracket;
    ngx_http_mcds_log_op_t  *op;

    p = word->data;
    last = p + word->len;

    while (p < last) {

        op = ngx_array_push(ops);
        if (op == NULL) {
            return NGX_ERROR;
        }

        if (*p != '$') {
            op->index = NGX_HTTP_MCDS_LOG_TEXT;
            op->text.data = p;

            while (p < last && *p != '$') {
                p++;
            }

            op->text.len = p - op->text.data;
            continue;
        }

        p++;
        bracket = (p < last && *p == '{');
        p += bracket;

        name.data = p;

        while (p < last) {
            c = *p;

            if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
                  || (c >= '0' && c <= '9') || c == '_'))
            {
                break;
            }

            p++;
        }

        name.len = p - name.data;
        p += bracket;

        if (name.len == 4 && ngx_strncmp(name.data, "pipe", 4) == 0) {
            op->index = NGX_HTTP_MCDS_LOG_PIPE;
            continue;
        }

        op->index = ngx_http_get_variable_index(cf, &name);

        if (op->index == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


u_char *
ngx_http_mcds_log_format_write(ngx_http_request_t *r,
    ngx_http_mcds_log_format_t *format, u_char *buf, size_t size)
{
    u_char                  *p, *last;
    ngx_uint_t               i;
    ngx_http_mcds_log_op_t  *op;

    p = buf;
    last = buf + size;

    op = format->ops->elts;

    for (i = 0; i < format->ops->nelts && p < last; i++) {

        switch (op[i].index) {

        case NGX_HTTP_MCDS_LOG_TEXT:
            p = ngx_cpymem(p, op[i].text.data,
                           ngx_min(op[i].text.len, (size_t) (last - p)));
            break;

        case NGX_HTTP_MCDS_LOG_PIPE:
            *p++ = r->pipeline ? 'p' : '.';
            break;

        default:
            p = ngx_http_mcds_log_variable(
                              ngx_http_get_flushed_variable(r, op[i].index),
                              format->escape, p, last);
        }
    }

    return p;
}


static u_char *
ngx_http_mcds_log_variable(ngx_http_variable_value_t *value,
    ngx_uint_t escape, u_char *p, u_char *last)
{
    if (value == NULL || value->not_found) {

        if (escape == NGX_HTTP_MCDS_ESCAPE_DEFAULT) {
            *p++ = '-';
        }

        return p;
    }

    switch (escape) {

    case NGX_HTTP_MCDS_ESCAPE_DEFAULT:
        return ngx_http_mcds_log_escape(p, last, value->data, value->len);

    case NGX_HTTP_MCDS_ESCAPE_JSON:
        return ngx_http_mcds_log_escape_json(p, last, value->data,
                                             value->len);

    default: /* "escape=none": a log line has the variable's value as it is */
        return ngx_cpymem(p, value->data,
                          ngx_min(value->len, (size_t) (last - p)));
    }
}


/*
 * escapes the value of a variable in a log line: quotes, backslashes, and all
 * characters that are not printable, as \xXX; does not truncate an escape
 */

static u_char *
ngx_http_mcds_log_escape(u_char *p, u_char *last, u_char *src, size_t len)
{
    u_char  *end, c;

    static u_char  hex[] = "0123456789ABCDEF";

    for (end = src + len; src < end && p < last; src++) {

        c = *src;

        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            *p++ = c;
            continue;
        }

        if (last - p < 4) {
            break;
        }

        *p++ = '\\';
        *p++ = 'x';
        *p++ = hex[c >> 4];
        *p++ = hex[c & 0xf];
    }

    return p;
}


static u_char *
ngx_http_mcds_log_escape_json(u_char *p, u_char *last, u_char *src,
    size_t len)
{
    size_t  n;

    n = ngx_escape_json(NULL, src, len);

    if (n == 0) {
        return ngx_cpymem(p, src, ngx_min(len, (size_t) (last - p)));
    }

    if (len + n <= (size_t) (last - p)) {
        return (u_char *) ngx_escape_json(p, src, len);
    }

    for ( /* void */ ; len; src++, len--) {

        n = 1 + ngx_escape_json(NULL, src, 1);

        if (n > (size_t) (last - p)) {
            break;
        }

        p = (u_char *) ngx_escape_json(p, src, 1);
    }

    return p;
}
