
/*
 * Copyright (C) mcds authors
 *
 * An array: a list of lines that all hosts share.  The item of its key, the
 * head, contains the lines, each with an LF.  Appending is one command, without
 * a lock.  The lines of a head that has become large move to a part, an item
 * that never changes again; a line in the head refers to the part:
 *
 *   #1500
 *   @0123456789abcdef 1200 32000
 *   "one"
 *   "two"
 *
 * The first 1200 lines, of 32000 bytes, are in the item key:0123456789abcdef;
 * two lines follow.  The line with # says how many lines the array had after
 * the last edit that replaced all lines, see ngx_mcds_array_edit_t.  Lines with
 * # and @ have a meaning only at the beginning.
 *
 * All changes but a plain append exchange the head by compare-and-swap, so that
 * a reader always gets a consistent list.
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


/*
 * the number of hexadecimal digits in the id of a part, an item with older
 * lines of an array
 */
#define NGX_MCDS_ARRAY_ID         16


typedef struct ngx_mcds_array_read_s  ngx_mcds_array_read_t;
typedef struct ngx_mcds_array_s       ngx_mcds_array_t;


/*
 * The type of a function that is called when lines of an array have moved to
 * parts, items of their own.  lines is the number of lines in all parts; base
 * is the number of lines that the array had after the last edit that replaced
 * all lines; 0: unknown.  Their difference tells how far the array has grown.
 */

typedef void (*ngx_mcds_array_grown_pt)(ngx_mcds_array_t *array,
    ngx_uint_t lines, ngx_uint_t base);


struct ngx_mcds_array_s {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               key;
    ngx_uint_t              max;       /* number of the newest lines to keep in
                                          the array; 0: all lines */
    ngx_mcds_array_grown_pt grown;     /* called when lines of the array have
                                          moved to items of their own (parts),
                                          or NULL */
};


/*
 * a parsed line of an array's head item (the item of the array's key): the line
 * describes a part (an item with older lines)
 */

typedef struct {
    u_char                  id[NGX_MCDS_ARRAY_ID];
    ngx_uint_t              lines;
    size_t                  size;
} ngx_mcds_array_ref_t;


/*
 * The lines in one item of an array: in a part (an item with older lines) or in
 * the head item (the item of the array's key).  value is NULL if memcached has
 * lost the part.
 */

typedef struct {
    ngx_mcds_array_read_t  *read;      /* read of the whole array to which
                                          this item belongs; for
                                          array_read.c */
    ngx_mcds_op_t           op;        /* operation that reads this item of the
                                          array; for array_read.c */
    ngx_mcds_array_ref_t    ref;
    ngx_mcds_value_t       *value;
    size_t                  start;     /* where the array's lines begin in this
                                          item's value */
} ngx_mcds_array_piece_t;


typedef struct {
    ngx_uint_t              found;     /* 1: the array exists: memcached has
                                          its head item */
    uint64_t                cas;
    uint32_t                crc;       /* CRC32 of the array's head item, which
                                          has the key of the array */
    uint32_t                ttl;       /* remaining time to live of the array's
                                          head item, seconds; 0: no expiry */
    ngx_uint_t              base;      /* number of lines that the array had
                                          after the last edit that replaced all
                                          lines; 0: unknown */

    /*
     * The lines of the array, item by item: one piece for each part (an item
     * with older lines), and a last piece for the lines in the head item (the
     * item of the array's key), if the head item was found.
     */
    ngx_mcds_array_piece_t *pieces;

    ngx_uint_t              n;
    ngx_uint_t              lines;     /* number of lines in the array's parts
                                          (items with older lines), according to
                                          the head item */
    size_t                  size;

    /*
     * For edits that are combined into one change of the array: a memory pool
     * for all of them, and a pointer, NULL at first, to data that an edit has
     * computed from the array's lines, for the next edit of its kind.
     */
    ngx_pool_t             *pool;
    void                   *memo;
} ngx_mcds_array_content_t;


/*
 * The handler of a read of an array.  With NGX_MCDS_OK, content has the array's
 * lines, of which there may be none, and is valid until the handler returns.
 * To keep the value of an item for longer, the handler takes a reference.  With
 * any other rc, such as NGX_MCDS_TOO_LARGE, content is NULL.
 */

typedef void (*ngx_mcds_array_read_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);


/*
 * A consistent read of all lines of an array.  The caller sets handler, data
 * and array, whose key must live as long as the read; all other fields are zero
 * before the first use.
 */

struct ngx_mcds_array_read_s {
    ngx_mcds_array_t          array;
    ngx_mcds_array_read_pt    handler;
    void                     *data;
    unsigned                  head:1;    /* 1: read only the head item (the item
                                            of the array's key), not the items
                                            with older lines */

    /* private fields of the read, for array_read.c */
    unsigned                  missing:1; /* 1: items with older lines of the
                                            array (parts) are missing */

    /*
     * 1: the previous attempt of this read got the same head item, and lacked
     * items with older lines (parts)
     */
    unsigned                  known:1;

