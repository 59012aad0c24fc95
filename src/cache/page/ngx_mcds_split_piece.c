
/*
 * Copyright (C) mcds authors
 *
 * The parts (pieces) of a body that is stored in parts, in this worker's
 * memory: how they are filled, kept and freed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_sign.h"
#include "ngx_mcds_split_core.h"
#include "ngx_mcds_stat.h"


ngx_int_t
ngx_mcds_split_fill(ngx_mcds_split_t *split, u_char *data, size_t len)
{
    size_t             size;
    ngx_mcds_value_t  *value;

    while (len) {
        value = split->value;

        if (value == NULL) {
            value = ngx_mcds_part_begin(split->header, split->cut.part,
                                        ngx_cycle->log);
            if (value == NULL) {
                return NGX_ERROR;
            }

            split->value = value;
            ngx_mcds_memory.storing += value->size;
        }

        size = ngx_min(len, split->header + split->cut.part - value->len);

        ngx_memcpy(value->data + value->len, data, size);

        value->len += size;
        data += size;
        len -= size;
        split->cut.total += size;

        if (value->len == split->header + split->cut.part
            && ngx_mcds_split_piece(split) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_split_piece(ngx_mcds_split_t *split)
{
    ngx_mcds_piece_t  *piece;

    piece = ngx_calloc(sizeof(ngx_mcds_piece_t), ngx_cycle->log);
    if (piece == NULL) {
        return NGX_ERROR;
    }

    piece->split = split;
    piece->value = split->value;
    piece->n = split->cut.parts++;
    piece->op.handler = ngx_mcds_split_answered;
    piece->op.data = piece;
    split->value = NULL;

    ngx_mcds_part_finish(piece->value, split->cut.generation, piece->n);

    if (split->secrets) {
        (void) ngx_mcds_signing->part(piece->value, &split->key,
                                      split->secrets);
    }

    ngx_queue_insert_tail(&split->pieces, &piece->queue);
    split->pending += piece->value->len;

    return NGX_OK;
}


void
ngx_mcds_split_free_piece(ngx_mcds_piece_t *piece)
{
    ngx_mcds_cancel(&piece->op);
    ngx_mcds_split_free_value(piece->value);
    ngx_free(piece);
}


void
ngx_mcds_split_free_value(ngx_mcds_value_t *value)
{
    if (value) {
        ngx_mcds_memory.storing -= value->size;
        ngx_mcds_value_unref(value);
    }
}


ngx_mcds_value_t *
ngx_mcds_split_part(ngx_mcds_split_t *split, uint32_t n)
{
    ngx_queue_t       *q;
    ngx_mcds_piece_t  *piece;

    if (!split->kept) {
        return NULL;
    }

    for (q = ngx_queue_head(&split->pieces);
         q != ngx_queue_sentinel(&split->pieces);
         q = ngx_queue_next(q))
    {
        piece = ngx_queue_data(q, ngx_mcds_piece_t, queue);

        if (piece->n == n) {
            return piece->value;
        }
    }

    return NULL;
}
