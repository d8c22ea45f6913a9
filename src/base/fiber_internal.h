/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switching from one stack to another, for fiber.c. Own assembly on x86-64 and aarch64;
 * ucontext(3) elsewhere, or with the build option fibers=ucontext.
 *
 * A shadow stack (CET on x86-64, GCS on aarch64) must be switched together with the
 * stack. glibc's ucontext does that, so builds for shadow stacks use it.
 */
#ifndef RN_BASE_FIBER_INTERNAL_H
#define RN_BASE_FIBER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h> /* with glibc, defines __GLIBC__ */

#if !defined(__LP64__) || (!defined(__x86_64__) && !defined(__aarch64__))
#define RN_FIBER_NO_ASSEMBLY
#elif defined(__GLIBC__) && (defined(__ARM_FEATURE_GCS_DEFAULT) || (__CET__ + 0 & 2))
#define RN_FIBER_NO_ASSEMBLY
#endif
#if defined(RN_FIBER_NO_ASSEMBLY) && !defined(RN_FIBER_UCONTEXT)
#define RN_FIBER_UCONTEXT
#endif

#ifdef RN_FIBER_UCONTEXT
#include <ucontext.h>
#endif

/* A stack that does not run at the moment, and where it will go on. */
struct rn_fiber_context {
#ifdef RN_FIBER_UCONTEXT
    ucontext_t ucontext;
#else
    void *stack_pointer; /* the saved registers lie there */
#endif
};

/* The first switch to `context` calls `entry`, which must not return, on this stack.
 * False: the system cannot do it. */
bool rn_fiber_context_init(struct rn_fiber_context *context, void *stack, size_t bytes,
                           void (*entry)(void));

/* Returns when something switches back to `from`. Both belong to the calling thread. */
void rn_fiber_context_switch(struct rn_fiber_context *from, struct rn_fiber_context *to);

#endif
