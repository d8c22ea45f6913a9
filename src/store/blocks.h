/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: blocks of words for states that do not fit a slot.
 *
 * The arena is divided into slabs, each cut into blocks of one size class;
 * freed blocks go to their class's list. A block in use is immutable: a change
 * is written into another block, which the slot's compare-and-swap then puts
 * in its place. Readers may therefore still look into a block that has been
 * reused; they copy it first, and believe the copy only if the slot has not
 * changed since.
 */
#ifndef RN_STORE_BLOCKS_H
#define RN_STORE_BLOCKS_H

#include "store/layout.h"

/* Class numbers and sizes: every word up to 32, then eight steps per doubling. */
unsigned rn_class_of(uint32_t words);
uint32_t rn_class_words(unsigned class);

static inline uint64_t rn_block_state(unsigned class, uint64_t version, uint32_t offset)
{
    return (uint64_t) class << 56 | (version & 0xFFFFFF) << 32 | offset;
}
static inline unsigned rn_block_class(uint64_t state)
{
    return (unsigned)(state >> 56);
}
static inline uint64_t rn_block_version(uint64_t state)
{
    return state >> 32 & 0xFFFFFF;
}
static inline uint32_t rn_block_offset(uint64_t state)
{
    return (uint32_t)state;
}

/* Whether a state points into the arena at all; a damaged file may not. */
bool rn_block_sound(const struct rn_table *table, uint64_t state);

/* RN_NIL if the arena has no block of this class left. */
uint32_t rn_block_alloc(struct rn_table *table, unsigned class);
void rn_block_free(struct rn_table *table, unsigned class, uint32_t offset);

void rn_block_read(const struct rn_table *table, uint32_t offset, uint64_t *words, uint32_t count);
void rn_block_write(struct rn_table *table, uint32_t offset, const uint64_t *words, uint32_t count);

struct rn_context *rn_context_enter(struct rn_table *table);
void rn_context_leave(struct rn_context *context);
/* Gives the spares back, at close. */
void rn_contexts_drain(struct rn_table *table);

/* For a process that is alone: frees every block that no slot refers to, such
 * as the spares of a process that was killed, and empties slots whose block is
 * unsound or claimed twice. */
int rn_blocks_collect(struct rn_table *table);

uint64_t rn_blocks_bytes_used(const struct rn_table *table);

#endif
