
/*
 * Copyright (C) mcds authors
 */


#include "mcds_signal.h"


static void mcds_signal_action(int signo, siginfo_t *info, void *context);
static void mcds_signal_read(ngx_event_t *ev);


static int             mcds_signal_pipe[2];
static void           *mcds_signal_data;
static mcds_signal_pt  mcds_signal_handler;


void
mcds_signal_begin(mcds_signal_pt handler, void *data)
{
    mcds_signal_handler = handler;
    mcds_signal_data = data;

    if (pipe2(mcds_signal_pipe, O_CLOEXEC|O_NONBLOCK) == -1
        || ngx_tool_watch(mcds_signal_pipe[0], mcds_signal_read, NULL) == NULL)
    {
        mcds_no_memory();
    }
}


void
mcds_signal_catch(int signo)
{
    struct sigaction  sa;

    if (mcds_signal_ignored(signo)) {
        return;
    }

    ngx_memzero(&sa, sizeof(struct sigaction));

    sa.sa_sigaction = mcds_signal_action;
    sa.sa_flags = SA_SIGINFO|SA_RESTART;
    (void) sigemptyset(&sa.sa_mask);

    (void) sigaction(signo, &sa, NULL);
}


ngx_uint_t
mcds_signal_ignored(int signo)
{
    struct sigaction  sa;

    return sigaction(signo, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
}


/*
 * the signal handler: writes the signal to a pipe, from which the event loop
 * reads it; writes of two bytes are atomic, so signals do not mix
 */

static void
mcds_signal_action(int signo, siginfo_t *info, void *context)
{
    int     err;
    u_char  text[2];

    err = errno;

    text[0] = (u_char) signo;
    text[1] = (info->si_code <= 0);

    if (write(mcds_signal_pipe[1], text, 2) == -1) {

        /*
         * the signal is dropped: the pipe is full of signals that were not
         * handled yet
         */
    }

    errno = err;
}


static void
mcds_signal_read(ngx_event_t *ev)
{
    u_char  text[2];

    while (read(mcds_signal_pipe[0], text, 2) == 2) {
        mcds_signal_handler(mcds_signal_data, text[0], text[1]);
    }
}
