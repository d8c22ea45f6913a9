/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full-screen terminal that shows frames. Restores the terminal when the user quits,
 * interrupts or suspends.
 */
#ifndef RN_CLI_OUTPUT_SCREEN_H
#define RN_CLI_OUTPUT_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "base/slice.h"

enum rn_screen_event {
    RN_SCREEN_TIME,   /* the time has passed */
    RN_SCREEN_REDRAW, /* new size, or resumed after a suspend */
    RN_SCREEN_QUIT,   /* q, Ctrl-C, SIGTERM or SIGHUP */
};

struct rn_screen {
    int rows, columns;
    int wake_fd; /* readable when a key or a signal has arrived: rn_screen_wait returns at once */

    int signal_fd; /* private from here on */
    struct termios before;
    sigset_t signals_before;
    bool shown;
};

/* Opens standard output, which must be a terminal. False: errno says why not. */
bool rn_screen_open(struct rn_screen *screen);
void rn_screen_close(struct rn_screen *screen);

/* Replaces the previous frame, in one write and without clearing, to avoid flicker. Text that does
 * not fit is cut. */
void rn_screen_show(struct rn_screen *screen, struct rn_slice text);

/* Waits for an event, until `until_ns` of the monotonic clock. */
enum rn_screen_event rn_screen_wait(struct rn_screen *screen, int64_t until_ns);

#endif
