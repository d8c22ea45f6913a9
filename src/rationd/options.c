/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where settings come from: the command line, the section `server:`, the environment, the
 * default. settings.c reads the values.
 */
#include "rationd/options.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rationd/options_internal.h"
#include "rules/report/report.h"

const char rn_rationd_options_help[] =
    "usage: rationd [--config FILE]... [OPTION]...\n"
    "\n"
    "Decides about requests by the rules in FILE (or the files of a directory), for\n"
    "clients that ask over HTTP, gRPC or the Redis protocol.\n"
    "\n"
    "  --config FILE      rules, native or Envoy's; may be repeated\n"
    "  --http ADDR        HTTP: /v1/check, /v1/auth, ...     (127.0.0.1:8080)\n"
    "  --resp ADDR        the Redis protocol                 (127.0.0.1:6380)\n"
    "  --grpc ADDR        Envoy's rate limit service         (127.0.0.1:8081)\n"
    "  --admin ADDR       health, metrics, rules, clients    (127.0.0.1:8082)\n"
    "  --state FILE       keep counters in FILE, across restarts and kill -9;\n"
    "                     none: in memory ($STATE_DIRECTORY/ration.state, or none)\n"
    "  --memory SIZE      for counters, such as 256M         (64M)\n"
    "  --usage-memory SIZE  for usage, if rules have it      (64M)\n"
    "  --workers N        threads                            (one for each processor)\n"
    "  --connections N    open at once, besides admin        (what the system allows)\n"
    "  --per-address N    open at once from one address      (no limit)\n"
    "  --input-memory SIZE  for requests that are not complete, of all connections (64M)\n"
    "  --waiting N        requests that wait in line at once (10000)\n"
    "  --trust-local FLAG callers on this machine need no token (true)\n"
    "  --admin-token-file FILE  the token of all other callers, for everything\n"
    "  --grpc-max-age N   seconds until gRPC connections are asked to go (86400)\n"
    "  --log-format HOW   log lines as logfmt or json        (logfmt)\n"
    "  --log-level LEVEL  error, warn, info or debug         (info)\n"
    "  --log-keys HOW     clients' keys in the log: full, masked or none (masked)\n"
    "  --rls-headers FLAG ratelimit-* headers in answers to Envoy (false)\n"
    "  --rls-metadata FLAG  metadata of the limits that have passed, too (false)\n"
    "  --rls-quota-mode FLAG  refuse Envoy only when all limits are over (false)\n"
    "  --redis URL        share limits with other nodes      (none)\n"
    "  --redis-file FILE  the same, read from FILE: it may have a password\n"
    "  --redis-deadline TIME  how long a decision waits for it  (25ms)\n"
    "  --redis-nodes N    without it, limits are divided by this number (auto)\n"
    "  --redis-changes B  rules, overrides and bans set here hold on all nodes (true)\n"
    "  --redis-key-secret-file FILE  hides clients' keys from readers of Redis\n"
    "  --tls-cert FILE    speak TLS with this certificate    (no TLS)\n"
    "  --tls-key FILE     and its key\n"
    "  --tls-client-ca FILE  refuse clients without a certificate from one of these\n"
    "  --tls-min VERSION  1.2 or 1.3                         (1.2)\n"
    "  --tls LIST         on these, such as http,admin       (all but unix sockets)\n"
    "  --check            only check the rules and settings\n"
    "  --version, --help\n"
    "\n"
    "ADDR is host:port, :port (all addresses), unix:PATH, or none. Port 0 picks one.\n"
    "The section `server:` of the rules may set the same, with _ for -; the command\n"
    "line wins. Callers from other machines must show the admin port a token: one of\n"
    "`tokens` there, `admin_token`, or RATION_ADMIN_TOKEN. RATION_REDIS and\n"
    "RATION_REDIS_KEY_SECRET stand for `redis` and `redis_key_secret`; with _FILE\n"
    "after their names, the three variables name files.\n"
    "\n"
    "SIGHUP reloads rules and certificate (a changed file does, too), SIGTERM ends.\n";

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

