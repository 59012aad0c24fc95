
/*
 * Copyright (C) mcds authors
 *
 * Counts the live allocations of a process of nginx, and lets chosen
 * allocations fail; the library is loaded before libc, see Test/Mcds/Memory.pm.
 *
 * Each process has a file, $MCDS_MEMORY.<pid>, which is mapped, so that a test
 * can read it, and choose the allocation to fail, at any time.
 *
 * $MCDS_MEMORY_FAIL is the number of the allocation that fails in the first
 * process.  With TEST_DEBUG the error log gets a backtrace of each failure.
 *
 * Look-ups of users and hosts never fail, as libc does not survive a failed
 * allocation there.
 *
 * With the address sanitizer live allocations are not counted, as the sizes of
 * its own allocations are unknown.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>


typedef struct {
    volatile uint64_t  fail;           /* number of the memory allocation that
                                          will fail; 0: none */
    volatile uint64_t  calls;          /* number of memory allocations since a
                                          test chose the one to fail */
    volatile uint64_t  failed;
    volatile int64_t   blocks;         /* number of live memory allocations, and
                                          their bytes */
    volatile int64_t   bytes;
    volatile uint64_t  later;          /* number of the memory allocation that
                                          will fail in child processes */
    volatile uint64_t  trim;           /* a test sets 1: the next free() returns
                                          free memory to the kernel, and sets
                                          0 */
    volatile uint64_t  large;          /* the next memory allocation of so many
                                          bytes or more fails, and sets 0; 0:
                                          none */
} memory_t;


#define spare(type, name, ...)                                                \
    type  value;                                                              \
                                                                              \
    static __typeof__(&name)  real;                                           \
                                                                              \
    if (real == NULL) {                                                       \
        *(void **) &real = dlsym(RTLD_NEXT, #name);                           \
    }                                                                         \
                                                                              \
    sparing++;                                                                \
    value = real(__VA_ARGS__);                                                \
    sparing--;                                                                \
                                                                              \
    return value;


static void begin(void) __attribute__((constructor));
static void child(void);
static void resolve(void);
static int refused(size_t size);
static void tell(void);
static void *born(void *p);
static void died(size_t size);


static int        counting, telling, sparing;
static char       path[1024];
static memory_t   none;
static memory_t  *memory = &none;

static void    *(*real_malloc)(size_t size);
static void    *(*real_calloc)(size_t n, size_t size);
static void    *(*real_realloc)(void *p, size_t size);
static void    *(*real_memalign)(size_t alignment, size_t size);
static int      (*real_posix_memalign)(void **p, size_t alignment,
    size_t size);
static void     (*real_free)(void *p);


static void
begin(void)
{
    char  *name, *fail;

    resolve();

    name = getenv("MCDS_MEMORY");
    fail = getenv("MCDS_MEMORY_FAIL");

    if (name) {
        snprintf(path, sizeof(path), "%s", name);
        pthread_atfork(NULL, NULL, child);
        child();
        memory->fail = fail ? strtoul(fail, NULL, 10) : 0;
        counting = dlsym(RTLD_DEFAULT, "__asan_init") == NULL;
        telling = getenv("TEST_DEBUG") != NULL;
    }
}


/*
 * creates the file in which a process counts its memory allocations; after a
 * fork() the counts start with the live allocations of the parent
 */

static void
child(void)
{
    int        fd;
    char       name[1100];
    memory_t  *own;

    snprintf(name, sizeof(name), "%s.%d", path, (int) getpid());

    fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd == -1) {
        abort();
    }

    if (ftruncate(fd, sizeof(memory_t)) == -1) {
        abort();
    }

    own = mmap(NULL, sizeof(memory_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               0);
    close(fd);

    if (own == MAP_FAILED) {
        abort();
    }

    own->blocks = memory->blocks;
    own->bytes = memory->bytes;
    own->fail = memory->later;
    memory = own;
}


static void
resolve(void)
{
    if (real_free) {
        return;
    }

    *(void **) &real_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **) &real_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **) &real_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **) &real_memalign = dlsym(RTLD_NEXT, "memalign");
    *(void **) &real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    *(void **) &real_free = dlsym(RTLD_NEXT, "free");
}


static int
refused(size_t size)
{
    uint64_t  call;

    resolve();

    if (sparing) {
        return 0;
    }

    call = __atomic_add_fetch(&memory->calls, 1, __ATOMIC_RELAXED);

    if (memory->large && size >= memory->large) {
        memory->large = 0;

    } else if (call != memory->fail) {
        return 0;
    }

    memory->failed++;

    if (telling) {
        tell();
    }

    errno = ENOMEM;

    return 1;
}


static void
tell(void)
{
    int    n;
    void  *frames[16];

    /* the allocations of backtrace() itself cause no further backtraces */

    telling = 0;

    n = backtrace(frames, 16);
    backtrace_symbols_fd(frames, n, STDERR_FILENO);

    telling = 1;
}


static void *
born(void *p)
{
    if (p && counting) {
        __atomic_add_fetch(&memory->blocks, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&memory->bytes, malloc_usable_size(p),
                           __ATOMIC_RELAXED);
    }

    return p;
}


static void
died(size_t size)
{
    __atomic_sub_fetch(&memory->blocks, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&memory->bytes, size, __ATOMIC_RELAXED);
}


void *
malloc(size_t size)
{
    return refused(size) ? NULL : born(real_malloc(size));
}


void *
calloc(size_t n, size_t size)
{
    return refused(n * size) ? NULL : born(real_calloc(n, size));
}


void *
realloc(void *p, size_t size)
{
    void    *new;
    size_t   was;

    if (refused(size)) {
        return NULL;
    }

    was = (p && counting) ? malloc_usable_size(p) : 0;
    new = real_realloc(p, size);

    if (was && (new || size == 0)) {
        died(was);
    }

    return born(new);
}


void *
memalign(size_t alignment, size_t size)
{
    return refused(size) ? NULL : born(real_memalign(alignment, size));
}


void *
aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}


int
posix_memalign(void **p, size_t alignment, size_t size)
{
    int  rc;

    if (refused(size)) {
        return ENOMEM;
    }

    rc = real_posix_memalign(p, alignment, size);

    if (rc == 0) {
        born(*p);
    }

    return rc;
}


void
free(void *p)
{
    resolve();

    if (p && counting) {
        died(malloc_usable_size(p));
    }

    real_free(p);

    if (memory->trim) {
        memory->trim = 0;
        malloc_trim(0);
    }
}


struct passwd *
getpwnam(const char *name)
{
    spare(struct passwd *, getpwnam, name)
}


struct group *
getgrnam(const char *name)
{
    spare(struct group *, getgrnam, name)
}


int
initgroups(const char *user, gid_t group)
{
    spare(int, initgroups, user, group)
}


int
getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    spare(int, getaddrinfo, node, service, hints, res)
}
