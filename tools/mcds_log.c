
/*
 * Copyright (C) mcds authors
 *
 * mcds log: prints the stored lines of a log, which all hosts have written, and
 * with "follow" then also the new lines that hosts write.
 */


#include "mcds_log.h"
#include "mcds_signal.h"
#include "ngx_mcds_log_feed.h"
#include "ngx_mcds_log_read.h"


/*
 * defaults of the parameters of mcds_log: milliseconds of a chunk (an interval
 * of time), number of chunks that the log keeps, maximum bytes of an item
 */
#define MCDS_LOG_CHUNK            10000
#define MCDS_LOG_CHUNKS           30
#define MCDS_LOG_MAX_CHUNK        (128 * 1024)

/*
 * the number of lines that "log read" prints by default, and that "log follow"
 * prints before it follows the log, without --since and --after
 */
#define MCDS_LOG_LIMIT            100
#define MCDS_LOG_BEFORE           10

/*
 * the maximum number of lines that "log follow" with --since or --after reads
 * at a time, until it has all of them
 */
#define MCDS_LOG_STEP             10000


typedef enum {
    MCDS_LOG_WAITING = 0,         /* the tool waits for the first poll of the
                                     log's newest lines */
    MCDS_LOG_READING,             /* the tool reads the older lines of the
                                     log */
    MCDS_LOG_LIVE
} mcds_log_state_e;


typedef struct {
    mcds_t                *m;
    ngx_mcds_log_t        *log;
    ngx_uint_t             state;
    ngx_uint_t             done;
    ngx_uint_t             rc;
    ngx_uint_t             failed;  /* 1: the last poll of the log has failed */
    ngx_uint_t             n;       /* number of lines that the last read of
                                       the log has returned */
    ngx_array_t            known;   /* array of ngx_mcds_log_id_t: the ids of
                                       older log lines that were printed, in
                                       ascending order */
    ngx_array_t            batches; /* batches of new log lines that came while
                                       older ones were read */
} mcds_log_t;


static void mcds_log_read(mcds_log_t *ml, ngx_mcds_log_range_t *range);
static void mcds_log_read_done(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events);
static void mcds_log_follow(mcds_log_t *ml, ngx_mcds_log_range_t *range);
static void mcds_log_read_all(mcds_log_t *ml, ngx_mcds_log_range_t *range);
static void mcds_log_batch(void *data, ngx_uint_t rc,
    ngx_mcds_log_batch_t *batch);
static void mcds_log_show(mcds_log_t *ml, ngx_mcds_log_batch_t *batch);
static int ngx_libc_cdecl mcds_log_cmp(const void *one, const void *two);
static void mcds_log_event(mcds_log_t *ml, ngx_mcds_log_event_t *event);
static void mcds_log_signal(int signo);


static volatile sig_atomic_t  mcds_log_ended;


void
mcds_log(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    uint64_t              now;
    mcds_log_t            ml;
    ngx_mcds_log_t        log;
    ngx_mcds_log_range_t  range;

    if (mcds_is(&args[0], "write")) {
        mcds_log_write(m, &args[1], n - 1);
        return;
    }

    if (!mcds_is(&args[0], "read") && !mcds_is(&args[0], "follow")) {
        mcds_usage(m, "unknown subcommand: %s", args[0].data);
    }

    if (n != 2) {
        mcds_usage(m, "%s takes exactly one name", args[0].data);
    }

    if (m->o.time) {
        mcds_usage(m, "%s does not accept --time", args[0].data);
    }

    mcds_site_pool(m, "mcds_log mcds_log_api", &args[1]);

    ngx_memzero(&ml, sizeof(mcds_log_t));
    ngx_memzero(&log, sizeof(ngx_mcds_log_t));
    ngx_memzero(&range, sizeof(ngx_mcds_log_range_t));

    ml.m = m;
    ml.log = &log;

    if (ngx_array_init(&ml.known, m->memory, 16, sizeof(ngx_mcds_log_id_t))
        != NGX_OK
        || ngx_array_init(&ml.batches, m->memory, 4,
                          sizeof(ngx_mcds_log_batch_t *))
           != NGX_OK)
    {
        mcds_no_memory();
    }

    mcds_log_find(m, &log, &args[1]);

    now = mcds_now();

    range.last = now - NGX_MCDS_LOG_SETTLE;
    range.limit = m->o.limit ? m->o.limit : MCDS_LOG_LIMIT;
    range.newest = 1;

    if (m->o.since) {
        range.first = now - m->o.since;
    }

    if (m->o.after.len
        && ngx_mcds_log_id_parse(&range.after, &m->o.after) != NGX_OK)
    {
        mcds_usage(m, "--after must be the id of a line");
    }

    if (mcds_is(&args[0], "read")) {

        /*
         * after a line, the first lines are printed, so that a program can go
         * on with the id of the last one
         */

        if (m->o.after.len) {
            range.newest = 0;
        }

        mcds_log_read(&ml, &range);

        if (ml.rc != NGX_MCDS_OK) {
            mcds_failed(m, &args[1], ml.rc);
        }

        return;
    }

    if (m->o.limit == 0) {

        if (m->o.since || m->o.after.len) {
            range.newest = 0;
            range.limit = MCDS_LOG_STEP;

        } else {
            range.limit = MCDS_LOG_BEFORE;
        }
    }

    mcds_log_follow(&ml, &range);
}


