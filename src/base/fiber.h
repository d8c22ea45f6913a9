/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fiber: a function on its own stack, which can wait in the middle of a call while its
 * thread does other work. Code written top to bottom can so ask a store that answers
 * later.
 *
 * A fiber stays with the thread that runs it. Fibers do not nest: run and wake them from
 * the thread's own stack.
 */
#ifndef RN_BASE_FIBER_H
#define RN_BASE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rn_fiber;

/* Memory for the stack is taken as it is used. A step beyond the stack ends the process:
 * it begins with a guard page. NULL: out of memory. */
struct rn_fiber *rn_fiber_new(size_t stack_bytes);
/* Must neither run nor wait. NULL is fine. */
void rn_fiber_free(struct rn_fiber *fiber);

/* Runs `main`. True: it has returned. False: it waits; `ended` is called when it has
 * returned, on the stack that woke it. The fiber can be run again afterwards. */
bool rn_fiber_run(struct rn_fiber *fiber, void (*main)(void *arg), void (*ended)(void *arg),
                  void *arg);
/* Resumes a fiber that waits. Returns when it waits again or has ended. */
void rn_fiber_wake(struct rn_fiber *fiber);

/* The running fiber. NULL: the thread runs on its own stack. */
struct rn_fiber *rn_fiber_current(void);
/* Returns after rn_fiber_wake. Only on a fiber. */
void rn_fiber_wait(void);

/* When the work on this fiber must be done, on a clock that its users agree on.
 * INT64_MAX: no deadline, or not on a fiber. */
int64_t rn_fiber_deadline(void);
/* Does nothing outside a fiber. */
void rn_fiber_set_deadline(int64_t deadline_ns);

#endif
