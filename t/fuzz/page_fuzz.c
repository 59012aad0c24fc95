
/*
 * Copyright (C) mcds authors
 *
 * From a stored entry to what is done with it: whatever lies under the key of a
 * page is looked up, judged, read with its parts, as a whole or a range of
 * them, decoded, replaced and purged; a list of variants is followed, the
 * records of tags are asked for and made.  Memcached is a table in here that
 * answers as it should, or fails.
 *
 * Nothing that is done is longer than the bounds allow, all ends, and with a
 * secret nothing that an unsigned entry names is asked for.
 */


#include "io.h"
#include "slow.h"
#include "ngx_mcds_coding.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_body.h"
#include "ngx_mcds_tag.h"
#include "ngx_mcds_vary.h"


#define ITEMS      8
#define LONGEST    65536

/* maximum number of operations for a page, besides those for its parts */
#define FEW        (NGX_MCDS_TAGS_MAX * 2 + 64)

/* fields of the stored entry that are made right, so that it is accepted */
#define FIX_SIZES  0x01
#define FIX_BODY   0x02
#define FIX_PARTS  0x04
#define FIX_EXT    0x08

/* how the page is signed and read */
#define SECRET     0x10
#define SIGNED     0x20
#define FAILS      0x40
#define NO_BODY    0x80


typedef struct {
    ngx_queue_t           queue;
    ngx_mcds_request_t    req;
    ngx_str_t             key;         /* key of the item, with its suffix */
    ngx_str_t             text;
    ngx_mcds_op_t        *op;          /* NULL: the operation has no handler */
} one_t;


typedef struct {
    ngx_str_t             key;
    ngx_str_t             text;
    uint64_t              cas;
} item_t;


static ngx_mcds_value_t *mend(const u_char *data, size_t size,
    ngx_uint_t how, ngx_uint_t more);
static void look(void);
static void found(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);
static void use(ngx_mcds_snapshot_t *snapshot);
static void use_headers(ngx_mcds_entry_t *entry);
static void use_list(ngx_mcds_entry_t *entry);
static void use_tags(ngx_mcds_entry_t *entry);
static void tags_known(void *data);
static uint64_t body_before(ngx_mcds_entry_t *entry, uint32_t n);
static void use_body(ngx_mcds_snapshot_t *snapshot);
static void more_parts(void *data);
static ngx_int_t decode(ngx_mcds_decoder_t *decoder, ngx_str_t *in);
static void replace(void);
static void purge(ngx_uint_t how);
static void purged(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left);
static void run(void);
static void answer(one_t *one);
static void tell(one_t *one, ngx_mcds_result_t *result);
static void answer_part(one_t *one, ngx_mcds_result_t *result);
static item_t *find(ngx_str_t *key);
static void set(ngx_str_t *key, u_char *data, size_t len);
static void forget(item_t *item);
static uint64_t get(u_char *p, size_t n);
static void put(u_char *p, size_t n, uint64_t value);


static ngx_mcds_pool_t   pool;
static u_char            page_name[] = "page 00000000";
static ngx_str_t         page_key = { sizeof(page_name) - 1, page_name };
static ngx_str_t         secret = ngx_string("a key of the right length");
static ngx_array_t       secrets = { &secret, 1, sizeof(ngx_str_t), 1, NULL };

static ngx_array_t      *wanted;       /* secrets by which pages must be signed,
                                          or NULL */
static ngx_uint_t        unsigned_one; /* 1: the page must be signed, and is
                                          not */
static ngx_uint_t        choice, range, fails;

static ngx_queue_t       ops;
static ngx_uint_t        nops, nparts, ended;
static uint32_t          npages;
static item_t            items[ITEMS];
static uint64_t          last_cas;
static u_char            buf[LONGEST];


/* functions that replace those of client/ */

