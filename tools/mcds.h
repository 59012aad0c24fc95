
/*
 * Copyright (C) mcds authors
 *
 * mcds, the program: shows and changes the data that the module keeps in
 * memcached.  All formats and algorithms are in src/, which is linked
 * unchanged; the program adds the command line and the output.
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


/* exit codes of the command line tool */

#define MCDS_OK                   0
#define MCDS_NO                   1   /* exit code: an item was not found, an
                                         operation was refused, or a server is
                                         unhealthy */
#define MCDS_USAGE                2
#define MCDS_UNREACHABLE          3   /* exit code: a memcached server did not
                                         answer */


/*
 * command line options that only some commands accept, as bits of the field
 * "options" of mcds_command_t
 */

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
    char             *conf;       /* name of nginx's configuration file; if
                                     --servers is given, the value of that
                                     option, for error messages */
    char             *servers;    /* the value of the option --servers: a list
                                     of memcached servers, or a configuration
                                     string of libmemcached; NULL: not given */
    char             *prefix;
    char             *pool;       /* the value of the option --pool; NULL: not
                                     given */
    char             *site;       /* the value of the option --site, as in
                                     mcds_cache_site; NULL: not given */
    ngx_uint_t        json;
    ngx_msec_t        timeout;

    ngx_array_t       keys;       /* array of ngx_str_t: the values of the
                                     options --key */
    ngx_array_t       tags;
    ngx_array_t       hosts;
    ngx_array_t       hmac;       /* array of ngx_str_t: the file names in the
                                     options --hmac-key-file */
    ngx_array_t       headers;    /* array of ngx_str_t: the values of the
                                     options --header, "Name: value" */

    ngx_uint_t        body;
    ngx_uint_t        all;
    ngx_uint_t        drop;       /* 1: the option --delete was given */
    ngx_uint_t        values;
    uint32_t          ttl;        /* the value of the option --ttl, seconds; 0:
                                     not given */
    uint32_t          window;     /* the value of the option --window, seconds;
                                     0: not given */
    uint32_t          slots;
    ngx_msec_t        wait;       /* the value of the option --wait, the
                                     milliseconds to wait for a lock; 0: do not
                                     wait */
    uint64_t          time;       /* the value of the option --time,
                                     milliseconds since the epoch; 0: now */
    ngx_msec_t        since;      /* the value of the option --since,
                                     milliseconds before now; 0: not given */
    ngx_str_t         after;
    ngx_uint_t        limit;      /* the value of the option --limit, the
                                     maximum number of lines, values, keys or
                                     rows to print; 0: not given */
    ngx_msec_t        chunk;
    ngx_uint_t        chunks;
    ngx_uint_t        command;    /* index of the command's first argument
                                     after "--"; 0: there is no "--" between
                                     arguments */
} mcds_options_t;


/*
 * types, defined in mcds_site.h, of a block of nginx's configuration and of the
 * list of all its blocks
 */

typedef struct mcds_scope_s  mcds_scope_t;
typedef struct mcds_sites_s  mcds_sites_t;


/* a directive of the module mcds, as nginx's configuration has it */

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

    ngx_pool_t       *memory;     /* memory that lives until the tool ends */
    ngx_cycle_t      *cycle;      /* nginx's cycle, with the paths of nginx's
                                     files */
    ngx_array_t       pools;      /* the pools of memcached servers, array of
                                     ngx_mcds_pool_t * */
    ngx_array_t       directives; /* the directives of the module mcds, array of
                                     mcds_directive_t */
    mcds_sites_t     *sites;      /* the blocks of nginx's configuration; NULL:
                                     the tool reads no configuration */

    ngx_mcds_pool_t  *pool;       /* the pool of memcached servers that the
                                     command uses */

    int               status;     /* exit code of the tool: the maximum of the
                                     codes that were set so far */
    unsigned          pipe_ignored:1; /* SIGPIPE was ignored when the tool
                                     started */
} mcds_t;


