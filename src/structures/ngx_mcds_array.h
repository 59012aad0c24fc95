
/*
 * Copyright (C) mcds authors
 *
 * A list of lines that all hosts share.  The item of its key, the head, holds
 * the lines, each with an LF behind it.  To append is one command, without a
 * lock.  Lines of a head that has become large move to a part, an item that
 * never changes again, and a line in the head stands for it:
 *
 *     #1500
 *     @0123456789abcdef 1200 32000
 *     "one"
 *     "two"
 *
 * The first 1200 lines, of 32000 bytes, are those of the item
 * key:0123456789abcdef, then follow these two.  The number behind # is for
 * who has replaced all lines.  Both stand only at the beginning.
 *
 * All other changes exchange the head by compare-and-swap, so that what is
 * read always belongs together.
 */


#ifndef _NGX_MCDS_ARRAY_H_INCLUDED_
#define _NGX_MCDS_ARRAY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/* lines move to a part when they are as many bytes as this */
#define NGX_MCDS_ARRAY_PART       32000

/* of all lines together, bytes */
#define NGX_MCDS_ARRAY_SIZE       (16 * 1024 * 1024)

/* of one line, its LF included */
#define NGX_MCDS_ARRAY_LINE       65536


/* of a part, hexadecimal digits */
#define NGX_MCDS_ARRAY_ID         16


typedef struct ngx_mcds_array_read_s  ngx_mcds_array_read_t;
typedef struct ngx_mcds_array_s       ngx_mcds_array_t;


/* called when lines have moved to parts: how many there are, and base */

typedef void (*ngx_mcds_array_grown_pt)(ngx_mcds_array_t *array,
    ngx_uint_t lines, ngx_uint_t base);


struct ngx_mcds_array_s {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               key;
    ngx_uint_t              max;       /* lines to keep, the newest; 0: all */
    ngx_mcds_array_grown_pt grown;     /* or NULL */
};


/* a part as the head names it */

typedef struct {
    u_char                  id[NGX_MCDS_ARRAY_ID];
    ngx_uint_t              lines;
    size_t                  size;
} ngx_mcds_array_ref_t;


/* lines that belong together; without a value: they were lost */

typedef struct {
    ngx_mcds_array_read_t  *read;      /* of array_read.c, */
    ngx_mcds_op_t           op;        /* as this is */
    ngx_mcds_array_ref_t    ref;
    ngx_mcds_value_t       *value;
    size_t                  start;     /* in the value */
} ngx_mcds_array_piece_t;


typedef struct {
    ngx_uint_t              found;     /* there is a head */
    uint64_t                cas;
    uint32_t                crc;       /* of the whole head */
    uint32_t                ttl;       /* seconds left, 0: no limit */
    ngx_uint_t              base;      /* the number behind # */

    ngx_mcds_array_piece_t *pieces;    /* the last are the lines of the head,
                                          unless it was not found */
    ngx_uint_t              n;
    ngx_uint_t              lines;     /* of parts, as the head says */
    size_t                  size;

    /* of edits that are done together: memory, and what they have made of the
       content, NULL at first; only one kind of edits uses it */
    ngx_pool_t             *pool;
    void                   *memo;
} ngx_mcds_array_content_t;


/*
 * rc NGX_MCDS_OK: content is what there is, perhaps nothing, for as long as
 * the handler runs; who needs a value for longer takes a reference.  With any
 * other rc, which may be NGX_MCDS_TOO_LARGE, it is NULL.
 */

typedef void (*ngx_mcds_array_read_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);


/*
 * Reads all lines as they were at one time.  The read lives in a struct of the
 * caller's, who sets array, whose key lives as long as the read, handler and
 * data; all else is zero before the first use.  The handler is called once,
 * not from inside of this call, and may free the read.
 */

struct ngx_mcds_array_read_s {
    ngx_mcds_array_t          array;
    ngx_mcds_array_read_pt    handler;
    void                     *data;
    unsigned                  head:1;    /* is wanted alone, without parts */

