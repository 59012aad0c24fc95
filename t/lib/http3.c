
/*
 * Copyright (C) mcds authors
 *
 * An HTTP/3 client for the tests: one connection, whose requests the test
 * controls.
 *
 *     http3 [-n server name] [-w window of a stream] [-s file] address port
 *
 * Commands are lines of standard input, with words separated by tabs:
 *
 *     request tag name value name value ...  names are those of headers, also
 *                   pseudo headers, or "body", or "paused"
 *     reset tag     ends both directions of the stream
 *     stop tag      asks the server to stop sending
 *     resume tag    opens the window of a paused stream
 *     close         ends the connection, and the program
 *     go            see -s
 *
 * If the program ends without "close", it does not notify the server.
 *
 * The output is lines, too:
 *
 *     connected new|early
 *     status tag number
 *     header tag name: value
 *     data tag length  the given number of bytes follows the line
 *     end tag       the answer is complete
 *     reset tag code  the answer ends incomplete
 *     closed reason  is the last line
 *
 * With -s the client saves its TLS session in the file, and resumes a session
 * saved there before: requests up to the command "go" are sent as early data.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <nghttp3/nghttp3.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>


#define MAX_WORDS      128
#define MAX_LINE       131072
#define WINDOW         (16 * 1024 * 1024)
#define CANCELLED      0x10c          /* the error H3_REQUEST_CANCELLED of
                                         HTTP/3 */


typedef struct stream_s  stream_t;

struct stream_s {
    int64_t      id;
    long         tag;
    char        *body;
    int          paused;
    uint64_t     owed;              /* bytes of flow control credit that the
                                       server gets when the paused stream is
                                       resumed */
    stream_t    *next;
};


static void setup(char *address, int port);
static void setup_tls(void);
static int setup_http(void);
static void restore(void);
static void loop(void);
static void receive(void);
static void transmit(void);
static void read_commands(void);
static void command(char *line);
static void request(char **word, int n);
static stream_t *find(char *tag);
static stream_t *open_stream(char *tag);
static void leave(void);
static void end(const char *fmt, ...);
static char *room(size_t len);
static void put(const char *fmt, ...);
static void flush(void);
static uint64_t now(void);


static int                      fd, early, ready, go;
static char                    *server_name = "localhost", *session_file;
static uint64_t                 window = WINDOW;
static char                     line[MAX_LINE], *out;
static size_t                   line_len, out_len, out_size;
static stream_t                *streams;
static ngtcp2_conn             *conn;
static ngtcp2_path_storage      path;
static ngtcp2_crypto_conn_ref   conn_ref;
static nghttp3_conn            *http;
static gnutls_session_t         session;


int
main(int argc, char **argv)
{
    int  opt;

    while ((opt = getopt(argc, argv, "n:w:s:")) != -1) {
        switch (opt) {
        case 'n': server_name = optarg; break;
        case 'w': window = strtoull(optarg, NULL, 10); break;
        case 's': session_file = optarg; break;
        default: return 2;
        }
    }

    if (argc - optind != 2) {
        fprintf(stderr, "http3: address and port are needed\n");
        return 2;
    }

    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);

    setup(argv[optind], atoi(argv[optind + 1]));
    loop();

    return 0;
}


/* the functions that the QUIC library ngtcp2 calls */

static ngtcp2_conn *
get_conn(ngtcp2_crypto_conn_ref *ref)
{
    return conn;
}


static void
random_bytes(uint8_t *dest, size_t len, const ngtcp2_rand_ctx *ctx)
{
    (void) gnutls_rnd(GNUTLS_RND_RANDOM, dest, len);
}


static int
new_connection_id(ngtcp2_conn *c, ngtcp2_cid *cid, uint8_t *token, size_t len,
    void *data)
{
    cid->datalen = len;

    return gnutls_rnd(GNUTLS_RND_RANDOM, cid->data, len) != 0
           || gnutls_rnd(GNUTLS_RND_RANDOM, token,
                         NGTCP2_STATELESS_RESET_TOKENLEN) != 0
           ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
}


