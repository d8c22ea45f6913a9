/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit into the current chunk gets a new one. The rest of the old chunk is lost;
 * that is little, since chunks double. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16
#define FIRST_BYTES ((size_t)4096)
#define LARGEST_BYTES ((size_t)1 << 20)

struct rn_arena_chunk {
    _Alignas(ALIGNMENT) struct rn_arena_chunk *older;
    _Alignas(ALIGNMENT) char bytes[];
};

void rn_arena_init(struct rn_arena *arena)
{
    *arena = (struct rn_arena){0};
}

void rn_arena_done(struct rn_arena *arena)
{
    struct rn_arena_chunk *chunk = arena->chunks;

    while (chunk != NULL) {
        struct rn_arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    rn_arena_init(arena);
}

/* Makes room for at least `bytes`. */
static int add_chunk(struct rn_arena *arena, size_t bytes)
{
    size_t usual = arena->chunk_bytes == 0 ? FIRST_BYTES : arena->chunk_bytes;
    size_t room = bytes > usual ? bytes : usual;

    if (room > PTRDIFF_MAX - sizeof(struct rn_arena_chunk))
        return -1;
    struct rn_arena_chunk *chunk = malloc(sizeof *chunk + room);
    if (chunk == NULL)
        return -1;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->at = chunk->bytes;
    arena->end = chunk->bytes + room;
    arena->chunk_bytes = usual < LARGEST_BYTES ? usual * 2 : usual;
    return 0;
}

void *rn_arena_alloc(struct rn_arena *arena, size_t bytes)
{
    size_t skip = -(uintptr_t)arena->at % ALIGNMENT;

    if (arena->at == NULL || bytes > (size_t)(arena->end - arena->at) ||
        skip > (size_t)(arena->end - arena->at) - bytes) {
        if (add_chunk(arena, bytes) != 0)
            return NULL;
        skip = 0;
    }
    char *start = arena->at + skip;
    arena->at = start + bytes;
    return start;
}

void *rn_arena_calloc(struct rn_arena *arena, size_t count, size_t bytes)
{
    size_t product;

    if (__builtin_mul_overflow(count, bytes, &product))
        return NULL;
    void *start = rn_arena_alloc(arena, product);
    return start == NULL ? NULL : memset(start, 0, product);
}

struct rn_slice rn_arena_dup(struct rn_arena *arena, struct rn_slice text)
{
    if (text.len > PTRDIFF_MAX)
        return (struct rn_slice){0};
    if (arena->at == NULL || text.len >= (size_t)(arena->end - arena->at))
        if (add_chunk(arena, text.len + 1) != 0)
            return (struct rn_slice){0};
    char *copy = arena->at;
    if (text.len != 0)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    arena->at += text.len + 1;
    return (struct rn_slice){copy, text.len};
}
