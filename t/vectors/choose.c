
/*
 * Copyright (C) mcds authors
 *
 * Which server has a key, as libmemcached tells.  usage: choose distribution
 * server...; a server is host:port=weight, [address]:port=weight or
 * unix:path=weight.  Reads keys, one per line; prints the server of each,
 * counted from 0.
 */


#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static int add(memcached_st *mc, char *server);


int
main(int argc, char **argv)
{
    int                  i;
    char                 key[1024];
    memcached_st        *mc;
    memcached_return_t   rc;

    if (argc < 3) {
        fprintf(stderr, "usage: %s distribution server...\n", argv[0]);
        return 1;
    }

    mc = memcached_create(NULL);
    rc = MEMCACHED_SUCCESS;

    if (strcmp(argv[1], "modula_crc") == 0) {
        rc = memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_HASH,
                                    MEMCACHED_HASH_CRC);

    } else if (strcmp(argv[1], "consistent") == 0) {
        rc = memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_DISTRIBUTION,
                                    MEMCACHED_DISTRIBUTION_CONSISTENT);

    } else if (strcmp(argv[1], "ketama") == 0) {
        rc = memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);

    } else if (strcmp(argv[1], "modula") != 0) {
        fprintf(stderr, "unknown distribution: %s\n", argv[1]);
        return 1;
    }

    for (i = 2; i < argc && rc == MEMCACHED_SUCCESS; i++) {
        rc = add(mc, argv[i]);
    }

    if (rc != MEMCACHED_SUCCESS) {
        fprintf(stderr, "libmemcached: %s\n", memcached_strerror(NULL, rc));
        return 1;
    }

    while (fgets(key, sizeof(key), stdin)) {
        key[strcspn(key, "\n")] = '\0';
        printf("%u\n", memcached_generate_hash(mc, key, strlen(key)));
    }

    memcached_free(mc);

    return 0;
}


static int
add(memcached_st *mc, char *server)
{
    int    weight;
    char  *p;

    p = strrchr(server, '=');
    weight = atoi(p + 1);
    *p = '\0';

    if (strncmp(server, "unix:", 5) == 0) {
        return memcached_server_add_unix_socket_with_weight(mc, server + 5,
                                                            weight);
    }

    p = strrchr(server, ':');
    *p++ = '\0';

    if (server[0] == '[') {
        server++;
        server[strlen(server) - 1] = '\0';
    }

    return memcached_server_add_with_weight(mc, server, atoi(p), weight);
}