static int
handshake_completed(ngtcp2_conn *c, void *data)
{
    if (!ready && setup_http() != 0) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }

    /*
     * the client ends if the server refuses early data (0-RTT), since it does
     * not send refused data again
     */

    if (early
        && !(gnutls_session_get_flags(session) & GNUTLS_SFLAGS_EARLY_DATA))
    {
        end("early data refused");
    }

    put("connected %s\n", early ? "early" : "new");

    return 0;
}


static int
stream_data(ngtcp2_conn *c, uint32_t flags, int64_t id, uint64_t offset,
    const uint8_t *bytes, size_t len, void *data, void *stream)
{
    nghttp3_ssize  n;

    n = nghttp3_conn_read_stream(http, id, bytes, len,
                                 flags & NGTCP2_STREAM_DATA_FLAG_FIN);
    if (n < 0) {
        end("HTTP/3: %s", nghttp3_strerror(n));
    }

    ngtcp2_conn_extend_max_stream_offset(c, id, n);
    ngtcp2_conn_extend_max_offset(c, n);

    return 0;
}


static int
stream_acked(ngtcp2_conn *c, int64_t id, uint64_t offset, uint64_t len,
    void *data, void *stream)
{
    return nghttp3_conn_add_ack_offset(http, id, len) == 0
           ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}


static int
stream_closed(ngtcp2_conn *c, uint32_t flags, int64_t id, uint64_t code,
    void *data, void *stream)
{
    int  rc;

    if (!(flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET)) {
        code = NGHTTP3_H3_NO_ERROR;
    }

    rc = nghttp3_conn_close_stream(http, id, code);

    return rc == 0 || rc == NGHTTP3_ERR_STREAM_NOT_FOUND
           ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}


static int
stream_reset(ngtcp2_conn *c, int64_t id, uint64_t size, uint64_t code,
    void *data, void *stream)
{
    stream_t  *s = stream;

    if (s) {
        put("reset %ld %llu\n", s->tag, (unsigned long long) code);
    }

    (void) nghttp3_conn_shutdown_stream_read(http, id);

    return 0;
}


/* the functions that the HTTP/3 library nghttp3 calls */

static int
http_header(nghttp3_conn *h, int64_t id, int32_t token, nghttp3_rcbuf *name,
    nghttp3_rcbuf *value, uint8_t flags, void *data, void *stream)
{
    stream_t     *s = stream;
    nghttp3_vec   n, v;

    n = nghttp3_rcbuf_get_buf(name);
    v = nghttp3_rcbuf_get_buf(value);

    if (token == NGHTTP3_QPACK_TOKEN__STATUS) {
        put("status %ld %.*s\n", s->tag, (int) v.len, v.base);

    } else {
        put("header %ld %.*s: %.*s\n", s->tag, (int) n.len, n.base,
            (int) v.len, v.base);
    }

    return 0;
}


static int
http_data(nghttp3_conn *h, int64_t id, const uint8_t *bytes, size_t len,
    void *data, void *stream)
{
    stream_t  *s = stream;

    put("data %ld %zu\n", s->tag, len);
    memcpy(room(len), bytes, len);
    out_len += len;

    ngtcp2_conn_extend_max_offset(conn, len);

    if (s->paused) {
        s->owed += len;

    } else {
        ngtcp2_conn_extend_max_stream_offset(conn, id, len);
    }

    return 0;
}


static int
http_consumed(nghttp3_conn *h, int64_t id, size_t len, void *data,
    void *stream)
{
    ngtcp2_conn_extend_max_stream_offset(conn, id, len);
    ngtcp2_conn_extend_max_offset(conn, len);

    return 0;
}


static int
http_end(nghttp3_conn *h, int64_t id, void *data, void *stream)
{
    stream_t  *s = stream;

    put("end %ld\n", s->tag);

    return 0;
}


static int
http_stop(nghttp3_conn *h, int64_t id, uint64_t code, void *data,
    void *stream)
{
    (void) ngtcp2_conn_shutdown_stream_read(conn, id, code);

    return 0;
}