void
ngx_mcds_submit(ngx_mcds_pool_t *p, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    one_t  *one;

    one = calloc(1, sizeof(one_t));
    must(one != NULL && p == &pool);

    one->req = *req;
    one->op = op;

    if (op) {
        must(!ngx_mcds_op_active(op));
        op->link = &one->op;
    }

    one->key.len = req->key.len + req->suffix.len;
    one->key.data = malloc(one->key.len + 1);
    must(one->key.data != NULL);

    memcpy(one->key.data, req->key.data, req->key.len);
    one->key.data[one->key.len] = '\0';

    one->req.key.data = one->key.data;
    one->req.suffix.data = one->key.data + req->key.len;

    if (req->suffix.len) {
        memcpy(one->req.suffix.data, req->suffix.data, req->suffix.len);

        if (strncmp((char *) req->suffix.data, ":part:", 6) == 0) {
            nparts++;
        }
    }

    if (req->value) {
        ngx_mcds_value_ref(req->value);
    }

    one->text.len = req->text.len;
    one->text.data = malloc(req->text.len + 1);
    must(one->text.data != NULL);

    if (req->text.len) {
        memcpy(one->text.data, req->text.data, req->text.len);
    }

    ngx_queue_insert_tail(&ops, &one->queue);
    nops++;
}


void
ngx_mcds_submit_to(ngx_mcds_pool_t *p, ngx_uint_t n, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    must(n == 0);

    ngx_mcds_submit(p, req, op);
}


ngx_uint_t
ngx_mcds_pool_batch(ngx_mcds_pool_t *p, size_t len)
{
    must(p == &pool);

    return 2;
}


void
ngx_mcds_cancel(ngx_mcds_op_t *op)
{
    if (op->link) {
        *op->link = NULL;
        op->link = NULL;
    }
}


ngx_uint_t
ngx_mcds_place(ngx_mcds_pool_t *p, ngx_str_t *page)
{
    return 1;
}


ngx_uint_t
ngx_mcds_first(ngx_mcds_pool_t *p, ngx_mcds_request_t *req)
{
    return 0;
}


ngx_uint_t
ngx_mcds_disabled(ngx_mcds_pool_t *p, ngx_uint_t n)
{
    return 0;
}


ngx_uint_t
ngx_mcds_ejected(ngx_mcds_pool_t *p, ngx_mcds_request_t *req)
{
    return (choice & 0x20) != 0;
}


ngx_uint_t
ngx_mcds_down(ngx_mcds_pool_t *p, ngx_mcds_request_t *req)
{
    return 0;
}


ngx_mcds_value_t *
ngx_mcds_result_value(ngx_mcds_result_t *result, ngx_log_t *log)
{
    ngx_mcds_value_t  *value;

    value = ngx_mcds_value_create(result->len + 2, log);
    must(value != NULL);

    memcpy(value->data, result->data, result->len);
    value->len = result->len;

    return value;
}


void
ngx_conf_log_error(ngx_uint_t level, ngx_conf_t *cf, ngx_err_t err,
    const char *fmt, ...)
{
    /* void */
}


/* functions that replace nginx's shared memory, which is always full */

void *
ngx_slab_alloc_locked(ngx_slab_pool_t *p, size_t size)
{
    return NULL;
}


void *
ngx_slab_calloc(ngx_slab_pool_t *p, size_t size)
{
    return NULL;
}


void
ngx_slab_free_locked(ngx_slab_pool_t *p, void *data)
{
    /* void */
}


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    ngx_uint_t         i, how;
    ngx_mcds_value_t  *value;

    if (size < 4) {
        return 0;
    }

    io_reset();

    ngx_queue_init(&ops);
    ngx_str_set(&pool.name, "main");

    /* each input has another page, since a worker remembers pages */

    ngx_sprintf(page_name, "page %08xD", npages++);

    how = data[0];
    choice = data[1];
    range = data[2];
    fails = (how & FAILS) ? 1 + data[3] % 32 : 0;
    wanted = (how & SECRET) ? &secrets : NULL;
    unsigned_one = (how & SECRET) && !(how & SIGNED);

    value = mend(data + 4, size - 4, how, data[3]);

    last_cas = 1;
    set(&page_key, value->data, value->len);
    ngx_mcds_value_unref(value);

    switch (choice % 4) {

    case 0:
        look();
        break;

    case 1:
        look();
        replace();
        break;

    case 2:
        purge(NGX_MCDS_PURGE_INVALIDATE);
        look();
        break;

    default:
        purge(NGX_MCDS_PURGE_DELETE);
        break;
    }

    for (i = 0; i < ITEMS; i++) {
        forget(&items[i]);
    }

    return 0;
}


