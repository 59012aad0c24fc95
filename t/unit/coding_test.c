
/*
 * Copyright (C) mcds authors
 *
 * The codings gzip and zstd of stored bodies: round trips in pieces of all
 * sizes, damaged bodies, the lengths that entries state, and Accept-Encoding.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_coding.h"
#include "tap.h"


typedef struct {
    u_char     *data;
    size_t      len;
    size_t      calls;
    size_t      max;
} out_t;


static void test_round_trip(ngx_uint_t coding);
static void test_pieces(ngx_uint_t coding);
static void test_broken(ngx_uint_t coding);
static void test_length(ngx_uint_t coding);
static void test_bomb(ngx_uint_t coding);
static void test_refused(ngx_uint_t coding);
static void test_names(void);
static void test_accept(void);

static out_t encode(ngx_uint_t coding, u_char *p, size_t len, size_t step);
static ngx_int_t decode(ngx_uint_t coding, out_t *in, uint64_t length,
    size_t step, size_t room, u_char **body, size_t *len);
static ngx_int_t taken(void *data, u_char *p, size_t len);
static ngx_int_t refused(void *data, u_char *p, size_t len);
static void text(u_char *p, size_t len);


#define TEXT  300000


int
main(void)
{
    ngx_uint_t  coding;

    for (coding = NGX_MCDS_CODING_GZIP; coding <= NGX_MCDS_CODING_ZSTD;
         coding++)
    {
        printf("# %s\n", (char *) ngx_mcds_coding_name(coding)->data);

        test_round_trip(coding);
        test_pieces(coding);
        test_broken(coding);
        test_length(coding);
        test_bomb(coding);
        test_refused(coding);
    }

    test_names();
    test_accept();

    return done_testing();
}


static void
test_round_trip(ngx_uint_t coding)
{
    out_t       coded;
    u_char     *p, *body;
    size_t      len, i;
    ngx_int_t   rc;

    static size_t  lengths[] = { 1, 2, 1000, 16384, 65536, TEXT };

    p = malloc(TEXT);
    text(p, TEXT);

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        coded = encode(coding, p, lengths[i], lengths[i]);
        rc = decode(coding, &coded, lengths[i], coded.len, lengths[i], &body,
                    &len);

        ok(rc == NGX_DONE && len == lengths[i] && memcmp(body, p, len) == 0
           && (lengths[i] < 1000 || coded.len < lengths[i] / 2),
           "%u bytes, and back", (unsigned) lengths[i]);

        free(body);
        free(coded.data);
    }

    free(p);
}


static void
test_pieces(ngx_uint_t coding)
{
    out_t       coded;
    u_char     *p, *body;
    size_t      len, in, out, step;
    ngx_uint_t  wrong;

    static size_t  steps[] = { 1, 7, 4096, 30000 };

    p = malloc(TEXT);
    text(p, TEXT);
    wrong = 0;

    for (step = 0; step < 4; step++) {
        coded = encode(coding, p, 20000, steps[step]);

        for (in = 0; in < 4; in++) {
            for (out = 0; out < 4; out++) {

                if (decode(coding, &coded, 20000, steps[in], steps[out],
                           &body, &len)
                    != NGX_DONE
                    || len != 20000 || memcmp(body, p, len) != 0)
                {
                    wrong++;
                }

                free(body);
            }
        }

        free(coded.data);
    }

    ok(wrong == 0, "pieces of any size");

    coded = encode(coding, p, TEXT, TEXT);
    ok(coded.max <= 16384, "what is handed on is bounded");

    free(coded.data);
    free(p);
}


static void
test_broken(ngx_uint_t coding)
{
    out_t       coded, less;
    u_char     *p, *body;
    size_t      len, i;
    ngx_uint_t  wrong;

    p = malloc(1200);
    text(p, 1200);

    coded = encode(coding, p, 1200, 1200);
    wrong = 0;

    for (i = 0; i < coded.len; i++) {

        /*
         * a copy of the first i bytes; realloc() drops the spare byte, so that
         * a read beyond the copy is noticed
         */

        less.len = i;
        less.data = malloc(i + 1);
        memcpy(less.data, coded.data, i);
        less.data = realloc(less.data, i ? i : 1);

        if (decode(coding, &less, 1200, i ? i : 1, 1200, &body, &len)
            != NGX_AGAIN)
        {
            wrong++;
        }

        free(body);
        free(less.data);
    }

    ok(wrong == 0, "cut off anywhere: more is wanted");

    less.len = coded.len + 1;
    less.data = malloc(less.len);
    memcpy(less.data, coded.data, coded.len);
    less.data[coded.len] = 'x';

    ok(decode(coding, &less, 1200, less.len, 1200, &body, &len) == NGX_ERROR,
       "something behind the end");

    free(body);
    free(less.data);

    wrong = 0;

    for (i = 0; i < coded.len; i++) {
        coded.data[i] ^= 0x41;

        /* a damaged body may be decoded, but only to the right length */

        if (decode(coding, &coded, 1200, 100, 300, &body, &len) == NGX_DONE
            && len != 1200)
        {
            wrong++;
        }

        coded.data[i] ^= 0x41;
        free(body);
    }

    ok(wrong == 0, "changed anywhere: nothing of another length");

    less.data = (u_char *) "this is plain text, not at all in a coding";
    less.len = 42;

    ok(decode(coding, &less, 42, 42, 100, &body, &len) == NGX_ERROR,
       "not in a coding");

    free(body);
    free(coded.data);
    free(p);
}


