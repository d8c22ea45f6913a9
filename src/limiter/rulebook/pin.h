/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which book is in use, and until when. Readers never wait and share no cache line. A swap waits
 * until no thread reads the old book.
 *
 * A thread that does not share its stripe announces the book there and looks whether
 * it still is the current one; if so, it stays until the announcement is taken
 * back. The announcement must be visible before that second look. Instead of a
 * fence in every decision there is one in every swap: membarrier(2) makes all
 * threads of the process pass one. Where the kernel has none, readers pay.
 *
 * Threads that share a stripe, and threads that keep a book while they wait for a store, count
 * themselves in `readers`: one counter for even generations and one for odd. So the counter of the
 * old book runs down although new readers keep coming.
 */
#ifndef RN_LIMITER_RULEBOOK_PIN_H
#define RN_LIMITER_RULEBOOK_PIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "limiter/stats.h"

struct rn_book;

/* All but the mutex and what it guards is accessed atomically. */
struct rn_shelf {
    struct rn_book *book; /* NULL: no rules yet */
    uint64_t generation;  /* counts the swaps, */
    uint64_t version;     /* and those that brought other rules */
    uint64_t readers[2];
    bool fenced;           /* readers have to fence: no membarrier; set at open */
    bool waits;            /* readers may wait for a store: all count themselves; set at open */
    pthread_mutex_t lock;  /* of swaps, and of what books carry over */
    struct rn_book *stuck; /* books that may still be read: freed at close */
};

/* 0 or RATION_ENOMEM. */
int rn_pin_shelf_init(struct rn_shelf *shelf);
/* Frees the book. No other thread uses the shelf any more. */
void rn_pin_shelf_done(struct rn_shelf *shelf);

/* A book being read. */
struct rn_pin {
    struct rn_book *book; /* NULL: there are no rules */
    struct rn_stripe *stripe;
    uint64_t *counter; /* NULL: announced in the stripe */
};

/* rn_pin_take: for one call by one thread, not nested unless `waits`. rn_pin_take_counted: for
 * longer, across threads. */
struct rn_pin rn_pin_take_counted(struct rn_shelf *shelf);

static inline struct rn_pin rn_pin_take(struct rn_shelf *shelf, struct rn_stripe *s)
{
    struct rn_book *book, *now;

    if (__builtin_expect(s->shared | shelf->waits, 0))
        return rn_pin_take_counted(shelf);
    now = __atomic_load_n(&shelf->book, __ATOMIC_RELAXED);
    do {
        book = now;
        if (__builtin_expect(shelf->fenced, 0)) {
            __atomic_store_n(&s->book, book, __ATOMIC_SEQ_CST);
            now = __atomic_load_n(&shelf->book, __ATOMIC_SEQ_CST);
        } else {
            __atomic_store_n(&s->book, book, __ATOMIC_RELEASE);
            __atomic_signal_fence(__ATOMIC_SEQ_CST);
            now = __atomic_load_n(&shelf->book, __ATOMIC_ACQUIRE);
        }
    } while (now != book);
    return (struct rn_pin){.book = book, .stripe = s};
}

static inline void rn_pin_drop(struct rn_pin *pin)
{
    if (pin->counter)
        __atomic_fetch_sub(pin->counter, 1, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&pin->stripe->book, NULL, __ATOMIC_RELEASE);
}

/* Puts a book in the place of the current one, under the lock, and waits until no thread reads the
 * old one. Returns the old book for the caller to free. NULL: there was none, or a reader may be
 * left, and the book is freed at close. */
struct rn_book *rn_pin_shelf_swap(struct rn_shelf *shelf, const struct rn_stats *stats,
                                  struct rn_book *book);

#endif
