/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which word was meant: the nearest by the number of letters to change, insert,
 * drop or swap with a neighbour (each letter in at most one of these: "optimal
 * string alignment"). Declared in rules/report/report.h.
 */
#include <string.h>

#include "rules/report/report.h"

#define LONGEST 64 /* bytes; longer words are not compared */
#define FARTHEST 2

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Row i of the table holds the distances of a's first i letters to every
 * beginning of b; a swap looks back two rows. */
static unsigned distance(struct rn_slice a, struct rn_slice b)
{
    unsigned rows[3][LONGEST + 1];

    for (unsigned j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            char x = lower(a.data[i - 1]), y = lower(b.data[j - 1]);
            row[j] = smaller(above[j], row[j - 1]) + 1;
            row[j] = smaller(row[j], above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b.data[j - 2]) && y == lower(a.data[i - 2]))
                row[j] = smaller(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a.len % 3][b.len];
}

const char *rn_suggest(struct rn_slice word, const char *const *candidates, size_t count)
{
    unsigned least = FARTHEST + 1;
    const char *best = NULL;

    if (word.len > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct rn_slice candidate = rn_slice_of(candidates[i]);
        size_t longer = word.len > candidate.len ? word.len : candidate.len;
        size_t shorter = word.len + candidate.len - longer;
        if (candidate.len > LONGEST || longer - shorter > FARTHEST)
            continue;
        unsigned far = distance(word, candidate);
        if (far < least && far <= longer / 3) {
            least = far;
            best = candidates[i];
        }
    }
    return best;
}
