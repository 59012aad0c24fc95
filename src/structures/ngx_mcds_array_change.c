
/*
 * Copyright (C) mcds authors
 *
 * Changing an array: the array is read, the edits decide, the parts (items of
 * older lines) are written, and the head item is exchanged by compare-and-swap;
 * if the head item has changed meanwhile, the change begins again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_array_core.h"


#define NGX_MCDS_ARRAY_MAX_DELAY  64

/*
 * the maximum number of attempts to store an array again, after a change that
 * memcached has refused; the delays between them double, from 2 ms
 */
#define NGX_MCDS_ARRAY_RESTORES   10


static void ngx_mcds_array_change_read(void *data);
static void ngx_mcds_array_change_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_mcds_array_decide(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content);
static ngx_uint_t ngx_mcds_array_edit(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content, ngx_mcds_array_edit_t *result);
static ngx_uint_t ngx_mcds_array_compose(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content, ngx_mcds_array_edit_t *edit);
static ngx_uint_t ngx_mcds_array_trim(ngx_mcds_array_work_t *work);
static void ngx_mcds_array_write_parts(ngx_mcds_array_work_t *work);
static ngx_int_t ngx_mcds_array_write_part(ngx_mcds_array_work_t *work);
static ngx_mcds_op_t *ngx_mcds_array_part_op(ngx_mcds_array_work_t *work);
static void ngx_mcds_array_part_written(void *data,
    ngx_mcds_result_t *result);
static void ngx_mcds_array_write_head(ngx_mcds_array_work_t *work);
static ngx_int_t ngx_mcds_array_make_head(ngx_mcds_array_work_t *work);
static void ngx_mcds_array_head_written(void *data,
    ngx_mcds_result_t *result);
static void ngx_mcds_array_restore(ngx_event_t *ev);
static void ngx_mcds_array_restored(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_array_grew(ngx_mcds_array_work_t *work);
static ngx_msec_t ngx_mcds_array_again(void *data, ngx_uint_t tries);
static void ngx_mcds_array_change_end(ngx_mcds_array_work_t *work,
    ngx_uint_t rc);
static void ngx_mcds_array_round_clear(ngx_mcds_array_work_t *work);
static ngx_mcds_value_t *ngx_mcds_array_join(ngx_mcds_value_t *a, size_t pos,
    ngx_mcds_value_t *b);
static void ngx_mcds_array_id(u_char *id);


static ngx_uint_t   ngx_mcds_array_no_cas;     /* 1: it was logged that
                                                  memcached gives no CAS
                                                  values */


void
ngx_mcds_array_change_start(ngx_mcds_array_work_t *work)
{
    ngx_mcds_update_t  *update;

    update = &work->update;

    update->pool = work->array.pool;
    update->read = ngx_mcds_array_change_read;
    update->handler = ngx_mcds_array_head_written;
    update->data = work;
    update->max = (work->mode == NGX_MCDS_ARRAY_LOOKING)
                  ? 0 : NGX_MCDS_ARRAY_ROUNDS - 1;
    update->again = ngx_mcds_array_again;

    ngx_mcds_update_read(update);
}


static void
ngx_mcds_array_change_read(void *data)
{
    ngx_mcds_array_work_t *work = data;

    ngx_queue_t           *q;
    ngx_mcds_array_job_t  *job;

    /*
     * an append needs only the array's head item, not its older lines (parts)
     */

    work->read.head = 1;

    if (work->mode == NGX_MCDS_ARRAY_CHANGING) {

        for (q = ngx_queue_head(&work->active);
             q != ngx_queue_sentinel(&work->active);
             q = ngx_queue_next(q))
        {
            job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);

            if (job->edit) {
                work->read.head = 0;
                break;
            }
        }
    }

    work->read.array = work->array;
    work->read.handler = ngx_mcds_array_change_handler;
    work->read.data = work;

    ngx_mcds_array_read(&work->read);
}


