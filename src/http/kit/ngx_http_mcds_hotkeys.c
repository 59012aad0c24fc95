
/*
 * Copyright (C) mcds authors
 *
 * A worker publishes its hot keys, the keys requested most often, by a timer
 * that starts when the worker counts a request: an idle worker has no timer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_timer.h"
#include "ngx_http_mcds_hotkeys.h"


/*
 * milliseconds after which a worker publishes the counts of its hot keys, the
 * keys requested most often, to the other workers
 */
#define NGX_HTTP_MCDS_HOTKEYS_INTERVAL 500


static void ngx_http_mcds_hotkeys_changed(void);
static void ngx_http_mcds_hotkeys_handler(ngx_event_t *ev);


static ngx_event_t  ngx_http_mcds_hotkeys_timer;


void
ngx_http_mcds_hotkeys_start(ngx_mcds_hotkeys_place_t *places, ngx_log_t *log)
{
    if (ngx_mcds_hotkeys) {
        ngx_mcds_hotkeys_destroy(ngx_mcds_hotkeys);
        ngx_mcds_hotkeys = NULL;
    }

    if (places == NULL) {
        return;
    }

    ngx_mcds_hotkeys = ngx_mcds_hotkeys_create(places, ngx_worker, log);

    ngx_mcds_timer_init(&ngx_http_mcds_hotkeys_timer,
                        ngx_http_mcds_hotkeys_handler);
    ngx_http_mcds_hotkeys_timer.cancelable = 1;
}


void
ngx_http_mcds_hotkeys_add(ngx_uint_t kind, ngx_str_t *key)
{
    if (ngx_mcds_hotkeys == NULL || ngx_mcds_hotkeys->place == NULL) {
        return;
    }

    ngx_mcds_hotkeys_add(ngx_mcds_hotkeys, kind, key);

    ngx_http_mcds_hotkeys_changed();
}


void
ngx_http_mcds_hotkeys_note(ngx_uint_t kind, ngx_str_t *key, uint64_t value)
{
    if (ngx_mcds_hotkeys == NULL || ngx_mcds_hotkeys->place == NULL) {
        return;
    }

    ngx_mcds_hotkeys_note(ngx_mcds_hotkeys, kind, key, value);

    ngx_http_mcds_hotkeys_changed();
}


static void
ngx_http_mcds_hotkeys_changed(void)
{
    if (!ngx_http_mcds_hotkeys_timer.timer_set) {
        ngx_add_timer(&ngx_http_mcds_hotkeys_timer,
                      NGX_HTTP_MCDS_HOTKEYS_INTERVAL);
    }
}


static void
ngx_http_mcds_hotkeys_handler(ngx_event_t *ev)
{
    if (ngx_mcds_hotkeys) {
        ngx_mcds_hotkeys_publish(ngx_mcds_hotkeys);
    }
}
