
/*
 * Copyright (C) mcds authors
 *
 * mcds lock run: runs a command while the tool holds a lock.
 *
 * Without a terminal the command leads its own process group, so that its
 * children get its signals.  With a terminal the command stays in the
 * foreground process group, like any other command.
 */


#include "mcds.h"
#include <sys/wait.h>
#if (NGX_LINUX)
#include <sys/prctl.h>
#endif
#include "mcds_lock.h"
#include "mcds_signal.h"
#include "ngx_mcds_lock.h"


/* exit codes of "lock run", besides those of the command that it runs */

#define MCDS_RUN_UNAVAILABLE      69  /* EX_UNAVAILABLE: memcached did not
                                         answer */
#define MCDS_RUN_BUSY             75  /* EX_TEMPFAIL: another owner holds the
                                         lock */
#define MCDS_RUN_LOST             79
#define MCDS_RUN_CANNOT           126 /* the exit codes 126 and 127 mean what
                                         they mean in shells */
#define MCDS_RUN_NO_COMMAND       127
#define MCDS_RUN_SIGNAL           128

/*
 * seconds after which the lock of "lock run" expires by default, as that of
 * mcds_lock does
 */
#define MCDS_RUN_TTL              30

/*
 * an operation of memcached may take 1 / MCDS_RUN_PART of the time after which
 * the lock expires
 */
#define MCDS_RUN_PART             6


typedef struct {
    mcds_t           *m;
    ngx_str_t         key;
    ngx_mcds_lock_t  *lock;
    ngx_uint_t        told;       /* 1: the lock of "lock run" was granted or
                                     refused */
    ngx_uint_t        status;     /* the result of the request for the lock of
                                     "lock run", ngx_mcds_lock_e */
    ngx_uint_t        done;
    pid_t             pid;        /* process id of the command that "lock run"
                                     runs; 0: it does not run */
    int               ended;      /* status of the command that "lock run"
                                     runs, as waitpid() has returned it */
    int               signo;      /* signal that came before "lock run"
                                     started its command, or 0 */
    unsigned           group:1;
    unsigned           lost:1;
} mcds_run_t;


typedef struct {
    ngx_uint_t               done;
    ngx_uint_t               rc;
    ngx_mcds_lock_change_t   change;
} mcds_run_released_t;


static void mcds_run_patience(mcds_t *m, uint32_t ttl);
static void mcds_run_handler(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t status);
static int mcds_run_refused(mcds_run_t *run);
static void mcds_run_start(mcds_run_t *run, char **argv);
static void mcds_run_child(mcds_run_t *run, char **argv);
static void mcds_run_signal(void *data, int signo, ngx_uint_t sent);
static void mcds_run_kill(mcds_run_t *run, int signo);
static void mcds_run_lost(mcds_run_t *run);
static int mcds_run_end(mcds_run_t *run);
static void mcds_run_released(void *data, ngx_mcds_lock_state_t *state);


/*
 * signals that "lock run" passes on to the command that it runs, except those
 * that are ignored when the tool starts: the command ignores them, too
 */

static int  mcds_run_signals[] = {
    SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0
};


void
mcds_lock_run(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    int                     status;
    char                  **argv;
    ngx_uint_t              i;
    mcds_run_t              run;
    ngx_mcds_lock_wish_t    wish;

    if (n < 2) {
        mcds_usage(m, "run needs a key and a command");
    }

    if (ngx_mcds_lock_is_fence(&args[0])) {
        mcds_usage(m, "\"%s\" is reserved: it counts the owners of a lock",
                   args[0].data);
    }

    ngx_memzero(&run, sizeof(mcds_run_t));
    ngx_memzero(&wish, sizeof(ngx_mcds_lock_wish_t));

    run.m = m;
    run.key = args[0];

    wish.pool = m->pool;
    wish.key = args[0];
    wish.ttl = m->o.ttl ? m->o.ttl : MCDS_RUN_TTL;
    wish.wait = m->o.wait;
    wish.waiters = 1;

    if (wish.ttl < NGX_MCDS_LOCK_MIN_TTL) {
        mcds_usage(m, "--ttl must be at least %ds",
                   (int) NGX_MCDS_LOCK_MIN_TTL);
    }

    argv = mcds_alloc(m, n * sizeof(char *));

    for (i = 1; i < n; i++) {
        argv[i - 1] = (char *) args[i].data;
    }

    mcds_run_patience(m, wish.ttl);

    mcds_signal_begin(mcds_run_signal, &run);

    for (i = 0; mcds_run_signals[i]; i++) {
        mcds_signal_catch(mcds_run_signals[i]);
    }

    (void) signal(SIGCHLD, SIG_DFL);
    mcds_signal_catch(SIGCHLD);

    run.lock = ngx_mcds_lock_acquire(&wish, mcds_run_handler, &run);

    if (run.lock == NULL) {
        mcds_no_memory();
    }

    mcds_wait(&run.done);

    if (run.lock == NULL || run.signo) {
        status = mcds_run_refused(&run);

    } else {
        run.done = 0;

        mcds_run_start(&run, argv);
        mcds_wait(&run.done);

        status = mcds_run_end(&run);
    }

    m->status = status;
}


