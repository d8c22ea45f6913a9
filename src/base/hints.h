/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints for the compiler. None of them changes what the code does.
 *
 * A server makes a decision with cold caches: the kernel ran in between, and each of our
 * instructions runs once. What counts is how many cache lines and pages of code are
 * fetched, not how fast the code would run in a loop.
 */
#ifndef RN_BASE_HINTS_H
#define RN_BASE_HINTS_H

/* The condition is nearly always true, or nearly never. */
#define rn_likely(x) __builtin_expect(!!(x), 1)
#define rn_unlikely(x) __builtin_expect(!!(x), 0)

/* A function that every decision runs. The linker puts these side by side: in the nginx
 * module they take 7 pages instead of 20. */
#define RN_HOT __attribute__((hot))

/* A short function on the way of every decision: must be inlined, however often it is called. */
#define RN_INLINE __attribute__((always_inline)) inline

/* A function that few decisions run: must not be inlined. */
#define RN_ASIDE __attribute__((noinline))

#endif
