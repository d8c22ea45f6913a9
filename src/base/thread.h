/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small number for the calling thread: it can own a stripe of counters or a spare block
 * without atomic read-modify-write instructions.
 */
#ifndef RN_BASE_THREAD_H
#define RN_BASE_THREAD_H

#define RN_THREADS 64
#define RN_THREAD_SHARED (RN_THREADS - 1)

/* Private: the number + 1, 0 if the thread has none yet; and taking one. */
extern _Thread_local unsigned rn_thread_own;
unsigned rn_thread_ask(void);

/* 0 to RN_THREADS - 2: no other living thread of this process has this number.
 * RN_THREAD_SHARED: there are more threads than numbers, and data at this index must be
 * updated atomically. The number is freed when the thread ends. */
static inline unsigned rn_thread_index(void)
{
    return __builtin_expect(rn_thread_own != 0, 1) ? rn_thread_own - 1 : rn_thread_ask();
}

#endif
