/* SPDX-License-Identifier: Apache-2.0 */
#include "base/escape.h"

#include "base/utf8.h"

/* `marked` are plain characters that get a backslash, `kept` another that stays. */
static void put_text(struct rn_buf *out, struct rn_slice text, const char *marked, char kept)
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

void rn_escape_put(struct rn_buf *out, struct rn_slice text)
{
    put_text(out, text, "\"\\", '\0');
}

void rn_escape_put_quoted(struct rn_buf *out, struct rn_slice text)
{
    rn_buf_put_char(out, '"');
    rn_escape_put(out, text);
    rn_buf_put_char(out, '"');
}

void rn_escape_put_lines(struct rn_buf *out, struct rn_slice text)
{
    put_text(out, text, "", '\n');
}
