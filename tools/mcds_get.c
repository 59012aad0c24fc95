
/*
 * Copyright (C) mcds authors
 *
 * mcds get: the stored data of a page.
 */


#include "mcds_get.h"
#include "mcds_page.h"
#include "ngx_mcds_lease.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"
#include "ngx_mcds_tag.h"
#include "ngx_mcds_vary.h"


/* the maximum size of an item that the command "get" reads, bytes */
#define MCDS_GET_LIMIT            (128 * 1024 * 1024)

/*
 * the number of bytes that the command "get" shows of an item that is no page
 */
#define MCDS_GET_PREVIEW          64


static void mcds_get_entry(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    mcds_answer_t *answer, ngx_array_t *secrets, ngx_mcds_entry_t *list);
static char *mcds_get_purged(ngx_mcds_entry_t *entry, ngx_mcds_entry_t *list,
    uint64_t now);
static void mcds_get_route(json_t *o, ngx_mcds_entry_t *entry);
static void mcds_get_times(json_t *o, ngx_mcds_entry_t *entry, uint64_t now);
static void mcds_get_headers(json_t *o, ngx_mcds_entry_t *entry);
static void mcds_get_tags(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry);
static void mcds_get_tags_done(void *data);


void
mcds_get(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t       *list, *o;
    ngx_uint_t    i;
    mcds_page_t  *page;
    ngx_array_t  *pages, *secrets;

    if (n + m->o.keys.nelts == 0) {
        mcds_usage(m, "needs a URL or --key");
    }

    if (m->o.body && n + m->o.keys.nelts > 1) {
        mcds_usage(m, "--body accepts one page only");
    }

    if (m->o.body && m->o.json) {
        mcds_usage(m, "--body and --json exclude each other");
    }

    pages = mcds_pages(m, args, n);
    secrets = mcds_site_secrets(m);

    list = json_array();
    page = pages->elts;

    for (i = 0; i < pages->nelts; i++) {
        m->pool = page[i].pool;

        if (m->o.body) {
            mcds_get_print(m, &page[i].name, secrets);
            continue;
        }

        o = mcds_get_page(m, &page[i].name, secrets, NULL);
        mcds_get_lock(m, o, &page[i].name);

        if (json_is_false(json_object_get(o, "found"))
            && m->status < MCDS_UNREACHABLE)
        {
            mcds_page_doubt(m, &page[i]);
        }

        (void) json_array_append_new(list, o);
    }

    if (m->o.body) {
        json_decref(list);

    } else {
        mcds_show(m, list);
    }
}


void
mcds_get_request(ngx_mcds_request_t *req, ngx_str_t *key)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->verb = NGX_MCDS_GET;
    req->want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    req->key = *key;
    req->limit = MCDS_GET_LIMIT;
    req->bulk = 1;
    req->page = 1;
    req->movable = 1;
}


json_t *
mcds_get_page(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets,
    ngx_mcds_entry_t *list)
{
    char                *why;
    json_t              *o;
    ngx_uint_t           rc;
    mcds_answer_t        answer, listed;
    ngx_mcds_key_t       real;
    ngx_mcds_entry_t     entry, of;
    ngx_mcds_request_t   req;

    mcds_get_request(&req, key);
    ngx_mcds_op_key(&real, m->pool, &req, &req.suffix);

    o = json_object();

    mcds_page_put(o, key);
    mcds_put(o, "pool", mcds_json(&m->pool->name));
    mcds_put(o, "server", mcds_json(mcds_server(m, &req)));
    mcds_put(o, "memcached_key", mcds_str(real.data, real.len));

    rc = mcds_do(m, &req, &answer);

    mcds_put(o, "found", json_boolean(rc == NGX_MCDS_OK));

    if (rc == NGX_MCDS_NOT_FOUND) {
        m->status = ngx_max(m->status, MCDS_NO);
        mcds_put(o, "state", json_string("missing"));
        return o;
    }

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "state", json_string("unknown"));
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, key, rc);
        return o;
    }

    why = "variants of a variant";

    if (ngx_mcds_entry_read(&entry, answer.text.data, answer.text.len, key,
                            &why)
        != NGX_OK
        || (list && entry.kind == NGX_MCDS_ENTRY_VARY))
    {
        m->status = ngx_max(m->status, MCDS_NO);

        mcds_put(o, "state", json_string("not a page"));
        mcds_put(o, "why", json_string(why));
        mcds_put(o, "size", json_integer(answer.text.len));
        mcds_put(o, "begins", mcds_str(answer.text.data,
                                       ngx_min(answer.text.len,
                                               MCDS_GET_PREVIEW)));
        mcds_answer_free(&answer);
        return o;
    }

    ngx_memzero(&listed, sizeof(mcds_answer_t));

    if (list == NULL && mcds_get_list(m, key, &of, &listed) == NGX_OK) {
        list = &of;
    }

    mcds_get_entry(m, o, &entry, &answer, mcds_get_secrets(m, &entry, secrets),
                   list);

    mcds_answer_free(&listed);
    mcds_answer_free(&answer);

    return o;
}


