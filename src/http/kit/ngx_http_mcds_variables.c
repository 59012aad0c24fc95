
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_variables.h"


static size_t ngx_http_mcds_variables_size(ngx_http_request_t *r);


ngx_int_t
ngx_http_mcds_variables_save(ngx_http_mcds_park_t *park)
{
    ngx_http_request_t  *r;

    r = park->request;

    park->saved = 0;

    if (r == r->main && r->count == 1) {
        return NGX_OK;
    }

    if (park->variables) {
        ngx_memcpy(park->variables, r->variables,
                   ngx_http_mcds_variables_size(r));

    } else {
        park->variables = ngx_http_mcds_variables_copy(r);
        if (park->variables == NULL) {
            return NGX_ERROR;
        }
    }

    park->saved = 1;

    return NGX_OK;
}


void
ngx_http_mcds_variables_restore(ngx_http_mcds_park_t *park)
{
    ngx_uint_t                  i;
    ngx_http_request_t         *r;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    if (!park->saved) {
        return;
    }

    r = park->request;
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (park->variables[i].valid || park->variables[i].not_found) {
            r->variables[i] = park->variables[i];

        } else if (v[i].flags & NGX_HTTP_VAR_CHANGEABLE) {

            /*
             * a variable of "set", "map" or the like that had no value may have
             * got one in the location of another request since then; others,
             * such as $request_id, are to be the same for all requests
             */

            r->variables[i].valid = 0;
            r->variables[i].not_found = 0;
        }
    }
}


ngx_http_variable_value_t *
ngx_http_mcds_variables_copy(ngx_http_request_t *r)
{
    size_t                      size;
    ngx_http_variable_value_t  *copy;

    size = ngx_http_mcds_variables_size(r);

    copy = ngx_palloc(r->pool, size);

    if (copy) {
        ngx_memcpy(copy, r->variables, size);
    }

    return copy;
}


void
ngx_http_mcds_variables_set(ngx_http_request_t *r,
    ngx_http_variable_value_t *copy)
{
    if (copy) {
        ngx_memcpy(r->variables, copy, ngx_http_mcds_variables_size(r));
    }
}


ngx_int_t
ngx_http_mcds_variables_own(ngx_http_mcds_park_t *park,
    ngx_http_variable_value_t **others)
{
    *others = NULL;

    if (!park->saved) {
        return NGX_OK;
    }

    *others = ngx_http_mcds_variables_copy(park->request);
    if (*others == NULL) {
        return NGX_ERROR;
    }

    ngx_http_mcds_variables_restore(park);

    return NGX_OK;
}


static size_t
ngx_http_mcds_variables_size(ngx_http_request_t *r)
{
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    return cmcf->variables.nelts * sizeof(ngx_http_variable_value_t);
}
