
/*
 * Copyright (C) mcds authors
 *
 * The statistics of nginx itself: the JSON of a location with mcds_status on
 * this host.
 */


#ifndef _MCDS_FETCH_H_INCLUDED_
#define _MCDS_FETCH_H_INCLUDED_


#include "mcds.h"


/*
 * Requests nginx's statistics from the locations with mcds_status, one after
 * the other, until one responds.  Omits a location if its server{} block does
 * not listen, without TLS, on a loopback address, a wildcard or a unix socket,
 * or if it has "format=prometheus", and so no JSON.  Returns the JSON as a new
 * reference; at is the location's address.  Otherwise returns NULL; at is the
 * reason, or is empty if nginx's configuration has no location with mcds_status
 * and JSON.  at has room for MCDS_FETCH_AT bytes.
 */

#define MCDS_FETCH_AT             512

json_t *mcds_fetch(mcds_t *m, char *at);


#endif /* _MCDS_FETCH_H_INCLUDED_ */