static void
ngx_mcds_array_change_handler(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content)
{
    ngx_mcds_array_work_t  *work;

    work = data;

    if (rc != NGX_MCDS_OK) {

        if (ngx_mcds_sent(rc) && !ngx_mcds_answered(rc)) {

            /* only the read was sent: the array was certainly not changed */

            rc = NGX_MCDS_DOWN;
        }

        ngx_mcds_array_change_end(work, rc);
        return;
    }

    if (content->found && content->cas == 0) {

        if (!ngx_mcds_array_no_cas) {
            ngx_mcds_array_no_cas = 1;

            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "memcached gives no CAS in pool \"%V\", lists "
                          "cannot be changed", &work->array.pool->name);
        }

        ngx_mcds_array_change_end(work, NGX_MCDS_SERVER_ERROR);
        return;
    }

    rc = ngx_mcds_array_decide(work, content);

    if (rc != NGX_MCDS_OK || !work->round.changed) {
        ngx_mcds_array_change_end(work, rc);
        return;
    }

    ngx_mcds_array_write_parts(work);
}


/* Computes an array's new state: applies the waiting edits to its content. */

static ngx_uint_t
ngx_mcds_array_decide(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content)
{
    ngx_uint_t               rc;
    ngx_mcds_value_t        *value;
    ngx_mcds_array_edit_t    edit;
    ngx_mcds_array_piece_t  *piece;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    ngx_mcds_array_round_clear(work);

    work->done.found = content->found;
    work->done.cas = content->cas;
    work->done.crc = content->crc;
    round->ttl = content->ttl;

    round->pool = ngx_create_pool(1024, ngx_cycle->log);

    if (round->pool == NULL
        || ngx_array_init(&round->refs, round->pool, content->n + 8,
                          sizeof(ngx_mcds_array_ref_t))
           != NGX_OK
        || ngx_array_init(&round->drops, round->pool,
                          content->n + 1, sizeof(ngx_mcds_array_ref_t))
           != NGX_OK)
    {
        return NGX_MCDS_BUSY;
    }

    if (content->found) {
        piece = &content->pieces[content->n - 1];
        round->before = ngx_mcds_value_ref(piece->value);
    }

    content->memo = NULL;
    content->pool = ngx_create_pool(4096, ngx_cycle->log);

    if (content->pool == NULL) {
        return NGX_MCDS_BUSY;
    }

    rc = ngx_mcds_array_edit(work, content, &edit);

    ngx_destroy_pool(content->pool);

    if (rc == NGX_MCDS_OK) {
        rc = ngx_mcds_array_compose(work, content, &edit);
    }

    ngx_mcds_value_unref(edit.text);

    if (rc != NGX_MCDS_OK) {
        return rc;
    }

    if (edit.kind != NGX_MCDS_ARRAY_SAME) {
        round->changed = 1;
    }

    if (work->array.max && ngx_mcds_array_trim(work)) {
        round->changed = 1;
    }

    /*
     * if the head item of the array has many lines, they move to items of their
     * own (parts)
     */

    if (round->rest->len - round->pos > NGX_MCDS_ARRAY_PART) {
        round->changed = 1;
    }

    if (!round->changed) {
        return NGX_MCDS_OK;
    }

    if (round->size + round->rest->len - round->pos > NGX_MCDS_ARRAY_SIZE) {
        return NGX_MCDS_TOO_LARGE;
    }

    if (round->pos) {
        value = ngx_mcds_array_join(round->rest, round->pos, NULL);
        if (value == NULL) {
            return NGX_MCDS_BUSY;
        }

        ngx_mcds_value_unref(round->rest);
        round->rest = value;
        round->pos = 0;
    }

    return NGX_MCDS_OK;
}


static ngx_uint_t
ngx_mcds_array_edit(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content, ngx_mcds_array_edit_t *result)
{
    ngx_queue_t            *q;
    ngx_mcds_value_t       *value;
    ngx_mcds_array_job_t   *job;
    ngx_mcds_array_edit_t   edit;

    ngx_memzero(result, sizeof(ngx_mcds_array_edit_t));

    if (work->mode != NGX_MCDS_ARRAY_CHANGING) {
        return NGX_MCDS_OK;
    }

    for (q = ngx_queue_head(&work->active);
         q != ngx_queue_sentinel(&work->active);
         q = ngx_queue_next(q))
    {
        job = ngx_queue_data(q, ngx_mcds_array_job_t, queue);

        ngx_memzero(&edit, sizeof(ngx_mcds_array_edit_t));

        if (job->edit) {
            job->rc = job->edit(job->data, content, result->text, &edit);

            if (job->rc != NGX_MCDS_OK) {
                continue;
            }

        } else {
            job->rc = NGX_MCDS_OK;
            edit.kind = NGX_MCDS_ARRAY_APPEND;
            edit.text = ngx_mcds_value_ref(job->text);
        }

        if (edit.kind == NGX_MCDS_ARRAY_SAME
            || (edit.kind == NGX_MCDS_ARRAY_APPEND && edit.text == NULL))
        {
            continue;
        }

        if (result->text == NULL) {
            *result = edit;
            continue;
        }

        value = ngx_mcds_array_join(result->text, 0, edit.text);

        ngx_mcds_value_unref(result->text);
        ngx_mcds_value_unref(edit.text);

        result->text = value;

        if (value == NULL) {
            return NGX_MCDS_BUSY;
        }
    }

    return NGX_MCDS_OK;
}


