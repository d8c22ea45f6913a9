/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler cannot know. None of it changes what the code does.
 *
 * A server comes to a decision with cold caches: between two of them it has run the
 * kernel, and each instruction of ours runs once. What counts is how many lines and
 * pages of code are fetched, not how fast they would run in a loop.
 */
#ifndef RN_BASE_HINTS_H
#define RN_BASE_HINTS_H

/* What follows a condition that nearly always, or hardly ever, holds is laid out in the
 * way, or out of it. */
#define rn_likely(x) __builtin_expect(!!(x), 1)
#define rn_unlikely(x) __builtin_expect(!!(x), 0)

/* A function that every decision runs: they lie side by side, in 7 pages of the module
 * for nginx where they would be in 20. */
#define RN_HOT __attribute__((hot))

/* One that hardly any decision runs: not to be inlined where it would be in the way. */
#define RN_ASIDE __attribute__((noinline))

#endif
