
/*
 * Copyright (C) mcds authors
 *
 * Which cookies an application may read out of a line "Cookie".
 *
 * Applications disagree about what the name of a cookie is, and a client may
 * write it in any way that its application understands:
 *
 *     PHP           "." " " and "[" count as "_", "a[b]" is the array "a",
 *                   releases before 7.2.34 decode "%xx" and "+" and end at %00
 *     Ruby, Perl    decode "%xx", some releases split at "," too
 *     Python        ends a cookie at white space (http.cookies), or begins one
 *                   behind any character that no name has (WebOb); white space
 *                   of Unicode is skipped (Django, Werkzeug), "=" in front of
 *                   a name, too (old releases of Werkzeug)
 *     Java          splits at ",", skips separators in front of a name; names
 *                   are the same in any case (RFC 2965)
 *     ASP.NET       names are the same in any case
 *     Node          skips the white space of JavaScript, with U+FEFF
 *
 * and about whether a semicolon within quotes ends a cookie.
 */


#ifndef _NGX_MCDS_COOKIE_H_INCLUDED_
#define _NGX_MCDS_COOKIE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * 1 if any of them may read a cookie of one of the names, an array of
 * ngx_str_t in which "*" stands for any number of characters.
 *
 * Inside of the value of another cookie a name counts only where one of them
 * begins a cookie, and "=" follows: behind white space, a quote, a backslash, a
 * square bracket, a control character, or a byte that is not ASCII; behind ","
 * also without "=".
 *
 * The time is proportional to the length of the line times that of the names,
 * for names with several "*" times that of the longest name in the line.
 */

ngx_uint_t ngx_mcds_cookie_named(ngx_str_t *line, ngx_array_t *names);


#endif /* _NGX_MCDS_COOKIE_H_INCLUDED_ */
