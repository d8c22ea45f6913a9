/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pen.h"

char *rn_pen_long(char *to, uint64_t n)
{
    to = rn_pen_u64(to, n / 100000000);
    rn_pen_store(to, rn_pen_split((uint32_t)(n % 100000000)));
    return to + 8;
}
