/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of sources, and values of signals as text.
 */
#include "rules/signal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

const char *rn_signal_source_name(enum rn_signal_source source)
{
    static const char *const names[] = {[RN_SIGNAL_CPU] = "cpu",
                                        [RN_SIGNAL_LATENCY] = "latency",
                                        [RN_SIGNAL_STATUS] = "status",
                                        [RN_SIGNAL_PUSH] = "push",
                                        [RN_SIGNAL_PROMETHEUS] = "prometheus"};

    return names[source];
}

void rn_signal_write_decimal(int64_t value, int64_t unit, char out[RN_SIGNAL_TEXT])
{
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, one = (uint64_t)unit;
    int digits = 0;

    for (uint64_t u = one; u > 1; u /= 10)
        digits++;
    int len = snprintf(out, RN_SIGNAL_TEXT, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "",
                       size / one, digits, size % one);

    while (len > 0 && out[len - 1] == '0')
        out[--len] = '\0';
    if (len > 0 && out[len - 1] == '.')
        out[len - 1] = '\0';
}

void rn_signal_write_value(enum rn_signal_unit unit, int64_t value, char out[RN_SIGNAL_TEXT])
{
    switch (unit) {
    case RN_SIGNAL_SHARE:
        rn_signal_write_decimal(value, RN_SIGNAL_UNIT / 100, out);
        strncat(out, "%", RN_SIGNAL_TEXT - strlen(out) - 1);
        break;
    case RN_SIGNAL_DURATION:
        /* In the unit that people compare with, whatever divides it. */
        if (value >= RN_SIGNAL_UNIT && value % RN_SIGNAL_UNIT == 0)
            snprintf(out, RN_SIGNAL_TEXT, "%" PRId64 "s", value / RN_SIGNAL_UNIT);
        else if (value % 1000 == 0)
            snprintf(out, RN_SIGNAL_TEXT, "%" PRId64 "ms", value / 1000);
        else
            snprintf(out, RN_SIGNAL_TEXT, "%" PRId64 "us", value);
        break;
    case RN_SIGNAL_NUMBER:
        rn_signal_write_decimal(value, RN_SIGNAL_UNIT, out);
        break;
    }
}

bool rn_signal_parse_decimal(struct rn_slice text, int64_t unit, int64_t *value)
{
    bool negative = text.len > 0 && text.data[0] == '-', has_digit = false, has_point = false;
    int64_t whole = 0, part = 0, scale = unit;

    for (size_t i = negative; i < text.len; i++) {
        char c = text.data[i];

        if (c == '.' && has_digit && !has_point) {
            has_point = true;
            has_digit = false; /* one must follow */
        } else if (c < '0' || c > '9') {
            return false;
        } else if (has_point) {
            has_digit = true;
            scale /= 10;
            part += scale * (c - '0');
        } else {
            has_digit = true;
            whole = whole * 10 + (c - '0');
            if (whole > RN_SIGNAL_MAX)
                return false;
        }
    }
    *value = (negative ? -1 : 1) * (whole * unit + part);
    return has_digit;
}