static void
test_length(ngx_uint_t coding)
{
    out_t       coded;
    u_char     *p, *body;
    size_t      len;
    ngx_int_t   rc;

    p = malloc(5000);
    text(p, 5000);

    coded = encode(coding, p, 5000, 5000);

    rc = decode(coding, &coded, 4999, 100, 700, &body, &len);
    ok(rc == NGX_ERROR && len <= 4999, "longer than was said");
    free(body);

    rc = decode(coding, &coded, 5001, 100, 700, &body, &len);
    ok(rc == NGX_ERROR, "shorter than was said");
    free(body);

    free(coded.data);
    free(p);
}


/* A body of zeros that decodes to more than its stated length is refused. */

static void
test_bomb(ngx_uint_t coding)
{
    out_t       coded;
    u_char     *p, *body;
    size_t      len;
    ngx_int_t   rc;

    p = calloc(1, 1024 * 1024);

    coded = encode(coding, p, 1024 * 1024, 65536);

    rc = decode(coding, &coded, 1000, coded.len, 100000, &body, &len);

    ok(rc == NGX_ERROR && len <= 1000 && coded.len < 4096,
       "a bomb of %u bytes: %u come out", (unsigned) coded.len,
       (unsigned) len);

    free(body);
    free(coded.data);
    free(p);
}


static void
test_refused(ngx_uint_t coding)
{
    u_char              *p;
    ngx_int_t            rc;
    ngx_mcds_encoder_t  *encoder;

    p = malloc(TEXT);
    text(p, TEXT);

    encoder = ngx_mcds_encoder_create(coding, 1);

    rc = ngx_mcds_encoder_run(encoder, p, TEXT, 1, refused, NULL);
    ok(rc == NGX_DECLINED, "what the handler says is told");

    ngx_mcds_encoder_free(encoder);
    ngx_mcds_encoder_free(NULL);
    ngx_mcds_decoder_free(NULL);
    free(p);
}


static void
test_names(void)
{
    ngx_str_t  gzip = ngx_string("gzip");
    ngx_str_t  zstd = ngx_string("zstd");
    ngx_str_t  br = ngx_string("br");

    ok(ngx_mcds_coding_find(&gzip) == NGX_MCDS_CODING_GZIP
       && ngx_mcds_coding_find(&zstd) == NGX_MCDS_CODING_ZSTD
       && ngx_mcds_coding_find(&br) == NGX_MCDS_CODING_NONE
       && ngx_mcds_coding_max_level(NGX_MCDS_CODING_GZIP) == 9,
       "names and levels");
}


