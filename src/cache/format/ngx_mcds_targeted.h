
/*
 * Copyright (C) mcds authors
 *
 * CDN-Cache-Control, RFC 9213: the directives of Cache-Control as a dictionary
 * of RFC 8941, that is with another grammar.
 */


#ifndef _NGX_MCDS_TARGETED_H_INCLUDED_
#define _NGX_MCDS_TARGETED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_fresh.h"


/*
 * Adds a line; begin with zeroed memory.  Returns the number of its members, 0
 * for an empty line.  Names are lower case, of duplicates the last counts, also
 * on another line, parameters and unknown names are skipped.  A number that is
 * none, or negative, is 0: stale at once; too large ones count as 2147483648.
 * A directive without an argument is there unless it is "?0"; what forbids is
 * there with any other value, too, "public" is not.  A line that breaks the
 * grammar sets malformed: then the header must be ignored.
 */

ngx_uint_t ngx_mcds_targeted_add(ngx_mcds_cache_control_t *cc,
    ngx_str_t *value);


#endif /* _NGX_MCDS_TARGETED_H_INCLUDED_ */
