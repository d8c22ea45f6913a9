/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of rationd, from the command line, the environment and the `server:` section of the
 * rules, in this order.
 */
#ifndef RN_RATIOND_OPTIONS_H
#define RN_RATIOND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/front.h"
#include "net/log.h"
#include "net/tls.h"
#include "redis/url.h"
#include "rules/ruleset.h"

#define RN_CONFIGS_MAX 64

/* All settings with a value, in the order of --help. The name is the same on the command line, with
 * _ for - in the section, and RATION_NAME in the environment. */
enum rn_rationd_setting {
    RN_SET_HTTP,
    RN_SET_RESP,
    RN_SET_GRPC,
    RN_SET_ADMIN,
    RN_SET_STATE,
    RN_SET_MEMORY,
    RN_SET_USAGE_MEMORY,
    RN_SET_WORKERS,
    RN_SET_CONNECTIONS,
    RN_SET_PER_ADDRESS,
    RN_SET_INPUT_MEMORY,
    RN_SET_WAITING,
    RN_SET_TRUST_LOCAL,
    RN_SET_ADMIN_TOKEN,
    RN_SET_ADMIN_TOKEN_FILE,
    RN_SET_GRPC_MAX_AGE,
    RN_SET_PUBLISH,
    RN_SET_LOG_FORMAT,
    RN_SET_LOG_LEVEL,
    RN_SET_LOG_KEYS,
    RN_SET_RLS_HEADERS,
    RN_SET_RLS_METADATA,
    RN_SET_RLS_QUOTA_MODE,
    RN_SET_REDIS,
    RN_SET_REDIS_FILE,
    RN_SET_REDIS_DEADLINE,
    RN_SET_REDIS_NODES,
    RN_SET_REDIS_CHANGES,
    RN_SET_REDIS_KEY_SECRET,
    RN_SET_REDIS_KEY_SECRET_FILE,
    RN_SET_TLS_CERT,
    RN_SET_TLS_KEY,
    RN_SET_TLS_CLIENT_CA,
    RN_SET_TLS_MIN,
    RN_SET_TLS,
    RN_SET_COUNT,
};

enum rn_rationd_source {
    RN_FROM_DEFAULT,
    RN_FROM_SECTION,
    RN_FROM_ENVIRONMENT,
    RN_FROM_COMMAND_LINE,
};

struct rn_rationd_options {
    const char *configs[RN_CONFIGS_MAX];
    size_t config_count;
    bool check, version, help;
    const char *values[RN_SET_COUNT]; /* NULL: not given. Live as long as the process. */
    enum rn_rationd_source source[RN_SET_COUNT];

    /* Parsed values, after rn_rationd_options_resolve. */
    uint64_t memory_bytes; /* 0: as in the file, or the default */
    uint64_t usage_bytes;  /* the same for usage */
    uint32_t workers;      /* 0: one for each processor */
    uint32_t connections, per_address;
    uint32_t waiting;        /* requests in line at once */
    uint64_t input_bytes;    /* memory for incomplete requests */
    bool trust_local;        /* callers on this machine need no token */
    struct rn_token *tokens; /* for all other callers; live as long as the process */
    size_t token_count;
    uint32_t grpc_max_age; /* seconds; 0: never */
    bool rls_headers, rls_metadata, rls_quota_mode;
    unsigned publish; /* 0: off, 1: public */
    enum rn_log_keys log_keys;
    enum rn_log_format log_format;
    enum rn_log_level log_level;
    bool shares;               /* limits are shared through Redis */
    struct rn_url redis;       /* its address */
    int64_t redis_deadline_ns; /* how long a decision waits for Redis */
    uint32_t redis_nodes;  /* without Redis, each node has this share of a limit; 0: the last known
                              number of nodes */
    bool redis_changes;    /* whether nodes share operators' changes */
    const char *state;     /* NULL: none */
    char state_path[4096]; /* storage for `state` */
    unsigned tls_min;      /* 0: 1.2, 1: 1.3 */
    struct rn_tls_files tls;   /* cert NULL: no TLS */
    bool secure[RN_SET_COUNT]; /* listeners that use TLS */
};

/* Parses the command line; without --config, takes RATION_CONFIG. False after an error message on
 * stderr. */
bool rn_rationd_options_read(struct rn_rationd_options *options, int argc, char **argv);
/* Adds settings from the environment, then from the ruleset (may be NULL). Parses all values and
 * sets up the log. False after an error message. */
bool rn_rationd_options_resolve(struct rn_rationd_options *options,
                                const struct rn_ruleset *ruleset);

#define RN_SOURCE_MAX 64

/* How a setting was given, for messages: `--http` or `RATION_HTTP`. Returns `name`. */
const char *rn_rationd_options_given_as(const struct rn_rationd_options *options,
                                        enum rn_rationd_setting which, char name[RN_SOURCE_MAX]);

/* option_table.c: prints what --help does. */
void rn_rationd_options_put_help(void);
/* completion.c: prints what the last word may become, for shells. */
void rn_rationd_complete(int argc, char **argv);

/* Prints `rationd: ` and a line on stderr. Returns false, for callers that have failed. */
bool rn_rationd_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- secrets.c: secrets in files, and tokens of callers ------------------------------------ */

/* Reads the only line of a file, without its newline; from malloc. Logs a warning if every user can
 * read the file. NULL: `error` says why. */
char *rn_secrets_read_file(const char *path, struct ration_error *error);

/* Puts the tokens of the ruleset and admin_token into options->tokens. False after an error message
 * on stderr. */
bool rn_secrets_read_tokens(struct rn_rationd_options *options, const struct rn_ruleset *ruleset);

/* Reads the token files again. If a file is unusable, the old token stays, and the log says so.
 * Control thread only. */
void rn_secrets_reload_tokens(struct rn_token_guard *guard);

#endif
