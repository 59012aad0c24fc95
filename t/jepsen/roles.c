
/*
 * Copyright (C) mcds authors
 *
 * The requests of the clients of the long chaos run, see crowd.h.  Each line of
 * history begins with a letter, and with
 *
 *   begin end host client op uri status
 *
 * Times are microseconds; status is 0 without a response.  The rest of a line:
 *
 *   P  a page              cache reason verdict version n
 *   X  a purge             (op: how, and by which means; uri: of which page)
 *   N  a number            number or "-"
 *   L  a lock by HTTP      owner token ttl
 *   K  a request with mcds_lock
 *   G  a line of a log     id
 *   T  a table             value or "-", that was written or read
 */


#define _GNU_SOURCE

#include <unistd.h>
#include <zlib.h>

#include "crowd.h"


#define DASH(text)  ((text)[0] ? (text) : "-")


typedef struct {
    char    letter;
    int     clients;                  /* of 72 clients */
    double  rate;
    void  (*ask)(client_t *c);
    void  (*answer)(client_t *c, answer_t *a);
} role_t;


static void ask(client_t *c, char *method, char *headers, char *body);
static void line(client_t *c, answer_t *a);
static void pick_page(client_t *c, char *kinds);

static void ask_page(client_t *c);
static void answer_page(client_t *c, answer_t *a);
static size_t unzip(answer_t *a, char **to);
static void ask_purge(client_t *c);
static void answer_purge(client_t *c, answer_t *a);
static void ask_number(client_t *c);
static void answer_number(client_t *c, answer_t *a);
static void ask_lock(client_t *c);
static void answer_lock(client_t *c, answer_t *a);
static void ask_locked(client_t *c);
static void answer_locked(client_t *c, answer_t *a);
static void ask_log(client_t *c);
static void answer_log(client_t *c, answer_t *a);
static void ask_writer(client_t *c);
static void ask_reader(client_t *c);
static void answer_table(client_t *c, answer_t *a);


static role_t  roles[] = {
    { 'P', 28, 26, ask_page, answer_page },
    { 'X', 4, 3, ask_purge, answer_purge },
    { 'N', 9, 14, ask_number, answer_number },
    { 'L', 8, 6, ask_lock, answer_lock },
    { 'K', 4, 3, ask_locked, answer_locked },
    { 'G', 4, 8, ask_log, answer_log },
    { 'T', 8, 6, ask_writer, answer_table },
    { 'T', 7, 10, ask_reader, answer_table },
};

#define ROLES    (int) (sizeof(roles) / sizeof(roles[0]))
#define WRITERS  8


/* the locations, by where their pages are stored; "t": with tags */

static char  *places[] = { "r", "rt", "p", "pt", "e", "et" };


int
role_of(int index, int *nth)
{
    int  i, n, all;

    for (all = 0, i = 0; i < ROLES; i++) {
        all += roles[i].clients;
    }

    n = index % all;

    for (i = 0; n >= roles[i].clients; i++) {
        n -= roles[i].clients;
    }

    *nth = n + index / all * roles[i].clients;

    return i;
}


double
role_rate(int role)
{
    return roles[role].rate;
}


void
role_ask(client_t *c)
{
    roles[c->role].ask(c);
}


void
role_answer(client_t *c, answer_t *a)
{
    roles[c->role].answer(c, a);
}


static void
ask(client_t *c, char *method, char *headers, char *body)
{
    char  length[64];

    length[0] = '\0';

    if (body) {
        snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
                 strlen(body));
    }

    c->request_len = snprintf(c->request, sizeof(c->request),
                              "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s",
                              method, c->uri, headers ? headers : "", length,
                              body ? body : "");
}


static void
line(client_t *c, answer_t *a)
{
    fprintf(history, "%c %llu %llu %d %d %s %s %d", roles[c->role].letter,
            (unsigned long long) c->begin, (unsigned long long) c->end,
            c->host, c->index, c->op, c->uri, a->status);
}


/*
 * Picks a kind, as often as its letter is in kinds, and a page.  There are few
 * pages of each kind, so that purges and readers meet.
 */

