/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal that shows one frame after the other, and is left as it was found,
 * also if the user interrupts, or suspends.
 */
#ifndef RN_CLI_OUTPUT_SCREEN_H
#define RN_CLI_OUTPUT_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "base/slice.h"

enum rn_screen_event {
    RN_SCREEN_TIME,   /* has passed */
    RN_SCREEN_REDRAW, /* another size, or back from being suspended */
    RN_SCREEN_QUIT,   /* q, Ctrl-C, SIGTERM or SIGHUP */
};

struct rn_screen {
    int rows, columns;
    int wake_fd; /* readable when a key or a signal has come: rn_screen_wait will not wait */

    int signal_fd; /* private from here on */
    struct termios before;
    sigset_t signals_before;
    bool shown;
};

/* Of standard output, which is a terminal. False: not possible, errno tells. */
bool rn_screen_open(struct rn_screen *screen);
void rn_screen_close(struct rn_screen *screen);

/* Shows the text in place of the frame before: in one write, and without
 * clearing, so that nothing flickers. What does not fit is cut. */
void rn_screen_show(struct rn_screen *screen, struct rn_slice text);

/* Until something happens or `until_ns` of the monotonic clock has come. */
enum rn_screen_event rn_screen_wait(struct rn_screen *screen, int64_t until_ns);

#endif
