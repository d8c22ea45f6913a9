/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once: allocation bumps a pointer through chunks
 * whose size doubles. For what is built once and then read (a parsed file, a
 * ruleset). One thread at a time.
 */
#ifndef RN_BASE_ARENA_H
#define RN_BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct rn_arena_chunk;

struct rn_arena {
    struct rn_arena_chunk *chunks; /* newest first */
    char *at, *end;                /* what is free in the newest */
    size_t chunk_bytes;            /* of the next */
};

/* Allocates nothing yet. An arena of zero bytes is initialised, too. */
void rn_arena_init(struct rn_arena *arena);

/* Frees everything; the arena is as after rn_arena_init. */
void rn_arena_done(struct rn_arena *arena);

/* Uninitialised, aligned to 16 bytes. NULL: out of memory. For 0 bytes some
 * pointer that is not NULL. */
void *rn_arena_alloc(struct rn_arena *arena, size_t bytes);

/* The same for an array, filled with zeros; a product that overflows is out of
 * memory. */
void *rn_arena_calloc(struct rn_arena *arena, size_t count, size_t bytes);

/* A copy with a NUL behind it that `len` does not count; not aligned. data is
 * NULL if out of memory, and never otherwise. */
struct rn_slice rn_arena_dup(struct rn_arena *arena, struct rn_slice text);

#endif
