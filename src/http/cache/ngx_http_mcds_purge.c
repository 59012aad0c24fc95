
/*
 * Copyright (C) mcds authors
 *
 * mcds_purge_api: in a location with a cache, a request purges the page of its
 * own URI; in a location with "mcds_purge_api on", it purges the pages that its
 * arguments name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_urlencoded.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_build.h"
#include "ngx_http_mcds_key.h"
#include "ngx_http_mcds_purge.h"
#include "ngx_http_mcds_site.h"
#include "ngx_http_mcds_tags.h"


/* the maximum number of keys, tags and hosts that one request purges */
#define NGX_HTTP_MCDS_MAX_PURGES  200


typedef enum {
    NGX_HTTP_MCDS_PURGE_KEY = 0,
    NGX_HTTP_MCDS_PURGE_TAG,
    NGX_HTTP_MCDS_PURGE_HOST,
    NGX_HTTP_MCDS_PURGE_ALL
} ngx_http_mcds_purge_what_e;


/* one key, tag or host that a request purges */

typedef struct {
    ngx_http_mcds_purging_t      *purging;
    ngx_uint_t                    what;
    ngx_str_t                     text;      /* the key, tag or host to purge,
                                                in the memory of the request */
    ngx_str_t                     name;      /* for a key: the name of the
                                                page's site, then the key */
    ngx_uint_t                    other;     /* 1: "text" is the key of a purged
                                                page, with "https" in place of
                                                "http", or the reverse */
    ngx_uint_t                    found;     /* the kind of item that the purge
                                                has found in memcached,
                                                ngx_mcds_purged_e */
    uint64_t                      cas;
    ngx_mcds_cut_t                left;      /* the parts of the body of the
                                                purged page, which stay until
                                                the page is rebuilt */
    ngx_uint_t                    rc;        /* result code of the purge,
                                                ngx_mcds_rc_e */
} ngx_http_mcds_purged_t;


typedef struct {
    ngx_uint_t                    how;       /* whether purged pages expire or
                                                are deleted, ngx_mcds_purge_e */
    ngx_str_t                     site;      /* name of the site that all pages
                                                purged by key belong to */
} ngx_http_mcds_purge_how_t;


struct ngx_http_mcds_purging_s {
    ngx_http_mcds_resource_t      res;
    ngx_uint_t                    how;
    ngx_uint_t                    rc;        /* the result of the first
                                                purge that has failed, or
                                                NGX_MCDS_OK */
    ngx_uint_t                    refresh;   /* a rebuild of the purged page
                                                has begun */
    ngx_uint_t                    n;
    ngx_http_mcds_purged_t       *purged;
};


static ngx_int_t ngx_http_mcds_purge_other(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_http_mcds_purged_t *purged,
    ngx_http_mcds_purged_t *other);
static ngx_int_t ngx_http_mcds_purge_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_purging_list(ngx_http_mcds_purging_t *purging,
    ngx_http_mcds_purged_t *purged, ngx_uint_t n);
static void ngx_http_mcds_purging_start(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging);
static ngx_int_t ngx_http_mcds_purging_record(ngx_http_request_t *r,
    ngx_mcds_pool_t *pool, ngx_http_mcds_purged_t *purged);
static void ngx_http_mcds_purging_key(void *data, ngx_uint_t rc,
    ngx_uint_t found, uint64_t cas, ngx_mcds_cut_t *left);
static void ngx_http_mcds_purging_tag(void *data, ngx_uint_t rc);
static void ngx_http_mcds_purging_done(ngx_http_mcds_purging_t *purging,
    ngx_uint_t rc);
static ngx_int_t ngx_http_mcds_purge_run(ngx_http_mcds_resource_t *res);
static char *ngx_http_mcds_purge_args(ngx_http_request_t *r, ngx_str_t *args,
    ngx_array_t *list, ngx_http_mcds_purge_how_t *how);
