
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_KEY_H_INCLUDED_
#define _MCDS_KEY_H_INCLUDED_


#include "mcds_page.h"
#include "mcds_site.h"


/*
 * Replaces a URL in the form of the default key by the text of mcds_cache_key,
 * as nginx would make it in the location that answers the URL.  Considers the
 * locations with the site and pool of this scope, in these servers, or in all
 * if servers is NULL.  Returns NULL, or the reason why the program cannot tell;
 * the URL is unchanged then.  Ignores rewrites and regular expressions.
 */

char *mcds_key(mcds_t *m, mcds_scope_t *site, ngx_array_t *servers,
    ngx_str_t *url);


#endif /* _MCDS_KEY_H_INCLUDED_ */
