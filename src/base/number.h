/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers and durations as people write them: 1_000_000, 30s, 5 minutes, week.
 *
 * A parser starts at text[*pos] and moves *pos behind what it has parsed. On failure it
 * returns RATION_EPARSE and fills `error` (may be NULL); *pos and the value are untouched.
 * The caller skips leading white space.
 */
#ifndef RN_BASE_NUMBER_H
#define RN_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

/* Digits; single underscores between them are ignored. */
int rn_number_parse(const char *text, size_t len, size_t *pos, uint64_t *value,
                    struct ration_error *error);

/* `NUMBER UNIT` or a singular UNIT alone, in nanoseconds. Units, in any letter
 * case, with or without a space before: ns, us, ms, s, sec, m, min, h, hr, d,
 * w, and the words nanosecond to week. Months and years have no fixed length and are
 * refused with advice. 0 is accepted. */
int rn_number_parse_duration(const char *text, size_t len, size_t *pos, int64_t *ns,
                             struct ration_error *error);

/* A whole terminated text: 64M, 1G, 262144K, 1048576; K, KB and KiB are the same. False: it is
 * none, or above 64 bits. */
bool rn_number_parse_size(const char *text, uint64_t *bytes);

/* In the largest unit that divides it; `minute`, not `1 minute`. `ns` must not be negative.
 * Writes at most `size` bytes including the NUL, and returns the length without it.
 * RN_DURATION_TEXT bytes are always enough. */
#define RN_DURATION_TEXT 40
size_t rn_number_write_duration(int64_t ns, char *out, size_t size);

#endif