const struct rn_rationd_spec rn_rationd_specs[RN_SET_COUNT] = {
    [RN_SET_HTTP] = {"http", NULL, "127.0.0.1:8080", TEXT},
    [RN_SET_RESP] = {"resp", NULL, "127.0.0.1:6380", TEXT},
    [RN_SET_ADMIN] = {"admin", NULL, "127.0.0.1:8082", TEXT},
    [RN_SET_STATE] = {"state", NULL, NULL, TEXT},
    [RN_SET_MEMORY] = {"memory", NULL, "0",
                       SIZE(memory_bytes, 1 << 20, "write a size of 1M or more, such as 256M")},
    [RN_SET_USAGE_MEMORY] = {"usage-memory", NULL, "0",
                             SIZE(usage_bytes, 1 << 20,
                                  "write a size of 1M or more, such as 256M")},
    [RN_SET_WORKERS] = {"workers", NULL, NULL,
                        COUNT(workers, 1, 256, "write a number from 1 to 256")},
    [RN_SET_CONNECTIONS] = {"connections", NULL, "0",
                            COUNT(connections, 0, 10000000, "write a number of connections")},
    [RN_SET_PER_ADDRESS] = {"per-address", NULL, "0",
                            COUNT(per_address, 0, 10000000, "write a number of connections")},
    /* Rules of 8 MB must fit. */
    [RN_SET_INPUT_MEMORY] = {"input-memory", NULL, "64M",
                             SIZE(input_bytes, 16 << 20,
                                  "write a size of 16M or more, such as 64M")},
    [RN_SET_WAITING] = {"waiting", NULL, "10000",
                        COUNT(waiting, 0, 10000000, "write a number of requests; 0: none waits")},
    [RN_SET_TRUST_LOCAL] = {"trust-local", NULL, "true", FLAG(trust_local)},
    [RN_SET_ADMIN_TOKEN] = {"admin-token", "RATION_ADMIN_TOKEN", NULL, TEXT},
    [RN_SET_ADMIN_TOKEN_FILE] = {"admin-token-file", "RATION_ADMIN_TOKEN_FILE", NULL, TEXT},
    [RN_SET_LOG_KEYS] = {"log-keys", NULL, "masked",
                         WORD(log_keys, "write full, masked or none", "masked", "full", "none")},
    [RN_SET_LOG_FORMAT] = {"log-format", NULL, "logfmt",
                           WORD(log_format, "write logfmt or json", "logfmt", "json")},
    [RN_SET_LOG_LEVEL] = {"log-level", NULL, "info",
                          WORD(log_level, "write error, warn, info or debug", "error", "warn",
                               "info", "debug")},
    [RN_SET_GRPC] = {"grpc", NULL, "127.0.0.1:8081", TEXT},
    [RN_SET_GRPC_MAX_AGE] = {"grpc-max-age", NULL, "86400",
                             COUNT(grpc_max_age, 0, 100 * 86400, "write seconds; 0: for ever")},
    [RN_SET_RLS_HEADERS] = {"rls-headers", NULL, "false", FLAG(rls_headers)},
    [RN_SET_RLS_METADATA] = {"rls-metadata", NULL, "false", FLAG(rls_metadata)},
    [RN_SET_RLS_QUOTA_MODE] = {"rls-quota-mode", NULL, "false", FLAG(rls_quota_mode)},
    [RN_SET_REDIS] = {"redis", "RATION_REDIS", "none", TEXT},
    [RN_SET_REDIS_FILE] = {"redis-file", "RATION_REDIS_FILE", NULL, TEXT},
    [RN_SET_REDIS_DEADLINE] = {"redis-deadline", NULL, "25ms", RN_SPEC_TIME, AT(redis_deadline_ns),
                               MS, 10000 * MS, "write 1ms to 10s, such as 25ms", NULL},
    [RN_SET_REDIS_NODES] = {"redis-nodes", NULL, "auto",
                            COUNT(redis_nodes, 1, 10000,
                                  "write a number of nodes, 1 to 10000, or auto")},
    [RN_SET_REDIS_CHANGES] = {"redis-changes", NULL, "true", FLAG(redis_changes)},
    [RN_SET_REDIS_KEY_SECRET] = {"redis-key-secret", "RATION_REDIS_KEY_SECRET", NULL, TEXT},
    [RN_SET_REDIS_KEY_SECRET_FILE] = {"redis-key-secret-file", "RATION_REDIS_KEY_SECRET_FILE", NULL,
                                      TEXT},
    [RN_SET_TLS_CERT] = {"tls-cert", NULL, NULL, TEXT},
    [RN_SET_TLS_KEY] = {"tls-key", NULL, NULL, TEXT},
    [RN_SET_TLS_CLIENT_CA] = {"tls-client-ca", NULL, NULL, TEXT},
    [RN_SET_TLS_MIN] = {"tls-min", NULL, NULL, WORD(tls_min, "write 1.2 or 1.3", "1.2", "1.3")},
    [RN_SET_TLS] = {"tls", NULL, NULL, TEXT},
};

