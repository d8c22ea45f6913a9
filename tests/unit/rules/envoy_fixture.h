/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of Envoy's format share: loading a file or a text, and asking
 * for a descriptor written as "key=value", … */
#ifndef ENVOY_FIXTURE_H
#define ENVOY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/envoy/envoy.h"

#define ENVOY_FIXTURES TESTS_DIR "/rules/envoy/"

struct loaded {
    struct rn_ruleset *ruleset; /* NULL: there was an error */
    char report[8192];
    uint32_t errors, warnings;
};

/* The last match's key. */
struct answer {
    const struct rn_envoy_limit *limit;
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t part_count;
};

static inline void append(void *context, const char *text, size_t len)
{
    struct loaded *l = context;
    size_t used = strlen(l->report);

    assert_true(used + len < sizeof l->report);
    memcpy(l->report + used, text, len);
    l->report[used + len] = '\0';
}

static inline void take_report(struct loaded *l, struct rn_report *report)
{
    l->report[0] = '\0';
    rn_report_write(report, append, l);
    l->errors = report->count[RN_ERROR];
    l->warnings = report->count[RN_WARNING];
    assert_true((l->ruleset == NULL) == (l->errors != 0));
    rn_report_done(report);
    free(report);
}

static inline struct rn_report *new_report(void)
{
    struct rn_report *report = malloc(sizeof *report);

    assert_non_null(report);
    rn_report_init(report);
    return report;
}

static inline void load_text(struct loaded *l, const char *name, const char *text)
{
    struct rn_report *report = new_report();

    l->ruleset = rn_ruleset_parse(rn_slice_of(name), rn_slice_of(text), report);
    take_report(l, report);
}

/* A text that must be without fault. */
static inline struct rn_ruleset *load_sound(const char *text)
{
    struct loaded l;

    load_text(&l, "test.yaml", text);
    assert_string_equal(l.report, "");
    return l.ruleset;
}

/* A file of tests/rules/envoy/, NUL-terminated; the caller frees it. */
static inline char *read_fixture(const char *folder, const char *name, const char *ending)
{
    char path[1024];
    int size = snprintf(path, sizeof path, ENVOY_FIXTURES "%s/%s%s", folder, name, ending);
    assert_true((size_t)size < sizeof path);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is missing", path);
    char *text = calloc(1, 16384);

    assert_non_null(text);
    size_t len = fread(text, 1, 16383, file);
    assert_true(len < 16383);
    fclose(file);
    return text;
}

/* A file of tests/rules/envoy/good/ without errors; `warnings` of the other kind. */
static inline struct rn_ruleset *load_good(const char *name, uint32_t warnings)
{
    struct loaded l;
    char *text = read_fixture("good", name, "");

    load_text(&l, name, text);
    free(text);
    if (l.errors != 0 || l.warnings != warnings)
        fail_msg("%s", l.report);
    return l.ruleset;
}

/* Formats at *end, which moves on. */
static inline void append_text(char **end, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void append_text(char **end, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    *end += vsprintf(*end, format, args);
    va_end(args);
}

/* Entries "key=value" up to NULL. */
static inline struct answer ask(const struct rn_ruleset *ruleset, const char *domain, ...)
{
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX + 1];
    struct answer answer = {.part_count = 0};
    size_t count = 0;
    va_list list;

    va_start(list, domain);
    for (const char *text; (text = va_arg(list, const char *)) != NULL; count++) {
        size_t len = strcspn(text, "=");

        entries[count].key = (struct rn_slice){text, len};
        entries[count].value = rn_slice_of(text + len + 1);
    }
    va_end(list);
    answer.limit = rn_envoy_match(ruleset, rn_slice_of(domain), entries, count, answer.parts,
                                  &answer.part_count);
    return answer;
}

/* The requests_per_unit of what applies, -1 if nothing does. */
#define RATE(...) rate_of(ask(__VA_ARGS__, NULL).limit)
static inline int64_t rate_of(const struct rn_envoy_limit *limit)
{
    return limit ? (int64_t)limit->requests_per_unit : -1;
}

/* Whether two answers are charged to one counter. */
static inline bool same_counter(struct answer a, struct answer b)
{
    assert_non_null(a.limit);
    assert_non_null(b.limit);
    if (a.limit != b.limit || a.part_count != b.part_count)
        return false;
    for (uint32_t i = 0; i < a.part_count; i++) {
        if (!rn_slice_equal(a.parts[i], b.parts[i]))
            return false;
    }
    return true;
}

#endif
