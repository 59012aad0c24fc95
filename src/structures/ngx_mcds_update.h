
/*
 * Copyright (C) mcds authors
 *
 * Changes of an item that depend on its content.  An update reads the item,
 * passes the result to the caller's edit, and writes the result of the edit,
 * unless the item has changed since the read; then the update begins again.
 *
 *   read  ------>  edit  ------>  write  ------>  handler
 *    ^               |              |
 *    |           NGX_DONE           |  the item has changed meanwhile
 *    |                              |
 *    +------------  again  <--------+
 */


#ifndef _NGX_MCDS_UPDATE_H_INCLUDED_
#define _NGX_MCDS_UPDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_op.h"


typedef struct ngx_mcds_update_s  ngx_mcds_update_t;


/*
 * A function that edits an item between the read and the write of an update.
 * now is the result of the read, even if that has failed, and valid until the
 * function returns.
 *
 * req is prepared for the write: an add if the item was not found, otherwise a
 * set with the CAS of the read; without a CAS the set replaces any item.  req
 * has the key and all fields that choose the server.  The edit sets req->value,
 * whose reference passes to the update, or req->text, which must outlive the
 * edit, and may set other fields.  Returns:
 *
 *   NGX_OK     the update sends req
 *   NGX_ABORT  the update sends req as a delete
 *   NGX_DONE   the update ends without a write, and its handler is not called;
 *              the edit may have freed the update, or may read again later
 */

typedef ngx_int_t (*ngx_mcds_edit_pt)(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);


/*
 * An update of an item, a read and a conditional write, is a member of a struct
 * of the caller, and zero before the first use.
 */

struct ngx_mcds_update_s {
    ngx_mcds_pool_t        *pool;
    ngx_uint_t              server;     /* index + 1 of the only server to use,
                                           see ngx_mcds_submit_to(); 0: the
                                           server of the key */
    ngx_mcds_request_t      get;        /* the read of the item to update; its
                                           strings must outlive the update */
    void                  (*read)(void *data);
                                        /*
                                         * function that, instead of the fields
                                         * get and edit, reads the item by other
                                         * means, and then calls
                                         * ngx_mcds_update_write()
                                         */

    ngx_mcds_edit_pt        edit;
    ngx_mcds_handler_pt     handler;    /* gets the result of the last write of
                                           the item; may free the update, or use
                                           it again */
    void                   *data;       /* argument of the update's functions
                                           edit, handler, read and again */

    ngx_uint_t              max;        /* maximum number of attempts to update
                                           the item after the first one */
    ngx_msec_t            (*again)(void *data, ngx_uint_t tries);
                                        /*
                                         * called before each further attempt to
                                         * update the item; returns its delay,
                                         * ms; NULL: no delay
                                         */

    unsigned                force:1;    /* the last attempt to update the item
                                           replaces it even if another client
                                           has changed it since it was read */
    unsigned                gone:1;     /* 1: if the item is deleted between the
                                           update's read and its write, the
                                           update ends with NOT_FOUND; 0: it is
                                           tried again */

    ngx_uint_t              tries;      /* number of retries made so far of
                                           the update of the item; "edit" may
                                           read it, to see whether an attempt
                                           is the last one */

    /* private fields of the update, for update.c */

    ngx_mcds_op_t           op;
    ngx_event_t             event;      /* timer of the update's next attempt,
                                           for which an exiting worker waits */
};


/*
 * Starts an update of an item, a read followed by a conditional write.  Neither
 * the function edit nor the handler is called from inside of this call.  If the
 * write results in EXISTS, NOT_STORED or, unless update->gone is 1, NOT_FOUND,
 * the item has changed meanwhile: the update begins again, up to update->max
 * times.  The handler gets any other result at once, or else the result of the
 * last write.
 */

void ngx_mcds_update(ngx_mcds_update_t *update);


/*
 * Reads the item of an update again within the same attempt; no command of the
 * update may be under way.
 */

void ngx_mcds_update_read(ngx_mcds_update_t *update);


/*
 * Sends the write of an update, req, whose key is that of the update, without a
 * read: for a caller that knows the content of the item.  If the item has
 * changed meanwhile, the update begins again with the read.
 */

void ngx_mcds_update_write(ngx_mcds_update_t *update,
    ngx_mcds_request_t *req);


/*
 * Begins an update of an item again, for a handler that wants a further attempt
 * after the result of the write; only the update's handler may call this
 * function.  Returns NGX_DECLINED, and does nothing, if update->max further
 * attempts were made already.
 */

ngx_int_t ngx_mcds_update_again(ngx_mcds_update_t *update);


/*
 * Cancels an update of an item: no edit and no handler is called any more, and
 * the update may be freed or used again.  A write that is under way may still
 * be done, see ngx_mcds_cancel(), but is not repeated.
 */

void ngx_mcds_update_cancel(ngx_mcds_update_t *update);


#endif /* _NGX_MCDS_UPDATE_H_INCLUDED_ */
