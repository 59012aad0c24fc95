
/*
 * Copyright (C) mcds authors
 *
 * mcds table and mcds array.
 */


#include "mcds.h"
#include "ngx_mcds_array.h"
#include "ngx_mcds_table.h"


typedef struct {
    mcds_t                  *m;
    ngx_uint_t               done;
    ngx_uint_t               rc;
    ngx_array_t              names;     /* mcds_name_t */
    json_t                  *list;
} mcds_read_t;


typedef struct {
    ngx_str_t                name;
    time_t                   expiry;
} mcds_name_t;


static void mcds_table_list(mcds_t *m, ngx_mcds_table_t *table);
static void mcds_table_names(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static void mcds_table_get(mcds_t *m, ngx_mcds_table_t *table,
    ngx_str_t *names, ngx_uint_t n);
static ngx_uint_t mcds_table_value(mcds_t *m, ngx_mcds_table_t *table,
    ngx_str_t *name, json_t *o);
static void mcds_table_change(mcds_t *m, ngx_mcds_table_t *table,
    ngx_mcds_table_item_t *items, ngx_uint_t n);
static void mcds_table_changed(void *data, ngx_uint_t rc);
static void mcds_array_list(mcds_t *m, ngx_mcds_array_t *array);
static void mcds_array_lines(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static void mcds_array_push(mcds_t *m, ngx_mcds_array_t *array,
    ngx_str_t *values, ngx_uint_t n);
static void mcds_array_pushed(void *data, ngx_mcds_array_done_t *done);


void
mcds_table(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_mcds_table_t        table;
    ngx_mcds_table_item_t  *items;

    mcds_site_pool(m, "mcds_table", &args[1]);

    table.pool = m->pool;
    table.key = args[1];

    if (mcds_is(&args[0], "list")) {

        if (n != 2) {
            mcds_usage(m, "list needs a name, and nothing else");
        }

        mcds_table_list(m, &table);
        return;
    }

    if (n < 3) {
        mcds_usage(m, "needs a field");
    }

    for (i = 2; i < n; i++) {
        if (args[i].len > (i == 3 && mcds_is(&args[0], "add")
                           ? NGX_MCDS_TABLE_VALUE : NGX_MCDS_TABLE_NAME)
            || (args[i].len == 0 && i == 2))
        {
            mcds_usage(m, "a field has 1 to %d bytes, a value at most %d",
                       NGX_MCDS_TABLE_NAME, NGX_MCDS_TABLE_VALUE);
        }

        if (args[i].len != strcspn((char *) args[i].data, "\n\r\t\x7f")
            && !(i == 3 && mcds_is(&args[0], "add")))
        {
            mcds_usage(m, "a field has no control characters");
        }
    }

    if (mcds_is(&args[0], "get")) {
        mcds_table_get(m, &table, &args[2], n - 2);
        return;
    }

    items = mcds_alloc(m, n * sizeof(ngx_mcds_table_item_t));

    if (mcds_is(&args[0], "add")) {

        if (n > 4) {
            mcds_usage(m, "add needs a name, a field, and perhaps a value");
        }

        items[0].kind = NGX_MCDS_TABLE_SET;
        items[0].name = args[2];
        items[0].ttl = m->o.ttl;

        if (n == 4) {
            items[0].value = args[3];

        } else {
            ngx_str_set(&items[0].value, "1");
        }

        mcds_table_change(m, &table, items, 1);
        return;
    }

    if (!mcds_is(&args[0], "remove")) {
        mcds_usage(m, "does not know \"%s\"", args[0].data);
    }

    for (i = 2; i < n; i++) {
        items[i - 2].kind = NGX_MCDS_TABLE_DELETE;
        items[i - 2].name = args[i];
    }

    mcds_table_change(m, &table, items, n - 2);
}


static void
mcds_table_list(mcds_t *m, ngx_mcds_table_t *table)
{
    json_t            *list, *o;
    ngx_uint_t         i;
    mcds_name_t       *name;
    mcds_read_t        read;
    ngx_mcds_array_t   array;

    ngx_memzero(&read, sizeof(mcds_read_t));
    ngx_memzero(&array, sizeof(ngx_mcds_array_t));

    read.m = m;

    if (ngx_array_init(&read.names, m->memory, 64, sizeof(mcds_name_t))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    ngx_mcds_table_array(table, &array);

    if (ngx_mcds_array_read(&array, mcds_table_names, &read) != NGX_OK) {
        mcds_no_memory();
    }

    mcds_wait(&read.done);

    if (read.rc != NGX_MCDS_OK) {
        mcds_failed(m, &table->key, read.rc);
        return;
    }

    list = json_array();
    name = read.names.elts;

    for (i = 0; i < read.names.nelts; i++) {

        if (!m->o.values && !m->o.json) {
            (void) json_array_append_new(list, mcds_json(&name[i].name));
            continue;
        }

        o = json_object();
        mcds_put(o, "field", mcds_json(&name[i].name));
        mcds_put(o, "expires", name[i].expiry
                               ? mcds_time((uint64_t) name[i].expiry * 1000)
                               : json_null());

        /* the list may name what memcached has dropped */

        if (m->o.values
            && mcds_table_value(m, table, &name[i].name, o) == NGX_MCDS_OK)
        {
            /* void */

        } else if (m->o.values) {
            json_decref(o);
            continue;
        }

        (void) json_array_append_new(list, o);
    }

    mcds_show(m, list);
}


static void
mcds_table_names(void *data, ngx_uint_t rc, ngx_mcds_array_content_t *content)
{
    mcds_read_t *read = data;

    ngx_uint_t               i;
    mcds_name_t             *name;
    ngx_mcds_table_names_t   names;

    read->done = 1;
    read->rc = rc;

    if (rc != NGX_MCDS_OK) {
        return;
    }

    if (ngx_mcds_table_names(&names, content, ngx_time()) != NGX_OK) {
        mcds_no_memory();
    }

    for (i = 0; i < names.n; i++) {

        if (!names.name[i].there) {
            continue;
        }

        name = ngx_array_push(&read->names);

        if (name == NULL) {
            mcds_no_memory();
        }

        name->expiry = names.name[i].expiry;
        name->name.len = names.name[i].name.len;
        name->name.data = mcds_alloc(read->m, name->name.len + 1);
        ngx_memcpy(name->name.data, names.name[i].name.data, name->name.len);
    }

    ngx_mcds_table_names_free(&names);
}


static ngx_uint_t
mcds_table_value(mcds_t *m, ngx_mcds_table_t *table, ngx_str_t *name,
    json_t *o)
{
    u_char              suffix[NGX_MCDS_TABLE_SUFFIX];
    ngx_uint_t          rc;
    mcds_answer_t       answer;
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    ngx_mcds_table_request(&req, table, name, suffix);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_TTL;
    req.limit = 2 * NGX_MCDS_TABLE_VALUE;

    rc = mcds_do(m, &req, &answer);

    if (rc == NGX_MCDS_OK) {
        mcds_put(o, "value", mcds_json(&answer.text));

        if (answer.has & NGX_MCDS_TTL) {
            mcds_put(o, "ttl", answer.ttl < 0 ? json_null()
                                              : json_integer(answer.ttl));
        }

        mcds_answer_free(&answer);

    } else if (!ngx_mcds_answered(rc)) {
        mcds_failed(m, name, rc);
    }

    return rc;
}


static void
mcds_table_get(mcds_t *m, ngx_mcds_table_t *table, ngx_str_t *names,
    ngx_uint_t n)
{
    json_t      *list, *o;
    ngx_uint_t   i, rc;

    list = json_array();

    for (i = 0; i < n; i++) {
        o = json_object();

        mcds_put(o, "field", mcds_json(&names[i]));

        rc = mcds_table_value(m, table, &names[i], o);

        if (rc != NGX_MCDS_OK) {
            mcds_put(o, "value", json_null());

            if (ngx_mcds_answered(rc)) {
                mcds_failed(m, &names[i], rc);
            }
        }

        if (m->o.json) {
            (void) json_array_append_new(list, o);
            continue;
        }

        /* for a shell: the value alone */

        if (rc == NGX_MCDS_OK) {
            (void) json_array_append(list, json_object_get(o, "value"));
        }

        json_decref(o);
    }

    mcds_show(m, list);
}


static void
mcds_table_change(mcds_t *m, ngx_mcds_table_t *table,
    ngx_mcds_table_item_t *items, ngx_uint_t n)
{
    json_t       *list, *o;
    ngx_uint_t    i;
    mcds_read_t   change;

    ngx_memzero(&change, sizeof(mcds_read_t));

    if (ngx_mcds_table_change(table, items, n, mcds_table_changed, &change)
        != NGX_OK)
    {
        mcds_no_memory();
    }

    mcds_wait(&change.done);

    list = json_array();

    for (i = 0; i < n; i++) {
        o = json_object();

        mcds_put(o, "field", mcds_json(&items[i].name));
        mcds_put(o, (items[i].kind == NGX_MCDS_TABLE_SET) ? "added"
                                                          : "removed",
                 json_boolean(items[i].rc == NGX_MCDS_OK));

        (void) json_array_append_new(list, o);

        if (items[i].rc != NGX_MCDS_OK) {
            mcds_failed(m, &items[i].name, items[i].rc);
        }
    }

    if (change.rc != NGX_MCDS_OK) {
        mcds_failed(m, &table->key, change.rc);
    }

    if (m->o.json) {
        mcds_show(m, list);

    } else {
        json_decref(list);
    }
}


static void
mcds_table_changed(void *data, ngx_uint_t rc)
{
    mcds_read_t *change = data;

    change->done = 1;
    change->rc = rc;
}


void
mcds_array(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_mcds_array_t  array;

    mcds_site_pool(m, "mcds_array mcds_array_push", &args[1]);

    ngx_memzero(&array, sizeof(ngx_mcds_array_t));

    array.pool = m->pool;
    array.key = args[1];

    if (mcds_is(&args[0], "list") && n == 2) {
        mcds_array_list(m, &array);

    } else if (mcds_is(&args[0], "push") && n > 2) {
        mcds_array_push(m, &array, &args[2], n - 2);

    } else {
        mcds_usage(m, "wants \"list NAME\", or \"push NAME VALUE ...\"");
    }
}


static void
mcds_array_list(mcds_t *m, ngx_mcds_array_t *array)
{
    size_t        i, n;
    json_t       *line;
    mcds_read_t   read;

    ngx_memzero(&read, sizeof(mcds_read_t));

    read.m = m;
    read.list = json_array();

    if (ngx_mcds_array_read(array, mcds_array_lines, &read) != NGX_OK) {
        mcds_no_memory();
    }

    mcds_wait(&read.done);

    if (read.rc != NGX_MCDS_OK) {
        mcds_failed(m, &array->key, read.rc);
        json_decref(read.list);
        return;
    }

    n = json_array_size(read.list);

    for ( /* void */ ; m->o.limit && n > m->o.limit; n--) {
        (void) json_array_remove(read.list, 0);
    }

    if (m->o.json) {
        mcds_show(m, read.list);
        return;
    }

    json_array_foreach(read.list, i, line) {
        json_incref(line);
        mcds_show(m, line);
    }

    json_decref(read.list);
}


/* what is no JSON is shown as the text that it is */

static void
mcds_array_lines(void *data, ngx_uint_t rc, ngx_mcds_array_content_t *content)
{
    mcds_read_t *read = data;

    json_t                  *json;
    ngx_str_t                line;
    ngx_mcds_array_place_t   place;

    read->done = 1;
    read->rc = rc;

    if (rc != NGX_MCDS_OK) {
        return;
    }

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {
        json = json_loadb((char *) line.data, line.len,
                          JSON_DECODE_ANY|JSON_ALLOW_NUL, NULL);

        if (json == NULL) {
            json = mcds_json(&line);
        }

        (void) json_array_append_new(read->list, json);
    }
}


static void
mcds_array_push(mcds_t *m, ngx_mcds_array_t *array, ngx_str_t *values,
    ngx_uint_t n)
{
    char        *text;
    json_t      *json;
    size_t       len;
    ngx_str_t    lines;
    ngx_uint_t   i;
    mcds_read_t  read;

    ngx_memzero(&read, sizeof(mcds_read_t));

    lines.data = NULL;
    lines.len = 0;

    for (i = 0; i < n; i++) {
        json = json_stringn((char *) values[i].data, values[i].len);

        if (json == NULL) {
            mcds_usage(m, "a value is no UTF-8");
        }

        text = json_dumps(json, JSON_ENCODE_ANY|JSON_COMPACT);
        json_decref(json);

        if (text == NULL) {
            mcds_no_memory();
        }

        len = ngx_strlen(text);

        if (len >= NGX_MCDS_ARRAY_LINE) {
            mcds_usage(m, "a value is too long");
        }

        lines.data = realloc(lines.data, lines.len + len + 1);

        if (lines.data == NULL) {
            mcds_no_memory();
        }

        ngx_memcpy(lines.data + lines.len, text, len);
        lines.len += len;
        lines.data[lines.len++] = LF;

        free(text);
    }

    switch (ngx_mcds_array_append(array, &lines, mcds_array_pushed, &read)) {

    case NGX_OK:
        mcds_wait(&read.done);
        break;

    case NGX_BUSY:
        read.rc = NGX_MCDS_TOO_LARGE;
        break;

    default:
        mcds_no_memory();
    }

    free(lines.data);

    if (read.rc != NGX_MCDS_OK) {
        mcds_failed(m, &array->key, read.rc);
        return;
    }

    if (m->o.json) {
        json = json_object();
        mcds_put(json, "name", mcds_json(&array->key));
        mcds_put(json, "pushed", json_integer(n));
        mcds_show(m, json);
    }
}


static void
mcds_array_pushed(void *data, ngx_mcds_array_done_t *done)
{
    mcds_read_t *read = data;

    read->done = 1;
    read->rc = done->rc;
}
