
/*
 * Copyright (C) mcds authors
 *
 * Prints the results of tests in C in the format TAP, which "prove" reads.
 */


#ifndef _TAP_H_INCLUDED_
#define _TAP_H_INCLUDED_


#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>


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


/*
 * Prints and returns the seed of random numbers: the environment variable
 * MCDS_SEED or, if it is not set, the argument.
 */

__attribute__((unused))
static unsigned int
tap_seed(unsigned int seed)
{
    char  *text;

    text = getenv("MCDS_SEED");

    if (text) {
        seed = strtoul(text, NULL, 10);
    }

    printf("# MCDS_SEED=%u\n", seed);

    return seed;
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
