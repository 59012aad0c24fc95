
/*
 * Copyright (C) mcds authors
 *
 * Bodies in a coding: whatever is decoded is never longer than was said, and
 * the same in whatever pieces it comes; what was coded comes back.
 */


#include "slow.h"
#include "ngx_mcds_coding.h"


#define ROOM  65536


typedef struct {
    u_char     data[2 * ROOM];
    size_t     len;
} out_t;


static ngx_int_t decode(ngx_uint_t coding, const u_char *data, size_t size,
    size_t length, size_t step, size_t room, out_t *out);
static ngx_int_t taken(void *data, u_char *p, size_t len);


static out_t  first, second, coded;


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    size_t               length, step;
    ngx_int_t            rc;
    ngx_uint_t           coding;
    ngx_mcds_encoder_t  *encoder;

    if (size < 4 || size > ROOM) {
        return 0;
    }

    coding = (data[0] & 1) ? NGX_MCDS_CODING_ZSTD : NGX_MCDS_CODING_GZIP;
    step = 1 + data[1];
    length = data[2] | (size_t) data[3] << 8;

    /* the input is the coded body itself, or a body that is coded first */

    if (data[0] & 2) {
        encoder = ngx_mcds_encoder_create(coding, 1 + data[1] % 9);
        must(encoder != NULL);

        coded.len = 0;

        must(ngx_mcds_encoder_run(encoder, (u_char *) data, size / 2, 0, taken,
                                  &coded)
             == NGX_OK);
        must(ngx_mcds_encoder_run(encoder, (u_char *) data + size / 2,
                                  size - size / 2, 1, taken, &coded)
             == NGX_OK);

        ngx_mcds_encoder_free(encoder);

        rc = decode(coding, coded.data, coded.len, size, step, step, &first);

        must(rc == NGX_DONE && first.len == size
             && memcmp(first.data, data, size) == 0);

        /* the coded body, for another length, and with a byte changed */

        coded.data[length % coded.len] ^= data[0] & 0xfc;
        data = coded.data;
        size = coded.len;

    } else {
        data += 4;
        size -= 4;
    }

    rc = decode(coding, data, size, length, step, 777, &first);

    must(first.len <= length);
    must(rc != NGX_DONE || first.len == length);

    must(decode(coding, data, size, length, size + 1, ROOM, &second) == rc);

    if (rc == NGX_DONE) {
        must(second.len == first.len
             && memcmp(first.data, second.data, first.len) == 0);
    }

    return 0;
}


/*
 * decodes a body in pieces of "step" bytes; each call of the decoder has room
 * for "room" decoded bytes
 */

static ngx_int_t
decode(ngx_uint_t coding, const u_char *data, size_t size, size_t length,
    size_t step, size_t room, out_t *out)
{
    u_char              *pos;
    ngx_int_t            rc;
    ngx_str_t            in;
    ngx_mcds_decoder_t  *decoder;

    decoder = ngx_mcds_decoder_create(coding, length);
    must(decoder != NULL);

    out->len = 0;
    ngx_str_null(&in);
    rc = NGX_AGAIN;

    for ( ;; ) {

        if (rc == NGX_AGAIN) {
            must(in.len == 0);

            if (size == 0) {
                break;
            }

            in.data = (u_char *) data;
            in.len = (size < step) ? size : step;
            data += in.len;
            size -= in.len;
        }

        must(out->len <= ROOM);

        pos = out->data + out->len;
        rc = ngx_mcds_decoder_run(decoder, &in, &pos, pos + room);
        out->len = pos - out->data;

        if (rc == NGX_ERROR || rc == NGX_DONE) {
            break;
        }
    }

    ngx_mcds_decoder_free(decoder);

    return (rc == NGX_DONE && size) ? NGX_ERROR : rc;
}


static ngx_int_t
taken(void *data, u_char *p, size_t len)
{
    out_t *out = data;

    must(len <= sizeof(out->data) - out->len);

    memcpy(out->data + out->len, p, len);
    out->len += len;

    return NGX_OK;
}