void
mcds_log_find(mcds_t *m, ngx_mcds_log_t *log, ngx_str_t *name)
{
    ssize_t            size;
    ngx_int_t          n;
    ngx_str_t         *value, param;
    ngx_uint_t         i;
    mcds_directive_t  *directive;

    log->pool = m->pool;
    log->name = *name;
    log->chunk = MCDS_LOG_CHUNK;
    log->chunks = MCDS_LOG_CHUNKS;
    log->max_chunk = MCDS_LOG_MAX_CHUNK;

    i = 0;

    while ((directive = mcds_site_find(m, &i, "mcds_log mcds_log_api", name)))
    {
        /* another pool of memcached servers may have a log of the same name */

        if (mcds_site_uses(m, directive, m->pool) != 1) {
            continue;
        }

        value = mcds_site_param(directive, "chunk=");

        if (value) {
            param = *value;
            n = ngx_parse_time(&param, 0);
            log->chunk = (n > 0) ? n : MCDS_LOG_CHUNK;
        }

        value = mcds_site_param(directive, "chunks=");

        if (value) {
            n = ngx_atoi(value->data, value->len);
            log->chunks = (n > 0) ? n : MCDS_LOG_CHUNKS;
        }

        value = mcds_site_param(directive, "max_chunk=");

        if (value) {
            param = *value;
            size = ngx_parse_size(&param);
            log->max_chunk = (size > 0) ? (size_t) size : MCDS_LOG_MAX_CHUNK;
        }
    }

    if (m->o.chunk) {
        log->chunk = m->o.chunk;
    }

    if (m->o.chunks) {
        log->chunks = m->o.chunks;
    }
}


static void
mcds_log_read(mcds_log_t *ml, ngx_mcds_log_range_t *range)
{
    ml->n = 0;
    ml->done = 0;

    if (ngx_mcds_log_read(ml->log, range, mcds_now(), mcds_log_read_done, ml)
        == NULL)
    {
        mcds_no_memory();
    }

    mcds_wait(&ml->done);
}


static void
mcds_log_read_done(void *data, ngx_uint_t rc, ngx_mcds_log_events_t *events)
{
    mcds_log_t *ml = data;

    ngx_uint_t          i;
    ngx_mcds_log_id_t  *id;

    ml->done = 1;
    ml->rc = rc;
    ml->n = (rc == NGX_MCDS_OK) ? events->n : 0;

    for (i = 0; i < ml->n; i++) {
        mcds_log_event(ml, &events->elts[i]);

        id = ngx_array_push(&ml->known);

        if (id == NULL) {
            mcds_no_memory();
        }

        *id = events->elts[i].id;
    }
}


static void
mcds_log_event(mcds_log_t *ml, ngx_mcds_log_event_t *event)
{
    u_char   id[NGX_MCDS_LOG_ID];
    json_t  *o;

    if (!ml->m->o.json) {
        mcds_print(event->line.data, event->line.len);
        (void) putchar('\n');
        return;
    }

    o = json_object();

    mcds_put(o, "time", json_real((double) event->id.time / 1000));
    mcds_put(o, "host", mcds_json(&event->host));
    mcds_put(o, "line", mcds_json(&event->line));
    mcds_put(o, "id", mcds_str(id, ngx_mcds_log_id_text(id, &event->id) - id));

    mcds_show(ml->m, o);
}


/*
 * Prints the stored lines of a log, and then the new lines that polls of the
 * log return.  A poll may also return a stored line that was written late: the
 * ids of the printed lines are remembered, so that each line is printed once.
 */

