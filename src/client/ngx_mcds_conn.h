
/*
 * Copyright (C) mcds authors
 *
 * Inside of client/: a server, its connections and the exchanges on them.
 */


#ifndef _NGX_MCDS_CONN_H_INCLUDED_
#define _NGX_MCDS_CONN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include "ngx_mcds_client.h"


typedef struct ngx_mcds_block_s     ngx_mcds_block_t;
typedef struct ngx_mcds_exchange_s  ngx_mcds_exchange_t;
typedef struct ngx_mcds_resolve_s   ngx_mcds_resolve_t;


typedef enum {
    NGX_MCDS_CONN_IDLE = 0,       /* no socket */
    NGX_MCDS_CONN_CONNECTING,
    NGX_MCDS_CONN_HANDSHAKING,    /* TLS */
    NGX_MCDS_CONN_GREETING,       /* "version" (and "mn") were sent */
    NGX_MCDS_CONN_READY
} ngx_mcds_conn_state_e;


typedef struct ngx_mcds_conn_s  ngx_mcds_conn_t;


struct ngx_mcds_conn_s {
    ngx_mcds_server_t      *server;
    ngx_peer_connection_t   peer;
    ngx_mcds_conn_t        *next;        /* of those that have retired */

    ngx_sockaddr_t          sockaddr;    /* the server's may have changed */
    ngx_str_t               address;
    u_char                  text[NGX_SOCKADDR_STRLEN];

    void                  (*handshaked)(ngx_mcds_conn_t *conn, ngx_int_t rc);

    ngx_uint_t              state;
    ngx_uint_t              greeted;     /* replies seen while greeting */
    ngx_msec_t              idle_since;
    ngx_msec_t              deadline;    /* of connecting and greeting */
    uint64_t                pushed;      /* microseconds: the first operation
                                            of this turn, */
    uint64_t                received;    /* and what came last */

    /*
     * In the order of their commands, answered from the head.  Every one has
     * been encoded into out, so each reply belongs to the head or the
     * connection is closed.
     */
    ngx_queue_t             exchanges;
    ngx_uint_t              pending;
    size_t                  pending_size;

    ngx_chain_t            *out;         /* not sent yet */
    ngx_mcds_block_t       *last;        /* the last of out */
    ngx_mcds_block_t       *spare;
    uint64_t                queued;      /* bytes ever put into out */
    uint64_t                sent;        /* bytes ever sent */

    ngx_buf_t              *in;
    ngx_mcds_reply_t        reply;       /* whose value is coming */
    ngx_mcds_value_t       *value;       /* where it goes, if it is large */
    size_t                  skip;        /* bytes to drop, if it is too large,
                                            its CRLF included */

    ngx_event_t             flush;       /* posted, once a turn */
    ngx_event_t             timer;

    ngx_log_t               log;

    unsigned                retired:1;   /* finishes what waits, then goes */
    unsigned                deferred:1;  /* flush was put behind others */
    unsigned                quiet:1;     /* nothing was received since it was
                                            idle */
    unsigned                has_reply:1;
    unsigned                authenticated:1;
    unsigned                bare_misses:1; /* memcached before 1.6.18 echoes
                                              nothing with EN */
};


struct ngx_mcds_server_s {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               name;        /* as written */
    ngx_str_t               host;        /* as libmemcached hashes it */
    in_port_t               port;        /* 0: unix socket */
    ngx_uint_t              weight;
    ngx_addr_t              addr;
    ngx_mcds_stat_t        *stat;

    /* of this worker */
    ngx_uint_t              fails;       /* in a row */
    ngx_event_t             probe;
    ngx_msec_t              probe_delay;
    ngx_uint_t              lost;        /* why the last connection was */
    ngx_err_t               err;         /* ... could not be made, or 0 */
    ngx_mcds_conn_t        *control;
    ngx_mcds_conn_t        *bulk;
    ngx_mcds_conn_t        *retired;
    ngx_mcds_resolve_t     *resolve;     /* NULL: the address stays */
    ngx_mcds_op_t           probe_op;
    ngx_mcds_op_t           usage_op;
#if (NGX_SSL)
    ngx_ssl_session_t      *session;     /* to resume */
#endif

