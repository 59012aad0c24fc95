
/*
 * Copyright (C) mcds authors
 *
 * The meta commands of memcached, doc/protocol.txt, "Meta Commands", and the
 * classic commands, for servers and proxies without meta commands.
 */


#ifndef _NGX_MCDS_PROTO_H_INCLUDED_
#define _NGX_MCDS_PROTO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * the longest line of a server's reply, without its LF; memcached's lines are
 * shorter
 */
#define NGX_MCDS_MAX_LINE         2048

/*
 * the longest command line that is sent to a server, without the value and its
 * CRLF
 */
#define NGX_MCDS_MAX_COMMAND      512


typedef enum {
    NGX_MCDS_GET = 0,             /* mg: get fields of an item */
    NGX_MCDS_SET,                 /* ms: store the value in any case */
    NGX_MCDS_ADD,                 /* ms ME: store the value only if the key is
                                     absent */
    NGX_MCDS_APPEND,              /* ms MA: append to the value, only if the key
                                     exists */
    NGX_MCDS_INCR,                /* ma: add delta to a counter, or create it
                                     with its initial value */
    NGX_MCDS_DECR,                /* ma MD: subtract from a counter, which never
                                     falls below 0 */
    NGX_MCDS_DELETE,              /* md: delete an item */
    NGX_MCDS_TOUCH,               /* mg T: set the time to live of an item */
    NGX_MCDS_NOOP,                /* mn: no operation, only a reply */
    NGX_MCDS_GET_VERSION,         /* version: ask for the server's version */
    NGX_MCDS_STATS                /* stats: get the server's statistics; the
                                     reply is the same in the meta and in the
                                     classic protocol */
} ngx_mcds_verb_e;


/* 1 if the command stores: its line is followed by the value to store */

#define ngx_mcds_verb_stores(verb)                                            \
    ((verb) == NGX_MCDS_SET                                                   \
     || (verb) == NGX_MCDS_ADD                                                \
     || (verb) == NGX_MCDS_APPEND)


/* the fields of an item that a command requests, and that a reply has */

#define NGX_MCDS_VALUE            0x01    /* flag v: the value of the item */
#define NGX_MCDS_CAS              0x02    /* flag c: the CAS value, 64 bits */
#define NGX_MCDS_TTL              0x04    /* flag t: seconds left until the item
                                             expires; -1: never */
#define NGX_MCDS_FLAGS            0x08    /* flag f: the client flags of the
                                             item */
#define NGX_MCDS_OPAQUE           0x10    /* flag O: the opaque that a reply
                                             echoes; never set in the field
                                             "want" of a command */
#define NGX_MCDS_KEY              0x20    /* flag k: the key that a reply
                                             echoes; never set in the field
                                             "want" of a command */


typedef struct {
    ngx_uint_t    verb;           /* the command for memcached, of
                                     ngx_mcds_verb_e */
    ngx_uint_t    want;           /* fields that the command requests,
                                     NGX_MCDS_VALUE | ... */

    ngx_str_t     key;            /* a valid key of an item, see
                                     ngx_mcds_key.h */
    uint32_t      opaque;

    /*
     * The time to live: seconds, at most NGX_MCDS_MAX_TTL, or a time since the
     * epoch; 0: no expiry.  SET, ADD and TOUCH send it with the flag T; INCR
     * and DECR with the flag N, for a counter that they create.  Other commands
     * do not use it.
     */
    uint32_t      ttl;

    /*
     * The CAS value that the item must have; 0: any value.  SET and DELETE use
     * it, and INCR and DECR if the field "update" is 1.
     */
    uint64_t      cas;

    uint64_t      initial;        /* the initial value of a counter that INCR or
                                     DECR creates (flag J) */
    uint64_t      delta;          /* the amount by which INCR or DECR changes
                                     the counter (flag D) */

    uint32_t      flags;          /* client flags of the item, for SET and
                                     ADD */
    size_t        len;            /* bytes of the value, for SET, ADD and
                                     APPEND */

    unsigned      update:1;       /* 1: INCR and DECR change only a counter that
                                     exists; initial and ttl are unused */
} ngx_mcds_cmd_t;


typedef struct {
    ngx_uint_t    rc;             /* the result of the command, of
                                     ngx_mcds_rc_e */
    ngx_uint_t    has;            /* which fields the reply has, a mask:
                                     NGX_MCDS_VALUE | ... */

    size_t        len;            /* length of the value, if the reply has
                                     one */
    uint64_t      cas;
    int64_t       ttl;
    uint32_t      flags;
    uint32_t      opaque;

    /*
     * Parts of the reply's line, in the buffer that was parsed.  key is the key
     * that the server echoes.  text is the version in a reply to "version", the
     * text after an error word, or the value of a counter.
     */
    ngx_str_t     key;
    ngx_str_t     text;

    unsigned      noop:1;         /* 1: the reply is MN, to the command NOOP */
    unsigned      version:1;      /* 1: the reply is a server's version */
    unsigned      number:1;       /* 1: the reply, to the classic "incr" or
                                     "decr", is a number */
    unsigned      stat:1;         /* 1: the parsed line belongs to the reply to
                                     "stats"; key is the statistic's name, text
                                     its value */
} ngx_mcds_reply_t;


/*
 * Writes the line of a meta command and its CRLF into buf, which has room for
 * NGX_MCDS_MAX_COMMAND bytes.  The caller sends the value of SET, ADD and
 * APPEND, and its CRLF, after the line.  All commands but NOOP, STATS and
 * GET_VERSION request their opaque and key to be echoed.  Returns the end of
 * the line.
 */

