
/*
 * Copyright (C) mcds authors
 *
 * mcds lock: shows and releases the locks of the directives mcds_lock and
 * mcds_lock_api, which other programs share with nginx.
 */


#include "mcds_lock.h"
#include "ngx_mcds_lock.h"


typedef struct {
    ngx_mcds_lock_change_t   change;
    ngx_uint_t               done;
    ngx_uint_t               rc;
    int64_t                  ttl;
    uint64_t                 number;
    ngx_uint_t               known;     /* 1: the item in memcached is a lock */
    size_t                   len;       /* bytes of the name of the lock's
                                           owner */
    u_char                   owner[NGX_MCDS_LOCK_OWNER];
} mcds_look_t;


static void mcds_lock_look(mcds_t *m, ngx_str_t *key, mcds_look_t *look);
static void mcds_lock_done(void *data, ngx_mcds_lock_state_t *state);
static void mcds_lock_free(mcds_t *m, ngx_str_t *key);


void
mcds_lock(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t       *list, *o;
    ngx_uint_t    i;
    mcds_look_t   look;

    if (mcds_is(&args[0], "run")) {

        if (m->o.command != 2) {
            mcds_usage(m, "run needs a key, and \"--\" before the command");
        }

        mcds_site_pool(m, "mcds_lock mcds_lock_api", NULL);
        mcds_lock_run(m, &args[1], n - 1);
        return;
    }

    if (m->o.ttl || m->o.wait) {
        mcds_usage(m, "%s does not accept --ttl and --wait", args[0].data);
    }

    mcds_site_pool(m, "mcds_lock mcds_lock_api", NULL);

    if (mcds_is(&args[0], "free")) {

        if (n != 2) {
            mcds_usage(m, "free takes exactly one key");
        }

        mcds_lock_free(m, &args[1]);
        return;
    }

    if (!mcds_is(&args[0], "show")) {
        mcds_usage(m, "unknown subcommand: %s", args[0].data);
    }

    list = json_array();

    for (i = 1; i < n; i++) {
        mcds_lock_look(m, &args[i], &look);

        o = json_object();
        mcds_put(o, "key", mcds_json(&args[i]));

        if (look.rc == NGX_MCDS_NOT_FOUND) {
            mcds_put(o, "state", json_string("free"));
            m->status = ngx_max(m->status, MCDS_NO);

        } else if (look.rc != NGX_MCDS_OK) {
            mcds_put(o, "state", json_string("unknown"));
            mcds_failed(m, &args[i], look.rc);

        } else if (!look.known) {
            mcds_put(o, "state", json_string("not a lock"));
            m->status = ngx_max(m->status, MCDS_NO);

        } else {
            mcds_put(o, "state", json_string("held"));
            mcds_put(o, "number", mcds_count(look.number));
            mcds_put(o, "owner", mcds_str(look.owner, look.len));
            mcds_put(o, "ttl", look.ttl < 0 ? json_null()
                                            : json_integer(look.ttl));
        }

        (void) json_array_append_new(list, o);
    }

    mcds_show(m, list);
}


static void
mcds_lock_look(mcds_t *m, ngx_str_t *key, mcds_look_t *look)
{
    ngx_memzero(look, sizeof(mcds_look_t));

    look->change.pool = m->pool;
    look->change.key = *key;
    look->change.handler = mcds_lock_done;
    look->change.data = look;

    ngx_mcds_lock_change(&look->change);

    mcds_wait(&look->done);
}


static void
mcds_lock_done(void *data, ngx_mcds_lock_state_t *state)
{
    mcds_look_t *look = data;

    look->done = 1;
    look->rc = state->rc;
    look->ttl = state->ttl;

    if (state->item) {
        look->known = 1;
        look->number = state->item->number;
        look->len = ngx_min(state->item->owner.len, NGX_MCDS_LOCK_OWNER);
        ngx_memcpy(look->owner, state->item->owner.data, look->len);
    }
}


/*
 * reads the owner of a lock, and then releases the lock only if it still has
 * this owner: an owner that gets the lock between these two steps keeps it
 */

static void
mcds_lock_free(mcds_t *m, ngx_str_t *key)
{
    json_t       *o;
    mcds_look_t   look, freed;

    mcds_lock_look(m, key, &look);

    if (look.rc != NGX_MCDS_OK) {
        mcds_failed(m, key, look.rc);
        return;
    }

    if (!look.known) {
        mcds_error(m, MCDS_NO, "%.*s: not a lock", (int) key->len, key->data);
        return;
    }

    ngx_memzero(&freed, sizeof(mcds_look_t));

    freed.change.pool = m->pool;
    freed.change.key = *key;
    freed.change.item.number = look.number;
    freed.change.item.owner.data = look.owner;
    freed.change.item.owner.len = look.len;
    freed.change.handler = mcds_lock_done;
    freed.change.data = &freed;

    ngx_mcds_lock_change(&freed.change);

    mcds_wait(&freed.done);

    if (freed.rc != NGX_MCDS_OK) {
        mcds_failed(m, key, freed.rc);
    }

    o = json_object();
    mcds_put(o, "key", mcds_json(key));
    mcds_put(o, "freed", json_boolean(freed.rc == NGX_MCDS_OK));
    mcds_put(o, "owner", mcds_str(look.owner, look.len));

    mcds_show(m, o);
}
