
/*
 * Copyright (C) mcds authors
 *
 * Private to client/: a memcached server, its connections, and the exchanges of
 * commands and replies on them.
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
    NGX_MCDS_CONN_IDLE = 0,       /* the connection has no socket */
    NGX_MCDS_CONN_CONNECTING,
    NGX_MCDS_CONN_HANDSHAKING,    /* the TLS handshake is under way */
    NGX_MCDS_CONN_GREETING,       /* the greeting, "version" (and "mn"), was
                                     sent to the server */
    NGX_MCDS_CONN_READY
} ngx_mcds_conn_state_e;


typedef struct ngx_mcds_conn_s  ngx_mcds_conn_t;


struct ngx_mcds_conn_s {
    ngx_mcds_server_t      *server;
    ngx_peer_connection_t   peer;
    ngx_mcds_conn_t        *next;        /* next in the server's list of retired
                                            connections, which get no new
                                            commands */

    ngx_sockaddr_t          sockaddr;    /* copy of the server's address at the
                                            connect(); a later look-up of the
                                            server's name does not change it */
    ngx_str_t               address;
    u_char                  text[NGX_SOCKADDR_STRLEN];

    void                  (*handshaked)(ngx_mcds_conn_t *conn, ngx_int_t rc);

    ngx_uint_t              state;
    ngx_uint_t              greeted;     /* how many of the replies to the
                                            greeting ("version", "mn") were
                                            received */
    ngx_msec_t              idle_since;
    ngx_msec_t              deadline;    /* deadline for the connect and the
                                            greeting ("version") */
    uint64_t                pushed;      /* when the first command of this turn
                                            of the event loop was queued,
                                            microseconds */
    uint64_t                received;    /* when data was last received from the
                                            server, microseconds */

    /*
     * The exchanges of the connection, each a command and its expected reply,
     * in the order of the commands, which are all encoded into the chain "out".
     * If a reply does not belong to the first exchange, the connection is
     * closed.
     */
    ngx_queue_t             exchanges;
    ngx_uint_t              pending;
    size_t                  pending_size;

    ngx_chain_t            *out;         /* unsent commands and values, a chain
                                            of blocks */
    ngx_mcds_block_t       *last;        /* last block of the unsent commands */
    ngx_mcds_block_t       *spare;
    uint64_t                queued;      /* total of bytes queued for sending */
    uint64_t                sent;        /* total of bytes sent to the server */

    ngx_buf_t              *in;

    /* the reply whose value is being received */
    ngx_mcds_reply_t        reply;

    ngx_mcds_value_t       *value;       /* buffer for a large value that is
                                            received, or NULL */
    size_t                  skip;        /* number of bytes still to drop: rest
                                            of an unwanted value, and the CRLF
                                            (or CRLF END CRLF) that ends it */

    ngx_event_t             flush;       /* event that sends the unsent
                                            commands, posted once a turn */
    ngx_event_t             timer;

    ngx_log_t               log;

    unsigned                retired:1;   /* 1: the connection gets no new
                                            commands; freed after its last
                                            reply */
    unsigned                deferred:1;  /* 1: the event that sends commands has
                                            let other posted events go first */
    unsigned                quiet:1;     /* 1: no byte was received since the
                                            connection became idle */
    unsigned                has_reply:1;
    unsigned                authenticated:1;
    unsigned                bare_misses:1; /* the server is older than 1.6.18:
                                              EN, its reply to a miss, has no
                                              flags */
};


struct ngx_mcds_server_s {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               name;        /* address of the server as
                                            configured */
    ngx_str_t               host;        /* host of the server as libmemcached
                                            hashes it */
    in_port_t               port;        /* port of the server; 0: unix
                                            socket */
    ngx_uint_t              weight;
    ngx_addr_t              addr;
    ngx_mcds_stat_t        *stat;

    /* fields of this worker about the state of the server */
    ngx_uint_t              fails;       /* consecutive failures of the
                                            server */
    ngx_event_t             probe;
    ngx_msec_t              probe_delay;
    ngx_uint_t              lost;        /* result code with which a connection
                                            to the server last failed */
    ngx_err_t               err;         /* error of the server's last
                                            connect(), or 0 */
    ngx_mcds_conn_t        *control;
    ngx_mcds_conn_t        *bulk;
    ngx_mcds_conn_t        *retired;

    /* the look-ups of the server's name; NULL: the address is fixed */
    ngx_mcds_resolve_t     *resolve;

    void                  (*retire)(ngx_mcds_server_t *server);
                                         /*
                                          * called when the server's address has
                                          * changed: ngx_mcds_server_retire()
                                          */
    ngx_mcds_op_t           probe_op;
    ngx_mcds_op_t           usage_op;
#if (NGX_SSL)
    ngx_ssl_session_t      *session;     /* TLS session of the server to
                                            resume */
#endif

    unsigned                hung_up:1;   /* the server closed the connection
                                            instead of a reply to the greeting,
                                            "version" */
    unsigned                down:1;      /* the server is down by configuration,
                                            or its circuit breaker is open */
    unsigned                unsupported:1;
    unsigned                told:1;      /* a failure of the server was logged,
                                            and the server has not replied
                                            since */
    unsigned                mute:1;      /* the server does not support
                                            "stats" */
};


/* an exchange: a command on a connection, and its expected reply */

struct ngx_mcds_exchange_s {
    ngx_queue_t             queue;

    /* the operation that gets the reply; NULL: the reply is dropped */
    ngx_mcds_op_t          *op;

