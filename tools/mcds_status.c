
/*
 * Copyright (C) mcds authors
 *
 * mcds status prints the state of memcached and nginx on one screen; mcds watch
 * prints the rates of nginx's statistics each second.
 */


#include "mcds.h"
#include <time.h>
#include "mcds_fetch.h"
#include "ngx_mcds_conn.h"


/*
 * the command "status" reports a low hit ratio if a cache has had at least this
 * number of requests and has served less than this percentage of them
 */
#define MCDS_STATUS_REQUESTS      1000
#define MCDS_STATUS_LOW           10

#define MCDS_WATCH_KEYS           10


static json_t *mcds_status_pool(mcds_t *m, ngx_mcds_pool_t *pool,
    json_t *problems);
static void mcds_status_server(mcds_t *m, ngx_mcds_pool_t *pool,
    json_t *server, json_t *problems);
static json_t *mcds_status_nginx(mcds_t *m, json_t *problems);
static json_t *mcds_status_sums(json_t *status);
static void mcds_status_caches(json_t *status, json_t *sums);
static void mcds_status_judge(mcds_t *m, json_t *status, json_t *problems);
static void mcds_status_lost(mcds_t *m, json_t *list, char *what, char *help,
    json_t *problems);
static ngx_uint_t mcds_status_down(json_t *status);
static json_int_t mcds_status_get(json_t *object, char *one, char *two);
static void mcds_status_problem(mcds_t *m, json_t *problems, char *help,
    const char *fmt, ...);
static void mcds_status_show(mcds_t *m, json_t *o);
static void mcds_status_row(json_t *rows, json_t *pool, json_t *server);
static char *mcds_status_size(char *text, json_int_t n);
static void mcds_status_show_nginx(json_t *nginx);
static json_t *mcds_watch_rates(json_t *before, json_t *now);
static double mcds_watch_rate(json_t *before, json_t *now, char *name,
    double seconds);
static void mcds_watch_show(mcds_t *m, json_t *o);
static void mcds_watch_keys(json_t *o, char *name);
static void mcds_watch_signal(int signo);


static volatile sig_atomic_t  mcds_watch_ended;


void
mcds_status(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t            *o, *pools, *problems, *nginx;
    ngx_uint_t         i;
    ngx_mcds_pool_t  **pool;

    o = json_object();
    pools = json_array();
    problems = json_array();
    pool = m->pools.elts;

    if (m->o.pool) {
        mcds_site_pool(m, "", NULL);
    }

    if (m->pools.nelts == 0) {
        mcds_status_problem(m, problems, "docs/reference/pool.md#mcds_pool",
                            "%s has no \"mcds_pool\"", m->o.conf);
    }

    for (i = 0; i < m->pools.nelts; i++) {
        if (m->pool == NULL || m->pool == pool[i]) {
            (void) json_array_append_new(pools, mcds_status_pool(m, pool[i],
                                                                 problems));
        }
    }

    nginx = mcds_status_nginx(m, problems);

    mcds_put(o, "configuration", mcds_str((u_char *) m->o.conf,
                                          ngx_strlen(m->o.conf)));
    mcds_put(o, "healthy", json_boolean(json_array_size(problems) == 0));
    mcds_put(o, "pools", pools);
    mcds_put(o, "nginx", nginx);
    mcds_put(o, "problems", problems);

    if (m->o.json) {
        mcds_show(m, o);
        return;
    }

    mcds_status_show(m, o);
    json_decref(o);
}


static json_t *
mcds_status_pool(mcds_t *m, ngx_mcds_pool_t *pool, json_t *problems)
{
    json_t             *o, *servers, *one;
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    o = json_object();
    servers = json_array();
    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        one = mcds_check_server(m, &server[i]);
        mcds_status_server(m, pool, one, problems);
        (void) json_array_append_new(servers, one);
    }

    mcds_put(o, "pool", mcds_json(&pool->name));
    mcds_put(o, "servers", servers);

    return o;
}


