
/*
 * Copyright (C) mcds authors
 *
 * Writes nginx's log messages to stderr, as messages of the program.
 */


#include "mcds.h"


#ifdef ngx_src_file

/* Angie's ngx_log_error_core() has the source file as an argument, too */

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, const char *filename,
    ngx_err_t err, const char *fmt, ...)

#else

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
    const char *fmt, ...)

#endif
{
    char     *shown;
    u_char   *p, *last, text[NGX_MAX_ERROR_STR];
    va_list   args;

    last = text + sizeof(text);

    va_start(args, fmt);
    p = ngx_vslprintf(text, last, fmt, args);
    va_end(args);

    if (err) {
        p = ngx_log_errno(p, last, err);
    }

    if (log->handler) {
        p = log->handler(log, p, last - p);
    }

    shown = mcds_escape(text, p - text);

    (void) fprintf(stderr, "mcds: %s\n", shown);

    free(shown);
}


u_char *
ngx_log_errno(u_char *buf, u_char *last, ngx_err_t err)
{
    return ngx_slprintf(buf, last, " (%s)", strerror(err));
}