static void
pick_page(client_t *c, char *kinds)
{
    char        kind;
    static int  pages[128] = { ['s'] = 10, ['k'] = 6, ['m'] = 4, ['v'] = 3,
                               ['u'] = 4, ['t'] = 3, ['l'] = 2, ['p'] = 3 };

    kind = kinds[jepsen_below(&c->rnd, strlen(kinds))];

    snprintf(c->uri, sizeof(c->uri), "/%s/%c/%d",
             places[jepsen_below(&c->rnd, 6)], kind,
             (int) jepsen_below(&c->rnd, pages[(int) kind]));
    snprintf(c->op, sizeof(c->op), "%c", kind);
}


static void
ask_page(client_t *c)
{
    int    n;
    char   headers[256], kind;

    static char  *langs[] = { "de", "en", "fr" };

    pick_page(c, "sssssssssssssskkkkkkkkkkkkkkkkkkmmmvvvvvuuuutppl");

    kind = c->op[0];
    headers[0] = '\0';
    strcpy(c->user, "all");
    strcpy(c->lang, "none");
    n = jepsen_below(&c->rnd, 1000);

    if (kind == 'u' && n < 800) {
        snprintf(c->user, sizeof(c->user), "user%d", n);
        snprintf(headers, sizeof(headers),
                 n < 500 ? "Cookie: a=b; session=%s\r\n"
                         : "Authorization: Bearer %s\r\n", c->user);

    } else if (kind == 't') {
        snprintf(c->user, sizeof(c->user), "user%d", n);
        snprintf(headers, sizeof(headers), "X-Token: %s\r\n", c->user);

    } else if (kind == 'v') {
        strcpy(c->lang, langs[n % 3]);
        snprintf(headers, sizeof(headers), "Accept-Language: %s\r\n", c->lang);
    }

    if (jepsen_below(&c->rnd, 4) == 0) {
        strcat(headers, "Accept-Encoding: gzip\r\n");
    }

    if (kind == 'p' && n < 60) {
        strcpy(c->op, "post");
        ask(c, "POST", headers, "x");
        return;
    }

    if (jepsen_below(&c->rnd, 70) == 0) {
        c->leave = jepsen_now() + jepsen_below(&c->rnd, 60000);
    }

    ask(c, "GET", headers, NULL);
}


static void
answer_page(client_t *c, answer_t *a)
{
    char        *plain;
    size_t       len;
    uint64_t     version, n;
    const char  *verdict;

    version = 0;
    n = 0;
    verdict = "none";

    if (a->status == 200) {
        if (strcmp(a->encoding, "gzip") == 0) {
            len = unzip(a, &plain);
            verdict = jepsen_check(plain, len, c->uri, c->user, c->lang,
                                   &version, &n);
            free(plain);

        } else {
            verdict = jepsen_check(a->body, a->len, c->uri, c->user, c->lang,
                                   &version, &n);
        }
    }

    line(c, a);
    fprintf(history, " %s %s %s %llu %llu\n", DASH(a->cache), DASH(a->reason),
            verdict, (unsigned long long) version, (unsigned long long) n);
}


/*
 * Returns the length of the decoded body; 0 if the body is invalid, or followed
 * by more data.
 */

static size_t
unzip(answer_t *a, char **to)
{
    int       rc;
    size_t    size;
    z_stream  z;

    size = 2 * 1024 * 1024;
    *to = malloc(size);

    memset(&z, 0, sizeof(z));
    inflateInit2(&z, 31);
    z.next_in = (Bytef *) a->body;
    z.avail_in = a->len;
    z.next_out = (Bytef *) *to;
    z.avail_out = size;

    rc = inflate(&z, Z_FINISH);
    size = (rc == Z_STREAM_END && z.avail_in == 0) ? z.total_out : 0;
    inflateEnd(&z);

    return size;
}


/*
 * Purges by tag, at locations with tags, by key, or by a request for the page,
 * which deletes the page at locations without tags.
 */

