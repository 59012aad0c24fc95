
/*
 * Copyright (C) mcds authors
 *
 * mcds log write: writes lines to a log that all hosts share, with the same
 * functions as nginx's workers.
 */


#include "mcds_log.h"
#include "mcds_signal.h"
#include "ngx_mcds_log_write.h"
#include "ngx_mcds_stat_sums.h"


/*
 * the number of bytes of log lines that memcached has not stored yet, above
 * which "log write" does not read standard input
 */
#define MCDS_WRITE_AHEAD          (NGX_MCDS_LOG_PENDING / 4)

/* bytes that "log write" reads from standard input at a time */
#define MCDS_WRITE_BUFFER         65536

/*
 * milliseconds between two checks whether lines have been stored, and
 * milliseconds within which the last lines of the input must be stored
 */
#define MCDS_WRITE_LOOK           10
#define MCDS_WRITE_LAST           3000


typedef struct {
    mcds_t                 *m;
    ngx_mcds_log_t          log;
    ngx_mcds_log_writer_t  *writer;
    ngx_connection_t       *input;    /* standard input; NULL: it is not read at
                                         the moment */
    ngx_event_t             event;
    ngx_msec_t              end;
    uint64_t                lines;    /* number of log lines that were passed
                                         to ngx_mcds_log_line() */
    ngx_uint_t              cut;
    size_t                  ahead;
    ngx_uint_t              done;
    unsigned                eof:1;

    size_t                  len;      /* bytes of the incomplete line that was
                                         read last from standard input */
    u_char                  line[NGX_MCDS_LOG_LINE];
} mcds_write_t;


static void mcds_write_check(mcds_write_t *w);
static void mcds_write_words(mcds_write_t *w, ngx_str_t *args, ngx_uint_t n);
static void mcds_write_line(mcds_write_t *w, u_char *data, size_t len);
static void mcds_write_input(mcds_write_t *w);
static void mcds_write_read(ngx_event_t *ev);
static void mcds_write_bytes(mcds_write_t *w, u_char *p, u_char *last);
static void mcds_write_eof(mcds_write_t *w);
static void mcds_write_signal(void *data, int signo, ngx_uint_t sent);
static void mcds_write_look(ngx_event_t *ev);
static void mcds_write_end(mcds_write_t *w);


void
mcds_log_write(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_str_t      none;
    mcds_write_t  *w;

    if (m->o.since || m->o.after.len || m->o.limit) {
        mcds_usage(m, "write does not accept --since, --after and --limit");
    }

    mcds_site_pool(m, "mcds_log mcds_log_api", &args[0]);

    w = mcds_alloc(m, sizeof(mcds_write_t));
    w->m = m;

    mcds_log_find(m, &w->log, &args[0]);
    mcds_write_check(w);

    ngx_str_null(&none);

    w->log.stat = ngx_mcds_stat_create(m->memory, NGX_MCDS_STAT_LOGS, &none,
                                       &none);
    w->writer = ngx_mcds_log_open(&w->log);

    if (w->log.stat == NULL || w->writer == NULL) {
        mcds_no_memory();
    }

    w->event.handler = mcds_write_look;
    w->event.data = w;
    w->event.log = ngx_cycle->log;

    if (n > 1) {
        mcds_write_words(w, &args[1], n - 1);
        mcds_write_eof(w);

    } else {
        mcds_signal_begin(mcds_write_signal, w);
        mcds_signal_catch(SIGINT);
        mcds_signal_catch(SIGTERM);

        mcds_write_input(w);
    }

    ngx_add_timer(&w->event, MCDS_WRITE_LOOK);

    mcds_wait(&w->done);
    mcds_write_end(w);
}


/*
 * ends the tool with a message if --time is not within the period for which the
 * log keeps its lines
 */

static void
mcds_write_check(mcds_write_t *w)
{
    if (w->m->o.time == 0) {
        return;
    }

    switch (ngx_mcds_log_time(&w->log, w->m->o.time, mcds_now())) {

    case NGX_OK:
        return;

    case NGX_ABORT:
        mcds_usage(w->m, "--time is in the future");

    default: /* NGX_DECLINED: the log does not keep lines that old */
        mcds_usage(w->m, "--time is too long ago, the log keeps %llu seconds",
                   (unsigned long long) w->log.chunk * w->log.chunks / 1000);
    }
}


static void
mcds_write_words(mcds_write_t *w, ngx_str_t *args, ngx_uint_t n)
{
    u_char      *p, *text;
    size_t       len;
    ngx_uint_t   i;

    len = n;

    for (i = 0; i < n; i++) {
        len += args[i].len;
    }

    text = mcds_alloc(w->m, len);
    p = text;

    for (i = 0; i < n; i++) {

        if (ngx_strlchr(args[i].data, args[i].data + args[i].len, '\n')) {
            mcds_usage(w->m, "a line must not contain a line feed; use "
                       "standard input for several lines");
        }

        if (i) {
            *p++ = ' ';
        }

        p = ngx_cpymem(p, args[i].data, args[i].len);
    }

    mcds_write_line(w, text, p - text);
}


