
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
 * Returns 1 if some application, in PHP, Java or another language, could find
 * one of the given cookies in "line", the value of a header Cookie.  names has
 * the names of these cookies, ngx_str_t each, where "*" stands for any number
 * of characters.
 *
 * There are applications that begin a new cookie inside of the value of
 * another one.  There, a given name is found in two cases: if "=" follows it
 * and white space, a quote, a backslash, a square bracket, a control character
 * or a non-ASCII byte is in front of it; or if "," is in front of it, with or
 * without "=" behind it.
 *
 * The time is proportional to the length of the line times the total length of
 * the given names; for a given name with several "*" also times the length of
 * the longest cookie name in the line.
 */

ngx_uint_t ngx_mcds_cookie_named(ngx_str_t *line, ngx_array_t *names);


#endif /* _NGX_MCDS_COOKIE_H_INCLUDED_ */
