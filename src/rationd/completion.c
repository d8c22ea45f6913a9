/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rationd __complete WORD...`: what the last word may become, for the scripts in completions/. One
 * line for each candidate: the word, a tab, what it means. A line `:files` says that names of files
 * fit, too.
 */
#include <stdio.h>
#include <string.h>

#include "rationd/options_internal.h"

/* Prints the value, behind `before`, if it goes on from what has been typed. */
static void offer(struct rn_slice before, const char *typed, const char *value)
{
    if (strncmp(value, typed, strlen(typed)) == 0)
        printf("%.*s%s\t\n", (int)before.len, before.data, value);
}

static void offer_values(const struct rn_rationd_spec *spec, struct rn_slice before,
                         const char *typed)
{
    if (strcmp(spec->value, "FILE") == 0)
        puts(":files");
    for (const char *const *word = spec->words; word && *word; word++)
        offer(before, typed, *word);
    if (spec->kind == RN_SPEC_FLAG) {
        offer(before, typed, "true");
        offer(before, typed, "false");
    } else if (strcmp(spec->value, "ADDR") == 0) {
        offer(before, typed, spec->otherwise);
        offer(before, typed, "none");
    } else if (strcmp(spec->value, "LIST") == 0) {
        static const char *const listeners[] = {"http", "grpc", "resp", "admin"};

        for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++)
            offer(before, typed, listeners[i]);
    }
}

/* Offers the values of an option. False: it is none that has a value. */
static bool complete_value(struct rn_slice option, struct rn_slice before, const char *typed)
{
    if (option.len < 2 || memcmp(option.data, "--", 2) != 0)
        return false;
    option.data += 2;
    option.len -= 2;
    for (const struct rn_rationd_word *word = rn_rationd_words; word->name; word++) {
        if (word->value && rn_slice_is(option, word->name)) {
            puts(":files");
            return true;
        }
    }
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        if (rn_rationd_specs[i].value && rn_slice_is(option, rn_rationd_specs[i].name)) {
            offer_values(&rn_rationd_specs[i], before, typed);
            return true;
        }
    }
    return false;
}

static void offer_option(const char *name, const char *about, const char *typed)
{
    char option[RN_SOURCE_MAX];

    snprintf(option, sizeof option, "--%s", name);
    if (strncmp(option, typed, strlen(typed)) == 0)
        printf("%s\t%.*s\n", option, (int)strcspn(about, "\n"), about);
}

void rn_rationd_complete(int argc, char **argv)
{
    const char *typed = argc > 0 ? argv[argc - 1] : "", *equals = strchr(typed, '=');
    struct rn_slice before = {typed, equals ? (size_t)(equals + 1 - typed) : 0};
    struct rn_slice option = {typed, equals ? (size_t)(equals - typed) : 0};

    if (equals ? complete_value(option, before, equals + 1)
               : argc > 1 && complete_value(rn_slice_of(argv[argc - 2]), before, typed))
        return;
    for (const struct rn_rationd_word *word = rn_rationd_words; word->name; word++)
        offer_option(word->name, word->about, typed);
    for (size_t i = 0; i < RN_SET_COUNT; i++)
        if (rn_rationd_specs[i].value)
            offer_option(rn_rationd_specs[i].name, rn_rationd_specs[i].about, typed);
}
