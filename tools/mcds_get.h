
/*
 * Copyright (C) mcds authors
 *
 * The command "get", which shows the stored data of a page; mcds_get*.c.
 */


#ifndef _MCDS_GET_H_INCLUDED_
#define _MCDS_GET_H_INCLUDED_


#include "mcds.h"
#include "ngx_mcds_entry.h"


/* Prepares an operation that reads the item with this key from memcached. */

void mcds_get_request(ngx_mcds_request_t *req, ngx_str_t *key);


/*
 * Returns a JSON object with the stored data of a page, or of a variant.
 * secrets: the keys of mcds_cache_hmac_key by which the page's signature is
 * checked, an array of ngx_str_t; NULL: no check.  list: for a variant, its
 * page's entry, which lists the headers that the page varies by, and records
 * purges; NULL: the key is not known to be that of a variant.
 */

json_t *mcds_get_page(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets,
    ngx_mcds_entry_t *list);


/* Adds the state of the lock of the page with this key to the JSON object. */

void mcds_get_lock(mcds_t *m, json_t *o, ngx_str_t *key);


/*
 * Returns the state of a stored page in a word, such as "fresh", at the time
 * now, in milliseconds.
 */

char *mcds_get_state(ngx_mcds_entry_t *entry, uint64_t now);


/*
 * Returns the keys of mcds_cache_hmac_key by which the signature of a page is
 * checked, or NULL for no check.  The tool does not know whether nginx's
 * configuration demands a signature; so a page without one is checked only if
 * --hmac-key-file is given.
 */

ngx_array_t *mcds_get_secrets(mcds_t *m, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);


/*
 * Adds the properties of a page's body to the JSON object o, and reads all
 * parts of the body.  secrets: the keys of mcds_cache_hmac_key that the page's
 * signature is checked with, an array of ngx_str_t; NULL: no check.
 */

void mcds_get_body(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);


/*
 * Prints the body of a page as the origin sent it, without the coding in which
 * it is stored.
 */

void mcds_get_print(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets);


/*
 * Adds the variants of a page to the JSON object: with --header those that a
 * request with such headers may get, otherwise all.
 */

void mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);


/*
 * Returns 1 if the variants of a page also differ by the location or URI that
 * nginx chooses, so that the headers of a request do not suffice to choose one.
 */

ngx_uint_t mcds_get_by_route(ngx_str_t *names);


/*
 * Computes the hash, of NGX_MCDS_VARIANT_LEN bytes, of the variant that a
 * request with the headers of --header gets.  names: the names of the headers
 * that the page varies by, separated by commas; route: the hash of the location
 * and URI in hexadecimal, or NULL if the page does not vary by them.
 */

void mcds_get_variant(mcds_t *m, ngx_str_t *names, ngx_str_t *route,
    u_char *hash);


/*
 * Reads the list of variants that has the variant with this key.  Returns
 * NGX_DECLINED if the key is not that of a variant, or memcached does not have
 * a list with this variant.  The answer must be freed, in any case.
 */

ngx_int_t mcds_get_list(mcds_t *m, ngx_str_t *key, ngx_mcds_entry_t *list,
    mcds_answer_t *answer);


/* Sets key to the key of the page's variant with this hash. */

void mcds_get_variant_key(mcds_t *m, ngx_mcds_entry_t *entry, u_char *hash,
    ngx_str_t *key);


#endif /* _MCDS_GET_H_INCLUDED_ */
