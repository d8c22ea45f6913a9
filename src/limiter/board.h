/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: a small area of the table (rn_table_board) for values that all its users share and
 * that are no states of keys: the factors of rules, signals, histograms. It is divided into
 * entries, each found by its kind and name. Entries are made without a lock and never freed: a
 * pointer to one holds as long as the table is open, unless its kind is reused (rn_board_reuse). In
 * a state file they outlive the process.
 *
 * All words are read and written atomically, by any process: what is read is never trusted.
 */
#ifndef RN_LIMITER_BOARD_H
#define RN_LIMITER_BOARD_H

#include <stdint.h>

#include "base/slice.h"

struct rn_table;

/* Numbers are part of the state file: append only. The upper bits may tell kinds of one kind
 * apart: all are below 256. */
enum rn_board_kind {
    RN_BOARD_FACTOR = 1,    /* of a rule: see factor.h */
    RN_BOARD_SIGNAL = 2,    /* the value of a signal */
    RN_BOARD_HISTOGRAM = 3, /* durations or statuses told with outcomes */
    RN_BOARD_EVALUATOR = 4, /* which process evaluates the signals */
    RN_BOARD_FLEET = 5,     /* of a rule: what this node and the others ask for */
    RN_BOARD_PAUSE = 6,     /* the latest end of all pauses, and a filter: see pause/pause.h */
};

#define RN_BOARD_ENTRY_WORDS_MAX 1023

/* The words of an entry, made and zeroed if there is none yet of this kind, name and size.
 * `words` is 1 to RN_BOARD_ENTRY_WORDS_MAX. NULL: the board is full. */
uint64_t *rn_board_entry(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                         uint32_t words);

/* For a board that is full: gives this name to an entry of this size whose first word, a time, is
 * before `idle_since_ns`, and returns its words as they are. NULL: there is none. Only for kinds
 * whose sizes no other kind has, and whose users search their entry each time: what one of them is
 * just writing goes to the new name. */
uint64_t *rn_board_reuse(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                         uint32_t words, int64_t idle_since_ns);

/* As rn_board_entry, without making one: NULL if there is none. */
uint64_t *rn_board_find(struct rn_table *table, enum rn_board_kind kind, struct rn_slice name,
                        uint32_t words);

#endif
