
/*
 * Copyright (C) mcds authors
 *
 * The parts of a page's body that is too large for one item of memcached.
 */


#ifndef _NGX_MCDS_PART_H_INCLUDED_
#define _NGX_MCDS_PART_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * The format of a part, an item in memcached with a part of a page's body.
 *
 * The page's own item, see ngx_mcds_entry.h, has the number of parts, their
 * length and their generation.  The key of part n, counted from 0, is the key
 * of the page followed by ":part:", the generation as 16 lower-case hexadecimal
 * digits, ":" and n in decimal.  A part is stored on the server of the page's
 * key.  Parts never change: a new body has a new generation.
 *
 * All numbers are little-endian and unsigned.
 *
 *   at size
 *    0   4  magic, "MCDP"
 *    4   1  format, 1
 *    5   1  reserved, 0
 *    6   2  size of this header, 32, or 64 with a signature; a reader skips
 *           bytes after the last field that it knows
 *    8   4  length of the data
 *   12   4  CRC32C of bytes 0 to 11 and of all bytes from 16 on
 *   16   8  generation
 *   24   4  n
 *   28   4  reserved, 0
 *   32  32  only with a signature: see ngx_mcds_sign.h
 *           data
 */

#define NGX_MCDS_PART_HEADER      32
#define NGX_MCDS_PART_SIGNED      64

/*
 * the maximum length of the suffix that the key of a part of a body adds to
 * the page's key
 */
#define NGX_MCDS_PART_SUFFIX      33

/*
 * The maximum number of parts of a page's body.  The longest page, 64 MB, in
 * parts of the smallest size has 1034; an entry with more than this maximum is
 * invalid.
 */
#define NGX_MCDS_MAX_PARTS        4096


/*
 * Creates the value of an item for a part of a page's body, with a header of
 * size NGX_MCDS_PART_HEADER or NGX_MCDS_PART_SIGNED, and space for "room" bytes
 * of data and for the CRLF that the client of memcached appends; value->len is
 * the offset of the data.  Returns NULL if out of memory.
 */

ngx_mcds_value_t *ngx_mcds_part_begin(size_t header, size_t room,
    ngx_log_t *log);


/*
 * Writes the header and the checksum of a part of a page's body when its data
 * is complete.  After that only ngx_mcds_sign_part() may change the value.
 */

void ngx_mcds_part_finish(ngx_mcds_value_t *value, uint64_t generation,
    uint32_t n);


/* Returns the start of the data in the value of a part of a page's body. */

u_char *ngx_mcds_part_data(ngx_mcds_value_t *value);


/* Computes the checksum of a part of a page's body again, after a change. */

void ngx_mcds_part_sum(ngx_mcds_value_t *value);


/*
 * Reads part n of a page's body from data, the value of the part's item;
 * generation is the random id of the body.  Returns NGX_OK and sets body to the
 * part's bytes, which stay in data; or NGX_DECLINED if the item is another part
 * or damaged, or if the part does not have the expected length.
 */

ngx_int_t ngx_mcds_part_read(ngx_str_t *body, u_char *data, size_t len,
    uint64_t generation, uint32_t n, size_t expected);


/*
 * Writes a suffix into suffix->data, which has room for NGX_MCDS_PART_SUFFIX
 * bytes, and sets suffix->len.  The page's key followed by this suffix is the
 * key of part n of the page's body.
 */

void ngx_mcds_part_suffix(ngx_str_t *suffix, uint64_t generation, uint32_t n);


#endif /* _NGX_MCDS_PART_H_INCLUDED_ */
