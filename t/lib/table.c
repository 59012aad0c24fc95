
/*
 * Copyright (C) mcds authors
 *
 * Makes nginx's table of request headers look like that of another nginx: this
 * library is loaded before nginx and changes two entries before nginx reads
 * them.  "Keep-Alive" gets the offset 0, that is, no field of its own, as
 * "Proxy-Connection" has since nginx 1.31.0.  "Expect" gets the offset in
 * $MCDS_TABLE_ODD, if set: the offset of a field that is no pointer.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* an entry of nginx's table of request headers, as in nginx 1.22 to 1.31 */

typedef struct {
    size_t      len;
    char       *data;
    uintptr_t   offset;
    intptr_t  (*handler)(void *r, void *h, uintptr_t offset);
} entry_t;


static void plant(void) __attribute__((constructor));
static intptr_t nothing(void *r, void *h, uintptr_t offset);


static void
plant(void)
{
    char     *odd;
    entry_t  *entry;

    entry = dlsym(RTLD_DEFAULT, "ngx_http_headers_in");
    odd = getenv("MCDS_TABLE_ODD");

    if (entry == NULL) {
        return;
    }

    for ( /* void */ ; entry->len; entry++) {

        if (strcmp(entry->data, "Keep-Alive") == 0) {
            entry->offset = 0;
            entry->handler = nothing;
        }

        if (odd && strcmp(entry->data, "Expect") == 0) {
            entry->offset = strtoul(odd, NULL, 10);
            entry->handler = nothing;
        }
    }
}


static intptr_t
nothing(void *r, void *h, uintptr_t offset)
{
    return 0;
}
