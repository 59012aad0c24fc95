
/*
 * Copyright (C) mcds authors
 */


#include "mcds.h"
#include <getopt.h>


/* the number of milliseconds in an hour */
#define MCDS_HOUR                 3600000

/*
 * the value of --time must be less than this, the start of the year 9999, in
 * seconds since the epoch: the tool prints years of four digits only
 */
#define MCDS_LAST_DATE            253370764800


static void mcds_streams(void);
static void mcds_end(mcds_t *m) __attribute__((noreturn));
static void mcds_parse(mcds_t *m, int argc, char **argv);
static void mcds_option(mcds_t *m, int option, char *value);
static void mcds_quantity(mcds_t *m, int option, char *value);
static ngx_array_t *mcds_list(mcds_t *m, int option);
static void mcds_push(ngx_array_t *list, char *value);
static int64_t mcds_period(mcds_t *m, char *option, char *value,
    ngx_uint_t is_sec, int64_t min, int64_t max);
static uint64_t mcds_date(mcds_t *m, char *value);
static ngx_int_t mcds_number(mcds_t *m, char *option, char *value,
    ngx_int_t min, ngx_int_t max);
static void mcds_help(FILE *to);
static void mcds_version(void);


static mcds_command_t  mcds_commands[] = {

    { "status", "", "show the health of the site; the default command",
      0, 0, 0, mcds_status },

    { "watch", "", "show request rates, hit ratio and hottest keys live",
      MCDS_OPT_LIMIT, 0, 0, mcds_watch },

    { "get", "URL ...", "show what memcached stores for a page",
      MCDS_OPT_KEY|MCDS_OPT_SITE|MCDS_OPT_HEADER|MCDS_OPT_BODY|MCDS_OPT_HMAC,
      0, 1000, mcds_get },

    { "purge", "URL ...", "purge pages by URL, key, tag or host",
      MCDS_OPT_KEY|MCDS_OPT_SITE|MCDS_OPT_TAG|MCDS_OPT_HOST|MCDS_OPT_ALL
      |MCDS_OPT_DELETE|MCDS_OPT_HMAC, 0, 1000, mcds_purge },

    { "counter", "get|reset KEY ... | set|add KEY NUMBER",
      "read or change counters", MCDS_OPT_TTL, 2, 1000, mcds_counter },

    { "visitors", "KEY ...", "show the numbers of visitor counters",
      MCDS_OPT_WINDOW|MCDS_OPT_SLOTS, 1, 1000, mcds_visitors },

    { "top", "NAME", "show the most frequent keys of a list",
      MCDS_OPT_WINDOW|MCDS_OPT_SLOTS|MCDS_OPT_LIMIT, 1, 1, mcds_top },

    { "log", "read|follow NAME | write NAME [TEXT ...]",
      "read, follow or write a log of all hosts",
      MCDS_OPT_SINCE|MCDS_OPT_AFTER|MCDS_OPT_LIMIT|MCDS_OPT_CHUNK
      |MCDS_OPT_CHUNKS|MCDS_OPT_TIME, 2, 1000, mcds_log },

    { "table", "list NAME | get|remove NAME FIELD ... |"
      " add NAME FIELD [VALUE]", "read or change a table",
      MCDS_OPT_TTL|MCDS_OPT_VALUES, 2, 1000, mcds_table },

    { "array", "list NAME | push NAME VALUE ...",
      "read an array, or append to it", MCDS_OPT_LIMIT, 2, 1000, mcds_array },

    { "lock", "show KEY ... | free KEY | run KEY -- COMMAND ...",
      "show or release locks, or run a command under a lock",
      MCDS_OPT_TTL|MCDS_OPT_WAIT, 2, NGX_MAX_INT32_VALUE, mcds_lock },

    { "check", "[nginx.conf]", "check the pools and their servers",
      0, 0, 1, mcds_check },

    { "bench", "", "measure the response times of the servers",
      0, 0, 0, mcds_bench },

    { NULL, NULL, NULL, 0, 0, 0, NULL }
};


