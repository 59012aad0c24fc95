
/*
 * Copyright (C) mcds authors
 *
 * A table that all hosts share: names, each with a value.  An element is an
 * item of its own, key:name, so that one get finds it.  The names are kept in
 * a list, an array of the key (ngx_mcds_array.h), in the order in which they
 * changed; the last line of a name holds:
 *
 *     +0 name                 is there
 *     +1763650000 name        is there until then, seconds since the epoch
 *     -name                   is not there
 *
 * Who changes an element writes its line behind that, and then looks whether
 * the element still is as the line says, so that of those who change it at
 * the same time the last one puts it right.
 */


#ifndef _NGX_MCDS_TABLE_H_INCLUDED_
#define _NGX_MCDS_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_array.h"


/* the longest name and the longest value of an element, bytes */
#define NGX_MCDS_TABLE_NAME       1024
#define NGX_MCDS_TABLE_VALUE      16384


typedef struct {
    ngx_mcds_pool_t            *pool;
    ngx_str_t                   key;
} ngx_mcds_table_t;


/*
 * Finds the element of a name, which may have been remembered by this worker
 * for keep milliseconds since it was asked for, as may have been that there
 * is none.  The wait lives in a struct of the caller's, who sets handler and
 * data; all else is zero before the first use.
 *
 * NGX_OK: value is it, until something else is called; NGX_DECLINED: there is
 * none; NGX_AGAIN: the handler will be called once, not from inside of this
 * call, unless it is canceled; NGX_ERROR: out of memory.
 *
 * The handler's rc is NGX_MCDS_OK, NOT_FOUND, or what went wrong.
 *
 * find_cancel: also of a wait that has ended, or not begun.  finding: 1 if the
 * handler is still to be called.
 */

typedef void (*ngx_mcds_table_find_pt)(void *data, ngx_uint_t rc,
    ngx_str_t *value);

typedef struct {
    ngx_mcds_table_find_pt      handler;
    void                       *data;

    ngx_queue_t                 queue;   /* of table_find.c */
} ngx_mcds_table_wait_t;

ngx_int_t ngx_mcds_table_find(ngx_mcds_table_t *table, ngx_str_t *name,
    ngx_msec_t keep, ngx_str_t *value, ngx_mcds_table_wait_t *wait);
void ngx_mcds_table_find_cancel(ngx_mcds_table_wait_t *wait);

#define ngx_mcds_table_finding(wait)                                          \
    ((wait)->queue.next != NULL)


/* this worker does not remember the name any more */

void ngx_mcds_table_forget(ngx_mcds_table_t *table, ngx_str_t *name);


/*
 * An operation on an element; suffix is room for what stands behind the key.
 * The name has at most NGX_MCDS_TABLE_NAME bytes.
 */

#define NGX_MCDS_TABLE_SUFFIX     (1 + NGX_MCDS_TABLE_NAME)

void ngx_mcds_table_request(ngx_mcds_request_t *req, ngx_mcds_table_t *table,
    ngx_str_t *name, u_char *suffix);


typedef enum {
    NGX_MCDS_TABLE_SET = 0,
    NGX_MCDS_TABLE_ADD,                /* only if there is none */
    NGX_MCDS_TABLE_DELETE,
    NGX_MCDS_TABLE_CHECK               /* is named in the list: is it there? */
} ngx_mcds_table_kind_e;


typedef struct ngx_mcds_table_change_s  ngx_mcds_table_change_t;

typedef struct {
    ngx_uint_t                  kind;  /* ngx_mcds_table_kind_e */
    ngx_str_t                   name;
    ngx_str_t                   value;
    uint32_t                    ttl;   /* seconds, 0: no limit */
    uint64_t                    cas;   /* SET, DELETE: only this one; 0: any */
    int64_t                     expiry;  /* CHECK: as in the list */

    ngx_uint_t                  rc;    /* what became of it; CHECK: whether
                                          it is there */

    ngx_mcds_table_change_t    *change;  /* of table.c, as the rest */
    ngx_mcds_op_t               op;
    unsigned                    touched:1;
    unsigned                    listed:1;
    unsigned                    wrong:1;
} ngx_mcds_table_item_t;


/*
 * Changes elements, and the list of names.  The change lives in a struct of the
 * caller's, as the strings and items, until the handler is called, which is
 * once, not from inside of this call, and may free it; all that the caller does
 * not set is zero.  rc is NGX_MCDS_OK when the list was written; the items say
 * the rest.
 */

typedef void (*ngx_mcds_table_change_pt)(void *data, ngx_uint_t rc);

struct ngx_mcds_table_change_s {
    ngx_mcds_table_t            table;
    ngx_mcds_table_item_t      *items;
    ngx_uint_t                  n;
    ngx_mcds_table_change_pt    handler;
    void                       *data;

    /* of table.c */
    ngx_event_t                 event;
    ngx_uint_t                  stage;   /* ngx_mcds_table_stage_e */
    ngx_uint_t                  next;
    ngx_uint_t                  waiting;
    ngx_uint_t                  rounds;
};

void ngx_mcds_table_change(ngx_mcds_table_change_t *change);


/*
 * The list of names.  array: the one of a table.  names: those that are there
 * at the time now, out of the content of that array, in which they lie; to be
 * freed in any case.  NGX_ERROR: out of memory.  compact: writes the list anew
 * without what is of no use any more; the handler may be NULL.
 */

typedef struct {
    ngx_str_t                   name;
    int64_t                     expiry;
    uint32_t                    hash;
    ngx_uint_t                  there;
} ngx_mcds_table_name_t;

typedef struct {
    ngx_mcds_table_name_t      *name;  /* also those that are not there */
    ngx_uint_t                  n;
    ngx_uint_t                  there;
} ngx_mcds_table_names_t;

void ngx_mcds_table_array(ngx_mcds_table_t *table, ngx_mcds_array_t *array);
ngx_int_t ngx_mcds_table_names(ngx_mcds_table_names_t *names,
    ngx_mcds_array_content_t *content, time_t now);
void ngx_mcds_table_names_free(ngx_mcds_table_names_t *names);
ngx_int_t ngx_mcds_table_compact(ngx_mcds_table_t *table,
    ngx_mcds_array_done_pt handler, void *data);


#endif /* _NGX_MCDS_TABLE_H_INCLUDED_ */
