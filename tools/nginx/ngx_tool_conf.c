
/*
 * Copyright (C) mcds authors
 *
 * Parses a file of nginx's configuration into directives, each a list of words.
 */


/*
 * nginx's source ngx_conf_file.c is included for its function
 * ngx_conf_read_token(), which is static
 */

#include <ngx_conf_file.c>
#include "ngx_tool.h"


/* the maximum size of a file of nginx's configuration, bytes */
#define NGX_TOOL_CONF_SIZE        (16 * 1024 * 1024)


static void ngx_tool_conf_skip_string(ngx_buf_t *b);
static ngx_uint_t ngx_tool_conf_skip_long(ngx_conf_t *cf, ngx_buf_t *b);
static size_t ngx_tool_conf_bracket(u_char *p, u_char *last, u_char ch);


ngx_int_t
ngx_tool_conf_open(ngx_conf_t *cf, ngx_str_t *path)
{
    ssize_t           n;
    ngx_fd_t          fd;
    ngx_buf_t        *b;
    ngx_file_info_t   fi;

    cf->conf_file = ngx_pcalloc(cf->pool, sizeof(ngx_conf_file_t));
    b = ngx_pcalloc(cf->pool, sizeof(ngx_buf_t));

    if (cf->conf_file == NULL || b == NULL) {
        return NGX_ERROR;
    }

    cf->conf_file->file.name = *path;
    cf->conf_file->buffer = b;
    cf->conf_file->line = 0;

    fd = open((char *) path->data, O_RDONLY|O_CLOEXEC);

    if (fd == -1 || fstat(fd, &fi) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "cannot open the configuration in %V:0", path);
        goto failed;
    }

    if (!S_ISREG(fi.st_mode) || fi.st_size > NGX_TOOL_CONF_SIZE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "is not a file, or too large for a configuration");
        goto failed;
    }

    b->start = ngx_palloc(cf->pool, fi.st_size + 1);
    if (b->start == NULL) {
        goto failed;
    }

    b->pos = b->start;
    b->last = b->start;
    b->end = b->start + fi.st_size;

    while (b->last < b->end) {
        n = read(fd, b->last, b->end - b->last);

        if (n <= 0) {
            break;
        }

        b->last += n;
    }

    (void) close(fd);

    /*
     * this size and offset tell ngx_conf_read_token() that the whole file is in
     * the buffer, so it reads no more from the file
     */

    cf->conf_file->file.info.st_size = b->last - b->start;
    cf->conf_file->file.offset = b->last - b->start;
    cf->conf_file->line = 1;

    return NGX_OK;

failed:

    if (fd != -1) {
        (void) close(fd);
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_tool_conf_read(ngx_conf_t *cf)
{
    return ngx_conf_read_token(cf);
}


/*
 * skips a block of Lua in nginx's configuration, up to its closing brace;
 * braces within strings and comments of Lua do not count
 */

ngx_int_t
ngx_tool_conf_skip(ngx_conf_t *cf)
{
    ngx_buf_t   *b;
    ngx_uint_t   depth;

    b = cf->conf_file->buffer;
    depth = 1;

    while (b->pos < b->last) {

        switch (*b->pos) {

        case '"':
        case '\'':
            ngx_tool_conf_skip_string(b);
            continue;

        case '-':
        case '[':
            if (ngx_tool_conf_skip_long(cf, b)) {
                continue;
            }

            break;

        case LF:
            cf->conf_file->line++;
            break;

        case '{':
            depth++;
            break;

        case '}':
            if (--depth == 0) {
                b->pos++;
                return NGX_OK;
            }

            break;
        }

        b->pos++;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unexpected end of file, expecting \"}\"");

    return NGX_ERROR;
}


static void
ngx_tool_conf_skip_string(ngx_buf_t *b)
{
    u_char  quote;

    quote = *b->pos++;

    while (b->pos < b->last && *b->pos != LF) {

        if (*b->pos == '\\' && b->pos + 1 < b->last && b->pos[1] != LF) {
            b->pos += 2;
            continue;
        }

        if (*b->pos++ == quote) {
            return;
        }
    }
}


/*
 * Skips a long string or a comment of Lua at the current position: "[[ ... ]]",
 * "[=[ ... ]=]", "--[[ ... ]]" or "--".  Returns 0 if none begins there.
 */

static ngx_uint_t
ngx_tool_conf_skip_long(ngx_conf_t *cf, ngx_buf_t *b)
{
    u_char      *p;
    size_t       len;
    ngx_uint_t   comment;

    p = b->pos;
    comment = (b->last - p > 2 && p[0] == '-' && p[1] == '-');

    if (comment) {
        p += 2;
    }

    len = ngx_tool_conf_bracket(p, b->last, '[');

    if (len == 0) {

        while (comment && b->pos < b->last && *b->pos != LF) {
            b->pos++;
        }

        return comment;
    }

    for (p += len; p < b->last; p++) {

        if (*p == LF) {
            cf->conf_file->line++;
        }

        if (ngx_tool_conf_bracket(p, b->last, ']') == len) {
            p += len;
            break;
        }
    }

    b->pos = p;

    return 1;
}


/*
 * returns the length of the bracket at p that starts a long string of Lua, "[["
 * or "[=[" and so on, if ch is '[', or ends it, if ch is ']'; 0: none is there
 */

static size_t
ngx_tool_conf_bracket(u_char *p, u_char *last, u_char ch)
{
    u_char  *end;

    if (*p != ch) {
        return 0;
    }

    for (end = p + 1; end < last && *end == '='; end++) { /* void */ }

    return (end < last && *end == ch) ? end + 1 - p : 0;
}
