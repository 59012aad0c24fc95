
/*
 * Copyright (C) mcds authors
 *
 * Why the cache has handled a request as it did: one word for each reason, for
 * variables, headers, logs and statistics.
 */


#ifndef _NGX_MCDS_REASON_H_INCLUDED_
#define _NGX_MCDS_REASON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the reasons not to store a response, and the word of each */

#define NGX_MCDS_REFUSAL_LIST(X)                                              \
    X(STATUS, "status")           /* the response has the status 206, 304,    \
                                     1xx, or one that neither the origin nor  \
                                     the configuration makes storable */      \
    X(SET_COOKIE, "set-cookie")                                               \
    X(PRIVATE, "private")                                                     \
    X(NO_STORE, "no-store")                                                   \
    X(NO_CACHE, "no-cache")                                                   \
    X(MALFORMED, "malformed")                                                 \
    X(AUTHORIZATION, "authorization")                                         \
    X(VARY, "vary")                                                           \
    X(ENCODED, "encoded")                                                     \
    X(EXPIRED, "expired")         /* the response's lifetime is 0, or its     \
                                     Expires is in the past */                \
    X(NO_LIFETIME, "no-lifetime") /* neither the origin nor the configuration \
                                     sets the response's lifetime */


/*
 * All reasons why the cache handled a request as it did;
 * docs/reference/variables.md, "Reasons", explains each of them.
 */

#define NGX_MCDS_REASON_LIST(X)                                               \
    X(FRESH, "fresh")                                                         \
    X(STALE, "stale")                                                         \
    X(PURGED, "purged")                                                       \
    X(BUILT, "built")                                                         \
    X(TIMEOUT, "timeout")                                                     \
    X(BACKOFF, "backoff")                                                     \
    X(UNCHANGED, "unchanged")                                                 \
    X(ERROR, "error")                                                         \
    X(ABSENT, "absent")                                                       \
    X(UNCACHEABLE, "uncacheable")                                             \
    X(UNSIGNED, "unsigned")                                                   \
    X(MEMCACHED, "memcached")                                                 \
    X(BYPASS, "bypass")                                                       \
    X(REQUEST, "request")                                                     \
    X(USES, "uses")                                                           \
    X(WAIT, "wait")                                                           \
    X(METHOD, "method")                                                       \
    X(OVERRIDE, "method-override")                                            \
    X(BODY, "body")                                                           \
    X(SESSION, "session")                                                     \
    X(VARIANTS, "variants")                                                   \
    X(KEY, "key")                                                             \
    X(ERROR_PAGE, "error-page")                                               \
    X(ONLY_IF_CACHED, "only-if-cached")                                       \
    X(BACKGROUND, "background")                                               \
    NGX_MCDS_REFUSAL_LIST(X)                                                  \
    X(RULE, "rule")                                                           \
    X(SIZE, "size")                                                           \
    X(HEADERS, "headers")                                                     \
    X(TAGS, "tags")                                                           \
    X(TRUNCATED, "truncated")                                                 \
    X(SLOW, "slow")                                                           \
    X(OFF, "off")


#define ngx_mcds_reason(name, word)  NGX_MCDS_REASON_##name,

typedef enum {
    NGX_MCDS_REASON_NONE = 0,     /* no reason to report for the request */
    NGX_MCDS_REASON_LIST(ngx_mcds_reason)
    NGX_MCDS_REASON_LAST
} ngx_mcds_reason_e;


/*
 * the words, for variables and logs, of the reasons why the cache handled a
 * request as it did; empty for NONE
 */

extern ngx_str_t  ngx_mcds_reasons[NGX_MCDS_REASON_LAST];


#endif /* _NGX_MCDS_REASON_H_INCLUDED_ */