static void
mcds_log_follow(mcds_log_t *ml, ngx_mcds_log_range_t *range)
{
    ngx_uint_t                i;
    ngx_mcds_log_batch_t    **batch;
    ngx_mcds_log_follower_t   follower;

    ngx_memzero(&follower, sizeof(ngx_mcds_log_follower_t));

    if (!mcds_signal_ignored(SIGINT)) {
        (void) signal(SIGINT, mcds_log_signal);
    }

    if (!mcds_signal_ignored(SIGTERM)) {
        (void) signal(SIGTERM, mcds_log_signal);
    }

    follower.handler = mcds_log_batch;
    follower.data = ml;

    if (ngx_mcds_log_follow(ml->log, &follower) != NGX_OK) {
        mcds_no_memory();
    }

    ml->rc = NGX_MCDS_OK;

    do {
        ml->done = 0;
        mcds_wait(&ml->done);

    } while (ml->rc == NGX_MCDS_OK && !mcds_log_ended
             && !ngx_mcds_log_ready(&follower));

    if (ml->rc == NGX_MCDS_OK && !mcds_log_ended) {
        range->last = ngx_mcds_log_settled(&follower);

        ml->state = MCDS_LOG_READING;
        mcds_log_read_all(ml, range);
    }

    if (ml->rc != NGX_MCDS_OK) {
        ngx_mcds_log_leave(&follower);
        mcds_failed(ml->m, &ml->log->name, ml->rc);
        return;
    }

    ml->state = MCDS_LOG_LIVE;
    batch = ml->batches.elts;

    for (i = 0; i < ml->batches.nelts; i++) {
        mcds_log_show(ml, batch[i]);
        ngx_mcds_log_batch_unref(batch[i]);
    }

    (void) fflush(stdout);

    if (!mcds_log_ended) {
        ml->done = 0;
        mcds_wait(&ml->done);
    }

    ngx_mcds_log_leave(&follower);
}


/*
 * Prints the last lines of a log, range->limit of them, or if range->newest is
 * 0, all lines in range, in steps of range->limit.
 */

static void
mcds_log_read_all(mcds_log_t *ml, ngx_mcds_log_range_t *range)
{
    ngx_mcds_log_id_t  *id;

    for ( ;; ) {
        mcds_log_read(ml, range);

        /* ml->n is 0 if the read of the log has failed */

        if (range->newest || ml->n < range->limit || mcds_log_ended) {
            return;
        }

        id = ml->known.elts;
        range->after = id[ml->known.nelts - 1];
    }
}


/*
 * the handler of "log follow", called after each poll of the log, with or
 * without new lines
 */

static void
mcds_log_batch(void *data, ngx_uint_t rc, ngx_mcds_log_batch_t *batch)
{
    mcds_log_t *ml = data;

    ngx_mcds_log_batch_t  **place;

    if (mcds_log_ended || ferror(stdout)) {
        ml->done = 1;
        return;
    }

    switch (ml->state) {

    case MCDS_LOG_WAITING:

        /*
         * the new log lines are not queued: the read of the stored lines, which
         * is yet to start, returns them, too
         */

        ml->rc = rc;
        ml->done = 1;
        return;

    case MCDS_LOG_READING:

        if (batch) {
            place = ngx_array_push(&ml->batches);

            if (place == NULL) {
                mcds_no_memory();
            }

            *place = ngx_mcds_log_batch_ref(batch);
        }

        return;
    }

    if (batch) {

        /*
         * a poll of the log that has failed on one memcached server returns the
         * new lines of the others; a later call, without lines, tells whether
         * the poll has failed
         */

        mcds_log_show(ml, batch);
        (void) fflush(stdout);
        return;
    }

    if (rc == NGX_MCDS_OK) {
        ml->failed = 0;
        return;
    }

    /*
     * "log follow" goes on after a failure, and prints further lines when the
     * memcached server is back
     */

    if (!ml->failed) {
        fprintf(stderr, "mcds log: %s, retrying\n", ngx_mcds_strerror(rc));
    }

    ml->failed = 1;
}


static void
mcds_log_show(mcds_log_t *ml, ngx_mcds_log_batch_t *batch)
{
    ngx_uint_t             i;
    ngx_mcds_log_event_t  *event;

    for (i = 0; i < batch->events.n; i++) {
        event = &batch->events.elts[i];

        if (bsearch(&event->id, ml->known.elts, ml->known.nelts,
                    sizeof(ngx_mcds_log_id_t), mcds_log_cmp)
            == NULL)
        {
            mcds_log_event(ml, event);
        }
    }
}


static int ngx_libc_cdecl
mcds_log_cmp(const void *one, const void *two)
{
    return ngx_mcds_log_id_cmp((ngx_mcds_log_id_t *) one,
                               (ngx_mcds_log_id_t *) two);
}


static void
mcds_log_signal(int signo)
{
    mcds_log_ended = 1;
}
