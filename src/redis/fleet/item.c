/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/fleet/item.h"

#include <inttypes.h>
#include <stdio.h>

#define DIGITS 16
#define HEAD (2 * DIGITS + 1)

void rn_fleet_item_write(struct rn_buf *out, const struct rn_fleet_item *value)
{
    char head[2 * 24];
    int len = snprintf(head, sizeof head, "%0*" PRId64 "%u%0*" PRId64, DIGITS, value->made_us,
                       value->kind % 10, DIGITS, value->expires_us);

    rn_buf_put(out, head, (size_t)len);
    rn_buf_put_slice(out, value->text);
}

static bool read_digits(const char *at, int64_t *number)
{
    *number = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *number = *number * 10 + (at[i] - '0');
    }
    return true;
}

bool rn_fleet_item_read(struct rn_slice bytes, struct rn_fleet_item *value)
{
    if (bytes.len < HEAD || !read_digits(bytes.data, &value->made_us) ||
        !read_digits(bytes.data + DIGITS + 1, &value->expires_us) || bytes.data[DIGITS] < '0' ||
        bytes.data[DIGITS] > '9')
        return false;
    value->kind = (uint32_t)(bytes.data[DIGITS] - '0');
    value->text = (struct rn_slice){bytes.data + HEAD, bytes.len - HEAD};
    return true;
}
