
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_date.h"


#define NGX_MCDS_DATE_CENTURY     100


typedef struct {
    ngx_int_t     day;
    ngx_int_t     month;
    ngx_int_t     year;
    u_char       *time;           /* hh:mm:ss */
    unsigned      short_year:1;
} ngx_mcds_date_t;


static ngx_int_t ngx_mcds_date_read(ngx_mcds_date_t *date, ngx_str_t *value,
    char *form);
static ngx_int_t ngx_mcds_date_number(u_char **p, u_char *last, size_t n,
    ngx_int_t *number);
static ngx_int_t ngx_mcds_date_name(u_char **p, u_char *last, char **names,
    size_t n, size_t len);
static void ngx_mcds_date_complete(ngx_mcds_date_t *date, int64_t now);


/*
 * w: name of a day, W: the whole name, d: day, e: the same with a space for
 * the first digit, m: month, y: year, Y: its last two digits, t: time
 */

static char  *ngx_mcds_date_forms[] = {
    "w, d m y t GMT",             /* IMF-fixdate */
    "W, d-m-Y t GMT",             /* RFC 850 */
    "w m e t y"                   /* asctime() */
};

static char  *ngx_mcds_date_days[] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",
    "Saturday"
};

static char  *ngx_mcds_date_months[] = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
    "Nov", "Dec"
};


int64_t
ngx_mcds_date_parse(ngx_str_t *value, int64_t now)
{
    u_char           *p, text[sizeof("Mon, 28 Sep 1970 06:00:00 GMT")];
    ngx_uint_t        i;
    ngx_mcds_date_t   date;

    for (i = 0; i < 3; i++) {
        if (ngx_mcds_date_read(&date, value, ngx_mcds_date_forms[i])
            == NGX_OK)
        {
            break;
        }
    }

    if (i == 3 || date.day == 0) {
        return NGX_ERROR;
    }

    if (date.short_year) {
        ngx_mcds_date_complete(&date, now);
    }

    /* nginx knows the calendar */

    p = ngx_sprintf(text, "Mon, %02i %s %04i %*s GMT", date.day,
                    ngx_mcds_date_months[date.month], date.year, (size_t) 8,
                    date.time);

    return ngx_parse_http_time(text, p - text);
}


static ngx_int_t
ngx_mcds_date_read(ngx_mcds_date_t *date, ngx_str_t *value, char *form)
{
    u_char     *p, *last;
    ngx_int_t   rc, n;

    ngx_memzero(date, sizeof(ngx_mcds_date_t));

    p = value->data;
    last = p + value->len;

    for ( /* void */ ; *form; form++) {

        rc = NGX_OK;

        switch (*form) {

        case 'w':
            rc = ngx_mcds_date_name(&p, last, ngx_mcds_date_days, 7, 3);
            break;

        case 'W':
            rc = ngx_mcds_date_name(&p, last, ngx_mcds_date_days, 7, 0);
            break;

        case 'm':
            rc = ngx_mcds_date_name(&p, last, ngx_mcds_date_months, 12, 3);
            date->month = rc;
            break;

        case 'e':

            if (p < last && *p == ' ') {
                p++;
                rc = ngx_mcds_date_number(&p, last, 1, &date->day);
                break;
            }

            /* fall through */

        case 'd':
            rc = ngx_mcds_date_number(&p, last, 2, &date->day);
            break;

        case 'y':
            rc = ngx_mcds_date_number(&p, last, 4, &date->year);
            break;

        case 'Y':
            rc = ngx_mcds_date_number(&p, last, 2, &date->year);
            date->short_year = 1;
            break;

        case 't':
            date->time = p;

            if (ngx_mcds_date_number(&p, last, 2, &n) != NGX_OK
                || p == last || *p++ != ':'
                || ngx_mcds_date_number(&p, last, 2, &n) != NGX_OK
                || p == last || *p++ != ':'
                || ngx_mcds_date_number(&p, last, 2, &n) != NGX_OK)
            {
                return NGX_ERROR;
            }

            break;

        default:

            if (p == last || ngx_toupper(*p) != *form) {
                return NGX_ERROR;
            }

            p++;
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return (p == last) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_mcds_date_number(u_char **p, u_char *last, size_t n, ngx_int_t *number)
{
    if ((size_t) (last - *p) < n) {
        return NGX_ERROR;
    }

    *number = ngx_atoi(*p, n);
    *p += n;

    return (*number == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/* the index of a name, or of its first letters if len is not 0 */

static ngx_int_t
ngx_mcds_date_name(u_char **p, u_char *last, char **names, size_t n,
    size_t len)
{
    size_t  i, size;

    for (i = 0; i < n; i++) {
        size = len ? len : ngx_strlen(names[i]);

        if ((size_t) (last - *p) >= size
            && ngx_strncasecmp(*p, (u_char *) names[i], size) == 0)
        {
            *p += size;
            return (ngx_int_t) i;
        }
    }

    return NGX_ERROR;
}


/*
 * RFC 9110, 5.6.7: a year that would be more than 50 years ahead is one of the
 * century before.
 */

static void
ngx_mcds_date_complete(ngx_mcds_date_t *date, int64_t now)
{
    ngx_tm_t  tm;

    ngx_gmtime((time_t) now, &tm);

    date->year += tm.ngx_tm_year - tm.ngx_tm_year % NGX_MCDS_DATE_CENTURY;

    if (date->year >= tm.ngx_tm_year + NGX_MCDS_DATE_CENTURY / 2) {
        date->year -= NGX_MCDS_DATE_CENTURY;
    }
}
