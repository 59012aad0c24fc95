
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_URL_H_INCLUDED_
#define _MCDS_URL_H_INCLUDED_


#include "mcds.h"


/*
 * Makes of a URL the default text of mcds_cache_key, or ends the program:
 * scheme and host in lower case, the port if there is one, and the URI as it
 * is written.
 */

void mcds_url_key(mcds_t *m, ngx_str_t *url);


#endif /* _MCDS_URL_H_INCLUDED_ */