static struct {
    struct option   option;
    char           *value;
    ngx_uint_t      bit;          /* the MCDS_OPT_* bit of the option; 0: all
                                     commands accept it */
    char           *text;
} mcds_long[] = {

    { { "conf", 1, NULL, 'c' }, "FILE", 0,
      "configuration of nginx (/etc/nginx/nginx.conf)" },
    { { "servers", 1, NULL, 's' }, "LIST", 0,
      "host:port,... or a libmemcached string, instead of -c" },
    { { "prefix", 1, NULL, 'P' }, "TEXT", 0, "key prefix, with --servers" },
    { { "pool", 1, NULL, 'p' }, "NAME", 0,
      "pool to use, if there are several" },
    { { "json", 0, NULL, 'j' }, NULL, 0, "print JSON" },
    { { "timeout", 1, NULL, 't' }, "TIME", 0,
      "time limit of an operation (1s)" },
    { { "key", 1, NULL, 'k' }, "TEXT", MCDS_OPT_KEY,
      "text of mcds_cache_key, instead of a URL" },
    { { "site", 1, NULL, 'N' }, "NAME", MCDS_OPT_SITE,
      "site of the page, if several are possible" },
    { { "header", 1, NULL, 'e' }, "LINE", MCDS_OPT_HEADER,
      "request header that selects a variant" },
    { { "body", 0, NULL, 'b' }, NULL, MCDS_OPT_BODY,
      "print only the body" },
    { { "hmac-key-file", 1, NULL, 'H' }, "FILE", MCDS_OPT_HMAC,
      "file with a key of signed pages" },
    { { "tag", 1, NULL, 'T' }, "TAG", MCDS_OPT_TAG, "pages with this tag" },
    { { "host", 1, NULL, 'o' }, "HOST", MCDS_OPT_HOST,
      "pages of this host that have tags" },
    { { "all", 0, NULL, 'a' }, NULL, MCDS_OPT_ALL,
      "all pages that have tags" },
    { { "delete", 0, NULL, 'd' }, NULL, MCDS_OPT_DELETE,
      "purge so that the pages are not served stale" },
    { { "ttl", 1, NULL, 'l' }, "TIME", MCDS_OPT_TTL,
      "time to live" },
    { { "wait", 1, NULL, 'W' }, "TIME", MCDS_OPT_WAIT,
      "time to wait for the lock (0)" },
    { { "window", 1, NULL, 'w' }, "TIME", MCDS_OPT_WINDOW,
      "window of the counter (as configured)" },
    { { "slots", 1, NULL, 'S' }, "N", MCDS_OPT_SLOTS,
      "number of slots of the window (as configured)" },
    { { "since", 1, NULL, 'i' }, "TIME", MCDS_OPT_SINCE,
      "only lines that are at most this old" },
    { { "after", 1, NULL, 'A' }, "ID", MCDS_OPT_AFTER,
      "only lines after the line with this id" },
    { { "time", 1, NULL, 'M' }, "SECONDS", MCDS_OPT_TIME,
      "time of the event, such as 1700000000.123" },
    { { "limit", 1, NULL, 'n' }, "N", MCDS_OPT_LIMIT,
      "maximum number of results; also -n N" },
    { { "chunk", 1, NULL, 'C' }, "TIME", MCDS_OPT_CHUNK,
      "time span of a chunk (as configured)" },
    { { "chunks", 1, NULL, 'K' }, "N", MCDS_OPT_CHUNKS,
      "number of chunks (as configured)" },
    { { "values", 0, NULL, 'v' }, NULL, MCDS_OPT_VALUES,
      "list the values too" },
    { { "help", 0, NULL, 'h' }, NULL, 0, "print this help" },
    { { "version", 0, NULL, 'V' }, NULL, 0, "print the version" }
};

