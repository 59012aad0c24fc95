
/*
 * Copyright (C) mcds authors
 *
 * mcds_log and mcds_log_api: what happens on all hosts, line by line.
 */


#ifndef _NGX_HTTP_MCDS_LOG_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_read.h"
#include "ngx_mcds_log_write.h"


/* lines of an answer, or of a POST */
#define NGX_HTTP_MCDS_LOG_MAX     10000


/* a log_format */

typedef struct {
    ngx_str_t                   name;
    ngx_array_t                 words;     /* ngx_str_t, behind the name */
    ngx_array_t                *ops;       /* NULL: it is not used */
    ngx_uint_t                  escape;
} ngx_http_mcds_log_format_t;


/* a log of a pool, and this worker's writers of it, of requests and POSTs */

typedef struct {
    ngx_mcds_log_t              log;
    ngx_mcds_log_writer_t      *writer;
    ngx_mcds_log_writer_t      *poster;
    ngx_uint_t                  written;   /* some mcds_log writes it */
    ngx_uint_t                  shown;     /* some mcds_log_api shows it */

    ngx_http_mcds_place_t       chunk_place;   /* where that was said, */
    ngx_http_mcds_place_t       chunks_place;  /* line 0: nowhere */
    ngx_http_mcds_place_t       max_chunk_place;
} ngx_http_mcds_log_t;


/* one directive */

typedef struct {
    ngx_str_t                   name;
    ngx_str_t                   pool;
    ngx_str_t                   format_name;
    ngx_msec_t                  chunk;     /* 0: not said */
    ngx_uint_t                  chunks;
    size_t                      max_chunk;
    ngx_http_complex_value_t   *filter;

    char                       *directive;
    ngx_http_mcds_place_t       place;
    ngx_http_mcds_loc_conf_t   *mlcf;      /* of the level it is on */

    ngx_http_mcds_log_format_t *format;
    ngx_http_mcds_log_t        *log;
} ngx_http_mcds_log_use_t;


typedef struct {
    ngx_array_t                *logs;      /* ngx_http_mcds_log_use_t * */
    ngx_http_mcds_log_use_t    *read;
} ngx_http_mcds_log_conf_t;


typedef struct {
    ngx_array_t                 uses;      /* ngx_http_mcds_log_use_t * */
    ngx_array_t                 logs;      /* ngx_http_mcds_log_t * */
    ngx_array_t                 formats;   /* ngx_http_mcds_log_format_t * */
} ngx_http_mcds_log_main_t;


/*
 * Formats.  watch: from now on each log_format is seen, until unwatch.  find:
 * compiles it; NULL: there is none, or its variables are not right (logged).
 * write: a line in buf, of size bytes at most; returns its end.
 */

ngx_int_t ngx_http_mcds_log_formats_watch(ngx_conf_t *cf);
void ngx_http_mcds_log_formats_unwatch(void);
ngx_http_mcds_log_format_t *ngx_http_mcds_log_format_find(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf, ngx_http_mcds_log_use_t *use);
u_char *ngx_http_mcds_log_format_write(ngx_http_request_t *r,
    ngx_http_mcds_log_format_t *format, u_char *buf, size_t size);


/* directives; resolve: when all of them are known */

char *ngx_http_mcds_log_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_log_read_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_mcds_log_resolve(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf);


/*
 * The content handler, what a request asks for, and how lines are shown.
 *
 * range: from the arguments; NGX_DECLINED: they are not right, *detail says
 * why.  time: as arguments have it; NGX_ABORT: it is none.  cursor: sends the
 * header with this id, and returns its text, or NULL.  json: appends an event,
 * and what is behind it.  post: a POST.
 */

ngx_int_t ngx_http_mcds_log_read_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_log_range(ngx_http_request_t *r, ngx_str_t *after,
    ngx_mcds_log_range_t *range, char **detail);
ngx_int_t ngx_http_mcds_log_time(ngx_str_t *text, uint64_t now,
    uint64_t *time);
char *ngx_http_mcds_log_cursor(ngx_http_request_t *r, ngx_mcds_log_id_t *id);
size_t ngx_http_mcds_log_json_size(ngx_mcds_log_event_t *event);
u_char *ngx_http_mcds_log_json(u_char *p, ngx_mcds_log_event_t *event);
ngx_int_t ngx_http_mcds_log_post(ngx_http_request_t *r,
    ngx_http_mcds_log_t *log);


/* events of a server, text/event-stream: a request that follows the log */

ngx_uint_t ngx_http_mcds_log_follow_asked(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_log_follow(ngx_http_request_t *r,
    ngx_http_mcds_log_t *log);


extern ngx_module_t  ngx_http_mcds_log_module;


#endif /* _NGX_HTTP_MCDS_LOG_H_INCLUDED_ */