static int
http_reset(nghttp3_conn *h, int64_t id, uint64_t code, void *data,
    void *stream)
{
    (void) ngtcp2_conn_shutdown_stream_write(conn, id, code);

    return 0;
}


static nghttp3_ssize
http_body(nghttp3_conn *h, int64_t id, nghttp3_vec *vec, size_t n,
    uint32_t *flags, void *data, void *stream)
{
    stream_t  *s = stream;

    vec[0].base = (uint8_t *) s->body;
    vec[0].len = strlen(s->body);

    *flags |= NGHTTP3_DATA_FLAG_EOF;

    return 1;
}


/* opens the QUIC connection to the server */

static void
setup(char *address, int port)
{
    socklen_t                len;
    ngtcp2_cid               dcid, scid;
    ngtcp2_settings          settings;
    ngtcp2_callbacks         cb;
    struct sockaddr_in       local, remote;
    ngtcp2_transport_params  params;

    memset(&remote, 0, sizeof(remote));
    remote.sin_family = AF_INET;
    remote.sin_port = htons(port);

    len = sizeof(local);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    if (inet_pton(AF_INET, address, &remote.sin_addr) != 1
        || connect(fd, (struct sockaddr *) &remote, sizeof(remote)) != 0
        || getsockname(fd, (struct sockaddr *) &local, &len) != 0)
    {
        end("no socket: %s", strerror(errno));
    }

    ngtcp2_path_storage_init(&path, (ngtcp2_sockaddr *) &local, sizeof(local),
                             (ngtcp2_sockaddr *) &remote, sizeof(remote), NULL);

    memset(&cb, 0, sizeof(cb));
    cb.client_initial = ngtcp2_crypto_client_initial_cb;
    cb.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb;
    cb.encrypt = ngtcp2_crypto_encrypt_cb;
    cb.decrypt = ngtcp2_crypto_decrypt_cb;
    cb.hp_mask = ngtcp2_crypto_hp_mask_cb;
    cb.recv_retry = ngtcp2_crypto_recv_retry_cb;
    cb.update_key = ngtcp2_crypto_update_key_cb;
    cb.delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb;
    cb.delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb;
    cb.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb;
    cb.version_negotiation = ngtcp2_crypto_version_negotiation_cb;
    cb.rand = random_bytes;
    cb.get_new_connection_id = new_connection_id;
    cb.handshake_completed = handshake_completed;
    cb.recv_stream_data = stream_data;
    cb.acked_stream_data_offset = stream_acked;
    cb.stream_close = stream_closed;
    cb.stream_reset = stream_reset;

    ngtcp2_settings_default(&settings);
    settings.initial_ts = now();

    ngtcp2_transport_params_default(&params);
    params.initial_max_streams_uni = 3;
    params.initial_max_stream_data_bidi_local = window;
    params.initial_max_stream_data_uni = WINDOW;
    params.initial_max_data = WINDOW;
    params.max_idle_timeout = 60 * NGTCP2_SECONDS;

    dcid.datalen = 18;
    scid.datalen = 17;
    random_bytes(dcid.data, dcid.datalen, NULL);
    random_bytes(scid.data, scid.datalen, NULL);

    if (ngtcp2_conn_client_new(&conn, &dcid, &scid, &path.path,
                               NGTCP2_PROTO_VER_V1, &cb, &settings, &params,
                               NULL, NULL)
        != 0)
    {
        end("no connection");
    }

    setup_tls();

    if (early && setup_http() != 0) {
        end("no streams for early data");
    }
}


/* saves the TLS session to a file, for another client that resumes it */

static int
save(gnutls_session_t tls, unsigned int type, unsigned int when,
    unsigned int incoming, const gnutls_datum_t *message)
{
    FILE                           *f;
    gnutls_datum_t                  data;
    const ngtcp2_transport_params  *params;

    params = ngtcp2_conn_get_remote_transport_params(conn);

    if (params == NULL || gnutls_session_get_data2(tls, &data) != 0) {
        return 0;
    }

    f = fopen(session_file, "w");

    if (f) {
        fwrite(params, sizeof(*params), 1, f);
        fwrite(data.data, data.size, 1, f);
        fclose(f);
    }

    gnutls_free(data.data);

    return 0;
}


