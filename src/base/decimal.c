/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"

#define EXPONENT_MAX INT64_C(1000000000000000)

/* How many digits there are from `at` on. */
static size_t count_digits(struct rn_slice text, size_t at)
{
    size_t end = at;

    while (end < text.len && text.data[end] >= '0' && text.data[end] <= '9')
        end++;
    return end - at;
}

/* What follows an `e`, up to the end. */
static bool parse_exponent(struct rn_slice text, size_t at, int64_t *exponent)
{
    bool negative = at < text.len && text.data[at] == '-';
    int64_t value = 0;

    if (at < text.len && (text.data[at] == '-' || text.data[at] == '+'))
        at++;
    if (at == text.len || count_digits(text, at) != text.len - at)
        return false;
    for (; at < text.len && value < EXPONENT_MAX; at++)
        value = 10 * value + (text.data[at] - '0');
    value = value < EXPONENT_MAX ? value : EXPONENT_MAX;
    *exponent = negative ? -value : value;
    return true;
}

bool rn_decimal_parse(struct rn_slice text, struct rn_decimal *number)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t begin = negative, end;
    size_t whole = count_digits(text, begin), decimals = 0;
    int64_t exponent = 0;

    end = begin + whole;
    if (whole == 0)
        return false;
    if (end < text.len && text.data[end] == '.') {
        decimals = count_digits(text, end + 1);
        end += 1 + decimals;
        if (decimals == 0)
            return false;
    }
    if (end < text.len && ((text.data[end] != 'e' && text.data[end] != 'E') ||
                           !parse_exponent(text, end + 1, &exponent)))
        return false;

    int64_t point = (int64_t)whole + exponent;
    for (; begin < end && (text.data[begin] == '0' || text.data[begin] == '.'); begin++)
        point -= text.data[begin] == '0';
    while (end > begin && (text.data[end - 1] == '0' || text.data[end - 1] == '.'))
        end--;
    *number = (struct rn_decimal){{text.data + begin, end - begin}, point, negative};
    if (begin == end)
        *number = (struct rn_decimal){{NULL, 0}, 0, false};
    return true;
}

static int sign_of(const struct rn_decimal *number)
{
    if (number->digits.len == 0)
        return 0;
    return number->negative ? -1 : 1;
}

/* By their digits alone, where the point does not count. */
static int compare_digits(struct rn_slice a, struct rn_slice b)
{
    size_t i = 0, j = 0;

    for (;;) {
        i += i < a.len && a.data[i] == '.';
        j += j < b.len && b.data[j] == '.';
        if (i == a.len || j == b.len)
            return (i < a.len) - (j < b.len);
        if (a.data[i] != b.data[j])
            return a.data[i] < b.data[j] ? -1 : 1;
        i++;
        j++;
    }
}

int rn_decimal_compare(const struct rn_decimal *a, const struct rn_decimal *b)
{
    int sign = sign_of(a);

    if (sign != sign_of(b))
        return sign - sign_of(b);
    if (a->point != b->point)
        return a->point < b->point ? -sign : sign;
    return sign * compare_digits(a->digits, b->digits);
}
