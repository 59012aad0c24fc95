
/*
 * Copyright (C) mcds authors
 *
 * The classic protocol: the bytes of commands; each reply after each command,
 * as memcached 1.6.18, yrmcds 1.1.9 and nutcracker 0.5.0 send them, whole and
 * cut at every byte; and replies that must be refused.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_proto.h"
#include "tap.h"


#define NUMERIC   "cannot increment or decrement non-numeric value"

#define rows(a)   (sizeof(a) / sizeof((a)[0]))
#define text(s)   sizeof(s) - 1, s


typedef struct {
    const char      *line;
    ngx_mcds_cmd_t   cmd;
} command_t;


typedef struct {
    const char  *line;            /* line of a reply, without CRLF */
    const char  *to;              /* the commands to which the line is a reply:
                                     one letter of "letters" for each */
    ngx_uint_t   rc;
    ngx_uint_t   has;
    size_t       len;
    uint64_t     cas;
    uint32_t     flags;
    const char  *key;
    const char  *text;
    ngx_uint_t   number;
    ngx_uint_t   version;
    ngx_uint_t   stat;
} reply_t;


typedef struct {
    size_t       len;
    const char  *line;
} wrong_t;


static void test_encode(void);
static void test_encode_limits(void);
static void test_replies(void);
static void test_cuts(void);
static void test_wrong(void);
static void test_pipeline(void);
static ngx_int_t parse(ngx_mcds_reply_t *reply, const char *data, size_t len,
    ngx_uint_t words, size_t *taken);
static ngx_uint_t same(ngx_mcds_reply_t *reply, reply_t *row);
static ngx_uint_t same_text(ngx_str_t *got, const char *expected);
static size_t encode(char *line, ngx_mcds_cmd_t *cmd);


/*
 * letter n of this string stands for row n of the array "commands"; in the
 * array "replies", the field "to" holds the letters of those commands to which
 * memcached may give the reply
 */

static const char  letters[] = "gGsSaxiduDtvm";

static command_t  commands[] = {
    { "get foo\r\n", { .verb = NGX_MCDS_GET, .want = NGX_MCDS_VALUE } },
    { "gets foo\r\n", { .verb = NGX_MCDS_GET,
                        .want = NGX_MCDS_VALUE|NGX_MCDS_CAS } },
    { "set foo 0 60 3\r\n", { .verb = NGX_MCDS_SET, .ttl = 60, .len = 3 } },
    { "cas foo 0 60 3 18446744073709551615\r\n",
      { .verb = NGX_MCDS_SET, .ttl = 60, .len = 3, .cas = (uint64_t) -1 } },
    { "add foo 0 2592000 16\r\n",
      { .verb = NGX_MCDS_ADD, .ttl = NGX_MCDS_MAX_TTL, .len = 16, .cas = 9 } },
    { "append foo 0 0 12\r\n",
      { .verb = NGX_MCDS_APPEND, .ttl = 60, .len = 12, .cas = 9 } },
    { "incr foo 18446744073709551615\r\n",
      { .verb = NGX_MCDS_INCR, .delta = (uint64_t) -1, .initial = 7,
        .ttl = 60 } },
    { "decr foo 1\r\n", { .verb = NGX_MCDS_DECR, .delta = 1, .update = 1 } },
    { "delete foo\r\n", { .verb = NGX_MCDS_DELETE, .ttl = 60 } },
    { "cas foo 0 2592001 0 5\r\n\r\n", { .verb = NGX_MCDS_DELETE, .cas = 5 } },
    { "touch foo 60\r\n", { .verb = NGX_MCDS_TOUCH, .ttl = 60 } },
    { "version\r\n", { .verb = NGX_MCDS_GET_VERSION } },
    { "stats\r\n", { .verb = NGX_MCDS_STATS } },

    /*
     * these commands are only encoded, and compared with their text:
     * no replies to them are parsed, as the string "letters", which has a
     * letter for each command above, has none for them
     */

    { "get foo\r\n", { .verb = NGX_MCDS_GET } },
    { "get foo\r\n", { .verb = NGX_MCDS_GET,
                       .want = NGX_MCDS_TTL|NGX_MCDS_FLAGS } },
    { "gets foo\r\n", { .verb = NGX_MCDS_GET, .want = NGX_MCDS_CAS } },
    { "set foo 0 0 0\r\n", { .verb = NGX_MCDS_SET } },
    { "set foo 0 0 1048576\r\n", { .verb = NGX_MCDS_SET, .len = 1048576,
                                   .want = NGX_MCDS_CAS } },
    { "add foo 4294901760 0 1\r\n", { .verb = NGX_MCDS_ADD, .len = 1,
                                       .flags = 0xffff0000 } },
    { "cas foo 0 0 0 1\r\n", { .verb = NGX_MCDS_SET, .cas = 1 } },
    { "incr foo 0\r\n", { .verb = NGX_MCDS_INCR } },
    { "touch foo 0\r\n", { .verb = NGX_MCDS_TOUCH } }
};


