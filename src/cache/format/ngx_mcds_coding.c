
/*
 * Copyright (C) mcds authors
 *
 * The content codings: gzip by zlib, zstd by libzstd.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <zlib.h>
#include <zstd.h>
#include "ngx_mcds_coding.h"


/*
 * the size in bytes of the buffer in which the encoder of a body passes
 * compressed bytes to its handler, an ngx_mcds_encoded_pt
 */
#define NGX_MCDS_ENCODED          16384

/*
 * the window bits of zlib for gzip bodies: a window of 15 bits, and 16 for a
 * gzip header
 */
#define NGX_MCDS_GZIP_WINDOW      (15 + 16)

/*
 * the sizes of zstd's windows (the memory to decompress a body) as exponents of
 * two: 256 KB for bodies that mcds compresses; mcds decompresses bodies that
 * need up to 8 MB
 */
#define NGX_MCDS_ZSTD_WINDOW      18
#define NGX_MCDS_ZSTD_MAX_WINDOW  23


struct ngx_mcds_encoder_s {
    ngx_uint_t      coding;
    z_stream        gzip;
    ZSTD_CCtx      *zstd;
};


struct ngx_mcds_decoder_s {
    ngx_uint_t      coding;
    uint64_t        left;              /* bytes of the decoded body that the
                                          decoder has still to write */
    z_stream        gzip;
    ZSTD_DCtx      *zstd;
};


static ngx_int_t ngx_mcds_encode_gzip(ngx_mcds_encoder_t *encoder, u_char *p,
    size_t len, ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data);
static ngx_int_t ngx_mcds_encode_zstd(ngx_mcds_encoder_t *encoder, u_char *p,
    size_t len, ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data);
static ngx_int_t ngx_mcds_decode_gzip(ngx_mcds_decoder_t *decoder,
    ngx_str_t *in, u_char **pos, u_char *end);
static ngx_int_t ngx_mcds_decode_zstd(ngx_mcds_decoder_t *decoder,
    ngx_str_t *in, u_char **pos, u_char *end);
static void ngx_mcds_accept_part(ngx_mcds_accept_t *accept, u_char *p,
    u_char *last);
static ngx_int_t ngx_mcds_accept_weight(u_char *p, u_char *last);
static ngx_uint_t ngx_mcds_accept_is(ngx_str_t *s, char *name);


static ngx_str_t  ngx_mcds_coding_names[] = {
    ngx_null_string,
    ngx_string("gzip"),
    ngx_string("zstd")
};


ngx_str_t *
ngx_mcds_coding_name(ngx_uint_t coding)
{
    return &ngx_mcds_coding_names[coding];
}


ngx_uint_t
ngx_mcds_coding_find(ngx_str_t *name)
{
    ngx_uint_t  i;

    for (i = NGX_MCDS_CODING_GZIP; i <= NGX_MCDS_CODING_ZSTD; i++) {
        if (name->len == ngx_mcds_coding_names[i].len
            && ngx_strncmp(name->data, ngx_mcds_coding_names[i].data,
                           name->len)
               == 0)
        {
            return i;
        }
    }

    return NGX_MCDS_CODING_NONE;
}


ngx_int_t
ngx_mcds_coding_max_level(ngx_uint_t coding)
{
    return (coding == NGX_MCDS_CODING_GZIP) ? 9 : 19;
}


ngx_mcds_encoder_t *
ngx_mcds_encoder_create(ngx_uint_t coding, ngx_int_t level)
{
    ngx_mcds_encoder_t  *encoder;

    encoder = ngx_calloc(sizeof(ngx_mcds_encoder_t), ngx_cycle->log);
    if (encoder == NULL) {
        return NULL;
    }

    if (coding == NGX_MCDS_CODING_GZIP) {

        if (deflateInit2(&encoder->gzip,
                         level ? (int) level : Z_DEFAULT_COMPRESSION,
                         Z_DEFLATED, NGX_MCDS_GZIP_WINDOW, 8,
                         Z_DEFAULT_STRATEGY)
            != Z_OK)
        {
            ngx_free(encoder);
            return NULL;
        }

    } else {
        encoder->zstd = ZSTD_createCCtx();

        if (encoder->zstd == NULL) {
            ngx_free(encoder);
            return NULL;
        }

        (void) ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel,
                                      level ? (int) level
                                            : ZSTD_CLEVEL_DEFAULT);
        (void) ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_windowLog,
                                      NGX_MCDS_ZSTD_WINDOW);
    }

    encoder->coding = coding;

    return encoder;
}


void
ngx_mcds_encoder_free(ngx_mcds_encoder_t *encoder)
{
    if (encoder == NULL) {
        return;
    }

    if (encoder->coding == NGX_MCDS_CODING_GZIP) {
        (void) deflateEnd(&encoder->gzip);

    } else {
        (void) ZSTD_freeCCtx(encoder->zstd);
    }

    ngx_free(encoder);
}


