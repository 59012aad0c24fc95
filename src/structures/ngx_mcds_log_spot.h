
/*
 * Copyright (C) mcds authors
 *
 * Where the writer of a log appends its lines: in each chunk (time interval) of
 * the log, to one of its items after another.  Programs may write lines of
 * several chunks in turns, so the writer knows its place in several of them.
 */


#ifndef _NGX_MCDS_LOG_SPOT_H_INCLUDED_
#define _NGX_MCDS_LOG_SPOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_MCDS_LOG_SPOTS        16


typedef struct {
    uint64_t                chunk;      /* time interval of the log lines */
    ngx_uint_t              part;       /* item of the log last appended to */
    size_t                  written;    /* bytes that this writer has appended
                                           to the item "part" of the log */
    unsigned                crowded:1;  /* go to the next item of the log */
} ngx_mcds_log_spot_t;


typedef struct {
    ngx_mcds_log_spot_t     at;         /* the spot of the last log lines that
                                           were sent */
    ngx_mcds_log_spot_t     others[NGX_MCDS_LOG_SPOTS];
                                        /* spots in other time intervals */
    ngx_uint_t              next;       /* index of the spot in "others" that is
                                           forgotten next */
} ngx_mcds_log_spots_t;


/*
 * Makes the spot in this chunk (time interval) "at"; it is the start of the
 * chunk's first item if the spot is not known.
 */

void ngx_mcds_log_turn(ngx_mcds_log_spots_t *spots, uint64_t chunk);


/*
 * Returns the spot in this chunk (time interval), or NULL if it is not known.
 */

ngx_mcds_log_spot_t *ngx_mcds_log_spot(ngx_mcds_log_spots_t *spots,
    uint64_t chunk);


#endif /* _NGX_MCDS_LOG_SPOT_H_INCLUDED_ */
