
/*
 * Copyright (C) mcds authors
 *
 * Values of memcached in files in memory (memfd), so that the kernel can send
 * their bytes with sendfile(), which does not copy them.  See memfd_create(2).
 *
 * Each value has a file of its own, sealed before the value is used: its bytes
 * never change, however long a socket still refers to them.  The process maps
 * the file privately; code that needs the bytes in memory, such as a filter or
 * TLS, reads them there.
 */


#ifndef _NGX_MCDS_MEMFILE_H_INCLUDED_
#define _NGX_MCDS_MEMFILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * the smallest value that is copied to a file in memory (memfd), in bytes: for
 * fewer bytes, sendfile() costs more than it saves
 */
#define NGX_MCDS_MEMFILE_MIN      (32 * 1024)


/*
 * Sets how many files in memory (memfd) the process may have at a time.
 * Without a call, and on systems without memfd, it may have none.
 */

void ngx_mcds_memfile_init(ngx_uint_t max);


/*
 * Returns a copy of a value in a file in memory (memfd), with one reference.
 * The copy's fd is the file, which has the whole ngx_mcds_value_t from offset 0
 * on.  Returns NULL if the value is shorter than NGX_MCDS_MEMFILE_MIN or has a
 * file already, if the process may have no more files, or if the system refuses
 * one (logged).
 */

ngx_mcds_value_t *ngx_mcds_memfile_copy(ngx_mcds_value_t *value,
    ngx_log_t *log);


/* Frees a value that ngx_mcds_memfile_copy() has returned. */

void ngx_mcds_memfile_free(ngx_mcds_value_t *value);


#endif /* _NGX_MCDS_MEMFILE_H_INCLUDED_ */