static char *ngx_http_mcds_purge_arg(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value, ngx_array_t *list, ngx_http_mcds_purge_how_t *how);
static ngx_int_t ngx_http_mcds_purge_respond_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_purge_send(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_purge_missed(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging);
static ngx_int_t ngx_http_mcds_purge_json(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging);
static ngx_int_t ngx_http_mcds_purge_write_list(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging, ngx_uint_t missed, ngx_str_t *list);


/*
 * the words of the purge API for a key, a tag, a host and all pages, indexed
 * by ngx_http_mcds_purge_what_e
 */

static ngx_str_t  ngx_http_mcds_purge_names[] = {
    ngx_string("key"),
    ngx_string("tag"),
    ngx_string("host"),
    ngx_string("all")
};


/*
 * Returns 1 if the request r purges its page.  A request that was redirected
 * to an error page purges nothing, since the original request may have been
 * refused; with recursive_error_pages, any redirect may lead to an error page.
 */

ngx_uint_t
ngx_http_mcds_purge_asked(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_mcds_purge_t       *purge;
    ngx_http_mcds_main_conf_t   *mmcf;

    purge = ccf->purge;

    if (purge == NULL
        || ccf->cache_pool == NULL
        || r != r->main
        || r->error_page
        || r->err_status)
    {
        return 0;
    }

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);

    if (mmcf->recursive && r->internal) {
        return 0;
    }

    if (purge->method.len
        && purge->method.len == r->method_name.len
        && ngx_strncmp(purge->method.data, r->method_name.data,
                       r->method_name.len)
           == 0)
    {
        return 1;
    }

    return purge->when && ngx_http_test_predicates(r, purge->when) != NGX_OK;
}


