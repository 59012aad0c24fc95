
/*
 * Copyright (C) mcds authors
 *
 * Cache-Control: lines compared with the slow parser, and what is decided of
 * them, also read as CDN-Cache-Control: nothing that says no is stored.
 */


#include "slow.h"


static void decide(ngx_mcds_cache_control_t *cc, const u_char *data);
static ngx_int_t same(ngx_mcds_cache_control_t *a,
    ngx_mcds_cache_control_t *b);


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    size_t                     len;
    ngx_str_t                  line;
    const u_char              *head, *lf;
    ngx_mcds_cache_control_t   cc, slow, cdn;

    if (size < 8) {
        return 0;
    }

    head = data;
    data += 8;
    size -= 8;

    memset(&cc, 0, sizeof(cc));
    memset(&slow, 0, sizeof(slow));
    memset(&cdn, 0, sizeof(cdn));

    for ( ;; ) {
        lf = memchr(data, '\n', size);
        len = lf ? (size_t) (lf - data) : size;

        line.len = len;
        line.data = malloc(len ? len : 1);
        must(line.data != NULL);
        memcpy(line.data, data, len);

        ngx_mcds_cache_control_add(&cc, &line);
        ngx_mcds_targeted_add(&cdn, &line);
        free(line.data);

        slow_cache_control(&slow, data, len);
        must(same(&cc, &slow));

        if (lf == NULL) {
            break;
        }

        data += len + 1;
        size -= len + 1;
    }

    decide(&cc, head);
    decide(&cdn, head);

    return 0;
}


static void
decide(ngx_mcds_cache_control_t *cc, const u_char *data)
{
    uint64_t             now;
    ngx_uint_t           rc, i;
    ngx_mcds_entry_t     entry;
    ngx_mcds_stale_t     stale;
    ngx_mcds_response_t  answer;

    static time_t      times[] = {
        0, 1, 784111777, 1700000000, 4102444800, NGX_ERROR,
        NGX_MAX_TIME_T_VALUE, NGX_MAX_TIME_T_VALUE - 1
    };

    static uint32_t    ages[] = { 0, 1, 60, 0x7fffffff, 0x80000000,
                                  0xffffffff, 3600, 86400 };

    memset(&answer, 0, sizeof(answer));
    memset(&entry, 0, sizeof(entry));

    answer.cc = *cc;
    answer.status = (data[0] & 1) ? 200 : data[1] * 3;
    answer.has_expires = (data[0] & 2) != 0;
    answer.has_accel = (data[0] & 4) != 0;
    answer.pragma_no_cache = (data[0] & 8) != 0;
    answer.authorization = (data[0] & 16) != 0;
    answer.set_cookie = (data[0] & 32) != 0;
    answer.vary = (data[0] & 64) != 0;
    answer.encoded = (data[0] & 128) != 0;
    answer.expires = times[data[2] % 8];
    answer.date = times[data[2] / 8 % 8];
    answer.accel = times[data[3] % 8];
    answer.valid = (data[4] & 1) ? -1 : times[data[4] / 2 % 8];
    answer.age = ages[data[5] % 8];

    if (answer.accel == NGX_ERROR) {
        answer.accel = 0;
    }

    now = (uint64_t) times[data[6] % 5] * 1000 + data[7];

    rc = ngx_mcds_fresh_decide(&answer, now, &entry);

    if (rc != NGX_MCDS_STORE) {
        return;
    }

    must(!cc->no_store || cc->must_understand);
    must(!cc->private && !cc->no_cache && !cc->malformed);
    must(!answer.set_cookie && !answer.vary && !answer.encoded);
    must(!answer.authorization || cc->public || cc->has_s_maxage
         || cc->must_revalidate);
    must(entry.status >= 200 && entry.status <= 599 && entry.status != 206
         && entry.status != 304);
    must(entry.created == now && entry.expire > now);
    must(entry.expire - now <= 2147483648000ULL);

    /* a page is never used stale if its Cache-Control forbids that */

    stale.update = NGX_MCDS_ALWAYS;
    stale.grace = NGX_MCDS_ALWAYS;

    must(ngx_mcds_fresh_state(&entry, &stale, entry.expire - 1)
         == NGX_MCDS_FRESH);

    for (i = 0; i < 64; i++) {
        rc = ngx_mcds_fresh_state(&entry, &stale,
                                  entry.expire + ((uint64_t) 1 << i) - 1);
        must(rc != NGX_MCDS_FRESH || entry.expire + ((uint64_t) 1 << i) - 1
                                     < entry.expire);
        must(rc == NGX_MCDS_STALE_UNUSABLE || rc == NGX_MCDS_FRESH
             || (!cc->must_revalidate && !cc->proxy_revalidate));
        must(ngx_mcds_fresh_age(&entry, now + ((uint64_t) 1 << i))
             <= 2147483648U);
    }
}


static ngx_int_t
same(ngx_mcds_cache_control_t *a, ngx_mcds_cache_control_t *b)
{
    return a->max_age == b->max_age && a->s_maxage == b->s_maxage
           && a->swr == b->swr && a->sie == b->sie
           && a->has_max_age == b->has_max_age
           && a->has_s_maxage == b->has_s_maxage
           && a->has_swr == b->has_swr && a->has_sie == b->has_sie
           && a->no_store == b->no_store && a->no_cache == b->no_cache
           && a->private == b->private && a->public == b->public
           && a->must_revalidate == b->must_revalidate
           && a->proxy_revalidate == b->proxy_revalidate
           && a->malformed == b->malformed;
}