static void
mcds_status_server(mcds_t *m, ngx_mcds_pool_t *pool, json_t *server,
    json_t *problems)
{
    double       hits, misses;
    size_t       i;
    json_t      *warning;
    const char  *name, *error;

    hits = mcds_status_get(server, "hits", NULL);
    misses = mcds_status_get(server, "misses", NULL);

    if (json_object_get(server, "hits")) {
        mcds_put(server, "hit_ratio",
                 (hits + misses > 0) ? json_real(hits / (hits + misses))
                                     : json_null());
    }

    name = json_string_value(json_object_get(server, "server"));
    error = json_string_value(json_object_get(server, "error"));

    if (error) {
        mcds_status_problem(m, problems, "docs/troubleshooting.md"
                            "#a-memcached-server-is-down",
                            "server %s of pool %.*s is down: %s", name,
                            (int) pool->name.len, pool->name.data, error);
    }

    json_array_foreach(json_object_get(server, "warnings"), i, warning) {
        mcds_status_problem(m, problems,
                            (char *) json_string_value(json_array_get(
                                      json_object_get(server, "help"), i)),
                            "server %s of pool %.*s %s", name,
                            (int) pool->name.len, pool->name.data,
                            json_string_value(warning));
    }
}


/*
 * returns the sums of nginx's statistics as JSON; null: no location with
 * mcds_status responds
 */

static json_t *
mcds_status_nginx(mcds_t *m, json_t *problems)
{
    char     at[MCDS_FETCH_AT];
    json_t  *status, *sums;

    status = mcds_fetch(m, at);

    if (status == NULL) {

        if (*at) {
            mcds_status_problem(m, problems,
                                "docs/reference/status.md#mcds_status", "%s",
                                at);
        }

        return json_null();
    }

    sums = mcds_status_sums(status);

    mcds_put(sums, "url", mcds_str((u_char *) at, ngx_strlen(at)));
    mcds_put(sums, "version", json_deep_copy(json_object_get(status,
                                                             "version")));
    mcds_put(sums, "since", json_deep_copy(json_object_get(status, "since")));
    mcds_put(sums, "workers", json_deep_copy(json_object_get(status,
                                                             "workers")));

    mcds_status_judge(m, status, problems);
    json_decref(status);

    return sums;
}


static json_t *
mcds_status_sums(json_t *status)
{
    json_t  *sums;

    sums = json_object();

    mcds_status_caches(status, sums);
    mcds_put(sums, "servers_down", json_integer(mcds_status_down(status)));

    return sums;
}


/* adds up the numbers of requests in the statistics of all caches */

static void
mcds_status_caches(json_t *status, json_t *sums)
{
    double       all, cached;
    size_t       i;
    json_t      *cache, *requests, *v;
    json_int_t   origin, n;
    const char  *name;

    requests = json_object();
    origin = 0;
    all = 0;
    cached = 0;

    json_array_foreach(json_object_get(status, "caches"), i, cache) {
        origin += mcds_status_get(cache, "origin", NULL);

        json_object_foreach(json_object_get(cache, "requests"), name, v) {
            n = json_integer_value(v);

            mcds_put(requests, (char *) name,
                     json_integer(mcds_status_get(requests, (char *) name,
                                                  NULL) + n));

            if (strcmp(name, "none") == 0) {
                continue;
            }

            all += n;

            if (strcmp(name, "hit") == 0 || strcmp(name, "stale") == 0
                || strcmp(name, "updating") == 0)
            {
                cached += n;
            }
        }
    }

    mcds_put(sums, "total", json_integer((json_int_t) all));
    mcds_put(sums, "cached", json_integer((json_int_t) cached));
    mcds_put(sums, "requests", requests);
    mcds_put(sums, "origin", json_integer(origin));
    mcds_put(sums, "hit_ratio", (all > 0) ? json_real(cached / all)
                                          : json_null());
}


