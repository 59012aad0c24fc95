
/*
 * Copyright (C) mcds authors
 *
 * mcds log, in the files log*.c.
 */


#ifndef _MCDS_LOG_H_INCLUDED_
#define _MCDS_LOG_H_INCLUDED_


#include "mcds.h"
#include "ngx_mcds_log.h"


/*
 * Sets up the log from the configuration, so that all hosts and readers agree
 * on its format.
 */

void mcds_log_find(mcds_t *m, ngx_mcds_log_t *log, ngx_str_t *name);


/*
 * "log write"; args: a name, and the words of a line; without words the lines
 * come from standard input.
 */

void mcds_log_write(mcds_t *m, ngx_str_t *args, ngx_uint_t n);


#endif /* _MCDS_LOG_H_INCLUDED_ */
