/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bump allocator: memory that is freed all at once, in chunks whose size doubles. For data
 * that is built once and then read (a parsed file, a ruleset). One thread at a time.
 */
#ifndef RN_BASE_ARENA_H
#define RN_BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct rn_arena_chunk;

struct rn_arena {
    struct rn_arena_chunk *chunks; /* newest first */
    char *at, *end;                /* the free part of the newest */
    size_t chunk_bytes;            /* of the next */
};

/* Allocates nothing yet. A zeroed struct is initialised, too. */
void rn_arena_init(struct rn_arena *arena);

/* Frees everything; the arena is as after rn_arena_init. */
void rn_arena_done(struct rn_arena *arena);

/* Uninitialised, aligned to 16 bytes. NULL: out of memory, never for 0 bytes otherwise. */
void *rn_arena_alloc(struct rn_arena *arena, size_t bytes);

/* The same for an array, zeroed. NULL also if the size overflows. */
void *rn_arena_calloc(struct rn_arena *arena, size_t count, size_t bytes);

/* A copy, terminated by a NUL that `len` does not count; not aligned. `data` is NULL only if
 * out of memory. */
struct rn_slice rn_arena_dup(struct rn_arena *arena, struct rn_slice text);

#endif
