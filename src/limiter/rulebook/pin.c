/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a book that other threads are reading.
 */
#include "limiter/rulebook/pin.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limiter/rulebook/book.h"

#define PATIENCE 100 /* looks before going to sleep between them */
#define NAP_NS 50000

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

int rn_pin_shelf_init(struct rn_shelf *shelf)
{
    *shelf = (struct rn_shelf){.fenced = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)};
    return pthread_mutex_init(&shelf->lock, NULL) == 0 ? 0 : RATION_ENOMEM;
}

void rn_pin_shelf_done(struct rn_shelf *shelf)
{
    while (shelf->stuck) {
        struct rn_book *next = shelf->stuck->next;

        rn_book_free(shelf->stuck);
        shelf->stuck = next;
    }
    rn_book_free(shelf->book);
    pthread_mutex_destroy(&shelf->lock);
}

/* A swap sees readers that counted themselves before the generation changed. Readers that did after
 * find another generation and count themselves again. */
struct rn_pin rn_pin_take_counted(struct rn_shelf *shelf)
{
    uint64_t *counter, generation = __atomic_load_n(&shelf->generation, __ATOMIC_SEQ_CST), now;

    for (;; generation = now) {
        counter = &shelf->readers[generation & 1];
        __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
        now = __atomic_load_n(&shelf->generation, __ATOMIC_SEQ_CST);
        if (now == generation)
            break;
        __atomic_fetch_sub(counter, 1, __ATOMIC_RELEASE);
    }
    return (struct rn_pin){.book = __atomic_load_n(&shelf->book, __ATOMIC_SEQ_CST),
                           .counter = counter};
}

static void rest(unsigned *looks)
{
    if (++*looks < PATIENCE)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

struct rn_book *rn_pin_shelf_swap(struct rn_shelf *shelf, const struct rn_stats *stats,
                                  struct rn_book *book)
{
    struct rn_book *old = __atomic_exchange_n(&shelf->book, book, __ATOMIC_SEQ_CST);
    uint64_t generation = __atomic_fetch_add(&shelf->generation, 1, __ATOMIC_SEQ_CST);
    unsigned looks = 0;

    __atomic_store_n(&shelf->version, book->version, __ATOMIC_RELEASE);
    bool sure = shelf->fenced || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

    for (unsigned i = 0; i < RN_THREADS && old; i++) {
        const struct rn_stripe *s = rn_stats_at(stats, i);

        while (__atomic_load_n(&s->book, __ATOMIC_SEQ_CST) == old)
            rest(&looks);
    }
    /* Also if there was no book: these readers may read the new one, and the next swap does not
     * expect that of them. */
    while (__atomic_load_n(&shelf->readers[generation & 1], __ATOMIC_SEQ_CST) != 0)
        rest(&looks);
    if (!old || sure)
        return old;
    /* The call was there at open and is not any more (a sandbox, say). */
    old->next = shelf->stuck;
    shelf->stuck = old;
    return NULL;
}