ngx_int_t
ngx_http_mcds_purge_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t                 rc;
    ngx_http_mcds_purged_t    purged[2];
    ngx_http_mcds_purging_t  *purging;

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_PURGE);

    /*
     * clears the values that an earlier location has set in ctx, if an internal
     * redirect, by try_files for example, has led the request here
     */

    ctx->invalidate = 0;
    ctx->overwrite = 0;
    ctx->status = NGX_HTTP_MCDS_NONE;
    ctx->reason = NGX_MCDS_REASON_NONE;

    if (ngx_http_mcds_key_host(r) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_mcds_cache_key(r, ccf, &ctx->key);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    purging = ngx_http_mcds_resource_create(r,
                                            sizeof(ngx_http_mcds_purging_t));
    if (purging == NULL) {
        return NGX_ERROR;
    }

    purging->res.task = ctx->task;
    purging->how = ccf->purge->how;

    ctx->purging = purging;

    if (rc == NGX_DECLINED) {
        return NGX_OK;
    }

    ngx_memzero(purged, sizeof(purged));

    purged[0].what = NGX_HTTP_MCDS_PURGE_KEY;
    purged[0].name = ctx->key;
    purged[0].text = ngx_http_mcds_site_key(&purged[0].name);

    if (ccf->cache_key == NULL) {

        rc = ngx_http_mcds_purge_other(r, ccf, &purged[0], &purged[1]);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    if (ngx_http_mcds_purging_list(purging, purged,
                                   purged[1].other ? 2 : 1)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_purging_start(r, purging);

    ctx->task->waiting += (purging->res.waiting != 0);

    return NGX_OK;
}


/*
 * Sets *other to the key of the purged page with the other scheme, http or
 * https. An application purges a page by one URI, though clients may have
 * requested the page by both schemes, and the application may be reached over
 * plain HTTP behind a TLS front end.
 */

static ngx_int_t
ngx_http_mcds_purge_other(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_http_mcds_purged_t *purged,
    ngx_http_mcds_purged_t *other)
{
    u_char     *p, *last;
    ngx_str_t  *key;
    ngx_uint_t  n;

    key = &purged->text;
    n = sizeof("http") - 1;

    if (key->len < sizeof("https://")
        || ngx_strncmp(key->data, "http", n) != 0)
    {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, key->len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_cpymem(p, key->data, n);

    if (key->data[n] == 's') {
        n++;

    } else {
        *last++ = 's';
    }

    last = ngx_cpymem(last, key->data + n, key->len - n);

    other->what = NGX_HTTP_MCDS_PURGE_KEY;
    other->other = 1;
    other->text.data = p;
    other->text.len = last - p;
    other->name = other->text;

    return ngx_http_mcds_site_add(r, ccf->site, &other->name);
}


/*
 * ends the purge of a page, in the phase of the cache, when memcached has
 * answered; a content handler then sends the result to the client
 */

ngx_int_t
ngx_http_mcds_purge_end(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t                 rc;
    ngx_http_mcds_purging_t  *purging;

    purging = ctx->purging;

    if (ccf->purge->mode == NGX_HTTP_MCDS_MODE_REFRESH
        && purging->n
        && purging->rc == NGX_MCDS_OK
        && purging->purged[0].found == NGX_MCDS_PURGED_PAGE
        && (ctx->asker == NULL
            || ngx_http_mcds_cache_may_rebuild(r, ctx, ctx->asker))
        && ngx_http_mcds_cache_may_rebuild(r, ctx, ccf))
    {
        rc = ngx_http_mcds_purge_rebuild(r, ctx, ccf);

        if (rc == NGX_AGAIN || rc == NGX_ERROR) {
            return rc;
        }

        purging->refresh = (rc == NGX_OK);
    }

    r->content_handler = ngx_http_mcds_purge_respond_handler;

    return NGX_OK;
}


/*
 * Rebuilds the purged page by a copy of the purge request, without a client and
 * in the background.  The copy runs in the location where a GET request for the
 * page would run, even if the purge request itself runs in a "limit_except"
 * block.  NGX_AGAIN: to be called again when memcached has replied;
 * NGX_DECLINED: no rebuild was started.
 */

static ngx_int_t
ngx_http_mcds_purge_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    void                      **loc_conf;
    ngx_int_t                   rc;
    ngx_array_t                *secrets;
    ngx_mcds_cut_t             *left;
    ngx_http_handler_pt         handler;
    ngx_http_core_loc_conf_t   *clcf;

    loc_conf = r->loc_conf;
    handler = r->content_handler;
    secrets = ccf->secrets;

    r->loc_conf = ccf->get_conf;

    if (r->loc_conf != loc_conf) {
        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

        r->content_handler = clcf->handler;
    }

    /* the purge has checked the page with the keys of its own location */

    left = (ccf->secrets == secrets) ? &ctx->purging->purged[0].left : NULL;

    rc = (ctx->state == NGX_HTTP_MCDS_STATE_WAIT)
         ? NGX_OK
         : ngx_http_mcds_cache_rebuild(r, ctx, ccf,
                                       ctx->purging->purged[0].cas, left);

    if (rc == NGX_OK && !ngx_http_mcds_cache_rebuild_detach(r, ctx)) {
        rc = NGX_DECLINED;
    }

    r->loc_conf = loc_conf;
    r->content_handler = handler;

    return rc;
}


static ngx_int_t
ngx_http_mcds_purge_respond_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_http_mcds_cache_ctx_t  *ctx;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx = ngx_http_mcds_cache_get(r);

    return ngx_http_mcds_purge_send(&ctx->purging->res);
}


static ngx_int_t
ngx_http_mcds_purging_list(ngx_http_mcds_purging_t *purging,
    ngx_http_mcds_purged_t *purged, ngx_uint_t n)
{
    ngx_uint_t  i;

    purging->purged = ngx_pcalloc(purging->res.pool,
                                  n * sizeof(ngx_http_mcds_purged_t));
    if (purging->purged == NULL) {
        return NGX_ERROR;
    }

    purging->n = n;

    for (i = 0; i < n; i++) {
        purging->purged[i] = purged[i];
        purging->purged[i].purging = purging;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_purging_start(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging)
{
    ngx_int_t                    rc;
    ngx_uint_t                   i;
    ngx_mcds_pool_t             *pool;
    ngx_http_mcds_purged_t      *purged;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    pool = ccf->purge_pool;

    for (i = 0; i < purging->n; i++) {
        purged = &purging->purged[i];

        if (purged->what == NGX_HTTP_MCDS_PURGE_KEY) {
            rc = ngx_mcds_purge_key(pool, &purged->name, purging->how,
                                    ngx_mcds_now(), ccf->secrets,
                                    ngx_http_mcds_purging_key, purged);

        } else {
            rc = ngx_http_mcds_purging_record(r, pool, purged);
        }

        if (rc == NGX_OK) {
            purging->res.waiting++;

        } else {
            purged->rc = NGX_MCDS_BUSY;
            purging->rc = NGX_MCDS_BUSY;
        }
    }
}


static ngx_int_t
ngx_http_mcds_purging_record(ngx_http_request_t *r, ngx_mcds_pool_t *pool,
    ngx_http_mcds_purged_t *purged)
{
    ngx_str_t  record;

    record.data = ngx_pnalloc(r->pool, NGX_MCDS_TAG_PREFIX
                                       + purged->text.len);
    if (record.data == NULL) {
        return NGX_ERROR;
    }

    record.len = ngx_sprintf(record.data, "%s%V",
                             (purged->what == NGX_HTTP_MCDS_PURGE_TAG) ? "tag:"
                             : (purged->what == NGX_HTTP_MCDS_PURGE_HOST)
                             ? "host:" : "all", &purged->text)
                 - record.data;

    return ngx_http_mcds_tagging->purge(pool, &record, purged->purging->how,
                                        ngx_mcds_now(),
                                        ngx_http_mcds_purging_tag, purged);
}


static void
ngx_http_mcds_purging_key(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    ngx_http_mcds_purged_t *purged = data;

    purged->found = found;
    purged->cas = cas;
    purged->left = *left;
    purged->rc = rc;

    ngx_http_mcds_purging_done(purged->purging, rc);
}


static void
ngx_http_mcds_purging_tag(void *data, ngx_uint_t rc)
{
    ngx_http_mcds_purged_t *purged = data;

    purged->found = NGX_MCDS_PURGED_PAGE;
    purged->rc = rc;

    ngx_http_mcds_purging_done(purged->purging, rc);
}


static void
ngx_http_mcds_purging_done(ngx_http_mcds_purging_t *purging, ngx_uint_t rc)
{
    if (purging->rc == NGX_MCDS_OK) {
        purging->rc = rc;
    }

    ngx_http_mcds_resource_done(&purging->res);
}


ngx_int_t
ngx_http_mcds_purge_handler(ngx_http_request_t *r)
{
    ngx_http_mcds_purging_t     *purging;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ccf->purge == NULL || !ccf->purge->handler) {

        /*
         * an "if" in this location has another mcds_purge_api, such as "off":
         * nginx serves the request as it does without this handler
         */

        return NGX_DECLINED;
    }

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_POST))) {
        return ngx_http_mcds_resource_refuse(r, NGX_HTTP_GET|NGX_HTTP_POST,
                                             "use GET or POST");
    }

    purging = ngx_http_mcds_resource_create(r,
                                            sizeof(ngx_http_mcds_purging_t));
    if (purging == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    purging->res.respond = ngx_http_mcds_purge_send;
    purging->res.buffered = 1;

    return ngx_http_mcds_resource_begin(&purging->res,
                                        ngx_http_mcds_purge_run);
}


