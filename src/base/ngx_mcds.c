
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/random.h>
#include "ngx_mcds.h"
#include "ngx_mcds_spare.h"


/* bytes of a value with its data */

#define ngx_mcds_value_room(size)  (offsetof(ngx_mcds_value_t, data) + (size))


#define ngx_mcds_rc_text(name, text, word)  text,

static char  *ngx_mcds_errors[] = {
    NGX_MCDS_ANSWER_LIST(ngx_mcds_rc_text)
    NGX_MCDS_FAILURE_LIST(ngx_mcds_rc_text)
};


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
        ngx_mcds_spare_free(value, ngx_mcds_value_room(value->size));
    }
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

    /* the time nearest to now whose low 32 bits are msec */

    return now + (int32_t) (msec - (uint32_t) now);
}

#endif


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
