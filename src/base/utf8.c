/* SPDX-License-Identifier: Apache-2.0 */
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

/* `marked`: printable characters that get a backslash. `kept`: one more that stays. */
static void escape(struct rn_buf *out, struct rn_slice text, const char *marked, char kept)
{
    for (size_t at = 0; at < text.len;) {
        uint32_t point;
        size_t taken = rn_utf8_decode(text.data + at, text.len - at, &point);

        if (taken > 0 &&
            (rn_utf8_is_printable(point) || (kept != '\0' && point == (uint32_t)kept))) {
            if (taken == 1 && text.data[at] != '\0' && strchr(marked, text.data[at]) != NULL)
                rn_buf_put_char(out, '\\');
            rn_buf_put(out, text.data + at, taken);
        } else {
            taken = 1;
            rn_buf_putf(out, "\\x%02x", (unsigned)(unsigned char)text.data[at]);
        }
        at += taken;
    }
}

void rn_utf8_escape(struct rn_buf *out, struct rn_slice text)
{
    escape(out, text, "\"\\", '\0');
}

void rn_utf8_escape_quoted(struct rn_buf *out, struct rn_slice text)
{
    rn_buf_put_char(out, '"');
    rn_utf8_escape(out, text);
    rn_buf_put_char(out, '"');
}

void rn_utf8_escape_lines(struct rn_buf *out, struct rn_slice text)
{
    escape(out, text, "", '\n');
}