/*
 * limits the timeouts for memcached, so that a failure to extend the lock is
 * known before the lock expires
 */

static void
mcds_run_patience(mcds_t *m, uint32_t ttl)
{
    ngx_msec_t  most;

    most = (ngx_msec_t) ttl * 1000 / MCDS_RUN_PART;

    m->pool->timeout = ngx_min(m->pool->timeout, most);
    m->pool->connect_timeout = ngx_min(m->pool->connect_timeout, most);
}


static void
mcds_run_handler(void *data, ngx_mcds_lock_t *lock, ngx_uint_t status)
{
    mcds_run_t *run = data;

    if (status == NGX_MCDS_LOCK_LOST) {
        mcds_run_lost(run);
        return;
    }

    run->told = 1;
    run->lock = lock;
    run->status = status;
    run->done = 1;
}


/*
 * reports why "lock run" has not got its lock, and so does not start the
 * command; returns the exit code
 */

static int
mcds_run_refused(mcds_run_t *run)
{
    int  status;

    status = MCDS_RUN_BUSY;

    if (run->signo) {

        if (run->lock) {
            ngx_mcds_lock_release(run->lock);
        }

        status = MCDS_RUN_SIGNAL + run->signo;

    } else if (run->status == NGX_MCDS_LOCK_UNAVAILABLE) {
        mcds_failed(run->m, &run->key, NGX_MCDS_DOWN);
        status = MCDS_RUN_UNAVAILABLE;

    } else {
        mcds_error(run->m, MCDS_NO, "%.*s: another owner holds the lock",
                   (int) run->key.len, run->key.data);
    }

    /*
     * memcached may not have replied yet to the request for the lock, and may
     * still grant it: the tool waits until it has released such a lock, for at
     * most --timeout
     */

    mcds_settle(run->m);

    return status;
}


static void
mcds_run_start(mcds_run_t *run, char **argv)
{
    int  fd;

    fd = open("/dev/tty", O_RDWR|O_NOCTTY|O_CLOEXEC);

    if (fd == -1) {
        run->group = 1;

    } else {
        (void) close(fd);
    }

    (void) fflush(stdout);

    run->pid = fork();

    switch (run->pid) {

    case -1:
        mcds_error(run->m, MCDS_NO, "fork: %s", strerror(errno));

        run->pid = 0;
        run->ended = MCDS_RUN_CANNOT << 8;
        run->done = 1;
        break;

    case 0:
        mcds_run_child(run, argv);
        break;

    default:
        if (run->group) {
            (void) setpgid(run->pid, run->pid);
        }
    }
}


static void
mcds_run_child(mcds_run_t *run, char **argv)
{
    int         err;
    char        number[NGX_INT64_LEN + 1];
    ngx_uint_t  i;

    /*
     * the tool's connections to memcached, which may be authenticated, are
     * closed when the process becomes the command
     */

    for (i = 0; i < ngx_cycle->connection_n; i++) {
        if (ngx_cycle->connections[i].fd != (ngx_socket_t) -1) {
            (void) fcntl(ngx_cycle->connections[i].fd, F_SETFD, FD_CLOEXEC);
        }
    }

    for (i = 0; mcds_run_signals[i]; i++) {
        if (!mcds_signal_ignored(mcds_run_signals[i])) {
            (void) signal(mcds_run_signals[i], SIG_DFL);
        }
    }

    (void) signal(SIGCHLD, SIG_DFL);

    if (!run->m->pipe_ignored) {
        (void) signal(SIGPIPE, SIG_DFL);
    }

    if (run->group) {
        (void) setpgid(0, 0);
    }

#if (NGX_LINUX)

    /*
     * the kernel ends the command if "lock run" is killed, since no process
     * extends the lock then
     */

    (void) prctl(PR_SET_PDEATHSIG, SIGTERM);

    if (getppid() != ngx_pid) {
        _exit(MCDS_RUN_CANNOT);
    }

#endif

    (void) snprintf(number, sizeof(number), "%llu", (unsigned long long)
                    ngx_mcds_lock_number(run->lock));

    if (setenv("MCDS_LOCK_TOKEN", number, 1) == 0) {
        (void) execvp(argv[0], argv);
    }

    err = errno;

    mcds_error(run->m, MCDS_NO, "%s: %s", argv[0], strerror(err));

    _exit(err == ENOENT ? MCDS_RUN_NO_COMMAND : MCDS_RUN_CANNOT);
}


