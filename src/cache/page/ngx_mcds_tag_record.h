
/*
 * Copyright (C) mcds authors
 *
 * The purge counter of a memcached server, and its records of the purges by
 * tag, see ngx_mcds_tag.h.
 */


#ifndef _NGX_MCDS_TAG_RECORD_H_INCLUDED_
#define _NGX_MCDS_TAG_RECORD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/*
 * the maximum length of a tag's record in memcached: two numbers and a space
 */
#define NGX_MCDS_TAG_RECORD       41


/*
 * Fills in a request to memcached for the record of a tag, but not the verb,
 * which the caller adds.
 */

void ngx_mcds_tag_request(ngx_mcds_request_t *req, ngx_str_t *record);


/*
 * Fills in a request to memcached for the server's purge counter; a missing
 * counter is created with the value "now", the time in milliseconds.  To
 * increment the counter, the caller sets req->delta; 0: it is only read.
 */

void ngx_mcds_tag_count(ngx_mcds_request_t *req, uint64_t now);


/*
 * Reads a server's purge counter from the result of a memcached command.
 * Returns NGX_MCDS_OK, or the reason why there is no counter.
 */

ngx_uint_t ngx_mcds_tag_number(ngx_mcds_result_t *result, uint64_t *number);


/*
 * Reads the record of a tag from the result of a memcached command: the values
 * that the server's purge counter had at the last purge of the tag's pages, and
 * at their last deletion.  Returns NGX_DECLINED if the record is invalid.
 */

ngx_int_t ngx_mcds_tag_parse(ngx_mcds_result_t *result, uint64_t *purged,
    uint64_t *deleted);


#endif /* _NGX_MCDS_TAG_RECORD_H_INCLUDED_ */
