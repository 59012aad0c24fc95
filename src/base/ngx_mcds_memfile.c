
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include "ngx_mcds_memfile.h"


#if (NGX_HAVE_SENDFILE && defined MFD_ALLOW_SEALING && defined F_ADD_SEALS)

#define NGX_MCDS_MEMFILE_SEALS                                                \
    (F_SEAL_SHRINK|F_SEAL_GROW|F_SEAL_WRITE|F_SEAL_SEAL)


static ngx_int_t ngx_mcds_memfile_write(ngx_fd_t fd, ngx_mcds_value_t *value,
    size_t size);


/*
 * the number of files in memory (memfd) that this process has open, and the
 * number that it may have open at most
 */

static ngx_uint_t  ngx_mcds_memfiles;
static ngx_uint_t  ngx_mcds_memfiles_max;


void
ngx_mcds_memfile_init(ngx_uint_t max)
{
    ngx_mcds_memfiles_max = max;
}


ngx_mcds_value_t *
ngx_mcds_memfile_copy(ngx_mcds_value_t *value, ngx_log_t *log)
{
    size_t             size;
    ngx_fd_t           fd;
    ngx_mcds_value_t  *copy;

    if (value->len < NGX_MCDS_MEMFILE_MIN
        || value->fd != NGX_INVALID_FILE
        || ngx_mcds_memfiles >= ngx_mcds_memfiles_max)
    {
        return NULL;
    }

    size = ngx_mcds_value_room(value->len);

    fd = memfd_create("mcds", MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (fd == -1) {
        ngx_log_error(NGX_LOG_INFO, log, ngx_errno, "memfd_create() failed");
        return NULL;
    }

    copy = MAP_FAILED;

    if (ngx_mcds_memfile_write(fd, value, size) == NGX_OK) {
        copy = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE, fd, 0);
    }

    if (copy == MAP_FAILED) {
        ngx_log_error(NGX_LOG_INFO, log, ngx_errno,
                      "writing or mapping a memory file failed");
        (void) close(fd);
        return NULL;
    }

    ngx_mcds_memfiles++;

    copy->refs = 1;
    copy->fd = fd;
    copy->size = value->len;
    copy->len = value->len;

    return copy;
}


static ngx_int_t
ngx_mcds_memfile_write(ngx_fd_t fd, ngx_mcds_value_t *value, size_t size)
{
    u_char   *p;
    ssize_t   n;

    p = (u_char *) value;

    while (size) {
        n = write(fd, p, size);

        if (n == -1) {

            if (ngx_errno == NGX_EINTR) {
                continue;
            }

            return NGX_ERROR;
        }

        p += n;
        size -= n;
    }

    return fcntl(fd, F_ADD_SEALS, NGX_MCDS_MEMFILE_SEALS) == -1 ? NGX_ERROR
                                                                : NGX_OK;
}


void
ngx_mcds_memfile_free(ngx_mcds_value_t *value)
{
    ngx_fd_t  fd;

    fd = value->fd;

    (void) munmap(value, ngx_mcds_value_room(value->size));
    (void) close(fd);

    ngx_mcds_memfiles--;
}

#else

void
ngx_mcds_memfile_init(ngx_uint_t max)
{
}


ngx_mcds_value_t *
ngx_mcds_memfile_copy(ngx_mcds_value_t *value, ngx_log_t *log)
{
    return NULL;
}


void
ngx_mcds_memfile_free(ngx_mcds_value_t *value)
{
}

#endif
