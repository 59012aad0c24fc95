
/*
 * Copyright (C) mcds authors
 *
 * Pages as they were read or built, shared by all requests that use them; and
 * the lists of pages that vary, which a worker remembers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lack.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"
#include "ngx_mcds_vary.h"


static char *ngx_mcds_copy_unusable(ngx_mcds_page_t *page,
    ngx_mcds_entry_t *entry, ngx_mcds_stamp_t *stamp);


/* NULL: left out */

ngx_mcds_varying_t  *ngx_mcds_varying =
#if !(NGX_MCDS_WITHOUT_VARY)
    &ngx_mcds_vary_functions;
#else
    NULL;
#endif

ngx_mcds_signing_t  *ngx_mcds_signing =
#if !(NGX_MCDS_WITHOUT_HMAC)
    &ngx_mcds_sign_functions;
#else
    NULL;
#endif


ngx_mcds_copy_t *
ngx_mcds_copy_ref(ngx_mcds_copy_t *copy)
{
    copy->refs++;

    return copy;
}


void
ngx_mcds_copy_unref(ngx_mcds_copy_t *copy)
{
    if (copy && --copy->refs == 0) {
        if (copy->kept) {
            copy->unkeep(copy->kept);
        }

        ngx_mcds_copy_unref(copy->first);

        if (copy->prepared) {
            ngx_free(copy->prepared);
        }

        ngx_mcds_value_unref(copy->value);

        if (copy->page) {
            ngx_mcds_page_unref(copy->page);
        }

        ngx_free(copy);
    }
}


ngx_mcds_copy_t *
ngx_mcds_copy_create(ngx_mcds_page_t *page, ngx_mcds_value_t *value,
    ngx_mcds_stamp_t *stamp)
{
    char             *why;
    ngx_mcds_copy_t  *copy;

    copy = ngx_alloc(sizeof(ngx_mcds_copy_t), ngx_cycle->log);
    if (copy == NULL) {
        return NULL;
    }

    if (ngx_mcds_entry_read(&copy->entry, value->data, value->len, &page->key,
                            &why)
        == NGX_OK)
    {
        why = ngx_mcds_copy_unusable(page, &copy->entry, stamp);
    }

    if (why) {
        ngx_mcds_page_not_used(page, why);
        ngx_free(copy);
        return NULL;
    }

    /* the dates of a page that was built here are from this host's clock */

    if (stamp && stamp->cas) {
        ngx_mcds_skew_mend(&copy->entry, page->pool, ngx_mcds_now(),
                           ngx_cycle->log);
    }

    copy->refs = 1;
    copy->page = page;
    copy->value = ngx_mcds_value_ref(value);
    copy->checked = NULL;
    copy->prepared = NULL;
    copy->kept = NULL;
    copy->first = NULL;

    if (stamp) {
        copy->stamp = *stamp;

    } else {
        ngx_memzero(&copy->stamp, sizeof(ngx_mcds_stamp_t));
    }

    ngx_mcds_page_ref(page);
    ngx_mcds_page_saw(page, copy);

    return copy;
}


ngx_mcds_copy_t *
ngx_mcds_copy_result(ngx_mcds_page_t *page, ngx_mcds_result_t *result)
{
    ngx_mcds_copy_t   *copy;
    ngx_mcds_stamp_t   stamp;
    ngx_mcds_value_t  *value;

    value = ngx_mcds_result_value(result, ngx_cycle->log);
    if (value == NULL) {
        return NULL;
    }

    ngx_mcds_page_stamp(&stamp, result);

    copy = ngx_mcds_copy_create(page, value, &stamp);
    ngx_mcds_value_unref(value);

    return copy;
}


/* the entry is of another version, or of a build with more features */

static char *
ngx_mcds_copy_unusable(ngx_mcds_page_t *page, ngx_mcds_entry_t *entry,
    ngx_mcds_stamp_t *stamp)
{
    char  *why;

    why = ngx_mcds_entry_lacks(entry);

    if (why) {

        /* the "expire" of a list is the time of a purge */

        if (stamp) {
            page->foreign = (entry->kind == NGX_MCDS_ENTRY_VARY
                             || entry->expire + NGX_MCDS_SKEW_MAX
                                > ngx_mcds_now()) ? stamp->cas : 0;
        }

        return why;
    }

    if (entry->kind == NGX_MCDS_ENTRY_VARY
        && ngx_mcds_varying->check(&entry->ext, &entry->body) != NGX_OK)
    {
        return "no list of headers";
    }

    if (entry->total > page->limit || entry->length > page->limit) {
        return "too large";
    }

    return NULL;
}


ngx_int_t
ngx_mcds_copy_signed(ngx_mcds_copy_t *copy, ngx_array_t *secrets)
{
    ngx_mcds_key_t     key;
    ngx_mcds_page_t   *page;
    ngx_mcds_entry_t  *entry;

    entry = &copy->entry;

    if (secrets == NULL
        || copy->checked == secrets
        || entry->kind == NGX_MCDS_ENTRY_PURGED)
    {
        return NGX_OK;
    }

    if (ngx_mcds_signing->check(copy->value->data, copy->value->len, entry,
                                secrets)
        != NGX_OK)
    {
        ngx_mcds_key_show(&key, &entry->key);

        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "page \"%*s\" is not signed",
                      (size_t) key.len, key.data);

        return NGX_DECLINED;
    }

    /* for all requests that share this copy */

    copy->checked = secrets;

    page = copy->page;

    if (page && page->cut_cas && page->cut_cas == copy->stamp.cas) {
        page->cut_signed = secrets;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_page_signed(ngx_mcds_copy_t *copy, ngx_queue_t *seats)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    for (q = ngx_queue_head(seats);
         q != ngx_queue_sentinel(seats);
         q = ngx_queue_next(q))
    {
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        if (ngx_mcds_copy_signed(copy, seat->secrets) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


void
ngx_mcds_page_stamp(ngx_mcds_stamp_t *stamp, ngx_mcds_result_t *result)
{
    stamp->cas = result->cas;
    stamp->flags = result->flags;
}


void
ngx_mcds_page_saw(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    if (copy->stamp.cas == 0) {
        return;
    }

    if (copy->entry.kind == NGX_MCDS_ENTRY_VARY) {
        ngx_mcds_page_remember(page, copy);
    }

    if (!ngx_mcds_body_apart(&copy->entry)) {
        return;
    }

    ngx_mcds_body_cut(&copy->entry, &page->cut);

    page->cut_cas = copy->stamp.cas;
    page->cut_signed = copy->checked;
}


/*
 * The remembered list has no reference of its page, which otherwise would never
 * be freed.
 */

void
ngx_mcds_page_remember(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_mcds_copy_t  *list;

    ngx_mcds_page_forget_list(page);

    list = ngx_alloc(sizeof(ngx_mcds_copy_t), ngx_cycle->log);
    if (list == NULL) {
        return;
    }

    *list = *copy;

    list->refs = 1;
    list->page = NULL;
    list->value = ngx_mcds_value_ref(copy->value);
    list->prepared = NULL;
    list->kept = NULL;
    list->first = NULL;

    page->list = list;
    page->forget = ngx_mcds_page_forget_list;
}


void
ngx_mcds_page_forget_list(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_unref(page->list);
    page->list = NULL;
    page->list_asked = 0;
}


void
ngx_mcds_page_confirmed(ngx_mcds_page_t *page, ngx_atomic_uint_t purges)
{
    page->list_asked = ngx_mcds_clock(ngx_current_msec);
    page->list_purges = purges;
}
