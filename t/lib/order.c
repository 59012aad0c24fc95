
/*
 * Copyright (C) mcds authors
 *
 * A module of nginx for Test::Mcds::Order: records the order in which modules
 * add handlers, filters and variables, and answers each request with it:
 *
 *     phase <number> <module> <file> <address> <base>
 *     header <module> <file> <address> <base>
 *     body <module> <file> <address> <base>
 *     variable <name>
 *     index <name>
 *     module <name>
 *
 * Handlers of phases are in the order in which nginx runs them, all others in
 * the order in which they were added: the last header filter runs first.
 *
 * An <address> is that of a function, whose name is in the symbol table of the
 * file; <base> is the address at which the file is loaded.  A filter keeps the
 * address of the next filter in a variable of its source file: a request with
 * the address of that variable as its argument, in hex, is answered with the
 * address of the next filter:
 *
 *     read <address>
 */


#define _GNU_SOURCE

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <dlfcn.h>


#define ORDER_SIZE     65536
#define ORDER_MODULES  256
#define ORDER_ADDED    512
#define ORDER_PHASE    64


typedef struct {
    char                       *kind;
    ngx_module_t               *module;
    void                       *code;
} order_added_t;


typedef ngx_int_t (*order_init_pt)(ngx_conf_t *cf);


static ngx_int_t order_preconfiguration(ngx_conf_t *cf);
static ngx_int_t order_postconfiguration(ngx_conf_t *cf);
static ngx_int_t order_wrapper(ngx_conf_t *cf);
static ngx_int_t order_add(char *kind, ngx_module_t *module, void *code);
static ngx_int_t order_handler(ngx_http_request_t *r);
static u_char *order_phases(u_char *p, u_char *last, ngx_http_request_t *r);
static u_char *order_phase(u_char *p, u_char *last, ngx_uint_t phase,
    ngx_http_handler_pt handler);
static u_char *order_line(u_char *p, u_char *last, char *module, void *code);


static ngx_uint_t      order_modules_n;
static ngx_module_t   *order_modules[ORDER_MODULES];
static order_init_pt   order_inits[ORDER_MODULES];

static ngx_uint_t      order_added_n;
static order_added_t   order_added[ORDER_ADDED];

static ngx_str_t       order_variables;


