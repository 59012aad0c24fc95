
/*
 * Copyright (C) mcds authors
 *
 * mcds get: reads the bodies of pages, and the parts of large bodies.
 */


#include "mcds_get.h"
#include "ngx_mcds_coding.h"
#include "ngx_mcds_part.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_vary.h"


/* bytes of a page's body that are decoded at a time */
#define MCDS_GET_PIECE            65536


static ngx_int_t mcds_get_part(mcds_t *m, ngx_mcds_entry_t *entry, uint32_t n,
    ngx_array_t *secrets, mcds_answer_t *answer, ngx_str_t *body);
static ngx_int_t mcds_get_write(ngx_mcds_decoder_t *decoder,
    ngx_str_t *piece);
static json_t *mcds_hex(uint64_t n);


void
mcds_get_body(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    uint32_t        i, there;
    ngx_str_t       body;
    ngx_uint_t      coding;
    mcds_answer_t   answer;

    coding = entry->coding;

    mcds_put(o, "coding", (coding == NGX_MCDS_CODING_NONE)
                          ? json_string("none")
                          : mcds_json(ngx_mcds_coding_name(coding)));
    mcds_put(o, "stored_length", json_integer(entry->total));
    mcds_put(o, "length", json_integer((coding == NGX_MCDS_CODING_NONE)
                                       ? entry->total : entry->length));
    mcds_put(o, "generation", mcds_hex(entry->generation));
    mcds_put(o, "parts", json_integer(entry->parts));

    if (entry->parts == 0) {
        return;
    }

    there = 0;

    for (i = 0; i < entry->parts; i++) {
        switch (mcds_get_part(m, entry, i, secrets, &answer, &body)) {

        case NGX_OK:
            there++;
            mcds_answer_free(&answer);
            break;

        case NGX_ERROR:
            mcds_put(o, "parts_valid", json_null());
            return;
        }
    }

    mcds_put(o, "parts_valid", json_integer(there));

    if (there < entry->parts) {
        m->status = ngx_max(m->status, MCDS_NO);
    }
}


/*
 * reads one part of a page's body from memcached; NGX_DECLINED: the part is
 * lost or broken; NGX_ERROR: memcached has not answered, which was reported
 */

