
/*
 * Copyright (C) mcds authors
 *
 * mcds, the program: looks at what the module keeps in memcached, and changes
 * it.  All that is known about that is in src/, which is linked as it is; here
 * are the words of the command line and what is shown.
 */


#ifndef _MCDS_H_INCLUDED_
#define _MCDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <jansson.h>
#include "nginx/ngx_tool.h"
#include "ngx_mcds.h"
#include "ngx_mcds_client.h"


/* what the program ends with */

#define MCDS_OK                   0
#define MCDS_NO                   1   /* not found, refused, not well */
#define MCDS_USAGE                2
#define MCDS_UNREACHABLE          3   /* a memcached has not answered */


/* options, and which of them a command takes */

#define MCDS_OPT_KEY              0x0001
#define MCDS_OPT_BODY             0x0002
#define MCDS_OPT_HMAC             0x0004
#define MCDS_OPT_TAG              0x0008
#define MCDS_OPT_HOST             0x0010
#define MCDS_OPT_ALL              0x0020
#define MCDS_OPT_DELETE           0x0040
#define MCDS_OPT_TTL              0x0080
#define MCDS_OPT_WINDOW           0x0100
#define MCDS_OPT_SLOTS            0x0200
#define MCDS_OPT_SINCE            0x0400
#define MCDS_OPT_AFTER            0x0800
#define MCDS_OPT_LIMIT            0x1000
#define MCDS_OPT_CHUNK            0x2000
#define MCDS_OPT_CHUNKS           0x4000
#define MCDS_OPT_VALUES           0x8000
#define MCDS_OPT_HEADER           0x10000
#define MCDS_OPT_SITE             0x20000
#define MCDS_OPT_WAIT             0x40000
#define MCDS_OPT_TIME             0x80000


typedef struct {
    char             *conf;       /* of nginx, or NULL */
    char             *servers;    /* instead of it, or NULL */
    char             *prefix;
    char             *pool;       /* its name, or NULL */
    char             *site;       /* its name, or NULL */
    ngx_uint_t        json;
    ngx_msec_t        timeout;

    ngx_array_t       keys;       /* ngx_str_t, all of them */
    ngx_array_t       tags;
    ngx_array_t       hosts;
    ngx_array_t       hmac;       /* names of files */
    ngx_array_t       headers;    /* "Name: value" */

    ngx_uint_t        body;
    ngx_uint_t        all;
    ngx_uint_t        drop;       /* --delete */
    ngx_uint_t        values;
    uint32_t          ttl;        /* seconds, 0: none */
    uint32_t          window;     /* seconds, 0: not said */
    uint32_t          slots;
    ngx_msec_t        wait;       /* 0: does not */
    uint64_t          time;       /* milliseconds since the epoch, 0: now */
    ngx_msec_t        since;      /* milliseconds ago, 0: not said */
    ngx_str_t         after;
    ngx_uint_t        limit;      /* 0: not said */
    ngx_msec_t        chunk;
    ngx_uint_t        chunks;
    ngx_uint_t        command;    /* which argument is the first one behind
                                     "--", 0: none */
} mcds_options_t;


/* levels of the configuration, see mcds_site.h */

typedef struct mcds_scope_s  mcds_scope_t;
typedef struct mcds_sites_s  mcds_sites_t;


/* a directive of the module, as it stands in the configuration */

typedef struct {
    ngx_str_t        *words;
    ngx_uint_t        n;
    ngx_str_t         file;
    ngx_uint_t        line;
    mcds_scope_t     *scope;
} mcds_directive_t;


typedef struct {
    mcds_options_t    o;
    char             *command;

    ngx_pool_t       *memory;     /* for as long as the program runs */
    ngx_cycle_t      *cycle;      /* nginx's: where it has its files */
    ngx_array_t       pools;      /* ngx_mcds_pool_t * */
    ngx_array_t       directives; /* mcds_directive_t */
    mcds_sites_t     *sites;      /* NULL without a configuration */

    ngx_mcds_pool_t  *pool;       /* what the command is about */

    int               status;     /* the worst so far */
} mcds_t;


