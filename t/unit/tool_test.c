
/*
 * Copyright (C) mcds authors
 *
 * What the program mcds has in place of nginx's functions does the same as
 * nginx's own, and its trees keep their order.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "tap.h"


/* the program's, under other names beside nginx's */

#define ngx_sprintf                  tool_sprintf
#define ngx_snprintf                 tool_snprintf
#define ngx_slprintf                 tool_slprintf
#define ngx_vslprintf                tool_vslprintf
#define ngx_hex_dump                 tool_hex_dump
#define ngx_cpystrn                  tool_cpystrn
#define ngx_strlow                   tool_strlow
#define ngx_strncasecmp              tool_strncasecmp
#define ngx_memn2cmp                 tool_memn2cmp
#define ngx_atoi                     tool_atoi
#define ngx_atotm                    tool_atotm
#define ngx_parse_time               tool_parse_time
#define ngx_parse_size               tool_parse_size
#define ngx_explicit_memzero         tool_explicit_memzero

u_char *tool_vslprintf(u_char *buf, u_char *last, const char *fmt,
    va_list args);
u_char *tool_hex_dump(u_char *dst, u_char *src, size_t len);
ngx_int_t tool_atoi(u_char *line, size_t n);

#include "../../tools/nginx/ngx_tool_string.c"

#undef ngx_sprintf
#undef ngx_snprintf
#undef ngx_slprintf
#undef ngx_vslprintf
#undef ngx_hex_dump
#undef ngx_cpystrn
#undef ngx_strlow
#undef ngx_strncasecmp
#undef ngx_memn2cmp
#undef ngx_atoi
#undef ngx_atotm
#undef ngx_parse_time
#undef ngx_parse_size


#define ngx_alloc                    tool_alloc
#define ngx_calloc                   tool_calloc
#define ngx_create_pool              tool_create_pool
#define ngx_destroy_pool             tool_destroy_pool
#define ngx_palloc                   tool_palloc
#define ngx_pnalloc                  tool_pnalloc
#define ngx_pcalloc                  tool_pcalloc
#define ngx_pfree                    tool_pfree
#define ngx_pool_cleanup_add         tool_pool_cleanup_add
#define ngx_array_create             tool_array_create
#define ngx_array_push               tool_array_push
#define ngx_array_push_n             tool_array_push_n
#define ngx_memn2cmp                 tool_memn2cmp
#define ngx_str_rbtree_insert_value  tool_str_rbtree_insert_value
#define ngx_str_rbtree_lookup        tool_str_rbtree_lookup

void *tool_palloc(ngx_pool_t *pool, size_t size);
void *tool_pcalloc(ngx_pool_t *pool, size_t size);
void *tool_array_push_n(ngx_array_t *a, ngx_uint_t n);

#include "../../tools/nginx/ngx_tool_memory.c"


#define NODES   300
#define ROUNDS  20000


typedef struct {
    ngx_rbtree_node_t   node;
    ngx_uint_t          in;
} test_node_t;


static void test_formats(void);
static void test_numbers(void);
static void test_times(void);
static void test_tree(void);
static ngx_uint_t in_order(ngx_rbtree_t *tree, ngx_rbtree_node_t *node,
    ngx_rbtree_key_t *last, ngx_uint_t *n);


int
main(void)
{
    test_formats();
    test_numbers();
    test_times();
    test_tree();

    return done_testing();
}


#define same(name, ...)                                                       \
    {                                                                         \
        u_char  a[256], b[256], *p, *q;                                       \
                                                                              \
        memset(a, 1, sizeof(a));                                              \
        memset(b, 1, sizeof(b));                                              \
        p = ngx_sprintf(a, __VA_ARGS__);                                      \
        q = tool_sprintf(b, __VA_ARGS__);                                     \
        ok(p - a == q - b && memcmp(a, b, sizeof(a)) == 0, "format %s",       \
           name);                                                             \
        p = ngx_snprintf(a, 7, __VA_ARGS__);                                  \
        q = tool_snprintf(b, 7, __VA_ARGS__);                                 \
        ok(p - a == q - b && memcmp(a, b, sizeof(a)) == 0,                    \
           "format %s, cut", name);                                           \
    }


