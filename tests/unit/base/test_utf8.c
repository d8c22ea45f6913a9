/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, strictly: every character there is, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

/* The definition, RFC 3629 3. */
static size_t encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(lead[size] | point);
    return size;
}

static void every_character_is_read_back(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        char bytes[4];
        uint32_t back = 0;
        size_t size = encode(point, bytes);
        if (point >= 0xd800 && point <= 0xdfff) {
            assert_int_equal(rn_utf8_decode(bytes, size, &back), 0);
            continue;
        }
        assert_int_equal(rn_utf8_decode(bytes, size, &back), size);
        assert_int_equal(back, point);
        for (size_t less = 1; less < size; less++)
            assert_int_equal(rn_utf8_decode(bytes, less, &back), 0);
    }
}

/* All sequences of one to three bytes: each that is accepted encodes its character. */
static void nothing_has_two_spellings(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1U << 24; i++) {
        char bytes[3] = {(char)(i >> 16), (char)(i >> 8), (char)i}, again[4];
        uint32_t point = 0;
        size_t size = rn_utf8_decode(bytes, 3, &point);
        if (size > 0 && (encode(point, again) != size || memcmp(again, bytes, size) != 0))
            fail_msg("%06x", i);
    }
}

static void overlong_and_too_large_forms_are_refused(void **state)
{
    uint32_t point;

    (void)state;
    assert_int_equal(rn_utf8_decode("\xc0\x80", 2, &point), 0);
    assert_int_equal(rn_utf8_decode("\xf0\x80\x80\x80", 4, &point), 0);
    assert_int_equal(rn_utf8_decode("\xf4\x90\x80\x80", 4, &point), 0);
    assert_int_equal(rn_utf8_decode("\xff", 1, &point), 0);
    assert_int_equal(rn_utf8_decode("\x80", 1, &point), 0);
}

static void what_a_terminal_would_obey_is_not_plain(void **state)
{
    static const uint32_t not [] = {0, 7, 0x1b, 0x7f, 0x85, 0x9b, 0x200f, 0x2028, 0x202e, 0x2069};

    (void)state;
    for (size_t i = 0; i < sizeof not / sizeof not [0]; i++)
        assert_false(rn_utf8_is_printable(not [i]));
    assert_true(rn_utf8_is_printable(' '));
    assert_true(rn_utf8_is_printable('~'));
    assert_true(rn_utf8_is_printable(0xe9));
    assert_true(rn_utf8_is_printable(0x1f600));
}

int main(void)
{
    const struct CMUnitTest utf8[] = {
        cmocka_unit_test(every_character_is_read_back),
        cmocka_unit_test(nothing_has_two_spellings),
        cmocka_unit_test(overlong_and_too_large_forms_are_refused),
        cmocka_unit_test(what_a_terminal_would_obey_is_not_plain),
    };

    return cmocka_run_group_tests(utf8, NULL, NULL);
}