/* makes a stored entry of the input, with the correct checksum and key */

static ngx_mcds_value_t *
mend(const u_char *data, size_t size, ngx_uint_t how, ngx_uint_t more)
{
    char              *why;
    u_char            *p, ext[NGX_MCDS_SIGN_EXT];
    size_t             len, room;
    uint64_t           sum, parts, part;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    if (size > LONGEST / 2) {
        size = LONGEST / 2;
    }

    room = ngx_max(size, 112) + page_key.len + NGX_MCDS_SIGN_EXT;

    value = ngx_mcds_value_create(room + 2, ngx_cycle->log);
    must(value != NULL);

    p = value->data;
    memset(p, 0, room);
    memcpy(p, data, ngx_min(size, 112));

    memcpy(p, "MCDS", 4);
    p[4] = (p[4] % 2) + 1;
    put(p + 6, 2, 112);

    /* behind the entry's header: key, signature, and the rest of the input */

    put(p + 64, 4, page_key.len);
    memcpy(p + 112, page_key.data, page_key.len);
    len = 112 + page_key.len;

    (void) ngx_mcds_sign_put(ext);

    if (how & SIGNED) {
        memcpy(p + len, ext, NGX_MCDS_SIGN_EXT);
        len += NGX_MCDS_SIGN_EXT;
    }

    if (size > 112) {
        memcpy(p + len, data + 112, size - 112);
        len += size - 112;
    }

    value->len = len;
    len -= 112 + page_key.len;

    if (how & FIX_SIZES) {
        sum = (how & SIGNED) ? NGX_MCDS_SIGN_EXT : 0;
        sum += ngx_min(get(p + 68, 4) % 256, len - sum);
        put(p + 68, 4, sum);
        put(p + 72, 4, ngx_min(get(p + 72, 4) % 512, len - sum));
        put(p + 76, 4, len - sum - get(p + 72, 4));
    }

    if ((how & FIX_EXT) && get(p + 68, 4) >= 6 && get(p + 68, 4) <= len) {

        /* one extension behind the signature: names of headers, or tags */

        sum = (how & SIGNED) ? NGX_MCDS_SIGN_EXT : 0;

        if (get(p + 68, 4) >= sum + 6) {
            put(p + 112 + page_key.len + sum, 2, 1 + more % 2);
            put(p + 114 + page_key.len + sum, 4, get(p + 68, 4) - sum - 6);
        }
    }

    if (how & FIX_BODY) {
        put(p + 40, 8, get(p + 76, 4));
        put(p + 80, 4, 0);
        p[5] %= 4;
        put(p + 84, 2, (p[5] == 0) ? 200 + get(p + 84, 2) % 400 : 0);
    }

    if (how & FIX_PARTS) {
        p[5] = 0;
        put(p + 84, 2, 200);

        /* few parts of the body; rarely the maximum, which takes long */

        parts = (more == 0xff) ? NGX_MCDS_MAX_PARTS - 8 + range % 16
                               : 1 + more % 32;
        part = get(p + 88, 4) % ((more & 0x40) ? 0x100000000ULL : 512);
        part += (part == 0);

        put(p + 80, 4, parts);
        put(p + 88, 4, part);
        put(p + 40, 8, get(p + 76, 4) + (parts - 1) * part + 1);
    }

    put(p + 12, 4, ngx_mcds_crc32c(ngx_mcds_crc32c(0, p, 12), p + 16,
                                   value->len - 16));

    if ((how & SIGNED)
        && ngx_mcds_entry_read(&entry, p, value->len, &page_key, &why)
           == NGX_OK)
    {
        (void) ngx_mcds_sign(value, &entry, &secrets);
    }

    return value;
}


