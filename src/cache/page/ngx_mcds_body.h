
/*
 * Copyright (C) mcds authors
 *
 * The source of bodies that lie outside of their entry, see
 * ngx_mcds_body_cut.h: requests that want the same part at the same time share
 * it, and of each body only a window is in memory or on its way.
 */


#ifndef _NGX_MCDS_BODY_H_INCLUDED_
#define _NGX_MCDS_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page.h"
#include "ngx_mcds_split.h"


/* parts of a body that are read ahead, or not taken by the client */
#define NGX_MCDS_WINDOW           4


typedef struct ngx_mcds_body_s  ngx_mcds_body_t;
typedef struct ngx_mcds_body_part_s  ngx_mcds_body_part_t;


/*
 * Looks whether all parts of a copy are there, and reads the first ones unless
 * window is 0; they are kept in memory while the handler runs, for bodies that
 * are opened then.  The handler is called once, not from inside of this
 * call: NGX_MCDS_OK; NGX_MCDS_NOT_FOUND, a part is missing or wrong; any other:
 * memcached did not say.  NGX_ERROR: out of memory, it is not called.
 */

typedef void (*ngx_mcds_body_pt)(void *data, ngx_uint_t rc);

ngx_int_t ngx_mcds_body_check(ngx_mcds_copy_t *copy, ngx_uint_t window,
    ngx_mcds_body_pt handler, void *data);


/*
 * Reads the body of a copy, and begins to, from a byte that
 * ngx_mcds_body_skip() has returned, or 0, at least to the one before to; NULL
 * when out of memory.  Bytes that lie in the entry are not read.  Takes a
 * reference of the copy.  secrets: a part that none of them has signed is lost;
 * or NULL.  handler is called, from an event of its own, when next is to be
 * called again after NGX_AGAIN.
 */

ngx_mcds_body_t *ngx_mcds_body_open(ngx_mcds_copy_t *copy, off_t from,
    off_t to, ngx_array_t *secrets, void (*handler)(void *data), void *data);
void ngx_mcds_body_close(ngx_mcds_body_t *body);


/*
 * NGX_OK: the next part and its data, which live until ngx_mcds_body_done()
 * is called for the part.  NGX_BUSY: too many have not been done yet;
 * NGX_AGAIN: it is on its way; NGX_DONE: there are no more; NGX_ERROR: it is
 * lost (logged), and if it is gone for ever the page is taken away, too.
 */

ngx_int_t ngx_mcds_body_next(ngx_mcds_body_t *body,
    ngx_mcds_body_part_t **part, ngx_str_t *data);


/* NGX_OK if none of the parts that are here by now is one that is not signed */
ngx_int_t ngx_mcds_body_signed(ngx_mcds_body_t *body);


/* the bytes before a byte that need not be read to get it */
off_t ngx_mcds_body_skip(ngx_mcds_entry_t *entry, off_t byte);


/* 1: next would be NGX_DONE */
ngx_uint_t ngx_mcds_body_ended(ngx_mcds_body_t *body);


/* body may be NULL when it was destroyed before */
void ngx_mcds_body_done(ngx_mcds_body_t *body, ngx_mcds_body_part_t *part);


/* takes the page of a copy away, since its body is lost or broken */

void ngx_mcds_body_remove(ngx_mcds_copy_t *copy);


/*
 * Gives a copy the parts that are still in memory, so that memcached need not
 * be asked for them; NGX_DECLINED if there are not all of them.  They are freed
 * with the copy.
 */

ngx_int_t ngx_mcds_body_keep(ngx_mcds_copy_t *copy, ngx_mcds_split_t *split);


#endif /* _NGX_MCDS_BODY_H_INCLUDED_ */
