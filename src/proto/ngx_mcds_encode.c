
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_codec.h"


static u_char *ngx_mcds_encode_store(u_char *p, ngx_mcds_cmd_t *cmd);
static u_char *ngx_mcds_encode_arithmetic(u_char *p, ngx_mcds_cmd_t *cmd);
static u_char *ngx_mcds_encode_hex(u_char *p, uint32_t n);


u_char *
ngx_mcds_encode(u_char *buf, ngx_mcds_cmd_t *cmd)
{
    u_char      *p;
    ngx_uint_t   want;

    /*
     * request only those fields of the item that the command can return:
     * memcached replies to the flag of any other field with CLIENT_ERROR
     */

    switch (cmd->verb) {

    case NGX_MCDS_GET:
        p = ngx_mcds_encode_literal(buf, "mg ");
        p = ngx_mcds_encode_key(p, &cmd->key);

        want = cmd->want;
        break;

    case NGX_MCDS_INCR:
    case NGX_MCDS_DECR:
        p = ngx_mcds_encode_arithmetic(buf, cmd);

        want = NGX_MCDS_VALUE
               | (cmd->want & (NGX_MCDS_CAS|NGX_MCDS_TTL));
        break;

    case NGX_MCDS_SET:
    case NGX_MCDS_ADD:
    case NGX_MCDS_APPEND:
        p = ngx_mcds_encode_store(buf, cmd);

        want = cmd->want & NGX_MCDS_CAS;
        break;

    case NGX_MCDS_DELETE:
        p = ngx_mcds_encode_literal(buf, "md ");
        p = ngx_mcds_encode_key(p, &cmd->key);

        if (cmd->cas) {
            p = ngx_mcds_encode_literal(p, " C");
            p = ngx_mcds_decimal(p, cmd->cas);
        }

        want = 0;
        break;

    case NGX_MCDS_TOUCH:
        p = ngx_mcds_encode_literal(buf, "mg ");
        p = ngx_mcds_encode_key(p, &cmd->key);

        p = ngx_mcds_encode_literal(p, " T");
        p = ngx_mcds_decimal(p, cmd->ttl);

        want = 0;
        break;

    case NGX_MCDS_NOOP:
        return ngx_mcds_encode_literal(buf, "mn" CRLF);

    case NGX_MCDS_STATS:
        return ngx_mcds_encode_literal(buf, "stats" CRLF);

    default: /* NGX_MCDS_GET_VERSION: the command for the server's version */
        return ngx_mcds_encode_literal(buf, "version" CRLF);
    }

    if (want & NGX_MCDS_VALUE) {
        p = ngx_mcds_encode_literal(p, " v");
    }

    if (want & NGX_MCDS_CAS) {
        p = ngx_mcds_encode_literal(p, " c");
    }

    if (want & NGX_MCDS_TTL) {
        p = ngx_mcds_encode_literal(p, " t");
    }

    if (want & NGX_MCDS_FLAGS) {
        p = ngx_mcds_encode_literal(p, " f");
    }

    p = ngx_mcds_encode_literal(p, " k O");
    p = ngx_mcds_encode_hex(p, cmd->opaque);

    return ngx_mcds_encode_literal(p, CRLF);
}


static u_char *
ngx_mcds_encode_store(u_char *p, ngx_mcds_cmd_t *cmd)
{
    p = ngx_mcds_encode_literal(p, "ms ");
    p = ngx_mcds_encode_key(p, &cmd->key);

    *p++ = ' ';
    p = ngx_mcds_decimal(p, cmd->len);

    if (cmd->verb == NGX_MCDS_APPEND) {

        /*
         * an append keeps the time to live of the item: memcached would ignore
         * the flag T
         */

        return ngx_mcds_encode_literal(p, " MA");
    }

    if (cmd->verb == NGX_MCDS_ADD) {
        p = ngx_mcds_encode_literal(p, " ME");
    }

    p = ngx_mcds_encode_literal(p, " T");
    p = ngx_mcds_decimal(p, cmd->ttl);

    if (cmd->flags) {
        p = ngx_mcds_encode_literal(p, " F");
        p = ngx_mcds_decimal(p, cmd->flags);
    }

    if (cmd->verb == NGX_MCDS_SET && cmd->cas) {
        p = ngx_mcds_encode_literal(p, " C");
        p = ngx_mcds_decimal(p, cmd->cas);
    }

    return p;
}


static u_char *
ngx_mcds_encode_arithmetic(u_char *p, ngx_mcds_cmd_t *cmd)
{
    p = ngx_mcds_encode_literal(p, "ma ");
    p = ngx_mcds_encode_key(p, &cmd->key);

    if (!cmd->update) {

        /*
         * without the flag N, memcached does not create a missing counter; N0
         * creates one that never expires
         */

        p = ngx_mcds_encode_literal(p, " N");
        p = ngx_mcds_decimal(p, cmd->ttl);

        p = ngx_mcds_encode_literal(p, " J");
        p = ngx_mcds_decimal(p, cmd->initial);
    }

    p = ngx_mcds_encode_literal(p, " D");
    p = ngx_mcds_decimal(p, cmd->delta);

    if (cmd->verb == NGX_MCDS_DECR) {
        p = ngx_mcds_encode_literal(p, " MD");
    }

    if (cmd->update && cmd->cas) {
        p = ngx_mcds_encode_literal(p, " C");
        p = ngx_mcds_decimal(p, cmd->cas);
    }

    return p;
}


u_char *
ngx_mcds_encode_key(u_char *p, ngx_str_t *key)
{
    return ngx_cpymem(p, key->data, key->len);
}


static u_char *
ngx_mcds_encode_hex(u_char *p, uint32_t n)
{
    ngx_int_t      shift;
    static u_char  hex[] = "0123456789abcdef";

    for (shift = 28; shift > 0 && n >> shift == 0; shift -= 4) { /* void */ }

    for ( /* void */ ; shift >= 0; shift -= 4) {
        *p++ = hex[(n >> shift) & 0xf];
    }

    return p;
}