    /* of array_read.c */
    unsigned                  missing:1; /* parts are */
    unsigned                  known:1;   /* ... in this head, too */
    ngx_mcds_op_t             op;        /* of the head */
    ngx_mcds_array_content_t  content;
    ngx_uint_t                next;      /* the piece to ask for */
    ngx_uint_t                waiting;
    ngx_uint_t                tries;
    ngx_uint_t                rc;
};

void ngx_mcds_array_read(ngx_mcds_array_read_t *read);


/*
 * A place in content, and its lines one after the other, without LF; empty
 * ones are left out.  next: NGX_OK, or NGX_DONE.
 */

typedef struct {
    ngx_uint_t              piece;
    u_char                 *pos;
} ngx_mcds_array_place_t;

ngx_int_t ngx_mcds_array_next(ngx_mcds_array_content_t *content,
    ngx_mcds_array_place_t *place, ngx_str_t *line);


/*
 * What became of a change.  NGX_MCDS_OK: done.  After NGX_MCDS_TIMEOUT,
 * CLOSED and PROTOCOL it is not known whether it was done; after all others
 * it was not: TOO_LARGE, more than NGX_MCDS_ARRAY_SIZE; EXISTS, others were
 * faster too often.
 */

typedef struct {
    ngx_uint_t              rc;
    ngx_uint_t              found;     /* there is a head, of which */
    uint64_t                cas;       /* 0: not known */
    uint32_t                crc;
} ngx_mcds_array_done_t;

typedef void (*ngx_mcds_array_done_pt)(void *data,
    ngx_mcds_array_done_t *done);


/*
 * Appends lines, each with its LF; copies them.  The handler may be NULL,
 * otherwise it is called once, not from inside of this call.  NGX_OK;
 * NGX_BUSY: too much waits to be written; NGX_ERROR: out of memory.  The lines
 * of one call come together, and those of this worker in the order of its
 * calls.
 */

ngx_int_t ngx_mcds_array_append(ngx_mcds_array_t *array, ngx_str_t *lines,
    ngx_mcds_array_done_pt handler, void *data);


typedef enum {
    NGX_MCDS_ARRAY_SAME = 0,
    NGX_MCDS_ARRAY_APPEND,
    NGX_MCDS_ARRAY_REPLACE
} ngx_mcds_array_edit_e;


/* the text is a reference that passes over; NULL: no lines */

typedef struct {
    ngx_uint_t              kind;      /* ngx_mcds_array_edit_e */
    ngx_mcds_value_t       *text;
    ngx_uint_t              base;      /* with REPLACE */
} ngx_mcds_array_edit_t;


/*
 * Decides what a change does, from what there is and, if not NULL, from the
 * lines that others have appended meanwhile.  Returns NGX_MCDS_OK, or what the
 * change is to end with.  May be called several times, when others were
 * faster; only the last one counts.
 */

typedef ngx_uint_t (*ngx_mcds_array_edit_pt)(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);


/*
 * As append.  shared: may be done together with others of this kind, does not
 * replace.  size: bytes that data takes, which are bounded for all that waits.
 */

ngx_int_t ngx_mcds_array_change(ngx_mcds_array_t *array, ngx_uint_t shared,
    size_t size, ngx_mcds_array_edit_pt edit, ngx_mcds_array_done_pt handler,
    void *data);


/*
 * Pure functions, for array.c and the unit tests.
 *
 * base, ref: take a line at *pos, if there is one of this kind; NGX_OK or
 * NGX_DECLINED.
 *
 * cut: where a part ends that begins at p: behind the last LF within
 * NGX_MCDS_ARRAY_PART bytes, or the first one.
 *
 * lines: how many there are, the last one may be without LF.
 */

ngx_int_t ngx_mcds_array_base(u_char **pos, u_char *last, ngx_uint_t *base);
ngx_int_t ngx_mcds_array_ref(u_char **pos, u_char *last,
    ngx_mcds_array_ref_t *ref);
u_char *ngx_mcds_array_cut(u_char *p, u_char *last);
ngx_uint_t ngx_mcds_array_lines(u_char *p, u_char *last);


#endif /* _NGX_MCDS_ARRAY_H_INCLUDED_ */
