/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/hash_slot.h"

/* CRC-16/XMODEM: polynomial x^16 + x^12 + x^5 + 1, from zero, highest bit first. Bit by
 * bit: what is hashed here has three bytes, and rarely. */
static uint16_t crc16(struct rn_slice text)
{
    unsigned crc = 0;

    for (size_t i = 0; i < text.len; i++) {
        crc ^= (unsigned)(unsigned char)text.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return (uint16_t)crc;
}

uint16_t rn_hash_slot_of(struct rn_slice name)
{
    const char *open = name.len > 0 ? memchr(name.data, '{', name.len) : NULL;
    size_t rest = open ? name.len - (size_t)(open + 1 - name.data) : 0;
    const char *shut = rest > 0 ? memchr(open + 1, '}', rest) : NULL;

    if (shut && shut > open + 1)
        name = (struct rn_slice){open + 1, (size_t)(shut - open - 1)};
    return crc16(name) % RN_HASH_SLOTS;
}