u_char *ngx_mcds_encode(u_char *buf, ngx_mcds_cmd_t *cmd);


/*
 * Parses one line of a reply, from b->pos up to b->last.
 *
 * NGX_OK     a whole line was parsed, and b->pos is after its CRLF.  If
 *            reply->has & NGX_MCDS_VALUE, then reply->len bytes and a CRLF
 *            follow, which the caller reads and checks.
 * NGX_AGAIN  the line is incomplete; b->pos has not moved.
 * NGX_ERROR  the line is no reply of memcached to a meta command, or the state
 *            of the stream after it is unknown (ERROR, most CLIENT_ERROR).
 *            The caller must close the connection.  reply->text is the
 *            beginning of the line, for the log, at most 128 bytes.
 *
 * The grammar is strict: CRLF ends a line, lengths are decimal without a sign
 * or leading zeros and fit size_t, each flag appears once, and unknown flags
 * are errors, as the client requests only flags that it knows.  One trailing
 * space is allowed, as memcached before 1.6.18 writes it.
 *
 * SERVER_ERROR is NGX_OK with rc NGX_MCDS_TOO_LARGE or NGX_MCDS_SERVER_ERROR;
 * "CLIENT_ERROR cannot increment or decrement non-numeric value" is NGX_OK with
 * rc NGX_MCDS_NOT_NUMERIC.  These replies have no opaque.
 */

ngx_int_t ngx_mcds_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b);


/*
 * The classic protocol.  It has the commands of the meta protocol, but differs
 * as follows:
 *
 * GET      "get", or "gets" if the CAS value is requested; the reply always
 *          has the value, and never the time to live;
 * SET      "set", or "cas" with a CAS value;
 * INCR,    "incr", "decr": never create a counter, so that initial and ttl
 * DECR     are unused;
 * DELETE   "delete"; with a CAS value "cas" with an empty value that has
 *          already expired; the command includes the CRLF of that value;
 * TOUCH    "touch".
 *
 * Of the key and the opaque, a server echoes only the key, and only in a reply
 * with a value.  The reply to a command that stores has neither the time to
 * live nor the CAS value.  There is no NOOP.
 *
 * The bits below name the replies that a command may get.
 */

#define NGX_MCDS_WORD_VALUE       0x0001
#define NGX_MCDS_WORD_VALUE_CAS   0x0002
#define NGX_MCDS_WORD_END         0x0004
#define NGX_MCDS_WORD_STORED      0x0008
#define NGX_MCDS_WORD_NOT_STORED  0x0010
#define NGX_MCDS_WORD_EXISTS      0x0020
#define NGX_MCDS_WORD_NOT_FOUND   0x0040
#define NGX_MCDS_WORD_DELETED     0x0080
#define NGX_MCDS_WORD_TOUCHED     0x0100
#define NGX_MCDS_WORD_NUMBER      0x0200
#define NGX_MCDS_WORD_VERSION     0x0400
#define NGX_MCDS_WORD_STAT        0x0800
#define NGX_MCDS_WORD_ERROR       0x1000


/*
 * Writes the line of a classic command and its CRLF into buf, which has room
 * for NGX_MCDS_MAX_COMMAND bytes.  The caller sends the value of SET, ADD and
 * APPEND, and its CRLF, after the line.  Returns the end of the line.
 */

u_char *ngx_mcds_classic_encode(u_char *buf, ngx_mcds_cmd_t *cmd);


/*
 * Returns the kinds of reply that a server may send to the command in the
 * classic protocol, as a mask of NGX_MCDS_WORD_*.
 */

ngx_uint_t ngx_mcds_classic_words(ngx_mcds_cmd_t *cmd);


/*
 * Parses one line of a reply of the classic protocol, with the results of
 * ngx_mcds_parse(): NGX_OK, NGX_AGAIN if the line is incomplete, or NGX_ERROR
 * if the line is malformed or a kind of reply that the mask "words" lacks.
 * SERVER_ERROR is always accepted, the CLIENT_ERROR about a value that is no
 * number only if words has NGX_MCDS_WORD_NUMBER.
 *
 * A reply with a value has its key and flags, and its CAS value if the command
 * requested it.  reply->len bytes, CRLF, "END" and CRLF follow, which the
 * caller reads and checks.  The reply to STATS is lines of NGX_MCDS_WORD_STAT
 * up to "END" (NGX_MCDS_NOT_FOUND), or "ERROR" (NGX_MCDS_SERVER_ERROR) if the
 * server does not know the command.
 */

ngx_int_t ngx_mcds_classic_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b,
    ngx_uint_t words);


/*
 * Parses the value of a counter: 1 to 20 digits, and then only spaces, with
 * which memcached pads a number that has become shorter.  Returns NGX_OK, or
 * NGX_ERROR if the value is no such number or above 2^64 - 1.
 */

ngx_int_t ngx_mcds_parse_number(u_char *data, size_t len, uint64_t *number);


/*
 * Compares the version of a server, such as "1.6.18" (any text may follow),
 * with major.minor.patch.  Returns NGX_OK if the version is at least that,
 * NGX_DECLINED if it is older, NGX_ERROR if the text is no version.
 */

ngx_int_t ngx_mcds_version_at_least(ngx_str_t *text, ngx_uint_t major,
    ngx_uint_t minor, ngx_uint_t patch);


#endif /* _NGX_MCDS_PROTO_H_INCLUDED_ */
