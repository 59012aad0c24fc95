
/*
 * Copyright (C) mcds authors
 *
 * Reads and compacts the list of the names of a table's elements.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_table.h"
#include "ngx_mcds_hash.h"


/*
 * a table's list of names is compacted when more than 2 * n + this number of
 * lines have moved out of the list's first item; n is the number of names that
 * the last compaction has left
 */
#define NGX_MCDS_TABLE_SPARE      2048

/*
 * the name of an element stays in the table's list of names for this time after
 * the element's expiry, for hosts with late clocks, seconds
 */
#define NGX_MCDS_TABLE_SKEW       60


static ngx_int_t ngx_mcds_table_line(ngx_str_t *line,
    ngx_mcds_table_name_t *name);
static void ngx_mcds_table_grown(ngx_mcds_array_t *array, ngx_uint_t lines,
    ngx_uint_t base);
static ngx_uint_t ngx_mcds_table_compact_edit(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);
static ngx_uint_t ngx_mcds_table_compact_add_edit(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);


void
ngx_mcds_table_array(ngx_mcds_table_t *table, ngx_mcds_array_t *array)
{
    array->pool = table->pool;
    array->key = table->key;
    array->max = 0;
    array->grown = ngx_mcds_table_grown;
}


ngx_int_t
ngx_mcds_table_names(ngx_mcds_table_names_t *names,
    ngx_mcds_array_content_t *content, time_t now)
{
    uint32_t                *slots;
    ngx_str_t                line;
    ngx_uint_t               n, size, i;
    ngx_mcds_table_name_t    name, *old;
    ngx_mcds_array_place_t   place;

    ngx_memzero(names, sizeof(ngx_mcds_table_names_t));
    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    for (n = 0; ngx_mcds_array_next(content, &place, &line) == NGX_OK; n++) {
        /* void */
    }

    if (n == 0) {
        return NGX_OK;
    }

    for (size = 16; size < n * 2; size *= 2) { /* void */ }

    names->name = ngx_alloc(n * sizeof(ngx_mcds_table_name_t),
                            ngx_cycle->log);
    slots = ngx_calloc(size * sizeof(uint32_t), ngx_cycle->log);

    if (names->name == NULL || slots == NULL) {

        if (slots) {
            ngx_free(slots);
        }

        return NGX_ERROR;
    }

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {

        if (ngx_mcds_table_line(&line, &name) != NGX_OK) {
            continue;
        }

        if (name.expiry && name.expiry <= now) {
            name.there = 0;
        }

        /*
         * an entry of the hash table of the elements' names is 0, if it is
         * empty, or the index of a name + 1
         */

        for (i = name.hash & (size - 1);
             slots[i];
             i = (i + 1) & (size - 1))
        {
            old = &names->name[slots[i] - 1];

            if (old->hash == name.hash
                && old->name.len == name.name.len
                && ngx_memcmp(old->name.data, name.name.data, name.name.len)
                   == 0)
            {
                break;
            }
        }

        if (slots[i]) {
            old = &names->name[slots[i] - 1];
            names->there -= old->there;
            *old = name;

        } else {
            names->name[names->n++] = name;
            slots[i] = names->n;
        }

        names->there += name.there;
    }

    ngx_free(slots);

    return NGX_OK;
}


void
ngx_mcds_table_names_free(ngx_mcds_table_names_t *names)
{
    if (names->name) {
        ngx_free(names->name);
        names->name = NULL;
    }
}


static ngx_int_t
ngx_mcds_table_line(ngx_str_t *line, ngx_mcds_table_name_t *name)
{
    u_char    *p, *last;
    uint64_t   n;

    p = line->data;
    last = p + line->len;

    name->expiry = 0;
    name->there = 0;

    if (*p == '+') {

        while (++p < last && *p != ' ') { /* void */ }

        if (p == last
            || ngx_mcds_parse_number(line->data + 1, p - line->data - 1, &n)
               != NGX_OK
            || n > INT64_MAX)
        {
            return NGX_DECLINED;
        }

        name->expiry = n;
        name->there = 1;

    } else if (*p != '-') {
        return NGX_DECLINED;
    }

    p++;

    /* no element has an empty or such a long name: ignore this line */

    if (p == last || last - p > NGX_MCDS_TABLE_NAME) {
        return NGX_DECLINED;
    }

    name->name.data = p;
    name->name.len = last - p;
    name->hash = ngx_mcds_hash(p, last - p);

    return NGX_OK;
}


