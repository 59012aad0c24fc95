
/*
 * Copyright (C) mcds authors
 *
 * mcds array: lists an array, or pushes to it.
 */


#include "mcds.h"
#include "ngx_mcds_array.h"
#include "ngx_mcds_json.h"


typedef struct {
    ngx_uint_t               done;
    ngx_uint_t               rc;
    json_t                  *list;
    ngx_mcds_array_read_t    read;
} mcds_lines_t;


typedef struct {
    ngx_uint_t               done;
    ngx_uint_t               rc;
    ngx_str_t               *values;
    ngx_uint_t               n;
    ngx_uint_t               pushed;    /* number of values that were appended
                                           to the array */
} mcds_push_t;


static ngx_uint_t mcds_array_find(mcds_t *m, ngx_mcds_array_t *array);
static void mcds_array_list(mcds_t *m, ngx_mcds_array_t *array);
static void mcds_array_lines(void *data, ngx_uint_t rc,
    ngx_mcds_array_content_t *content);
static void mcds_array_push(mcds_t *m, ngx_mcds_array_t *array,
    ngx_uint_t unique, ngx_str_t *values, ngx_uint_t n);
static ngx_mcds_value_t *mcds_array_text(mcds_push_t *push, json_t *known);
static ngx_uint_t mcds_array_edit(void *data,
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added,
    ngx_mcds_array_edit_t *edit);
static void mcds_array_know(json_t *known, u_char *data, size_t len);
static void mcds_array_pushed(void *data, ngx_mcds_array_done_t *done);


void
mcds_array(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    ngx_uint_t        unique;
    ngx_mcds_array_t  array;

    mcds_site_pool(m, "mcds_array_api mcds_array_push", &args[1]);

    ngx_memzero(&array, sizeof(ngx_mcds_array_t));

    array.pool = m->pool;
    array.key = args[1];

    unique = mcds_array_find(m, &array);

    if (mcds_is(&args[0], "list") && n == 2) {
        mcds_array_list(m, &array);

    } else if (mcds_is(&args[0], "push") && n > 2) {

        if (m->o.limit) {
            mcds_usage(m, "push does not accept --limit");
        }

        mcds_array_push(m, &array, unique, &args[2], n - 2);

    } else {
        mcds_usage(m, "use \"list NAME\" or \"push NAME VALUE ...\"");
    }
}


/*
 * sets the maximum number of values of an array from the directives of nginx's
 * configuration that name the array; returns 1 if one of these directives has
 * "unique"
 */

static ngx_uint_t
mcds_array_find(mcds_t *m, ngx_mcds_array_t *array)
{
    ngx_int_t          n;
    ngx_str_t         *max;
    ngx_uint_t         i, word, unique;
    mcds_directive_t  *directive;

    i = 0;
    unique = 0;

    while ((directive = mcds_site_find(m, &i, "mcds_array_api mcds_array_push",
                                       &array->key)))
    {
        /* another pool of memcached servers may have an array of this name */

        if (mcds_site_uses(m, directive, m->pool) != 1) {
            continue;
        }

        max = mcds_site_param(directive, "max=");

        if (max) {
            n = ngx_atoi(max->data, max->len);
            array->max = (n > 0) ? n : 0;
        }

        /*
         * the parameters of mcds_array_push begin one word later than those of
         * mcds_array_api, since a value follows the array's name
         */

        word = mcds_is(&directive->words[0], "mcds_array_api") ? 2 : 3;

        for ( /* void */ ; word < directive->n; word++) {
            unique |= mcds_is(&directive->words[word], "unique");
        }
    }

    return unique;
}


static void
mcds_array_list(mcds_t *m, ngx_mcds_array_t *array)
{
    char         *text;
    size_t        i, n, limit;
    json_t       *list, *line;
    mcds_lines_t  read;

    ngx_memzero(&read, sizeof(mcds_lines_t));

    read.list = json_array();
    read.read.array = *array;
    read.read.handler = mcds_array_lines;
    read.read.data = &read;

    ngx_mcds_array_read(&read.read);

    mcds_wait(&read.done);

    if (read.rc != NGX_MCDS_OK) {
        mcds_failed(m, &array->key, read.rc);
        json_decref(read.list);
        return;
    }

    /*
     * the newest values of the array are printed, up to its maximum: memcached
     * may have more, which nginx hides, too
     */

    n = json_array_size(read.list);
    limit = n;

    if (array->max) {
        limit = ngx_min(limit, array->max);
    }

    if (m->o.limit) {
        limit = ngx_min(limit, m->o.limit);
    }

    list = json_array();

    for (i = n - limit; i < n; i++) {
        line = json_array_get(read.list, i);

        if (m->o.json || json_is_string(line)) {
            (void) json_array_append(list, line);
            continue;
        }

        text = json_dumps(line, JSON_COMPACT|JSON_ENCODE_ANY);

        if (text == NULL) {
            mcds_no_memory();
        }

        (void) json_array_append_new(list, json_string(text));
        free(text);
    }

    json_decref(read.list);

    if (m->o.json) {
        mcds_dump(list, 17);

    } else if (limit) {
        mcds_show(m, list);

    } else {
        json_decref(list);
    }
}


/*
 * collects the values of an array that was read; a value that is no JSON is
 * shown as text
 */

