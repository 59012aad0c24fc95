
/*
 * Copyright (C) mcds authors
 *
 * What is told in another way by nginx and by Angie, which is made of it.
 * angie_version comes with the headers of every Angie.
 */


#ifndef _NGX_HTTP_MCDS_ANGIE_H_INCLUDED_
#define _NGX_HTTP_MCDS_ANGIE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * resolver_asks: it has servers to ask.  log_request: what is said of the
 * request of ctx in a line of the error log, by a handler of that log.
 */

#if (angie_version >= 1012000)

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections != NULL)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler(log, buf, (buf) + (len), ctx)

#else

#define ngx_http_mcds_resolver_asks(resolver)                                 \
    ((resolver)->connections.nelts != 0)

#define ngx_http_mcds_log_request(log, ctx, buf, len)                         \
    (ctx)->request->log_handler((ctx)->request, (ctx)->current_request, buf,  \
                                len)

#endif


#endif /* _NGX_HTTP_MCDS_ANGIE_H_INCLUDED_ */
