
/*
 * Copyright (C) mcds authors
 *
 * HTTP dates (RFC 9110, 5.6.7), for the calculation of lifetimes.
 */


#ifndef _NGX_MCDS_DATE_H_INCLUDED_
#define _NGX_MCDS_DATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Parses the date in an HTTP header.  Returns the seconds since the epoch, or
 * NGX_ERROR if the value is neither an IMF-fixdate nor in one of the two
 * obsolete formats.  All three are in GMT: a date with another zone, or
 * followed by any text, is invalid (RFC 9111, 4.2), whereas
 * ngx_parse_http_time() would take the zone for GMT.  A date before 1970 is
 * invalid; a date beyond a 32-bit time_t is valid.  Letters are compared
 * without case.  A year of two digits is the latest such year that is less
 * than 50 years after now, which is in seconds since the epoch.
 */

int64_t ngx_mcds_date_parse(ngx_str_t *value, int64_t now);


#endif /* _NGX_MCDS_DATE_H_INCLUDED_ */
