
/*
 * Copyright (C) mcds authors
 *
 * The meta commands of memcached, doc/protocol.txt, "Meta Commands", and the
 * classic ones, for servers and proxies that know no others.
 */


#ifndef _NGX_MCDS_PROTO_H_INCLUDED_
#define _NGX_MCDS_PROTO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/* a reply line longer than this, without its LF, is not memcached's */
#define NGX_MCDS_MAX_LINE         2048

/* no command line of ours is longer, value and its CRLF not counted */
#define NGX_MCDS_MAX_COMMAND      512


typedef enum {
    NGX_MCDS_GET = 0,             /* mg */
    NGX_MCDS_SET,                 /* ms: store, whatever there is */
    NGX_MCDS_ADD,                 /* ms ME: store only if absent */
    NGX_MCDS_APPEND,              /* ms MA: only if there */
    NGX_MCDS_INCR,                /* ma: create with initial, or add delta */
    NGX_MCDS_DECR,                /* ma MD: never below 0 */
    NGX_MCDS_DELETE,              /* md */
    NGX_MCDS_TOUCH,               /* mg T: gives another time to live */
    NGX_MCDS_NOOP,                /* mn */
    NGX_MCDS_GET_VERSION,         /* version */
    NGX_MCDS_STATS                /* stats: in the classic words, always */
} ngx_mcds_verb_e;


/* a value follows the command line */

#define ngx_mcds_verb_stores(verb)                                            \
    ((verb) == NGX_MCDS_SET                                                   \
     || (verb) == NGX_MCDS_ADD                                                \
     || (verb) == NGX_MCDS_APPEND)


/* what a command asks to be answered, and what a reply holds */

#define NGX_MCDS_VALUE            0x01    /* v: the value */
#define NGX_MCDS_CAS              0x02    /* c: the CAS, 64 bits */
#define NGX_MCDS_TTL              0x04    /* t: seconds left, -1 unlimited */
#define NGX_MCDS_FLAGS            0x08    /* f: the client flags */
#define NGX_MCDS_OPAQUE           0x10    /* O, in a reply only */
#define NGX_MCDS_KEY              0x20    /* k, in a reply only */


typedef struct {
    ngx_uint_t    verb;           /* ngx_mcds_verb_e */
    ngx_uint_t    want;           /* NGX_MCDS_VALUE | ... */

    ngx_str_t     key;            /* checked: see ngx_mcds_key.h */
    uint32_t      opaque;

    /*
     * Seconds, 0 for no limit, up to NGX_MCDS_MAX_TTL, or a time since the
     * epoch: T of SET, ADD and TOUCH, and N of INCR and DECR (how long a
     * counter that is created lives).  Not used by the others.
     */
    uint32_t      ttl;

    uint64_t      cas;            /* SET, DELETE, INCR with update: only with
                                     this CAS; 0: any */
    uint64_t      initial;        /* INCR, DECR: J */
    uint64_t      delta;          /* INCR, DECR: D */

    uint32_t      flags;          /* SET, ADD: the client flags */
    size_t        len;            /* SET, ADD, APPEND: bytes of the value */

    unsigned      update:1;       /* INCR, DECR: only what is there, initial
                                     and ttl are not used */
} ngx_mcds_cmd_t;


typedef struct {
    ngx_uint_t    rc;             /* ngx_mcds_rc_e */
    ngx_uint_t    has;            /* NGX_MCDS_VALUE | ... */

    size_t        len;            /* of the value, when it has one */
    uint64_t      cas;
    int64_t       ttl;
    uint32_t      flags;
    uint32_t      opaque;

    /*
     * Slices of the buffer that was parsed: the key that was echoed; the
     * version of a VERSION reply; the text behind an error word; the number.
     */
    ngx_str_t     key;
    ngx_str_t     text;

    unsigned      noop:1;         /* MN */
    unsigned      version:1;      /* VERSION */
    unsigned      number:1;       /* classic: the number is all the line */
    unsigned      stat:1;         /* classic: a line of STATS, of more: key is
                                     its name, text its value */
} ngx_mcds_reply_t;


