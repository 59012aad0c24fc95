
/*
 * Copyright (C) mcds authors
 *
 * The counter and the records of purges, see ngx_mcds_tag.h.
 */


#ifndef _NGX_MCDS_TAG_RECORD_H_INCLUDED_
#define _NGX_MCDS_TAG_RECORD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


/* of a record: two numbers and a space */
#define NGX_MCDS_TAG_RECORD       41


/*
 * request: of a record, whose verb is the caller's.  count: asks for the
 * counter, and makes it where there is none.
 */

void ngx_mcds_tag_request(ngx_mcds_request_t *req, ngx_str_t *record);
void ngx_mcds_tag_count(ngx_mcds_request_t *req, uint64_t now);


/*
 * number: the counter; returns NGX_MCDS_OK, or why there is none.  parse: a
 * record; NGX_DECLINED, it is none.
 */

ngx_uint_t ngx_mcds_tag_number(ngx_mcds_result_t *result, uint64_t *number);
ngx_int_t ngx_mcds_tag_parse(ngx_mcds_result_t *result, uint64_t *purged,
    uint64_t *deleted);


#endif /* _NGX_MCDS_TAG_RECORD_H_INCLUDED_ */
