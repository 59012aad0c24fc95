
/*
 * Copyright (C) mcds authors
 *
 * mcds table: lists, reads and changes tables.
 */


#include "mcds.h"
#include "ngx_mcds_array.h"
#include "ngx_mcds_json.h"
#include "ngx_mcds_table.h"


typedef struct {
    mcds_t                  *m;
    ngx_uint_t               done;
    ngx_uint_t               rc;
    ngx_array_t              names;     /* array of mcds_name_t: the names of
                                           the table's elements */
    ngx_mcds_array_read_t    read;
} mcds_read_t;


typedef struct {
    ngx_uint_t               done;
    ngx_uint_t               rc;
    ngx_mcds_table_change_t  change;
} mcds_change_t;


typedef struct {
    ngx_str_t                name;
    int64_t                  expiry;
} mcds_name_t;


static void mcds_table_check(mcds_t *m, ngx_str_t *name);
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


void
mcds_table(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_mcds_table_t        table;
    ngx_mcds_table_item_t  *items;

    mcds_site_pool(m, "mcds_table_api mcds_table_lookup", &args[1]);

    table.pool = m->pool;
    table.key = args[1];

    if (mcds_is(&args[0], "list")) {

        if (n != 2) {
            mcds_usage(m, "list takes exactly one name");
        }

        if (m->o.ttl) {
            mcds_usage(m, "list does not accept --ttl");
        }

        mcds_table_list(m, &table);
        return;
    }

    if (!mcds_is(&args[0], "get") && !mcds_is(&args[0], "add")
        && !mcds_is(&args[0], "remove"))
    {
        mcds_usage(m, "unknown subcommand: %s", args[0].data);
    }

    if (n < 3) {
        mcds_usage(m, "%s needs a field", args[0].data);
    }

    for (i = 2; i < n; i++) {
        if (args[i].len > (i == 3 && mcds_is(&args[0], "add")
                           ? NGX_MCDS_TABLE_VALUE : NGX_MCDS_TABLE_NAME)
            || (args[i].len == 0 && (i == 2 || !mcds_is(&args[0], "add"))))
        {
            mcds_usage(m, "a field must have 1 to %d bytes, a value at most %d",
                       NGX_MCDS_TABLE_NAME, NGX_MCDS_TABLE_VALUE);
        }

        if (args[i].len != strcspn((char *) args[i].data, "\n\r\t\x7f")
            && !(i == 3 && mcds_is(&args[0], "add")))
        {
            mcds_usage(m, "a field must not have control characters");
        }
    }

    if (m->o.values || (m->o.ttl && !mcds_is(&args[0], "add"))) {
        mcds_usage(m, "%s does not accept %s", args[0].data,
                   m->o.values ? "--values" : "--ttl");
    }

    if (mcds_is(&args[0], "get")) {
        mcds_table_get(m, &table, &args[2], n - 2);
        return;
    }

    items = mcds_alloc(m, n * sizeof(ngx_mcds_table_item_t));

    if (mcds_is(&args[0], "add")) {

        if (n > 4) {
            mcds_usage(m, "add takes a name, a field, and optionally a value");
        }

        mcds_table_check(m, &args[2]);

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

    for (i = 2; i < n; i++) {
        items[i - 2].kind = NGX_MCDS_TABLE_DELETE;
        items[i - 2].name = args[i];
    }

    mcds_table_change(m, &table, items, n - 2);
}


/*
 * rejects a name under which nginx would add no element to a table; elements
 * with such names, which other programs may have added, can still be removed
 */

static void
mcds_table_check(mcds_t *m, ngx_str_t *name)
{
    size_t  i;

    for (i = 0; i < name->len; i++) {
        if (name->data[i] < 0x20) {
            mcds_usage(m, "a field must not have control characters");
        }
    }

    if (!ngx_mcds_json_utf8(name)) {
        mcds_usage(m, "a field must be UTF-8");
    }
}


static void
mcds_table_list(mcds_t *m, ngx_mcds_table_t *table)
{
    json_t       *list, *o;
    ngx_uint_t    i;
    mcds_name_t  *name;
    mcds_read_t   read;

    ngx_memzero(&read, sizeof(mcds_read_t));

    read.m = m;

    if (ngx_array_init(&read.names, m->memory, 64, sizeof(mcds_name_t))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    ngx_mcds_table_array(table, &read.read.array);

    read.read.handler = mcds_table_names;
    read.read.data = &read;

    ngx_mcds_array_read(&read.read);

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

        /*
         * memcached may have evicted an element whose name is still in the
         * table's list of names
         */

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
                     : json_integer(ngx_mcds_ttl_sure(answer.ttl)));
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

        /*
         * for use in shell scripts, the value of an element is printed without
         * its name
         */

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
    json_t         *list, *o;
    ngx_uint_t      i;
    mcds_change_t   change;

    ngx_memzero(&change, sizeof(mcds_change_t));

    change.change.table = *table;
    change.change.items = items;
    change.change.n = n;
    change.change.handler = mcds_table_changed;
    change.change.data = &change;

    ngx_mcds_table_change(&change.change);

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
    mcds_change_t *change = data;

    change->done = 1;
    change->rc = rc;
}