/*
 * Writes the command line with its CRLF; of SET, ADD and APPEND the value and
 * its CRLF follow, from the caller.  buf has room for NGX_MCDS_MAX_COMMAND
 * bytes.  Every command but NOOP and GET_VERSION asks for its opaque and key
 * to be echoed.  Returns the end.
 */

u_char *ngx_mcds_encode(u_char *buf, ngx_mcds_cmd_t *cmd);


/*
 * Reads one reply line from b->pos, up to b->last.
 *
 * NGX_OK     a whole line was read and b->pos stands behind its CRLF.  When
 *            reply->has & NGX_MCDS_VALUE, reply->len bytes and a CRLF follow,
 *            which the caller takes and checks.
 * NGX_AGAIN  the line is not whole yet; nothing was taken.
 * NGX_ERROR  this is no answer of memcached to a meta command of ours, or
 *            one that leaves the stream in an unknown state (ERROR, most
 *            CLIENT_ERROR): the connection must be closed.  reply->text holds
 *            what was read, for the log, at most 128 bytes.
 *
 * The grammar is strict: CRLF ends a line, lengths are decimal without sign
 * or leading zeros and fit size_t, flags appear once, known flags only (an
 * unknown flag is an error, since we ask for what we know); one trailing
 * space is allowed, as memcached before 1.6.18 writes it.
 *
 * SERVER_ERROR is NGX_OK with rc NGX_MCDS_TOO_LARGE or NGX_MCDS_SERVER_ERROR;
 * "CLIENT_ERROR cannot increment or decrement non-numeric value" is NGX_OK
 * with rc NGX_MCDS_NOT_NUMERIC; these carry no opaque.
 */

ngx_int_t ngx_mcds_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b);


/*
 * The classic protocol.  Its commands are the same, with the differences that:
 *
 * GET       "get", or "gets" when the CAS is wanted; both bring the value
 *           even if it is not, and neither tells the time to live;
 * SET       "set", or "cas" with a CAS;
 * INCR,     "incr", "decr": never make what is not there, so initial and ttl
 * DECR      are not used;
 * DELETE    "delete"; with a CAS it is a "cas" that stores an empty value
 *           whose time has passed, with the end of that value in the command;
 * TOUCH     "touch".
 *
 * Nothing but the key of a value is echoed, no time to live and no CAS of what
 * was stored is told, and there is no NOOP.
 *
 * encode: as ngx_mcds_encode().
 *
 * words: the replies that the command may have.
 *
 * parse: as ngx_mcds_parse(), for one of these replies; errors of the server
 * may always come, that of no number where a number may.  What has a value
 * (with its key and flags, its CAS if the command asked for it) is followed
 * by so many bytes, CRLF, "END" and CRLF, which the caller takes and checks.
 * STATS has lines of NGX_MCDS_WORD_STAT until "END" (NGX_MCDS_NOT_FOUND), or
 * "ERROR" (NGX_MCDS_SERVER_ERROR) where the server does not know the command.
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

u_char *ngx_mcds_classic_encode(u_char *buf, ngx_mcds_cmd_t *cmd);
ngx_uint_t ngx_mcds_classic_words(ngx_mcds_cmd_t *cmd);
ngx_int_t ngx_mcds_classic_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b,
    ngx_uint_t words);


/*
 * The number in a counter's value.  memcached pads a number that has become
 * shorter with spaces; nothing else may stand beside the 1 to 20 digits.
 * NGX_OK, or NGX_ERROR when the text is not such a number or above 2^64 - 1.
 */

ngx_int_t ngx_mcds_parse_number(u_char *data, size_t len, uint64_t *number);


/*
 * Compares a version text "1.6.18" (anything may follow the digits) with
 * major.minor.patch: NGX_OK when at least that, NGX_DECLINED when older,
 * NGX_ERROR when it is no version.
 */

ngx_int_t ngx_mcds_version_at_least(ngx_str_t *text, ngx_uint_t major,
    ngx_uint_t minor, ngx_uint_t patch);


#endif /* _NGX_MCDS_PROTO_H_INCLUDED_ */