static void
look(void)
{
    ngx_mcds_waiter_t  waiter;

    must(ngx_mcds_page_join(&waiter, &pool, &page_key, 1024 * 1024, found, NULL)
         == NGX_OK);

    waiter.secrets = wanted;
    waiter.no_body = (choice & NO_BODY) ? 1 : 0;

    ended = 0;
    nops = 0;
    nparts = 0;

    must(ngx_mcds_page_lookup(&waiter) == NGX_OK);

    run();

    must(ended == 1);
    must(unsigned_one ? nparts == 0
                      : nparts <= 2 * NGX_MCDS_MAX_PARTS + NGX_MCDS_WINDOW);
    must(nops <= nparts + FEW);

    ngx_mcds_page_leave(&waiter);
    run();
}


static void
found(void *data, ngx_uint_t outcome, ngx_mcds_snapshot_t *snapshot)
{
    ended++;

    if (outcome != NGX_MCDS_PAGE_FOUND) {
        must(snapshot == NULL);
        return;
    }

    must(snapshot != NULL);
    must(snapshot->entry.total <= 1024 * 1024);
    must(snapshot->entry.parts <= NGX_MCDS_MAX_PARTS);

    if (ngx_mcds_snapshot_signed(snapshot, wanted) == NGX_OK) {
        ngx_mcds_snapshot_ref(snapshot);
        use(snapshot);
        ngx_mcds_snapshot_unref(snapshot);
    }
}


static void
use(ngx_mcds_snapshot_t *snapshot)
{
    ngx_mcds_entry_t  *entry;

    entry = &snapshot->entry;

    use_headers(entry);
    use_tags(entry);

    if (entry->kind == NGX_MCDS_ENTRY_VARY) {
        use_list(entry);
    }

    if (entry->kind == NGX_MCDS_ENTRY_PAGE) {
        use_body(snapshot);
    }
}


static void
use_headers(ngx_mcds_entry_t *entry)
{
    ngx_str_t   left, name, value;
    ngx_uint_t  n;

    left = entry->headers;

    for (n = 0; ngx_mcds_entry_header(&left, &name, &value) == NGX_OK; n++) {
        must(ngx_mcds_entry_header_check(&name, &value) == NGX_OK);
    }

    must(n == entry->lines && n <= NGX_MCDS_ENTRY_LINES);
}


static void
use_list(ngx_mcds_entry_t *entry)
{
    u_char              hash[NGX_MCDS_VARIANT_LEN];
    ngx_str_t           names, name;
    ngx_uint_t          n;
    ngx_mcds_variant_t  variant;

    ngx_mcds_vary_names(&entry->ext, &names);
    must(names.len > 0 && names.len <= NGX_MCDS_MAX_VARY_LEN);
    must(entry->body.len <= NGX_MCDS_MAX_VARIANTS * NGX_MCDS_VARIANT_LEN);

    ngx_mcds_variant_begin(&variant);

    for (n = 0; ngx_mcds_vary_next(&names, &name) == NGX_OK; n++) {
        ngx_mcds_variant_name(&variant, &name);
        ngx_mcds_variant_line(&variant, &name);
    }

    must(n <= NGX_MCDS_MAX_VARY);

    ngx_mcds_variant_end(&variant, hash);
    (void) ngx_mcds_vary_has(&entry->body, hash);
    (void) ngx_mcds_entry_purged(entry, entry);
}


static void
use_tags(ngx_mcds_entry_t *entry)
{
    uint64_t          counter;
    ngx_str_t         list;
    ngx_mcds_tags_t  *tags;

    if (ngx_mcds_tags_get(entry, &counter, &list) != NGX_OK) {
        return;
    }

    ngx_mcds_tags_remember(&pool, &page_key, &list);

    tags = ngx_mcds_tags_create(&pool, &page_key, &list, 1, tags_known, NULL);
    must(tags != NULL);

    if (choice & 0x10) {
        run();
        must(ngx_mcds_tags_verdict(tags, counter, &list)
             != NGX_MCDS_TAGS_ASK);
        ngx_mcds_tags_make(&pool, &page_key, &list, 1);
    }

    ngx_mcds_tags_free(tags);
}


