
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_reason.h"


/* docs/reference/variables.md, "Reasons", explains each of them */

ngx_str_t  ngx_mcds_reasons[NGX_MCDS_REASON_LAST] = {
    ngx_null_string,

    ngx_string("fresh"),
    ngx_string("stale"),
    ngx_string("purged"),
    ngx_string("built"),
    ngx_string("timeout"),
    ngx_string("backoff"),
    ngx_string("unchanged"),
    ngx_string("error"),

    ngx_string("absent"),
    ngx_string("uncacheable"),
    ngx_string("unsigned"),
    ngx_string("memcached"),
    ngx_string("bypass"),
    ngx_string("request"),
    ngx_string("uses"),
    ngx_string("wait"),

    ngx_string("method"),
    ngx_string("method-override"),
    ngx_string("body"),
    ngx_string("session"),
    ngx_string("variants"),
    ngx_string("key"),
    ngx_string("error-page"),
    ngx_string("only-if-cached"),
    ngx_string("background"),

    ngx_string("status"),
    ngx_string("set-cookie"),
    ngx_string("private"),
    ngx_string("no-store"),
    ngx_string("no-cache"),
    ngx_string("malformed"),
    ngx_string("authorization"),
    ngx_string("vary"),
    ngx_string("encoded"),
    ngx_string("expired"),
    ngx_string("no-lifetime"),

    ngx_string("rule"),
    ngx_string("size"),
    ngx_string("headers"),
    ngx_string("tags"),
    ngx_string("truncated"),
    ngx_string("slow"),
    ngx_string("off")
};
