
/*
 * Copyright (C) mcds authors
 *
 * A page's body that does not fit into one item of memcached is cut into parts,
 * each in an item of its own beside the page's entry, see ngx_mcds_part.h.
 */


#ifndef _NGX_MCDS_BODY_CUT_H_INCLUDED_
#define _NGX_MCDS_BODY_CUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


/*
 * How a page's body is cut into parts, each of which is a further item of
 * memcached; zeroed memory: the body is not cut.
 */

typedef struct {
    uint64_t           generation;
    uint64_t           total;
    uint32_t           parts;
    uint32_t           part;          /* length of the data of each part of the
                                         body but the last */
} ngx_mcds_cut_t;


/*
 * returns 1 if the body of a page is stored, wholly or partly, in other items
 * of memcached than the page's entry
 */

#define ngx_mcds_body_apart(entry)  ((entry)->parts != 0)


/* Sets *cut to how the body of a page's entry is cut into parts. */

void ngx_mcds_body_cut(ngx_mcds_entry_t *entry, ngx_mcds_cut_t *cut);


/*
 * Returns 1 if the body of a page's entry is cut into the parts that *cut
 * describes.
 */

ngx_uint_t ngx_mcds_body_same(ngx_mcds_cut_t *cut, ngx_mcds_entry_t *entry);


/*
 * Removes from memcached the parts of a body to which no page refers any more.
 * They expire after linger seconds, so that requests that are reading the body
 * can finish; 0: they are deleted.  Has no effect on a body that was not cut.
 * If the parts are many, the rest follows when memcached has answered for some.
 */

void ngx_mcds_body_drop(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_cut_t *cut, uint32_t linger);


#endif /* _NGX_MCDS_BODY_CUT_H_INCLUDED_ */