static void
ask_purge(client_t *c)
{
    int    way;
    char   page[256], place[8], *mode;

    pick_page(c, "kkkkkkkvvl");
    strcpy(page, c->uri);
    snprintf(place, sizeof(place), "%.*s", (int) strcspn(page + 1, "/"),
             page + 1);

    mode = jepsen_below(&c->rnd, 2) ? "delete" : "invalidate";
    way = jepsen_below(&c->rnd, 2);

    if (strchr(place, 't') && jepsen_below(&c->rnd, 3)) {
        way = 2;
    }

    if (way == 0) {
        snprintf(c->op, sizeof(c->op), "%s-url",
                 strchr(place, 't') ? "invalidate" : "delete");
        ask(c, "PURGE", NULL, NULL);
        return;
    }

    snprintf(c->op, sizeof(c->op), "%s-%s", mode, way == 2 ? "tag" : "key");
    snprintf(c->uri, sizeof(c->uri), "/purge/%c?mode=%s&%s%s", place[0], mode,
             way == 2 ? "tag=" : "key=http://localhost", page);
    ask(c, "GET", NULL, NULL);
    strcpy(c->uri, page);
}


static void
answer_purge(client_t *c, answer_t *a)
{
    line(c, a);
    fprintf(history, "\n");
}


static void
ask_number(client_t *c)
{
    int  key;

    static char  *ways[] = { "plain", "plain", "twice", "async" };

    strcpy(c->op, ways[jepsen_below(&c->rnd, 4)]);
    key = jepsen_below(&c->rnd, 8);

    /* a new counter, which several clients use at the same moment */

    if (c->step) {
        c->step = 0;
        strcpy(c->op, jepsen_now() / 1000000 % 3 ? "twice" : "plain");
        snprintf(c->uri, sizeof(c->uri), "/count/%s/new%d", c->op,
                 (int) (jepsen_now() / 1000000 % 1000000));
        ask(c, "GET", NULL, NULL);
        return;
    }

    /*
     * There are few counters, so that all are used between two deaths of a
     * server, and soon others, since the start of a counter matters.  A
     * previous counter is used rarely: a server that has returned gets missing
     * increments in a pause.
     */

    if (strcmp(c->op, "twice") == 0) {
        key = jepsen_now() / 20000000 % 100000 * 10 + key % 3;

        if (jepsen_below(&c->rnd, 40) == 0) {
            key -= 20;
        }
    }

    snprintf(c->uri, sizeof(c->uri), "/count/%s/%d", c->op, key);
    ask(c, "GET", NULL, NULL);
}


static void
answer_number(client_t *c, answer_t *a)
{
    char  number[32];

    number[0] = '\0';

    if (a->status == 200) {
        snprintf(number, sizeof(number), "%.*s",
                 (int) strspn(a->body, "0123456789"), a->body);
    }

    line(c, a);
    fprintf(history, " %s\n", DASH(number));

    if (jepsen_below(&c->rnd, 24) == 0) {
        c->step = 1;
        c->next = (c->end / 1000000 + 1) * 1000000;
    }
}


/* Acquires a lock, perhaps extends it, and releases it or lets it expire. */

static void
ask_lock(client_t *c)
{
    long  ttl;
    char  body[128], *type;

    type = "Content-Type: application/json\r\n";
    ttl = 2 + jepsen_below(&c->rnd, 3);

    if (c->step == 0) {
        snprintf(c->name, sizeof(c->name), "/locks/l%d",
                 (int) jepsen_below(&c->rnd, 4));
        snprintf(c->owner, sizeof(c->owner), "c%d-%ld", c->index, ++c->value);
        strcpy(c->uri, c->name);
        strcpy(c->op, "acquire");

        snprintf(body, sizeof(body), "{\"owner\":\"%s\",\"ttl\":%ld%s}",
                 c->owner, ttl,
                 jepsen_below(&c->rnd, 2) ? ",\"wait\":2" : "");
        ask(c, "POST", type, body);
        return;
    }

    snprintf(c->uri, sizeof(c->uri), "%s?owner=%s", c->name, c->owner);

    if (c->step == 1 && jepsen_below(&c->rnd, 4) == 0) {
        strcpy(c->op, "extend");
        snprintf(c->uri + strlen(c->uri), 32, "&ttl=%ld", ttl);
        ask(c, "PUT", NULL, NULL);

    } else {
        strcpy(c->op, "release");
        ask(c, "DELETE", NULL, NULL);
    }

    strcpy(c->uri, c->name);
}