static void
tags_known(void *data)
{
    /* void */
}


/* the number of bytes of a body before its part n */

static uint64_t
body_before(ngx_mcds_entry_t *entry, uint32_t n)
{
    return entry->body.len + (uint64_t) n * entry->part;
}


/* reads and decodes a page's body, or some of its parts, unless one is lost */

static void
use_body(ngx_mcds_snapshot_t *snapshot)
{
    off_t                  from, to;
    uint32_t               first, last;
    ngx_int_t              rc;
    ngx_str_t              body;
    ngx_uint_t             n;
    ngx_mcds_body_part_t  *part;
    ngx_mcds_entry_t      *entry;
    ngx_mcds_body_t       *stream;
    ngx_mcds_decoder_t    *decoder;

    entry = &snapshot->entry;
    decoder = NULL;

    if (entry->coding) {
        decoder = ngx_mcds_decoder_create(entry->coding, entry->length);
        must(decoder != NULL);
    }

    body = entry->body;
    rc = decode(decoder, &body);

    first = 0;
    last = entry->parts;

    if (last && decoder == NULL) {
        first = range % last;
        last = first + 1 + range % (last - first);
    }

    if (rc == NGX_OK && last) {
        from = (off_t) body_before(entry, first);
        to = (off_t) body_before(entry, last);

        must(ngx_mcds_body_skip(entry, to - 1)
             == (last > 1 ? (off_t) body_before(entry, last - 1) : 0));

        stream = ngx_mcds_body_open(snapshot, first ? from : 0, to, wanted,
                                    more_parts, NULL);
        must(stream != NULL);

        for (n = 0; rc == NGX_OK && n < 64; /* void */ ) {
            rc = ngx_mcds_body_next(stream, &part, &body);

            if (rc == NGX_AGAIN) {
                run();
                rc = ngx_mcds_body_next(stream, &part, &body);
                must(rc != NGX_AGAIN || stream != NULL);
            }

            if (rc == NGX_AGAIN) {

                /* the part is read again, as after a closed connection */

                rc = NGX_OK;
                n++;
                continue;
            }

            if (rc == NGX_OK) {
                must(body.len == ngx_mcds_entry_part(entry, first + n));
                rc = decode(decoder, &body);
                ngx_mcds_body_done(stream, part);
                n++;
            }
        }

        ngx_mcds_body_close(stream);
    }

    if (decoder) {
        ngx_mcds_decoder_free(decoder);
    }
}


static void
more_parts(void *data)
{
    /* void */
}


static ngx_int_t
decode(ngx_mcds_decoder_t *decoder, ngx_str_t *in)
{
    u_char     *p;
    ngx_int_t   rc;

    if (decoder == NULL) {
        return NGX_OK;
    }

    do {
        p = buf;
        rc = ngx_mcds_decoder_run(decoder, in, &p, buf + sizeof(buf));
        must(p >= buf && p <= buf + sizeof(buf));
    } while (rc == NGX_OK);

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}


/* stores another page in the place of the one that was read */

static void
replace(void)
{
    item_t              *item;
    ngx_mcds_waiter_t    waiter;
    ngx_mcds_entry_t     entry;
    ngx_mcds_value_t    *value;
    ngx_mcds_storing_t   storing;
    u_char               ext[NGX_MCDS_SIGN_EXT];

    must(ngx_mcds_page_join(&waiter, &pool, &page_key, 1024 * 1024, found, NULL)
         == NGX_OK);

    waiter.secrets = wanted;

    ngx_memzero(&entry, sizeof(ngx_mcds_entry_t));

    entry.key = page_key;
    entry.status = 200;
    entry.created = ngx_mcds_now();
    entry.expire = entry.created + 1000;

    if (wanted) {
        (void) ngx_mcds_sign_put(ext);
        entry.ext.data = ext;
        entry.ext.len = NGX_MCDS_SIGN_EXT;
    }

    value = ngx_mcds_entry_begin(&entry, 2, ngx_cycle->log);
    must(value != NULL);

    ngx_mcds_entry_finish(value, &entry);

    if (wanted) {
        must(ngx_mcds_sign(value, &entry, wanted) == NGX_OK);
    }

    nops = 0;
    nparts = 0;

    item = find(&page_key);

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.cas = item ? item->cas : 0;
    storing.replace = 1;

    (void) ngx_mcds_page_store(&waiter, &storing);
    run();

    must(unsigned_one ? nparts == 0 : nparts <= NGX_MCDS_MAX_PARTS);
    must(nops <= nparts + FEW);

    ngx_mcds_page_leave(&waiter);
    run();
}