#define HAS       NGX_MCDS_VALUE|NGX_MCDS_FLAGS|NGX_MCDS_KEY
#define ALL       "gGsSaxiduDtvm"

static reply_t  replies[] = {
    { "VALUE foo 0 3", "g", .has = HAS, .len = 3, .key = "foo" },
    { "VALUE f 4294967295 0", "g", .has = HAS, .flags = 0xffffffff,
      .key = "f" },
    { "VALUE foo 16 1048576", "g", .has = HAS, .len = 1048576, .flags = 16,
      .key = "foo" },
    { "VALUE foo 0 3 1", "G", .has = HAS|NGX_MCDS_CAS, .len = 3, .cas = 1,
      .key = "foo" },
    { "VALUE foo 0 3 18446744073709551615", "G", .has = HAS|NGX_MCDS_CAS,
      .len = 3, .cas = (uint64_t) -1, .key = "foo" },
    { "VALUE foo 0 3 0", "G", .has = HAS|NGX_MCDS_CAS, .len = 3,
      .key = "foo" },
    { "END", "gGm", .rc = NGX_MCDS_NOT_FOUND },
    { "STORED", "sSaxD", .rc = NGX_MCDS_OK },
    { "NOT_STORED", "ax", .rc = NGX_MCDS_NOT_STORED },
    { "EXISTS", "SD", .rc = NGX_MCDS_EXISTS },
    { "NOT_FOUND", "SiduDt", .rc = NGX_MCDS_NOT_FOUND },
    { "DELETED", "u", .rc = NGX_MCDS_OK },
    { "TOUCHED", "t", .rc = NGX_MCDS_OK },
    { "0", "id", .text = "0", .number = 1 },
    { "1", "id", .text = "1", .number = 1 },
    { "18446744073709551615", "id", .text = "18446744073709551615",
      .number = 1 },
    { "VERSION 1.6.18", "v", .text = "1.6.18", .version = 1 },
    { "VERSION yrmcds version 1.1.9", "v", .text = "yrmcds version 1.1.9",
      .version = 1 },
    { "STAT bytes 1048576", "m", .key = "bytes", .text = "1048576",
      .stat = 1 },
    { "STAT libevent 2.1.12-stable or so", "m", .key = "libevent",
      .text = "2.1.12-stable or so", .stat = 1 },
    { "STAT a ", "m", .key = "a", .stat = 1 },
    { "STAT a", "m", .key = "a", .stat = 1 },
    { "ERROR", "m", .rc = NGX_MCDS_SERVER_ERROR },
    { "SERVER_ERROR out of memory storing object", ALL,
      .rc = NGX_MCDS_SERVER_ERROR, .text = "out of memory storing object" },
    { "SERVER_ERROR object too large for cache", ALL,
      .rc = NGX_MCDS_TOO_LARGE, .text = "object too large for cache" },
    { "SERVER_ERROR Connection refused", ALL, .rc = NGX_MCDS_SERVER_ERROR,
      .text = "Connection refused" },
    { "CLIENT_ERROR " NUMERIC, "id", .rc = NGX_MCDS_NOT_NUMERIC,
      .text = NUMERIC }
};


