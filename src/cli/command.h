/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `ration`. Each returns the exit status of the program.
 */
#ifndef RN_CLI_COMMAND_H
#define RN_CLI_COMMAND_H

#include <stddef.h>
#include <stdint.h>

enum rn_exit {
    RN_EXIT_OK = 0,      /* allowed; nothing wrong */
    RN_EXIT_REFUSED = 1, /* refused, or not found; with --strict: warnings */
    RN_EXIT_ERROR = 2,   /* error in usage, rules or state; no daemon */
};

struct rn_options;
struct rn_daemon;

struct rn_command {
    const char *name;    /* one word, or two: `ban add` */
    const char *summary; /* half a line; NULL: the summary of the command before covers this one */
    const char *help;    /* full text; the same for all commands with the same first word */
    const char *operand; /* word it takes: FILE, RULE; NULL: none */
    const char *example; /* arguments of an example */
    uint64_t options;    /* bits of enum rn_option_bit */
    int (*run)(const struct rn_options *options);
    int (*ask)(struct rn_daemon *daemon); /* instead of `run`: asks a daemon at its admin port */
};

extern const struct rn_command rn_commands[];
extern const size_t rn_command_count;

/* The length of the first word of the command's name, if that is `word`; else 0. */
size_t rn_command_first_word(const struct rn_command *command, const char *word);
/* completion.c: prints what the last word may become. */
int rn_completion_run(int argc, char **argv);

/* help.c */
extern const char rn_help_check[], rn_help_explain[], rn_help_lint[], rn_help_schema[];
extern const char rn_help_health[], rn_help_top[], rn_help_state[], rn_help_reset[],
    rn_help_adjust[];
extern const char rn_help_pause[], rn_help_override[], rn_help_ban[], rn_help_rules[],
    rn_help_shadow[];
extern const char rn_help_report[], rn_help_publish[];
extern const char rn_help_usage[], rn_help_reputation[], rn_help_bench[];
extern const char rn_help_replay[], rn_help_suggest[];

int rn_command_check(const struct rn_options *options);
int rn_command_explain(const struct rn_options *options);
int rn_command_lint(const struct rn_options *options);
int rn_command_schema(const struct rn_options *options);
int rn_command_report(const struct rn_options *options);
int rn_command_publish(const struct rn_options *options);
int rn_command_bench(const struct rn_options *options);
int rn_command_replay(const struct rn_options *options);
int rn_command_suggest(const struct rn_options *options);
int rn_command_usage(const struct rn_options *options);
int rn_command_usage_correct(struct rn_daemon *daemon);
int rn_command_health(struct rn_daemon *daemon);
int rn_command_top(struct rn_daemon *daemon);
int rn_command_state(struct rn_daemon *daemon);
int rn_command_reset(struct rn_daemon *daemon);
int rn_command_adjust(struct rn_daemon *daemon);
int rn_command_pause(struct rn_daemon *daemon);
int rn_command_client_list(struct rn_daemon *daemon);
int rn_command_client_set(struct rn_daemon *daemon);
int rn_command_client_delete(struct rn_daemon *daemon);
int rn_command_reputation_list(struct rn_daemon *daemon);
int rn_command_reputation_lift(struct rn_daemon *daemon);
int rn_command_rules_get(struct rn_daemon *daemon);
int rn_command_rules_push(struct rn_daemon *daemon);
int rn_command_rules_validate(struct rn_daemon *daemon);
int rn_command_rules_versions(struct rn_daemon *daemon);
int rn_command_rules_show(struct rn_daemon *daemon);
int rn_command_rules_rollback(struct rn_daemon *daemon);
int rn_command_rules_trial(struct rn_daemon *daemon);
int rn_command_rules_delete(struct rn_daemon *daemon);
int rn_command_rules_reload(struct rn_daemon *daemon);
int rn_command_shadow(struct rn_daemon *daemon);

#endif
