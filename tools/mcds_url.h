
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_URL_H_INCLUDED_
#define _MCDS_URL_H_INCLUDED_


#include "mcds.h"


/*
 * Replaces a URL by the key that its page has without mcds_cache_key: scheme
 * and host in lower case, the port if the URL has one, and the URI unchanged.
 * Ends the tool if the URL is malformed.
 */

void mcds_url_key(mcds_t *m, ngx_str_t *url);


#endif /* _MCDS_URL_H_INCLUDED_ */