/* lines that are no reply to any command */

static wrong_t  wrong[] = {
    { text("\r\n") },
    { text(" \r\n") },
    { text("\n") },
    { text("END\n") },
    { text("END \r\n") },
    { text(" END\r\n") },
    { text("END\r\r\n") },
    { text("end\r\n") },
    { text("ENDS\r\n") },
    { text("EN\r\n") },
    { text("END 1\r\n") },
    { text("END\0\r\n") },
    { text("STORED \r\n") },
    { text("STORED\n") },
    { text("STORE\r\n") },
    { text("NOT_STORE\r\n") },
    { text("NOT STORED\r\n") },
    { text("DELETED 1\r\n") },
    { text("OK\r\n") },
    { text("HD\r\n") },
    { text("HD kfoo O1\r\n") },
    { text("VA 3\r\n") },
    { text("MN\r\n") },
    { text("RESET\r\n") },
    { text("ERROR \r\n") },
    { text("STAT\r\n") },
    { text("STAT \r\n") },
    { text("STAT  bytes 1\r\n") },
    { text("STAT by\x7ftes 1\r\n") },
    { text("STATS bytes 1\r\n") },
    { text("stat bytes 1\r\n") },
    { text("ERROR Too many open connections\r\n") },
    { text("CLIENT_ERROR bad data chunk\r\n") },
    { text("CLIENT_ERROR bad command line format\r\n") },
    { text("CLIENT_ERROR invalid numeric delta argument\r\n") },
    { text("CLIENT_ERROR " NUMERIC "s\r\n") },
    { text("SERVER_ERROR\r\n") },
    { text("SERVER_ERROR \r\n") },
    { text("SERVER_ERROR a\x1b[2Jb\r\n") },
    { text("VERSION\r\n") },
    { text("VERSION \r\n") },
    { text("VALUE\r\n") },
    { text("VALUE \r\n") },
    { text("VALUE foo\r\n") },
    { text("VALUE foo \r\n") },
    { text("VALUE foo 0\r\n") },
    { text("VALUE foo 0 \r\n") },
    { text("VALUE foo 0 3 \r\n") },
    { text("VALUE foo 0 3 1 \r\n") },
    { text("VALUE foo 0 3 1 1\r\n") },
    { text("VALUE  foo 0 3\r\n") },
    { text("VALUE foo  0 3\r\n") },
    { text("VALUE foo 0  3\r\n") },
    { text("VALUE\tfoo 0 3\r\n") },
    { text("VALUE foo\t0 3\r\n") },
    { text("VALUE foo -1 3\r\n") },
    { text("VALUE foo 4294967296 3\r\n") },
    { text("VALUE foo 00 3\r\n") },
    { text("VALUE foo x 3\r\n") },
    { text("VALUE foo 0x 3\r\n") },
    { text("VALUE foo 0 -3\r\n") },
    { text("VALUE foo 0 +3\r\n") },
    { text("VALUE foo 0 03\r\n") },
    { text("VALUE foo 0 3x\r\n") },
    { text("VALUE foo 0 9223372036854775808\r\n") },
    { text("VALUE foo 0 99999999999999999999\r\n") },
    { text("VALUE foo 0 3 -1\r\n") },
    { text("VALUE foo 0 3 01\r\n") },
    { text("VALUE foo 0 3 1x\r\n") },
    { text("VALUE foo 0 3 18446744073709551616\r\n") },
    { text("VALUE f\x7foo 0 3\r\n") },
    { text("VALUE f\xc3\xb6 0 3\r\n") },
    { text("VALUE fo\0o 0 3\r\n") },
    { text("value foo 0 3\r\n") },
    { text("VALUES foo 0 3\r\n") },
    { text("-1\r\n") },
    { text("+1\r\n") },
    { text("01\r\n") },
    { text("1 \r\n") },
    { text(" 1\r\n") },
    { text("1x\r\n") },
    { text("0x1\r\n") },
    { text("1 2\r\n") },
    { text("18446744073709551616\r\n") },
    { text("HTTP/1.1 400 Bad Request\r\n") },
    { text("-ERR unknown command\r\n") },
    { text("get foo\r\n") }
};