ngx_int_t
ngx_mcds_encoder_run(ngx_mcds_encoder_t *encoder, u_char *p, size_t len,
    ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data)
{
    if (encoder->coding == NGX_MCDS_CODING_GZIP) {
        return ngx_mcds_encode_gzip(encoder, p, len, last, handler, data);
    }

    return ngx_mcds_encode_zstd(encoder, p, len, last, handler, data);
}


static ngx_int_t
ngx_mcds_encode_gzip(ngx_mcds_encoder_t *encoder, u_char *p, size_t len,
    ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data)
{
    int         rc;
    size_t      n;
    u_char      buf[NGX_MCDS_ENCODED];
    z_stream   *z;
    ngx_int_t   stored;

    z = &encoder->gzip;

    do {
        /*
         * zlib's lengths are uInt, smaller than size_t: longer input is
         * compressed piece by piece
         */

        n = ngx_min(len, 0x40000000);

        z->next_in = p;
        z->avail_in = (uInt) n;

        p += n;
        len -= n;

        do {
            z->next_out = buf;
            z->avail_out = NGX_MCDS_ENCODED;

            rc = deflate(z, (last && len == 0) ? Z_FINISH : Z_NO_FLUSH);

            if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
                return NGX_ERROR;
            }

            n = NGX_MCDS_ENCODED - z->avail_out;

            if (n) {
                stored = handler(data, buf, n);

                if (stored != NGX_OK) {
                    return stored;
                }
            }

        } while (z->avail_out == 0);

    } while (len);

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_encode_zstd(ngx_mcds_encoder_t *encoder, u_char *p, size_t len,
    ngx_uint_t last, ngx_mcds_encoded_pt handler, void *data)
{
    size_t             left;
    u_char             buf[NGX_MCDS_ENCODED];
    ngx_int_t          stored;
    ZSTD_inBuffer      in;
    ZSTD_outBuffer     out;

    in.src = p;
    in.size = len;
    in.pos = 0;

    do {
        out.dst = buf;
        out.size = NGX_MCDS_ENCODED;
        out.pos = 0;

        left = ZSTD_compressStream2(encoder->zstd, &out, &in,
                                    last ? ZSTD_e_end : ZSTD_e_continue);

        if (ZSTD_isError(left)) {
            return NGX_ERROR;
        }

        if (out.pos) {
            stored = handler(data, buf, out.pos);

            if (stored != NGX_OK) {
                return stored;
            }
        }

    } while (last ? left != 0 : in.pos != in.size);

    return NGX_OK;
}


ngx_mcds_decoder_t *
ngx_mcds_decoder_create(ngx_uint_t coding, uint64_t length)
{
    ngx_mcds_decoder_t  *decoder;

    decoder = ngx_calloc(sizeof(ngx_mcds_decoder_t), ngx_cycle->log);
    if (decoder == NULL) {
        return NULL;
    }

    if (coding == NGX_MCDS_CODING_GZIP) {

        if (inflateInit2(&decoder->gzip, NGX_MCDS_GZIP_WINDOW) != Z_OK) {
            ngx_free(decoder);
            return NULL;
        }

    } else {
        decoder->zstd = ZSTD_createDCtx();

        if (decoder->zstd == NULL) {
            ngx_free(decoder);
            return NULL;
        }

        (void) ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax,
                                      NGX_MCDS_ZSTD_MAX_WINDOW);
    }

    decoder->coding = coding;
    decoder->left = length;

    return decoder;
}


void
ngx_mcds_decoder_free(ngx_mcds_decoder_t *decoder)
{
    if (decoder == NULL) {
        return;
    }

    if (decoder->coding == NGX_MCDS_CODING_GZIP) {
        (void) inflateEnd(&decoder->gzip);

    } else {
        (void) ZSTD_freeDCtx(decoder->zstd);
    }

    ngx_free(decoder);
}


/*
 * Decodes the next bytes of a gzip body.  Returns NGX_DONE at the end of the
 * body, NGX_OK before it, NGX_ERROR if it is malformed.
 */

