
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_lack.h"


/*
 * a feature that an entry of a page in memcached may need, and that
 * MCDS_WITHOUT has left out of this build of mcds
 */

typedef struct {
    u_char       kind;        /* the kind of a page's entry that this build of
                                 mcds cannot use (MCDS_WITHOUT); 0: none */
    u_char       coding;      /* 1: this build of mcds cannot use a page whose
                                 body is compressed (MCDS_WITHOUT) */
    u_char       parts;       /* 1: this build of mcds cannot use a page whose
                                 body is stored in parts (MCDS_WITHOUT) */
    u_char       ext;         /* the type of an extension of a page's entry
                                 that this build of mcds cannot use, as its
                                 feature was left out when mcds was compiled;
                                 0: none */
    char        *why;
} ngx_mcds_lack_t;


static ngx_mcds_lack_t  ngx_mcds_left_out[] = {

#if (NGX_MCDS_WITHOUT_VARY)
    { NGX_MCDS_ENTRY_VARY, 0, 0, 0, "a list of headers, which are left out" },
#endif

#if (NGX_MCDS_WITHOUT_COMPRESS)
    { 0, 1, 0, 0, "in a coding, which is left out" },
#endif

#if (NGX_MCDS_WITHOUT_LARGE)
    { 0, 0, 1, 0, "in parts, which are left out" },
#endif

#if (NGX_MCDS_WITHOUT_TAGS)
    { 0, 0, 0, NGX_MCDS_ENTRY_EXT_TAG, "with tags, which are left out" },
#endif

#if (NGX_MCDS_WITHOUT_HMAC)
    { 0, 0, 0, NGX_MCDS_ENTRY_EXT_SIGN, "signed, which is left out" },
#endif

    { 0, 0, 0, 0, NULL }
};


char *
ngx_mcds_entry_lacks(ngx_mcds_entry_t *entry)
{
    ngx_str_t         data;
    ngx_mcds_lack_t  *lack;

    for (lack = ngx_mcds_left_out; lack->why; lack++) {

        if ((lack->kind && entry->kind == lack->kind)
            || (lack->coding && entry->coding)
            || (lack->parts && entry->parts)
            || (lack->ext
                && ngx_mcds_entry_ext(entry, lack->ext, &data) == NGX_OK))
        {
            return lack->why;
        }
    }

    return NULL;
}
