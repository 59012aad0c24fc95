
/*
 * Copyright (C) mcds authors
 *
 * mcds_log and mcds_log_api: logs in memcached, to which all hosts write
 * lines.
 */


#ifndef _NGX_HTTP_MCDS_LOG_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_read.h"
#include "ngx_mcds_log_write.h"


/* the maximum number of log lines in a response or in the body of a POST */
#define NGX_HTTP_MCDS_LOG_MAX     10000


/*
 * a format that the directive log_format defines; mcds keeps the words of the
 * directive, and compiles them when a mcds_log uses the format
 */

typedef struct {
    ngx_str_t                   name;
    ngx_array_t                 words;     /* array of ngx_str_t: the arguments
                                              of log_format behind the name */
    ngx_array_t                *ops;       /* the compiled log_format; NULL: no
                                              mcds_log uses it */
    ngx_uint_t                  escape;
} ngx_http_mcds_log_format_t;


/*
 * a log in the memcached servers of a pool, and this worker's two writers to
 * it: for lines about requests, and for lines that clients POST
 */

typedef struct {
    ngx_mcds_log_t              log;
    ngx_mcds_log_writer_t      *writer;
    ngx_mcds_log_writer_t      *poster;
    ngx_uint_t                  written;   /* 1: a directive mcds_log writes
                                              lines to the log */
    ngx_uint_t                  shown;     /* 1: a directive mcds_log_api shows
                                              the log */

    ngx_http_mcds_place_t       chunk_place;   /* file and line of the directive
                                                  that sets the log's "chunk=";
                                                  line 0 if no directive does */
    ngx_http_mcds_place_t       chunks_place;  /* file and line of the directive
                                                  with the log's "chunks=" */
    ngx_http_mcds_place_t       max_chunk_place;
} ngx_http_mcds_log_t;


/* one directive mcds_log or mcds_log_api, with its parameters */

typedef struct {
    ngx_str_t                   name;
    ngx_str_t                   pool;
    ngx_str_t                   format_name;
    ngx_msec_t                  chunk;     /* the parameter "chunk=": log lines
                                              of so many milliseconds are stored
                                              together; 0: not given */
    ngx_uint_t                  chunks;
    size_t                      max_chunk;
    ngx_http_complex_value_t   *filter;

    char                       *directive;
    ngx_http_mcds_place_t       place;
    ngx_http_mcds_loc_conf_t   *mlcf;      /* configuration of the location,
                                              server or http block that has the
                                              mcds_log or mcds_log_api */

    ngx_http_mcds_log_format_t *format;
    ngx_http_mcds_log_t        *log;
} ngx_http_mcds_log_use_t;


typedef struct {
    ngx_array_t                *logs;      /* the directives mcds_log of the
                                              location, array of
                                              ngx_http_mcds_log_use_t * */
    ngx_http_mcds_log_use_t    *read;
} ngx_http_mcds_log_conf_t;


typedef struct {
    ngx_array_t                 uses;      /* all directives mcds_log and
                                              mcds_log_api, array of
                                              ngx_http_mcds_log_use_t * */
    ngx_array_t                 logs;      /* all logs in memcached, array of
                                              ngx_http_mcds_log_t * */
    ngx_array_t                 formats;   /* all formats of log_format, array
                                              of ngx_http_mcds_log_format_t * */
} ngx_http_mcds_log_main_t;


/*
 * Starts to collect the log_format directives that follow in the configuration,
 * for mcds_log.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_log_formats_watch(ngx_conf_t *cf);

/* ends the collection of log_format directives for mcds_log */

void ngx_http_mcds_log_formats_unwatch(void);

/*
 * The compiled format (of log_format) that a mcds_log names.  NULL (logged) if
 * there is no such format, or if one of its variables is not valid.
 */

ngx_http_mcds_log_format_t *ngx_http_mcds_log_format_find(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf, ngx_http_mcds_log_use_t *use);

/*
 * Writes the log line of a request to buf, truncated to size bytes; returns the
 * end of the line.
 */

u_char *ngx_http_mcds_log_format_write(ngx_http_request_t *r,
    ngx_http_mcds_log_format_t *format, u_char *buf, size_t size);


/*
 * The setter of the directive mcds_log, by which requests of a location write
 * lines to a log; a location may have several of these directives.
 */

char *ngx_http_mcds_log_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * The setter of the directive mcds_log_api, by which clients of a location read
 * a log and write to it.
 */

char *ngx_http_mcds_log_read_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Call this when the directives have been read: finds the pool, the log and the
 * format of each mcds_log and mcds_log_api.  NGX_ERROR (logged) if there is no
 * such pool or format, or if directives that name the same log give it
 * different parameters.
 */

ngx_int_t ngx_http_mcds_log_resolve(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf);


/* the content handler of the directive mcds_log_api */

ngx_int_t ngx_http_mcds_log_read_handler(ngx_http_request_t *r);

/*
 * Sets the range of log lines that a request asks for, by its arguments
 * "first", "last" and "limit", and by the id of a line in "after", which may be
 * empty.  NGX_DECLINED: an argument is not valid, *detail is the text of an
 * error for the client; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_log_range(ngx_http_request_t *r, ngx_str_t *after,
    ngx_mcds_log_range_t *range, char **detail);

/*
 * Parses the time of a log line: seconds or milliseconds since 1970, or seconds
 * before now with "-".  now, *time: milliseconds.  NGX_ABORT: the text is not a
 * time.
 */

ngx_int_t ngx_http_mcds_log_time(ngx_str_t *text, uint64_t now,
    uint64_t *time);

/*
 * Adds the header X-Log-Cursor with the id of a log line to the response.
 * Returns the text of the id, or NULL when out of memory.
 */

char *ngx_http_mcds_log_cursor(ngx_http_request_t *r, ngx_mcds_log_id_t *id);

/* the maximum size of a log line as JSON, bytes */

size_t ngx_http_mcds_log_json_size(ngx_mcds_log_event_t *event);

/* writes a log line as JSON to p; returns the end of the text */

u_char *ngx_http_mcds_log_json(u_char *p, ngx_mcds_log_event_t *event);

/*
 * For a content handler: writes the lines in the body of a POST to the log,
 * and responds when memcached has stored them.  Returns the result for the
 * content handler to return.
 */

ngx_int_t ngx_http_mcds_log_post(ngx_http_request_t *r,
    ngx_http_mcds_log_t *log);


/* 1 if the request follows the log: it has the argument "follow=1" */

ngx_uint_t ngx_http_mcds_log_follow_asked(ngx_http_request_t *r);

/*
 * For a content handler: sends the lines of a log as server-sent events
 * (text/event-stream), until the client leaves or the worker exits.  Returns
 * the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_log_follow(ngx_http_request_t *r,
    ngx_http_mcds_log_t *log);


extern ngx_module_t  ngx_http_mcds_log_module;


#endif /* _NGX_HTTP_MCDS_LOG_H_INCLUDED_ */
