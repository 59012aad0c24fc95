
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_pace.h"


void
ngx_mcds_pace_add(ngx_mcds_pace_t *pace, ngx_msec_t last, ngx_msec_t took)
{
    ngx_msec_t  expected, error;

    if (pace->mean == 0) {
        pace->mean = took;
        pace->error = took / 4;
        return;
    }

    expected = last ? last : pace->mean;
    error = (took > expected) ? took - expected : expected - took;

    pace->error = (pace->error + error) / 2;
    pace->mean = ngx_max((3 * pace->mean + took) / 4, 1);
}


ngx_msec_t
ngx_mcds_pace_least(ngx_mcds_pace_t *pace, ngx_msec_t last)
{
    ngx_msec_t  expected;

    expected = last ? last : pace->mean;

    return (expected > pace->error) ? expected - pace->error : 0;
}
