
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_date.h"


#define NGX_MCDS_DATE_CENTURY     100

/* days from 0000-03-01, from which dates are counted, to 1970-01-01 */
#define NGX_MCDS_DATE_EPOCH       719468


typedef struct {
    ngx_int_t     day;
    ngx_int_t     month;
    ngx_int_t     year;
    ngx_int_t     hour;
    ngx_int_t     min;
    ngx_int_t     sec;
    unsigned      short_year:1;
} ngx_mcds_date_t;


static ngx_int_t ngx_mcds_date_read(ngx_mcds_date_t *date, ngx_str_t *value,
    char *form);
static ngx_int_t ngx_mcds_date_number(u_char **p, u_char *last, size_t n,
    ngx_int_t *number);
static ngx_int_t ngx_mcds_date_name(u_char **p, u_char *last, char **names,
    size_t n, size_t len);
static void ngx_mcds_date_complete(ngx_mcds_date_t *date, int64_t now);
static int64_t ngx_mcds_date_days(ngx_mcds_date_t *date);


/*
 * The formats of an HTTP date.  Each letter stands for a part of the date: w:
 * abbreviated day name, W: full day name, d: day, e: day with a space for a
 * leading zero, m: month, y: year, Y: last two digits of the year, h: hour, i:
 * minute, s: second.
 */

static char  *ngx_mcds_date_forms[] = {
    "w, d m y h:i:s GMT",         /* IMF-fixdate of RFC 9110, the present
                                     format of HTTP dates */
    "W, d-m-Y h:i:s GMT",         /* the obsolete format of HTTP dates of RFC
                                     850 */
    "w m e h:i:s y"               /* the obsolete format of HTTP dates of
                                     asctime() */
};

static char  *ngx_mcds_date_weekdays[] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",
    "Saturday"
};

static char  *ngx_mcds_date_months[] = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
    "Nov", "Dec"
};

static ngx_int_t  ngx_mcds_date_lengths[] = {
    31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31
};


int64_t
ngx_mcds_date_parse(ngx_str_t *value, int64_t now)
{
    int64_t          days;
    ngx_uint_t       i;
    ngx_mcds_date_t  date;

    for (i = 0; i < 3; i++) {
        if (ngx_mcds_date_read(&date, value, ngx_mcds_date_forms[i])
            == NGX_OK)
        {
            break;
        }
    }

    if (i == 3 || date.hour > 23 || date.min > 59 || date.sec > 59) {
        return NGX_ERROR;
    }

    if (date.short_year) {
        ngx_mcds_date_complete(&date, now);
    }

    days = ngx_mcds_date_days(&date);
    if (days == NGX_ERROR) {
        return NGX_ERROR;
    }

    return ((days * 24 + date.hour) * 60 + date.min) * 60 + date.sec;
}


static ngx_int_t
ngx_mcds_date_read(ngx_mcds_date_t *date, ngx_str_t *value, char *form)
{
    u_char     *p, *last;
    ngx_int_t   rc;

    ngx_memzero(date, sizeof(ngx_mcds_date_t));

    p = value->data;
    last = p + value->len;

    for ( /* void */ ; *form; form++) {

        rc = NGX_OK;

        switch (*form) {

        case 'w':
            rc = ngx_mcds_date_name(&p, last, ngx_mcds_date_weekdays, 7, 3);
            break;

        case 'W':
            rc = ngx_mcds_date_name(&p, last, ngx_mcds_date_weekdays, 7, 0);
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

        case 'h':
            rc = ngx_mcds_date_number(&p, last, 2, &date->hour);
            break;

        case 'i':
            rc = ngx_mcds_date_number(&p, last, 2, &date->min);
            break;

        case 's':
            rc = ngx_mcds_date_number(&p, last, 2, &date->sec);
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


/*
 * Returns the index in "names" of the day or month name that an HTTP date has
 * at *p, and advances *p behind the name; returns NGX_ERROR if there is none.
 * If len is not 0, only the name's first len letters are compared.
 */

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
 * completes the two-digit year of an HTTP date: a year that would be 50 years
 * or more in the future is in the past (RFC 9110, 5.6.7)
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


/*
 * returns the days of a date since the epoch, or NGX_ERROR if there is no such
 * day or it is before 1970
 */

static int64_t
ngx_mcds_date_days(ngx_mcds_date_t *date)
{
    int64_t    year, month;
    ngx_int_t  length;

    year = date->year;
    length = ngx_mcds_date_lengths[date->month];

    if (date->month == 1
        && year % 4 == 0
        && (year % 100 != 0 || year % 400 == 0))
    {
        length++;
    }

    if (year < 1970 || date->day < 1 || date->day > length) {
        return NGX_ERROR;
    }

    /*
     * the days of a date are counted in years that begin in March, so that a
     * leap day is the last day of its year
     */

    month = (date->month + 10) % 12;

    if (month >= 10) {
        year--;
    }

    return year * 365 + year / 4 - year / 100 + year / 400
           + (month * 153 + 2) / 5 + date->day - 1 - NGX_MCDS_DATE_EPOCH;
}
