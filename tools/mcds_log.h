
/*
 * Copyright (C) mcds authors
 *
 * The command "log", which reads, follows and writes logs; mcds_log*.c.
 */


#ifndef _MCDS_LOG_H_INCLUDED_
#define _MCDS_LOG_H_INCLUDED_


#include "mcds.h"
#include "ngx_mcds_log.h"


/*
 * Sets up the structure of a log by the directives of nginx's configuration, so
 * that the tool and nginx agree on the items in which the log is stored.
 */

void mcds_log_find(mcds_t *m, ngx_mcds_log_t *log, ngx_str_t *name);


/*
 * The command "log write"; args: the name of a log, and the words of a line;
 * without words, the lines come from standard input.
 */

void mcds_log_write(mcds_t *m, ngx_str_t *args, ngx_uint_t n);


#endif /* _MCDS_LOG_H_INCLUDED_ */