static void
test_formats(void)
{
    ngx_str_t  s = ngx_string("a text\1\xff");

    same("plain", "plain text");
    same("%", "100%% of it");
    same("%V", "<%V>", &s);
    same("%xV", "<%xV|%XV>", &s, &s);
    same("%s", "<%s>%s", "text", "");
    same("%*s", "<%*s|%*xs>", (size_t) 3, "text", (size_t) 2, "text");
    same("%d", "%d %d %ud %5d %05d", 7, -7, 4000000000u, 42, 42);
    same("%x", "%xd %Xd %08xD %02xd", 255, 255, 0xabcu, 7);
    same("%i", "%i %i %ui", (ngx_int_t) -1, NGX_MAX_INT_T_VALUE,
         (ngx_uint_t) -1);
    same("%L", "%L %uL %xL %020uL", (int64_t) -5, UINT64_MAX,
         (uint64_t) 0xfedcba9876543210, (uint64_t) 77);
    same("%D", "%D %uD", (int32_t) -5, (uint32_t) 4294967295u);
    same("%z", "%z %uz", (ssize_t) -9, (size_t) 9);
    same("%O", "%O", (off_t) 123456789012);
    same("%T", "%T %03T", (time_t) 1763668800, (time_t) 5);
    same("%M", "%M %M", (ngx_msec_t) 12345, (ngx_msec_t) -1);
    same("%P", "%P", (ngx_pid_t) 4711);
    same("%l", "%l %ul", -3l, 3ul);
    same("%c", "<%c%c>", 'x', '%');
    same("%N", "a%Nb%Z", 0);
    same("%A", "%A %uA", (ngx_atomic_int_t) -2, (ngx_atomic_uint_t) 2);
}


static void
test_numbers(void)
{
    size_t      len;
    u_char      a[64], b[64];
    ngx_uint_t  i;

    static char  *texts[] = {
        "", "0", "1", "42", "-1", "9223372036854775807",
        "9223372036854775808", "99999999999999999999", "1x", " 1", "007",
        "922337203685477580", "ff", "FF", "7fffffffffffffff",
        "8000000000000000", "g", "1k", "2K", "3m", "4M", "5g", "k", "1kk",
        "9223372036854775807k"
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ngx_str_t  s;

        s.data = (u_char *) texts[i];
        s.len = len = strlen(texts[i]);

        ok(ngx_atoi(s.data, len) == tool_atoi(s.data, len), "atoi \"%s\"",
           texts[i]);
        ok(ngx_parse_size(&s) == tool_parse_size(&s), "size \"%s\"",
           texts[i]);

        memset(a, 1, sizeof(a));
        memset(b, 1, sizeof(b));
        (void) ngx_hex_dump(a, s.data, len);
        (void) tool_hex_dump(b, s.data, len);
        ok(memcmp(a, b, sizeof(a)) == 0, "hex_dump \"%s\"", texts[i]);

        (void) ngx_cpystrn(a, s.data, 5);
        (void) tool_cpystrn(b, s.data, 5);
        ok(memcmp(a, b, sizeof(a)) == 0, "cpystrn \"%s\"", texts[i]);
    }
}


/* what nginx takes, means the same; it refuses more, nginx -t has said so */

static void
test_times(void)
{
    ngx_int_t   n;
    ngx_str_t   s;
    ngx_uint_t  i, sec;

    static char  *texts[] = {
        "", "0", "1", "60", "1s", "5m", "1h", "1h 30m", "1h30m", "1d", "2w",
        "10ms", "1500ms", "1s 500ms", "1M", "1y", "x", "s", "1x", "-1",
        "1h 5", "99999999999999999999s"
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (sec = 0; sec < 2; sec++) {
            s.data = (u_char *) texts[i];
            s.len = strlen(texts[i]);

            n = ngx_parse_time(&s, sec);

            ok(n == tool_parse_time(&s, sec)
               || (n == NGX_ERROR && *texts[i] == '1'),
               "time \"%s\", %s", texts[i], sec ? "seconds" : "ms");
        }
    }
}


static void
test_tree(void)
{
    ngx_uint_t          i, round, there, n, wrong;
    ngx_rbtree_t        tree;
    ngx_rbtree_key_t    last;
    ngx_rbtree_node_t   sentinel;

    static test_node_t  nodes[NODES];

    ngx_rbtree_init(&tree, &sentinel, ngx_rbtree_insert_value);

    srandom(7);
    there = 0;
    wrong = 0;

    for (round = 0; round < ROUNDS; round++) {
        i = random() % NODES;

        if (nodes[i].in) {
            ngx_rbtree_delete(&tree, &nodes[i].node);
            nodes[i].in = 0;
            there--;

        } else {
            nodes[i].node.key = random() % 100;
            ngx_rbtree_insert(&tree, &nodes[i].node);
            nodes[i].in = 1;
            there++;
        }

        last = 0;
        n = 0;

        if (!in_order(&tree, tree.root, &last, &n) || n != there) {
            wrong++;
        }
    }

    ok(wrong == 0, "a tree after each of %d changes", ROUNDS);
}


static ngx_uint_t
in_order(ngx_rbtree_t *tree, ngx_rbtree_node_t *node, ngx_rbtree_key_t *last,
    ngx_uint_t *n)
{
    if (node == tree->sentinel) {
        return 1;
    }

    if ((node == tree->root) != (node->parent == NULL)
        || (node->left != tree->sentinel && node->left->parent != node)
        || (node->right != tree->sentinel && node->right->parent != node)
        || !in_order(tree, node->left, last, n)
        || node->key < *last)
    {
        return 0;
    }

    *last = node->key;
    (*n)++;

    return in_order(tree, node->right, last, n);
}