static void
mcds_status_judge(mcds_t *m, json_t *status, json_t *problems)
{
    size_t        i, n;
    json_t       *pool, *server, *cache, *sums;
    json_int_t    total;
    const char   *name;

    json_array_foreach(json_object_get(status, "pools"), i, pool) {
        json_array_foreach(json_object_get(pool, "servers"), n, server) {

            if (mcds_status_get(server, "breaker", "open_workers") > 0) {
                mcds_status_problem(m, problems, "docs/troubleshooting.md"
                     "#a-memcached-server-is-down",
                     "nginx considers server %s of pool %s unhealthy",
                     json_string_value(json_object_get(server, "name")),
                     json_string_value(json_object_get(pool, "name")));
            }
        }
    }

    json_array_foreach(json_object_get(status, "caches"), i, cache) {
        name = json_string_value(json_object_get(cache, "name"));

        if (json_is_false(json_object_get(cache, "statistics"))) {
            mcds_status_problem(m, problems,
                                "docs/reference/pool.md#mcds_zone",
                                "mcds_zone has no room for the statistics of "
                                "cache %s", name);
        }

        /* sums of the statistics of one cache, for its own hit ratio */

        pool = json_pack("{s:[O]}", "caches", cache);
        sums = mcds_status_sums(pool);
        total = mcds_status_get(sums, "total", NULL);

        if (total >= MCDS_STATUS_REQUESTS
            && mcds_status_get(sums, "cached", NULL) * 100
               < total * MCDS_STATUS_LOW)
        {
            mcds_status_problem(m, problems, "docs/troubleshooting.md"
                                "#a-page-is-always-a-miss",
                                "cache %s serves fewer than %d%% of its "
                                "requests", name, MCDS_STATUS_LOW);
        }

        json_decref(sums);
        json_decref(pool);
    }

    mcds_status_lost(m, json_object_get(status, "logs"), "lines",
                     "docs/reference/log.md#mcds_log", problems);
    mcds_status_lost(m, json_object_get(status, "locks"), "lost",
                     "docs/reference/lock.md#mcds_lock", problems);
}


static void
mcds_status_lost(mcds_t *m, json_t *list, char *what, char *help,
    json_t *problems)
{
    size_t       i;
    json_t      *one;
    json_int_t   n;
    const char  *name;

    json_array_foreach(list, i, one) {
        name = json_string_value(json_object_get(one, "name"));

        if (strcmp(what, "lines") == 0) {
            n = mcds_status_get(one, "lines", "lost");

            if (n > 0) {
                mcds_status_problem(m, problems, help, "log %s has lost %lld "
                                    "lines", name, (long long) n);
            }

            continue;
        }

        n = mcds_status_get(one, "lost", NULL);

        if (n > 0) {
            mcds_status_problem(m, problems, help, "lock %s was lost %lld "
                                "times while it was held", name,
                                (long long) n);
        }
    }
}


static ngx_uint_t
mcds_status_down(json_t *status)
{
    size_t       i, n;
    json_t      *pool, *server;
    ngx_uint_t   down;

    down = 0;

    json_array_foreach(json_object_get(status, "pools"), i, pool) {
        json_array_foreach(json_object_get(pool, "servers"), n, server) {
            down += (mcds_status_get(server, "breaker", "open_workers") > 0);
        }
    }

    return down;
}


/*
 * returns the number object[one] or, if two is not NULL, object[one][two] of a
 * JSON object; 0 if there is no such number
 */

static json_int_t
mcds_status_get(json_t *object, char *one, char *two)
{
    object = json_object_get(object, one);

    return json_integer_value(two ? json_object_get(object, two) : object);
}


static void
mcds_status_problem(mcds_t *m, json_t *problems, char *help, const char *fmt,
    ...)
{
    char     text[1024];
    json_t  *o;
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    o = json_object();

    mcds_put(o, "problem", mcds_str((u_char *) text, ngx_strlen(text)));
    mcds_put(o, "help", json_string(help));

    (void) json_array_append_new(problems, o);

    m->status = ngx_max(m->status, MCDS_NO);
}


static void
mcds_status_show(mcds_t *m, json_t *o)
{
    size_t   i, n;
    json_t  *rows, *pool, *server, *problem, *problems, *string;

    rows = json_array();

    json_array_foreach(json_object_get(o, "pools"), i, pool) {
        json_array_foreach(json_object_get(pool, "servers"), n, server) {
            mcds_status_row(rows, json_object_get(pool, "pool"), server);
        }
    }

    if (json_array_size(rows)) {
        mcds_show(m, rows);
        printf("\n");

    } else {
        json_decref(rows);
    }

    mcds_status_show_nginx(json_object_get(o, "nginx"));

    problems = json_object_get(o, "problems");

    if (json_array_size(problems) == 0) {
        printf("\nhealthy\n");
        return;
    }

    printf("\nproblems: %d\n", (int) json_array_size(problems));

    json_array_foreach(problems, i, problem) {
        string = json_object_get(problem, "problem");
        printf("  ");
        mcds_print((u_char *) json_string_value(string),
                   json_string_length(string));
        printf("\n      see %s\n",
               json_string_value(json_object_get(problem, "help")));
    }
}