#define MCDS_LONG  (sizeof(mcds_long) / sizeof(mcds_long[0]))


/*
 * the state of the tool and the command that runs, for functions that have no
 * argument for them
 */
static mcds_t  *mcds;

static mcds_command_t  *mcds_command;


int
main(int argc, char **argv)
{
    mcds_t      m;
    ngx_str_t  *args;
    ngx_uint_t  i, n;

    ngx_memzero(&m, sizeof(mcds_t));
    mcds = &m;

    mcds_streams();

    m.pipe_ignored = (signal(SIGPIPE, SIG_IGN) == SIG_IGN);

    ngx_tool_init(NGX_LOG_ERR);

    m.cycle = (ngx_cycle_t *) ngx_cycle;
    m.memory = ngx_create_pool(4096, ngx_cycle->log);

    if (m.memory == NULL) {
        mcds_no_memory();
    }

    m.o.timeout = 1000;

    if (ngx_array_init(&m.o.keys, m.memory, 4, sizeof(ngx_str_t)) != NGX_OK
        || ngx_array_init(&m.o.tags, m.memory, 4, sizeof(ngx_str_t)) != NGX_OK
        || ngx_array_init(&m.o.hosts, m.memory, 4, sizeof(ngx_str_t))
           != NGX_OK
        || ngx_array_init(&m.o.hmac, m.memory, 4, sizeof(ngx_str_t))
           != NGX_OK
        || ngx_array_init(&m.o.headers, m.memory, 4, sizeof(ngx_str_t))
           != NGX_OK)
    {
        mcds_no_memory();
    }

    /*
     * the argument "--" is looked up before getopt_long() reorders the
     * arguments
     */

    for (i = 1; i < (ngx_uint_t) argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            m.o.command = argc - i - 1;
            break;
        }
    }

    mcds_parse(&m, argc, argv);

    n = (optind == argc) ? 0 : argc - optind - 1;
    m.o.command = (m.o.command && m.o.command < n) ? n - m.o.command : 0;

    args = mcds_alloc(&m, (n + 1) * sizeof(ngx_str_t));

    for (i = 0; i < n; i++) {
        args[i].data = (u_char *) argv[optind + 1 + i];
        args[i].len = ngx_strlen(args[i].data);
    }

    if (mcds_command->run == mcds_check && n) {

        if (m.o.conf && strcmp(m.o.conf, argv[optind + 1]) != 0) {
            mcds_usage(&m, "more than one configuration was given");
        }

        m.o.conf = argv[optind + 1];
    }

    if (m.o.conf && m.o.servers) {
        mcds_usage(&m, "a configuration and --servers exclude each other");
    }

    if (m.o.conf == NULL) {
        m.o.conf = "/etc/nginx/nginx.conf";
    }

    if ((mcds_command->run == mcds_status || mcds_command->run == mcds_watch)
        && m.o.servers == NULL && access(m.o.conf, R_OK) == -1)
    {
        mcds_usage(&m, "cannot read %s: %s; name another configuration "
                   "of nginx with --conf, or servers with --servers",
                   m.o.conf, strerror(errno));
    }

    mcds_site_read(&m);

    mcds_command->run(&m, args, n);

    mcds_end(&m);
}


/*
 * ends the tool, and reports if the output could not be written; the reason is
 * not known if the write that failed was an earlier one
 */

static void
mcds_end(mcds_t *m)
{
    int  err;

    err = (fflush(stdout) != 0) ? errno : 0;

    if (err || ferror(stdout)) {
        mcds_error(m, MCDS_NO, "cannot write to standard output%s%s",
                   err ? ": " : "", err ? strerror(err) : "");
    }

    ngx_destroy_pool(m->memory);

    exit(m->status);
}


/*
 * opens those of the standard input, output and error that are closed, each so
 * that its use fails: a connection to memcached would get its number, and the
 * tool would read its input from memcached, or print its results to it
 */

