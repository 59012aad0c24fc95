
/*
 * Copyright (C) mcds authors
 *
 * mcds counter, mcds visitors and mcds top: show counters, numbers of visitors
 * and lists of the most counted keys; "counter" also changes counters.
 */


#include "mcds.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_raise.h"
#include "ngx_mcds_top.h"
#include "ngx_mcds_visitors.h"


/* default window of mcds_visitor_counter, seconds, and its number of slots */
#define MCDS_VISITORS_WINDOW      300
#define MCDS_VISITORS_SLOTS       5


typedef struct {
    ngx_uint_t   done;
    ngx_uint_t   rc;
    uint64_t     value;
} mcds_number_t;


static json_t *mcds_counter_get(mcds_t *m, ngx_str_t *key);
static json_t *mcds_counter_add(mcds_t *m, ngx_str_t *key, ngx_str_t *number);
static json_t *mcds_counter_set(mcds_t *m, ngx_str_t *key, ngx_str_t *number);
static json_t *mcds_counter_reset(mcds_t *m, ngx_str_t *key);
static json_t *mcds_counter_object(mcds_t *m, ngx_str_t *key);
static void mcds_counter_unmark(mcds_t *m, ngx_str_t *key);
static void mcds_counter_done(void *data, ngx_uint_t rc, uint64_t value);
static void mcds_counter_window(mcds_t *m, mcds_directive_t *directive,
    uint32_t *window, uint32_t *slots);
static void mcds_counter_slots(mcds_t *m, mcds_directive_t *directive,
    uint32_t *window, uint32_t *slots);
static mcds_directive_t *mcds_visitors_find(mcds_t *m, ngx_str_t *key);
static ngx_uint_t mcds_visitors_rank(mcds_directive_t *directive);
static ngx_uint_t mcds_visitors_same(mcds_t *m, mcds_directive_t *a,
    mcds_directive_t *b);
static ngx_uint_t mcds_visitors_interpolated(mcds_directive_t *directive);
static void mcds_top_done(void *data);


void
mcds_counter(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t      *list, *o;
    ngx_uint_t   i, get, set, add, reset;

    get = mcds_is(&args[0], "get");
    set = mcds_is(&args[0], "set");
    add = mcds_is(&args[0], "add");
    reset = mcds_is(&args[0], "reset");

    if (!get && !set && !add && !reset) {
        mcds_usage(m, "unknown subcommand: %s", args[0].data);
    }

    if ((set || add) && n != 3) {
        mcds_usage(m, "%s needs a key and a number", args[0].data);
    }

    if (m->o.ttl && !set && !add) {
        mcds_usage(m, "%s does not accept --ttl", args[0].data);
    }

    if (set || add) {
        n = 2;
    }

    /*
     * a key whose pool is not known ends the tool: so the pools of all keys are
     * looked up before a counter is changed
     */

    for (i = 1; i < n; i++) {
        mcds_site_key_pool(m, "mcds_counter mcds_counter_api", &args[i]);
    }

    list = json_array();

    for (i = 1; i < n; i++) {
        mcds_site_key_pool(m, "mcds_counter mcds_counter_api", &args[i]);

        if (set || add) {
            o = set ? mcds_counter_set(m, &args[1], &args[2])
                    : mcds_counter_add(m, &args[1], &args[2]);

        } else {
            o = get ? mcds_counter_get(m, &args[i])
                    : mcds_counter_reset(m, &args[i]);
        }

        (void) json_array_append_new(list, o);
    }

    mcds_show(m, list);
}


static json_t *
mcds_counter_object(mcds_t *m, ngx_str_t *key)
{
    json_t              *o;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));
    req.key = *key;

    o = json_object();

    mcds_put(o, "key", mcds_json(key));
    mcds_put(o, "server", mcds_json(mcds_server(m, &req)));

    return o;
}


static json_t *
mcds_counter_get(mcds_t *m, ngx_str_t *key)
{
    json_t              *o;
    uint64_t             value;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_TTL;
    req.key = *key;
    req.limit = NGX_MCDS_BULK;
    req.number = 1;

    o = mcds_counter_object(m, key);

    rc = mcds_do(m, &req, &answer);

    if (rc == NGX_MCDS_OK
        && ngx_mcds_parse_number(answer.text.data, answer.text.len, &value)
           != NGX_OK)
    {
        rc = NGX_MCDS_NOT_NUMERIC;
    }

    mcds_put(o, "value", (rc == NGX_MCDS_OK) ? mcds_count(value)
                                             : json_null());

    if (rc == NGX_MCDS_OK && (answer.has & NGX_MCDS_TTL)) {

        /*
         * "ttl" is null for a counter that never expires.  To memcached such a
         * counter may have an expiry, years ahead, in which nginx has encoded
         * the time of the counter's creation.
         */

        mcds_put(o, "ttl",
                 (answer.ttl < 0
                  || ngx_mcds_raise_marked(answer.ttl, ngx_time()) >= 0)
                 ? json_null() : json_integer(answer.ttl));
    }

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, key, rc);
    }

    mcds_answer_free(&answer);

    return o;
}