int
main(void)
{
    test_encode();
    test_encode_limits();
    test_replies();
    test_cuts();
    test_wrong();
    test_pipeline();

    return done_testing();
}


static void
test_encode(void)
{
    char             line[NGX_MCDS_MAX_COMMAND + 1];
    ngx_uint_t       i;
    ngx_mcds_cmd_t   cmd;

    for (i = 0; i < rows(commands); i++) {

        cmd = commands[i].cmd;
        ngx_str_set(&cmd.key, "foo");
        cmd.opaque = 7;

        encode(line, &cmd);

        ok(strcmp(line, commands[i].line) == 0, "command %d, %.*s", (int) i,
           (int) strcspn(commands[i].line, "\r"), commands[i].line);
    }
}


/*
 * The longest command of each verb fits into the buffer of NGX_MCDS_MAX_COMMAND
 * bytes that callers provide.
 */

static void
test_encode_limits(void)
{
    char             line[NGX_MCDS_MAX_COMMAND + 1];
    size_t           longest;
    u_char           key[NGX_MCDS_MAX_KEY];
    ngx_uint_t       verb;
    ngx_mcds_cmd_t   cmd;

    memset(key, 'K', sizeof(key));

    longest = 0;

    for (verb = NGX_MCDS_GET; verb <= NGX_MCDS_STATS; verb++) {

        memset(&cmd, 0xff, sizeof(ngx_mcds_cmd_t));

        cmd.verb = verb;
        cmd.key.len = sizeof(key);
        cmd.key.data = key;

        longest = ngx_max(longest, encode(line, &cmd));
    }

    ok(longest > NGX_MCDS_MAX_KEY && longest <= NGX_MCDS_MAX_COMMAND,
       "the longest command has %d bytes", (int) longest);
}


/*
 * Each reply is parsed after each command, and accepted only after those
 * commands that its row names.
 */

static void
test_replies(void)
{
    char              line[256];
    size_t            len, taken;
    reply_t          *row;
    ngx_int_t         rc;
    ngx_uint_t        i, n, mine, bad;
    ngx_mcds_reply_t  reply;

    for (i = 0; i < rows(replies); i++) {

        row = &replies[i];
        len = sprintf(line, "%s\r\n", row->line);
        bad = 0;

        for (n = 0; letters[n]; n++) {

            mine = (strchr(row->to, letters[n]) != NULL);

            rc = parse(&reply, line, len,
                       ngx_mcds_classic_words(&commands[n].cmd), &taken);

            if (mine) {
                bad += (rc != NGX_OK || taken != len || !same(&reply, row));

            } else {
                bad += (rc != NGX_ERROR || taken != 0 || reply.has != 0);
            }
        }

        ok(bad == 0, "\"%s\" is a reply to just \"%s\"", row->line, row->to);
    }
}


static void
test_cuts(void)
{
    char              line[256];
    size_t            len, cut, taken;
    ngx_int_t         rc;
    ngx_uint_t        i, words, bad, cuts;
    ngx_mcds_reply_t  reply;

    bad = 0;
    cuts = 0;

    for (i = 0; i < rows(replies); i++) {

        len = sprintf(line, "%s\r\n", replies[i].line);
        words = ngx_mcds_classic_words(
                    &commands[strchr(letters, replies[i].to[0])
                              - letters].cmd);

        for (cut = 0; cut <= len; cut++) {

            rc = parse(&reply, line, cut, words, &taken);

            if (cut < len) {
                bad += (rc != NGX_AGAIN || taken != 0);

            } else {
                bad += (rc != NGX_OK || taken != len
                        || !same(&reply, &replies[i]));
            }

            cuts++;
        }

        /* the parser leaves the line that follows the reply in the buffer */

        strcpy(line + len, "END\r\n");

        rc = parse(&reply, line, strlen(line), words, &taken);

        bad += (rc != NGX_OK || taken != len || !same(&reply, &replies[i]));
    }

    ok(bad == 0, "%d cuts of %d replies make no difference", (int) cuts,
       (int) rows(replies));
}


