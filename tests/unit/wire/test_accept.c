/* SPDX-License-Identifier: Apache-2.0 */
/* Which format an Accept header asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/publish/publish.h"

static enum rn_publish_format ask(const char *accept)
{
    return rn_publish_accepted(rn_slice_of(accept));
}

static void headers_choose_a_format(void **state)
{
    static const struct {
        const char *accept;
        enum rn_publish_format format;
    } cases[] = {
        {"", RN_PUBLISH_MARKDOWN},
        {"  \t", RN_PUBLISH_MARKDOWN},
        {"*/*", RN_PUBLISH_MARKDOWN},
        {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", RN_PUBLISH_HTML},
        {"TEXT/HTML", RN_PUBLISH_HTML},
        {"application/json", RN_PUBLISH_JSON},
        {"application/json;charset=utf-8", RN_PUBLISH_JSON},
        {"application/*", RN_PUBLISH_JSON},
        {"text/*", RN_PUBLISH_MARKDOWN},
        {"text/*, text/markdown;q=0", RN_PUBLISH_HTML},
        {"text/markdown;q=0, */*", RN_PUBLISH_HTML},
        {"*/*, text/markdown;q=0", RN_PUBLISH_HTML},
        {"text/html;q=0.3, application/json;q=0.31", RN_PUBLISH_JSON},
        {"text/html ; q=1.000 , application/json", RN_PUBLISH_HTML},
        {"text/html;q=0.999, application/json;q=1", RN_PUBLISH_JSON},
        {"text/html;level=1;q=0.1, application/json;q=0.2", RN_PUBLISH_JSON},
        {"image/png", RN_PUBLISH_FORMATS},
        {"text/html;q=0", RN_PUBLISH_FORMATS},
        {"*/*;q=0.000", RN_PUBLISH_FORMATS},
        {"text", RN_PUBLISH_FORMATS},
        {"*", RN_PUBLISH_FORMATS},
        {"text/htm", RN_PUBLISH_FORMATS},
        {"text/htmlx", RN_PUBLISH_FORMATS},
        {",,,;;;,,", RN_PUBLISH_FORMATS},
        {";q=1", RN_PUBLISH_FORMATS},
        {"text/html;q=", RN_PUBLISH_HTML},
        {"text/html;q=9", RN_PUBLISH_HTML},
        {"text/html;q=1.999, application/json", RN_PUBLISH_HTML},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ask(cases[i].accept) != cases[i].format)
            fail_msg("%s: %d", cases[i].accept, ask(cases[i].accept));
}

/* Every piece of a header, at every length: nothing is read beyond its end. */
static void pieces_of_headers_do_no_harm(void **state)
{
    static const char all[] =
        "text/html;q=0.5;x=\"a,b\" ,\t*/*;q=1.0,application/json;q=0.123456789,;q";

    (void)state;
    for (size_t from = 0; from < sizeof all; from++)
        for (size_t len = 0; from + len < sizeof all; len++) {
            char *piece = malloc(len != 0 ? len : 1);

            assert_non_null(piece);
            memcpy(piece, all + from, len);
            assert_in_range(rn_publish_accepted((struct rn_slice){piece, len}), 0,
                            RN_PUBLISH_FORMATS);
            free(piece);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_choose_a_format),
        cmocka_unit_test(pieces_of_headers_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
