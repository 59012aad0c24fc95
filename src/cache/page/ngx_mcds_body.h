
/*
 * Copyright (C) mcds authors
 *
 * Reads the bodies of pages that are stored in parts, see ngx_mcds_body_cut.h.
 * Requests that need the same part at the same time share one read of the part.
 * Of each body only a window of parts is in memory or being read.
 */


#ifndef _NGX_MCDS_BODY_H_INCLUDED_
#define _NGX_MCDS_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page.h"
#include "ngx_mcds_split.h"


/*
 * the maximum number of parts of an open body that are being read, wait to be
 * taken, or are not yet sent to the client
 */
#define NGX_MCDS_WINDOW           4


typedef struct ngx_mcds_body_s  ngx_mcds_body_t;
typedef struct ngx_mcds_body_part_s  ngx_mcds_body_part_t;


/*
 * The handler that is called when the parts of a page's body were checked. rc
 * is NGX_MCDS_OK: memcached has all parts; NGX_MCDS_NOT_FOUND: a part is
 * missing or invalid; any other code: memcached did not answer.
 */

typedef void (*ngx_mcds_body_pt)(void *data, ngx_uint_t rc);


/*
 * Checks whether memcached has all parts of the body of a snapshot (a page in
 * this worker's memory).  Unless window is 0, the first NGX_MCDS_WINDOW parts
 * of the body are also read; they stay in memory until the handler returns, so
 * that it can open the body without reading them again.  The handler is called
 * once, never from inside of this call.  Returns NGX_ERROR, and calls no
 * handler, if out of memory.
 */

ngx_int_t ngx_mcds_body_check(ngx_mcds_snapshot_t *snapshot, ngx_uint_t window,
    ngx_mcds_body_pt handler, void *data);


/*
 * Opens the body of a page's snapshot, and starts to read the parts with the
 * bytes from "from" to the one before "to".  "from" is 0 or a result of
 * ngx_mcds_body_skip().  Bytes of the body in the page's first item, the entry,
 * are in memory and not read.  The body takes a reference of the snapshot.
 * secrets are the keys of mcds_cache_hmac_key: a part that none of these keys
 * has signed counts as lost; if secrets is NULL, signatures are not checked.
 * After ngx_mcds_body_next() has returned NGX_AGAIN, an event calls the handler
 * when the caller may try again.
 * Returns NULL if out of memory.
 */

ngx_mcds_body_t *ngx_mcds_body_open(ngx_mcds_snapshot_t *snapshot, off_t from,
    off_t to, ngx_array_t *secrets, void (*handler)(void *data), void *data);


/*
 * Closes an open body of a page; its handler is not called any more.  Parts of
 * the body that were taken stay valid until ngx_mcds_body_done().
 */

void ngx_mcds_body_close(ngx_mcds_body_t *body);


/*
 * Takes the next part of an open body.  NGX_OK: *part, and *data in it, are
 * valid until ngx_mcds_body_done().  NGX_BUSY: NGX_MCDS_WINDOW parts are taken
 * and not released.  NGX_AGAIN: the part is being read.  NGX_DONE: there are
 * no more parts.  NGX_ERROR: the part is lost (logged); if memcached does not
 * have the part, the body's page is deleted, too.
 */

ngx_int_t ngx_mcds_body_next(ngx_mcds_body_t *body,
    ngx_mcds_body_part_t **part, ngx_str_t *data);


/*
 * Checks the signatures of those parts of an open body that have been read and
 * that the caller has not yet taken.  Returns NGX_OK if all are valid, or if
 * the body was opened without secrets (keys); otherwise NGX_DECLINED.
 */
ngx_int_t ngx_mcds_body_signed(ngx_mcds_body_t *body);


/*
 * Returns where to start reading a body of which only the bytes from "byte" on
 * are needed: the offset in the body of the part that has this byte; 0 if the
 * body has no parts, or if the byte is in the entry or in the first part.
 */
off_t ngx_mcds_body_skip(ngx_mcds_entry_t *entry, off_t byte);


/*
 * Returns 1 if the caller has taken all parts of an open body, so that
 * ngx_mcds_body_next() returns NGX_DONE.
 */
ngx_uint_t ngx_mcds_body_ended(ngx_mcds_body_t *body);


/*
 * Releases a part of a body that ngx_mcds_body_next() has returned, and reads
 * the body's next parts.  body must be NULL if the body has been closed.
 */
void ngx_mcds_body_done(ngx_mcds_body_t *body, ngx_mcds_body_part_t *part);


/*
 * Attaches to a snapshot (a page in this worker's memory) all parts of the
 * page's body, which "split" has stored in memcached, so that requests need not
 * read the parts from memcached.  The parts are freed with the snapshot.
 * Returns NGX_DECLINED, and attaches no part, if the body has no parts, if
 * "split" no longer holds all parts in memory, if the worker has or reads one
 * of the parts already, or if out of memory.
 */

ngx_int_t ngx_mcds_body_keep(ngx_mcds_snapshot_t *snapshot,
    ngx_mcds_split_t *split);


#endif /* _NGX_MCDS_BODY_H_INCLUDED_ */