static void
mcds_status_row(json_t *rows, json_t *pool, json_t *server)
{
    char     text[128], used[32], limit[32];
    json_t  *row, *ratio, *version;

    row = json_object();

    mcds_put(row, "pool", json_deep_copy(pool));
    mcds_put(row, "server", json_deep_copy(json_object_get(server, "server")));
    mcds_put(row, "state", json_deep_copy(json_object_get(server, "state")));

    version = json_object_get(server, "version");
    mcds_put(row, "version", json_is_string(version) ? json_deep_copy(version)
                                                     : json_string("-"));

    (void) strcpy(text, "-");

    if (json_object_get(server, "limit_bytes")) {
        (void) snprintf(text, sizeof(text), "%s of %s",
                        mcds_status_size(used, mcds_status_get(server, "bytes",
                                                               NULL)),
                        mcds_status_size(limit,
                                         mcds_status_get(server, "limit_bytes",
                                                         NULL)));
    }

    mcds_put(row, "memory", json_string(text));
    mcds_put(row, "evictions", json_object_get(server, "evictions")
             ? json_integer(mcds_status_get(server, "evictions", NULL))
             : json_null());
    mcds_put(row, "connections", json_object_get(server, "connections")
             ? json_integer(mcds_status_get(server, "connections", NULL))
             : json_null());

    ratio = json_object_get(server, "hit_ratio");
    (void) strcpy(text, "-");

    if (json_is_real(ratio)) {
        (void) snprintf(text, sizeof(text), "%.1f%%",
                        100 * json_real_value(ratio));
    }

    mcds_put(row, "hits", json_string(text));

    (void) json_array_append_new(rows, row);
}


static char *
mcds_status_size(char *text, json_int_t n)
{
    double       size;
    ngx_uint_t   i;

    static char  *units[] = { "B", "KB", "MB", "GB", "TB" };

    size = n;

    for (i = 0; size >= 1024 && i < 4; i++) {
        size /= 1024;
    }

    (void) snprintf(text, 32, (i && size < 10) ? "%.1f %s" : "%.0f %s", size,
                    units[i]);

    return text;
}


static void
mcds_status_show_nginx(json_t *nginx)
{
    char        *between;
    json_t      *v;
    json_int_t   n;
    const char  *name;

    if (!json_is_object(nginx)) {
        printf("nginx: no statistics; they require a location with mcds_status "
               "on a loopback\naddress or a unix socket\n");
        return;
    }

    printf("nginx: ");
    mcds_print((u_char *) json_string_value(json_object_get(nginx, "url")),
               json_string_length(json_object_get(nginx, "url")));
    printf("\n  requests         %lld",
           (long long) mcds_status_get(nginx, "total", NULL));

    between = " (";

    json_object_foreach(json_object_get(nginx, "requests"), name, v) {
        n = json_integer_value(v);

        if (n && strcmp(name, "none") != 0) {
            printf("%s%s %lld", between, name, (long long) n);
            between = ", ";
        }
    }

    printf("%s\n", (*between == ',') ? ")" : "");

    if (json_is_real(json_object_get(nginx, "hit_ratio"))) {
        printf("  hit ratio        %.1f%%\n",
               100 * json_real_value(json_object_get(nginx, "hit_ratio")));
    }

    printf("  origin requests  %lld\n  servers down     %lld\n",
           (long long) mcds_status_get(nginx, "origin", NULL),
           (long long) mcds_status_get(nginx, "servers_down", NULL));
}


