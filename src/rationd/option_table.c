/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings, and the help that it makes.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "rationd/options_internal.h"

#define AT(field) offsetof(struct rn_rationd_options, field)
#define MS INT64_C(1000000)
#define FLAG(field) RN_SPEC_FLAG, AT(field), 0, 0, "write true or false", NULL
#define COUNT(field, min, max, right) RN_SPEC_COUNT, AT(field), min, max, right, NULL
#define SIZE(field, min, right) RN_SPEC_SIZE, AT(field), min, INT64_MAX, right, NULL
#define WORD(field, right, ...)                                                                    \
    RN_SPEC_WORD, AT(field), 0, 0, right, (const char *const[])                                    \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define TEXT RN_SPEC_TEXT, 0, 0, 0, NULL, NULL
#define SECRET NULL, NULL /* every user can see command lines */

const struct rn_rationd_spec rn_rationd_specs[RN_SET_COUNT] = {
    [RN_SET_HTTP] = {"http", "ADDR", "HTTP: /v1/check, /v1/auth, ... (127.0.0.1:8080)",
                     "127.0.0.1:8080", TEXT},
    [RN_SET_RESP] = {"resp", "ADDR", "the Redis protocol (127.0.0.1:6380)", "127.0.0.1:6380", TEXT},
    [RN_SET_GRPC] = {"grpc", "ADDR", "Envoy's rate limit service (127.0.0.1:8081)",
                     "127.0.0.1:8081", TEXT},
    [RN_SET_ADMIN] = {"admin", "ADDR", "health, metrics, rules, clients (127.0.0.1:8082)",
                      "127.0.0.1:8082", TEXT},
    [RN_SET_STATE] = {"state", "FILE",
                      "keep counters in FILE, across restarts and kill -9; none: in memory\n"
                      "($STATE_DIRECTORY/ration.state, or none)",
                      NULL, TEXT},
    [RN_SET_MEMORY] = {"memory", "SIZE", "for counters, such as 256M (64M)", NULL,
                       SIZE(memory_bytes, 1 << 20, "write a size of 1M or more, such as 256M")},
    [RN_SET_USAGE_MEMORY] = {"usage-memory", "SIZE", "for usage, if rules have it (64M)", NULL,
                             SIZE(usage_bytes, 1 << 20,
                                  "write a size of 1M or more, such as 256M")},
    [RN_SET_WORKERS] = {"workers", "N", "threads (one for each processor)", NULL,
                        COUNT(workers, 1, 256, "write a number from 1 to 256")},
    [RN_SET_CONNECTIONS] = {"connections", "N",
                            "open at once, besides admin (what the system allows)", "0",
                            COUNT(connections, 0, 10000000, "write a number of connections")},
    [RN_SET_PER_ADDRESS] = {"per-address", "N", "open at once from one address (no limit)", "0",
                            COUNT(per_address, 0, 10000000, "write a number of connections")},
    /* Rules of 8 MB must fit. */
    [RN_SET_INPUT_MEMORY] = {"input-memory", "SIZE",
                             "for requests that are not complete, of all connections (64M)", "64M",
                             SIZE(input_bytes, 16 << 20,
                                  "write a size of 16M or more, such as 64M")},
    [RN_SET_WAITING] = {"waiting", "N", "requests that wait in line at once (10000)", "10000",
                        COUNT(waiting, 0, 10000000, "write a number of requests; 0: none waits")},
    [RN_SET_TRUST_LOCAL] = {"trust-local", "FLAG", "callers on this machine need no token (true)",
                            "true", FLAG(trust_local)},
    [RN_SET_ADMIN_TOKEN] = {"admin-token", SECRET, NULL, TEXT},
    [RN_SET_ADMIN_TOKEN_FILE] = {"admin-token-file", "FILE",
                                 "the token of all other callers, for everything", NULL, TEXT},
    [RN_SET_GRPC_MAX_AGE] = {"grpc-max-age", "N",
                             "seconds until gRPC connections are asked to go (86400)", "86400",
                             COUNT(grpc_max_age, 0, 100 * 86400,
                                   "write a number of seconds; 0: never")},
    [RN_SET_PUBLISH] = {"publish", "HOW", "GET /limits for users of the API: off or public (off)",
                        "off", WORD(publish, "write off or public", "off", "public")},
    [RN_SET_LOG_FORMAT] = {"log-format", "HOW", "log lines as logfmt or json (logfmt)", "logfmt",
                           WORD(log_format, "write logfmt or json", "logfmt", "json")},
    [RN_SET_LOG_LEVEL] = {"log-level", "LEVEL", "error, warn, info or debug (info)", "info",
                          WORD(log_level, "write error, warn, info or debug", "error", "warn",
                               "info", "debug")},
    [RN_SET_LOG_KEYS] = {"log-keys", "HOW",
                         "clients' keys in the log: full, masked or none (masked)", "masked",
                         WORD(log_keys, "write full, masked or none", "masked", "full", "none")},
    [RN_SET_RLS_HEADERS] = {"rls-headers", "FLAG",
                            "ratelimit-* headers in answers to Envoy (false)", "false",
                            FLAG(rls_headers)},
    [RN_SET_RLS_METADATA] = {"rls-metadata", "FLAG",
                             "metadata of the limits that have passed, too (false)", "false",
                             FLAG(rls_metadata)},
    [RN_SET_RLS_QUOTA_MODE] = {"rls-quota-mode", "FLAG",
                               "refuse Envoy only when all limits are over (false)", "false",
                               FLAG(rls_quota_mode)},
    [RN_SET_REDIS] = {"redis", "URL", "share limits with other nodes (none)", "none", TEXT},
    [RN_SET_REDIS_FILE] = {"redis-file", "FILE", "the same, read from FILE: it may have a password",
                           NULL, TEXT},
    [RN_SET_REDIS_DEADLINE] = {"redis-deadline", "TIME", "how long a decision waits for it (25ms)",
                               "25ms", RN_SPEC_TIME, AT(redis_deadline_ns), MS, 10000 * MS,
                               "write 1ms to 10s, such as 25ms", NULL},
    [RN_SET_REDIS_NODES] = {"redis-nodes", "N",
                            "without it, limits are divided by this number (auto)", "auto",
                            COUNT(redis_nodes, 1, 10000,
                                  "write a number of nodes, 1 to 10000, or auto")},
    [RN_SET_REDIS_CHANGES] = {"redis-changes", "FLAG",
                              "rules, overrides and bans set here hold on all nodes (true)", "true",
                              FLAG(redis_changes)},
    [RN_SET_REDIS_KEY_SECRET] = {"redis-key-secret", SECRET, NULL, TEXT},
    [RN_SET_REDIS_KEY_SECRET_FILE] = {"redis-key-secret-file", "FILE",
                                      "hides clients' keys from readers of Redis", NULL, TEXT},
    [RN_SET_TLS_CERT] = {"tls-cert", "FILE", "speak TLS with this certificate (no TLS)", NULL,
                         TEXT},
    [RN_SET_TLS_KEY] = {"tls-key", "FILE", "and its key", NULL, TEXT},
    [RN_SET_TLS_CLIENT_CA] = {"tls-client-ca", "FILE",
                              "refuse clients without a certificate from one of these", NULL, TEXT},
    [RN_SET_TLS_MIN] = {"tls-min", "VERSION", "1.2 or 1.3 (1.2)", NULL,
                        WORD(tls_min, "write 1.2 or 1.3", "1.2", "1.3")},
    [RN_SET_TLS] = {"tls", "LIST", "on these, such as http,admin (all but unix sockets)", NULL,
                    TEXT},
};

