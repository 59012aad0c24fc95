
/*
 * Copyright (C) mcds authors
 *
 * A page as it was read or built, shared by all requests that look at it.
 */


#ifndef _NGX_MCDS_SNAPSHOT_H_INCLUDED_
#define _NGX_MCDS_SNAPSHOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"
#include "ngx_mcds_local.h"


typedef struct ngx_mcds_page_s  ngx_mcds_page_t;
typedef struct ngx_mcds_copy_s  ngx_mcds_copy_t;


/* bytes that a copy counts for each of its headers, beside its value */
#define NGX_MCDS_COPY_LINE  64


/*
 * A page as it was read or built, shared by all requests that look at it.
 * The strings of entry point into value.  A body that lies outside of the entry
 * is read by ngx_mcds_body_open().
 */

struct ngx_mcds_copy_s {
    ngx_uint_t          refs;
    ngx_mcds_page_t    *page;          /* a reference; NULL: a list that is
                                          remembered */
    ngx_mcds_value_t   *value;
    ngx_mcds_entry_t    entry;
    ngx_mcds_stamp_t    stamp;
    void               *checked;       /* the secrets by which it is signed,
                                          NULL at first */
    void               *prepared;      /* the users', NULL at first, freed with
                                          the copy */
    void               *kept;          /* of its body, in memory, or NULL */
    void              (*unkeep)(void *kept);  /* ... what frees it */
    ngx_mcds_copy_t    *first;         /* of a list: the variant that it was
                                          made for, or NULL */
};

ngx_mcds_copy_t *ngx_mcds_copy_ref(ngx_mcds_copy_t *copy);
void ngx_mcds_copy_unref(ngx_mcds_copy_t *copy);


/*
 * NGX_OK if secrets is NULL, or one of them has signed the copy, see
 * ngx_mcds_sign.h.  Nothing of a copy that is not signed may be acted upon but
 * its CAS.
 */

ngx_int_t ngx_mcds_copy_signed(ngx_mcds_copy_t *copy, ngx_array_t *secrets);


/*
 * NGX_OK if the copy may be used at one of these seats.  Of one that may not,
 * the parts are not even looked for.
 */

ngx_int_t ngx_mcds_page_signed(ngx_mcds_copy_t *copy, ngx_queue_t *seats);


/*
 * Takes a reference of the value, not the caller's; NULL: no page.  stamp:
 * NULL if it is not known.
 */

ngx_mcds_copy_t *ngx_mcds_copy_create(ngx_mcds_page_t *page,
    ngx_mcds_value_t *value, ngx_mcds_stamp_t *stamp);


/* the same of the value of an answer */

ngx_mcds_copy_t *ngx_mcds_copy_result(ngx_mcds_page_t *page,
    ngx_mcds_result_t *result);


/* of the item that memcached has answered with */

void ngx_mcds_page_stamp(ngx_mcds_stamp_t *stamp, ngx_mcds_result_t *result);


/* the copy is that of its CAS: its list and its body are known from now on */

void ngx_mcds_page_saw(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);


/*
 * The list that lies, or does not lie, under the page's key; without a CAS it
 * is the one to go by until memcached answers.  confirmed: memcached has just
 * said so, and was asked at this number of purges.
 */

void ngx_mcds_page_remember(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);
void ngx_mcds_page_forget_list(ngx_mcds_page_t *page);
void ngx_mcds_page_confirmed(ngx_mcds_page_t *page, ngx_atomic_uint_t purges);


#endif /* _NGX_MCDS_SNAPSHOT_H_INCLUDED_ */
