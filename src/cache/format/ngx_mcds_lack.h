
/*
 * Copyright (C) mcds authors
 *
 * The features that an entry of a page may need, and that MCDS_WITHOUT has left
 * out of this build of mcds, see docs/building.md.
 */


#ifndef _NGX_MCDS_LACK_H_INCLUDED_
#define _NGX_MCDS_LACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


/*
 * Returns NULL if this build of mcds has all features that a page's entry
 * needs; otherwise a text for the log.  An entry that needs a missing feature
 * is a miss; it is not replaced before it expires, since a host with another
 * build of mcds may use it.
 */

char *ngx_mcds_entry_lacks(ngx_mcds_entry_t *entry);


#endif /* _NGX_MCDS_LACK_H_INCLUDED_ */