static ngx_int_t
ngx_mcds_decode_gzip(ngx_mcds_decoder_t *decoder, ngx_str_t *in, u_char **pos,
    u_char *end)
{
    int        rc;
    size_t     n;
    z_stream  *z;

    z = &decoder->gzip;

    n = ngx_min(in->len, 0x40000000);

    z->next_in = in->data;
    z->avail_in = (uInt) n;
    z->next_out = *pos;
    z->avail_out = (uInt) ngx_min(end - *pos, 0x40000000);

    rc = inflate(z, Z_NO_FLUSH);

    n -= z->avail_in;

    in->data += n;
    in->len -= n;
    *pos = z->next_out;

    if (rc == Z_STREAM_END) {
        return NGX_DONE;
    }

    return (rc == Z_OK || rc == Z_BUF_ERROR) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_mcds_decode_zstd(ngx_mcds_decoder_t *decoder, ngx_str_t *in, u_char **pos,
    u_char *end)
{
    size_t          left;
    ZSTD_inBuffer   from;
    ZSTD_outBuffer  to;

    from.src = in->data;
    from.size = in->len;
    from.pos = 0;

    to.dst = *pos;
    to.size = end - *pos;
    to.pos = 0;

    left = ZSTD_decompressStream(decoder->zstd, &to, &from);

    if (ZSTD_isError(left)) {
        return NGX_ERROR;
    }

    in->data += from.pos;
    in->len -= from.pos;
    *pos += to.pos;

    return (left == 0) ? NGX_DONE : NGX_OK;
}


ngx_int_t
ngx_mcds_decoder_run(ngx_mcds_decoder_t *decoder, ngx_str_t *in, u_char **pos,
    u_char *end)
{
    u_char     *p, *last, spare;
    size_t      before, n;
    ngx_int_t   rc;

    for ( ;; ) {

        /*
         * when all bytes of the decoded body are written, the decoder runs on
         * with room for a spare byte: the trailer of the gzip or zstd data may
         * still follow
         */

        if (decoder->left == 0) {
            p = &spare;
            last = p + 1;

        } else if (*pos == end) {
            return NGX_OK;

        } else {
            p = *pos;
            last = ((uint64_t) (end - p) > decoder->left)
                   ? p + decoder->left : end;
        }

        before = in->len;
        n = last - p;

        rc = (decoder->coding == NGX_MCDS_CODING_GZIP)
             ? ngx_mcds_decode_gzip(decoder, in, &p, last)
             : ngx_mcds_decode_zstd(decoder, in, &p, last);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        n -= last - p;

        if (n) {
            if (decoder->left == 0) {
                return NGX_ERROR;
            }

            decoder->left -= n;
            *pos = p;
        }

        if (rc == NGX_DONE) {
            return (decoder->left == 0 && in->len == 0) ? NGX_DONE
                                                        : NGX_ERROR;
        }

        if (n == 0 && in->len == before) {

            /*
             * the decoder makes no progress despite room for output: the rest
             * of the compressed body is missing or malformed
             */

            return in->len ? NGX_ERROR : NGX_AGAIN;
        }
    }
}


void
ngx_mcds_accept_init(ngx_mcds_accept_t *accept)
{
    accept->gzip = -1;
    accept->zstd = -1;
    accept->identity = -1;
    accept->any = -1;
}


void
ngx_mcds_accept_line(ngx_mcds_accept_t *accept, ngx_str_t *value)
{
    u_char  *p, *last, *comma;

    p = value->data;
    last = p + value->len;

    while (p < last) {

        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            comma = last;
        }

        ngx_mcds_accept_part(accept, p, comma);

        p = comma + 1;
    }
}


ngx_uint_t
ngx_mcds_accepts(ngx_mcds_accept_t *accept, ngx_uint_t coding)
{
    ngx_int_t  weight;

    weight = (coding == NGX_MCDS_CODING_GZIP) ? accept->gzip : accept->zstd;

    if (weight == -1) {
        weight = accept->any;
    }

    return weight > 0 && weight >= accept->identity;
}


static void
ngx_mcds_accept_part(ngx_mcds_accept_t *accept, u_char *p, u_char *last)
{
    u_char     *semicolon, *end;
    ngx_str_t   name;
    ngx_int_t  *weight;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    semicolon = ngx_strlchr(p, last, ';');
    end = semicolon ? semicolon : last;

    while (end > p && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }

    name.data = p;
    name.len = end - p;

    if (ngx_mcds_accept_is(&name, "gzip")
        || ngx_mcds_accept_is(&name, "x-gzip"))
    {
        weight = &accept->gzip;

    } else if (ngx_mcds_accept_is(&name, "zstd")) {
        weight = &accept->zstd;

    } else if (ngx_mcds_accept_is(&name, "identity")) {
        weight = &accept->identity;

    } else if (ngx_mcds_accept_is(&name, "*")) {
        weight = &accept->any;

    } else {
        return;
    }

    *weight = semicolon ? ngx_mcds_accept_weight(semicolon, last) : 1000;
}


/*
 * returns the weight of a coding in Accept-Encoding, such as ";q=0.5", in
 * thousandths; 0 if it does not begin like ";q=0" or ";q=1"
 */

static ngx_int_t
ngx_mcds_accept_weight(u_char *p, u_char *last)
{
    ngx_int_t  weight, unit;

    while (p < last && (*p == ';' || *p == ' ' || *p == '\t')) {
        p++;
    }

    if (last - p < 3 || (*p | 0x20) != 'q' || p[1] != '=') {
        return 0;
    }

    p += 2;

    if (*p != '0' && *p != '1') {
        return 0;
    }

    weight = (*p++ - '0') * 1000;

    if (p < last && *p == '.') {
        p++;

        for (unit = 100; p < last && *p >= '0' && *p <= '9'; unit /= 10) {
            weight += (*p++ - '0') * unit;
        }
    }

    return ngx_min(weight, 1000);
}


static ngx_uint_t
ngx_mcds_accept_is(ngx_str_t *s, char *name)
{
    size_t  len;

    len = ngx_strlen(name);

    return s->len == len
           && ngx_strncasecmp(s->data, (u_char *) name, len) == 0;
}