/*
 * Returns "secrets", the keys that check a page's signature, or NULL, for no
 * check, if the page has no signature and --hmac-key-file is not given: the
 * tool does not know whether nginx's configuration demands a signature.
 */

ngx_array_t *
mcds_get_secrets(mcds_t *m, ngx_mcds_entry_t *entry, ngx_array_t *secrets)
{
    ngx_str_t  sign;

    if (m->o.hmac.nelts == 0
        && ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_SIGN, &sign) != NGX_OK)
    {
        return NULL;
    }

    return secrets;
}


char *
mcds_get_state(ngx_mcds_entry_t *entry, uint64_t now)
{
    switch (entry->kind) {

    case NGX_MCDS_ENTRY_PASS:
        return "uncacheable";

    case NGX_MCDS_ENTRY_VARY:
        return "varies";

    case NGX_MCDS_ENTRY_PURGED:
        return "deleted";
    }

    if (now < entry->expire) {
        return "fresh";
    }

    return (entry->flags & NGX_MCDS_ENTRY_INVALID) ? "invalidated" : "stale";
}


/*
 * Returns the state of a stored page.  A purge of a page with variants changes
 * only the list of the variants; a variant then expires by this list, as it
 * does for nginx.
 */

static char *
mcds_get_purged(ngx_mcds_entry_t *entry, ngx_mcds_entry_t *list, uint64_t now)
{
    uint64_t  purged;

    if (list
        && list->purges != entry->purges
        && entry->kind == NGX_MCDS_ENTRY_PAGE)
    {
        purged = ngx_mcds_entry_purged(list, entry);
        entry->expire = ngx_min(entry->expire, purged);

        if (now >= entry->expire) {
            return "invalidated";
        }
    }

    return mcds_get_state(entry, now);
}


