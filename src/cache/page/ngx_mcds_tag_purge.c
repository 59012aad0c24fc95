
/*
 * Copyright (C) mcds authors
 *
 * Purges of all pages with a tag, of all pages of a host, or of all pages, see
 * ngx_mcds_tag.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_tag.h"
#include "ngx_mcds_tag_record.h"
#include "ngx_mcds_update.h"


/*
 * the number of attempts to change a tag's record in memcached after which the
 * record is overwritten
 */
#define NGX_MCDS_TAG_TRIES        16


typedef struct ngx_mcds_tag_purge_s  ngx_mcds_tag_purge_t;


/* the commands that a purge by tag sends to one of the servers */

typedef struct {
    ngx_mcds_tag_purge_t *purge;
    uint64_t              counter;
    ngx_uint_t            reached;     /* the server has incremented its purge
                                          counter */
    ngx_mcds_op_t         op;          /* command that increments the server's
                                          purge counter */
    ngx_mcds_update_t     update;      /* update of the tag's record on the
                                          server */
    u_char                text[NGX_MCDS_TAG_RECORD + 1];
} ngx_mcds_tag_leg_t;


/*
 * a purge by tag that is under way; the memory of the name of the tag's record
 * follows "legs", the commands to the servers
 */

struct ngx_mcds_tag_purge_s {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            how;
    uint64_t              counter;     /* value to raise all servers' purge
                                          counters to: the largest of them, or
                                          the present time if that is larger */
    ngx_mcds_tag_pt       handler;
    void                 *data;
    ngx_str_t             record;
    ngx_uint_t            unanswered;
    ngx_uint_t            rc;
    ngx_uint_t            n;
    ngx_mcds_tag_leg_t    legs[1];
};


