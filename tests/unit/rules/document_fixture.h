/* SPDX-License-Identifier: Apache-2.0 */
/* One document and its report, made anew for every test. */
#ifndef RN_TESTS_RULES_DOCUMENT_FIXTURE_H
#define RN_TESTS_RULES_DOCUMENT_FIXTURE_H

#include <ration/error.h>

#include "rules/yaml/document.h"

static struct rn_report report;
static struct rn_document document;

static int set_up(void **state)
{
    (void)state;
    rn_report_init(&report);
    document = (struct rn_document){.root = NULL};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rn_document_done(&document);
    rn_report_done(&report);
    return 0;
}

static inline int parse_bytes(const char *text, size_t len)
{
    rn_document_done(&document);
    rn_report_done(&report);
    return rn_document_parse(&document, RN_SLICE("f"), text, len, &report);
}

/* The first error: `LINE:COLUMN: MESSAGE`. */
static inline void assert_first(const char *what, const char *expected)
{
    const struct rn_diagnostic *first = &report.kept[0];
    char text[1200];

    if (report.kept_count == 0)
        fail_msg("%s: no complaint", what);
    snprintf(text, sizeof text, "%u:%u: %s", first->at.line, first->at.column, first->message);
    assert_string_equal(text, expected);
}

static inline void assert_bytes_refused(const char *text, size_t len, const char *expected)
{
    assert_int_equal(parse_bytes(text, len), RATION_EPARSE);
    assert_first(text, expected);
}

static inline void assert_refused(const char *text, const char *expected)
{
    assert_bytes_refused(text, strlen(text), expected);
}

#endif
