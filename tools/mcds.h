
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


/* exit codes of the program */

#define MCDS_OK                   0
#define MCDS_NO                   1   /* not found, refused or unhealthy */
#define MCDS_USAGE                2
#define MCDS_UNREACHABLE          3   /* a memcached server did not answer */


/* options that only some commands accept, as bits of mcds_command_t */

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
    char             *conf;       /* nginx's configuration, or NULL */
    char             *servers;    /* list or string of --servers, or NULL */
    char             *prefix;
    char             *pool;       /* name of --pool, or NULL */
    char             *site;       /* name of --site, or NULL */
    ngx_uint_t        json;
    ngx_msec_t        timeout;

    ngx_array_t       keys;       /* ngx_str_t, all values of --key */
    ngx_array_t       tags;
    ngx_array_t       hosts;
    ngx_array_t       hmac;       /* ngx_str_t, files of --hmac-key-file */
    ngx_array_t       headers;    /* ngx_str_t, "Name: value" of --header */

    ngx_uint_t        body;
    ngx_uint_t        all;
    ngx_uint_t        drop;       /* --delete was given */
    ngx_uint_t        values;
    uint32_t          ttl;        /* seconds, 0: not given */
    uint32_t          window;     /* seconds, 0: not given */
    uint32_t          slots;
    ngx_msec_t        wait;       /* for a lock; 0: do not wait */
    uint64_t          time;       /* milliseconds since the epoch, 0: now */
    ngx_msec_t        since;      /* milliseconds ago, 0: not given */
    ngx_str_t         after;
    ngx_uint_t        limit;      /* 0: not given */
    ngx_msec_t        chunk;
    ngx_uint_t        chunks;
    ngx_uint_t        command;    /* index of the first argument after "--", 0:
                                     there is none */
} mcds_options_t;


/* levels of the configuration, see mcds_site.h */

typedef struct mcds_scope_s  mcds_scope_t;
typedef struct mcds_sites_s  mcds_sites_t;


/* a directive of the module as it is in the configuration */

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

    ngx_pool_t       *memory;     /* freed when the program ends */
    ngx_cycle_t      *cycle;      /* nginx's, with the paths of its files */
    ngx_array_t       pools;      /* ngx_mcds_pool_t * */
    ngx_array_t       directives; /* mcds_directive_t */
    mcds_sites_t     *sites;      /* NULL without a configuration */

    ngx_mcds_pool_t  *pool;       /* the pool of the command */

    int               status;     /* the exit code: the maximum so far */
} mcds_t;


typedef struct {
    char             *name;
    char             *args;       /* arguments, for the usage */
    char             *text;
    ngx_uint_t        options;
    ngx_uint_t        min;        /* minimum and maximum of arguments */
    ngx_uint_t        max;
    void            (*run)(mcds_t *m, ngx_str_t *args, ngx_uint_t n);
} mcds_command_t;


/*
 * The commands: args are the n arguments after the name of the command.  Each
 * one prints its result and raises m->status if it fails.
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
 * Returns the state, statistics and warnings of a server as an object; raises
 * m->status if the server has a problem.
 */

json_t *mcds_check_server(mcds_t *m, ngx_mcds_server_t *server);


/* Prints an error after the name of the command, and raises m->status. */

void mcds_error(mcds_t *m, int status, const char *fmt, ...);


/* Prints an error of usage and ends the program. */

void mcds_usage(mcds_t *m, const char *fmt, ...)
    __attribute__((noreturn));


/*
 * Reports that an operation on "what", the name of a key or server, ended with
 * rc, which is not NGX_MCDS_OK.
 */

void mcds_failed(mcds_t *m, ngx_str_t *what, ngx_uint_t rc);


/* Reports that memory is exhausted and ends the program. */

void mcds_no_memory(void) __attribute__((noreturn));


/*
 * Allocates zeroed memory for as long as the program runs; ends the program if
 * memory is exhausted.
 */

void *mcds_alloc(mcds_t *m, size_t size);