bool rn_rationd_fail(const char *format, ...)
{
    va_list args;

    fputs("rationd: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

/* --- the command line --------------------------------------------------------------------- */

/* Parses one option; advances *at if the value is the next word. */
static bool read_option(struct rn_rationd_options *o, int argc, char **argv, int *at)
{
    const char *names[RN_SET_COUNT + 4] = {"config", "check", "version", "help"}, *meant;
    const char *name = argv[*at] + 2, *equals = strchr(name, '='), **value = NULL;
    struct rn_slice word = {name, equals ? (size_t)(equals - name) : strlen(name)};

    if (strcmp(name, "check") == 0)
        return o->check = true;
    if (strcmp(name, "version") == 0)
        return o->version = true;
    if (strcmp(name, "help") == 0)
        return o->help = true;
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        names[4 + i] = rn_rationd_specs[i].name;
        if (i != RN_SET_ADMIN_TOKEN &&
            i != RN_SET_REDIS_KEY_SECRET && /* secrets: every user can see command lines */
            rn_slice_is(word, names[4 + i]))
            value = &o->values[i];
    }
    if (rn_slice_is(word, "config") && o->config_count < RN_CONFIGS_MAX)
        value = &o->configs[o->config_count++];
    if (value && (equals || *at + 1 < argc)) {
        *value = equals ? equals + 1 : argv[++*at];
        return true;
    }
    meant = rn_suggest(word, names, sizeof names / sizeof *names);
    if (value)
        rn_rationd_fail("a value is missing after %s", argv[*at]);
    else if (meant)
        rn_rationd_fail("unknown option --%s; did you mean --%s?", name, meant);
    else
        rn_rationd_fail("unknown option --%s; rationd --help lists what there is", name);
    return false;
}

bool rn_rationd_options_read(struct rn_rationd_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0) {
            o->help = true;
        } else if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            return rn_rationd_fail("unexpected word %s; rules files are given with --config",
                                   argv[i]);
        } else if (!read_option(o, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}

/* --- the section --------------------------------------------------------------------------- */

/* Names in the section have _ where options have -. */
static const struct rn_setting *find_setting(const struct rn_ruleset *ruleset, const char *option)
{
    for (uint32_t i = 0; ruleset && i < ruleset->setting_count; i++) {
        struct rn_slice name = ruleset->settings[i].name;
        size_t at = 0;

        if (name.len != strlen(option))
            continue;
        while (at < name.len && (name.data[at] == '_' ? '-' : name.data[at]) == option[at])
            at++;
        if (at == name.len)
            return &ruleset->settings[i];
    }
    return NULL;
}

bool rn_rationd_options_refuse(const struct rn_rationd_options *o, const struct rn_ruleset *ruleset,
                               enum rn_rationd_setting which, const char *advice)
{
    const struct rn_setting *s = find_setting(ruleset, rn_rationd_specs[which].name);
    const char *value = o->values[which];

    if (s && o->from_file[which])
        rn_rationd_fail("%.*s:%u:%u: %.*s: %s; %s", (int)s->file.len, s->file.data, s->line,
                        s->column, (int)s->name.len, s->name.data,
                        rn_excerpt(rn_slice_of(value)).text, advice);
    else
        rn_rationd_fail("--%s %s; %s", rn_rationd_specs[which].name,
                        rn_excerpt(rn_slice_of(value)).text, advice);
    return false;
}

bool rn_rationd_options_resolve(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        const struct rn_setting *s = find_setting(ruleset, rn_rationd_specs[i].name);

        if (!o->values[i] && s) {
            o->from_file[i] = true;
            o->values[i] = strndup(s->value.data, s->value.len); /* outlives the rules */
            if (!o->values[i])
                return rn_rationd_fail("out of memory at %s", rn_rationd_specs[i].name);
        }
        if (!o->values[i] && rn_rationd_specs[i].environment)
            o->values[i] = getenv(rn_rationd_specs[i].environment);
        if (!o->values[i])
            o->values[i] = rn_rationd_specs[i].otherwise;
    }
    return rn_rationd_settings_read(o, ruleset);
}