    ngx_mcds_value_t       *value;       /* value that the command is sending */

    ngx_uint_t              verb;
    ngx_uint_t              want;        /* NGX_MCDS_VALUE if the reply must
                                            have a value */
    ngx_uint_t              asked;       /* all fields of the item that the
                                            request wants */
    ngx_uint_t              words;       /* possible replies to the command in
                                            the classic protocol */
    ngx_msec_t              deadline;
    uint64_t                start;       /* when the command was queued,
                                            microseconds */
    uint64_t                begin;       /* bytes queued on the connection
                                            before the command */
    uint64_t                end;         /* bytes queued on the connection up to
                                            the end of the command */
    size_t                  size;
    size_t                  limit;
    uint32_t                opaque;
    unsigned                probe:1;     /* the command is a probe of a server
                                            that is down */
    unsigned                repeated:1;  /* the command was sent once more after
                                            a lost connection */
    ngx_mcds_key_t          key;
};


/*
 * the first exchange (a command and its reply) of a connection, whose reply the
 * server sends next.  The connection must have an exchange.
 */

#define ngx_mcds_conn_head(conn)                                              \
    ngx_queue_data(ngx_queue_head(&(conn)->exchanges), ngx_mcds_exchange_t,   \
                   queue)


/*
 * Returns the connection to a server for large values (bulk) or the one for all
 * other commands, and creates it if necessary.  Returns NULL if out of memory.
 */

ngx_mcds_conn_t *ngx_mcds_conn_get(ngx_mcds_server_t *server, ngx_uint_t bulk);


/*
 * Encodes cmd for sending, and queues ex, the exchange of this command and its
 * reply, on the connection, which then owns ex.  ex->key must be set.  If the
 * command stores a value, this is ex->value or, if that is NULL, text.  Returns
 * NGX_ERROR if out of memory, or NGX_BUSY if the queue is full; the caller then
 * still owns ex.
 */

ngx_int_t ngx_mcds_conn_push(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_mcds_cmd_t *cmd, ngx_str_t *text);


/*
 * Closes the socket of the connection, and fails all operations that wait for a
 * reply: with rc, or with DOWN if no byte of the command was sent.
 */

void ngx_mcds_conn_close(ngx_mcds_conn_t *conn, ngx_uint_t rc);


/*
 * Closes the connection as ngx_mcds_conn_close() does and counts a failure for
 * the server's circuit breaker, unless the connection is retired (gets no new
 * commands, as the server's address has changed).
 */

void ngx_mcds_conn_fail(ngx_mcds_conn_t *conn, ngx_uint_t rc);


/*
 * Closes a connection that was lost without a failure of the server, such as
 * one that the server had closed as idle: pending GETs are sent once more on a
 * new connection, all other operations fail.
 */

void ngx_mcds_conn_lost(ngx_mcds_conn_t *conn);


/*
 * Called when the server's address has changed.  Connections to the old address
 * get no new commands: those with pending commands are freed after their last
 * reply, the others are closed at once.
 */

void ngx_mcds_server_retire(ngx_mcds_server_t *server);


/* Frees a connection to a server, without calling a handler. */

void ngx_mcds_conn_destroy(ngx_mcds_conn_t *conn);


/*
 * Makes a connection ready for commands, after the server has replied to the
 * greeting ("version"), and sends the queued commands.  This and the following
 * functions are called by the files that implement a connection.
 */

void ngx_mcds_conn_ready(ngx_mcds_conn_t *conn);


/* Sends the unsent commands of the connection.  May close the connection. */

void ngx_mcds_conn_send(ngx_mcds_conn_t *conn);


/* Frees a link of out, the chain of unsent commands, or keeps it for reuse. */

void ngx_mcds_conn_free_block(ngx_mcds_conn_t *conn, ngx_chain_t *cl);


/* Sets the timer of the connection to the earliest of its deadlines. */

void ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn);


/*
 * Receives from the server into the buffer of reply lines or, if the next bytes
 * belong to a large value, into its buffer.  Returns the result of c->recv().
 */

ssize_t ngx_mcds_reply_recv(ngx_mcds_conn_t *conn);


/*
 * Processes the bytes received on the connection.  Returns NGX_OK, or NGX_ERROR
 * if the connection was closed.
 */

ngx_int_t ngx_mcds_reply_process(ngx_mcds_conn_t *conn);


/*
 * Called when the deadline of the connection's first pending command has
 * passed.  Returns NGX_OK, with the connection closed, if the late reply has a
 * value that is being dropped (too large for its operation, not requested, or
 * without memory for it): this is no failure of the server.  Otherwise returns
 * NGX_DECLINED.
 */

ngx_int_t ngx_mcds_reply_late(ngx_mcds_conn_t *conn);


#if (NGX_SSL)

/*
 * Starts the TLS handshake on a connected socket.  The handler is called at the
 * end, possibly from inside of this call, with NGX_OK, or NGX_ERROR if the
 * handshake failed, which is logged.  Returns NGX_ERROR if the handshake could
 * not be started.
 */

ngx_int_t ngx_mcds_ssl_handshake(ngx_mcds_conn_t *conn,
    void (*handler)(ngx_mcds_conn_t *conn, ngx_int_t rc));


/*
 * Shuts the TLS of a connection down, without waiting for the server, before
 * the socket is closed.
 */

void ngx_mcds_ssl_close(ngx_connection_t *c);

#endif


#endif /* _NGX_MCDS_CONN_H_INCLUDED_ */
