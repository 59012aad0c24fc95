
/*
 * Copyright (C) mcds authors
 *
 * The command "lock", which shows and releases locks, and runs other commands
 * while it holds one; mcds_lock*.c.
 */


#ifndef _MCDS_LOCK_H_INCLUDED_
#define _MCDS_LOCK_H_INCLUDED_


#include "mcds.h"


/*
 * The command "lock run": runs another command while it holds a lock; args: the
 * key of the lock, the other command and its arguments.  m->pool must be set.
 */

void mcds_lock_run(mcds_t *m, ngx_str_t *args, ngx_uint_t n);


#endif /* _MCDS_LOCK_H_INCLUDED_ */
