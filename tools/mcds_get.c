
/*
 * Copyright (C) mcds authors
 *
 * mcds get: what is stored of a page.
 */


#include "mcds.h"
#include "mcds_url.h"
#include "ngx_mcds_coding.h"
#include "ngx_mcds_entry.h"
#include "ngx_mcds_lock.h"
#include "ngx_mcds_part.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"
#include "ngx_mcds_tag.h"
#include "ngx_mcds_vary.h"


/* the largest item that is read */
#define MCDS_GET_LIMIT            (128 * 1024 * 1024)

/* of what is no page, so many bytes are shown */
#define MCDS_GET_PREVIEW          64

/* of a body, decoded in pieces */
#define MCDS_GET_PIECE            65536


static void mcds_get_request(ngx_mcds_request_t *req, ngx_str_t *key);
static json_t *mcds_get_page(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets,
    ngx_uint_t variant);
static ngx_array_t *mcds_get_secrets(mcds_t *m, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
static char *mcds_get_state(ngx_mcds_entry_t *entry, uint64_t now);
static void mcds_get_entry(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    mcds_answer_t *answer, ngx_array_t *secrets);
static void mcds_get_times(json_t *o, ngx_mcds_entry_t *entry, uint64_t now);
static void mcds_get_body(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
static void mcds_get_headers(json_t *o, ngx_mcds_entry_t *entry);
static void mcds_get_tags(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry);
static void mcds_get_tags_done(void *data);
static void mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets);
static void mcds_get_variant_key(mcds_t *m, ngx_mcds_entry_t *entry,
    u_char *hash, ngx_str_t *key);
static void mcds_get_variant(mcds_t *m, ngx_str_t *names, u_char *hash);
static void mcds_get_lock(mcds_t *m, json_t *o, ngx_str_t *key);
static ngx_int_t mcds_get_part(mcds_t *m, ngx_mcds_entry_t *entry, uint32_t n,
    ngx_array_t *secrets, mcds_answer_t *answer, ngx_str_t *body);
static void mcds_get_print(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets);
static ngx_int_t mcds_get_write(ngx_mcds_decoder_t *decoder,
    ngx_str_t *piece);


void
mcds_get(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_str_t    *key, *keys;
    json_t       *list, *page;
    ngx_uint_t    i, nkeys;
    ngx_array_t  *secrets;

    keys = m->o.keys.elts;
    nkeys = m->o.keys.nelts;

    if (n + nkeys == 0) {
        mcds_usage(m, "needs a URL, or --key");
    }

    if (m->o.body && n + nkeys > 1) {
        mcds_usage(m, "--body is for one page");
    }

    if (m->o.body && m->o.json) {
        mcds_usage(m, "--body is no JSON");
    }

    for (i = 0; i < n; i++) {
        mcds_url_key(m, &args[i]);
    }

    mcds_site_pool(m, "", NULL);
    secrets = mcds_site_secrets(m);

    list = json_array();

    for (i = 0; i < n + nkeys; i++) {
        key = (i < n) ? &args[i] : &keys[i - n];

        if (m->o.body) {
            mcds_get_print(m, key, secrets);
            continue;
        }

        page = mcds_get_page(m, key, secrets, 0);
        mcds_get_lock(m, page, key);

        (void) json_array_append_new(list, page);
    }

    if (m->o.body) {
        json_decref(list);

    } else {
        mcds_show(m, list);
    }
}


static void
mcds_get_request(ngx_mcds_request_t *req, ngx_str_t *key)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->verb = NGX_MCDS_GET;
    req->want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    req->key = *key;
    req->limit = MCDS_GET_LIMIT;
    req->bulk = 1;
    req->movable = 1;
}


static json_t *
mcds_get_page(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets,
    ngx_uint_t variant)
{
    char                *why;
    json_t              *o;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_key_t       real;
    ngx_mcds_entry_t     entry;
    ngx_mcds_request_t   req;

    mcds_get_request(&req, key);
    ngx_mcds_key_build(&real, &m->pool->prefix, &req.key, &req.suffix);

    o = json_object();

    mcds_put(o, "key", mcds_json(key));
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
        || (variant && entry.kind == NGX_MCDS_ENTRY_VARY))
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

    mcds_get_entry(m, o, &entry, &answer, mcds_get_secrets(m, &entry, secrets));

    mcds_answer_free(&answer);

    return o;
}