static void
answer_lock(client_t *c, answer_t *a)
{
    char       *p;
    long        ttl;
    long long   token;
    char        owner[CROWD_NAME];

    ttl = 0;
    token = 0;
    owner[0] = '\0';

    if (a->status == 200 || a->status == 201) {
        p = strstr(a->body, "\"owner\":\"");
        if (p) {
            p += 9;
            snprintf(owner, sizeof(owner), "%.*s", (int) strcspn(p, "\""), p);
        }

        p = strstr(a->body, "\"token\":");
        token = p ? atoll(p + 8) : 0;
        p = strstr(a->body, "\"ttl\":");
        ttl = p ? atol(p + 6) : 0;
    }

    line(c, a);
    fprintf(history, " %s %s %lld %ld\n", c->owner, DASH(owner), token, ttl);

    if (strcmp(c->op, "release") == 0 || token == 0) {
        c->step = 0;
        return;
    }

    /* the lock is held for some time or, now and then, until it expires */

    c->step = c->step == 0 && jepsen_below(&c->rnd, 8) == 0 ? 0 : 1;
    c->next = c->end + jepsen_below(&c->rnd, 400000);
}


static void
ask_locked(client_t *c)
{
    snprintf(c->uri, sizeof(c->uri), "/locked/lock/%d",
             (int) jepsen_below(&c->rnd, 3));
    strcpy(c->op, "locked");
    ask(c, "GET", NULL, NULL);
}


static void
answer_locked(client_t *c, answer_t *a)
{
    line(c, a);
    fprintf(history, "\n");
}


static void
ask_log(client_t *c)
{
    snprintf(c->owner, sizeof(c->owner), "c%d-%ld", c->index, ++c->value);
    snprintf(c->uri, sizeof(c->uri), "/logged?id=%s", c->owner);
    strcpy(c->op, "log");
    ask(c, "GET", NULL, NULL);
}


static void
answer_log(client_t *c, answer_t *a)
{
    line(c, a);
    fprintf(history, " %s\n", c->owner);
}


/* Each element has one client that writes increasing numbers. */

static void
ask_writer(client_t *c)
{
    int   dice;
    char  body[32];

    snprintf(c->uri, sizeof(c->uri), "/table/w%d-%d", c->nth,
             (int) jepsen_below(&c->rnd, 2));
    dice = jepsen_below(&c->rnd, 10);

    if (dice < 7) {
        snprintf(body, sizeof(body), "%ld", ++c->value);
        snprintf(c->owner, sizeof(c->owner), "%ld", c->value);
        strcpy(c->op, "put");
        ask(c, "PUT", "Content-Type: text/plain\r\n", body);

    } else if (dice < 8) {
        snprintf(c->owner, sizeof(c->owner), "%ld", ++c->value);
        strcpy(c->op, "delete");
        ask(c, "DELETE", NULL, NULL);

    } else {
        strcpy(c->op, "get");
        ask(c, "GET", NULL, NULL);
    }
}


static void
ask_reader(client_t *c)
{
    snprintf(c->uri, sizeof(c->uri), "/table/w%d-%d",
             (int) jepsen_below(&c->rnd, WRITERS),
             (int) jepsen_below(&c->rnd, 2));
    strcpy(c->op, "get");
    ask(c, "GET", NULL, NULL);
}


static void
answer_table(client_t *c, answer_t *a)
{
    char  value[32];

    if (strcmp(c->op, "get") == 0) {
        value[0] = '\0';

        if (a->status == 200) {
            snprintf(value, sizeof(value), "%.*s",
                     (int) strspn(a->body + 1, "0123456789"), a->body + 1);
        }

    } else {
        strcpy(value, c->owner);
    }

    line(c, a);
    fprintf(history, " %s\n", DASH(value));
}