static void
mcds_streams(void)
{
    int  fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1
            && open("/dev/null", (fd == STDIN_FILENO) ? O_WRONLY : O_RDONLY)
               != fd)
        {
            exit(MCDS_NO);
        }
    }
}


static void
mcds_parse(mcds_t *m, int argc, char **argv)
{
    int             c, at;
    char            shorts[2 * MCDS_LONG + 4], *p;
    ngx_uint_t      i, n;
    ngx_uint_t      seen;
    struct option   options[MCDS_LONG + 1];

    p = shorts;
    seen = 0;
    at = 0;

    for (i = 0; i < MCDS_LONG; i++) {
        options[i] = mcds_long[i].option;

        if (mcds_long[i].bit == 0) {
            *p++ = options[i].val;

            if (options[i].has_arg) {
                *p++ = ':';
            }
        }
    }

    (void) strcpy(p, "n:");
    ngx_memzero(&options[i], sizeof(struct option));

    while ((c = getopt_long(argc, argv, shorts, options, &at)) != -1) {

        if (c == '?') {
            m->command = NULL;
            exit(MCDS_USAGE);
        }

        for (i = 0; mcds_long[i].option.val != c; i++) { /* void */ }

        /* an option's empty value, as of an unset shell variable, is refused */

        if (optarg && *optarg == '\0' && c != 'P' && c != 'N') {
            mcds_usage(m, "--%s must not be empty", mcds_long[i].option.name);
        }

        seen |= mcds_long[i].bit;
        mcds_option(m, c, optarg);
    }

    p = (optind == argc) ? "status" : argv[optind];

    if (strcmp(p, "version") == 0) {
        mcds_version();
        mcds_end(m);
    }

    if (strcmp(p, "help") == 0) {
        mcds_help(stdout);
        mcds_end(m);
    }

    for (i = 0; mcds_commands[i].name; i++) {
        if (strcmp(p, mcds_commands[i].name) == 0) {
            break;
        }
    }

    if (mcds_commands[i].name == NULL) {
        mcds_usage(m, "unknown command: %s", p);
    }

    mcds_command = &mcds_commands[i];
    m->command = mcds_command->name;

    for (i = 0; i < MCDS_LONG; i++) {
        if (mcds_long[i].bit & seen & ~mcds_command->options) {
            mcds_usage(m, "does not accept --%s", mcds_long[i].option.name);
        }
    }

    n = (optind == argc) ? 0 : argc - optind - 1;

    if (n < mcds_command->min || n > mcds_command->max) {
        mcds_usage(m, "%s", n < mcds_command->min ? "missing argument"
                                                  : "too many arguments");
    }

    /*
     * an argument of a command must not be empty, except for values, texts and
     * the words of the command that "lock run" runs
     */

    if (mcds_command->run == mcds_table || mcds_command->run == mcds_array
        || mcds_command->run == mcds_log
        || (mcds_command->run == mcds_lock
            && strcmp(argv[optind + 1], "run") == 0))
    {
        n = 2;
    }

    for (i = 0; i < n; i++) {
        if (argv[optind + 1 + i][0] == '\0') {
            mcds_usage(m, "an argument is empty");
        }
    }
}


static void
mcds_option(mcds_t *m, int option, char *value)
{
    ngx_array_t     *list;
    mcds_options_t  *o;

    o = &m->o;
    list = mcds_list(m, option);

    if (list) {
        mcds_push(list, value);
        return;
    }

    switch (option) {

    case 'e':
        if (strchr(value, ':') == NULL) {
            mcds_usage(m, "--header must be \"Name: value\"");
        }

        mcds_push(&o->headers, value);
        break;

    case 'c':
        o->conf = value;
        break;

    case 's':
        o->servers = value;
        break;

    case 'P':
        o->prefix = value;
        break;

    case 'p':
        o->pool = value;
        break;

    case 'N':
        o->site = value;
        break;

    case 'j':
        o->json = 1;
        break;

    case 'b':
        o->body = 1;
        break;

    case 'a':
        o->all = 1;
        break;

    case 'd':
        o->drop = 1;
        break;

    case 'A':
        o->after.data = (u_char *) value;
        o->after.len = ngx_strlen(value);
        break;

    case 'v':
        o->values = 1;
        break;

    case 'h':
        mcds_help(stdout);
        mcds_end(m);

    case 'V':
        mcds_version();
        mcds_end(m);

    default:
        mcds_quantity(m, option, value);
    }
}


