
/*
 * Copyright (C) mcds authors
 *
 * Encodes commands of the classic protocol of memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_codec.h"


/*
 * A time to live that is already over: memcached takes more than 30 days as
 * seconds since the epoch, and this number of seconds is in the past.  A
 * negative time to live means the same, but proxies and other stores refuse it.
 */

#define NGX_MCDS_PASSED           (NGX_MCDS_MAX_TTL + 1)


static u_char *ngx_mcds_classic_encode_store(u_char *p, const char *word,
    ngx_mcds_cmd_t *cmd, uint32_t ttl, size_t len);


u_char *
ngx_mcds_classic_encode(u_char *buf, ngx_mcds_cmd_t *cmd)
{
    u_char  *p;

    switch (cmd->verb) {

    case NGX_MCDS_GET:

        if (cmd->want & NGX_MCDS_CAS) {
            p = ngx_mcds_encode_literal(buf, "gets ");

        } else {
            p = ngx_mcds_encode_literal(buf, "get ");
        }

        p = ngx_mcds_encode_key(p, &cmd->key);
        break;

    case NGX_MCDS_SET:
        p = ngx_mcds_classic_encode_store(buf, cmd->cas ? "cas " : "set ",
                                          cmd, cmd->ttl, cmd->len);
        break;

    case NGX_MCDS_ADD:
        p = ngx_mcds_classic_encode_store(buf, "add ", cmd, cmd->ttl,
                                          cmd->len);
        break;

    case NGX_MCDS_APPEND:
        p = ngx_mcds_classic_encode_store(buf, "append ", cmd, 0, cmd->len);
        break;

    case NGX_MCDS_INCR:
    case NGX_MCDS_DECR:

        if (cmd->verb == NGX_MCDS_INCR) {
            p = ngx_mcds_encode_literal(buf, "incr ");

        } else {
            p = ngx_mcds_encode_literal(buf, "decr ");
        }

        p = ngx_mcds_encode_key(p, &cmd->key);
        *p++ = ' ';
        p = ngx_mcds_decimal(p, cmd->delta);
        break;

    case NGX_MCDS_DELETE:

        if (cmd->cas) {
            p = ngx_mcds_classic_encode_store(buf, "cas ", cmd,
                                              NGX_MCDS_PASSED, 0);
            p = ngx_mcds_encode_literal(p, CRLF);
            break;
        }

        p = ngx_mcds_encode_literal(buf, "delete ");
        p = ngx_mcds_encode_key(p, &cmd->key);
        break;

    case NGX_MCDS_TOUCH:
        p = ngx_mcds_encode_literal(buf, "touch ");
        p = ngx_mcds_encode_key(p, &cmd->key);
        *p++ = ' ';
        p = ngx_mcds_decimal(p, cmd->ttl);
        break;

    case NGX_MCDS_STATS:
        p = ngx_mcds_encode_literal(buf, "stats");
        break;

    default: /* NGX_MCDS_GET_VERSION: the command for the server's version */
        p = ngx_mcds_encode_literal(buf, "version");
        break;
    }

    return ngx_mcds_encode_literal(p, CRLF);
}


static u_char *
ngx_mcds_classic_encode_store(u_char *p, const char *word,
    ngx_mcds_cmd_t *cmd, uint32_t ttl, size_t len)
{
    p = ngx_cpymem(p, word, ngx_strlen(word));
    p = ngx_mcds_encode_key(p, &cmd->key);

    *p++ = ' ';
    p = ngx_mcds_decimal(p, cmd->flags);

    *p++ = ' ';
    p = ngx_mcds_decimal(p, ttl);

    *p++ = ' ';
    p = ngx_mcds_decimal(p, len);

    if (cmd->cas && (cmd->verb == NGX_MCDS_SET || cmd->verb == NGX_MCDS_DELETE))
    {
        *p++ = ' ';
        p = ngx_mcds_decimal(p, cmd->cas);
    }

    return p;
}


ngx_uint_t
ngx_mcds_classic_words(ngx_mcds_cmd_t *cmd)
{
    switch (cmd->verb) {

    case NGX_MCDS_GET:
        return NGX_MCDS_WORD_END
               | ((cmd->want & NGX_MCDS_CAS) ? NGX_MCDS_WORD_VALUE_CAS
                                             : NGX_MCDS_WORD_VALUE);

    case NGX_MCDS_SET:

        if (cmd->cas == 0) {
            return NGX_MCDS_WORD_STORED;
        }

        return NGX_MCDS_WORD_STORED
               | NGX_MCDS_WORD_EXISTS
               | NGX_MCDS_WORD_NOT_FOUND;

    case NGX_MCDS_ADD:
    case NGX_MCDS_APPEND:
        return NGX_MCDS_WORD_STORED|NGX_MCDS_WORD_NOT_STORED;

    case NGX_MCDS_INCR:
    case NGX_MCDS_DECR:
        return NGX_MCDS_WORD_NUMBER|NGX_MCDS_WORD_NOT_FOUND;

    case NGX_MCDS_DELETE:

        if (cmd->cas == 0) {
            return NGX_MCDS_WORD_DELETED|NGX_MCDS_WORD_NOT_FOUND;
        }

        return NGX_MCDS_WORD_STORED
               | NGX_MCDS_WORD_EXISTS
               | NGX_MCDS_WORD_NOT_FOUND;

    case NGX_MCDS_TOUCH:
        return NGX_MCDS_WORD_TOUCHED|NGX_MCDS_WORD_NOT_FOUND;

    case NGX_MCDS_STATS:
        return NGX_MCDS_WORD_STAT|NGX_MCDS_WORD_END|NGX_MCDS_WORD_ERROR;

    default: /* the reply to NGX_MCDS_GET_VERSION is the server's version */
        return NGX_MCDS_WORD_VERSION;
    }
}
