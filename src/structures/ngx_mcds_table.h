
/*
 * Copyright (C) mcds authors
 *
 * A table that all hosts share: names, each with a value.  An element is an
 * item key:name, so that one get finds it.  The names are in a list, the array
 * of the key (see ngx_mcds_array.h), in the order of their changes.  The last
 * line of a name says:
 *
 *   +0 name             the name exists
 *   +1763650000 name    the name exists until then, seconds since the epoch
 *   -name               the name does not exist
 *
 * A change of an element appends its line afterwards, and then checks whether
 * the element agrees with the line; so if several clients change an element at
 * the same time, the last one corrects the list.
 */


#ifndef _NGX_MCDS_TABLE_H_INCLUDED_
#define _NGX_MCDS_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_array.h"


/*
 * the maximum lengths of the name and of the value of a table's element, bytes
 */
#define NGX_MCDS_TABLE_NAME       1024
#define NGX_MCDS_TABLE_VALUE      16384


typedef struct {
    ngx_mcds_pool_t            *pool;
    ngx_str_t                   key;
} ngx_mcds_table_t;


/*
 * The handler of a lookup in a table.  rc is NGX_MCDS_OK, NOT_FOUND, or the
 * reason of a failure; value is valid until the handler returns.
 */

typedef void (*ngx_mcds_table_find_pt)(void *data, ngx_uint_t rc,
    ngx_str_t *value);


/*
 * A lookup in a table is a member of a struct of the caller, which sets handler
 * and data; the other fields are zero before the first use.
 */

typedef struct {
    ngx_mcds_table_find_pt      handler;
    void                       *data;

    ngx_queue_t                 queue;   /* for table_find.c: link in the queue
                                            of lookups of the same element */
} ngx_mcds_table_wait_t;


/*
 * Looks up the element of a name in a table.  The worker may have remembered
 * the element, or that there is none, if it was requested less than keep
 * milliseconds ago.  NGX_OK: *value is set, and valid until the next call;
 * NGX_DECLINED: there is no element; NGX_AGAIN: the handler is called once, not
 * from inside of this call, unless the lookup is canceled; NGX_ERROR: out of
 * memory.
 */

ngx_int_t ngx_mcds_table_find(ngx_mcds_table_t *table, ngx_str_t *name,
    ngx_msec_t keep, ngx_str_t *value, ngx_mcds_table_wait_t *wait);


/* Cancels a lookup in a table; no effect if it has ended or has not begun. */

void ngx_mcds_table_find_cancel(ngx_mcds_table_wait_t *wait);

/* 1 if the handler of a lookup is still to be called */
#define ngx_mcds_table_finding(wait)                                          \
    ((wait)->queue.next != NULL)


/* Makes this worker forget the element of a name in a table. */

void ngx_mcds_table_forget(ngx_mcds_table_t *table, ngx_str_t *name);


/*
 * the maximum length, in bytes, of a colon and the name of a table's element,
 * which follow the key of the table in the key of the element
 */

#define NGX_MCDS_TABLE_SUFFIX     (1 + NGX_MCDS_TABLE_NAME)


/*
 * Prepares a request for an element of a table.  suffix is a buffer of
 * NGX_MCDS_TABLE_SUFFIX bytes; the name has at most NGX_MCDS_TABLE_NAME bytes.
 */

void ngx_mcds_table_request(ngx_mcds_request_t *req, ngx_mcds_table_t *table,
    ngx_str_t *name, u_char *suffix);


typedef enum {
    NGX_MCDS_TABLE_SET = 0,
    NGX_MCDS_TABLE_ADD,                /* add the element of a table, only if
                                          there is none of this name */
    NGX_MCDS_TABLE_DELETE,
    NGX_MCDS_TABLE_CHECK               /* check whether an element exists that
                                          is in the table's list of names */
} ngx_mcds_table_kind_e;


typedef struct ngx_mcds_table_change_s  ngx_mcds_table_change_t;