typedef struct {
    char             *name;
    char             *args;       /* arguments of the command, as --help shows
                                     them */
    char             *text;
    ngx_uint_t        options;
    ngx_uint_t        min;        /* minimum and maximum number of the command's
                                     arguments */
    ngx_uint_t        max;
    void            (*run)(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
} mcds_command_t;


/*
 * The commands of the tool: args are the n arguments after the name of the
 * command.  Each one prints its result and raises the exit code m->status if it
 * fails.
 */

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


/*
 * Returns the state, statistics and warnings of a memcached server as a JSON
 * object; raises the exit code m->status if the server has a problem.
 */

json_t *mcds_check_server(mcds_t *m, ngx_mcds_server_t *server);


/*
 * Prints an error message after the command's name, and raises the exit code
 * m->status to at least status.
 */

void mcds_error(mcds_t *m, int status, const char *fmt, ...);


/* Prints an error in the use of the command line, and ends the tool. */

void mcds_usage(mcds_t *m, const char *fmt, ...)
    __attribute__((noreturn));


/*
 * Reports that an operation of memcached on "what", the name of a key or
 * server, ended with the result code rc, which is not NGX_MCDS_OK.
 */

void mcds_failed(mcds_t *m, ngx_str_t *what, ngx_uint_t rc);


/* Reports that memory is exhausted, and ends the tool. */

void mcds_no_memory(void) __attribute__((noreturn));


/*
 * Allocates zeroed memory for as long as the tool runs; ends the tool if memory
 * is exhausted.
 */

void *mcds_alloc(mcds_t *m, size_t size);


/*
 * Reads all pools of memcached servers and all directives of mcds from nginx's
 * configuration, or makes a pool of the servers in the option --servers.  Ends
 * the tool if the configuration cannot be read.
 */

void mcds_site_read(mcds_t *m);


/*
 * Sets m->pool, the pool of memcached servers, for a command about a named
 * object, such as a log.  It is the pool of the option --pool, or the pool that
 * the directives for this object use in nginx's configuration: those that are
 * one of "directives" (separated by spaces) and have the object's name as their
 * first argument (mcds_table_lookup: second argument); name NULL: any argument,
 * or none.  Ends the tool if the pool is not unique.
 */

void mcds_site_pool(mcds_t *m, char *directives, ngx_str_t *name);


/*
 * Sets m->pool, the pool of memcached servers, for a command about a counter's
 * key.  It is the pool of the option --pool, or the pool that the directives
 * for this counter use in nginx's configuration: those that are one of
 * "directives" (separated by spaces) and whose counters may have this key.
 * Ends the tool if the pool is not unique.
 */

void mcds_site_key_pool(mcds_t *m, char *directives, ngx_str_t *key);


/*
 * Returns the next directive in nginx's configuration, from index *i on, that
 * is one of "directives" (names, separated by spaces) and has this name as its
 * first argument; the first argument of mcds_table_lookup is a variable, so its
 * second one is compared.  name NULL: any name, or none.  Directives with "off"
 * in place of the name are skipped.  Sets *i to the index after the directive.
 * Returns NULL if there is no such directive.
 */

mcds_directive_t *mcds_site_find(mcds_t *m, ngx_uint_t *i, char *directives,
    ngx_str_t *name);


/*
 * Returns the next directive in nginx's configuration, from index *i on, that
 * is one of "directives" (names, separated by spaces) and whose counters may
 * have this key.  exact 1: its "key=" is the key itself; exact 0: the key
 * matches its "key=", or begins with its "prefix=", where a variable may have
 * any value.  A key of a directive with "period=" may also end with the number
 * of a period.  Sets *i to the index after the directive.  Returns NULL if
 * there is no such directive.
 */

mcds_directive_t *mcds_site_find_key(mcds_t *m, ngx_uint_t *i,
    char *directives, ngx_str_t *key, ngx_uint_t exact);


/*
 * Returns 1 if a directive in nginx's configuration uses this pool of memcached
 * servers, in its own block or in an inner block that inherits it; 2 if the
 * pool of one of these blocks is unknown, so that it may be this one; 0 if
 * neither is true.
 */

ngx_uint_t mcds_site_uses(mcds_t *m, mcds_directive_t *directive,
    ngx_mcds_pool_t *pool);


/*
 * Returns the value of the parameter "name=" of a directive, or NULL if the
 * directive lacks it.  The result is static: the next call overwrites it.
 */

ngx_str_t *mcds_site_param(mcds_directive_t *directive, char *name);


/*
 * Returns the keys by which pages are signed, of --hmac-key-file or else of
 * nginx's configuration, as an array of ngx_str_t; NULL: there are none.
 */

ngx_array_t *mcds_site_secrets(mcds_t *m);


/*
 * The result of an operation of memcached, to be freed with mcds_answer_free().
 */

typedef struct {
    ngx_uint_t         done;
    ngx_uint_t         rc;
    ngx_uint_t         has;
    uint64_t           cas;
    int64_t            ttl;
    ngx_str_t          text;      /* the value of the item that was read */
    ngx_mcds_value_t  *value;     /* the memory of the field "text"; NULL: the
                                     operation has read no value */
} mcds_answer_t;


/*
 * Runs an operation of memcached and waits for its result.  Returns the
 * operation's result code, one of ngx_mcds_rc_e.
 */

ngx_uint_t mcds_do(mcds_t *m, ngx_mcds_request_t *req, mcds_answer_t *answer);


/*
 * Frees the item's value in the result of an operation of memcached, if the
 * operation has read one.
 */

void mcds_answer_free(mcds_answer_t *answer);

/*
 * Runs the event loop until *done is set; ends the tool if no event is left
 * that could set it.
 */
void mcds_wait(ngx_uint_t *done);

/*
 * Runs the event loop until memcached has answered all operations, for at most
 * --timeout.
 */
void mcds_settle(mcds_t *m);

/* Returns the name of the memcached server that stores the key in req. */
ngx_str_t *mcds_server(mcds_t *m, ngx_mcds_request_t *req);


/* Returns the current time, in milliseconds since the epoch. */

uint64_t mcds_now(void);


/*
 * Returns a new JSON string of the bytes; bytes that are not UTF-8 become \xNN.
 */

json_t *mcds_str(u_char *data, size_t len);


/*
 * Returns a new JSON string of the text; bytes that are not UTF-8 become \xNN.
 */

json_t *mcds_json(ngx_str_t *text);


/*
 * Returns a new JSON string: milliseconds since the epoch as a readable date,
 * or null if its year has more than four digits.
 */

json_t *mcds_time(uint64_t ms);


/*
 * Returns a number as a new JSON value: a string above 63 bits, since many
 * readers of JSON cannot represent larger integers.
 */

json_t *mcds_count(uint64_t n);


/*
 * Sets a member of a JSON object, and takes over the reference to value; ends
 * the tool if memory is exhausted.
 */

void mcds_put(json_t *object, char *name, json_t *value);


/*
 * Prints a JSON value, with --json as one line of JSON, otherwise as text for
 * people; takes over the reference.
 */

void mcds_show(mcds_t *m, json_t *value);


/*
 * Prints a JSON value as one line of JSON; digits is the number of significant
 * digits of its real numbers, which are exact with 17.  Takes over the
 * reference.
 */

void mcds_dump(json_t *value, size_t digits);

/* Prints a text; bytes that are unsafe for a terminal are escaped. */

void mcds_print(u_char *data, size_t len);


/*
 * Returns a text as a null-terminated string from malloc(); bytes that are
 * unsafe for a terminal are escaped.
 */

char *mcds_escape(u_char *data, size_t len);


#define mcds_is(s, word)                                                      \
    ((s)->len == sizeof(word) - 1                                             \
     && ngx_strncmp((s)->data, word, sizeof(word) - 1) == 0)


#endif /* _MCDS_H_INCLUDED_ */