static json_t *
mcds_counter_add(mcds_t *m, ngx_str_t *key, ngx_str_t *number)
{
    json_t              *o;
    int64_t              delta;
    uint64_t             n;
    ngx_uint_t           rc, minus;
    mcds_number_t        result;
    ngx_mcds_counter_t   counter;
    ngx_mcds_request_t   req;

    minus = (number->len && number->data[0] == '-');

    if (ngx_mcds_parse_number(number->data + minus, number->len - minus, &n)
        != NGX_OK
        || n == 0
        || n > INT64_MAX)
    {
        mcds_usage(m, "%s is not a number that can be added", number->data);
    }

    delta = n;

    ngx_memzero(&counter, sizeof(ngx_mcds_counter_t));
    ngx_memzero(&result, sizeof(mcds_number_t));

    counter.pool = m->pool;
    counter.key = *key;
    counter.ttl = m->o.ttl;

    if (ngx_mcds_counter_change(&counter, minus ? -delta : delta,
                                mcds_counter_done, &result)
        == NULL)
    {
        mcds_no_memory();
    }

    mcds_wait(&result.done);

    rc = result.rc;

    if (minus && rc == NGX_MCDS_OK) {

        /*
         * a subtraction counts as failed if a replica is down: the replica
         * keeps the number from before the subtraction, which is larger, and
         * the counter gets that number again when the replica returns
         */

        ngx_memzero(&req, sizeof(ngx_mcds_request_t));
        req.key = *key;

        if (ngx_mcds_down(m->pool, &req)) {
            rc = NGX_MCDS_DOWN;
        }

        mcds_counter_unmark(m, key);
    }

    o = mcds_counter_object(m, key);

    mcds_put(o, "value", (result.rc == NGX_MCDS_OK)
                         ? mcds_count(result.value) : json_null());

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, key, rc);
    }

    return o;
}


/*
 * removes nginx's mark, an expiry that encodes the time of creation, from a
 * counter that the tool has decreased: nginx would raise a counter with a mark
 * to the larger number that nginx still has in its shared memory
 */

static void
mcds_counter_unmark(mcds_t *m, ngx_str_t *key)
{
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_TTL;
    req.key = *key;

    if (mcds_do(m, &req, &answer) == NGX_MCDS_OK
        && (answer.has & NGX_MCDS_TTL)
        && ngx_mcds_raise_marked(answer.ttl, ngx_time()) >= 0)
    {
        mcds_answer_free(&answer);

        req.verb = NGX_MCDS_TOUCH;
        req.want = 0;

        (void) mcds_do(m, &req, &answer);
    }

    mcds_answer_free(&answer);
}


static void
mcds_counter_done(void *data, ngx_uint_t rc, uint64_t value)
{
    mcds_number_t *number = data;

    number->done = 1;
    number->rc = rc;
    number->value = value;
}


static json_t *
mcds_counter_set(mcds_t *m, ngx_str_t *key, ngx_str_t *number)
{
    json_t              *o;
    uint64_t             value;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    if (ngx_mcds_parse_number(number->data, number->len, &value) != NGX_OK) {
        mcds_usage(m, "%s is not a non-negative number", number->data);
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = *key;
    req.text = *number;
    req.ttl = m->o.ttl;

    /*
     * the command succeeds only if every replica has set the number: a replica
     * that was down and kept a larger number would undo the command later
     */

    req.every = 1;

    o = mcds_counter_object(m, key);

    rc = mcds_do(m, &req, &answer);

    mcds_put(o, "value", (rc == NGX_MCDS_OK) ? mcds_count(value)
                                             : json_null());

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, key, rc);
    }

    return o;
}


static json_t *
mcds_counter_reset(mcds_t *m, ngx_str_t *key)
{
    json_t              *o;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_DELETE;
    req.key = *key;

    o = mcds_counter_object(m, key);

    rc = mcds_do(m, &req, &answer);

    mcds_put(o, "reset", json_boolean(rc == NGX_MCDS_OK));

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, key, rc);
    }

    return o;
}


/*
 * finds the window of a counter of visitors, or of a list of the most counted
 * keys, and the number of slots of time into which the window is divided; ends
 * the tool if they are invalid
 */

