/* SPDX-License-Identifier: Apache-2.0 */
/* Strict decoding of UTF-8, and what is safe to print. */
#include "base/utf8.h"

size_t rn_utf8_decode(const char *text, size_t len, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)text[0];
    size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t value = lead;

    if (size == 0 || size > len || lead > 0xf4)
        return 0;
    if (size > 1)
        value &= 0x7fU >> size;
    for (size_t i = 1; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (c & 0x3f);
    }
    if (value < least[size] || (value >= 0xd800 && value <= 0xdfff) || value > 0x10ffff)
        return 0;
    *point = value;
    return size;
}

bool rn_utf8_is_printable(uint32_t point)
{
    if (point < 0x20 || (point >= 0x7f && point < 0xa0))
        return false;
    return !((point >= 0x200e && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
             (point >= 0x2066 && point <= 0x2069) || point == 0x061c || point == 0xfeff);
}
