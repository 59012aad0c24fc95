
/*
 * Copyright (C) mcds authors
 *
 * Purging all pages of a tag, of a host, or all there are, without looking for
 * them: a record for each says when that was, and pages know when they were
 * made.  No clock says "when", but a counter that each purge moves on, so that
 * the clocks of hosts do not matter.  Counter and records are on each server
 * of the pool, so that a page needs no other server than its own:
 *
 *   mcds:purges        the counter; it begins with the time in milliseconds, so
 *                      that one that was lost is never behind what it was
 *   mcds:tag:<tag>     two decimal numbers with a space between: the counter
 *   mcds:host:<host>   when these pages were last purged, and when they were
 *   mcds:all           last deleted
 *
 * A page has the counter as it was before its origin was asked.  It is stale
 * if one of its records is newer, and gone if that was a deletion.  A record
 * that is not there was evicted, or never was: the pages are taken for deleted
 * at the counter's present value, and so it is made again.
 *
 * The counters of servers differ, but a purge moves all of them on, and then to
 * the largest, which it writes to the records: it is above the number that any
 * page has got before, of whatever server, so that a page may move, or be made
 * with the number of another server.  A purge that has not reached one server
 * has failed.
 *
 * What a server that is away would have said is not known, and makes a page
 * neither stale nor gone.  While the counter is not known a page gets the
 * newest number that is: the counter was there already when the origin was
 * asked, so that a purge that comes later is newer.
 */


#ifndef _NGX_MCDS_TAG_H_INCLUDED_
#define _NGX_MCDS_TAG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_tags.h"


typedef struct ngx_mcds_tags_s  ngx_mcds_tags_t;


/*
 * Purges all pages of a record: "tag:" and a tag, "host:" and a host, or
 * "all"; copied.  how: see ngx_mcds_purge.h.  The handler is called once, with
 * NGX_MCDS_OK when it is done on all servers of the pool that the configuration
 * does not keep down, or why it is not on one of them; it is on the others
 * then.  NGX_ERROR: there is no server, or no memory, and it is not called.
 */

typedef void (*ngx_mcds_tag_pt)(void *data, ngx_uint_t rc);

ngx_int_t ngx_mcds_tag_purge(ngx_mcds_pool_t *pool, ngx_str_t *record,
    ngx_uint_t how, uint64_t now, ngx_mcds_tag_pt handler, void *data);


/*
 * What one request has asked.  create: asks the server that a page is on for
 * the counter and the records of a list, which may be empty; of a page that
 * varies it is the server of its list.  The handler is called when all have
 * answered, never from inside of a call, and not any more when it was freed.
 * ask: asks for those of a list that were not asked for: NGX_OK, and the
 * handler will be called; NGX_DONE, nothing is missing; NGX_ERROR.
 *
 * hurry: those that have not answered are not waited for: the handler is called
 * now, unless that was done.  What they say later is known nevertheless.
 *
 * counter: as it is now or, if that is not known, the newest number that this
 * worker knows of the pool; 0 if it knows none.
 */

ngx_mcds_tags_t *ngx_mcds_tags_create(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now, void (*handler)(void *data), void *data);
ngx_int_t ngx_mcds_tags_ask(ngx_mcds_tags_t *tags, ngx_str_t *list);
void ngx_mcds_tags_hurry(ngx_mcds_tags_t *tags);
uint64_t ngx_mcds_tags_counter(ngx_mcds_tags_t *tags);
void ngx_mcds_tags_free(ngx_mcds_tags_t *tags);


/*
 * What has become of a page with this counter and list, all of whose records
 * have been asked for.  A page with a counter of 0 is never known to be stale.
 */

typedef enum {
    NGX_MCDS_TAGS_VALID = 0,
    NGX_MCDS_TAGS_UNKNOWN,        /* memcached did not say, now or when the
                                     page was built */
    NGX_MCDS_TAGS_STALE,
    NGX_MCDS_TAGS_GONE,
    NGX_MCDS_TAGS_ASK             /* a record was not asked for */
} ngx_mcds_tags_e;

ngx_uint_t ngx_mcds_tags_verdict(ngx_mcds_tags_t *tags, uint64_t counter,
    ngx_str_t *list);


/*
 * Makes those records of a list that are not there, on the server of the page,
 * when that is going to be stored: at the counter's value of now, not of the
 * page, since one may have been evicted in between.  Nobody waits for it.
 */

void ngx_mcds_tags_make(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now);


/*
 * What this worker remembers of the list of a page, so that it can be asked
 * for together with the page.  remembered: empty if nothing; valid until the
 * next call of remember.
 */

void ngx_mcds_tags_remember(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);
void ngx_mcds_tags_remembered(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);


#endif /* _NGX_MCDS_TAG_H_INCLUDED_ */