static void
mcds_get_entry(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    mcds_answer_t *answer, ngx_array_t *secrets, ngx_mcds_entry_t *list)
{
    json_t     *flags;
    uint64_t    now;
    ngx_str_t   sign;

    now = mcds_now();

    mcds_put(o, "state", json_string(mcds_get_purged(entry, list, now)));

    if (entry->kind == NGX_MCDS_ENTRY_PAGE) {
        mcds_put(o, "status", json_integer(entry->status));
    }

    mcds_get_times(o, entry, now);

    flags = json_array();

    if (entry->flags & NGX_MCDS_ENTRY_SHARED) {
        (void) json_array_append_new(flags, json_string("shared"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_REVALIDATE) {
        (void) json_array_append_new(flags, json_string("revalidate"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_INVALID) {
        (void) json_array_append_new(flags, json_string("invalidated"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_VALIDATE) {
        (void) json_array_append_new(flags, json_string("validate"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_CONFIGURED) {
        (void) json_array_append_new(flags, json_string("configured"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_NO_GRACE) {
        (void) json_array_append_new(flags, json_string("no-grace"));
    }

    if (entry->flags & NGX_MCDS_ENTRY_ABSOLUTE) {
        (void) json_array_append_new(flags, json_string("absolute"));
    }

    mcds_put(o, "flags", flags);
    mcds_put(o, "cas", json_integer(answer->cas & INT64_MAX));

    if (answer->has & NGX_MCDS_TTL) {
        mcds_put(o, "memcached_ttl", answer->ttl < 0
                                     ? json_null()
                                     : json_integer(answer->ttl));
    }

    mcds_put(o, "item_size", json_integer(answer->text.len));

    /* ngx_mcds_entry_read() has verified the checksum of the stored page */

    mcds_put(o, "checksum", json_string("ok"));

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_SIGN, &sign) != NGX_OK) {
        mcds_put(o, "signature", json_string("none"));

    } else if (secrets == NULL) {
        mcds_put(o, "signature", json_string("not checked"));

    } else {
        mcds_put(o, "signature",
                 json_string(ngx_mcds_sign_check(answer->text.data,
                                                 answer->text.len, entry,
                                                 secrets)
                             == NGX_OK ? "valid" : "wrong"));
    }

    if (entry->kind == NGX_MCDS_ENTRY_VARY) {
        mcds_get_variants(m, o, entry, secrets);
        return;
    }

    mcds_get_route(o, entry);

    if (entry->kind == NGX_MCDS_ENTRY_PAGE) {
        mcds_get_body(m, o, entry, secrets);
        mcds_get_tags(m, o, entry);
        mcds_get_headers(o, entry);
    }
}


/*
 * adds to the JSON the route of a page, a hash of the location and the URI that
 * nginx has chosen for the page: pages of the same location and URI have the
 * same route
 */

static void
mcds_get_route(json_t *o, ngx_mcds_entry_t *entry)
{
    u_char     *text;
    ngx_str_t   route;

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_ROUTE, &route) != NGX_OK) {
        return;
    }

    text = malloc(2 * route.len + 1);

    if (text == NULL) {
        mcds_no_memory();
    }

    mcds_put(o, "route",
             mcds_str(text, ngx_hex_dump(text, route.data, route.len) - text));
    free(text);
}


static void
mcds_get_times(json_t *o, ngx_mcds_entry_t *entry, uint64_t now)
{
    int64_t  left, age, before;

    left = (int64_t) (entry->expire - now);
    age = (int64_t) (now - entry->created);

    /*
     * a page with variants is stored as a list of the headers by which the page
     * varies; the list has no age: its fields "age" and "took" are the times
     * between the last purges of the page
     */

    before = (entry->kind == NGX_MCDS_ENTRY_VARY)
             ? 0 : (int64_t) entry->age * 1000 + entry->took;

    mcds_put(o, "created", mcds_time(entry->created));
    mcds_put(o, "expires", mcds_time(entry->expire));
    mcds_put(o, "age", json_integer((age + before) / 1000));
    mcds_put(o, "expires_in", json_real((double) left / 1000));

    /*
     * the page's creation is in the future: nginx limits the life of such a
     * page to its lifetime, counted from now
     */

    if (age < -NGX_MCDS_SKEW_MAX) {
        mcds_put(o, "clock_ahead", json_real((double) -age / 1000));
    }

    if (entry->kind != NGX_MCDS_ENTRY_PAGE) {
        return;
    }

    mcds_put(o, "stale_while_revalidate",
             entry->swr == NGX_MCDS_ENTRY_UNSET ? json_null()
                                                : json_integer(entry->swr));
    mcds_put(o, "stale_if_error",
             entry->sie == NGX_MCDS_ENTRY_UNSET ? json_null()
                                                : json_integer(entry->sie));
    mcds_put(o, "origin_took", json_real((double) entry->took / 1000));
}


static void
mcds_get_headers(json_t *o, ngx_mcds_entry_t *entry)
{
    json_t     *list, *pair;
    ngx_str_t   headers, name, value;

    headers = entry->headers;
    list = json_array();

    while (ngx_mcds_entry_header(&headers, &name, &value) == NGX_OK) {
        pair = json_object();

        (void) json_object_setn_new(pair, (char *) name.data, name.len,
                                    mcds_json(&value));
        (void) json_array_append_new(list, pair);
    }

    mcds_put(o, "headers", list);
}


/*
 * adds the tags of a page to the JSON, and the state of the page after purges
 * of tags and hosts
 */

static void
mcds_get_tags(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry)
{
    char              *state;
    json_t            *was;
    u_char            *p, *last, *end;
    json_t            *names;
    uint64_t           counter;
    ngx_str_t          list, page;
    ngx_uint_t         done;
    ngx_mcds_tags_t   *tags;

    if (ngx_mcds_tags_get(entry, &counter, &list) != NGX_OK) {
        return;
    }

    names = json_array();
    last = list.data + list.len;

    for (p = list.data; p < last; p = end + 1) {
        end = ngx_strlchr(p, last, ' ');

        if (end == NULL) {
            end = last;
        }

        (void) json_array_append_new(names, mcds_str(p, end - p));
    }

    mcds_put(o, "tags", names);

    done = 0;
    ngx_mcds_vary_base(&entry->key, &page);

    tags = ngx_mcds_tags_create(m->pool, &page, &list, mcds_now(),
                                mcds_get_tags_done, &done);
    if (tags == NULL) {
        mcds_no_memory();
    }

    mcds_wait(&done);

    switch (ngx_mcds_tags_verdict(tags, counter, &list)) {

    case NGX_MCDS_TAGS_VALID:
        state = "valid";
        break;

    case NGX_MCDS_TAGS_GONE:
        state = "deleted";
        break;

    case NGX_MCDS_TAGS_UNKNOWN:
        state = "unknown";

        if (counter) {
            m->status = ngx_max(m->status, MCDS_UNREACHABLE);
        }

        break;

    default:
        state = "invalidated";
    }

    mcds_put(o, "tags_state", json_string(state));

    /*
     * "state" in the JSON becomes the page's state after purges of its tags and
     * its host, except that "valid" leaves "state" as it is, and "unknown"
     * replaces no "state" but "fresh"
     */

    was = json_object_get(o, "state");

    if (strcmp(state, "valid") != 0
        && (strcmp(state, "unknown") != 0
            || strcmp(json_string_value(was), "fresh") == 0))
    {
        mcds_put(o, "state", json_string(state));
    }

    ngx_mcds_tags_free(tags);
}


static void
mcds_get_tags_done(void *data)
{
    *(ngx_uint_t *) data = 1;
}


/*
 * adds the lock of a page to the JSON: the lock exists while nginx builds the
 * page, or waits after failures before it tries again (back-off)
 */

void
mcds_get_lock(mcds_t *m, json_t *o, ngx_str_t *key)
{
    json_t                *lock;
    int64_t                left;
    mcds_answer_t          answer;
    ngx_mcds_lease_left_t  kept;
    ngx_mcds_request_t     req;

    mcds_get_request(&req, key);

    ngx_str_set(&req.suffix, NGX_MCDS_LEASE_SUFFIX);
    req.by_key = 1;
    req.single = 1;

    lock = json_object();

    switch (mcds_do(m, &req, &answer)) {

    case NGX_MCDS_NOT_FOUND:
        mcds_put(lock, "state", json_string("free"));
        break;

    case NGX_MCDS_OK:

        if (ngx_mcds_lease_read(answer.text.data, answer.text.len, &kept)
            == NGX_OK)
        {
            left = (int64_t) (kept.until - mcds_now());

            mcds_put(lock, "state", json_string("backoff"));
            mcds_put(lock, "failures", json_integer(kept.step));
            mcds_put(lock, "until", mcds_time(kept.until));
            mcds_put(lock, "retry_in",
                     json_real(left > 0 ? (double) left / 1000 : 0));

        } else {
            mcds_put(lock, "state", json_string("held"));

            if (kept.due) {
                mcds_put(lock, "due", mcds_time(kept.due));
            }
        }

        if (answer.has & NGX_MCDS_TTL) {
            mcds_put(lock, "ttl", answer.ttl < 0 ? json_null()
                                                 : json_integer(answer.ttl));
        }

        mcds_answer_free(&answer);
        break;

    default:
        mcds_put(lock, "state", json_string("unknown"));
        m->status = ngx_max(m->status, MCDS_UNREACHABLE);
    }

    mcds_put(o, "lock", lock);
}
