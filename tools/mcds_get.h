
/*
 * Copyright (C) mcds authors
 *
 * mcds get, in the files get*.c.
 */


#ifndef _MCDS_GET_H_INCLUDED_
#define _MCDS_GET_H_INCLUDED_


#include "mcds.h"
#include "ngx_mcds_entry.h"


/*
 * request: for an item of that key.  page: all that is known of a page, or of a
 * variant of one.  lock: adds who builds it.  state: in a word.
 *
 * secrets: those that the page is to be checked with, or NULL: of a page
 * without a signature the configuration does not say here whether it should
 * have one; who gives a key does.
 */

void mcds_get_request(ngx_mcds_request_t *req, ngx_str_t *key);
json_t *mcds_get_page(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets,
    ngx_uint_t variant);
void mcds_get_lock(mcds_t *m, json_t *o, ngx_str_t *key);
char *mcds_get_state(ngx_mcds_entry_t *entry, uint64_t now);
ngx_array_t *mcds_get_secrets(mcds_t *m, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);


/*
 * body: adds what is known of the body, all of its parts are read.  print:
 * --body, as it came from the origin, without the coding it is stored in.
 */

void mcds_get_body(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
void mcds_get_print(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets);


/*
 * Of a page that varies.  variants: adds all; with --header, those of such a
 * request alone: one, unless they differ by what nginx chooses, too.  by_route:
 * 1 if they do.  variant: the hash of that one; route: of the page, or NULL.
 * variant_key: where the one of a hash lies.
 */

void mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
ngx_uint_t mcds_get_by_route(ngx_str_t *names);
void mcds_get_variant(mcds_t *m, ngx_str_t *names, ngx_str_t *route,
    u_char *hash);
void mcds_get_variant_key(mcds_t *m, ngx_mcds_entry_t *entry, u_char *hash,
    ngx_str_t *key);


#endif /* _MCDS_GET_H_INCLUDED_ */
