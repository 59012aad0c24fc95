
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_KEY_H_INCLUDED_
#define _MCDS_KEY_H_INCLUDED_


#include "mcds_page.h"
#include "mcds_site.h"


/*
 * Makes the text of mcds_cache_key of a URL in the form of the default key, as
 * nginx does in the location that answers it: of those with the site and pool
 * of this scope, in these servers (NULL: in any).  NULL, or why the tool cannot
 * tell; the URL is then left as it is.  A rewrite is not looked at, nor is what
 * a regular expression matches.
 */

char *mcds_key(mcds_t *m, mcds_scope_t *site, ngx_array_t *servers,
    ngx_str_t *url);


#endif /* _MCDS_KEY_H_INCLUDED_ */