/*
 * An array's older lines are in items of their own, called parts.  Collects the
 * parts that the array keeps after the change, and those lines of the array
 * that are in no part.
 */

static ngx_uint_t
ngx_mcds_array_compose(ngx_mcds_array_work_t *work,
    ngx_mcds_array_content_t *content, ngx_mcds_array_edit_t *edit)
{
    ngx_uint_t               i;
    ngx_array_t             *refs;
    ngx_mcds_array_ref_t    *ref;
    ngx_mcds_array_piece_t  *piece;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    round->base = content->base;

    if (edit->kind == NGX_MCDS_ARRAY_REPLACE) {
        round->base = edit->base;
        refs = &round->drops;
        piece = NULL;

    } else {
        refs = &round->refs;
        piece = content->n ? &content->pieces[content->n - 1] : NULL;
    }

    for (i = 0; i + 1 < content->n; i++) {

        ref = ngx_array_push(refs);
        if (ref == NULL) {
            return NGX_MCDS_BUSY;
        }

        *ref = content->pieces[i].ref;

        if (refs == &round->refs) {
            round->lines += ref->lines;
            round->size += ref->size;
        }
    }

    round->fresh = round->refs.nelts;

    round->rest = ngx_mcds_array_join(piece ? piece->value : NULL,
                                      piece ? piece->start : 0, edit->text);

    return round->rest ? NGX_MCDS_OK : NGX_MCDS_BUSY;
}


/*
 * Drops the oldest lines of an array that has more lines than it is to keep; an
 * item of older lines (a part) is dropped as a whole.
 */

static ngx_uint_t
ngx_mcds_array_trim(ngx_mcds_array_work_t *work)
{
    u_char                  *p, *last;
    ngx_uint_t               lines, max, n;
    ngx_mcds_array_ref_t    *ref, *drop;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    max = work->array.max;

    p = round->rest->data + round->pos;
    last = round->rest->data + round->rest->len;

    lines = ngx_mcds_array_lines(p, last);

    if (round->lines + lines <= max + max / 2
        && work->mode == NGX_MCDS_ARRAY_LOOKING)
    {
        return 0;
    }

    ref = round->refs.elts;

    for (n = 0; n < round->refs.nelts; n++) {

        if (round->lines - ref[n].lines + lines < max) {
            break;
        }

        drop = ngx_array_push(&round->drops);
        if (drop == NULL) {
            break;
        }

        *drop = ref[n];
        round->lines -= ref[n].lines;
        round->size -= ref[n].size;
    }

    if (n) {
        round->refs.nelts -= n;
        round->fresh = round->refs.nelts;
        ngx_memmove(ref, &ref[n],
                    round->refs.nelts * sizeof(ngx_mcds_array_ref_t));
    }

    if (round->refs.nelts || lines <= max) {
        return n;
    }

    for (n = lines - max; n; n--) {
        p = ngx_strlchr(p, last, LF);
        p++;
    }

    round->pos = p - round->rest->data;

    return 1;
}


static void
ngx_mcds_array_write_parts(ngx_mcds_array_work_t *work)
{
    ngx_uint_t               batch;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    batch = ngx_mcds_pool_batch(work->array.pool, NGX_MCDS_ARRAY_LINE);
    batch = ngx_min(batch, NGX_MCDS_ARRAY_WRITES);

    /*
     * if the lines in the array's head item exceed NGX_MCDS_ARRAY_PART bytes,
     * all of them move to items of their own (parts)
     */

    while (round->rest->len > NGX_MCDS_ARRAY_PART
           && round->rc == NGX_MCDS_OK
           && round->unanswered < batch
           && round->pos < round->rest->len)
    {
        if (ngx_mcds_array_write_part(work) != NGX_OK) {
            round->rc = NGX_MCDS_BUSY;
            break;
        }

        round->unanswered++;
    }

    if (round->unanswered) {
        return;
    }

    if (round->rc != NGX_MCDS_OK) {
        ngx_mcds_array_change_end(work, round->rc);
        return;
    }

    ngx_mcds_array_write_head(work);
}