void
mcds_watch(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    char              at[MCDS_FETCH_AT];
    json_t           *before, *now;
    ngx_uint_t        shown;
    struct timespec   second = { 1, 0 };
    struct sigaction  sa;

    ngx_memzero(&sa, sizeof(struct sigaction));
    sa.sa_handler = mcds_watch_signal;

    (void) sigaction(SIGINT, &sa, NULL);
    (void) sigaction(SIGTERM, &sa, NULL);

    before = NULL;
    shown = 0;

    while (!mcds_watch_ended && !ferror(stdout)) {
        now = mcds_fetch(m, at);

        if (mcds_watch_ended) {
            json_decref(now);
            break;
        }

        if (now == NULL) {
            mcds_error(m, MCDS_NO, "%s", *at ? at : "the configuration has no "
                       "mcds_status that returns JSON; see "
                       "docs/reference/status.md#mcds_status");

            if (shown == 0) {
                break;
            }
        }

        if (before && now) {
            mcds_watch_show(m, mcds_watch_rates(before, now));

            if (++shown == m->o.limit) {
                json_decref(now);
                break;
            }
        }

        json_decref(before);
        before = now;

        (void) nanosleep(&second, NULL);
    }

    json_decref(before);
}


static json_t *
mcds_watch_rates(json_t *before, json_t *now)
{
    double   seconds, total, cached;
    json_t  *o, *one, *two;

    o = json_object();
    one = mcds_status_sums(before);
    two = mcds_status_sums(now);

    seconds = json_number_value(json_object_get(now, "time"))
              - json_number_value(json_object_get(before, "time"));
    seconds = ngx_max(seconds, 0.001);

    total = mcds_watch_rate(one, two, "total", seconds);
    cached = mcds_watch_rate(one, two, "cached", seconds);

    mcds_put(o, "time", json_deep_copy(json_object_get(now, "time")));
    mcds_put(o, "requests", json_real(total));
    mcds_put(o, "hit_ratio", (total > 0) ? json_real(cached / total)
                                         : json_null());
    mcds_put(o, "origin", json_real(mcds_watch_rate(one, two, "origin",
                                                    seconds)));
    mcds_put(o, "servers_down",
             json_deep_copy(json_object_get(two, "servers_down")));
    mcds_put(o, "hot", json_deep_copy(json_object_get(now, "hot")));

    json_decref(one);
    json_decref(two);

    return o;
}


/*
 * the growth per second of a sum of the statistics; a sum that has decreased,
 * after a restart of nginx, counts as no change
 */

static double
mcds_watch_rate(json_t *before, json_t *now, char *name, double seconds)
{
    double  n;

    n = (double) (mcds_status_get(now, name, NULL)
                  - mcds_status_get(before, name, NULL));

    return ngx_max(n, 0) / seconds;
}


static void
mcds_watch_show(mcds_t *m, json_t *o)
{
    json_t  *ratio;

    if (m->o.json) {
        mcds_show(m, o);
        (void) fflush(stdout);
        return;
    }

    if (isatty(STDOUT_FILENO)) {
        printf("\033[H\033[2J");
    }

    printf("requests/s    %.1f\n",
           json_real_value(json_object_get(o, "requests")));

    ratio = json_object_get(o, "hit_ratio");

    if (json_is_real(ratio)) {
        printf("hit ratio     %.1f%%\n", 100 * json_real_value(ratio));

    } else {
        printf("hit ratio     -\n");
    }

    printf("origin/s      %.1f\nservers down  %lld\n",
           json_real_value(json_object_get(o, "origin")),
           (long long) mcds_status_get(o, "servers_down", NULL));

    mcds_watch_keys(o, "pages");
    mcds_watch_keys(o, "counters");

    printf("\n");
    (void) fflush(stdout);

    json_decref(o);
}


static void
mcds_watch_keys(json_t *o, char *name)
{
    size_t   i;
    json_t  *key, *text;

    json_array_foreach(json_object_get(json_object_get(o, "hot"), name), i,
                       key)
    {
        if (i == MCDS_WATCH_KEYS) {
            break;
        }

        if (i == 0) {
            printf("\n%s, requests/s\n", name);
        }

        text = json_object_get(key, "key");

        printf("%10.1f  ", json_number_value(json_object_get(key, "rate")));
        mcds_print((u_char *) json_string_value(text),
                   json_string_length(text));
        printf("\n");
    }
}


static void
mcds_watch_signal(int signo)
{
    mcds_watch_ended = 1;
}
