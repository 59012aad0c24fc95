
/*
 * Copyright (C) mcds authors
 *
 * A list of lines that all hosts share.  The item of its key, the head,
 * contains the lines, each with an LF.  Appending is one command, without a
 * lock.  The lines of a head that has become large move to a part, an item that
 * never changes again; a line in the head refers to it:
 *
 *   #1500
 *   @0123456789abcdef 1200 32000
 *   "one"
 *   "two"
 *
 * The first 1200 lines, of 32000 bytes, are in the item key:0123456789abcdef;
 * two lines follow.  The number after # is for the user that replaces all
 * lines, see ngx_mcds_array_edit_t.  Lines with # and @ have a meaning only at
 * the beginning.
 *
 * All other changes exchange the head by compare-and-swap, so that a reader
 * always gets a consistent list.
 */


#ifndef _NGX_MCDS_ARRAY_H_INCLUDED_
#define _NGX_MCDS_ARRAY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/*
 * lines of an array move to a part, an item of their own, when they have this
 * many bytes
 */
#define NGX_MCDS_ARRAY_PART       32000

/* the maximum size of all lines of an array, in bytes */
#define NGX_MCDS_ARRAY_SIZE       (16 * 1024 * 1024)

/* the maximum size of a line of an array with its LF, in bytes */
#define NGX_MCDS_ARRAY_LINE       65536


/* the length of the id of an array's part, in hexadecimal digits */
#define NGX_MCDS_ARRAY_ID         16


typedef struct ngx_mcds_array_read_s  ngx_mcds_array_read_t;
typedef struct ngx_mcds_array_s       ngx_mcds_array_t;


/*
 * The type of a function that is called when lines of an array have moved to
 * parts, with the number of lines in parts, and base, the number after #.
 */

typedef void (*ngx_mcds_array_grown_pt)(ngx_mcds_array_t *array,
    ngx_uint_t lines, ngx_uint_t base);


struct ngx_mcds_array_s {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               key;
    ngx_uint_t              max;       /* number of the newest lines to keep in
                                          the array; 0: all lines */
    ngx_mcds_array_grown_pt grown;     /* called when lines of the array have
                                          moved to parts, or NULL */
};


/* a part of an array, as the array's head item describes it */

typedef struct {
    u_char                  id[NGX_MCDS_ARRAY_ID];
    ngx_uint_t              lines;
    size_t                  size;
} ngx_mcds_array_ref_t;


/*
 * The lines of a part of an array, or of its head item; value is NULL if the
 * part was lost.
 */

typedef struct {
    ngx_mcds_array_read_t  *read;      /* read of the array; for array_read.c */
    ngx_mcds_op_t           op;        /* operation that reads the part; for
                                          array_read.c */
    ngx_mcds_array_ref_t    ref;
    ngx_mcds_value_t       *value;
    size_t                  start;     /* position of the part's lines in the
                                          value */
} ngx_mcds_array_piece_t;


typedef struct {
    ngx_uint_t              found;     /* 1: the array has a head item */
    uint64_t                cas;
    uint32_t                crc;       /* CRC32 of the whole head item */
    uint32_t                ttl;       /* time to live that the head item has
                                          left, seconds; 0: no expiry */
    ngx_uint_t              base;      /* number after # in the array's head
                                          item */

    /*
     * The lines of the array: a piece for each part and, if the head item was
     * found, a last piece for the lines in the head item.
     */
    ngx_mcds_array_piece_t *pieces;

    ngx_uint_t              n;
    ngx_uint_t              lines;     /* number of lines in the array's parts,
                                          as the head item says */
    size_t                  size;

    /*
     * For edits of the array that are done together: memory, and a result
     * computed from the content, NULL at first, which only one kind of edits
     * uses.
     */
    ngx_pool_t             *pool;
    void                   *memo;
} ngx_mcds_array_content_t;


/*
 * The handler of a read of an array.  With NGX_MCDS_OK, content is the list,
 * which may be empty, and is valid until the handler returns.  To keep a value
 * for longer, the handler takes a reference.  With any other rc, such as
 * NGX_MCDS_TOO_LARGE, content is NULL.
 */

typedef void (*ngx_mcds_array_read_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);


/*
 * A consistent read of all lines of an array.  The caller sets array, whose key
 * must live as long as the read, handler and data; all other fields are zero
 * before the first use.
 */

struct ngx_mcds_array_read_s {
    ngx_mcds_array_t          array;
    ngx_mcds_array_read_pt    handler;
    void                     *data;
    unsigned                  head:1;    /* 1: read only the array's head
                                            item */

    /* private fields of the read, for array_read.c */
    unsigned                  missing:1; /* 1: parts of the array are missing */

