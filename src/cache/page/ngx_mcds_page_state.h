
/*
 * Copyright (C) mcds authors
 *
 * The states of a page's build, as a worker sees it:
 *
 *   IDLE      no request of this worker builds the page or waits for it
 *   LOCKING   a request asks memcached for the page's lock and then, on the
 *             same connection, whether the page has changed since the request
 *             looked it up
 *   BUILDING  a request of this worker has the lock, or memcached does not
 *             answer and the request builds for this host alone
 *   STORING   the page is built, and being stored; the lock is still held
 *   REMOTE    another worker or host has the lock; while requests wait here,
 *             the worker reads the lock and the page, every 5 ms to 100 ms,
 *             and at once when a worker of this host has ended a build; before
 *             the earliest time at which the build can be expected to end, if
 *             known, the worker reads only the lock, at most 250 ms apart
 *   LOCAL     another worker of this host builds; memcached is not asked
 *   PAUSED    as IDLE, after the origin has failed: requests that have a
 *             stale page start no build
 *
 *   IDLE -----> LOCKING | BUILDING | LOCAL | PAUSED
 *   LOCKING --> IDLE | BUILDING | REMOTE | LOCAL | PAUSED
 *   BUILDING -> IDLE | STORING | LOCAL | PAUSED
 *   STORING --> IDLE
 *   REMOTE ---> IDLE | LOCKING | BUILDING | LOCAL | PAUSED
 *   LOCAL ----> IDLE | REMOTE | PAUSED
 *   PAUSED ---> IDLE | LOCKING | BUILDING | LOCAL
 */


#ifndef _NGX_MCDS_PAGE_STATE_H_INCLUDED_
#define _NGX_MCDS_PAGE_STATE_H_INCLUDED_


/*
 * The states of the build of a page in a worker.  IDLE (no build, no request
 * that waits) comes first: it is the state of a page in zeroed memory.
 */

#define NGX_MCDS_STATES(state)                                                \
    state(IDLE)                                                               \
    state(LOCKING)                                                            \
    state(BUILDING)                                                           \
    state(STORING)                                                            \
    state(REMOTE)                                                             \
    state(LOCAL)                                                              \
    state(PAUSED)


#define ngx_mcds_page_state_value(name)  NGX_MCDS_STATE_##name,
#define ngx_mcds_page_state_name(name)   #name,

typedef enum {
    NGX_MCDS_STATES(ngx_mcds_page_state_value)
    NGX_MCDS_STATE_LAST
} ngx_mcds_page_state_e;


#endif /* _NGX_MCDS_PAGE_STATE_H_INCLUDED_ */
