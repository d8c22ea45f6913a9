/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a rules file: no crash, something is said about what is refused,
 * and whatever is accepted survives a round trip and can be linted. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/lint/lint.h"
#include "rules/print/print.h"
#include "rules/ruleset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
    char *data;
    size_t len;
};

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void add(void *context, const char *data, size_t len)
{
    struct text *text = context;

    text->data = realloc(text->data, text->len + len + 1);
    demand(text->data != NULL);
    memcpy(text->data + text->len, data, len);
    text->len += len;
}

/* What the bytes mean, printed; len 0 if they are refused. */
static struct text print_of(const char *data, size_t len)
{
    static struct rn_report report;
    struct text printed = {NULL, 0}, said = {NULL, 0};

    rn_report_init(&report);
    struct rn_ruleset *ruleset =
        rn_ruleset_parse(RN_SLICE("fuzz.yaml"), (struct rn_slice){data, len}, &report);
    demand((ruleset == NULL) == (report.count[RN_ERROR] != 0));
    if (ruleset != NULL) {
        rn_print_ruleset(ruleset, add, &printed);
        rn_lint_ruleset(ruleset, &report);
        demand(report.count[RN_ERROR] == 0);
    }
    rn_report_write(&report, add, &said);
    demand(said.len != 0 || ruleset != NULL);
    free(said.data);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text once = print_of((const char *)data, size);

    if (once.len == 0)
        return 0;
    struct text twice = print_of(once.data, once.len);
    demand(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    free(once.data);
    free(twice.data);
    return 0;
}
