/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: options, attributes of a request, and other words, which
 * are mostly files.
 */
#ifndef RN_CLI_OPTIONS_H
#define RN_CLI_OPTIONS_H

#include <stdbool.h>

#include <ration/request.h>

#include "cli/command.h"

#define RN_OPTION(n) (UINT64_C(1) << (n))

enum rn_option_bit {
    RN_OPTION_STATE,
    RN_OPTION_COST,
    RN_OPTION_TIMES,
    RN_OPTION_AT,
    RN_OPTION_STRICT,
    RN_OPTION_MATCHING,
    RN_OPTION_REQUEST, /* attributes are taken */
    RN_OPTION_FILES,   /* rules files, which may be several */
    RN_OPTION_SERVER,
    RN_OPTION_HTTP,
    RN_OPTION_ADMIN,
    RN_OPTION_TIMEOUT, /* and --token-file; with --cacert, --cert and --key as BENCH has them */
    RN_OPTION_RULE,
    RN_OPTION_COUNT,
    RN_OPTION_INTERVAL, /* and --once */
    RN_OPTION_ADD,
    RN_OPTION_REMAINING,
    RN_OPTION_LIMIT,
    RN_OPTION_FOR,
    RN_OPTION_NOTE,
    RN_OPTION_REASON,
    RN_OPTION_IF_VERSION,
    RN_OPTION_BENCH, /* what only a load generator takes */
};

/* Of all commands that ask the daemon's admin port. */
#define RN_OPTIONS_ADMIN (RN_OPTION(RN_OPTION_ADMIN) | RN_OPTION(RN_OPTION_TIMEOUT))

enum rn_colour { RN_COLOUR_AUTO, RN_COLOUR_ALWAYS, RN_COLOUR_NEVER };

/* --at: an instant, or a length of time from now on. */
struct rn_timestamp {
    bool given, relative;
    int64_t ns; /* since 1970, or from now on */
};

/* Texts are NULL and numbers 0 unless given, or said otherwise. */
struct rn_options {
    const struct rn_command *command;
    bool help, json, strict, matching, once, remote, drain;
    enum rn_colour colour;
    const char *state;
    uint64_t cost;
    uint64_t times;  /* 1 */
    uint64_t status; /* that requests end with; 0: nobody tells */
    struct rn_timestamp at;

    const char *server; /* "" if given without an address */
    const char *http, *admin, *resp, *token_file;
    const char *cacert, *cert, *key; /* for TLS */
    int64_t timeout_ns;              /* 5 s */

    const char *rule, *limit, *note, *reason;
    const char *add, *remaining; /* a number each, as text: 0 counts, too */
    const char *if_version;      /* likewise */
    int64_t for_ns;
    uint64_t count;      /* 20 */
    int64_t interval_ns; /* 1 s */

    const char *load; /* --command */
    uint64_t connections, pipeline, requests, keys, rate, threads;
    int64_t duration_ns;

    const char **words; /* as given, "-" included */
    size_t word_count;
    struct ration_attribute *attributes; /* names point into argv */
    size_t attribute_count;
};

/* Of what follows the command. 0, or RN_EXIT_ERROR after saying on stderr what
 * is wrong. May change the letter case of names in argv. rn_options_done in any
 * case. */
int rn_options_parse(struct rn_options *options, const struct rn_command *command, int argc,
                     char **argv);
void rn_options_done(struct rn_options *options);

/* timestamp.c: `+30s`, `2027-01-31`, `2027-01-31T23:59:59+01:00`. False: neither. */
bool rn_timestamp_parse(const char *text, struct rn_timestamp *timestamp);

#endif