/* parses an option of the command line whose value is a time or a number */

static void
mcds_quantity(mcds_t *m, int option, char *value)
{
    mcds_options_t  *o;

    o = &m->o;

    switch (option) {

    case 't':
        o->timeout = mcds_period(m, "timeout", value, 0, 1, MCDS_HOUR);
        break;

    case 'l':
        o->ttl = mcds_period(m, "ttl", value, 1, 1, NGX_MCDS_MAX_TTL);
        break;

    case 'W':
        o->wait = mcds_period(m, "wait", value, 0, 0, MCDS_HOUR);
        break;

    case 'M':
        o->time = mcds_date(m, value);
        break;

    case 'w':
        o->window = mcds_period(m, "window", value, 1, 1, NGX_MCDS_MAX_TTL);
        break;

    case 'S':
        o->slots = mcds_number(m, "slots", value, 1, 60);
        break;

    case 'i':
        o->since = mcds_period(m, "since", value, 0, 1,
                               (int64_t) NGX_MCDS_MAX_TTL * 1000);
        break;

    case 'n':
        o->limit = mcds_number(m, "limit", value, 1, 10000);
        break;

    case 'C':
        o->chunk = mcds_period(m, "chunk", value, 0, 1000, MCDS_HOUR);
        break;

    case 'K':
        o->chunks = mcds_number(m, "chunks", value, 2, 3600);
        break;
    }
}


/*
 * returns the list of the values of a command line option that may be repeated;
 * NULL: mcds_option() itself stores the option's value
 */

static ngx_array_t *
mcds_list(mcds_t *m, int option)
{
    switch (option) {

    case 'k':
        return &m->o.keys;

    case 'H':
        return &m->o.hmac;

    case 'T':
        return &m->o.tags;

    case 'o':
        return &m->o.hosts;

    default:
        return NULL;
    }
}


static void
mcds_push(ngx_array_t *list, char *value)
{
    ngx_str_t  *s;

    s = ngx_array_push(list);

    if (s == NULL) {
        mcds_no_memory();
    }

    s->data = (u_char *) value;
    s->len = ngx_strlen(value);
}


static int64_t
mcds_period(mcds_t *m, char *option, char *value, ngx_uint_t is_sec,
    int64_t min, int64_t max)
{
    int64_t    n;
    ngx_str_t  s;

    s.data = (u_char *) value;
    s.len = ngx_strlen(value);

    n = ngx_parse_time(&s, is_sec);

    if (n == NGX_ERROR && max > NGX_MAX_INT32_VALUE) {

        /*
         * an option's time is parsed as seconds: on a 32-bit host,
         * ngx_parse_time() fails on more than 24 days in milliseconds
         */

        n = ngx_parse_time(&s, 1);
        n = (n == NGX_ERROR) ? n : n * 1000;
    }

    if (n < min || n > max) {
        mcds_usage(m, "--%s must be a time from %s to %s, such as 30s",
                   option, min == 0 ? "0"
                           : (is_sec || min == 1000) ? "1s" : "1ms",
                   (max == MCDS_HOUR) ? "1h" : "30d");
    }

    return n;
}


/*
 * parses the value of --time, seconds since the epoch, optionally with a
 * fraction; returns milliseconds
 */

