/* SPDX-License-Identifier: Apache-2.0 */
/* Files under tests/rules, and texts that grow. For cmocka programs. */
#ifndef RN_TESTS_FIXTURES_H
#define RN_TESTS_FIXTURES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/report/report.h"
#include "rules/ruleset.h"

struct text {
    char *data; /* terminated */
    size_t len;
};

static inline void text_add(void *context, const char *data, size_t len)
{
    struct text *text = context;

    text->data = realloc(text->data, text->len + len + 1);
    assert_non_null(text->data);
    memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
}

static inline struct text text_of_report(struct rn_report *report)
{
    struct text text = {NULL, 0};

    text_add(&text, "", 0);
    rn_report_write(report, text_add, &text);
    return text;
}

static inline struct text text_of_file(const char *path)
{
    struct text text = {NULL, 0};
    FILE *file = fopen(path, "rb");
    char bytes[4096];
    size_t len;

    if (file == NULL)
        fail_msg("%s cannot be read", path);
    text_add(&text, "", 0);
    while ((len = fread(bytes, 1, sizeof bytes, file)) > 0)
        text_add(&text, bytes, len);
    fclose(file);
    return text;
}

/* Calls `visit` for each .yaml and .json of TESTS_DIR/rules/<folder>, in order,
 * with its name and text; answers how many there were. */
static inline int each_fixture(const char *folder,
                               void (*visit)(const char *name, struct text text))
{
    char directory[512], path[1024];
    struct dirent **entries;
    int visited = 0, count;

    snprintf(directory, sizeof directory, "%s/rules/%s", TESTS_DIR, folder);
    assert_int_equal(chdir(directory), 0); /* databases are beside the files that name them */
    count = scandir(directory, &entries, NULL, alphasort);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        const char *dot = strrchr(entries[i]->d_name, '.');

        if (dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".json") == 0)) {
            snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
            struct text text = text_of_file(path);
            visit(entries[i]->d_name, text);
            free(text.data);
            visited++;
        }
        free(entries[i]);
    }
    free(entries);
    return visited;
}

/* The text of <folder>/<name> with its ending replaced by .txt. */
static inline struct text expected_of(const char *folder, const char *name)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/rules/%s/%.*s.txt", TESTS_DIR, folder,
             (int)(strrchr(name, '.') - name), name);
    return text_of_file(path);
}

static inline struct rn_ruleset *parse_text(const char *name, const char *text, size_t len,
                                            struct rn_report *report)
{
    rn_report_init(report);
    return rn_ruleset_parse(rn_slice_of(name), (struct rn_slice){text, len}, report);
}

#endif
