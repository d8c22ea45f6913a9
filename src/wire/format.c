/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/format.h"

char *rn_format_long(char *to, uint64_t n)
{
    to = rn_format_u64(to, n / 100000000);
    rn_format_store(to, rn_format_split((uint32_t)(n % 100000000)));
    return to + 8;
}
