/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `ration`. Each returns the exit status of the program.
 */
#ifndef RN_CLI_COMMAND_H
#define RN_CLI_COMMAND_H

#include <stddef.h>

enum rn_exit {
    RN_EXIT_OK = 0,      /* allowed; nothing wrong */
    RN_EXIT_REFUSED = 1, /* refused; with --strict: warnings */
    RN_EXIT_ERROR = 2,   /* of usage, of the rules, of the state */
};

struct rn_options;

struct rn_command {
    const char *name;
    const char *summary; /* half a line */
    const char *help;    /* all of it */
    unsigned options;    /* which of enum rn_option_bit it takes */
    int (*run)(const struct rn_options *options);
};

extern const struct rn_command rn_commands[];
extern const size_t rn_command_count;

/* help.c */
extern const char rn_help_check[], rn_help_explain[], rn_help_lint[];

int rn_command_check(const struct rn_options *options);
int rn_command_explain(const struct rn_options *options);
int rn_command_lint(const struct rn_options *options);

#endif
