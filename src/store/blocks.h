/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: blocks of words for states that do not fit a slot.
 *
 * The arena is divided into slabs. A slab in use is cut into blocks of one size
 * class. When its last block is freed, the slab returns to the pool, and any
 * class may take it. A block larger than a slab is a root, which is an ordinary
 * block, and whole slabs whose numbers follow the root's part of the state.
 *
 * A block in use is immutable: a change is written into another block, which
 * the slot's compare-and-swap then puts in its place. A reader may
 * therefore look into a block that has been reused: it copies the block first and
 * uses the copy only if the slot has not changed since.
 */
#ifndef RN_STORE_BLOCKS_H
#define RN_STORE_BLOCKS_H

#include "store/layout.h"

/* Class numbers and sizes: every word up to 32, then eight steps per doubling. */
unsigned rn_blocks_class_of(uint32_t words);
uint32_t rn_blocks_class_words(unsigned class);

/* The parts of a block: `own` words of the state lie in the root, the rest in `slabs`
 * whole slabs. */
struct rn_block_shape {
    unsigned root; /* class of the root; the class itself if there are no slabs */
    uint32_t own, slabs;
};
struct rn_block_shape rn_block_shape(uint32_t slab_words, unsigned class);

/* Which slab has piece `i` of a large block; a damaged or reused root may name any. */
uint32_t rn_block_piece(const struct rn_table *table, const struct rn_block_shape *shape,
                        uint32_t root, uint32_t i);

/* Words of the arena that one of many blocks of this class takes, with what
 * remains at the end of each slab. */
double rn_block_cost(uint32_t slab_words, unsigned class);

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

/* The parts of a slab's word. */
static inline unsigned rn_slab_class(uint64_t word) /* RN_CLASSES or more: in the pool */
{
    return (unsigned)(word >> 24 & 127) - 1;
}
static inline uint64_t rn_slab_used(uint64_t word)
{
    return word & 0xFFF;
}
static inline uint64_t rn_slab_first(uint64_t word)
{
    return word >> 12 & 0xFFF;
}
static inline uint32_t rn_slab_blocks(const struct rn_table *table, unsigned class)
{
    return table->slab_words / rn_blocks_class_words(class);
}

/* Whether a state points into the arena at all; a damaged file may not. */
bool rn_block_sound(const struct rn_table *table, uint64_t state);

/* RN_NIL if the arena has no block of this class left. */
uint32_t rn_block_alloc(struct rn_table *table, unsigned class);
/* The same from slabs that are in use already; no larger than a slab. */
uint32_t rn_block_alloc_loose(struct rn_table *table, unsigned class);
void rn_block_free(struct rn_table *table, unsigned class, uint32_t offset);
/* Gives back the root alone: its slabs are in use by another. */
void rn_block_free_root(struct rn_table *table, unsigned class, uint32_t offset);

/* The first `count` words of a block of `class`. */
void rn_block_read(const struct rn_table *table, unsigned class, uint32_t offset, uint64_t *words,
                   uint32_t count);
void rn_block_write(struct rn_table *table, unsigned class, uint32_t offset, const uint64_t *words,
                    uint32_t count);

struct rn_context *rn_blocks_context_enter(struct rn_table *table);
void rn_blocks_context_leave(struct rn_context *context);
/* Keeps a block that is free for the next operation, or gives it back. */
void rn_blocks_context_keep(struct rn_table *table, struct rn_context *context, unsigned class,
                            uint32_t offset);
/* Gives back the spare blocks of contexts that no thread uses. */
void rn_blocks_contexts_drain(struct rn_table *table);

/* For a process that is alone: frees every block that no slot refers to, such
 * as the spares of a process that was killed, and empties slots whose block is
 * unsound or claimed twice. */
int rn_blocks_collect(struct rn_table *table);

uint64_t rn_blocks_bytes_used(const struct rn_table *table);

#endif
