
/*
 * Copyright (C) mcds authors
 *
 * What a person may write about servers: a configuration string, or addresses
 * of one line each.  It is accepted or refused with a text, and whatever is
 * accepted finds a server for each key; libmemcached itself is linked, and
 * must never be handed what ends the process or reads a file.
 */


#include "io.h"
#include "slow.h"
#include "ngx_mcds_distribution.h"
#include <dlfcn.h>


static char *add(ngx_conf_t *cf, ngx_mcds_pool_t *pool, u_char *data,
    size_t len);


static int  inside;


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    char             *err, keys[] = "abcdefghijklmnop";
    u_char           *text;
    size_t            i, len;
    ngx_str_t         name, string;
    ngx_conf_t        cf;
    ngx_mcds_pool_t  *pool;

    if (size < 2) {
        return 0;
    }

    memset(&cf, 0, sizeof(cf));
    cf.log = ngx_cycle->log;
    cf.pool = ngx_create_pool(4096, cf.log);
    must(cf.pool != NULL);
    cf.temp_pool = cf.pool;

    ngx_str_set(&name, "main");
    inside = 1;

    pool = ngx_mcds_pool_create(cf.pool, &name);
    must(pool != NULL);

    /* a word of nginx's configuration ends with a NUL, and contains none */

    len = strnlen((char *) data + 2, size - 2);
    text = ngx_pnalloc(cf.pool, len + 1);
    memcpy(text, data + 2, len);
    text[len] = '\0';

    if (data[0] & 1) {
        pool->distribution = data[1] % 5;
        err = add(&cf, pool, text, len);

    } else {
        string.data = text;
        string.len = len;
        err = ngx_mcds_pool_config(&cf, pool, &string);
    }

    if (err == NULL) {
        err = ngx_mcds_pool_init(&cf, pool);
    }

    if (err) {
        must(*err);

        for (i = 0; err[i]; i++) {
            must((u_char) err[i] != '\n');
        }

    } else {
        must(pool->servers.nelts >= 1
             && pool->servers.nelts <= NGX_MCDS_MAX_SERVERS);
        must(pool->timeout > 0 && pool->connect_timeout > 0);

        for (i = 0; i < sizeof(keys) - 1; i++) {
            len = ngx_min(1 + i % 3, sizeof(keys) - 1 - i);

            must(ngx_mcds_distribution_get(pool, (u_char *) keys + i, len,
                                           i & 1)
                 < pool->servers.nelts);
        }
    }

    ngx_destroy_pool(cf.pool);

    inside = 0;

    return 0;
}


/*
 * replaces fopen(), by which libmemcached reads the file of an INCLUDE in a
 * configuration string: mcds must not let it do that
 */

FILE *
fopen(const char *path, const char *mode)
{
    FILE  *(*real)(const char *path, const char *mode);

    must(!inside);

    *(void **) &real = dlsym(RTLD_NEXT, "fopen");

    return real(path, mode);
}


static char *
add(ngx_conf_t *cf, ngx_mcds_pool_t *pool, u_char *data, size_t len)
{
    char       *err;
    u_char     *p, *last;
    ngx_str_t   address;
    ngx_uint_t  weight, down;

    last = data + len;

    /*
     * The first byte of a line is the server's weight, and tells whether it is
     * down.  Large weights are rare: the hash ring is sorted, which takes most
     * of the time.
     */

    while (last - data > 1) {
        weight = data[0] == 0xef ? 100 : 1 + data[0] % 8;
        down = data[0] >= 0xf0;
        data++;

        p = ngx_strlchr(data, last, '\n');
        if (p == NULL) {
            p = last;
        }

        address.data = data;
        address.len = p - data;

        if (address.len == 0) {
            return "nothing";
        }

        err = ngx_mcds_pool_add(cf, pool, &address, weight, down);
        if (err) {
            return err;
        }

        data = ngx_min(p + 1, last);
    }

    return NULL;
}