static ngx_int_t
ngx_mcds_array_write_part(ngx_mcds_array_work_t *work)
{
    u_char                  *p, *end;
    u_char                   buf[1 + NGX_MCDS_ARRAY_ID];
    ngx_mcds_value_t        *value;
    ngx_mcds_request_t       req;
    ngx_mcds_array_ref_t    *ref;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    p = round->rest->data + round->pos;
    end = ngx_mcds_array_cut(p, round->rest->data + round->rest->len);

    value = ngx_mcds_value_create(end - p + NGX_MCDS_VALUE_SPARE,
                                  ngx_cycle->log);
    if (value == NULL) {
        return NGX_ERROR;
    }

    value->len = end - p;
    ngx_memcpy(value->data, p, value->len);

    ref = ngx_array_push(&round->refs);
    if (ref == NULL) {
        ngx_mcds_value_unref(value);
        return NGX_ERROR;
    }

    ngx_mcds_array_id(ref->id);
    ref->lines = ngx_mcds_array_lines(p, end);
    ref->size = value->len;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = work->array.key;
    ngx_mcds_array_part_suffix(&req.suffix, buf, ref->id);
    req.value = value;
    req.ttl = round->ttl;

    ngx_mcds_submit(work->array.pool, &req, ngx_mcds_array_part_op(work));

    ngx_mcds_value_unref(value);

    round->pos += end - p;

    return NGX_OK;
}


/*
 * Returns one of the operations in work->parts that is free to write a part of
 * an array, an item of older lines.  There is one, as at most
 * NGX_MCDS_ARRAY_WRITES parts are written at once.
 */

static ngx_mcds_op_t *
ngx_mcds_array_part_op(ngx_mcds_array_work_t *work)
{
    ngx_mcds_op_t  *op;

    for (op = work->parts; ngx_mcds_op_active(op); op++) { /* void */ }

    op->handler = ngx_mcds_array_part_written;
    op->data = work;

    return op;
}


static void
ngx_mcds_array_part_written(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_array_work_t  *work;

    work = data;

    work->round.unanswered--;

    if (result->rc != NGX_MCDS_OK) {

        /* the array's head item was not written, so the array is unchanged */

        work->round.rc = (result->rc == NGX_MCDS_TOO_LARGE
                          || result->rc == NGX_MCDS_SERVER_ERROR)
                         ? result->rc : NGX_MCDS_DOWN;
    }

    ngx_mcds_array_write_parts(work);
}


