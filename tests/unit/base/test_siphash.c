/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-1-3 against a byte-by-byte model written from the paper,
 * whose own footing is the test vector printed there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/siphash.h"

static uint64_t rotl(uint64_t x, int b)
{
    return (x << b) | (x >> (64 - b));
}

static void model_round(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = rotl(v[1], 13), v[3] = rotl(v[3], 16);
    v[1] ^= v[0], v[3] ^= v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotl(v[1], 17), v[3] = rotl(v[3], 21);
    v[1] ^= v[2], v[3] ^= v[0];
    v[2] = rotl(v[2], 32);
}

/* SipHash-c-d with the input padded into a buffer first, one byte at a time. */
static uint64_t model(int c, int d, const struct rn_hash_key *key, const uint8_t *data, size_t len)
{
    uint8_t padded[512] = {0};
    size_t size = len / 8 * 8 + 8;
    uint64_t v[4] = {key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d,
                     key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573};

    memcpy(padded, data, len);
    padded[size - 1] = (uint8_t)len;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t m = 0;
        for (unsigned j = 0; j < 8; j++)
            m |= (uint64_t)padded[i + j] << (8 * j);
        v[3] ^= m;
        for (int r = 0; r < c; r++)
            model_round(v);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    for (int r = 0; r < d; r++)
        model_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static const struct rn_hash_key paper_key = {UINT64_C(0x0706050403020100),
                                             UINT64_C(0x0f0e0d0c0b0a0908)};

static void count_up(uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)i;
}

/* Appendix A of the paper: SipHash-2-4 of 00 01 .. 0e under key 00 01 .. 0f. */
static void the_model_agrees_with_the_paper(void **state)
{
    uint8_t bytes[15];

    (void)state;
    count_up(bytes, sizeof bytes);
    assert_true(model(2, 4, &paper_key, bytes, sizeof bytes) == UINT64_C(0xa129ca6149be45e5));
}

static void every_length_agrees_with_the_model(void **state)
{
    uint8_t bytes[300];

    (void)state;
    count_up(bytes, sizeof bytes);
    for (size_t len = 0; len < 280; len++)
        assert_true(rn_siphash(&paper_key, bytes, len) == model(1, 3, &paper_key, bytes, len));
}

static void alignment_does_not_matter(void **state)
{
    uint8_t bytes[80];

    (void)state;
    for (size_t shift = 0; shift < 8; shift++) {
        count_up(bytes + shift, 64);
        for (size_t len = 0; len <= 64; len++)
            assert_true(rn_siphash(&paper_key, bytes + shift, len) ==
                        model(1, 3, &paper_key, bytes + shift, len));
    }
}

static void an_empty_input_has_a_hash(void **state)
{
    (void)state;
    assert_true(rn_siphash(&paper_key, "", 0) == model(1, 3, &paper_key, (const uint8_t *)"", 0));
}

static void the_key_matters(void **state)
{
    struct rn_hash_key one = {1, 2}, other = {1, 3};

    (void)state;
    assert_true(rn_siphash(&one, "client", 6) != rn_siphash(&other, "client", 6));
}

/* The input that the pieces API promises: length, bytes, length, bytes, … */
static size_t join(uint8_t *out, const uint8_t *bytes, const size_t *lens, size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        for (unsigned j = 0; j < 8; j++)
            out[at++] = (uint8_t)((uint64_t)lens[i] >> (8 * j));
        memcpy(out + at, bytes, lens[i]);
        at += lens[i];
        bytes += lens[i];
    }
    return at;
}

static void pieces_hash_like_their_joined_form(void **state)
{
    uint8_t bytes[120], joined[256];

    (void)state;
    count_up(bytes, sizeof bytes);
    for (size_t a = 0; a < 20; a++) {
        for (size_t b = 0; b < 20; b++) {
            const size_t lens[] = {a, b, 9, 40};
            struct rn_siphash hash;
            size_t at = 0;
            rn_siphash_init(&hash, &paper_key);
            for (size_t i = 0; i < 4; at += lens[i++])
                rn_siphash_add(&hash, bytes + at, lens[i]);
            size_t len = join(joined, bytes, lens, 4);
            assert_true(rn_siphash_done(&hash) == rn_siphash(&paper_key, joined, len));
        }
    }
}

static uint64_t hash_two(const char *a, const char *b)
{
    struct rn_siphash hash;

    rn_siphash_init(&hash, &paper_key);
    rn_siphash_add(&hash, a, strlen(a));
    rn_siphash_add(&hash, b, strlen(b));
    return rn_siphash_done(&hash);
}

static void moving_a_byte_between_pieces_changes_the_hash(void **state)
{
    (void)state;
    assert_true(hash_two("ab", "c") != hash_two("a", "bc"));
    assert_true(hash_two("abc", "") != hash_two("", "abc"));
}

int main(void)
{
    const struct CMUnitTest siphash[] = {
        cmocka_unit_test(the_model_agrees_with_the_paper),
        cmocka_unit_test(every_length_agrees_with_the_model),
        cmocka_unit_test(alignment_does_not_matter),
        cmocka_unit_test(an_empty_input_has_a_hash),
        cmocka_unit_test(the_key_matters),
        cmocka_unit_test(pieces_hash_like_their_joined_form),
        cmocka_unit_test(moving_a_byte_between_pieces_changes_the_hash),
    };

    return cmocka_run_group_tests(siphash, NULL, NULL);
}