static void
setup_tls(void)
{
    gnutls_datum_t                    alpn;
    gnutls_certificate_credentials_t  cred;

    conn_ref.get_conn = get_conn;

    alpn.data = (unsigned char *) "h3";
    alpn.size = 2;

    if (gnutls_certificate_allocate_credentials(&cred) != 0
        || gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_ENABLE_EARLY_DATA
                                 | GNUTLS_NO_END_OF_EARLY_DATA)
           != 0
        || ngtcp2_crypto_gnutls_configure_client_session(session) != 0
        || gnutls_priority_set_direct(session, "NORMAL:-VERS-ALL:+VERS-TLS1.3:"
                                      "%DISABLE_TLS13_COMPAT_MODE", NULL)
           != 0
        || gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, cred) != 0
        || gnutls_server_name_set(session, GNUTLS_NAME_DNS, server_name,
                                  strlen(server_name))
           != 0
        || gnutls_alpn_set_protocols(session, &alpn, 1, 0) != 0)
    {
        end("no TLS");
    }

    gnutls_session_set_ptr(session, &conn_ref);

    if (session_file) {
        gnutls_handshake_set_hook_function(session,
                                           GNUTLS_HANDSHAKE_NEW_SESSION_TICKET,
                                           GNUTLS_HOOK_POST, save);
        restore();
    }

    ngtcp2_conn_set_tls_native_handle(conn, session);
}


static void
restore(void)
{
    FILE                     *f;
    size_t                    n;
    static char               data[65536];
    ngtcp2_transport_params   params;

    f = fopen(session_file, "r");

    if (f == NULL) {
        return;
    }

    if (fread(&params, sizeof(params), 1, f) == 1) {
        n = fread(data, 1, sizeof(data), f);

        if (gnutls_session_set_data(session, data, n) == 0
            && gnutls_record_get_max_early_data_size(session) != 0)
        {
            ngtcp2_conn_set_early_remote_transport_params(conn, &params);
            early = 1;
        }
    }

    fclose(f);
}


static int
setup_http(void)
{
    int64_t            control, encoder, decoder;
    nghttp3_settings   settings;
    nghttp3_callbacks  cb;

    memset(&cb, 0, sizeof(cb));
    cb.recv_header = http_header;
    cb.recv_trailer = http_header;
    cb.recv_data = http_data;
    cb.deferred_consume = http_consumed;
    cb.end_stream = http_end;
    cb.stop_sending = http_stop;
    cb.reset_stream = http_reset;

    nghttp3_settings_default(&settings);
    settings.qpack_max_dtable_capacity = 4096;
    settings.qpack_blocked_streams = 16;

    ready = 1;

    return nghttp3_conn_client_new(&http, &cb, &settings, NULL, NULL) != 0
           || ngtcp2_conn_open_uni_stream(conn, &control, NULL) != 0
           || ngtcp2_conn_open_uni_stream(conn, &encoder, NULL) != 0
           || ngtcp2_conn_open_uni_stream(conn, &decoder, NULL) != 0
           || nghttp3_conn_bind_control_stream(http, control) != 0
           || nghttp3_conn_bind_qpack_streams(http, encoder, decoder) != 0;
}


static void
loop(void)
{
    int            rc, wait;
    uint64_t       t, expiry;
    struct pollfd  p[3];

    while (early && !go) {
        read_commands();
    }

    for ( ;; ) {
        transmit();
        flush();

        t = now();
        expiry = ngtcp2_conn_get_expiry(conn);
        wait = expiry == UINT64_MAX ? -1
               : expiry <= t ? 0 : (int) ((expiry - t) / 1000000 + 1);

        p[0].fd = fd;
        p[0].events = POLLIN;
        p[1].fd = ready ? STDIN_FILENO : -1;
        p[1].events = POLLIN;
        p[2].fd = out_len ? STDOUT_FILENO : -1;
        p[2].events = POLLOUT;

        if (poll(p, 3, wait) < 0) {
            end("poll: %s", strerror(errno));
        }

        if (p[0].revents) {
            receive();
        }

        if (p[1].revents) {
            read_commands();
        }

        t = now();

        if (ngtcp2_conn_get_expiry(conn) <= t) {
            rc = ngtcp2_conn_handle_expiry(conn, t);

            if (rc != 0) {
                end("%s", ngtcp2_strerror(rc));
            }
        }
    }
}


