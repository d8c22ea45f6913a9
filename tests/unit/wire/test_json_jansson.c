/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader and writer against jansson: texts that are nearly right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/json_oracle.h"

static const char sample[] =
    "{\"attributes\":{\"ip\":\"192.0.2.7\",\"p\\u00e9\\ud83d\\ude00\\n\":\"/"
    "\xc3\xa9\xf0\x9f\x98\x80\"},"
    "\"cost\":-12.50e+2 , \"a\":[true,false,null,0,{}, [ ],18446744073709551615]}\n";

static void demand_agreement(const char *text, size_t len)
{
    const char *fault = json_oracle_fault(text, len);

    if (fault)
        fail_msg("they disagree about %s: %.*s", fault, (int)len, text);
}

static void texts_that_end_early_are_judged_alike(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof sample; len++)
        demand_agreement(sample, len);
}

static void every_single_changed_byte_is_judged_alike(void **state)
{
    char text[sizeof sample];

    (void)state;
    memcpy(text, sample, sizeof sample);
    for (size_t at = 0; at < sizeof sample - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            text[at] = (char)byte;
            demand_agreement(text, sizeof sample - 1);
        }
        text[at] = sample[at];
    }
}

static void every_missing_or_doubled_byte_is_judged_alike(void **state)
{
    char text[sizeof sample + 1];
    size_t len = sizeof sample - 1;

    (void)state;
    for (size_t at = 0; at < len; at++) {
        memcpy(text, sample, at);
        memcpy(text + at, sample + at + 1, len - at - 1);
        demand_agreement(text, len - 1);
        memcpy(text + at, sample + at, 1);
        memcpy(text + at + 1, sample + at, len - at);
        demand_agreement(text, len + 1);
    }
}

/* All texts of up to five of the bytes that numbers are made of. */
static void every_short_number_is_judged_alike(void **state)
{
    static const char bytes[] = "019-+.eE";
    const size_t base = sizeof bytes - 1;

    (void)state;
    for (size_t len = 1, count = base; len <= 5; len++, count *= base) {
        for (size_t i = 0; i < count; i++) {
            char text[5];
            size_t rest = i;

            for (size_t at = 0; at < len; at++, rest /= base)
                text[at] = bytes[rest % base];
            demand_agreement(text, len);
        }
    }
}

/* Random sequences of pieces of JSON: many are right, many nearly. */
static void random_pieces_are_judged_alike(void **state)
{
    static const char *const pieces[] = {
        "{",       "}",        "[",    "]",     ",",         ":",       "\"a\"",
        "\"b\":",  "1",        "-0.5", "true",  "null",      " ",       "\n",
        "\"",      "\\u00e9",  "\\",   "\\\"",  "1e400",     "1e-5",    "\\ud800",
        "\\udc00", "\xc3",     "\xa9", "[1,2]", "{\"a\":1}", "\"\\n\"", "99999999999999999999",
        "\"a\":{", ",\"c\":[", "0",    "e"};
    uint64_t random = 88172645463325252;

    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        char text[256];
        size_t len = 0;

        for (uint64_t n = 1 + i % 12; n > 0; n--) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            const char *piece = pieces[random % (sizeof pieces / sizeof pieces[0])];

            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        demand_agreement(text, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_end_early_are_judged_alike),
        cmocka_unit_test(every_single_changed_byte_is_judged_alike),
        cmocka_unit_test(every_missing_or_doubled_byte_is_judged_alike),
        cmocka_unit_test(every_short_number_is_judged_alike),
        cmocka_unit_test(random_pieces_are_judged_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