/*
 * Compacts the list of the names of a table's elements if it has many obsolete
 * lines; called when the list's first item has become large, and its lines have
 * moved to a further item.
 */

static void
ngx_mcds_table_grown(ngx_mcds_array_t *array, ngx_uint_t lines,
    ngx_uint_t base)
{
    ngx_mcds_table_t  table;

    if (lines <= 2 * base + NGX_MCDS_TABLE_SPARE) {
        return;
    }

    table.pool = array->pool;
    table.key = array->key;

    (void) ngx_mcds_table_compact(&table, NULL, NULL);
}


ngx_int_t
ngx_mcds_table_compact(ngx_mcds_table_t *table,
    ngx_mcds_array_done_pt handler, void *data)
{
    ngx_mcds_array_t  array;

    ngx_mcds_table_array(table, &array);

    return ngx_mcds_array_change(&array, 0, 0, ngx_mcds_table_compact_edit,
                                 handler, data);
}


ngx_int_t
ngx_mcds_table_compact_add(ngx_mcds_table_change_t *change,
    ngx_mcds_array_done_pt handler)
{
    ngx_mcds_array_t  array;

    ngx_mcds_table_array(&change->table, &array);

    return ngx_mcds_array_change(&array, 0, change->lines->len,
                                 ngx_mcds_table_compact_add_edit, handler,
                                 change);
}


static ngx_uint_t
ngx_mcds_table_compact_add_edit(void *data, ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added, ngx_mcds_array_edit_t *edit)
{
    ngx_mcds_table_change_t *change = data;

    ngx_mcds_array_content_t   both;
    ngx_mcds_array_piece_t    *piece;

    /* append the lines of the change to the list of names, as one more piece */

    both = *content;

    both.pieces = ngx_pcalloc(content->pool, (content->n + 1)
                                             * sizeof(ngx_mcds_array_piece_t));
    if (both.pieces == NULL) {
        return NGX_MCDS_BUSY;
    }

    if (content->n) {
        ngx_memcpy(both.pieces, content->pieces,
                   content->n * sizeof(ngx_mcds_array_piece_t));
    }

    piece = &both.pieces[both.n++];
    piece->value = change->lines;

    return ngx_mcds_table_compact_edit(NULL, &both, added, edit);
}


static ngx_uint_t
ngx_mcds_table_compact_edit(void *data, ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added, ngx_mcds_array_edit_t *edit)
{
    u_char                  *p;
    size_t                   len;
    ngx_uint_t               i, rc;
    ngx_mcds_table_name_t   *name;
    ngx_mcds_table_names_t   names;

    rc = NGX_MCDS_BUSY;

    if (ngx_mcds_table_names(&names, content,
                             ngx_time() - NGX_MCDS_TABLE_SKEW)
        != NGX_OK)
    {
        goto done;
    }

    edit->kind = NGX_MCDS_ARRAY_REPLACE;
    edit->base = names.there;

    len = 0;

    for (i = 0; i < names.n; i++) {
        if (names.name[i].there) {
            len += sizeof("+ \n") - 1 + NGX_INT64_LEN
                   + names.name[i].name.len;
        }
    }

    if (len) {
        edit->text = ngx_mcds_value_create(len + NGX_MCDS_VALUE_SPARE,
                                           ngx_cycle->log);
        if (edit->text == NULL) {
            goto done;
        }

        p = edit->text->data;

        for (i = 0; i < names.n; i++) {
            name = &names.name[i];

            if (name->there) {
                p = ngx_sprintf(p, "+%L %V\n", name->expiry, &name->name);
            }
        }

        edit->text->len = p - edit->text->data;
    }

    rc = NGX_MCDS_OK;

done:

    ngx_mcds_table_names_free(&names);

    return rc;
}