    unsigned                hung_up:1;   /* instead of an answer to "mn" */
    unsigned                down:1;      /* for good, if configured so */
    unsigned                unsupported:1;
    unsigned                told:1;      /* what is wrong with it */
    unsigned                mute:1;      /* does not know "stats" */
};


/* a command, and the reply to it that is to come */

struct ngx_mcds_exchange_s {
    ngx_queue_t             queue;
    ngx_mcds_op_t          *op;          /* NULL: the reply is dropped */
    ngx_mcds_value_t       *value;       /* being sent */

    ngx_uint_t              verb;
    ngx_uint_t              want;        /* NGX_MCDS_VALUE if one must come */
    ngx_uint_t              asked;       /* all that the request wants */
    ngx_uint_t              words;       /* classic: the replies there may be */
    ngx_msec_t              deadline;
    uint64_t                start;       /* microseconds */
    uint64_t                begin;       /* queued, before its first byte, */
    uint64_t                end;         /* and behind its last one */
    size_t                  size;
    size_t                  limit;
    uint32_t                opaque;
    unsigned                probe:1;     /* a probe of a server that is down */
    unsigned                repeated:1;  /* sent for the second time */
    ngx_mcds_key_t          key;
};


/* the exchange whose reply comes next; the connection has one */

#define ngx_mcds_conn_head(conn)                                              \
    ngx_queue_data(ngx_queue_head(&(conn)->exchanges), ngx_mcds_exchange_t,   \
                   queue)


/*
 * Connection.  get: the connection for an operation, made when it is not
 * there; NULL when out of memory.  push: encodes the exchange (its key is
 * set) and queues it; NGX_ERROR when out of memory, NGX_BUSY when the queue
 * is full, the exchange is then still the caller's.  close: ends the socket
 * and fails all that waits with rc.  fail: the same, and it is the server's
 * fault.  lost: the server has closed what was quiet, as it may; GETs are sent
 * once more.  retire: the server has another address; nothing new is pushed,
 * and it is freed when what waits has come to its end.
 */

ngx_mcds_conn_t *ngx_mcds_conn_get(ngx_mcds_server_t *server, ngx_uint_t bulk);
ngx_int_t ngx_mcds_conn_push(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_mcds_cmd_t *cmd, ngx_str_t *text);
void ngx_mcds_conn_close(ngx_mcds_conn_t *conn, ngx_uint_t rc);
void ngx_mcds_conn_fail(ngx_mcds_conn_t *conn, ngx_uint_t rc);
void ngx_mcds_conn_lost(ngx_mcds_conn_t *conn);
void ngx_mcds_conn_retire(ngx_mcds_conn_t *conn);
void ngx_mcds_conn_destroy(ngx_mcds_conn_t *conn);


/*
 * Parts of a connection, for each other.  ready: the greeting has been
 * answered as it should be.  send: sends what is in out, may close.
 * free_block: of a link of out.  set_timer: to the nearest deadline.
 *
 * recv: as c->recv(), to where the next bytes belong.  process: takes what
 * was received; NGX_OK, or NGX_ERROR if the connection was closed.  late: the
 * time of the operation at the head is over; NGX_OK if that is because of a
 * value that no operation can use, which is no failure of the server, and the
 * connection was closed.
 */

void ngx_mcds_conn_ready(ngx_mcds_conn_t *conn);
void ngx_mcds_conn_send(ngx_mcds_conn_t *conn);
void ngx_mcds_conn_free_block(ngx_mcds_conn_t *conn, ngx_chain_t *cl);
void ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn);
ssize_t ngx_mcds_reply_recv(ngx_mcds_conn_t *conn);
ngx_int_t ngx_mcds_reply_process(ngx_mcds_conn_t *conn);
ngx_int_t ngx_mcds_reply_late(ngx_mcds_conn_t *conn);


#if (NGX_SSL)

/*
 * TLS.  handshake: begins it on a connected socket; handler is called when it
 * has ended, well or not (then it has been logged why), also from inside of
 * this call.  NGX_ERROR: it could not begin.
 */

ngx_int_t ngx_mcds_ssl_handshake(ngx_mcds_conn_t *conn,
    void (*handler)(ngx_mcds_conn_t *conn, ngx_int_t rc));
void ngx_mcds_ssl_close(ngx_connection_t *c);

#endif


#endif /* _NGX_MCDS_CONN_H_INCLUDED_ */