static void
ngx_mcds_array_write_head(ngx_mcds_array_work_t *work)
{
    ngx_mcds_request_t       req;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    if (ngx_mcds_array_make_head(work) != NGX_OK) {
        ngx_mcds_array_change_end(work, NGX_MCDS_BUSY);
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.key = work->array.key;
    req.single = 1;

    if (work->done.found) {
        req.cas = work->done.cas;

        if (round->before->len <= 2048) {
            req.old.data = round->before->data;
            req.old.len = round->before->len;
        }
    }

    if (round->head->len == 0) {

        if (!work->done.found) {
            ngx_mcds_array_change_end(work, NGX_MCDS_OK);
            return;
        }

        req.verb = NGX_MCDS_DELETE;

    } else {
        req.verb = work->done.found ? NGX_MCDS_SET : NGX_MCDS_ADD;
        req.want = NGX_MCDS_CAS;
        req.value = round->head;
        req.ttl = round->ttl;
    }

    ngx_mcds_update_write(&work->update, &req);
}


static ngx_int_t
ngx_mcds_array_make_head(ngx_mcds_array_work_t *work)
{
    u_char                  *p;
    size_t                   len, size;
    ngx_uint_t               i;
    ngx_mcds_array_ref_t    *ref;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    len = round->rest->len - round->pos;

    size = sizeof("#\n") + NGX_INT_T_LEN
           + round->refs.nelts * (sizeof("@  \n") + NGX_MCDS_ARRAY_ID
                                  + 2 * NGX_INT_T_LEN)
           + len;

    round->head = ngx_mcds_value_create(size + NGX_MCDS_VALUE_SPARE,
                                        ngx_cycle->log);

    if (round->head == NULL) {
        return NGX_ERROR;
    }

    p = round->head->data;

    if (round->base && (len || round->refs.nelts)) {
        p = ngx_sprintf(p, "#%ui\n", round->base);
    }

    ref = round->refs.elts;

    for (i = 0; i < round->refs.nelts; i++) {
        p = ngx_sprintf(p, "@%*s %ui %uz\n", (size_t) NGX_MCDS_ARRAY_ID,
                        ref[i].id, ref[i].lines, ref[i].size);
    }

    p = ngx_cpymem(p, round->rest->data + round->pos, len);

    round->head->len = p - round->head->data;

    return NGX_OK;
}


static void
ngx_mcds_array_head_written(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_array_work_t   *work;
    ngx_mcds_array_round_t  *round;

    work = data;
    round = &work->round;

    switch (result->rc) {

    case NGX_MCDS_OK:
        work->done.found = (round->head->len != 0);
        work->done.cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;
        work->done.crc = ngx_crc32_long(round->head->data, round->head->len);

        ngx_mcds_array_drop(&work->array, round->drops.elts,
                            round->drops.nelts);
        ngx_mcds_array_grew(work);

        /*
         * the item under the array's key (the head), now stored, refers to the
         * items of older lines (parts) that this change has written: the end of
         * the change must not delete them
         */

        round->fresh = round->refs.nelts;

        ngx_mcds_array_change_end(work, NGX_MCDS_OK);
        return;

    case NGX_MCDS_EXISTS:
    case NGX_MCDS_NOT_FOUND:
    case NGX_MCDS_NOT_STORED:
        ngx_mcds_array_change_end(work, NGX_MCDS_EXISTS);
        return;

    case NGX_MCDS_TOO_LARGE:
    case NGX_MCDS_SERVER_ERROR:

        if (round->before && round->head->len) {
            round->rc = result->rc;

            work->restore.handler = ngx_mcds_array_restore;
            work->restore.data = work;
            work->restore.log = ngx_cycle->log;

            ngx_mcds_array_restore(&work->restore);
            return;
        }

        break;

    case NGX_MCDS_TIMEOUT:
    case NGX_MCDS_CLOSED:
    case NGX_MCDS_PROTOCOL:

        /* keep new parts (items): the array's head item may refer to them */

        round->fresh = round->refs.nelts;
        break;
    }

    ngx_mcds_array_change_end(work, result->rc);
}


/*
 * Puts the head item of an array back, as it was before a change that memcached
 * has refused: memcached then deletes the old item, even if the command for the
 * new one has a CAS value.  The parts to which the old item refers still exist.
 */

static void
ngx_mcds_array_restore(ngx_event_t *ev)
{
    ngx_mcds_request_t      req;
    ngx_mcds_array_work_t  *work;

    work = ev->data;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    /*
     * an add, as the item may still exist (the classic protocol keeps it), or
     * another worker may have begun the array anew
     */

    req.verb = NGX_MCDS_ADD;
    req.key = work->array.key;
    req.value = work->round.before;
    req.ttl = work->round.ttl;
    req.single = 1;

    work->op.handler = ngx_mcds_array_restored;
    work->op.data = work;

    ngx_mcds_submit(work->array.pool, &req, &work->op);
}


static void
ngx_mcds_array_restored(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t              rc;
    ngx_mcds_key_t          key;
    ngx_mcds_array_work_t  *work;

    work = data;
    rc = work->round.rc;

    if (result->rc == NGX_MCDS_SERVER_ERROR
        && ++work->round.restores < NGX_MCDS_ARRAY_RESTORES)
    {
        /*
         * the memory of the old item may not be free yet, as memcached keeps
         * an item that has just been read for up to a second
         */

        ngx_add_timer(&work->restore,
                      (ngx_msec_t) 1 << work->round.restores);
        return;
    }

    if (result->rc != NGX_MCDS_OK && result->rc != NGX_MCDS_NOT_STORED) {

        ngx_mcds_key_show(&key, &work->array.key);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached has refused a change of the list \"%*s\" and "
                      "deleted the list, which could not be stored again: %s",
                      (size_t) key.len, key.data,
                      ngx_mcds_strerror(result->rc));

        /* the status after TOO_LARGE says that the array is unchanged */

        rc = NGX_MCDS_SERVER_ERROR;
    }

    ngx_mcds_array_change_end(work, rc);
}


