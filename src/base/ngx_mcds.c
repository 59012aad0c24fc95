
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/random.h>
#include "ngx_mcds.h"
#include "ngx_mcds_memfile.h"
#include "ngx_mcds_spare.h"


#define ngx_mcds_rc_text(name, text, word)  text,

static char  *ngx_mcds_errors[] = {
    NGX_MCDS_ANSWER_LIST(ngx_mcds_rc_text)
    NGX_MCDS_FAILURE_LIST(ngx_mcds_rc_text)
};


/* the text of all pairs of decimal digits, 00 to 99 */

static u_char  ngx_mcds_digits[] =
    "0001020304050607080910111213141516171819"
    "2021222324252627282930313233343536373839"
    "4041424344454647484950515253545556575859"
    "6061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";


char *
ngx_mcds_strerror(ngx_uint_t rc)
{
    if (rc >= NGX_MCDS_RC_LAST) {
        return "unknown";
    }

    return ngx_mcds_errors[rc];
}


ngx_mcds_value_t *
ngx_mcds_value_create(size_t size, ngx_log_t *log)
{
    ngx_mcds_value_t  *value;

    value = ngx_mcds_spare_alloc(ngx_mcds_value_room(size), log);
    if (value == NULL) {
        return NULL;
    }

    value->refs = 1;
    value->fd = NGX_INVALID_FILE;
    value->size = size;
    value->len = 0;

    return value;
}


ngx_mcds_value_t *
ngx_mcds_value_ref(ngx_mcds_value_t *value)
{
    value->refs++;

    return value;
}


void
ngx_mcds_value_unref(ngx_mcds_value_t *value)
{
    if (value && --value->refs == 0) {

        if (value->fd != NGX_INVALID_FILE) {
            ngx_mcds_memfile_free(value);
            return;
        }

        ngx_mcds_spare_free(value, ngx_mcds_value_room(value->size));
    }
}


u_char *
ngx_mcds_decimal(u_char *p, uint64_t n)
{
    u_char     *t, temp[NGX_INT64_LEN];
    uint64_t    rest;

    if (n < 10) {
        *p++ = (u_char) (n + '0');
        return p;
    }

    t = temp + NGX_INT64_LEN;

    while (n >= 100) {
        rest = n;
        n /= 100;

        t -= 2;
        ngx_memcpy(t, &ngx_mcds_digits[2 * (rest - n * 100)], 2);
    }

    t -= 2;
    ngx_memcpy(t, &ngx_mcds_digits[2 * n], 2);

    if (n < 10) {
        t++;
    }

    return ngx_cpymem(p, t, temp + NGX_INT64_LEN - t);
}


uint64_t
ngx_mcds_now(void)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    return ngx_mcds_epoch(tp->sec) * 1000 + tp->msec;
}


#if (NGX_PTR_SIZE != 8)

uint64_t
ngx_mcds_clock(ngx_msec_t msec)
{
    uint64_t         now;
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    now = (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

    /*
     * a 32-bit time, msec, wraps around after 49 days: of all 64-bit times with
     * the same low 32 bits, the one nearest to the current time is meant
     */

    return now + (int32_t) (msec - (uint32_t) now);
}

#endif


ngx_int_t
ngx_mcds_word_next(ngx_str_t *list, ngx_str_t *word)
{
    u_char  *p, *last;

    p = list->data;
    last = p + list->len;

    while (p < last && (*p == ',' || *p == ' ' || *p == '\t')) {
        p++;
    }

    word->data = p;

    while (p < last && *p != ',' && *p != ' ' && *p != '\t') {
        p++;
    }

    word->len = p - word->data;

    list->data = p;
    list->len = last - p;

    return word->len ? NGX_OK : NGX_DECLINED;
}


void
ngx_mcds_random(void *bytes, size_t len)
{
    u_char  *p;
    size_t   i;

    if (getrandom(bytes, len, GRND_NONBLOCK) == (ssize_t) len) {
        return;
    }

    p = bytes;

    for (i = 0; i < len; i++) {
        p[i] = (u_char) (ngx_random() >> 8);
    }
}