/*
 * Reads all pools and directives of the configuration, or the pool of
 * --servers.  Ends the program if the configuration cannot be read.
 */

void mcds_site_read(mcds_t *m);


/*
 * Sets m->pool for a command about a name: the pool of the directives, a list
 * separated by spaces, whose first word is the name; with name NULL the pool of
 * any of these directives.  Ends the program if the pool is not unique.
 */

void mcds_site_pool(mcds_t *m, char *directives, ngx_str_t *name);


/* Sets m->pool as mcds_site_pool() does, for the key of a counter. */

void mcds_site_key_pool(mcds_t *m, char *directives, ngx_str_t *key);


/*
 * Returns the next of these directives with this name, from index *i on, that
 * is not "off"; name NULL is any name.  Advances *i behind it.  Returns NULL if
 * there is none.
 */

mcds_directive_t *mcds_site_find(mcds_t *m, ngx_uint_t *i, char *directives,
    ngx_str_t *name);


/*
 * Returns the next of these directives that counts the key, as mcds_site_find()
 * does.  If exact is 1 the directive has just this key; otherwise its key
 * contains variables and may have this value.
 */

mcds_directive_t *mcds_site_find_key(mcds_t *m, ngx_uint_t *i,
    char *directives, ngx_str_t *key, ngx_uint_t exact);


/* Returns the pool that the directive uses, or NULL if it is unknown. */

ngx_mcds_pool_t *mcds_site_in_pool(mcds_t *m, mcds_directive_t *directive);


/*
 * Returns the value of the parameter "name=" of a directive, or NULL.  The
 * result is static: the next call overwrites it.
 */

ngx_str_t *mcds_site_param(mcds_directive_t *directive, char *name);


/*
 * Returns the keys of --hmac-key-file, or those of the configuration, as an
 * array of ngx_str_t; NULL: there are none.
 */

ngx_array_t *mcds_site_secrets(mcds_t *m);


/* the result of an operation, to be freed with mcds_answer_free() */

typedef struct {
    ngx_uint_t         done;
    ngx_uint_t         rc;
    ngx_uint_t         has;
    uint64_t           cas;
    int64_t            ttl;
    ngx_str_t          text;      /* the value of the item */
    ngx_mcds_value_t  *value;     /* the memory that contains text */
} mcds_answer_t;


/* Runs an operation to its end.  Returns its ngx_mcds_rc_e. */

ngx_uint_t mcds_do(mcds_t *m, ngx_mcds_request_t *req, mcds_answer_t *answer);


/* Frees the value of a result; the result may be empty. */

void mcds_answer_free(mcds_answer_t *answer);

/*
 * Runs the event loop until *done is set; ends the program if no event is left
 * that could set it.
 */
void mcds_wait(ngx_uint_t *done);

/*
 * Runs the event loop until all operations are answered, for at most --timeout.
 */
void mcds_settle(mcds_t *m);

/* Returns the name of the server that stores a key. */
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


/* Returns a new JSON string: a number as 16 hexadecimal digits. */

json_t *mcds_hex(uint64_t n);


/*
 * Sets a member of an object, and takes over the reference to value; ends the
 * program if memory is exhausted.
 */

void mcds_put(json_t *object, char *name, json_t *value);


/*
 * Prints a value, as one line of JSON with --json, else as text for people;
 * takes over the reference.
 */

void mcds_show(mcds_t *m, json_t *value);


/*
 * Prints a value as one line of JSON, real numbers with so many digits; 17
 * digits are exact.  Takes over the reference.
 */

void mcds_dump(json_t *value, size_t digits);

/* Prints bytes, those unsafe for a terminal escaped. */

void mcds_print(u_char *data, size_t len);


/*
 * Returns bytes as a null-terminated string from malloc(), those unsafe for a
 * terminal escaped.
 */

char *mcds_escape(u_char *data, size_t len);


#define mcds_is(s, word)                                                      \
    ((s)->len == sizeof(word) - 1                                             \
     && ngx_strncmp((s)->data, word, sizeof(word) - 1) == 0)


#endif /* _MCDS_H_INCLUDED_ */
