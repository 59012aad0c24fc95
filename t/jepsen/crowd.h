
/*
 * Copyright (C) mcds authors
 *
 * The load generator of the long chaos run.  crowd.c has the connections;
 * roles.c has the requests of each client, and remembers the responses.
 */


#ifndef _CROWD_H_INCLUDED_
#define _CROWD_H_INCLUDED_


#include "jepsen.h"


#define CROWD_MAX_REQUEST  4096
#define CROWD_NAME         64


typedef struct {
    int         status;               /* 0: none, or incomplete */
    const char *body;
    size_t      len;
    char        cache[32];
    char        reason[32];
    char        encoding[16];
} answer_t;


typedef struct client_s  client_t;

struct client_s {
    int         index;
    int         host;
    int         role;
    int         nth;                  /* number in its role */
    uint64_t    rnd;

    int         fd;
    int         active;
    uint64_t    begin;
    uint64_t    end;
    uint64_t    next;                 /* when the next request is due */
    uint64_t    leave;                /* when to leave, or 0 */
    int         moves;                /* requests before another host */
    char        request[CROWD_MAX_REQUEST];
    size_t      request_len;
    size_t      sent;
    char       *buf;
    size_t      size;
    size_t      len;

    /* the present request, for its line in the history */

    char        op[16];
    char        uri[256];
    char        user[CROWD_NAME];
    char        lang[16];

    /* of a client with a lock, or with an element of a table */

    int         step;
    char        name[CROWD_NAME];
    char        owner[CROWD_NAME];
    long        value;
};


/* Returns the role of a client, see roles.c, and its number in the role. */

int role_of(int index, int *nth);


/* Returns the requests per second of each client of this role. */

double role_rate(int role);


/*
 * Fills in request, op and uri.  next and leave are set already, and may be
 * changed.
 */

void role_ask(client_t *c);


/* Writes a line of history.  May change the time of the next request. */

void role_answer(client_t *c, answer_t *a);


/* the file of the history; roles.c describes the fields of a line */

extern FILE  *history;


#endif /* _CROWD_H_INCLUDED_ */
