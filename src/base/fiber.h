/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fiber: a function on a stack of its own, which can wait in the middle of a call
 * while its thread does other things. A store that must ask a server parks the fiber that
 * it is called on (store/store.h); no caller of a store needs to know.
 *
 * A fiber stays with the thread that runs it. Fibers do not nest: they are run and
 * woken from the thread's own stack.
 */
#ifndef RN_BASE_FIBER_H
#define RN_BASE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rn_fiber;

/* What it needs of the stack is only taken as it is used, and a step beyond it is
 * the end of the process. NULL: out of memory. */
struct rn_fiber *rn_fiber_new(size_t stack_bytes);
/* One that neither runs nor waits. NULL is fine. */
void rn_fiber_free(struct rn_fiber *fiber);

/* Runs `main`. True: it has returned. False: it waits; when it has returned at last,
 * `ended` is called, on the stack of whoever woke it. Either way it may then be run
 * again. */
bool rn_fiber_run(struct rn_fiber *fiber, void (*main)(void *arg), void (*ended)(void *arg),
                  void *arg);
/* Lets one that waits go on, until it waits again or has ended. */
void rn_fiber_wake(struct rn_fiber *fiber);

/* The one that is running; NULL: none is. */
struct rn_fiber *rn_fiber_current(void);
/* Returns after rn_fiber_wake. Only on a fiber. */
void rn_fiber_wait(void);

/* Until when whatever runs on it should be done, in a time that its users agree on;
 * INT64_MAX, also where there is no fiber: whenever. */
int64_t rn_fiber_until(void);
/* Nothing outside a fiber. */
void rn_fiber_set_until(int64_t until_ns);

#endif