static ngx_int_t
mcds_get_part(mcds_t *m, ngx_mcds_entry_t *entry, uint32_t n,
    ngx_array_t *secrets, mcds_answer_t *answer, ngx_str_t *body)
{
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_int_t           rc;
    ngx_mcds_value_t   *value;
    ngx_mcds_request_t  req;

    mcds_get_request(&req, &entry->key);

    req.want = NGX_MCDS_VALUE;
    req.suffix.data = suffix;
    req.by_key = 1;

    ngx_mcds_part_suffix(&req.suffix, entry->generation, n);

    if (mcds_do(m, &req, answer) != NGX_MCDS_OK) {

        if (ngx_mcds_answered(answer->rc)) {
            return NGX_DECLINED;
        }

        mcds_failed(m, &entry->key, answer->rc);
        return NGX_ERROR;
    }

    rc = ngx_mcds_part_read(body, answer->text.data, answer->text.len,
                            entry->generation, n,
                            ngx_mcds_entry_part(entry, n));

    if (rc == NGX_OK && secrets) {

        /*
         * the part of the page's body is copied to an ngx_mcds_value_t, which
         * the functions that check signatures take
         */

        value = ngx_mcds_value_create(answer->text.len, ngx_cycle->log);

        if (value == NULL) {
            mcds_no_memory();
        }

        ngx_memcpy(value->data, answer->text.data, answer->text.len);
        value->len = answer->text.len;

        rc = ngx_mcds_sign_part_check(value, &entry->key, secrets);

        ngx_mcds_value_unref(value);
    }

    if (rc != NGX_OK) {
        mcds_answer_free(answer);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * the option --body: prints the body of a page as the origin sent it, without
 * the coding in which it is stored
 */

void
mcds_get_print(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets)
{
    char                *why;
    u_char               hash[NGX_MCDS_VARIANT_LEN];
    uint32_t             i;
    ngx_int_t            rc;
    ngx_str_t            piece, names, variant;
    mcds_answer_t        answer, part;
    ngx_mcds_entry_t     entry;
    ngx_mcds_decoder_t  *decoder;
    ngx_mcds_request_t   req;

    mcds_get_request(&req, key);

    if (mcds_do(m, &req, &answer) != NGX_MCDS_OK) {
        mcds_failed(m, key, answer.rc);
        return;
    }

    why = NULL;
    rc = ngx_mcds_entry_read(&entry, answer.text.data, answer.text.len, key,
                             &why);

    if (rc == NGX_OK && entry.kind == NGX_MCDS_ENTRY_VARY
        && ngx_mcds_vary_check(&entry.ext, &entry.body) == NGX_OK)
    {
        /*
         * the item is no page, but the list of headers by which the page
         * varies: prints the body of a variant
         */

        ngx_mcds_vary_names(&entry.ext, &names);

        if (mcds_get_by_route(&names)) {
            mcds_error(m, MCDS_USAGE, "%.*s: the variants differ by the "
                       "location or URI that nginx chooses; list them without "
                       "--body, then pass the \"key\" of one with --key",
                       (int) key->len, key->data);
            mcds_answer_free(&answer);
            return;
        }

        mcds_get_variant(m, &names, NULL, hash);
        mcds_get_variant_key(m, &entry, hash, &variant);
        mcds_answer_free(&answer);

        mcds_get_print(m, &variant, secrets);
        return;
    }

    if (rc != NGX_OK || entry.kind != NGX_MCDS_ENTRY_PAGE) {
        mcds_error(m, MCDS_NO, "%.*s: not a page: %s", (int) key->len,
                   key->data, why ? why : mcds_get_state(&entry, 0));
        mcds_answer_free(&answer);
        return;
    }

    secrets = mcds_get_secrets(m, &entry, secrets);

    if (secrets
        && ngx_mcds_sign_check(answer.text.data, answer.text.len, &entry,
                               secrets)
           != NGX_OK)
    {
        mcds_error(m, MCDS_NO, "%.*s: no valid signature", (int) key->len,
                   key->data);
        mcds_answer_free(&answer);
        return;
    }

    decoder = NULL;

    if (entry.coding) {
        decoder = ngx_mcds_decoder_create(entry.coding, entry.length);

        if (decoder == NULL) {
            mcds_no_memory();
        }
    }

    piece = entry.body;
    rc = mcds_get_write(decoder, &piece);

    for (i = 0; rc == NGX_OK && i < entry.parts; i++) {
        rc = mcds_get_part(m, &entry, i, secrets, &part, &piece);

        if (rc == NGX_OK) {
            rc = mcds_get_write(decoder, &piece);
            mcds_answer_free(&part);
        }
    }

    if (rc != NGX_OK) {
        mcds_error(m, MCDS_NO, "%.*s: the body is incomplete", (int) key->len,
                   key->data);
    }

    if (decoder) {
        ngx_mcds_decoder_free(decoder);
    }

    mcds_answer_free(&answer);
}


static ngx_int_t
mcds_get_write(ngx_mcds_decoder_t *decoder, ngx_str_t *piece)
{
    u_char     *p, *buf;
    ngx_int_t   rc;

    if (decoder == NULL) {
        return fwrite(piece->data, 1, piece->len, stdout) == piece->len
               ? NGX_OK : NGX_ERROR;
    }

    buf = malloc(MCDS_GET_PIECE);

    if (buf == NULL) {
        mcds_no_memory();
    }

    do {
        p = buf;
        rc = ngx_mcds_decoder_run(decoder, piece, &p, buf + MCDS_GET_PIECE);

        if (rc != NGX_ERROR && fwrite(buf, 1, p - buf, stdout)
                               != (size_t) (p - buf))
        {
            rc = NGX_ERROR;
        }

    } while (rc == NGX_OK);

    free(buf);

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/* a JSON string: a number as 16 hexadecimal digits */

static json_t *
mcds_hex(uint64_t n)
{
    char  text[32];

    (void) snprintf(text, sizeof(text), "%016llx", (unsigned long long) n);

    return json_string(text);
}
