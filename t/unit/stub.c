
/*
 * Copyright (C) mcds authors
 *
 * The symbols that the linked files of nginx's core need from the rest of
 * nginx.
 */


#include <ngx_config.h>
#include <ngx_core.h>


static ngx_log_t    stub_log;
static ngx_cycle_t  stub_cycle = { .log = &stub_log };


volatile ngx_cycle_t  *ngx_cycle = &stub_cycle;
ngx_pid_t              ngx_pid;


static void __attribute__((constructor)) stub_init(void);


static void
stub_init(void)
{
    ngx_pagesize = 4096;
    ngx_cacheline_size = 64;
    stub_log.log_level = 0;

    ngx_time_init();
}


#ifdef ngx_src_file

/* Angie's ngx_log_error_core() has the source file as an argument, too */

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, const char *filename,
    ngx_err_t err, const char *fmt, ...)

#else

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
    const char *fmt, ...)

#endif
{
    /* void */
}


/*
 * replace nginx's locks in shared memory, as the tests need none: they have one
 * thread, and processes that take turns
 */

void
ngx_shmtx_lock(ngx_shmtx_t *mtx)
{
    /* void */
}


void
ngx_shmtx_unlock(ngx_shmtx_t *mtx)
{
    /* void */
}