/*
 * Of a page without a signature the configuration does not say here whether it
 * should have one; who gives a key does.
 */

static ngx_array_t *
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


static char *
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


static void
mcds_get_entry(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    mcds_answer_t *answer, ngx_array_t *secrets)
{
    json_t     *flags;
    uint64_t    now;
    ngx_str_t   sign;

    now = mcds_now();

    mcds_put(o, "state", json_string(mcds_get_state(entry, now)));

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

    mcds_put(o, "flags", flags);
    mcds_put(o, "cas", json_integer(answer->cas & NGX_MAX_INT_T_VALUE));

    if (answer->has & NGX_MCDS_TTL) {
        mcds_put(o, "memcached_ttl", answer->ttl < 0
                                     ? json_null()
                                     : json_integer(answer->ttl));
    }

    mcds_put(o, "item_size", json_integer(answer->text.len));

    /* what was read has passed its checksum */

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

    if (entry->kind == NGX_MCDS_ENTRY_PAGE) {
        mcds_get_body(m, o, entry, secrets);
        mcds_get_tags(m, o, entry);
        mcds_get_headers(o, entry);
    }
}


static void
mcds_get_times(json_t *o, ngx_mcds_entry_t *entry, uint64_t now)
{
    int64_t  left, age;

    left = (int64_t) (entry->expire - now);
    age = (int64_t) (now - entry->created);

    mcds_put(o, "created", mcds_time(entry->created));
    mcds_put(o, "expires", mcds_time(entry->expire));
    mcds_put(o, "age", json_integer(entry->age + age / 1000));
    mcds_put(o, "expires_in", json_real((double) left / 1000));

    /* nginx lets it live no longer than it was meant to, from now on */

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
mcds_get_body(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    uint32_t        i, there;
    ngx_str_t       body;
    ngx_uint_t      coding;
    mcds_answer_t   answer;

    coding = entry->coding;

    mcds_put(o, "coding", (coding == NGX_MCDS_CODING_NONE)
                          ? json_string("none")
                          : mcds_json(ngx_mcds_coding_name(coding)));
    mcds_put(o, "stored_length", json_integer(entry->total));
    mcds_put(o, "length", json_integer((coding == NGX_MCDS_CODING_NONE)
                                       ? entry->total : entry->length));
    mcds_put(o, "generation", mcds_hex(entry->generation));
    mcds_put(o, "parts", json_integer(entry->parts));

    if (entry->parts == 0) {
        return;
    }

    there = 0;

    for (i = 0; i < entry->parts; i++) {
        switch (mcds_get_part(m, entry, i, secrets, &answer, &body)) {

        case NGX_OK:
            there++;
            mcds_answer_free(&answer);
            break;

        case NGX_ERROR:
            mcds_put(o, "parts_valid", json_null());
            return;
        }
    }

    mcds_put(o, "parts_valid", json_integer(there));

    if (there < entry->parts) {
        m->status = ngx_max(m->status, MCDS_NO);
    }
}


/* NGX_DECLINED: it is lost or broken; NGX_ERROR: not known, told */

static ngx_int_t
mcds_get_part(mcds_t *m, ngx_mcds_entry_t *entry, uint32_t n,
    ngx_array_t *secrets, mcds_answer_t *answer, ngx_str_t *body)
{
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_int_t           rc;
    ngx_mcds_value_t   *value;
    ngx_mcds_request_t  req;

    mcds_get_request(&req, &entry->key);

    req.want = NGX_MCDS_VALUE;
    req.suffix.data = suffix;
    req.by_key = 1;

    ngx_mcds_part_suffix(&req.suffix, entry->generation, n);

    if (mcds_do(m, &req, answer) != NGX_MCDS_OK) {

        if (ngx_mcds_answered(answer->rc)) {
            return NGX_DECLINED;
        }

        mcds_failed(m, &entry->key, answer->rc);
        return NGX_ERROR;
    }

    rc = ngx_mcds_part_read(body, answer->text.data, answer->text.len,
                            entry->generation, n,
                            ngx_mcds_entry_part(entry, n));

    if (rc == NGX_OK && secrets) {

        /* it is signed as a value of its own */

        value = ngx_mcds_value_create(answer->text.len, ngx_cycle->log);

        if (value == NULL) {
            mcds_no_memory();
        }

        ngx_memcpy(value->data, answer->text.data, answer->text.len);
        value->len = answer->text.len;

        rc = ngx_mcds_sign_part_check(value, &entry->key, secrets);

        ngx_mcds_value_unref(value);
    }

    if (rc != NGX_OK) {
        mcds_answer_free(answer);
        return NGX_DECLINED;
    }

    return NGX_OK;
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


/* what purges of tags and hosts have made of it */

static void
mcds_get_tags(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry)
{
    char              *state;
    u_char            *p, *last, *end;
    json_t            *names;
    uint64_t           counter;
    ngx_str_t          list;
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

    tags = ngx_mcds_tags_create(m->pool, &list, mcds_now(),
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

    default:
        state = "invalidated";
    }

    mcds_put(o, "tags_state", json_string(state));

    if (strcmp(state, "valid") != 0) {
        mcds_put(o, "state", json_string(state));
    }

    ngx_mcds_tags_free(tags);
}


static void
mcds_get_tags_done(void *data)
{
    *(ngx_uint_t *) data = 1;
}


/* of a page that varies; with --header, the one of such a request alone */

static void
mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    u_char      hash[NGX_MCDS_VARIANT_LEN], *stored;
    json_t     *list, *page;
    ngx_str_t   names, key;
    ngx_uint_t  i, n;

    if (ngx_mcds_vary_check(&entry->ext, &entry->body) != NGX_OK) {
        mcds_put(o, "state", json_string("not a page"));
        m->status = ngx_max(m->status, MCDS_NO);
        return;
    }

    ngx_mcds_vary_names(&entry->ext, &names);
    mcds_put(o, "vary", mcds_json(&names));
    mcds_put(o, "purges", json_integer(entry->purges));

    list = json_array();
    n = entry->body.len / NGX_MCDS_VARIANT_LEN;
    stored = entry->body.data;

    if (m->o.headers.nelts) {
        mcds_get_variant(m, &names, hash);
        stored = hash;
        n = 1;
    }

    for (i = 0; i < n; i++) {
        mcds_get_variant_key(m, entry, stored + i * NGX_MCDS_VARIANT_LEN,
                             &key);

        page = mcds_get_page(m, &key, secrets, 1);
        mcds_get_lock(m, page, &key);

        (void) json_array_append_new(list, page);
    }

    mcds_put(o, "variants", list);
}


static void
mcds_get_variant_key(mcds_t *m, ngx_mcds_entry_t *entry, u_char *hash,
    ngx_str_t *key)
{
    u_char  *p;

    key->data = mcds_alloc(m, entry->key.len + NGX_MCDS_VARY_SUFFIX_LEN);

    p = ngx_cpymem(key->data, entry->key.data, entry->key.len);
    p = ngx_mcds_vary_suffix(p, entry->generation, hash);

    key->len = p - key->data;
}


/* what a request with the headers that were given would ask for */

static void
mcds_get_variant(mcds_t *m, ngx_str_t *names, u_char *hash)
{
    u_char              *p, *last;
    ngx_str_t            list, name, value, *header;
    ngx_uint_t           i;
    ngx_mcds_variant_t   variant;

    list = *names;
    header = m->o.headers.elts;

    ngx_mcds_variant_begin(&variant);

    while (ngx_mcds_vary_next(&list, &name) == NGX_OK) {
        ngx_mcds_variant_name(&variant, &name);

        for (i = 0; i < m->o.headers.nelts; i++) {
            last = header[i].data + header[i].len;
            p = ngx_strlchr(header[i].data, last, ':');

            if (p == NULL
                || (size_t) (p - header[i].data) != name.len
                || ngx_strncasecmp(header[i].data, name.data, name.len) != 0)
            {
                continue;
            }

            for (p++; p < last && (*p == ' ' || *p == '\t'); p++) {
                /* void */
            }

            value.data = p;
            value.len = last - p;
            ngx_mcds_variant_line(&variant, &value);
        }
    }

    ngx_mcds_variant_end(&variant, hash);
}


/* who builds it, or why nobody does for a while */

static void
mcds_get_lock(mcds_t *m, json_t *o, ngx_str_t *key)
{
    json_t              *lock;
    int64_t              left;
    mcds_answer_t        answer;
    ngx_mcds_kept_t      kept;
    ngx_mcds_request_t   req;

    mcds_get_request(&req, key);

    ngx_str_set(&req.suffix, NGX_MCDS_LOCK_SUFFIX);
    req.by_key = 1;
    req.single = 1;

    lock = json_object();

    switch (mcds_do(m, &req, &answer)) {

    case NGX_MCDS_NOT_FOUND:
        mcds_put(lock, "state", json_string("free"));
        break;

    case NGX_MCDS_OK:

        if (ngx_mcds_lock_read(answer.text.data, answer.text.len, &kept)
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


/* --body: as it came from the origin, without the coding it is stored in */

static void
mcds_get_print(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets)
{
    char                *why;
    u_char               hash[NGX_MCDS_VARIANT_LEN];
    uint32_t             i;
    ngx_int_t            rc;
    ngx_str_t            piece, names, variant;
    mcds_answer_t        answer, part;
    ngx_mcds_entry_t     entry;
    ngx_mcds_decoder_t  *decoder;
    ngx_mcds_request_t   req;

    mcds_get_request(&req, key);

    if (mcds_do(m, &req, &answer) != NGX_MCDS_OK) {
        mcds_failed(m, key, answer.rc);
        return;
    }

    why = NULL;
    rc = ngx_mcds_entry_read(&entry, answer.text.data, answer.text.len, key,
                             &why);

    if (rc == NGX_OK && entry.kind == NGX_MCDS_ENTRY_VARY
        && ngx_mcds_vary_check(&entry.ext, &entry.body) == NGX_OK)
    {
        /* the body of a list is no list */

        ngx_mcds_vary_names(&entry.ext, &names);
        mcds_get_variant(m, &names, hash);
        mcds_get_variant_key(m, &entry, hash, &variant);
        mcds_answer_free(&answer);

        mcds_get_print(m, &variant, secrets);
        return;
    }

    if (rc != NGX_OK || entry.kind != NGX_MCDS_ENTRY_PAGE) {
        mcds_error(m, MCDS_NO, "%.*s: no page, %s", (int) key->len, key->data,
                   why ? why : mcds_get_state(&entry, 0));
        mcds_answer_free(&answer);
        return;
    }

    secrets = mcds_get_secrets(m, &entry, secrets);

    if (secrets
        && ngx_mcds_sign_check(answer.text.data, answer.text.len, &entry,
                               secrets)
           != NGX_OK)
    {
        mcds_error(m, MCDS_NO, "%.*s: is not signed", (int) key->len,
                   key->data);
        mcds_answer_free(&answer);
        return;
    }

    decoder = NULL;

    if (entry.coding) {
        decoder = ngx_mcds_decoder_create(entry.coding, entry.length);

        if (decoder == NULL) {
            mcds_no_memory();
        }
    }

    piece = entry.body;
    rc = mcds_get_write(decoder, &piece);

    for (i = 0; rc == NGX_OK && i < entry.parts; i++) {
        rc = mcds_get_part(m, &entry, i, secrets, &part, &piece);

        if (rc == NGX_OK) {
            rc = mcds_get_write(decoder, &piece);
            mcds_answer_free(&part);
        }
    }

    if (rc != NGX_OK) {
        mcds_error(m, MCDS_NO, "%.*s: the body is not whole", (int) key->len,
                   key->data);
    }

    if (decoder) {
        ngx_mcds_decoder_free(decoder);
    }

    mcds_answer_free(&answer);
}


static ngx_int_t
mcds_get_write(ngx_mcds_decoder_t *decoder, ngx_str_t *piece)
{
    u_char     *p, *buf;
    ngx_int_t   rc;

    if (decoder == NULL) {
        return fwrite(piece->data, 1, piece->len, stdout) == piece->len
               ? NGX_OK : NGX_ERROR;
    }

    buf = malloc(MCDS_GET_PIECE);

    if (buf == NULL) {
        mcds_no_memory();
    }

    do {
        p = buf;
        rc = ngx_mcds_decoder_run(decoder, piece, &p, buf + MCDS_GET_PIECE);

        if (rc != NGX_ERROR && fwrite(buf, 1, p - buf, stdout)
                               != (size_t) (p - buf))
        {
            rc = NGX_ERROR;
        }

    } while (rc == NGX_OK);

    free(buf);

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}