    ngx_mcds_op_t             op;        /* operation that reads the head item
                                            (the item of the array's key) */
    ngx_mcds_array_content_t  content;
    ngx_uint_t                next;      /* index of the array's next item of
                                            older lines (part) to read */
    ngx_uint_t                unanswered;
    ngx_uint_t                tries;
    ngx_uint_t                rc;
};


/*
 * Starts a read of an array.  The handler is called once, not from inside of
 * this call, and may free the read.
 */

void ngx_mcds_array_read(ngx_mcds_array_read_t *read);


/* A position in the lines of an array; all fields 0: before the first line. */

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
 * done; after all other codes it was not.  TOO_LARGE: the array would exceed
 * NGX_MCDS_ARRAY_SIZE; EXISTS: all attempts have failed, as the array was
 * changed between its read and its write.
 */

typedef struct {
    ngx_uint_t              rc;
    ngx_uint_t              found;     /* 1: the array exists: memcached has
                                          its head item */
    uint64_t                cas;       /* CAS value of the array's head item;
                                          0: unknown */
    uint32_t                crc;
} ngx_mcds_array_done_t;

typedef void (*ngx_mcds_array_done_pt)(void *data,
    ngx_mcds_array_done_t *done);


/*
 * Appends a copy of lines, each of which ends with an LF, to an array.  The
 * handler, which may be NULL, is called once, not from inside of this call.
 * NGX_BUSY: too many writes to arrays are waiting; NGX_ERROR: out of memory; no
 * handler is called after these two results.  The lines of one call stay
 * together, and lines that one worker appends stay in the order of its calls.
 */

ngx_int_t ngx_mcds_array_append(ngx_mcds_array_t *array, ngx_str_t *lines,
    ngx_mcds_array_done_pt handler, void *data);


typedef enum {
    NGX_MCDS_ARRAY_SAME = 0,
    NGX_MCDS_ARRAY_APPEND,
    NGX_MCDS_ARRAY_REPLACE
} ngx_mcds_array_edit_e;


/*
 * How an edit changes an array: the lines in the field "text" (NULL: none) are
 * appended, or replace all lines.  The caller of the edit releases "text".
 */

typedef struct {
    ngx_uint_t              kind;      /* kind of change of the array,
                                          ngx_mcds_array_edit_e */
    ngx_mcds_value_t       *text;
    ngx_uint_t              base;      /* with REPLACE, the number of lines in
                                          "text", which is stored in the array,
                                          in a line such as "#1500"; 0: none is
                                          stored */
} ngx_mcds_array_edit_t;


/*
 * The type of an edit, a function that decides how an array changes, from the
 * array's lines (content) and from the lines that previous edits add in the
 * same change (added, or NULL).  Returns NGX_MCDS_OK, or the code that the
 * handler of this edit gets.  The edit is called again if the array has changed
 * meanwhile; only the last decision counts.
 */

typedef ngx_uint_t (*ngx_mcds_array_edit_pt)(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);


/*
 * Changes an array as the function edit decides.  The handler and the results
 * are those of ngx_mcds_array_append().  shared: the edit may be combined with
 * other shared edits, and does not replace all lines.  size is the number of
 * bytes of data, which count for the limit of changes that wait to be written.
 */

ngx_int_t ngx_mcds_array_change(ngx_mcds_array_t *array, ngx_uint_t shared,
    size_t size, ngx_mcds_array_edit_pt edit, ngx_mcds_array_done_pt handler,
    void *data);


/*
 * Parses a line such as "#1500" at *pos in the item of an array's key: sets
 * *base to its number, how many lines the array had after the last edit that
 * replaced all its lines, and moves *pos behind the line.  Returns NGX_OK, or
 * NGX_DECLINED if there is no such line.
 */

ngx_int_t ngx_mcds_array_base(u_char **pos, u_char *last, ngx_uint_t *base);


/*
 * Parses, at *pos in the item of an array's key, a line "@id ..." for a part,
 * another item with older lines of the array, and moves *pos behind the line.
 * Returns NGX_OK, or NGX_DECLINED if there is no such line.
 */

ngx_int_t ngx_mcds_array_ref(u_char **pos, u_char *last,
    ngx_mcds_array_ref_t *ref);


/*
 * The lines of a large array are split into parts, each of which is an item of
 * its own in memcached.  Returns the end of the part that begins at p: after
 * the last LF within NGX_MCDS_ARRAY_PART bytes, or, if the first line is longer
 * than that, after its LF.  Returns "last" if at most NGX_MCDS_ARRAY_PART bytes
 * are left, or if no LF is left.
 */

u_char *ngx_mcds_array_cut(u_char *p, u_char *last);


/* Returns the number of lines in a text; the last one may lack its LF. */

ngx_uint_t ngx_mcds_array_lines(u_char *p, u_char *last);


#endif /* _NGX_MCDS_ARRAY_H_INCLUDED_ */