static void
test_accept(void)
{
    ngx_uint_t         i, got;
    ngx_str_t          value;
    ngx_mcds_accept_t  accept;

    /*
     * codings that a line of Accept-Encoding accepts, as bits: 1 gzip, 2 zstd
     */

    static struct {
        char        *line;
        ngx_uint_t   codings;
    } rows[] = {
        { "", 0 },
        { "gzip", 1 },
        { "x-gzip", 1 },
        { "GZip", 1 },
        { "zstd", 2 },
        { "gzip, zstd", 3 },
        { "gzip,deflate , br,zstd", 3 },
        { "\tgzip\t;\tq=1\t", 1 },
        { "br", 0 },
        { "identity", 0 },
        { "gzipped, xgzip", 0 },
        { "*", 3 },
        { "*;q=0", 0 },
        { "*;q=0, gzip", 1 },
        { "gzip;q=0, *", 2 },
        { "gzip;q=0", 0 },
        { "gzip;q=0.", 0 },
        { "gzip;q=0.000", 0 },
        { "gzip;q=0.001", 1 },
        { "gzip;q=1.000", 1 },
        { "gzip;Q=0.5", 1 },
        { "gzip;q=.5", 0 },
        { "gzip;q=x", 0 },
        { "gzip;q", 0 },
        { "gzip;level=9", 0 },
        { "identity, gzip;q=0.5", 0 },
        { "identity;q=0.5, gzip", 1 },
        { "identity;q=0.5, gzip;q=0.5, zstd;q=0.4", 1 },
        { "identity;q=0, gzip;q=0", 0 },
        { "identity;q=1, *;q=0.5", 0 },
        { ",,gzip,,", 1 },
        { "gzip;q=0.5, gzip;q=0", 0 },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ngx_mcds_accept_init(&accept);

        value.data = (u_char *) rows[i].line;
        value.len = strlen(rows[i].line);

        ngx_mcds_accept_line(&accept, &value);

        got = ngx_mcds_accepts(&accept, NGX_MCDS_CODING_GZIP)
              | ngx_mcds_accepts(&accept, NGX_MCDS_CODING_ZSTD) << 1;

        ok(got == rows[i].codings, "Accept-Encoding: %s", rows[i].line);
    }
}


static out_t
encode(ngx_uint_t coding, u_char *p, size_t len, size_t step)
{
    out_t                out;
    size_t               n;
    ngx_int_t            rc;
    ngx_mcds_encoder_t  *encoder;

    memset(&out, 0, sizeof(out_t));

    encoder = ngx_mcds_encoder_create(coding, 0);
    rc = NGX_OK;

    while (len && rc == NGX_OK) {
        n = (len < step) ? len : step;

        rc = ngx_mcds_encoder_run(encoder, p, n, 0, taken, &out);

        p += n;
        len -= n;
    }

    if (rc == NGX_OK) {
        rc = ngx_mcds_encoder_run(encoder, NULL, 0, 1, taken, &out);
    }

    if (rc != NGX_OK) {
        ok(0, "coded");
    }

    ngx_mcds_encoder_free(encoder);

    return out;
}


/*
 * Decodes a body, taken in pieces of "step" bytes, into new buffers of "room"
 * bytes.
 */

static ngx_int_t
decode(ngx_uint_t coding, out_t *in, uint64_t length, size_t step, size_t room,
    u_char **body, size_t *len)
{
    u_char              *buf, *pos;
    size_t               left;
    ngx_int_t            rc;
    ngx_str_t            piece;
    ngx_mcds_decoder_t  *decoder;

    decoder = ngx_mcds_decoder_create(coding, length);

    *body = NULL;
    *len = 0;

    left = in->len;
    ngx_str_null(&piece);
    rc = NGX_AGAIN;

    for ( ;; ) {

        if (rc == NGX_AGAIN) {
            if (left == 0) {
                break;
            }

            piece.data = in->data + in->len - left;
            piece.len = (left < step) ? left : step;
            left -= piece.len;
        }

        buf = malloc(room);
        pos = buf;

        rc = ngx_mcds_decoder_run(decoder, &piece, &pos, buf + room);

        *body = realloc(*body, *len + (pos - buf) + 1);
        memcpy(*body + *len, buf, pos - buf);
        *len += pos - buf;

        free(buf);

        if (rc == NGX_ERROR || rc == NGX_DONE) {
            break;
        }
    }

    if (rc == NGX_DONE && left) {
        rc = NGX_ERROR;
    }

    ngx_mcds_decoder_free(decoder);

    return rc;
}


static ngx_int_t
taken(void *data, u_char *p, size_t len)
{
    out_t *out = data;

    out->data = realloc(out->data, out->len + len);
    memcpy(out->data + out->len, p, len);
    out->len += len;
    out->calls++;

    if (len > out->max) {
        out->max = len;
    }

    return NGX_OK;
}


static ngx_int_t
refused(void *data, u_char *p, size_t len)
{
    return NGX_DECLINED;
}


static void
text(u_char *p, size_t len)
{
    size_t    i;
    uint32_t  n;

    n = 1;

    for (i = 0; i < len; i++) {

        if (i % 16 == 0) {
            n = n * 1103515245 + 12345;
        }

        p[i] = "some text of a page, as they are"[(n >> 16) % 16 + i % 16];
    }
}