static void
receive(void)
{
    int              i, rc;
    ssize_t          n;
    uint8_t          buf[65536];
    ngtcp2_pkt_info  info;

    memset(&info, 0, sizeof(info));

    /*
     * reads at most 16 packets at a time, so that acknowledgements of QUIC are
     * sent meanwhile
     */

    for (i = 0; i < 16; i++) {
        n = recv(fd, buf, sizeof(buf), 0);

        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) {
                end("recv: %s", strerror(errno));
            }

            return;
        }

        rc = ngtcp2_conn_read_pkt(conn, &path.path, &info, buf, n, now());

        if (rc != 0) {
            end("%s", ngtcp2_strerror(rc));
        }
    }
}


static void
transmit(void)
{
    int              fin;
    int64_t          id;
    uint8_t          buf[1500];
    uint32_t         flags;
    nghttp3_vec      vec[16];
    ngtcp2_ssize     n, len;
    nghttp3_ssize    k;
    ngtcp2_pkt_info  info;

    for ( ;; ) {
        id = -1;
        fin = 0;
        k = 0;

        if (ready && ngtcp2_conn_get_max_data_left(conn)) {
            k = nghttp3_conn_writev_stream(http, &id, &fin, vec, 16);

            if (k < 0) {
                end("HTTP/3: %s", nghttp3_strerror(k));
            }
        }

        flags = NGTCP2_WRITE_STREAM_FLAG_MORE;

        if (fin) {
            flags |= NGTCP2_WRITE_STREAM_FLAG_FIN;
        }

        n = ngtcp2_conn_writev_stream(conn, NULL, &info, buf, sizeof(buf), &len,
                                      flags, id, (ngtcp2_vec *) vec, k, now());

        if (n == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
            nghttp3_conn_block_stream(http, id);
            continue;
        }

        if (n == NGTCP2_ERR_STREAM_SHUT_WR) {
            nghttp3_conn_shutdown_stream_write(http, id);
            continue;
        }

        if ((n == NGTCP2_ERR_WRITE_MORE || n >= 0) && id >= 0 && len >= 0) {
            nghttp3_conn_add_write_offset(http, id, len);
        }

        if (n == NGTCP2_ERR_WRITE_MORE) {
            continue;
        }

        if (n < 0) {
            end("%s", ngtcp2_strerror(n));
        }

        if (n == 0) {
            ngtcp2_conn_update_pkt_tx_time(conn, now());
            return;
        }

        if (send(fd, buf, n, 0) < 0 && errno != EAGAIN) {
            end("send: %s", strerror(errno));
        }
    }
}


static void
read_commands(void)
{
    char     *p;
    ssize_t   n;

    n = read(STDIN_FILENO, line + line_len, sizeof(line) - line_len - 1);

    if (n <= 0) {
        exit(0);
    }

    line_len += n;
    line[line_len] = '\0';

    while ((p = strchr(line, '\n'))) {
        *p++ = '\0';
        command(line);

        line_len -= p - line;
        memmove(line, p, line_len + 1);
    }
}


