
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_KEY_H_INCLUDED_
#define _MCDS_KEY_H_INCLUDED_


#include "mcds_page.h"
#include "mcds_site.h"


/*
 * Replaces a URL, in the form that keys of pages have by default, by the key
 * that nginx would make of mcds_cache_key in the location that answers the URL.
 * Considers the locations with the same mcds_cache_site and pool as "site", in
 * these server{} blocks, or in all if servers is NULL.  Returns NULL, or the
 * reason why the tool cannot tell the key: the URL is unchanged then, as it is
 * if no location answers the URL.  Ignores rewrites and regular expressions.
 */

char *mcds_key(mcds_t *m, mcds_scope_t *site, ngx_array_t *servers,
    ngx_str_t *url);


#endif /* _MCDS_KEY_H_INCLUDED_ */
