
/*
 * Copyright (C) mcds authors
 *
 * Bodies that are larger than an item lie outside of their entry, in parts, see
 * ngx_mcds_part.h.
 */


#ifndef _NGX_MCDS_BODY_CUT_H_INCLUDED_
#define _NGX_MCDS_BODY_CUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


/* how a body was cut; zeroed memory: it was not */

typedef struct {
    uint64_t           generation;
    uint64_t           total;
    uint32_t           parts;
    uint32_t           part;          /* length of the data of each */
} ngx_mcds_cut_t;


/* 1 if the body, or some of it, lies outside of the entry */

#define ngx_mcds_body_apart(entry)  ((entry)->parts != 0)


/*
 * cut: takes from an entry how its body was cut.  same: 1 if it is that of the
 * entry.
 */

void ngx_mcds_body_cut(ngx_mcds_entry_t *entry, ngx_mcds_cut_t *cut);
ngx_uint_t ngx_mcds_body_same(ngx_mcds_cut_t *cut, ngx_mcds_entry_t *entry);


/*
 * Removes a body that no page refers to any more: linger is the seconds that it
 * stays for those who still read it; 0: none.  Nothing happens if it was not
 * cut.
 */

void ngx_mcds_body_drop(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_cut_t *cut, uint32_t linger);


#endif /* _NGX_MCDS_BODY_CUT_H_INCLUDED_ */
