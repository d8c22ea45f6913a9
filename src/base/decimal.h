/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of any length, compared exactly: 12, -3.5, 1e6. They stay text, so none is too
 * large and none is rounded.
 */
#ifndef RN_BASE_DECIMAL_H
#define RN_BASE_DECIMAL_H

#include "base/slice.h"

/* 0.DIGITS times ten to the power of `point`, or less than nothing. */
struct rn_decimal {
    struct rn_slice digits; /* of the text, from the first to the last that is not 0; one `.` may
                               be among them. Empty: the number is 0. */
    int64_t point;
    bool negative;
};

/* As JSON writes numbers, and with zeros in front: digits, a minus before, a point between
 * digits, an exponent. False: the text is no number. Exponents beyond 10^15 count as that. */
bool rn_decimal_parse(struct rn_slice text, struct rn_decimal *number);

/* Negative, 0 or positive, as a is less than, equal to or greater than b. */
int rn_decimal_compare(const struct rn_decimal *a, const struct rn_decimal *b);

#endif
