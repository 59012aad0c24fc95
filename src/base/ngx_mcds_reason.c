
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_reason.h"


#define ngx_mcds_reason_word(name, word)  ngx_string(word),

ngx_str_t  ngx_mcds_reasons[NGX_MCDS_REASON_LAST] = {
    ngx_null_string,
    NGX_MCDS_REASON_LIST(ngx_mcds_reason_word)
};