static void
mcds_counter_window(mcds_t *m, mcds_directive_t *directive, uint32_t *window,
    uint32_t *slots)
{
    mcds_counter_slots(m, directive, window, slots);

    /*
     * by default, mcds_counter_top has the largest number of slots of time, at
     * most 24, for which each slot is a whole number of seconds long
     */

    if (*slots == 0) {
        for (*slots = 24; *window % *slots; (*slots)--) { /* void */ }
    }

    if (*window == 0 || *window % *slots || *window > NGX_MCDS_MAX_TTL
        || *slots > 60)
    {
        mcds_usage(m, "the window must be at most 30 days, and a multiple of "
                      "the number of slots, which is at most 60");
    }
}


/*
 * sets the window and its number of slots of time to the values of --window and
 * --slots, or else of nginx's directive; without these, leaves the defaults
 */

static void
mcds_counter_slots(mcds_t *m, mcds_directive_t *directive, uint32_t *window,
    uint32_t *slots)
{
    ngx_int_t   n;
    ngx_str_t  *value, param;

    value = directive ? mcds_site_param(directive, "window=") : NULL;

    if (value) {
        param = *value;
        n = ngx_parse_time(&param, 1);

        /*
         * a parameter "window=" that nginx would reject becomes 0, which the
         * tool rejects later, unless --window replaces it
         */

        *window = (n > 0 && n <= NGX_MCDS_MAX_TTL) ? (uint32_t) n : 0;
    }

    value = directive ? mcds_site_param(directive, "slots=") : NULL;

    if (value) {
        n = ngx_atoi(value->data, value->len);
        *slots = (n > 0 && n <= 60) ? (uint32_t) n : 61;
    }

    if (m->o.window) {
        *window = m->o.window;
    }

    if (m->o.slots) {
        *slots = m->o.slots;
    }
}


/*
 * Finds the directive mcds_visitor_counter that counts this key in the pool of
 * memcached servers that mcds uses: one with just this key or else, of the
 * directives whose variables may result in this key, the one with the longest
 * text before its first variable.  Ends the tool if several directives are
 * equally suitable, and differ in the window or slots.
 */

static mcds_directive_t *
mcds_visitors_find(mcds_t *m, ngx_str_t *key)
{
    ngx_int_t          exact;
    ngx_uint_t         i, rank, best, differ;
    mcds_directive_t  *directive, *found;

    found = NULL;
    best = 0;
    differ = 0;

    for (exact = 1; exact >= 0 && found == NULL; exact--) {
        i = 0;

        while ((directive = mcds_site_find_key(m, &i, "mcds_visitor_counter",
                                               key, exact)))
        {
            if (mcds_site_uses(m, directive, m->pool) != 1) {
                continue;
            }

            rank = mcds_visitors_rank(directive);

            if (found == NULL || rank > best) {
                found = directive;
                best = rank;
                differ = 0;

            } else if (rank == best) {
                differ |= !mcds_visitors_same(m, found, directive);
            }
        }
    }

    if (differ) {
        mcds_usage(m, "%.*s: several mcds_visitor_counter may have this key, "
                      "and differ in window or slots, choose them with "
                      "--window and --slots", (int) key->len, key->data);
    }

    return found;
}


/*
 * Returns how specific the key of a directive is: 1 plus the length of the text
 * before its first variable, or 0 if the directive has no key.
 */

static ngx_uint_t
mcds_visitors_rank(mcds_directive_t *directive)
{
    u_char     *p;
    ngx_str_t  *key;

    key = mcds_site_param(directive, "key=");

    if (key == NULL) {
        return 0;
    }

    p = ngx_strlchr(key->data, key->data + key->len, '$');

    return 1 + (p ? (size_t) (p - key->data) : key->len);
}


static ngx_uint_t
mcds_visitors_same(mcds_t *m, mcds_directive_t *a, mcds_directive_t *b)
{
    uint32_t  window[2], slots[2];

    window[0] = window[1] = MCDS_VISITORS_WINDOW;
    slots[0] = slots[1] = MCDS_VISITORS_SLOTS;

    mcds_counter_slots(m, a, &window[0], &slots[0]);
    mcds_counter_slots(m, b, &window[1], &slots[1]);

    return window[0] == window[1] && slots[0] == slots[1];
}


static ngx_uint_t
mcds_visitors_interpolated(mcds_directive_t *directive)
{
    ngx_uint_t  i;

    for (i = 1; directive && i < directive->n; i++) {
        if (mcds_is(&directive->words[i], "interpolate=off")) {
            return 0;
        }
    }

    return 1;
}