static void
purge(ngx_uint_t how)
{
    ended = 0;
    nops = 0;
    nparts = 0;

    must(ngx_mcds_purge_key(&pool, &page_key, how, ngx_mcds_now(), wanted,
                            purged, NULL)
         == NGX_OK);
    run();

    must(ended == 1);
    must(unsigned_one ? nparts == 0 : nparts <= NGX_MCDS_MAX_PARTS);
    must(nops <= nparts + FEW);
}


static void
purged(void *data, ngx_uint_t rc, ngx_uint_t what,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    ended++;
    must(!unsigned_one || what == NGX_MCDS_PURGED_NOTHING);
}


/* runs events and operations until none is left */

static void
run(void)
{
    one_t        *one;
    ngx_queue_t  *q;

    for ( ;; ) {
        io_posted();

        if (ngx_queue_empty(&ops)) {
            return;
        }

        q = ngx_queue_head(&ops);
        one = ngx_queue_data(q, one_t, queue);
        ngx_queue_remove(q);

        answer(one);

        if (one->req.value) {
            ngx_mcds_value_unref(one->req.value);
        }

        free(one->text.data);
        free(one->key.data);
        free(one);
    }
}


static void
tell(one_t *one, ngx_mcds_result_t *result)
{
    ngx_mcds_op_t  *op;

    op = one->op;

    if (op) {
        ngx_mcds_cancel(op);
        op->handler(op->data, result);
    }
}


static void
answer(one_t *one)
{
    item_t             *item;
    ngx_mcds_result_t   result;

    static ngx_uint_t  codes[] = {
        NGX_MCDS_TIMEOUT, NGX_MCDS_CLOSED, NGX_MCDS_DOWN, NGX_MCDS_BUSY,
        NGX_MCDS_TOO_LARGE, NGX_MCDS_SERVER_ERROR, NGX_MCDS_NOT_FOUND
    };

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    if (fails && nops % 32 == fails % 32) {
        result.rc = codes[(nops + fails) % 7];
        tell(one, &result);
        return;
    }

    item = find(&one->key);
    result.rc = NGX_MCDS_NOT_FOUND;

    switch (one->req.verb) {

    case NGX_MCDS_GET:

        if (one->req.suffix.len
            && strncmp((char *) one->req.suffix.data, ":part:", 6) == 0)
        {
            answer_part(one, &result);
            return;
        }

        if (item) {
            result.rc = NGX_MCDS_OK;
            result.has = one->req.want;
            result.cas = item->cas;

            if (one->req.want & NGX_MCDS_VALUE) {
                result.data = item->text.data;
                result.len = item->text.len;

                if (one->req.limit && result.len > one->req.limit) {
                    result.rc = NGX_MCDS_TOO_LARGE;
                    result.has &= ~(ngx_uint_t) NGX_MCDS_VALUE;
                }
            }
        }

        break;

    case NGX_MCDS_SET:
    case NGX_MCDS_ADD:

        if (one->req.verb == NGX_MCDS_ADD && item) {
            result.rc = NGX_MCDS_NOT_STORED;
            break;
        }

        if (one->req.cas && (item == NULL || item->cas != one->req.cas)) {
            result.rc = item ? NGX_MCDS_EXISTS : NGX_MCDS_NOT_FOUND;
            break;
        }

        set(&one->key,
            one->req.value ? one->req.value->data : one->text.data,
            one->req.value ? one->req.value->len : one->text.len);

        result.rc = NGX_MCDS_OK;
        result.has = one->req.want;
        result.cas = last_cas;
        break;

    case NGX_MCDS_INCR:
        result.rc = NGX_MCDS_OK;
        result.has = NGX_MCDS_VALUE;
        result.data = (u_char *) "100";
        result.len = 3;
        break;

    default:
        result.rc = item ? NGX_MCDS_OK : NGX_MCDS_NOT_FOUND;
    }

    tell(one, &result);
}