const struct rn_rationd_word rn_rationd_words[] = {
    {"config", "FILE", "rules, native or Envoy's; may be repeated"},
    {"check", NULL, "only check the rules and settings"},
    {"version", NULL, "print the version"},
    {"help", NULL, "print this text"},
    {0},
};

static void put_option(const char *name, const char *value, const char *about)
{
    char start[64];
    size_t len = 0;

    snprintf(start, sizeof start, "  --%s%s%s", name, value ? " " : "", value ? value : "");
    for (;; about += len + 1) {
        len = strcspn(about, "\n");
        printf("%-31s %.*s\n", start, (int)len, about);
        if (about[len] == '\0')
            return;
        start[0] = '\0';
    }
}

void rn_rationd_options_put_help(void)
{
    fputs("usage: rationd [--config FILE]... [OPTION]...\n"
          "\n"
          "Decides about requests by the rules in FILE (or the files of a directory), for\n"
          "clients that ask over HTTP, gRPC or the Redis protocol.\n"
          "\n",
          stdout);
    put_option(rn_rationd_words[0].name, rn_rationd_words[0].value, rn_rationd_words[0].about);
    for (size_t i = 0; i < RN_SET_COUNT; i++)
        if (rn_rationd_specs[i].value)
            put_option(rn_rationd_specs[i].name, rn_rationd_specs[i].value,
                       rn_rationd_specs[i].about);
    for (const struct rn_rationd_word *word = rn_rationd_words + 1; word->name; word++)
        put_option(word->name, word->value, word->about);
    fputs("\n"
          "ADDR is host:port, :port (all addresses), unix:PATH, or none. Port 0 picks one.\n"
          "Each value may come from the environment, too: RATION_LOG_LEVEL=warn, or from the "
          "section\n"
          "`server:` of the rules: log_level: warn. The command line comes first, then the\n"
          "environment, then the section. RATION_CONFIG is a list with : between files.\n"
          "Callers from other machines must show the admin port a token: one of `tokens` of\n"
          "the section, `admin_token`, or RATION_ADMIN_TOKEN. RATION_REDIS_KEY_SECRET stands\n"
          "for `redis_key_secret`. Secrets are better in files.\n"
          "\n"
          "SIGHUP reloads rules and certificate (a changed file does, too), SIGTERM ends.\n"
          "man rationd has the details.\n",
          stdout);
}
