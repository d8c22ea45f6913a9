/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: options, attributes of a request, and words, mostly files.
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
    RN_OPTION_REQUEST, /* takes attributes */
    RN_OPTION_FILES,   /* takes one or more rules files */
    RN_OPTION_SERVER,
    RN_OPTION_HTTP,
    RN_OPTION_ADMIN,
    RN_OPTION_TIMEOUT, /* and --token-file, --cacert, --cert, --key */
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
    RN_OPTION_USAGE,  /* --client and --period */
    RN_OPTION_EXPORT, /* --csv and --scope */
    RN_OPTION_UNITS,
    RN_OPTION_BANNED,
    RN_OPTION_HASH,
    RN_OPTION_LIFT, /* and takes any words, which the command checks */
    RN_OPTION_END,  /* the same */
    RN_OPTION_SHARE,
    RN_OPTION_FORMAT,
    RN_OPTION_BENCH, /* options of `ration bench` */
    RN_OPTION_LOGS,  /* of commands that read access logs */
    RN_OPTION_REPLAY,
    RN_OPTION_SUGGEST,
    RN_OPTION_HTML,
};

enum rn_colour { RN_COLOUR_AUTO, RN_COLOUR_ALWAYS, RN_COLOUR_NEVER };

/* --at: a point in time, or a duration from now. */
struct rn_timestamp {
    bool given, relative;
    int64_t ns; /* since 1970, or from now */
};

/* The values of an option that may be given several times. */
#define RN_OPTION_VALUES 32
struct rn_option_list {
    const char *values[RN_OPTION_VALUES];
    size_t count;
};

/* Texts are NULL and numbers 0 by default, unless a comment gives another default. */
struct rn_options {
    const struct rn_command *command;
    bool help, json, csv, strict, matching, once, remote, drain, banned, lift, end;
    enum rn_colour colour;
    const char *state;
    uint64_t cost;
    uint64_t times;  /* 1 */
    uint64_t status; /* final status of requests; 0: not given */
    struct rn_timestamp at;

    const char *server; /* "" if given without an address */
    const char *http, *admin, *resp, *token_file;
    const char *cacert, *cert, *key; /* for TLS */
    int64_t timeout_ns;              /* 5 s */

    const char *rule, *limit, *note, *reason, *hash;
    const char *client, *period, *scope; /* of usage */
    const char *add, *remaining, *units; /* integers as text, since 0 is a value */
    const char *if_version;              /* integer as text */
    const char *share, *replayed;        /* of report */
    int64_t for_ns;
    uint64_t count;      /* 20 */
    int64_t interval_ns; /* 1 s */

    struct rn_option_list rules, against, maps, sets;
    const char *format, *html, *decisions, *touch;
    const char *by; /* ip */
    struct rn_timestamp from, to;
    uint64_t memory_bytes; /* 256 MiB */
    uint64_t top;          /* 10 */
    int64_t reorder_ns;    /* 60 s */

    const char *load; /* --command */
    uint64_t connections, pipeline, requests, keys, rate, threads;
    int64_t duration_ns;

    const char **words; /* as given, "-" included */
    size_t word_count;
    struct ration_attribute *attributes; /* names point into argv */
    size_t attribute_count;
};

/* Parses the arguments after the command. 0, or RN_EXIT_ERROR after an error message on stderr. May
 * change the case of names in argv. Call rn_options_done in any case. */
int rn_options_parse(struct rn_options *options, const struct rn_command *command, int argc,
                     char **argv);
void rn_options_done(struct rn_options *options);

/* timestamp.c: parses `+30s`, `2027-01-31`, `2027-01-31T23:59:59+01:00`. False: none of these. */
bool rn_timestamp_parse(const char *text, struct rn_timestamp *timestamp);

#endif
