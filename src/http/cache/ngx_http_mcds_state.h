
/*
 * Copyright (C) mcds authors
 *
 * The way of a request through the cache, as states:
 *
 *   START       the cache has not been asked
 *   BYPASS      the request does not use the cache, unless a LOOKUP follows
 *   PURGE       the request purges a page, and may have the page rebuilt
 *   LOOKUP      the page of the key, or its variant, is looked up and judged
 *   FORK        a list of variants that distinguishes routes (the ways of
 *               requests through the locations) is being stored
 *   COUNT_USES  the requests for a page that is not stored are being counted
 *   WAIT        the request asks for the page's lock, to build the page (get it
 *               from the origin, and store it), or waits while another request
 *               or its own background copy builds the page
 *   LEFT        the origin has led the request to another location, whose page
 *               is to be looked up
 *
 * The remaining states say how the request is answered:
 *
 *   INVALIDATE  by the origin; a success invalidates the page
 *   FILL        by the origin; the request builds the page from the response
 *   STORE       by the origin; the response may be stored, but the request has
 *               no lock on the page, so no other request waits for it
 *   PASS        by the origin; the response is not stored
 *   SERVE       by the stored page
 *   INSTEAD     by the stored page in place of the response of the origin
 *   OWN         by the response that the request's background copy could not
 *               store
 *   REFUSE      by 503, since the request has waited long enough, or by 504,
 *               since the request has "only-if-cached"
 *   FAILED      by 500, since memory has run out
 *   DETACHED    not at all: the request is a background copy, which builds the
 *               page without a client
 *
 *   START ------> BYPASS | PURGE | DETACHED
 *   BYPASS -----> PURGE | LOOKUP | INVALIDATE
 *   INVALIDATE -> PURGE
 *   PURGE ------> WAIT
 *   LOOKUP -----> PURGE | FORK | COUNT_USES | WAIT | STORE | PASS | SERVE
 *                 | REFUSE | FAILED
 *   FORK -------> LOOKUP | FAILED
 *   COUNT_USES -> WAIT | STORE | PASS | FAILED
 *   WAIT -------> LOOKUP | FILL | STORE | PASS | SERVE | OWN | REFUSE | FAILED
 *   FILL -------> LEFT | PASS | INSTEAD
 *   STORE ------> LEFT | PASS | INSTEAD
 *   PASS -------> LEFT
 *   LEFT -------> LOOKUP | PASS | FAILED
 */


#ifndef _NGX_HTTP_MCDS_STATE_H_INCLUDED_
#define _NGX_HTTP_MCDS_STATE_H_INCLUDED_


/*
 * the states of a request's use of the cache; the first state has the value 0,
 * as in zeroed memory
 */

#define NGX_HTTP_MCDS_STATES(state)                                           \
    state(START)                                                              \
    state(BYPASS)                                                             \
    state(PURGE)                                                              \
    state(LOOKUP)                                                             \
    state(FORK)                                                               \
    state(COUNT_USES)                                                         \
    state(WAIT)                                                               \
    state(LEFT)                                                               \
    state(INVALIDATE)                                                         \
    state(FILL)                                                               \
    state(STORE)                                                              \
    state(PASS)                                                               \
    state(SERVE)                                                              \
    state(INSTEAD)                                                            \
    state(OWN)                                                                \
    state(REFUSE)                                                             \
    state(FAILED)                                                             \
    state(DETACHED)


#define ngx_http_mcds_state_value(name)  NGX_HTTP_MCDS_STATE_##name,
#define ngx_http_mcds_state_name(name)   #name,

typedef enum {
    NGX_HTTP_MCDS_STATES(ngx_http_mcds_state_value)
    NGX_HTTP_MCDS_STATE_LAST
} ngx_http_mcds_state_e;


/*
 * the first of the states that a request has once mcds has decided whether the
 * request is served from the cache
 */
#define NGX_HTTP_MCDS_STATE_DECIDED  NGX_HTTP_MCDS_STATE_INVALIDATE


#endif /* _NGX_HTTP_MCDS_STATE_H_INCLUDED_ */