static void
mcds_run_signal(void *data, int signo, ngx_uint_t sent)
{
    mcds_run_t *run = data;

    if (signo == SIGCHLD) {

        if (run->pid && waitpid(run->pid, &run->ended, WNOHANG) == run->pid) {
            run->pid = 0;
            run->done = 1;
        }

        return;
    }

    if (run->pid) {

        /*
         * the signal is not passed on if it came from the terminal and the
         * command is in the same process group: the command has got it already,
         * except the SIGHUP of a lost terminal, which the kernel sends to the
         * leader of the terminal's session alone
         */

        if (sent
            || run->group
            || (signo == SIGHUP && getsid(0) == ngx_pid))
        {
            mcds_run_kill(run, signo);
        }

        return;
    }

    if (signo != SIGUSR1 && signo != SIGUSR2) {
        run->signo = signo;
        run->done = 1;
    }
}


static void
mcds_run_kill(mcds_run_t *run, int signo)
{
    if (run->pid) {
        (void) kill(run->group ? -run->pid : run->pid, signo);
    }
}


/*
 * ends the command of "lock run" when the lock was lost; meanwhile the tool
 * still tries to get the lock back, so that no other owner gets it
 */

static void
mcds_run_lost(mcds_run_t *run)
{
    run->lost = 1;

    mcds_error(run->m, MCDS_NO, "%.*s: the lock was lost, ending the command",
               (int) run->key.len, run->key.data);

    mcds_run_kill(run, SIGTERM);
}


/*
 * releases the lock of "lock run" when the command has ended, unless another
 * owner has the lock by now; returns the exit code of the tool: MCDS_RUN_LOST
 * if the lock was lost, otherwise the exit code of the command
 */

static int
mcds_run_end(mcds_run_t *run)
{
    u_char                 owner[NGX_MCDS_LOCK_OWNER];
    ngx_str_t             *name;
    mcds_run_released_t    released;
    ngx_mcds_lock_item_t  *item;

    if (run->lost) {
        ngx_mcds_lock_release(run->lock);
        mcds_settle(run->m);

        return MCDS_RUN_LOST;
    }

    ngx_memzero(&released, sizeof(mcds_run_released_t));

    released.change.pool = run->m->pool;
    released.change.key = run->key;
    released.change.handler = mcds_run_released;
    released.change.data = &released;

    name = ngx_mcds_lock_owner(run->lock);
    ngx_memcpy(owner, name->data, name->len);

    item = &released.change.item;
    item->number = ngx_mcds_lock_number(run->lock);
    item->owner.data = owner;
    item->owner.len = name->len;

    ngx_mcds_lock_leave(run->lock);
    ngx_mcds_lock_change(&released.change);

    mcds_wait(&released.done);

    switch (released.rc) {

    case NGX_MCDS_OK:
        break;

    case NGX_MCDS_EXISTS:
    case NGX_MCDS_NOT_FOUND:
        mcds_error(run->m, MCDS_NO, "%.*s: the lock was lost while the command "
                   "ran", (int) run->key.len, run->key.data);

        return MCDS_RUN_LOST;

    default:
        mcds_error(run->m, MCDS_NO, "%.*s: the lock could not be released and "
                   "will expire: %s", (int) run->key.len, run->key.data,
                   ngx_mcds_strerror(released.rc));
    }

    return WIFSIGNALED(run->ended) ? MCDS_RUN_SIGNAL + WTERMSIG(run->ended)
                                   : WEXITSTATUS(run->ended);
}


static void
mcds_run_released(void *data, ngx_mcds_lock_state_t *state)
{
    mcds_run_released_t *released = data;

    released->done = 1;
    released->rc = state->rc;
}
