
/*
 * Copyright (C) mcds authors
 *
 * Parsers that are slow and simple, to compare the real ones with.  Nothing
 * of theirs is taken from src/: they are written from the headers alone.
 */


#ifndef _SLOW_H_INCLUDED_
#define _SLOW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_proto.h"
#include "ngx_mcds_fresh.h"
#include "ngx_mcds_targeted.h"


typedef struct {
    const u_char       *data;
    size_t              len;
} slow_text_t;


typedef struct {
    ngx_int_t           code;          /* result of the parser: NGX_OK,
                                          NGX_AGAIN or NGX_ERROR */
    size_t              taken;         /* bytes of the reply's line, if code is
                                          NGX_OK */

    ngx_uint_t          rc;
    ngx_uint_t          has;
    uint64_t            len;
    uint64_t            cas;
    int64_t             ttl;
    uint64_t            flags;
    uint64_t            opaque;
    slow_text_t         key;
    slow_text_t         text;
    int                 noop;
    int                 version;
} slow_reply_t;


/* has the same results as ngx_mcds_parse() */
void slow_parse(slow_reply_t *reply, const u_char *data, size_t len);

/* the same as ngx_mcds_parse_number() and ngx_mcds_version_at_least() */
ngx_int_t slow_number(const u_char *data, size_t len, uint64_t *number);
ngx_int_t slow_version(const u_char *data, size_t len, uint64_t major,
    uint64_t minor, uint64_t patch);

/* has the same results as ngx_mcds_cache_control_add() */
void slow_cache_control(ngx_mcds_cache_control_t *cc, const u_char *data,
    size_t len);


/* aborts if the condition is false: libFuzzer then keeps the input */

#define must(cond)                                                            \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "%s:%d: must be: %s\n", __FILE__, __LINE__,       \
                    #cond);                                                   \
            abort();                                                          \
        }                                                                     \
    } while (0)


int LLVMFuzzerTestOneInput(const u_char *data, size_t size);


#endif /* _SLOW_H_INCLUDED_ */
