
/*
 * Copyright (C) mcds authors
 *
 * The cookies that an application may read from a Cookie header line.
 *
 * Applications disagree on the syntax of cookie names, and a client may use any
 * spelling that its application understands:
 *
 *   PHP         "." " " and "[" count as "_", "a[b]" is the array "a",
 *               releases before 7.2.34 decode "%xx" and "+", and end a name
 *               at %00
 *   Ruby, Perl  decode "%xx", some releases split at "," too
 *   Python      ends a cookie at white space (http.cookies), or begins one
 *               behind any character that no name has (WebOb); white space
 *               of Unicode is skipped (Django, Werkzeug), "=" in front of
 *               a name, too (old releases of Werkzeug)
 *   Java        splits at ",", skips separators in front of a name; names
 *               are compared without case (RFC 2965)
 *   ASP.NET     names are compared without case
 *   Node        skips the white space of JavaScript, with U+FEFF
 *
 * They also disagree on whether a semicolon within quotes ends a cookie.
 */


#ifndef _NGX_MCDS_COOKIE_H_INCLUDED_
#define _NGX_MCDS_COOKIE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns 1 if an application in PHP, Java or another language may read a
 * cookie with one of the names from the Cookie header line.  names is an array
 * of ngx_str_t, where "*" stands for any number of characters.
 *
 * Inside of the value of another cookie a name counts only where some
 * application begins a cookie: after white space, a quote, a backslash, a
 * square bracket, a control character, or a non-ASCII byte, if "=" follows the
 * name; after "," also if no "=" follows.
 *
 * The time is proportional to the length of the line times the total length of
 * the names; for a name with several "*" also times the longest name in the
 * line.
 */

ngx_uint_t ngx_mcds_cookie_named(ngx_str_t *line, ngx_array_t *names);


#endif /* _NGX_MCDS_COOKIE_H_INCLUDED_ */
