
/*
 * Copyright (C) mcds authors
 *
 * A part of a body that is too large for one item.
 */


#ifndef _NGX_MCDS_PART_H_INCLUDED_
#define _NGX_MCDS_PART_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * The page's own item, see ngx_mcds_entry.h, says how many parts there are,
 * how long they are and of which generation.  Part n, counted from 0, lies
 * under the key of the page followed by ":part:", the generation as 16
 * lower-case hexadecimal digits, ":" and n in decimal; on the server of the
 * page's key.  Parts never change: another body has another generation.
 *
 * All numbers are little-endian and unsigned.
 *
 *   at  size
 *    0    4  magic, "MCDP"
 *    4    1  format, 1
 *    5    1  reserved, 0
 *    6    2  size of this header, 32, or 64 if it is signed; what a reader
 *            does not know behind its own last field is skipped
 *    8    4  length of the data
 *   12    4  CRC32C of bytes 0 to 11 and of all bytes from 16 on
 *   16    8  generation
 *   24    4  n
 *   28    4  reserved, 0
 *   32   32  only if it is signed: see ngx_mcds_sign.h
 *            data
 */

#define NGX_MCDS_PART_HEADER      32
#define NGX_MCDS_PART_SIGNED      64

/* the longest of what follows the page's key */
#define NGX_MCDS_PART_SUFFIX      33

/*
 * Parts of a page.  The longest page, of 64 MB, in the shortest parts that are
 * written has 1034 of them; an entry that claims more is no entry.
 */
#define NGX_MCDS_MAX_PARTS        4096


/*
 * begin: a value with a header of one of these sizes, room for so many bytes
 * of data, and for what the client room wants behind them; its len stands
 * where they begin.  NULL when out of memory.  finish: when the data are there;
 * no change after that but ngx_mcds_sign_part().  data: where they begin.
 */

ngx_mcds_value_t *ngx_mcds_part_begin(size_t header, size_t room,
    ngx_log_t *log);
void ngx_mcds_part_finish(ngx_mcds_value_t *value, uint64_t generation,
    uint32_t n);
u_char *ngx_mcds_part_data(ngx_mcds_value_t *value);


/* the checksum anew, when something was changed */

void ngx_mcds_part_sum(ngx_mcds_value_t *value);


/*
 * NGX_OK, and the data, which point into data, if this is that part and has
 * just that length; NGX_DECLINED otherwise.
 */

ngx_int_t ngx_mcds_part_read(ngx_str_t *body, u_char *data, size_t len,
    uint64_t generation, uint32_t n, size_t expected);


/* what follows the page's key; suffix->data has room, and is filled */

void ngx_mcds_part_suffix(ngx_str_t *suffix, uint64_t generation, uint32_t n);


#endif /* _NGX_MCDS_PART_H_INCLUDED_ */
