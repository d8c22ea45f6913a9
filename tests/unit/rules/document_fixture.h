/* SPDX-License-Identifier: Apache-2.0 */
/* One document and its report, made anew for every test. */
#ifndef RN_TESTS_RULES_DOCUMENT_FIXTURE_H
#define RN_TESTS_RULES_DOCUMENT_FIXTURE_H

#include "rules/document.h"

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

#endif
