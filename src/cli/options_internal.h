/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options, shared by options.c, which reads them, and completion.c.
 */
#ifndef RN_CLI_OPTIONS_INTERNAL_H
#define RN_CLI_OPTIONS_INTERNAL_H

#include "cli/options.h"

/* How to parse the value of an option, and the type of its field. */
enum rn_option_kind {
    RN_KIND_FLAG,     /* bool; no value */
    RN_KIND_TEXT,     /* const char *, not empty */
    RN_KIND_ANY,      /* const char *, may be empty */
    RN_KIND_OPTIONAL, /* const char *; a value only after = */
    RN_KIND_COUNT,    /* uint64_t from 1, or min, to max */
    RN_KIND_WHOLE,    /* const char * that is an integer; may be negative if `min` < 0 */
    RN_KIND_LENGTH,   /* int64_t ns from min to max */
    RN_KIND_RATE,     /* uint64_t from 1 to max, with or without /s */
    RN_KIND_COLOUR,   /* enum rn_colour */
    RN_KIND_MOMENT,   /* struct rn_timestamp */
    RN_KIND_LIST,     /* struct rn_option_list; may be given several times */
    RN_KIND_SIZE,     /* uint64_t bytes from min to max: 512M, 2G */
};

struct rn_option_spec {
    const char *name;
    uint64_t bits; /* commands with one of these bits take it */
    enum rn_option_kind kind;
    size_t offset;          /* in struct rn_options */
    const char *example;    /* example of a value; NULL: takes none */
    const char *right;      /* what is expected, for error messages */
    const char *candidates; /* for completion: words, or :files, or :rules; NULL: none */
    int64_t min, max;
};

#define RN_OPTION_SPECS 96 /* most that there can be */
extern const struct rn_option_spec rn_option_specs[];
extern const size_t rn_option_spec_count;

bool rn_option_is_taken(const struct rn_command *command, const struct rn_option_spec *spec);

#endif
