/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small number for the calling thread, so that it can own a stripe of
 * counters or a spare block without an atomic read-modify-write.
 */
#ifndef RN_BASE_THREAD_H
#define RN_BASE_THREAD_H

#define RN_THREADS 64
#define RN_THREAD_SHARED (RN_THREADS - 1)

/* Private: the number + 1; 0: not asked for yet. And asking for it. */
extern _Thread_local unsigned rn_thread_own;
unsigned rn_thread_ask(void);

/* 0 to RN_THREADS - 2: no other living thread of this process has this number.
 * RN_THREAD_SHARED: there are more threads than numbers; what it indexes must
 * be updated atomically. The number is free again when the thread ends. */
static inline unsigned rn_thread_index(void)
{
    return __builtin_expect(rn_thread_own != 0, 1) ? rn_thread_own - 1 : rn_thread_ask();
}

#endif