static void
ngx_mcds_array_grew(ngx_mcds_array_work_t *work)
{
    ngx_uint_t               i, lines;
    ngx_mcds_array_ref_t    *ref;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    if (work->array.grown == NULL || round->fresh == round->refs.nelts) {
        return;
    }

    ref = round->refs.elts;
    lines = 0;

    for (i = 0; i < round->refs.nelts; i++) {
        lines += ref[i].lines;
    }

    work->array.grown(&work->array, lines, round->base);
}


static ngx_msec_t
ngx_mcds_array_again(void *data, ngx_uint_t tries)
{
    ngx_msec_t  delay;

    ngx_mcds_array_round_clear(data);

    if (tries < 3) {
        return 0;
    }

    delay = (ngx_msec_t) 1 << ngx_min(tries - 2, 6);
    delay = ngx_min(delay, NGX_MCDS_ARRAY_MAX_DELAY);

    return 1 + (ngx_msec_t) ngx_random() % delay;
}


static void
ngx_mcds_array_change_end(ngx_mcds_array_work_t *work, ngx_uint_t rc)
{
    ngx_mcds_array_round_clear(work);

    switch (work->mode) {

    case NGX_MCDS_ARRAY_MAKING_ROOM:

        if (rc == NGX_MCDS_OK || rc == NGX_MCDS_EXISTS) {
            ngx_mcds_array_append_send(work, NGX_MCDS_APPEND);
            return;
        }

        if (rc == NGX_MCDS_TIMEOUT
            || rc == NGX_MCDS_CLOSED
            || rc == NGX_MCDS_PROTOCOL)
        {
            /*
             * the lines to append waited for room in the array's head item:
             * they were certainly not appended
             */

            rc = NGX_MCDS_DOWN;
        }

        break;

    case NGX_MCDS_ARRAY_LOOKING:
        work->full = (rc == NGX_MCDS_TOO_LARGE);
        ngx_mcds_array_next_round(work);
        return;

    default:
        break;
    }

    ngx_mcds_array_end(work, rc);
}


/*
 * Ends a change of an array: deletes the items of older lines (parts) that were
 * written for the change, but to which the array's head item does not refer.
 */

static void
ngx_mcds_array_round_clear(ngx_mcds_array_work_t *work)
{
    ngx_mcds_array_ref_t    *ref;
    ngx_mcds_array_round_t  *round;

    round = &work->round;

    if (round->fresh < round->refs.nelts) {
        ref = round->refs.elts;
        ngx_mcds_array_drop(&work->array, &ref[round->fresh],
                            round->refs.nelts - round->fresh);
    }

    ngx_mcds_value_unref(round->rest);
    ngx_mcds_value_unref(round->head);
    ngx_mcds_value_unref(round->before);

    if (round->pool) {
        ngx_destroy_pool(round->pool);
    }

    ngx_memzero(round, sizeof(ngx_mcds_array_round_t));
}


/*
 * Joins lines of an array: returns a new value with the lines of the value a,
 * from pos on, followed by those of b; a and b may be NULL.
 */

static ngx_mcds_value_t *
ngx_mcds_array_join(ngx_mcds_value_t *a, size_t pos, ngx_mcds_value_t *b)
{
    u_char            *p;
    size_t             size;
    ngx_mcds_value_t  *value;

    size = (a ? a->len - pos + 1 : 0) + (b ? b->len : 0);

    value = ngx_mcds_value_create(size + NGX_MCDS_VALUE_SPARE, ngx_cycle->log);
    if (value == NULL) {
        return NULL;
    }

    p = value->data;

    if (a && a->len > pos) {
        p = ngx_cpymem(p, a->data + pos, a->len - pos);

        if (p[-1] != LF) {

            /* another program has appended a line without LF to the array */

            *p++ = LF;
        }
    }

    if (b) {
        p = ngx_cpymem(p, b->data, b->len);
    }

    value->len = p - value->data;

    return value;
}


static void
ngx_mcds_array_id(u_char *id)
{
    u_char  bytes[8];

    ngx_mcds_random(bytes, sizeof(bytes));

    (void) ngx_hex_dump(id, bytes, sizeof(bytes));
}