void
mcds_visitors(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t               *list, *o;
    uint64_t              value;
    ngx_int_t             rc;
    ngx_uint_t            i;
    mcds_number_t         result;
    ngx_mcds_sum_t       *sum;
    mcds_directive_t     *directive;
    ngx_mcds_visitors_t   visitors;

    list = json_array();

    for (i = 0; i < n; i++) {
        mcds_site_key_pool(m, "mcds_visitor_counter", &args[i]);

        ngx_memzero(&visitors, sizeof(ngx_mcds_visitors_t));
        ngx_memzero(&result, sizeof(mcds_number_t));

        visitors.pool = m->pool;
        visitors.window = MCDS_VISITORS_WINDOW;
        visitors.slots = MCDS_VISITORS_SLOTS;

        directive = mcds_visitors_find(m, &args[i]);

        mcds_counter_window(m, directive, &visitors.window, &visitors.slots);

        visitors.interpolate = mcds_visitors_interpolated(directive);

        rc = ngx_mcds_visitors_sum(&visitors, &args[i], mcds_now() / 1000,
                                   &value, mcds_counter_done, &result, &sum);

        if (rc == NGX_ERROR) {
            mcds_no_memory();
        }

        if (rc == NGX_AGAIN) {
            mcds_wait(&result.done);

        } else {
            result.value = value;
        }

        o = mcds_counter_object(m, &args[i]);

        mcds_put(o, "visitors", (result.rc == NGX_MCDS_OK)
                                ? mcds_count(result.value)
                                : json_null());
        mcds_put(o, "window", json_integer(visitors.window));
        mcds_put(o, "slots", json_integer(visitors.slots));

        if (result.rc != NGX_MCDS_OK) {
            mcds_put(o, "error", json_string(ngx_mcds_strerror(result.rc)));
            mcds_failed(m, &args[i], result.rc);
        }

        (void) json_array_append_new(list, o);
    }

    mcds_show(m, list);
}


void
mcds_top(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t               *o, *keys, *key;
    ngx_int_t             rc;
    ngx_str_t             text;
    ngx_uint_t            i, done;
    ngx_mcds_top_t        top;
    ngx_mcds_top_list_t  *list;
    ngx_mcds_server_t    *server;
    ngx_mcds_top_wait_t  *wait;
    mcds_directive_t     *directive;
    uint32_t              slots;

    mcds_site_pool(m, "mcds_counter_top", &args[0]);

    ngx_memzero(&top, sizeof(ngx_mcds_top_t));

    top.pool = m->pool;
    top.key = args[0];
    top.window = 86400;
    top.keys = NGX_MCDS_TOPK_MAX;
    top.size = m->o.limit ? ngx_min(m->o.limit, NGX_MCDS_TOP_SIZE) : 10;
    top.flush = 1000;
    slots = 0;
    i = 0;

    do {
        directive = mcds_site_find(m, &i, "mcds_counter_top", &args[0]);
    } while (directive && mcds_site_uses(m, directive, m->pool) != 1);

    mcds_counter_window(m, directive, &top.window, &slots);

    top.slots = slots;
    done = 0;

    rc = ngx_mcds_top_read(&top, mcds_top_done, &done, &wait);

    if (rc == NGX_ERROR) {
        mcds_no_memory();
    }

    if (rc == NGX_AGAIN) {
        mcds_wait(&done);
    }

    list = ngx_mcds_top_list(&top);

    if (list == NULL) {
        mcds_failed(m, &args[0], NGX_MCDS_DOWN);
        ngx_mcds_top_exit(&top);
        return;
    }

    o = json_object();
    keys = json_array();

    mcds_put(o, "key", mcds_json(&args[0]));
    mcds_put(o, "window", json_integer(top.window));
    mcds_put(o, "total", mcds_count(list->total));

    for (i = 0; i < list->n; i++) {
        text.data = list->ranked[i]->data;
        text.len = list->ranked[i]->len;

        key = json_object();

        mcds_put(key, "key", mcds_json(&text));
        mcds_put(key, "count", mcds_count(list->ranked[i]->count));
        mcds_put(key, "error", mcds_count(list->ranked[i]->error));

        (void) json_array_append_new(keys, key);
    }

    mcds_put(o, "top", keys);

    /*
     * the items of a list of the most counted keys are on all servers of the
     * pool: if one is down, the list is incomplete
     */

    server = m->pool->servers.elts;

    for (i = 0; i < m->pool->servers.nelts; i++) {
        if (server[i].down && !server[i].stat->disabled) {
            mcds_failed(m, &server[i].name, NGX_MCDS_DOWN);
        }
    }

    ngx_mcds_top_exit(&top);

    mcds_show(m, o);
}


static void
mcds_top_done(void *data)
{
    *(ngx_uint_t *) data = 1;
}