static ngx_http_module_t  order_module_ctx = {
    order_preconfiguration,                /* preconfiguration */
    order_postconfiguration,               /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  order_module = {
    NGX_MODULE_V1,
    &order_module_ctx,                     /* module context */
    NULL,                                  /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/* the symbols that nginx looks up in a dynamic module */

ngx_module_t  *ngx_modules[] = { &order_module, NULL };
char          *ngx_module_names[] = { "order_module", NULL };
char          *ngx_module_order[] = { NULL };


/*
 * called before nginx reads the http block: replaces the postconfiguration
 * function of each module by a wrapper
 */

static ngx_int_t
order_preconfiguration(ngx_conf_t *cf)
{
    ngx_uint_t          i;
    ngx_module_t      **modules;
    ngx_http_module_t  *ctx;

    order_modules_n = 0;
    order_added_n = 0;

    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {

        if (modules[i]->type != NGX_HTTP_MODULE
            || modules[i] == &order_module)
        {
            continue;
        }

        ctx = modules[i]->ctx;

        if (ctx->postconfiguration == NULL) {
            continue;
        }

        if (order_modules_n == ORDER_MODULES) {
            return NGX_ERROR;
        }

        order_modules[order_modules_n] = modules[i];
        order_inits[order_modules_n++] = ctx->postconfiguration;

        ctx->postconfiguration = order_wrapper;
    }

    return NGX_OK;
}


/*
 * calls the postconfiguration function of the next module, and records the
 * handlers and filters that it adds; nginx calls these functions in the order
 * of its modules
 */

static ngx_int_t
order_wrapper(ngx_conf_t *cf)
{
    ngx_int_t                          rc;
    ngx_uint_t                         i, j, k, n[NGX_HTTP_LOG_PHASE + 1];
    ngx_module_t                      *module;
    ngx_http_module_t                 *ctx;
    ngx_http_handler_pt               *h;
    ngx_http_handler_pt                was[NGX_HTTP_LOG_PHASE + 1][ORDER_PHASE];
    ngx_http_core_main_conf_t         *cmcf;
    ngx_http_output_body_filter_pt     body;
    ngx_http_output_header_filter_pt   header;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    /* mcds moves a module in this order, so the list is in another one */

    for (i = 0; /* void */ ; i++) {
        module = cf->cycle->modules[i];
        ctx = module->ctx;

        if (module->type == NGX_HTTP_MODULE
            && ctx->postconfiguration == order_wrapper)
        {
            break;
        }
    }

    for (i = 0; order_modules[i] != module; i++) { /* void */ }

    ctx->postconfiguration = order_inits[i];

    header = ngx_http_top_header_filter;
    body = ngx_http_top_body_filter;

    for (i = 0; i <= NGX_HTTP_LOG_PHASE; i++) {
        n[i] = cmcf->phases[i].handlers.nelts;

        if (n[i] > ORDER_PHASE) {
            return NGX_ERROR;
        }

        ngx_memcpy(was[i], cmcf->phases[i].handlers.elts, n[i] * sizeof(*h));
    }

    rc = ctx->postconfiguration(cf);

    /*
     * looks for new handlers among all handlers of a phase, since mcds adds
     * some in front of others
     */

    for (i = 0; i <= NGX_HTTP_LOG_PHASE; i++) {
        h = cmcf->phases[i].handlers.elts;

        for (j = 0; j < cmcf->phases[i].handlers.nelts; j++) {
            for (k = 0; k < n[i] && was[i][k] != h[j]; k++) { /* void */ }

            if (k == n[i]
                && order_add("phase", module, (void *) h[j]) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    if ((header != ngx_http_top_header_filter
         && order_add("header", module, (void *) ngx_http_top_header_filter)
            != NGX_OK)
        || (body != ngx_http_top_body_filter
            && order_add("body", module, (void *) ngx_http_top_body_filter)
               != NGX_OK))
    {
        return NGX_ERROR;
    }

    return rc;
}


static ngx_int_t
order_add(char *kind, ngx_module_t *module, void *code)
{
    if (order_added_n == ORDER_ADDED) {
        return NGX_ERROR;
    }

    order_added[order_added_n].kind = kind;
    order_added[order_added_n].module = module;
    order_added[order_added_n++].code = code;

    return NGX_OK;
}


/*
 * the postconfiguration function of this module, which nginx calls last, since
 * the module is loaded after all others
 */

static ngx_int_t
order_postconfiguration(ngx_conf_t *cf)
{
    u_char                     *p, *last;
    ngx_uint_t                  i;
    ngx_hash_key_t             *key;
    ngx_http_variable_t        *v;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    p = ngx_pnalloc(cf->pool, ORDER_SIZE);
    if (p == NULL) {
        return NGX_ERROR;
    }

    order_variables.data = p;
    last = p + ORDER_SIZE;

    key = cmcf->variables_keys->keys.elts;

    for (i = 0; i < cmcf->variables_keys->keys.nelts; i++) {
        p = ngx_slprintf(p, last, "variable %V\n", &key[i].key);
    }

    v = cmcf->prefix_variables.elts;

    for (i = 0; i < cmcf->prefix_variables.nelts; i++) {
        p = ngx_slprintf(p, last, "variable %V*\n", &v[i].name);
    }

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {
        p = ngx_slprintf(p, last, "index %V\n", &v[i].name);
    }

    order_variables.len = p - order_variables.data;

    /*
     * the handler, which responds with the order of handlers and filters, runs
     * in the post-read phase, before any request to memcached
     */

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_POST_READ_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = order_handler;

    return NGX_OK;
}


static ngx_int_t
order_handler(ngx_http_request_t *r)
{
    u_char        *p, *last;
    void          *from;
    ngx_buf_t     *b;
    ngx_int_t      rc;
    ngx_uint_t     i;
    ngx_chain_t    out;

    b = ngx_create_temp_buf(r->pool, 2 * ORDER_SIZE);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = b->pos;
    last = b->end;

    if (r->args.len) {
        /*
         * the argument of the request, an address in memory in hexadecimal, is
         * parsed by strtoul(): on a 32-bit host it may be too large for
         * ngx_hextoi()
         */

        from = (void *) (uintptr_t) strtoul((char *) r->args.data, NULL, 16);
        p = ngx_slprintf(p, last, "read %p\n", *(void **) from);

    } else {
        p = order_phases(p, last, r);

        for (i = 0; i < order_added_n; i++) {
            if (order_added[i].kind[0] == 'p') {
                continue;
            }

            p = ngx_slprintf(p, last, "%s ", order_added[i].kind);
            p = order_line(p, last, order_added[i].module->name,
                           order_added[i].code);
        }

        p = ngx_slprintf(p, last, "%V", &order_variables);

        for (i = 0; ngx_cycle->modules[i]; i++) {
            p = ngx_slprintf(p, last, "module %s\n",
                             ngx_cycle->modules[i]->name);
        }
    }

    b->last = p;
    b->last_buf = 1;
    out.buf = b;
    out.next = NULL;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;

    rc = ngx_http_send_header(r);

    if (rc == NGX_OK) {
        rc = ngx_http_output_filter(r, &out);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


/*
 * lists the phase handlers in the order in which nginx's phase engine runs
 * them, and then the handlers of the log phase, which the engine does not run
 */

static u_char *
order_phases(u_char *p, u_char *last, ngx_http_request_t *r)
{
    ngx_uint_t                  i, n;
    ngx_array_t                *handlers;
    ngx_http_handler_pt        *h;
    ngx_http_phase_handler_t   *ph;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ph = cmcf->phase_engine.handlers;

    for (i = 0; i < NGX_HTTP_LOG_PHASE; i++) {

        for (n = cmcf->phases[i].handlers.nelts; n; ph++) {

            /*
             * nginx's phase engine has steps of its own without a handler,
             * which are left out
             */

            if (ph->handler) {
                p = order_phase(p, last, i, ph->handler);
                n--;
            }
        }
    }

    handlers = &cmcf->phases[NGX_HTTP_LOG_PHASE].handlers;
    h = handlers->elts;

    for (n = 0; n < handlers->nelts; n++) {
        p = order_phase(p, last, NGX_HTTP_LOG_PHASE, h[n]);
    }

    return p;
}


static u_char *
order_phase(u_char *p, u_char *last, ngx_uint_t phase,
    ngx_http_handler_pt handler)
{
    ngx_uint_t  i;

    for (i = 0; i < order_added_n; i++) {

        if (order_added[i].kind[0] == 'p'
            && order_added[i].code == (void *) handler)
        {
            p = ngx_slprintf(p, last, "phase %ui ", phase);
            return order_line(p, last, order_added[i].module->name,
                              (void *) handler);
        }
    }

    /* the phase handler of this module is left out of the printed order */

    return p;
}


static u_char *
order_line(u_char *p, u_char *last, char *module, void *code)
{
    char     *file;
    Dl_info   info, nginx;

    if (dladdr(code, &info) == 0 || dladdr(&ngx_core_module, &nginx) == 0) {
        return ngx_slprintf(p, last, "%s unknown %p 0\n", module, code);
    }

    /*
     * the file of nginx itself is called "nginx", since its name, as dladdr()
     * knows it, was overwritten by the process title
     */

    file = (info.dli_fbase == nginx.dli_fbase) ? "nginx"
                                               : (char *) info.dli_fname;

    return ngx_slprintf(p, last, "%s %s %p %p\n", module, file, code,
                        info.dli_fbase);
}