/* replies with a part of a page's body: correct, missing or truncated */

static void
answer_part(one_t *one, ngx_mcds_result_t *result)
{
    u_char            *p;
    size_t             len;
    uint64_t           generation;
    uint32_t           n;
    ngx_str_t          suffix;
    ngx_mcds_value_t  *value;

    suffix = one->req.suffix;
    p = suffix.data;
    must(suffix.len > 23);

    generation = strtoull((char *) p + 6, NULL, 16);

    for (n = 0, p += 23; p < one->key.data + one->key.len; p++) {
        n = n * 10 + *p - '0';
    }

    must(n < NGX_MCDS_MAX_PARTS);

    if ((choice & 0x0c) == 0x0c && n % 16 == range % 16) {
        tell(one, result);
        return;
    }

    result->rc = NGX_MCDS_OK;

    if (!(one->req.want & NGX_MCDS_VALUE)) {
        tell(one, result);
        return;
    }

    must(one->req.limit >= NGX_MCDS_PART_SIGNED);
    len = one->req.limit - NGX_MCDS_PART_SIGNED;

    if (len > LONGEST) {
        result->rc = NGX_MCDS_TOO_LARGE;
        tell(one, result);
        return;
    }

    value = ngx_mcds_part_begin(wanted ? NGX_MCDS_PART_SIGNED
                                       : NGX_MCDS_PART_HEADER, len,
                                ngx_cycle->log);
    must(value != NULL);

    memset(value->data + value->len, 'x', len);
    value->len += len - ((choice & 0x0c) == 0x08 && n % 16 == range % 16
                         && len > 1);

    ngx_mcds_part_finish(value, generation, n);

    if (wanted) {
        must(ngx_mcds_sign_part(value, &one->req.key, &secrets) == NGX_OK);
    }

    result->has = NGX_MCDS_VALUE;
    result->data = value->data;
    result->len = value->len;

    tell(one, result);

    ngx_mcds_value_unref(value);
}


static item_t *
find(ngx_str_t *key)
{
    ngx_uint_t  i;

    for (i = 0; i < ITEMS; i++) {
        if (items[i].key.data
            && items[i].key.len == key->len
            && memcmp(items[i].key.data, key->data, key->len) == 0)
        {
            return &items[i];
        }
    }

    return NULL;
}


/*
 * stores an item in its place of the table, in a free one, or in that of
 * another item, except for the page
 */

static void
set(ngx_str_t *key, u_char *data, size_t len)
{
    item_t      *item;
    ngx_str_t    saved;
    ngx_uint_t   i;

    item = find(key);

    for (i = 0; item == NULL && i < ITEMS; i++) {
        if (items[i].key.data == NULL) {
            item = &items[i];
        }
    }

    if (item == NULL) {
        item = &items[1 + last_cas % (ITEMS - 1)];
    }

    saved.len = key->len;
    saved.data = malloc(key->len + 1);
    must(saved.data != NULL);
    memcpy(saved.data, key->data, key->len);

    forget(item);

    item->key = saved;
    item->text.len = len;
    item->text.data = malloc(len + 1);
    must(item->text.data != NULL);
    memcpy(item->text.data, data, len);

    item->cas = ++last_cas;
}


static void
forget(item_t *item)
{
    free(item->key.data);
    free(item->text.data);

    memset(item, 0, sizeof(item_t));
}


static uint64_t
get(u_char *p, size_t n)
{
    uint64_t  value;

    for (value = 0; n; n--) {
        value = value << 8 | p[n - 1];
    }

    return value;
}


static void
put(u_char *p, size_t n, uint64_t value)
{
    for ( /* void */ ; n; n--) {
        *p++ = (u_char) value;
        value >>= 8;
    }
}
