
/*
 * Copyright (C) mcds authors
 *
 * Parses the items of an array, a list of lines in memcached: the head item,
 * which has the array's key, and parts, which are items of older lines.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.h"


static u_char *ngx_mcds_array_number(u_char *p, u_char *last,
    ngx_uint_t *number);


/*
 * parses a line such as "#1500\n" in the item of an array's key: sets *base to
 * its number, how many lines the array had after the last edit that replaced
 * all its lines
 */

ngx_int_t
ngx_mcds_array_base(u_char **pos, u_char *last, ngx_uint_t *base)
{
    u_char  *p;

    p = *pos;

    if (p == last || *p != '#') {
        return NGX_DECLINED;
    }

    p = ngx_mcds_array_number(p + 1, last, base);

    if (p == NULL || p == last || *p != LF) {
        return NGX_DECLINED;
    }

    *pos = p + 1;

    return NGX_OK;
}


/*
 * parses a line such as "@0123456789abcdef 1200 32000\n" in the item of an
 * array's key: the id, the number of lines and the bytes of a part, another
 * item with older lines of the array
 */

ngx_int_t
ngx_mcds_array_ref(u_char **pos, u_char *last, ngx_mcds_array_ref_t *ref)
{
    u_char      *p;
    ngx_uint_t   i, size;

    p = *pos;

    if ((size_t) (last - p) < sizeof("@0123456789abcdef 1 1\n") - 1
        || *p++ != '@')
    {
        return NGX_DECLINED;
    }

    for (i = 0; i < sizeof(ref->id); i++) {
        if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f'))) {
            return NGX_DECLINED;
        }
    }

    ngx_memcpy(ref->id, p, sizeof(ref->id));

    p += sizeof(ref->id);

    if (*p++ != ' ') {
        return NGX_DECLINED;
    }

    p = ngx_mcds_array_number(p, last, &ref->lines);

    if (p == NULL || p == last || *p++ != ' ') {
        return NGX_DECLINED;
    }

    p = ngx_mcds_array_number(p, last, &size);

    if (p == NULL || p == last || *p++ != LF) {
        return NGX_DECLINED;
    }

    ref->size = size;

    *pos = p;

    return NGX_OK;
}


static u_char *
ngx_mcds_array_number(u_char *p, u_char *last, ngx_uint_t *number)
{
    u_char     *start;
    ngx_int_t   n;

    start = p;

    while (p < last && *p >= '0' && *p <= '9') {
        p++;
    }

    /*
     * a number in the head item of an array, such as the number of lines in a
     * part (another item), has at most 9 digits: a longer number is invalid,
     * and could overflow
     */

    if (p - start > 9) {
        return NULL;
    }

    n = ngx_atoi(start, p - start);

    if (n == NGX_ERROR) {
        return NULL;
    }

    *number = n;

    return p;
}


u_char *
ngx_mcds_array_cut(u_char *p, u_char *last)
{
    u_char  *end;

    if (last - p <= NGX_MCDS_ARRAY_PART) {
        return last;
    }

    for (end = p + NGX_MCDS_ARRAY_PART; end > p; end--) {
        if (end[-1] == LF) {
            return end;
        }
    }

    end = memchr(p, LF, last - p);

    return end ? end + 1 : last;
}


ngx_uint_t
ngx_mcds_array_lines(u_char *p, u_char *last)
{
    u_char      *end;
    ngx_uint_t   n;

    for (n = 0; p < last; n++) {
        end = memchr(p, LF, last - p);
        p = end ? end + 1 : last;
    }

    return n;
}


ngx_int_t
ngx_mcds_array_next(ngx_mcds_array_content_t *content,
    ngx_mcds_array_place_t *place, ngx_str_t *line)
{
    u_char                  *end, *last;
    ngx_mcds_array_piece_t  *piece;

    for ( /* void */ ; place->piece < content->n; place->piece++) {

        piece = &content->pieces[place->piece];

        if (piece->value == NULL) {
            continue;
        }

        last = piece->value->data + piece->value->len;

        if (place->pos == NULL) {
            place->pos = piece->value->data + piece->start;
        }

        while (place->pos < last) {

            end = memchr(place->pos, LF, last - place->pos);
            if (end == NULL) {
                end = last;
            }

            line->data = place->pos;
            line->len = end - place->pos;

            place->pos = (end == last) ? last : end + 1;

            if (line->len) {
                return NGX_OK;
            }
        }

        place->pos = NULL;
    }

    return NGX_DONE;
}
