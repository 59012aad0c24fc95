
/*
 * Copyright (C) mcds authors
 *
 * CDN-Cache-Control, RFC 9213: the directives of Cache-Control in another
 * grammar, as a dictionary of RFC 8941.
 */


#ifndef _NGX_MCDS_TARGETED_H_INCLUDED_
#define _NGX_MCDS_TARGETED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_fresh.h"


/*
 * Adds the directives of one CDN-Cache-Control header line.  cc is zeroed
 * before the first line.  Returns the number of members, 0 for an empty line.
 *
 * Names are in lower case; of duplicates, also on different lines, the last
 * one counts; parameters and unknown names are ignored.  A malformed or
 * negative number counts as 0, stale at once; a number that is too large as
 * 2147483648.  A directive that takes no argument is set if it has no value or
 * "?1", and not set if it has "?0".  Any other value sets a directive that
 * forbids, such as no-store, but not public and must-understand, which permit.
 *
 * A line that is malformed sets "malformed": the header must be ignored then.
 */

ngx_uint_t ngx_mcds_targeted_add(ngx_mcds_cache_control_t *cc,
    ngx_str_t *value);


#endif /* _NGX_MCDS_TARGETED_H_INCLUDED_ */