static void
mcds_array_lines(void *data, ngx_uint_t rc, ngx_mcds_array_content_t *content)
{
    mcds_lines_t *read = data;

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
mcds_array_push(mcds_t *m, ngx_mcds_array_t *array, ngx_uint_t unique,
    ngx_str_t *values, ngx_uint_t n)
{
    json_t            *json;
    ngx_int_t          rc;
    ngx_str_t          lines;
    ngx_uint_t         i;
    mcds_push_t        push;
    ngx_mcds_value_t  *text;

    for (i = 0; i < n; i++) {

        if (!ngx_mcds_json_utf8(&values[i])) {
            mcds_usage(m, "a value must be UTF-8");
        }

        if (ngx_mcds_json_string(NULL, &values[i]) + 3 > NGX_MCDS_ARRAY_LINE) {
            mcds_usage(m, "a value is too long");
        }
    }

    ngx_memzero(&push, sizeof(mcds_push_t));

    push.values = values;
    push.n = n;

    if (unique) {
        rc = ngx_mcds_array_change(array, 1, 0, mcds_array_edit,
                                   mcds_array_pushed, &push);

    } else {
        text = mcds_array_text(&push, NULL);

        lines.data = text->data;
        lines.len = text->len;

        rc = ngx_mcds_array_append(array, &lines, mcds_array_pushed, &push);

        ngx_mcds_value_unref(text);
    }

    switch (rc) {

    case NGX_OK:
        mcds_wait(&push.done);
        break;

    case NGX_BUSY:
        push.rc = NGX_MCDS_TOO_LARGE;
        break;

    default:
        mcds_no_memory();
    }

    if (push.rc != NGX_MCDS_OK) {
        mcds_failed(m, &array->key, push.rc);
        return;
    }

    if (m->o.json) {
        json = json_object();
        mcds_put(json, "name", mcds_json(&array->key));
        mcds_put(json, "pushed", json_integer(push.pushed));
        mcds_show(m, json);
    }
}


/*
 * returns the values to append to an array, as lines of JSON; if "known" is not
 * NULL, without the values that "known" contains
 */

static ngx_mcds_value_t *
mcds_array_text(mcds_push_t *push, json_t *known)
{
    char              *data;
    u_char            *p;
    size_t             size, len;
    ngx_uint_t         i;
    ngx_mcds_value_t  *text;

    size = 0;

    for (i = 0; i < push->n; i++) {
        size += ngx_mcds_json_string(NULL, &push->values[i]) + 3;
    }

    text = ngx_mcds_value_create(size, ngx_cycle->log);

    if (text == NULL) {
        mcds_no_memory();
    }

    p = text->data;
    push->pushed = 0;

    for (i = 0; i < push->n; i++) {
        data = (char *) push->values[i].data;
        len = push->values[i].len;

        if (known) {
            if (json_object_getn(known, data, len)) {
                continue;
            }

            (void) json_object_setn_new(known, data, len, json_true());
        }

        *p++ = '"';
        p = (u_char *) ngx_mcds_json_string(p, &push->values[i]);
        *p++ = '"';
        *p++ = LF;

        push->pushed++;
    }

    text->len = p - text->data;

    return text;
}


/*
 * changes an array that is "unique": appends only those values that the array
 * does not contain yet
 */

static ngx_uint_t
mcds_array_edit(void *data, ngx_mcds_array_content_t *content,
    ngx_mcds_value_t *added, ngx_mcds_array_edit_t *edit)
{
    mcds_push_t *push = data;

    u_char                  *p, *last, *end;
    json_t                  *known;
    ngx_str_t                line;
    ngx_mcds_array_place_t   place;

    known = json_object();
    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    while (ngx_mcds_array_next(content, &place, &line) == NGX_OK) {
        mcds_array_know(known, line.data, line.len);
    }

    p = added ? added->data : NULL;
    last = added ? added->data + added->len : NULL;

    for ( /* void */ ; p < last; p = end + 1) {
        end = ngx_strlchr(p, last, LF);

        if (end == NULL) {
            end = last;
        }

        mcds_array_know(known, p, end - p);
    }

    edit->text = mcds_array_text(push, known);
    edit->kind = NGX_MCDS_ARRAY_APPEND;

    if (push->pushed == 0) {
        ngx_mcds_value_unref(edit->text);
        edit->text = NULL;
        edit->kind = NGX_MCDS_ARRAY_SAME;
    }

    json_decref(known);

    return NGX_MCDS_OK;
}


/*
 * adds to "known" a value that the array contains, so that the tool does not
 * append the value again; ignores a value that is no string, since the tool
 * appends only strings
 */

static void
mcds_array_know(json_t *known, u_char *data, size_t len)
{
    json_t  *json;

    json = json_loadb((char *) data, len, JSON_DECODE_ANY|JSON_ALLOW_NUL,
                      NULL);

    if (json_is_string(json)) {
        (void) json_object_setn_new(known, json_string_value(json),
                                    json_string_length(json), json_true());
    }

    json_decref(json);
}


static void
mcds_array_pushed(void *data, ngx_mcds_array_done_t *done)
{
    mcds_push_t *push = data;

    push->done = 1;
    push->rc = done->rc;
}
