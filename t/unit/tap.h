
/*
 * Copyright (C) mcds authors
 *
 * The least a C test needs to speak TAP to prove.
 */


#ifndef _TAP_H_INCLUDED_
#define _TAP_H_INCLUDED_


#include <stdarg.h>
#include <stdio.h>


static int  tap_run;
static int  tap_failed;


__attribute__((format(printf, 2, 3), unused))
static int
ok(int good, const char *fmt, ...)
{
    va_list  args;

    tap_run++;

    if (!good) {
        tap_failed++;
    }

    printf("%sok %d - ", good ? "" : "not ", tap_run);

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);

    printf("\n");

    return good;
}


__attribute__((unused))
static int
done_testing(void)
{
    printf("1..%d\n", tap_run);
    fflush(stdout);

    return tap_failed ? 1 : 0;
}


#endif /* _TAP_H_INCLUDED_ */