static uint64_t
mcds_date(mcds_t *m, char *value)
{
    char       *p;
    int64_t     n;
    ngx_uint_t  i;

    p = value + strspn(value, "0123456789");
    n = ngx_atotm((u_char *) value, p - value);

    if (n > 0 && n < MCDS_LAST_DATE) {
        n *= 1000;

        if (*p == '.' && p[1]) {
            for (i = 100, p++; *p >= '0' && *p <= '9'; i /= 10, p++) {
                n += (*p - '0') * i;
            }
        }

        if (*p == '\0') {
            return n;
        }
    }

    mcds_usage(m, "--time must be seconds since 1970, such as 1700000000.123");
}


static ngx_int_t
mcds_number(mcds_t *m, char *option, char *value, ngx_int_t min,
    ngx_int_t max)
{
    ngx_int_t  n;

    n = ngx_atoi((u_char *) value, ngx_strlen(value));

    if (n < min || n > max) {
        mcds_usage(m, "--%s must be a number from %d to %d", option,
                   (int) min, (int) max);
    }

    return n;
}


static void
mcds_help(FILE *to)
{
    char        name[64];
    ngx_uint_t  i;

    fprintf(to, "usage: mcds [options] [command ...]\n\ncommands:\n");

    for (i = 0; mcds_commands[i].name; i++) {
        fprintf(to, "  %s %s\n        %s\n", mcds_commands[i].name,
                mcds_commands[i].args, mcds_commands[i].text);
    }

    fprintf(to, "  version\n        print the version\n\noptions:\n");

    for (i = 0; i < MCDS_LONG; i++) {
        snprintf(name, sizeof(name), "%s%c%s--%s%s%s",
                 mcds_long[i].bit ? "" : "-",
                 mcds_long[i].bit ? ' ' : mcds_long[i].option.val,
                 mcds_long[i].bit ? "   " : ", ",
                 mcds_long[i].option.name,
                 mcds_long[i].value ? "=" : "",
                 mcds_long[i].value ? mcds_long[i].value : "");

        fprintf(to, "  %-24s %s\n", name, mcds_long[i].text);
    }

    fprintf(to, "\nexit codes: 0 success; 1 not found, refused, or a problem; "
                "2 wrong usage; 3 a\nmemcached server did not respond.  "
                "See mcds(1).\n");
}


static void
mcds_version(void)
{
    printf("mcds %s\n", NGX_MCDS_VERSION);
}


void
mcds_error(mcds_t *m, int status, const char *fmt, ...)
{
    char     text[2048], *shown;
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    shown = mcds_escape((u_char *) text, ngx_strlen(text));

    (void) fflush(stdout);

    fprintf(stderr, "mcds%s%s: %s\n", m->command ? " " : "",
            m->command ? m->command : "", shown);

    free(shown);

    m->status = ngx_max(m->status, status);
}


void
mcds_usage(mcds_t *m, const char *fmt, ...)
{
    char     text[1024];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    mcds_error(m, MCDS_USAGE, "%s", text);

    if (mcds_command) {
        fprintf(stderr, "usage: mcds %s %s\n", mcds_command->name,
                mcds_command->args);
    }

    fprintf(stderr, "try \"mcds --help\"\n");

    exit(MCDS_USAGE);
}


void
mcds_failed(mcds_t *m, ngx_str_t *what, ngx_uint_t rc)
{
    mcds_error(m, ngx_mcds_answered(rc) ? MCDS_NO : MCDS_UNREACHABLE,
               "%.*s: %s", (int) what->len, what->data,
               ngx_mcds_strerror(rc));
}


void
mcds_no_memory(void)
{
    fprintf(stderr, "mcds: out of memory\n");
    exit(MCDS_NO);
}


void *
mcds_alloc(mcds_t *m, size_t size)
{
    void  *p;

    p = ngx_pcalloc(m->memory, size);

    if (p == NULL) {
        mcds_no_memory();
    }

    return p;
}