    /* 1: parts of the same head item were missing before */
    unsigned                  known:1;

    ngx_mcds_op_t             op;        /* operation that reads the head
                                            item */
    ngx_mcds_array_content_t  content;
    ngx_uint_t                next;      /* number of the array's next piece to
                                            read */
    ngx_uint_t                waiting;
    ngx_uint_t                tries;
    ngx_uint_t                rc;
};


/*
 * Starts a read of an array.  The handler is called once, not from inside of
 * this call, and may free the read.
 */

void ngx_mcds_array_read(ngx_mcds_array_read_t *read);


/* A position in the lines of an array, zeroed at the start. */

typedef struct {
    ngx_uint_t              piece;
    u_char                 *pos;
} ngx_mcds_array_place_t;


/*
 * Returns the next line of an array, without its LF; empty lines are skipped.
 * Returns NGX_DONE at the end.
 */

ngx_int_t ngx_mcds_array_next(ngx_mcds_array_content_t *content,
    ngx_mcds_array_place_t *place, ngx_str_t *line);


/*
 * The result of a change of an array.  NGX_MCDS_OK: done; after
 * NGX_MCDS_TIMEOUT, CLOSED and PROTOCOL it is unknown whether the change was
 * done; after all other codes it was not.  TOO_LARGE: the list would exceed
 * NGX_MCDS_ARRAY_SIZE; EXISTS: too many other changes came between.
 */

typedef struct {
    ngx_uint_t              rc;
    ngx_uint_t              found;     /* 1: the array has a head item */
    uint64_t                cas;       /* CAS value of the head item; 0:
                                          unknown */
    uint32_t                crc;
} ngx_mcds_array_done_t;

typedef void (*ngx_mcds_array_done_pt)(void *data,
    ngx_mcds_array_done_t *done);


/*
 * Appends lines to an array, each with an LF, which are copied.  The handler,
 * which may be NULL, is called once, not from inside of this call.  With
 * NGX_BUSY, too much is waiting to be written, and NGX_ERROR, out of memory, no
 * handler is called.  The lines of a call stay together, and those of this
 * worker are in the order of its calls.
 */

ngx_int_t ngx_mcds_array_append(ngx_mcds_array_t *array, ngx_str_t *lines,
    ngx_mcds_array_done_pt handler, void *data);


typedef enum {
    NGX_MCDS_ARRAY_SAME = 0,
    NGX_MCDS_ARRAY_APPEND,
    NGX_MCDS_ARRAY_REPLACE
} ngx_mcds_array_edit_e;


/*
 * The decision of an edit of an array.  The reference of text passes to the
 * change; NULL: no lines.
 */

typedef struct {
    ngx_uint_t              kind;      /* kind of change of the array,
                                          ngx_mcds_array_edit_e */
    ngx_mcds_value_t       *text;
    ngx_uint_t              base;      /* new number after #, with REPLACE */
} ngx_mcds_array_edit_t;


/*
 * The type of an edit, which decides a change of an array from the content and,
 * if not NULL, from the lines that other changes of the same round add.
 * Returns NGX_MCDS_OK, or the code with which the change ends.  The edit is
 * called again if the array has changed meanwhile; only the last decision
 * counts.
 */

typedef ngx_uint_t (*ngx_mcds_array_edit_pt)(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);


/*
 * Changes an array as the edit decides.  The handler and the results are those
 * of ngx_mcds_array_append().  shared: the edit may be combined with other
 * shared ones, and does not replace all lines.  size is the number of bytes of
 * data, which count for the limit of waiting changes.
 */

ngx_int_t ngx_mcds_array_change(ngx_mcds_array_t *array, ngx_uint_t shared,
    size_t size, ngx_mcds_array_edit_pt edit, ngx_mcds_array_done_pt handler,
    void *data);


/*
 * Takes the number after # at *pos in the head item of an array.  Returns
 * NGX_DECLINED if there is none.
 */

ngx_int_t ngx_mcds_array_base(u_char **pos, u_char *last, ngx_uint_t *base);


/*
 * Takes the description of a part at *pos in the head item of an array.
 * Returns NGX_DECLINED if there is none.
 */

ngx_int_t ngx_mcds_array_ref(u_char **pos, u_char *last,
    ngx_mcds_array_ref_t *ref);


/*
 * Returns the end of a part of an array that begins at p: after the last LF
 * within NGX_MCDS_ARRAY_PART bytes, or after the first LF if a line is longer.
 */

u_char *ngx_mcds_array_cut(u_char *p, u_char *last);


/* Returns the number of lines in a text; the last one may lack its LF. */

ngx_uint_t ngx_mcds_array_lines(u_char *p, u_char *last);


#endif /* _NGX_MCDS_ARRAY_H_INCLUDED_ */