typedef struct {
    char             *name;
    char             *args;       /* for the usage */
    char             *text;
    ngx_uint_t        options;
    ngx_uint_t        min;        /* words behind the name */
    ngx_uint_t        max;
    void            (*run)(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
} mcds_command_t;


void mcds_get(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_purge(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_counter(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_visitors(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_top(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_log(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_table(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_array(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_lock(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_check(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_bench(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_status(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
void mcds_watch(mcds_t *m, ngx_str_t *args, ngx_uint_t n);


/* all that is known of a server; sets m->status if something is wrong */

json_t *mcds_check_server(mcds_t *m, ngx_mcds_server_t *server);


/*
 * What is wrong.  error: prints it behind the command's name and remembers the
 * status; usage: the same, and ends the program.  failed: an operation on what
 * ended with rc, which is not NGX_MCDS_OK.  memory: ends the program.
 */

void mcds_error(mcds_t *m, int status, const char *fmt, ...);
void mcds_usage(mcds_t *m, const char *fmt, ...)
    __attribute__((noreturn));
void mcds_failed(mcds_t *m, ngx_str_t *what, ngx_uint_t rc);
void mcds_no_memory(void) __attribute__((noreturn));
void *mcds_alloc(mcds_t *m, size_t size);


/*
 * The configuration.  read: all pools and directives, or ends the program.
 * pool: fills m->pool, for a command about a name that directives have as their
 * first word, or about any of them, name is NULL then.  find: the first such
 * directive from *i on that is not "off", *i moves behind it; NULL: there is
 * none.  key_pool, find_key: the same of a counter's key; exact: the directive
 * has just this key, otherwise one which may be it, as it has variables.
 * in_pool: the pool that it uses, NULL: not known.  secrets: the keys of
 * --hmac-key-file, or those of the configuration; NULL: none.
 */

void mcds_site_read(mcds_t *m);
void mcds_site_pool(mcds_t *m, char *directives, ngx_str_t *name);
void mcds_site_key_pool(mcds_t *m, char *directives, ngx_str_t *key);
mcds_directive_t *mcds_site_find(mcds_t *m, ngx_uint_t *i, char *directives,
    ngx_str_t *name);
mcds_directive_t *mcds_site_find_key(mcds_t *m, ngx_uint_t *i,
    char *directives, ngx_str_t *key, ngx_uint_t exact);
ngx_mcds_pool_t *mcds_site_in_pool(mcds_t *m, mcds_directive_t *directive);
ngx_str_t *mcds_site_param(mcds_directive_t *directive, char *name);
ngx_array_t *mcds_site_secrets(mcds_t *m);


/*
 * An operation, which is waited for.  The answer is cleared by
 * mcds_answer_free().
 */

typedef struct {
    ngx_uint_t         done;
    ngx_uint_t         rc;
    ngx_uint_t         has;
    uint64_t           cas;
    int64_t            ttl;
    ngx_str_t          text;      /* the value */
    ngx_mcds_value_t  *value;     /* of which it is a part */
} mcds_answer_t;

ngx_uint_t mcds_do(mcds_t *m, ngx_mcds_request_t *req, mcds_answer_t *answer);
void mcds_answer_free(mcds_answer_t *answer);

/* ends the program if nobody would ever set it */
void mcds_wait(ngx_uint_t *done);

/* until all operations were answered, but not longer than --timeout */
void mcds_settle(mcds_t *m);

/* the name of the server that has a key */
ngx_str_t *mcds_server(mcds_t *m, ngx_mcds_request_t *req);

uint64_t mcds_now(void);


/*
 * What is shown.  str: bytes as JSON, NULL-terminated or not; what is no UTF-8
 * is written as \xNN.  time: milliseconds since the epoch as text, hex: of a
 * number of 16 digits.  show: a value on its own line, or line by line.
 * dump: as JSON, with so many digits, 17 keep all that a number may have.  All
 * but these two, which take theirs, return new references.
 */

json_t *mcds_str(u_char *data, size_t len);
json_t *mcds_json(ngx_str_t *text);
json_t *mcds_time(uint64_t ms);
json_t *mcds_hex(uint64_t n);
void mcds_put(json_t *object, char *name, json_t *value);
void mcds_show(mcds_t *m, json_t *value);
void mcds_dump(json_t *value, size_t digits);

/*
 * Bytes of a text that a terminal may get.  escape: in new memory,
 * NULL-terminated.
 */

void mcds_print(u_char *data, size_t len);
char *mcds_escape(u_char *data, size_t len);


#define mcds_is(s, word)                                                      \
    ((s)->len == sizeof(word) - 1                                             \
     && ngx_strncmp((s)->data, word, sizeof(word) - 1) == 0)


#endif /* _MCDS_H_INCLUDED_ */