static void
mcds_write_line(mcds_write_t *w, u_char *data, size_t len)
{
    ngx_str_t  line;

    line.data = data;
    line.len = len;

    w->lines++;
    w->ahead += len + NGX_MCDS_LOG_RECORD;

    if (len > NGX_MCDS_LOG_LINE) {
        w->cut++;
        line.len = NGX_MCDS_LOG_LINE;
    }

    ngx_mcds_log_line(w->writer, w->m->o.time ? w->m->o.time : mcds_now(),
                      &line);
}


static void
mcds_write_input(mcds_write_t *w)
{
    w->input = ngx_tool_watch(STDIN_FILENO, mcds_write_read, w);

    if (w->input == NULL) {
        mcds_no_memory();
    }
}


static void
mcds_write_read(ngx_event_t *ev)
{
    u_char             buf[MCDS_WRITE_BUFFER];
    ssize_t            n;
    mcds_write_t      *w;
    ngx_connection_t  *c;

    c = ev->data;
    w = c->data;

    n = read(STDIN_FILENO, buf, MCDS_WRITE_BUFFER);

    if (n == -1) {

        if (errno == EAGAIN || errno == EINTR) {
            return;
        }

        mcds_error(w->m, MCDS_NO, "standard input: %s", strerror(errno));
    }

    if (n <= 0) {
        mcds_write_eof(w);
        return;
    }

    mcds_write_bytes(w, buf, buf + n);

    if (w->ahead > MCDS_WRITE_AHEAD) {

        /*
         * standard input is read again when memcached has stored the lines that
         * were read
         */

        ngx_tool_unwatch(w->input);
        w->input = NULL;
    }
}


static void
mcds_write_bytes(mcds_write_t *w, u_char *p, u_char *last)
{
    u_char  *end;
    size_t   n;

    while (p < last) {
        end = ngx_strlchr(p, last, '\n');
        n = (end ? end : last) - p;

        /*
         * w->len, the length of the input line, also counts the bytes by which
         * a long line is truncated
         */

        if (w->len < NGX_MCDS_LOG_LINE) {
            ngx_memcpy(w->line + w->len, p,
                       ngx_min(n, NGX_MCDS_LOG_LINE - w->len));
        }

        w->len += n;

        if (end == NULL) {
            return;
        }

        mcds_write_line(w, w->line, w->len);

        w->len = 0;
        p = end + 1;
    }
}


/*
 * at the end of standard input, all log lines that are buffered are sent to
 * memcached at once
 */

static void
mcds_write_eof(mcds_write_t *w)
{
    if (w->eof) {
        return;
    }

    if (w->input) {
        ngx_tool_unwatch(w->input);
        w->input = NULL;
    }

    ngx_exiting = 1;

    if (w->len) {
        mcds_write_line(w, w->line, w->len);
    }

    w->eof = 1;
    w->end = ngx_current_msec + MCDS_WRITE_LAST + w->m->o.timeout;
}


static void
mcds_write_signal(void *data, int signo, ngx_uint_t sent)
{
    mcds_write_eof(data);
}


static void
mcds_write_look(ngx_event_t *ev)
{
    uint64_t      *sums;
    mcds_write_t  *w;

    w = ev->data;
    sums = w->log.stat->sums;

    if (sums[NGX_MCDS_DATA_WRITTEN] + sums[NGX_MCDS_DATA_LOST] == w->lines) {
        w->ahead = 0;

        if (w->eof) {
            w->done = 1;
            return;
        }

        if (w->input == NULL) {
            mcds_write_input(w);
        }

    } else if (w->eof && (ngx_msec_int_t) (ngx_current_msec - w->end) >= 0) {
        w->done = 1;
        return;
    }

    ngx_add_timer(ev, MCDS_WRITE_LOOK);
}


static void
mcds_write_end(mcds_write_t *w)
{
    json_t      *o;
    uint64_t    *sums, lost;
    ngx_uint_t   i, rc;

    sums = w->log.stat->sums;
    lost = w->lines - sums[NGX_MCDS_DATA_WRITTEN];
    rc = NGX_MCDS_DOWN;

    for (i = NGX_MCDS_NOT_FOUND; i < NGX_MCDS_RC_LAST; i++) {
        if (sums[NGX_MCDS_DATA_FAILED + i]) {
            rc = i;
        }
    }

    ngx_mcds_log_close(w->writer);

    /*
     * waits until memcached has also added the bytes of the lines to the log's
     * size, by which other processes choose the item that they append to
     */

    mcds_settle(w->m);

    if (lost) {
        mcds_error(w->m, ngx_mcds_answered(rc) ? MCDS_NO : MCDS_UNREACHABLE,
                   "%llu of %llu lines were lost: %s",
                   (unsigned long long) lost, (unsigned long long) w->lines,
                   ngx_mcds_strerror(rc));
    }

    if (w->cut) {
        mcds_error(w->m, MCDS_NO, "%lu lines were truncated to %d bytes",
                   (unsigned long) w->cut, NGX_MCDS_LOG_LINE);
    }

    if (w->m->o.json) {
        o = json_object();

        mcds_put(o, "log", mcds_json(&w->log.name));
        mcds_put(o, "written", json_integer(w->lines - lost));
        mcds_put(o, "lost", json_integer(lost));

        mcds_show(w->m, o);
    }
}
