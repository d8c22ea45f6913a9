/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): one
 * round per 8 bytes of input, three at the end. Written for keys of 8 to 32
 * bytes: whole words are read unaligned, the tail as one word too.
 */
#include "base/siphash.h"

#include <string.h>

#include "base/hints.h"

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FROM_LITTLE_64(x) __builtin_bswap64(x)
#define FROM_LITTLE_32(x) __builtin_bswap32(x)
#else
#define FROM_LITTLE_64(x) (x)
#define FROM_LITTLE_32(x) (x)
#endif

static inline uint64_t load_word(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return FROM_LITTLE_64(x);
}

static inline uint32_t load_half(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return FROM_LITTLE_32(x);
}

/* 0 to 7 bytes as the low bytes of a word. Reads that may overlap: no loop, and no read
 * outside. */
static inline uint64_t load_tail(const unsigned char *p, size_t len)
{
    if (len >= 4)
        return load_half(p) | (uint64_t)load_half(p + len - 4) << (8 * (len - 4));
    if (len == 0)
        return 0;
    return (uint64_t)p[0] | (uint64_t)p[len / 2] << (8 * (len / 2)) |
           (uint64_t)p[len - 1] << (8 * (len - 1));
}

static inline void mix(struct rn_siphash *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline void absorb(struct rn_siphash *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s);
    s->v0 ^= word;
}

/* The last word: the rest of the input, and the length in the top byte. */
static inline uint64_t finish(struct rn_siphash *s, uint64_t tail, uint64_t len)
{
    absorb(s, tail | len << 56);
    s->v2 ^= 0xff;
    mix(s);
    mix(s);
    mix(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static inline void start(struct rn_siphash *s, const struct rn_hash_key *key)
{
    s->v0 = key->k0 ^ UINT64_C(0x736f6d6570736575);
    s->v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d);
    s->v2 = key->k0 ^ UINT64_C(0x6c7967656e657261);
    s->v3 = key->k1 ^ UINT64_C(0x7465646279746573);
    s->tail = 0;
    s->len = 0;
}

RN_HOT uint64_t rn_siphash(const struct rn_hash_key *key, const void *data, size_t len)
{
    const unsigned char *p = data;
    struct rn_siphash s;
    size_t left = len;

    start(&s, key);
    for (; left >= 8; p += 8, left -= 8)
        absorb(&s, load_word(p));
    return finish(&s, load_tail(p, left), len);
}

void rn_siphash_init(struct rn_siphash *state, const struct rn_hash_key *key)
{
    start(state, key);
}

/* Adds the low `len` (0 to 8) bytes of `word`. state->tail holds the bytes that do not fill a
 * word yet. */
static inline void add_bytes(struct rn_siphash *s, uint64_t word, size_t len)
{
    unsigned used = (unsigned)(s->len % 8);
    uint64_t low = s->tail | word << (8 * used);

    s->len += len;
    if (used + len < 8) {
        s->tail = low;
        return;
    }
    absorb(s, low);
    s->tail = used ? word >> (64 - 8 * used) : 0;
}

void rn_siphash_add(struct rn_siphash *state, const void *piece, size_t len)
{
    const unsigned char *p = piece;
    size_t left = len;

    add_bytes(state, len, 8);
    for (; left >= 8; p += 8, left -= 8)
        add_bytes(state, load_word(p), 8);
    add_bytes(state, load_tail(p, left), left);
}

uint64_t rn_siphash_done(struct rn_siphash *state)
{
    return finish(state, state->tail, state->len);
}