static void ngx_mcds_tag_purge_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_write(ngx_mcds_tag_purge_t *purge);
static void ngx_mcds_tag_raised(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_update(ngx_mcds_tag_leg_t *leg, ngx_uint_t server);
static ngx_int_t ngx_mcds_tag_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static void ngx_mcds_tag_set(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_tag_purge_done(ngx_mcds_tag_purge_t *purge, ngx_uint_t rc);
static void ngx_mcds_tag_end(ngx_mcds_tag_purge_t *purge);


ngx_int_t
ngx_mcds_tag_purge(ngx_mcds_pool_t *pool, ngx_str_t *record, ngx_uint_t how,
    uint64_t now, ngx_mcds_tag_pt handler, void *data)
{
    u_char                *p;
    ngx_uint_t             i, n;
    ngx_mcds_request_t     req;
    ngx_mcds_tag_leg_t    *leg;
    ngx_mcds_tag_purge_t  *purge;

    n = pool->servers.nelts;

    purge = ngx_calloc(sizeof(ngx_mcds_tag_purge_t)
                       + n * sizeof(ngx_mcds_tag_leg_t) + record->len,
                       ngx_cycle->log);
    if (purge == NULL) {
        return NGX_ERROR;
    }

    purge->pool = pool;
    purge->how = how;
    purge->handler = handler;
    purge->data = data;
    purge->n = n;

    /*
     * The value that the purge sets the servers' purge counters to is at least
     * the present time in ms.  Each counter starts at the time when it was
     * created: so the value is not below the start of any counter, even of one
     * that the purge does not read because its server is down by configuration.
     */

    purge->counter = now;

    p = (u_char *) purge + sizeof(ngx_mcds_tag_purge_t)
        + n * sizeof(ngx_mcds_tag_leg_t);

    purge->record.data = p;
    purge->record.len = record->len;
    ngx_memcpy(p, record->data, record->len);

    ngx_mcds_tag_count(&req, now);
    req.delta = 1;

    for (i = 0; i < n; i++) {

        if (ngx_mcds_disabled(pool, i)) {

            /*
             * the purge leaves out a server that is down by configuration:
             * nginx reads no pages from such a server, and the administrator
             * must empty the server before nginx uses it again
             */

            continue;
        }

        leg = &purge->legs[i];
        leg->purge = purge;
        leg->op.handler = ngx_mcds_tag_purge_counted;
        leg->op.data = leg;

        ngx_mcds_submit_to(pool, i, &req, &leg->op);
        purge->unanswered++;
    }

    if (purge->unanswered == 0) {
        ngx_free(purge);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_mcds_tag_purge_counted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_leg_t *leg = data;

    ngx_uint_t             rc;
    ngx_mcds_tag_purge_t  *purge;

    purge = leg->purge;
    rc = ngx_mcds_tag_number(result, &leg->counter);

    if (rc == NGX_MCDS_OK) {
        purge->counter = ngx_max(purge->counter, leg->counter);
        leg->reached = 1;

    } else {
        purge->rc = rc;
    }

    if (--purge->unanswered == 0) {
        ngx_mcds_tag_write(purge);
    }
}


/*
 * On each server that has answered, raises the purge counter to the value
 * purge->counter, and writes this value to the tag's record.  All pages that
 * were made before, with the purge counter of one of these servers, have a
 * lower value.
 */

static void
ngx_mcds_tag_write(ngx_mcds_tag_purge_t *purge)
{
    ngx_uint_t           i;
    ngx_mcds_tag_leg_t  *leg;
    ngx_mcds_request_t   req;

    ngx_mcds_tag_count(&req, purge->counter);

    for (i = 0; i < purge->n; i++) {
        leg = &purge->legs[i];

        if (!leg->reached) {
            continue;
        }

        if (leg->counter < purge->counter) {
            req.delta = purge->counter - leg->counter;

            leg->op.handler = ngx_mcds_tag_raised;

            ngx_mcds_submit_to(purge->pool, i, &req, &leg->op);
            purge->unanswered++;
        }

        ngx_mcds_tag_update(leg, i);
        purge->unanswered++;
    }

    if (purge->unanswered == 0) {
        ngx_mcds_tag_end(purge);
    }
}


static void
ngx_mcds_tag_raised(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_leg_t *leg = data;

    uint64_t  counter;

    ngx_mcds_tag_purge_done(leg->purge, ngx_mcds_tag_number(result, &counter));
}


/*
 * changes the record of a tag on one server; after NGX_MCDS_TAG_TRIES attempts
 * the record is overwritten
 */

static void
ngx_mcds_tag_update(ngx_mcds_tag_leg_t *leg, ngx_uint_t server)
{
    ngx_mcds_update_t  *update;

    update = &leg->update;

    update->pool = leg->purge->pool;
    update->server = server + 1;
    update->edit = ngx_mcds_tag_edit;
    update->handler = ngx_mcds_tag_set;
    update->data = leg;
    update->max = NGX_MCDS_TAG_TRIES;
    update->force = 1;

    ngx_mcds_tag_request(&update->get, &leg->purge->record);

    update->get.verb = NGX_MCDS_GET;
    update->get.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    update->get.limit = NGX_MCDS_TAG_RECORD;

    ngx_mcds_update(update);
}


static ngx_int_t
ngx_mcds_tag_edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    uint64_t               purged, deleted, n;
    ngx_mcds_tag_leg_t    *leg;
    ngx_mcds_tag_purge_t  *purge;

    leg = data;
    purge = leg->purge;
    n = purge->counter;

    if (!ngx_mcds_answered(now->rc) || now->rc == NGX_MCDS_SERVER_ERROR) {
        ngx_mcds_tag_purge_done(purge, now->rc);
        return NGX_DONE;
    }

    /*
     * if the record of a tag is missing or invalid, all pages with the tag
     * count as deleted
     */

    if (now->rc != NGX_MCDS_OK
        || ngx_mcds_tag_parse(now, &purged, &deleted) != NGX_OK)
    {
        purged = n;
        deleted = n;
    }

    purged = ngx_max(purged, n);

    if (purge->how == NGX_MCDS_PURGE_DELETE) {
        deleted = ngx_max(deleted, n);
    }

    if (leg->update.tries == NGX_MCDS_TAG_TRIES) {
        deleted = purged;
    }

    req->text.data = leg->text;
    req->text.len = ngx_sprintf(leg->text, "%uL %uL", purged, deleted)
                    - leg->text;

    return NGX_OK;
}


static void
ngx_mcds_tag_set(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_tag_leg_t *leg = data;

    ngx_mcds_tag_purge_done(leg->purge, result->rc);
}


/*
 * Notes the end of one command that a purge by tag has sent to a server; after
 * the last command the purge ends.  One failed command makes the whole purge
 * fail.
 */

static void
ngx_mcds_tag_purge_done(ngx_mcds_tag_purge_t *purge, ngx_uint_t rc)
{
    if (rc != NGX_MCDS_OK) {
        purge->rc = rc;
    }

    if (--purge->unanswered == 0) {
        ngx_mcds_tag_end(purge);
    }
}


static void
ngx_mcds_tag_end(ngx_mcds_tag_purge_t *purge)
{
    purge->handler(purge->data, purge->rc);

    ngx_free(purge);
}
