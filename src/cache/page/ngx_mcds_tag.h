
/*
 * Copyright (C) mcds authors
 *
 * Purges of all pages with a tag, of all pages of a host, or of all pages,
 * without a search for the pages: a record says when its pages were purged, and
 * each page says when it was made.  "When" is not a time, as the clocks of
 * hosts differ, but the value of a counter that each purge increments.  The
 * counter and the records are on each server of the pool, so that a page needs
 * only its own server:
 *
 *   <mcds:purges        the counter; it starts at the time in milliseconds,
 *                       so that a counter that was lost never falls behind
 *   <mcds:tag:TAG       two decimal numbers with a space in between: the
 *   <mcds:host:HOST     counter when these pages were last purged, and when
 *   <mcds:all           they were last deleted
 *
 * A page has the value of the counter before its origin was requested.  The
 * page is stale if one of its records is newer, and gone if that purge was a
 * deletion.  A record that is missing was evicted, or never existed: its pages
 * count as deleted at the counter's present value, and the record is created
 * with this value.
 *
 * The counters of servers differ.  A purge increments all of them, then raises
 * all to the largest value, or to the time in milliseconds if that is larger,
 * and writes the new value to the records.  The new value is above that of any
 * page that was made before, with the counter of any server; so a page may move
 * to another server, or be made with the counter of another one.  A purge that
 * has not reached one of the servers has failed.
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
 * says why one of the servers has not done it.
 */

typedef void (*ngx_mcds_tag_pt)(void *data, ngx_uint_t rc);


/*
 * Purges all pages with a tag, all pages of a host, or all pages.  record is
 * the name of the record in memcached that notes the purge: "tag:" and the tag,
 * "host:" and the host, or "all"; it is copied.  how is ngx_mcds_purge_e; now
 * is in milliseconds since the epoch.  Returns NGX_ERROR, and calls no handler,
 * if there is no server or no memory.
 */

ngx_int_t ngx_mcds_tag_purge(ngx_mcds_pool_t *pool, ngx_str_t *record,
    ngx_uint_t how, uint64_t now, ngx_mcds_tag_pt handler, void *data);


/*
 * Asks the server of a request's page for its purge counter and for the
 * records of a list of tags (the purge counter at each tag's last purge); the
 * list may be empty.  page is the page's key; if the page varies, the server
 * that has the names of the request headers by which the page varies is asked.
 * now is in milliseconds since the epoch.  The handler is called when all
 * queries are answered, always after this function has returned, or earlier by
 * ngx_mcds_tags_hurry(), but never after ngx_mcds_tags_free().  Returns NULL if
 * out of memory.
 */

ngx_mcds_tags_t *ngx_mcds_tags_create(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now, void (*handler)(void *data), void *data);


/*
 * Asks memcached for the records (the purge counter at a tag's last purge) of
 * the tags in a list, except for tags that were asked about before.  NGX_OK:
 * the handler will be called when memcached has replied; NGX_DONE: all replies
 * have arrived already; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_mcds_tags_ask(ngx_mcds_tags_t *tags, ngx_str_t *list);


/*
 * Stops waiting for memcached's replies about tags of a page: calls the
 * handler now, unless it was called already.  Replies that come later are
 * still used. tags may be NULL.
 */

void ngx_mcds_tags_hurry(ngx_mcds_tags_t *tags);


/*
 * Returns the purge counter of the page's server; if that is unknown, the
 * newest value that this worker knows for the pool; 0: none is known.
 */

uint64_t ngx_mcds_tags_counter(ngx_mcds_tags_t *tags);


/*
 * Frees the memcached queries about the tags of a request's page; NULL is
 * allowed.
 */

void ngx_mcds_tags_free(ngx_mcds_tags_t *tags);


/*
 * The verdict on a page by its list of tags, and by the purge counter that the
 * page's server had when the page was built.  A page with a counter of 0 is
 * never known to be stale.
 */

typedef enum {
    NGX_MCDS_TAGS_VALID = 0,
    NGX_MCDS_TAGS_UNKNOWN,        /* memcached did not answer about the page's
                                     tags, now or when the page was built */
    NGX_MCDS_TAGS_STALE,
    NGX_MCDS_TAGS_GONE,
    NGX_MCDS_TAGS_ASK             /* memcached was not asked about one of the
                                     page's tags */
} ngx_mcds_tags_e;


/*
 * Returns the verdict on a page, ngx_mcds_tags_e: whether one of its tags was
 * purged since it was built.  counter and list are the purge counter and the
 * tags that the page was stored with.
 */

ngx_uint_t ngx_mcds_tags_verdict(ngx_mcds_tags_t *tags, uint64_t counter,
    ngx_str_t *list);


/*
 * Creates the missing records of a page's tags on the page's server, before the
 * page is stored.  The new records get the present value of the purge counter,
 * not that of the page: a record may have been evicted since the page was made.
 * Does not wait for memcached's replies.  now: milliseconds since the epoch.
 */

void ngx_mcds_tags_make(ngx_mcds_pool_t *pool, ngx_str_t *page,
    ngx_str_t *list, uint64_t now);


/*
 * Remembers the tags of a page in this worker, so that memcached can be asked
 * about them together with the page.
 */

void ngx_mcds_tags_remember(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);


/*
 * Sets *list to the remembered tags of a page, or to an empty list.  The text
 * is valid until the next ngx_mcds_tags_remember().
 */

void ngx_mcds_tags_remembered(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list);


#endif /* _NGX_MCDS_TAG_H_INCLUDED_ */