static ngx_int_t
ngx_http_mcds_purge_run(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_purging_t *purging = (ngx_http_mcds_purging_t *) res;

    char                        *problem;
    ngx_uint_t                   i;
    ngx_array_t                  list;
    ngx_http_request_t          *r;
    ngx_http_mcds_purged_t      *purged;
    ngx_http_mcds_cache_conf_t  *ccf;
    ngx_http_mcds_purge_how_t    how;

    r = res->request;
    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ngx_array_init(&list, r->pool, 4, sizeof(ngx_http_mcds_purged_t))
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    how.how = ccf->purge->how;
    how.site = *ccf->site;

    problem = ngx_http_mcds_purge_args(r, &r->args, &list, &how);

    if (problem == NULL && res->body.len) {
        problem = ngx_http_mcds_purge_args(r, &res->body, &list, &how);
    }

    if (problem == NULL && list.nelts == 0) {
        problem = "say what to purge: key=, tag=, host= or all";
    }

    if (problem == NGX_CONF_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (problem) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST, problem);
    }

    purging->how = how.how;

    if (ngx_http_mcds_purging_list(purging, list.elts, list.nelts) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (i = 0; i < purging->n; i++) {
        purged = &purging->purged[i];

        if (purged->what != NGX_HTTP_MCDS_PURGE_KEY) {
            continue;
        }

        purged->name = purged->text;

        if (ngx_http_mcds_site_add(r, &how.site, &purged->name) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    ngx_http_mcds_purging_start(r, purging);

    return res->waiting ? NGX_DONE : ngx_http_mcds_purge_send(res);
}


/*
 * Parses the arguments of a request to the purge API.  Returns NULL, or
 * NGX_CONF_ERROR when out of memory, or a text that tells the client which
 * argument is wrong.
 */

static char *
ngx_http_mcds_purge_args(ngx_http_request_t *r, ngx_str_t *args,
    ngx_array_t *list, ngx_http_mcds_purge_how_t *how)
{
    char       *problem;
    ngx_str_t   left, name, value;

    left = *args;

    while (ngx_http_mcds_urlencoded_next(&left, &name, &value) == NGX_OK) {

        switch (ngx_http_mcds_urlencoded_decode(r->pool, &value, &value)) {

        case NGX_OK:
            break;

        case NGX_DECLINED:
            return "an argument is not well encoded";

        default:
            return NGX_CONF_ERROR;
        }

        problem = ngx_http_mcds_purge_arg(r, &name, &value, list, how);
        if (problem) {
            return problem;
        }
    }

    return NULL;
}


static char *
ngx_http_mcds_purge_arg(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value, ngx_array_t *list, ngx_http_mcds_purge_how_t *how)
{
    ngx_str_t               *s;
    ngx_uint_t               what;
    ngx_http_mcds_purged_t  *purged;

    if (name->len == 4 && ngx_strncmp(name->data, "mode", 4) == 0) {

        if (value->len == 10
            && ngx_strncmp(value->data, "invalidate", 10) == 0)
        {
            how->how = NGX_MCDS_PURGE_INVALIDATE;
            return NULL;
        }

        if (value->len == 6 && ngx_strncmp(value->data, "delete", 6) == 0) {
            how->how = NGX_MCDS_PURGE_DELETE;
            return NULL;
        }

        return "mode must be invalidate or delete";
    }

    if (name->len == 4 && ngx_strncmp(name->data, "site", 4) == 0) {

        if (value->len && !ngx_http_mcds_site_check(value)) {
            return "a site is too long, or has blanks or a greater-than sign";
        }

        how->site = *value;
        return NULL;
    }

    for (what = 0; what <= NGX_HTTP_MCDS_PURGE_ALL; what++) {
        s = &ngx_http_mcds_purge_names[what];

        if (s->len == name->len
            && ngx_strncmp(s->data, name->data, s->len) == 0)
        {
            break;
        }
    }

    if (ngx_http_mcds_tagging == NULL && what != NGX_HTTP_MCDS_PURGE_KEY) {
        what = NGX_HTTP_MCDS_PURGE_ALL + 1;
    }

    switch (what) {

    case NGX_HTTP_MCDS_PURGE_KEY:

        if (value->len == 0) {
            return "a key is empty";
        }

        break;

    case NGX_HTTP_MCDS_PURGE_TAG:

        if (ngx_http_mcds_tagging->check(value) != NGX_OK) {
            return "a tag is empty, too long, or has blanks or commas";
        }

        break;

    case NGX_HTTP_MCDS_PURGE_HOST:

        if (ngx_http_mcds_tagging->check(value) != NGX_OK) {
            return "a host is empty, too long, or has blanks or commas";
        }

        ngx_strlow(value->data, value->data, value->len);
        break;

    case NGX_HTTP_MCDS_PURGE_ALL:
        value->len = 0;
        break;

    default:
        return "there is an argument that is not key, site, tag, host, all "
               "or mode";
    }

    if (list->nelts == NGX_HTTP_MCDS_MAX_PURGES) {
        return "that is too much for one request";
    }

    purged = ngx_array_push(list);
    if (purged == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(purged, sizeof(ngx_http_mcds_purged_t));

    purged->what = what;
    purged->text = *value;

    return NULL;
}


static ngx_int_t
ngx_http_mcds_purge_send(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_purging_t *purging = (ngx_http_mcds_purging_t *) res;

    ngx_uint_t                   i, found;
    ngx_http_request_t          *r;
    ngx_http_mcds_cache_conf_t  *ccf;

    r = res->request;

    /* If-Modified-Since of a purge request is not about the purge's response */

    r->disable_not_modified = 1;

    if (purging->n == 0) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "this request has no page");
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    found = 0;

    for (i = 0; i < purging->n; i++) {

        if (purging->purged[i].rc != NGX_MCDS_OK) {
            continue;
        }

        if (purging->purged[i].found) {
            found = 1;
        }

        if (purging->purged[i].found || !purging->purged[i].other) {
            ngx_mcds_stat_add(ccf->zone, NGX_MCDS_ZONE_PURGES, 1);
        }
    }

    if (purging->rc != NGX_MCDS_OK) {
        return ngx_http_mcds_purge_missed(r, purging);
    }

    if (found) {
        return ngx_http_mcds_purge_json(r, purging);
    }

    return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_FOUND,
                                      "there is no such page");
}


static ngx_int_t
ngx_http_mcds_purge_missed(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging)
{
    ngx_str_t  list;

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "purge failed: %s", ngx_mcds_strerror(purging->rc));

    if (ngx_http_mcds_purge_write_list(r, purging, 1, &list) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_json_problem_more(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                           "memcached has not answered for all "
                                           "of it", "missed", &list);
}


static ngx_int_t
ngx_http_mcds_purge_json(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging)
{
    u_char     *p;
    ngx_str_t   text, list;

    if (ngx_http_mcds_purge_write_list(r, purging, 0, &list) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_pnalloc(r->pool, list.len
                             + sizeof("{\"mode\":\"invalidate\","
                                      "\"refresh\":false,\"purged\":}" CRLF));
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.data = p;

    p = ngx_sprintf(p, "{\"mode\":\"%s\"",
                    (purging->how == NGX_MCDS_PURGE_DELETE) ? "delete"
                                                            : "invalidate");

    if (purging->res.task) {
        p = ngx_sprintf(p, ",\"refresh\":%s",
                        purging->refresh ? "true" : "false");
    }

    p = ngx_sprintf(p, ",\"purged\":%V}" CRLF, &list);

    text.len = p - text.data;

    return ngx_http_mcds_json_send(r, &text);
}


/*
 * writes the purged pages, tags and hosts as a JSON list or, with "missed",
 * those whose purge is not confirmed
 */

static ngx_int_t
ngx_http_mcds_purge_write_list(ngx_http_request_t *r,
    ngx_http_mcds_purging_t *purging, ngx_uint_t missed, ngx_str_t *list)
{
    u_char                  *p;
    size_t                   size;
    ngx_uint_t               i;
    ngx_http_mcds_purged_t  *purged;

    size = sizeof("[]");

    for (i = 0; i < purging->n; i++) {
        size += sizeof("{\"host\":\"\",\"found\":false},")
                + ngx_mcds_json_string(NULL, &purging->purged[i].text);
    }

    p = ngx_pnalloc(r->pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    list->data = p;
    *p++ = '[';

    for (i = 0; i < purging->n; i++) {
        purged = &purging->purged[i];

        if (missed ? purged->rc == NGX_MCDS_OK
                   : purged->other && !purged->found)
        {
            continue;
        }

        if (purged->what == NGX_HTTP_MCDS_PURGE_ALL) {
            p = ngx_sprintf(p, "{\"all\":true},");
            continue;
        }

        p = ngx_sprintf(p, "{\"%V\":\"",
                        &ngx_http_mcds_purge_names[purged->what]);
        p = (u_char *) ngx_mcds_json_string(p, &purged->text);
        *p++ = '"';

        if (purged->what == NGX_HTTP_MCDS_PURGE_KEY && !missed) {
            p = ngx_sprintf(p, ",\"found\":%s",
                            purged->found ? "true" : "false");
        }

        *p++ = '}';
        *p++ = ',';
    }

    /*
     * replaces the last comma of the JSON list of purged pages, which has at
     * least one element
     */

    p[-1] = ']';

    list->len = p - list->data;

    return NGX_OK;
}
