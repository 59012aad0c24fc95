
/*
 * Copyright (C) mcds authors
 *
 * The hottest keys of pages and counters, for mcds_status; see
 * ngx_mcds_hotkeys.h.
 */


#ifndef _NGX_HTTP_MCDS_HOTKEYS_H_INCLUDED_
#define _NGX_HTTP_MCDS_HOTKEYS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_hotkeys.h"


/*
 * Starts, in a worker, to count which keys are requested most often (the hot
 * keys).  places: the workers' parts of the shared memory, which
 * ngx_mcds_hotkeys_zone() has made; NULL if the configuration has no status
 * page: nothing is counted then.
 */

void ngx_http_mcds_hotkeys_start(ngx_mcds_hotkeys_place_t *places,
    ngx_log_t *log);

/*
 * Counts one request for a key, to find the hot keys, the keys requested most
 * often; does nothing in a worker that has no part of the shared memory for hot
 * keys.  kind: whether the key is of a page, counter or counter of visitors.
 */

void ngx_http_mcds_hotkeys_add(ngx_uint_t kind, ngx_str_t *key);

/*
 * Stores the current value of a counter, "value", beside its key among the hot
 * keys, the keys requested most often; does nothing in a worker that has no
 * part of the shared memory for hot keys.
 */

void ngx_http_mcds_hotkeys_note(ngx_uint_t kind, ngx_str_t *key,
    uint64_t value);


#endif /* _NGX_HTTP_MCDS_HOTKEYS_H_INCLUDED_ */