typedef struct {
    ngx_uint_t                  kind;  /* ngx_mcds_table_kind_e, the kind of
                                          change */
    ngx_str_t                   name;
    ngx_str_t                   value;
    uint32_t                    ttl;   /* time to live of the element, seconds;
                                          0: no expiry */
    uint64_t                    cas;   /* CAS value that the element must have,
                                          for SET and DELETE; 0: any */
    int64_t                     expiry;  /* expiry of the element in the table's
                                            list of names; the caller sets it if
                                            kind is NGX_MCDS_TABLE_CHECK */

    ngx_uint_t                  rc;    /* result of the command for the
                                          element */

    ngx_mcds_table_change_t    *change;  /* the change of the table to which
                                            this element belongs; for table.c,
                                            as the fields below */
    ngx_mcds_op_t               op;
    unsigned                    touched:1;
    unsigned                    listed:1;
    unsigned                    wrong:1;
} ngx_mcds_table_item_t;


/*
 * The handler that is called when a change of a table is complete.  rc is
 * NGX_MCDS_OK if the list of the names of the table's elements was written;
 * each of the "items" of the change has the result for its element.
 */

typedef void (*ngx_mcds_table_change_pt)(void *data, ngx_uint_t rc);


/*
 * A change of a table's elements is a member of a struct of the caller.  The
 * strings and items must live until the handler is called, which may free the
 * change.  Fields that the caller does not set are zero.
 */

struct ngx_mcds_table_change_s {
    ngx_mcds_table_t            table;
    ngx_mcds_table_item_t      *items;
    ngx_uint_t                  n;
    ngx_mcds_table_change_pt    handler;
    void                       *data;

    /* private fields of a change of a table, for table.c */
    ngx_event_t                 event;
    ngx_uint_t                  stage;   /* stage of this change of a table,
                                            ngx_mcds_table_stage_e */
    ngx_uint_t                  next;
    ngx_uint_t                  unanswered;
    ngx_uint_t                  rounds;
    ngx_mcds_value_t           *lines;   /* lines that this change adds to the
                                            table's list of names, until they
                                            are stored; or NULL */
};


/*
 * Changes elements of a table, and the table's list of names.  The handler is
 * called once, not from inside of this call.
 */

void ngx_mcds_table_change(ngx_mcds_table_change_t *change);


/*
 * the name of a table's element, and when the element expires; "name" points
 * into the value of the table's list of names, which the caller has read
 */

typedef struct {
    ngx_str_t                   name;
    int64_t                     expiry;
    uint32_t                    hash;
    ngx_uint_t                  there;
} ngx_mcds_table_name_t;


/* the names of a table's elements, as read from its list of names */

typedef struct {
    ngx_mcds_table_name_t      *name;  /* names in the list, also those of
                                          elements that have expired */
    ngx_uint_t                  n;
    ngx_uint_t                  there;
} ngx_mcds_table_names_t;


/*
 * Sets the fields of *array for the array in memcached that lists the names of
 * a table's elements.  No command is sent; the table's key is not copied.
 */

void ngx_mcds_table_array(ngx_mcds_table_t *table, ngx_mcds_array_t *array);


/*
 * Reads the names of a table's elements that exist at the time now, in seconds
 * since the epoch, from the content of the array that lists them.  The strings
 * point into content.  ngx_mcds_table_names_free() must be called in any case.
 * Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_table_names(ngx_mcds_table_names_t *names,
    ngx_mcds_array_content_t *content, time_t now);


/* Frees the memory of the names that ngx_mcds_table_names() has read. */

void ngx_mcds_table_names_free(ngx_mcds_table_names_t *names);


/*
 * Writes the list of the names of a table's elements again, without obsolete
 * lines.  The handler may be NULL.  The results are those of
 * ngx_mcds_array_change().
 */

ngx_int_t ngx_mcds_table_compact(ngx_mcds_table_t *table,
    ngx_mcds_array_done_pt handler, void *data);


/*
 * Adds the lines of a change to the table's list of names, and in the same step
 * removes obsolete lines from the list, which has no room otherwise.  The
 * handler gets the change; the results are those of ngx_mcds_array_change().
 */

ngx_int_t ngx_mcds_table_compact_add(ngx_mcds_table_change_t *change,
    ngx_mcds_array_done_pt handler);


#endif /* _NGX_MCDS_TABLE_H_INCLUDED_ */
