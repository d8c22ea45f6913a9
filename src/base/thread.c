/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for threads: one bit per number, set while a living thread has it. A thread takes
 * its number once; afterwards it is one thread-local read. A pthread key exists only for its
 * destructor, which clears the bit. After a fork the child keeps the bits of threads that it
 * does not have; it only runs out of numbers sooner.
 */
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Bit RN_THREAD_SHARED stays set: no thread owns that number. */
static _Atomic uint64_t taken = UINT64_C(1) << RN_THREAD_SHARED;
_Thread_local unsigned rn_thread_own;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_error;

_Static_assert(RN_THREADS == 64, "one word holds a bit per number");

/* Destructors of other keys that run later get the shared number: one taken then might never
 * be freed. */
static void free_number(void *value)
{
    unsigned number = (unsigned)((uintptr_t)value - 1);

    rn_thread_own = RN_THREAD_SHARED + 1;
    /* Release: the next owner sees what this thread wrote to its stripe. */
    atomic_fetch_and_explicit(&taken, ~(UINT64_C(1) << number), memory_order_release);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, free_number);
}

/* The lowest free number, or RN_THREAD_SHARED. */
static unsigned take_number(void)
{
    uint64_t seen = atomic_load_explicit(&taken, memory_order_relaxed);

    while (~seen != 0) {
        unsigned number = (unsigned)__builtin_ctzll(~seen);
        if (atomic_compare_exchange_weak_explicit(&taken, &seen, seen | UINT64_C(1) << number,
                                                  memory_order_acquire, memory_order_relaxed))
            return number;
    }
    return RN_THREAD_SHARED;
}

__attribute__((cold)) unsigned rn_thread_ask(void)
{
    unsigned number = RN_THREAD_SHARED;

    pthread_once(&key_once, make_key);
    if (key_error == 0)
        number = take_number();
    rn_thread_own = number + 1;
    /* Without the destructor the number would never be freed. */
    if (number != RN_THREAD_SHARED &&
        pthread_setspecific(key, (void *)(uintptr_t)rn_thread_own) != 0)
        free_number((void *)(uintptr_t)rn_thread_own);
    return rn_thread_own - 1;
}
