
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
 * Requests nginx's statistics from the locations of its configuration that have
 * mcds_status, one after the other, if they listen on a loopback address or a
 * unix socket, until one responds.  Returns the JSON as a new reference; at is
 * the location's address.  Otherwise returns NULL; at is the reason, or is
 * empty if the configuration has no such location.  at has room for
 * MCDS_FETCH_AT bytes.
 */

#define MCDS_FETCH_AT             512

json_t *mcds_fetch(mcds_t *m, char *at);


#endif /* _MCDS_FETCH_H_INCLUDED_ */