static void
command(char *text)
{
    int        n;
    char      *word[MAX_WORDS];
    stream_t  *s;

    for (n = 0; n < MAX_WORDS && text; n++) {
        word[n] = strsep(&text, "\t");
    }

    if (strcmp(word[0], "close") == 0) {
        leave();
    }

    if (strcmp(word[0], "go") == 0) {
        go = 1;
        return;
    }

    if (strcmp(word[0], "request") == 0) {
        request(word, n);
        return;
    }

    s = n > 1 ? find(word[1]) : NULL;

    if (s == NULL) {
        end("no such stream: %s", word[0]);
    }

    if (strcmp(word[0], "reset") == 0) {
        (void) ngtcp2_conn_shutdown_stream(conn, s->id, CANCELLED);

    } else if (strcmp(word[0], "stop") == 0) {
        (void) ngtcp2_conn_shutdown_stream_read(conn, s->id, CANCELLED);

    } else if (strcmp(word[0], "resume") == 0) {
        ngtcp2_conn_extend_max_stream_offset(conn, s->id, s->owed);
        s->paused = 0;
        s->owed = 0;

    } else {
        end("no such command: %s", word[0]);
    }
}


static void
request(char **word, int n)
{
    int                   i, count;
    stream_t             *s;
    nghttp3_nv            nv[MAX_WORDS / 2];
    nghttp3_data_reader   reader;

    s = open_stream(word[1]);

    for (i = 2, count = 0; i + 1 < n; i += 2) {
        if (strcmp(word[i], "body") == 0) {
            s->body = strdup(word[i + 1]);
            continue;
        }

        if (strcmp(word[i], "paused") == 0) {
            s->paused = 1;
            continue;
        }

        nv[count].name = (uint8_t *) word[i];
        nv[count].namelen = strlen(word[i]);
        nv[count].value = (uint8_t *) word[i + 1];
        nv[count].valuelen = strlen(word[i + 1]);
        nv[count].flags = NGHTTP3_NV_FLAG_NONE;
        count++;
    }

    reader.read_data = http_body;

    if (nghttp3_conn_submit_request(http, s->id, nv, count,
                                    s->body ? &reader : NULL, s)
        != 0)
    {
        end("no request");
    }
}


static stream_t *
find(char *tag)
{
    long       n;
    stream_t  *s;

    n = atol(tag);

    for (s = streams; s && s->tag != n; s = s->next) { /* void */ }

    return s;
}


static stream_t *
open_stream(char *tag)
{
    stream_t  *s;

    s = calloc(1, sizeof(stream_t));

    if (s == NULL || ngtcp2_conn_open_bidi_stream(conn, &s->id, s) != 0) {
        end("no more streams");
    }

    s->tag = atol(tag);
    s->next = streams;
    streams = s;

    return s;
}


static void
leave(void)
{
    uint8_t                         buf[1500];
    ngtcp2_ssize                    n;
    ngtcp2_pkt_info                 info;
    ngtcp2_connection_close_error   why;

    transmit();

    ngtcp2_connection_close_error_default(&why);
    ngtcp2_connection_close_error_set_application_error(&why,
                                                        NGHTTP3_H3_NO_ERROR,
                                                        NULL, 0);

    n = ngtcp2_conn_write_connection_close(conn, NULL, &info, buf, sizeof(buf),
                                           &why, now());

    if (n > 0) {
        (void) !send(fd, buf, n, 0);
    }

    end("by the client");
}


static void
end(const char *fmt, ...)
{
    char     text[256];
    va_list  args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    put("closed %s\n", text);

    fcntl(STDOUT_FILENO, F_SETFL, 0);
    flush();

    exit(0);
}


/*
 * Makes room for output of the client, which is buffered in memory: the client
 * has to accept commands while the test does not read its output.
 */

static char *
room(size_t len)
{
    if (out_len + len > out_size) {
        out_size = 2 * (out_len + len);
        out = realloc(out, out_size);

        if (out == NULL) {
            exit(1);
        }
    }

    return out + out_len;
}


static void
put(const char *fmt, ...)
{
    int      n;
    va_list  args;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);

    va_start(args, fmt);
    out_len += vsnprintf(room(n + 1), n + 1, fmt, args);
    va_end(args);
}


static void
flush(void)
{
    ssize_t  n;

    while (out_len) {
        n = write(STDOUT_FILENO, out, out_len);

        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                return;
            }

            exit(0);
        }

        out_len -= n;
        memmove(out, out + n, out_len);
    }
}


static uint64_t
now(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (uint64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}
