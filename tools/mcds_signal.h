
/*
 * Copyright (C) mcds authors
 */


#ifndef _MCDS_SIGNAL_H_INCLUDED_
#define _MCDS_SIGNAL_H_INCLUDED_


#include "mcds.h"


/*
 * Signals as events.  The handler is called in the event loop soon after the
 * signal.  sent is 1 if a process sent the signal, 0 if the kernel did: a key
 * at the terminal, whose signal all processes of its foreground group get, or
 * the loss of the terminal, whose SIGHUP the leader of its session gets alone;
 * the group gets that SIGHUP when the leader ends.
 */

typedef void (*mcds_signal_pt)(void *data, int signo, ngx_uint_t sent);


/* Sets the handler of signals; call this before mcds_signal_catch(). */

void mcds_signal_begin(mcds_signal_pt handler, void *data);


/*
 * From now on, the handler of signals gets this signal, unless the process that
 * has started the tool ignores it, as nohup and shells do for commands in the
 * background.
 */

void mcds_signal_catch(int signo);


/* Returns 1 if this process ignores the signal (SIG_IGN). */

ngx_uint_t mcds_signal_ignored(int signo);


#endif /* _MCDS_SIGNAL_H_INCLUDED_ */