static void
test_wrong(void)
{
    size_t            cut, taken;
    ngx_int_t         rc;
    ngx_uint_t        i, n, bad;
    ngx_mcds_reply_t  reply;

    for (i = 0; i < rows(wrong); i++) {

        bad = 0;

        for (n = 0; letters[n]; n++) {
            for (cut = 0; cut <= wrong[i].len; cut++) {

                rc = parse(&reply, wrong[i].line, cut,
                           ngx_mcds_classic_words(&commands[n].cmd), &taken);

                bad += (rc == NGX_OK || taken != 0);
                bad += (cut == wrong[i].len && rc != NGX_ERROR);
                bad += (rc == NGX_ERROR
                        && (reply.text.len > 128 || reply.has != 0));
            }
        }

        ok(bad == 0, "refused: %.*s", (int) strcspn(wrong[i].line, "\r\n\x1b"),
           wrong[i].line);
    }
}


/* All replies are parsed from one buffer, one after another. */

static void
test_pipeline(void)
{
    u_char            *data, *p;
    ngx_buf_t          b;
    ngx_uint_t         i, bad, words;
    ngx_mcds_reply_t   reply;

    data = malloc(rows(replies) * 256);
    p = data;

    for (i = 0; i < rows(replies); i++) {
        p += sprintf((char *) p, "%s\r\n", replies[i].line);
    }

    memset(&b, 0, sizeof(ngx_buf_t));
    b.pos = data;
    b.last = p;

    for (bad = 0, i = 0; i < rows(replies); i++) {

        words = ngx_mcds_classic_words(
                    &commands[strchr(letters, replies[i].to[0])
                              - letters].cmd);

        bad += (ngx_mcds_classic_parse(&reply, &b, words) != NGX_OK
                || !same(&reply, &replies[i]));
    }

    ok(bad == 0 && b.pos == b.last, "%d replies in one buffer",
       (int) rows(replies));

    free(data);
}


/* Parses a copy of the reply in memory of exactly its size. */

static ngx_int_t
parse(ngx_mcds_reply_t *reply, const char *data, size_t len, ngx_uint_t words,
    size_t *taken)
{
    static u_char  shown[256];

    u_char     *copy;
    ngx_int_t   rc;
    ngx_buf_t   b;

    copy = malloc(len ? len : 1);
    memcpy(copy, data, len);

    memset(&b, 0, sizeof(ngx_buf_t));
    b.pos = copy;
    b.last = copy + len;

    rc = ngx_mcds_classic_parse(reply, &b, words);

    *taken = b.pos - copy;

    /*
     * the key and the text of the reply point into the copy, which is freed
     * below: let them point to the same bytes in "shown"
     */

    memcpy(shown, copy, ngx_min(len, sizeof(shown)));

    if (reply->key.len) {
        reply->key.data = shown + (reply->key.data - copy);
    }

    if (reply->text.len) {
        reply->text.data = shown + (reply->text.data - copy);
    }

    free(copy);

    return rc;
}


static ngx_uint_t
same(ngx_mcds_reply_t *reply, reply_t *row)
{
    return reply->rc == row->rc
           && reply->has == row->has
           && reply->len == row->len
           && reply->cas == row->cas
           && reply->flags == row->flags
           && reply->number == row->number
           && reply->version == row->version
           && reply->stat == row->stat
           && !reply->noop
           && same_text(&reply->key, row->key)
           && same_text(&reply->text, row->text);
}


static ngx_uint_t
same_text(ngx_str_t *got, const char *expected)
{
    if (expected == NULL) {
        return got->len == 0;
    }

    return got->len == strlen(expected)
           && memcmp(got->data, expected, got->len) == 0;
}


static size_t
encode(char *line, ngx_mcds_cmd_t *cmd)
{
    u_char  *last;

    last = ngx_mcds_classic_encode((u_char *) line, cmd);
    *last = '\0';

    return last - (u_char *) line;
}
