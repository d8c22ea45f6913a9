/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries lie one behind the other, each a head and its words. A head is
 *
 *   hash of kind and name (54 bits) | words (10 bits)
 *
 * and 0 behind the last entry. One compare-and-swap of that 0 makes the next entry.
 */
#include "limiter/board.h"

#include "base/siphash.h"
#include "store/table.h"

#define BOARD_WORDS (RN_BOARD_BYTES / sizeof(uint64_t))
#define SIZE_BITS 10

_Static_assert(RN_BOARD_ENTRY_WORDS_MAX < 1 << SIZE_BITS, "the size of an entry fits its head");

static uint64_t head_of(const struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                        uint32_t words)
{
    struct rn_hash_key key = *rn_table_secret(table);

    key.k1 ^= (uint64_t)kind << 32 | words;
    return rn_siphash(&key, name.data, name.len) << SIZE_BITS | words;
}

/* A damaged board ends where its next entry would lie beyond it. */
static uint64_t *search(struct rn_table *table, uint64_t wanted, bool make)
{
    uint64_t *board = rn_table_board(table), words = wanted & ((1u << SIZE_BITS) - 1);

    for (uint64_t at = 0; at + 1 + words <= BOARD_WORDS;) {
        uint64_t head = __atomic_load_n(&board[at], __ATOMIC_ACQUIRE);

        if (head == 0 && (!make || __atomic_compare_exchange_n(&board[at], &head, wanted, false,
                                                               __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)))
            return make ? &board[at + 1] : NULL;
        if (head == wanted)
            return &board[at + 1];
        at += 1 + (head & ((1u << SIZE_BITS) - 1));
    }
    return NULL;
}

uint64_t *rn_board_entry(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                         uint32_t words)
{
    return search(table, head_of(table, kind, name, words), true);
}

uint64_t *rn_board_reuse(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                         uint32_t words, int64_t idle_since_ns)
{
    uint64_t *board = rn_table_board(table), wanted = head_of(table, kind, name, words), size;

    for (uint64_t at = 0; at + 1 + words <= BOARD_WORDS; at += 1 + size) {
        uint64_t head = __atomic_load_n(&board[at], __ATOMIC_ACQUIRE);

        size = head & ((1u << SIZE_BITS) - 1);
        if (size == words &&
            (int64_t)__atomic_load_n(&board[at + 1], __ATOMIC_RELAXED) < idle_since_ns &&
            __atomic_compare_exchange_n(&board[at], &head, wanted, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return &board[at + 1];
    }
    return NULL;
}

uint64_t *rn_board_find(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                        uint32_t words)
{
    return search(table, head_of(table, kind, name, words), false);
}
