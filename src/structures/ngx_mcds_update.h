
/*
 * Copyright (C) mcds authors
 *
 * An item that is changed by what it holds: the update reads it, lets the
 * caller's edit judge it, and writes what the edit makes of it if the item is
 * as it was read.  If another writer was faster the update begins again.
 *
 *      read  ------>  edit  ------>  write  ------>  handler
 *       ^              |               |
 *       |           NGX_DONE           |  another writer was faster
 *       |                              |
 *       +------------  again  <--------+
 */


#ifndef _NGX_MCDS_UPDATE_H_INCLUDED_
#define _NGX_MCDS_UPDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_op.h"


typedef struct ngx_mcds_update_s  ngx_mcds_update_t;


/*
 * Judges the item.  now is the result of the read, be it a failure, and lives
 * until the edit returns.
 *
 * req is the write to be: an add if the item was not found, or else a set with
 * the CAS that was read, which replaces any item if that is 0.  It has the key
 * and all that tells the server of the item; the edit adds a value, whose
 * reference passes to the update, or a text that outlives the edit, and
 * whatever else the write needs.
 *
 * NGX_OK     the update sends req
 * NGX_ABORT  the same, as a delete
 * NGX_DONE   the update ends here, writes nothing, and its handler is not
 *            called: the edit may have freed it, or may read anew later
 */

typedef ngx_int_t (*ngx_mcds_edit_pt)(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);


/* an update lives in a struct of the caller's, zero before the first use */

struct ngx_mcds_update_s {
    ngx_mcds_pool_t        *pool;
    ngx_uint_t              server;     /* on this one alone, see
                                           ngx_mcds_submit_to(): its index + 1;
                                           0: on the server of the key */
    ngx_mcds_request_t      get;        /* the read; its strings outlive the
                                           update */
    void                  (*read)(void *data);
                                        /* instead of get and edit: reads by
                                           itself, and calls
                                           ngx_mcds_update_write() */

    ngx_mcds_edit_pt        edit;
    ngx_mcds_handler_pt     handler;    /* has the result of the last write;
                                           may free the update, or use it
                                           anew */
    void                   *data;       /* of all these functions */

    ngx_uint_t              max;        /* tries after the first one */
    ngx_msec_t            (*again)(void *data, ngx_uint_t tries);
                                        /* called before each of them: how long
                                           to wait, ms; NULL: no wait */

    unsigned                force:1;    /* the last try replaces any item */
    unsigned                gone:1;     /* an item that was deleted meanwhile
                                           ends the update: the result is
                                           NOT_FOUND */

    /* the update's own */

    ngx_uint_t              tries;      /* that began again */
    ngx_mcds_op_t           op;
    ngx_event_t             event;      /* until it begins again; the worker
                                           does not exit before */
};


/*
 * Begins with a read.  Neither the edit nor the handler is called from inside
 * of this call.  Other writers were faster where the write's result is EXISTS,
 * NOT_STORED or, without gone, NOT_FOUND: up to max times the update begins
 * again, and then that is the handler's result, as any other one.
 */

void ngx_mcds_update(ngx_mcds_update_t *update);


/* reads once more, as a part of the same try; none must be under way */

void ngx_mcds_update_read(ngx_mcds_update_t *update);


/*
 * Sends req, whose key is that of the update, without a read before: by a
 * caller that knows what the item holds.  If another writer was faster the
 * update begins again, with a read.
 */

void ngx_mcds_update_write(ngx_mcds_update_t *update,
    ngx_mcds_request_t *req);


/*
 * By the handler: begins again for a reason of its own.  NGX_DECLINED: there
 * were max tries already, and nothing is done.
 */

ngx_int_t ngx_mcds_update_again(ngx_mcds_update_t *update);


/*
 * No edit and no handler is called any more, and the update may be freed or
 * used anew.  A write that is under way may be done, see ngx_mcds_cancel(), and
 * is not tried again.
 */

void ngx_mcds_update_cancel(ngx_mcds_update_t *update);


#endif /* _NGX_MCDS_UPDATE_H_INCLUDED_ */
