
/*
 * Copyright (C) mcds authors
 *
 * Purges of all pages with a tag, of a host, or of all pages, without a search
 * for them: a record says when its pages were purged, and each page says when
 * it was made.  "When" is not a time, as the clocks of hosts differ, but the
 * value of a counter that each purge increments.  The counter and the records
 * are on each server of the pool, so that a page needs only its own server:
 *
 *   mcds:purges         the counter; it starts at the time in milliseconds,
 *                       so that a counter that was lost never falls behind
 *   mcds:tag:<tag>      two decimal numbers with a space in between: the
 *   mcds:host:<host>    counter when these pages were last purged, and when
 *   mcds:all            they were last deleted
 *
 * A page has the value of the counter before its origin was requested.  The
 * page is stale if one of its records is newer, and gone if that purge was a
 * deletion.  A record that is missing was evicted, or never existed: its pages
 * count as deleted at the counter's present value, and the record is created
 * with this value.
 *
 * The counters of servers differ.  A purge increments all of them, then raises
 * all to the largest value, and writes this value to the records.  It is above
 * the value of any page that was made before, with the counter of any server;
 * so a page may move to another server, or be made with the counter of another
 * one.  A purge that has not reached one of the servers has failed.
 *
 * The records of a server that is down are unknown, and make a page neither
 * stale nor gone.  While the counter is unknown, a page gets the newest value
 * that this worker knows: the counter had this value already when the origin
 * was requested, so that a later purge is newer.
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
 * The handler of a purge by tag, called once.  rc is NGX_MCDS_OK if all
 * servers that are not down by configuration have done the purge; otherwise rc
 * is the reason of one of the servers that have not.
 */

typedef void (*ngx_mcds_tag_pt)(void *data, ngx_uint_t rc);


/*
 * Purges all pages of a record: "tag:" and a tag, "host:" and a host, or
 * "all".  The record is copied; how is ngx_mcds_purge_e; now is in
 * milliseconds since the epoch.  Returns NGX_ERROR, and calls no handler, if
 * there is no server or no memory.
 */

ngx_int_t ngx_mcds_tag_purge(ngx_mcds_pool_t *pool, ngx_str_t *record,
    ngx_uint_t how, uint64_t now, ngx_mcds_tag_pt handler, void *data);


/*
 * Creates the queries about the tags of one request's page: asks the server of
 * the page for the purge counter and for the records of a list of tags, which
 * may be empty.  For a page that varies this is the server of its list of
 * headers.  The handler is called when all queries are answered, never from
 * inside of a call, except ngx_mcds_tags_hurry(), and not after
 * ngx_mcds_tags_free().  Returns NULL if out of memory.
 */

ngx_mcds_tags_t *ngx_mcds_tags_create(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now, void (*handler)(void *data), void *data);


/*
 * Asks for the records of a list of tags that were not asked for.  NGX_OK: the
 * handler will be called; NGX_DONE: no answer is missing; NGX_ERROR: out of
 * memory.
 */

ngx_int_t ngx_mcds_tags_ask(ngx_mcds_tags_t *tags, ngx_str_t *list);


/*
 * Stops waiting for answers about tags: calls the handler now, unless it was
 * called already.  Answers that come later are still used.  tags may be NULL.
 */

void ngx_mcds_tags_hurry(ngx_mcds_tags_t *tags);


/*
 * Returns the value of the purge counter; if that is unknown, the newest value
 * that this worker knows for the pool; 0: none is known.
 */

uint64_t ngx_mcds_tags_counter(ngx_mcds_tags_t *tags);


/* Frees the queries about the tags of a request's page; NULL is allowed. */

void ngx_mcds_tags_free(ngx_mcds_tags_t *tags);


/*
 * The verdict on a page with this purge counter and list of tags.  A page with
 * a counter of 0 is never known to be stale.
 */

typedef enum {
    NGX_MCDS_TAGS_VALID = 0,
    NGX_MCDS_TAGS_UNKNOWN,        /* memcached did not answer, now or when the
                                     page was built */
    NGX_MCDS_TAGS_STALE,
    NGX_MCDS_TAGS_GONE,
    NGX_MCDS_TAGS_ASK             /* the record of a tag was not asked for */
} ngx_mcds_tags_e;


/*
 * Returns the verdict on a page by its tags, ngx_mcds_tags_e.  counter and
 * list are those of the page.
 */

ngx_uint_t ngx_mcds_tags_verdict(ngx_mcds_tags_t *tags, uint64_t counter,
    ngx_str_t *list);


/*
 * Creates the missing records of a list of tags on the server of a page that
 * is about to be stored.  They get the present value of the purge counter, not
 * that of the page: a record may have been evicted since the page was made.
 * No result is awaited.
 */

void ngx_mcds_tags_make(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now);


/*
 * Remembers the list of a page's tags in this worker, so that their records
 * can be asked for together with the page.
 */

void ngx_mcds_tags_remember(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);


/*
 * Sets *list to the remembered list of a page's tags, or to an empty list.
 * The text is valid until the next ngx_mcds_tags_remember().
 */

void ngx_mcds_tags_remembered(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);


#endif /* _NGX_MCDS_TAG_H_INCLUDED_ */
