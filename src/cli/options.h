/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: options, rules files, attributes of a request.
 */
#ifndef RN_CLI_OPTIONS_H
#define RN_CLI_OPTIONS_H

#include <stdbool.h>

#include <ration/request.h>

#include "cli/command.h"

enum rn_option_bit {
    RN_OPTION_STATE = 1,
    RN_OPTION_COST = 2,
    RN_OPTION_TIMES = 4,
    RN_OPTION_AT = 8,
    RN_OPTION_STRICT = 16,
    RN_OPTION_MATCHING = 32,
    RN_OPTION_REQUEST = 64, /* attributes are taken */
};

enum rn_colour { RN_COLOUR_AUTO, RN_COLOUR_ALWAYS, RN_COLOUR_NEVER };

/* --at: an instant, or a length of time from now on. */
struct rn_moment {
    bool given, relative;
    int64_t ns; /* since 1970, or from now on */
};

struct rn_options {
    const struct rn_command *command;
    bool help, json, strict, matching;
    enum rn_colour colour;
    const char *state; /* NULL: none */
    uint64_t cost;     /* 0: not given */
    uint64_t times;    /* 1 unless given */
    struct rn_moment at;
    const char **files; /* as given, "-" included */
    size_t file_count;
    struct ration_attribute *attributes; /* names point into argv */
    size_t attribute_count;
};

/* Of what follows the command. 0, or RN_EXIT_ERROR after saying on stderr what
 * is wrong. May change the letter case of names in argv. rn_options_done in any
 * case. */
int rn_options_parse(struct rn_options *options, const struct rn_command *command, int argc,
                     char **argv);
void rn_options_done(struct rn_options *options);

/* moment.c: `+30s`, `2027-01-31`, `2027-01-31T23:59:59+01:00`. False: neither. */
bool rn_moment_parse(const char *text, struct rn_moment *moment);

#endif
