
/*
 * Copyright (C) mcds authors
 *
 * Dates of HTTP, RFC 9110, 5.6.7, that a lifetime is calculated from.
 */


#ifndef _NGX_MCDS_DATE_H_INCLUDED_
#define _NGX_MCDS_DATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The seconds since the epoch, or NGX_ERROR if the value is neither an
 * IMF-fixdate nor one of the two obsolete formats.  All three are in GMT: a
 * date with another zone, or with any text behind it, is invalid (RFC 9111,
 * 4.2), while ngx_parse_http_time() reads it as if the zone were GMT.  So is
 * one before 1970; one that a time_t of 32 bits cannot hold is not.  Letters
 * are compared without case.  A year of two digits is the latest such year that
 * is less than 50 years ahead of now, in seconds since the epoch.
 */

int64_t ngx_mcds_date_parse(ngx_str_t *value, int64_t now);


#endif /* _NGX_MCDS_DATE_H_INCLUDED_ */
