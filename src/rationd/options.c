/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "net/address.h"
#include "rationd/parse.h"
#include "rationd/secrets.h"
#include "rules/report/report.h"

#define INPUT_MIN_BYTES (UINT64_C(16) << 20) /* rules of 8 MB must still fit */
#define REDIS_DEADLINE_MIN_NS INT64_C(1000000)
#define REDIS_DEADLINE_MAX_NS INT64_C(10000000000)

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
    "  --workers N        threads                            (one for each processor)\n"
    "  --connections N    open at once, besides admin        (what the system allows)\n"
    "  --per-address N    open at once from one address      (no limit)\n"
    "  --input-memory SIZE  for requests that are not complete, of all connections (64M)\n"
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

struct setting {
    const char *name; /* as an option; with _ instead of - in `server:` */
    const char *environment;
    const char *otherwise;
};

static const struct setting settings[RN_SET_COUNT] = {
    [RN_SET_HTTP] = {"http", NULL, "127.0.0.1:8080"},
    [RN_SET_RESP] = {"resp", NULL, "127.0.0.1:6380"},
    [RN_SET_ADMIN] = {"admin", NULL, "127.0.0.1:8082"},
    [RN_SET_STATE] = {"state", NULL, NULL},
    [RN_SET_MEMORY] = {"memory", NULL, "0"},
    [RN_SET_WORKERS] = {"workers", NULL, "0"},
    [RN_SET_CONNECTIONS] = {"connections", NULL, "0"},
    [RN_SET_PER_ADDRESS] = {"per-address", NULL, "0"},
    [RN_SET_INPUT_MEMORY] = {"input-memory", NULL, "64M"},
    [RN_SET_TRUST_LOCAL] = {"trust-local", NULL, "true"},
    [RN_SET_ADMIN_TOKEN] = {"admin-token", "RATION_ADMIN_TOKEN", NULL},
    [RN_SET_ADMIN_TOKEN_FILE] = {"admin-token-file", "RATION_ADMIN_TOKEN_FILE", NULL},
    [RN_SET_LOG_KEYS] = {"log-keys", NULL, "masked"},
    [RN_SET_LOG_FORMAT] = {"log-format", NULL, "logfmt"},
    [RN_SET_LOG_LEVEL] = {"log-level", NULL, "info"},
    [RN_SET_GRPC] = {"grpc", NULL, "127.0.0.1:8081"},
    [RN_SET_GRPC_MAX_AGE] = {"grpc-max-age", NULL, "86400"},
    [RN_SET_RLS_HEADERS] = {"rls-headers", NULL, "false"},
    [RN_SET_RLS_METADATA] = {"rls-metadata", NULL, "false"},
    [RN_SET_RLS_QUOTA_MODE] = {"rls-quota-mode", NULL, "false"},
    [RN_SET_REDIS] = {"redis", "RATION_REDIS", "none"},
    [RN_SET_REDIS_FILE] = {"redis-file", "RATION_REDIS_FILE", NULL},
    [RN_SET_REDIS_DEADLINE] = {"redis-deadline", NULL, "25ms"},
    [RN_SET_REDIS_NODES] = {"redis-nodes", NULL, "auto"},
    [RN_SET_REDIS_CHANGES] = {"redis-changes", NULL, "true"},
    [RN_SET_REDIS_KEY_SECRET] = {"redis-key-secret", "RATION_REDIS_KEY_SECRET", NULL},
    [RN_SET_REDIS_KEY_SECRET_FILE] = {"redis-key-secret-file", "RATION_REDIS_KEY_SECRET_FILE",
                                      NULL},
    [RN_SET_TLS_CERT] = {"tls-cert", NULL, NULL},
    [RN_SET_TLS_KEY] = {"tls-key", NULL, NULL},
    [RN_SET_TLS_CLIENT_CA] = {"tls-client-ca", NULL, NULL},
    [RN_SET_TLS_MIN] = {"tls-min", NULL, NULL},
    [RN_SET_TLS] = {"tls", NULL, NULL},
};

static bool complain(const char *what, const char *option, const char *advice)
{
    fprintf(stderr, "rationd: %s %s%s%s\n", what, option, advice ? "; " : "", advice ? advice : "");
    return false;
}

/* --- the command line --------------------------------------------------------------------- */

static bool refuse_option(const char *name)
{
    const char *names[RN_SET_COUNT + 4] = {"config", "check", "version", "help"}, *meant;
    char advice[64] = "rationd --help lists what there is";

    for (size_t i = 0; i < RN_SET_COUNT; i++)
        names[4 + i] = settings[i].name;
    meant = rn_suggest(rn_slice_of(name), names, sizeof names / sizeof *names);
    if (meant)
        snprintf(advice, sizeof advice, "did you mean --%s?", meant);
    fprintf(stderr, "rationd: unknown option --%s; %s\n", name, advice);
    return false;
}

/* Where to store an option's value; NULL: unknown option. */
static const char **find_value(struct rn_rationd_options *o, const char *name, size_t len)
{
    for (size_t i = 0; i < RN_SET_COUNT; i++)
        if (i != RN_SET_ADMIN_TOKEN &&
            i != RN_SET_REDIS_KEY_SECRET && /* secrets: every user can see command lines */
            strlen(settings[i].name) == len && memcmp(settings[i].name, name, len) == 0)
            return &o->values[i];
    if (len == 6 && memcmp(name, "config", 6) == 0 && o->config_count < RN_CONFIGS_MAX)
        return &o->configs[o->config_count++];
    return NULL;
}

/* Parses one option; advances *at if the value is the next word. */
static bool read_option(struct rn_rationd_options *o, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const char **value;

    if (strcmp(name, "check") == 0)
        return o->check = true;
    if (strcmp(name, "version") == 0)
        return o->version = true;
    if (strcmp(name, "help") == 0)
        return o->help = true;
    value = find_value(o, name, equals ? (size_t)(equals - name) : strlen(name));
    if (!value)
        return refuse_option(name);
    if (equals)
        *value = equals + 1;
    else if (*at + 1 < argc)
        *value = argv[++*at];
    else
        return complain("a value is missing after", argv[*at], NULL);
    return true;
}

bool rn_rationd_options_read(struct rn_rationd_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0)
            o->help = true;
        else if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0')
            return complain("unexpected word", argv[i], "rules files are given with --config");
        else if (!read_option(o, argc, argv, &i))
            return false;
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

/* Prints what is wrong with a value, and where it was given. */
static bool refuse_value(const struct rn_rationd_options *o, const struct rn_ruleset *ruleset,
                         enum rn_rationd_setting which, const char *advice)
{
    const struct rn_setting *s = find_setting(ruleset, settings[which].name);
    const char *value = o->values[which];

    if (s && o->from_file[which])
        fprintf(stderr, "rationd: %.*s:%u:%u: %.*s: %s; %s\n", (int)s->file.len, s->file.data,
                s->line, s->column, (int)s->name.len, s->name.data,
                rn_excerpt(rn_slice_of(value)).text, advice);
    else
        fprintf(stderr, "rationd: --%s %s; %s\n", settings[which].name,
                rn_excerpt(rn_slice_of(value)).text, advice);
    return false;
}

/* --- values ------------------------------------------------------------------------------------
 */

/* Finds the text in a NULL-terminated list of words; the index is the value of an enum. */
static bool read_word(const char *text, const char *const *words, unsigned *value)
{
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool read_log(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    static const char *const keys[] = {"masked", "full", "none", NULL};
    static const char *const formats[] = {"logfmt", "json", NULL};
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    unsigned value;

    if (!read_word(o->values[RN_SET_LOG_KEYS], keys, &value))
        return refuse_value(o, ruleset, RN_SET_LOG_KEYS, "write full, masked or none");
    o->log_keys = (enum rn_log_keys)value;
    if (!read_word(o->values[RN_SET_LOG_FORMAT], formats, &value))
        return refuse_value(o, ruleset, RN_SET_LOG_FORMAT, "write logfmt or json");
    o->log_format = (enum rn_log_format)value;
    if (!read_word(o->values[RN_SET_LOG_LEVEL], levels, &value))
        return refuse_value(o, ruleset, RN_SET_LOG_LEVEL, "write error, warn, info or debug");
    o->log_level = (enum rn_log_level)value;
    rn_log_setup(o->log_level, o->log_format);
    return true;
}

/* Reads secrets from files: each replaces the value of the other setting. */
static bool read_secret_files(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    static const struct {
        const char *name;
        enum rn_rationd_setting value, file;
    } secrets[] = {{"admin_token", RN_SET_ADMIN_TOKEN, RN_SET_ADMIN_TOKEN_FILE},
                   {"redis", RN_SET_REDIS, RN_SET_REDIS_FILE},
                   {"redis_key_secret", RN_SET_REDIS_KEY_SECRET, RN_SET_REDIS_KEY_SECRET_FILE}};

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        const char *path = o->values[secrets[i].file], **value = &o->values[secrets[i].value];
        struct ration_error error;

        if (!path || !*path)
            continue;
        if (*value && **value && *value != settings[secrets[i].value].otherwise) {
            snprintf(error.text, sizeof error.text, "%s is given, too; keep one of them",
                     secrets[i].name);
            return refuse_value(o, ruleset, secrets[i].file, error.text);
        }
        *value = rn_secrets_read_file(path, &error);
        if (!*value)
            return refuse_value(o, ruleset, secrets[i].file, error.text);
    }
    return rn_secrets_read_tokens(o, ruleset);
}

/* The default state is in systemd's StateDirectory=. */
static void find_state(struct rn_rationd_options *o)
{
    const char *directory = getenv("STATE_DIRECTORY");

    o->state = o->values[RN_SET_STATE];
    if (o->state && strcmp(o->state, "none") == 0)
        o->state = NULL;
    else if (!o->state && directory && !strchr(directory, ':') &&
             snprintf(o->state_path, sizeof o->state_path, "%s/ration.state", directory) <
                 (int)sizeof o->state_path)
        o->state = o->state_path;
}

/* --- TLS ------------------------------------------------------------------------------------ */

static bool is_tcp(const struct rn_rationd_options *o, enum rn_rationd_setting listener)
{
    return strcmp(o->values[listener], "none") != 0 &&
           strncmp(o->values[listener], "unix:", 5) != 0;
}

static bool refuse_listener(const struct rn_rationd_options *o, const struct rn_ruleset *ruleset,
                            const char *name, size_t len, bool known)
{
    char advice[128];

    snprintf(advice, sizeof advice, "%s: %s", rn_excerpt((struct rn_slice){name, len}).text,
             known ? "is a unix socket or none, and those do not speak TLS"
                   : "listeners are http, grpc, resp and admin");
    return refuse_value(o, ruleset, RN_SET_TLS, advice);
}

/* Parses a comma-separated list of listeners. */
static bool read_secure(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    static const enum rn_rationd_setting listeners[] = {RN_SET_HTTP, RN_SET_GRPC, RN_SET_RESP,
                                                        RN_SET_ADMIN};
    const char *at = o->values[RN_SET_TLS];

    for (size_t i = 0; !at && i < sizeof listeners / sizeof *listeners; i++)
        o->secure[listeners[i]] = is_tcp(o, listeners[i]);
    while (at && *(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ", "), i = 0;

        while (i < 4 && !rn_slice_is((struct rn_slice){at, len}, settings[listeners[i]].name))
            i++;
        if (i == 4 || !is_tcp(o, listeners[i]))
            return refuse_listener(o, ruleset, at, len, i < 4);
        o->secure[listeners[i]] = true;
        at += len;
    }
    return true;
}

/* Checks each file, so that the message names the wrong setting. */
static bool can_read_tls(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    static const enum rn_rationd_setting files[] = {RN_SET_TLS_CERT, RN_SET_TLS_KEY,
                                                    RN_SET_TLS_CLIENT_CA};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char problem[RN_FILE_PROBLEM], text[RN_FILE_PROBLEM + 32];

        if (!o->values[files[i]])
            continue;
        int fd = rn_file_open(o->values[files[i]], problem);

        if (fd < 0) {
            snprintf(text, sizeof text, "it cannot be read: %s", problem);
            return refuse_value(o, ruleset, files[i], text);
        }
        close(fd);
    }
    return true;
}

static bool read_tls(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    const char *min = o->values[RN_SET_TLS_MIN];
    struct ration_error error;
    struct rn_tls *tls;

    for (enum rn_rationd_setting i = RN_SET_TLS_KEY; i <= RN_SET_TLS; i++)
        if (o->values[i] && !o->values[RN_SET_TLS_CERT])
            return refuse_value(
                o, ruleset, i,
                "name the certificate with --tls-cert (tls_cert in the section server), too");
    if (!o->values[RN_SET_TLS_CERT])
        return true;
    if (!o->values[RN_SET_TLS_KEY])
        return refuse_value(
            o, ruleset, RN_SET_TLS_CERT,
            "name the file of its key with --tls-key (tls_key in the section server)");
    if (min && strcmp(min, "1.2") != 0 && strcmp(min, "1.3") != 0)
        return refuse_value(o, ruleset, RN_SET_TLS_MIN, "write 1.2 or 1.3");
    o->tls = (struct rn_tls_files){.cert = o->values[RN_SET_TLS_CERT],
                                   .key = o->values[RN_SET_TLS_KEY],
                                   .client_ca = o->values[RN_SET_TLS_CLIENT_CA],
                                   .only_13 = min && strcmp(min, "1.3") == 0};
    if (!can_read_tls(o, ruleset))
        return false;
    if (rn_tls_new(&o->tls, &tls, &error) != 0)
        return refuse_value(o, ruleset, RN_SET_TLS_CERT, error.text);
    rn_tls_unref(tls);
    return read_secure(o, ruleset);
}

/* --- Redis ---------------------------------------------------------------------------------- */

static bool read_redis(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    struct ration_error error;

    if (!rn_rationd_parse_duration(o->values[RN_SET_REDIS_DEADLINE], &o->redis_deadline_ns) ||
        o->redis_deadline_ns < REDIS_DEADLINE_MIN_NS ||
        o->redis_deadline_ns > REDIS_DEADLINE_MAX_NS)
        return refuse_value(o, ruleset, RN_SET_REDIS_DEADLINE, "write 1ms to 10s, such as 25ms");
    if (strcmp(o->values[RN_SET_REDIS_NODES], "auto") != 0 &&
        (!rn_rationd_parse_count(o->values[RN_SET_REDIS_NODES], 10000, &o->redis_nodes) ||
         o->redis_nodes == 0))
        return refuse_value(o, ruleset, RN_SET_REDIS_NODES,
                            "write a number of nodes, 1 to 10000, or auto");
    if (!rn_rationd_parse_flag(o->values[RN_SET_REDIS_CHANGES], &o->redis_changes))
        return refuse_value(o, ruleset, RN_SET_REDIS_CHANGES, "write true or false");
    o->shares = strcmp(o->values[RN_SET_REDIS], "none") != 0;
    if (!o->shares || rn_url_parse(o->values[RN_SET_REDIS], &o->redis, &error) == 0)
        return true;
    /* Never print the URL: it may contain a password. */
    fprintf(stderr, "rationd: --redis: %s\n", error.text);
    return false;
}

/* Checks the syntax of listen addresses, and that there is one. Names are resolved later. */
static bool check_addresses(const struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    static const enum rn_rationd_setting listeners[] = {RN_SET_HTTP, RN_SET_RESP, RN_SET_GRPC,
                                                        RN_SET_ADMIN};
    bool any = false;

    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
        const char *text = o->values[listeners[i]], *colon = strrchr(text, ':');
        struct rn_address address;
        struct ration_error error;

        if (colon && rn_address_is_name(text))
            text = colon;
        if (strcmp(text, "none") == 0)
            continue;
        if (rn_address_parse(text, &address, &error) != 0)
            return refuse_value(o, ruleset, listeners[i], error.text);
        any = true;
    }
    return any || complain("http, resp, grpc and admin are all", "none",
                           "give one of them an address, or no client can reach rationd");
}

static bool read_values(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    uint32_t workers;

    find_state(o);
    if (!read_log(o, ruleset) || !read_secret_files(o, ruleset))
        return false;
    if (!rn_rationd_parse_size(o->values[RN_SET_MEMORY], &o->memory_bytes) ||
        (o->memory_bytes != 0 && o->memory_bytes < 1 << 20))
        return refuse_value(o, ruleset, RN_SET_MEMORY, "write a size of 1M or more, such as 256M");
    if (!rn_rationd_parse_count(o->values[RN_SET_WORKERS], 256, &workers) ||
        (workers == 0 && o->values[RN_SET_WORKERS] != settings[RN_SET_WORKERS].otherwise))
        return refuse_value(o, ruleset, RN_SET_WORKERS, "write a number from 1 to 256");
    o->workers = workers;
    if (!rn_rationd_parse_count(o->values[RN_SET_CONNECTIONS], 10000000, &o->connections))
        return refuse_value(o, ruleset, RN_SET_CONNECTIONS, "write a number of connections");
    if (!rn_rationd_parse_count(o->values[RN_SET_PER_ADDRESS], 10000000, &o->per_address))
        return refuse_value(o, ruleset, RN_SET_PER_ADDRESS, "write a number of connections");
    if (!rn_rationd_parse_size(o->values[RN_SET_INPUT_MEMORY], &o->input_bytes) ||
        o->input_bytes < INPUT_MIN_BYTES)
        return refuse_value(o, ruleset, RN_SET_INPUT_MEMORY,
                            "write a size of 16M or more, such as 64M");
    if (!rn_rationd_parse_flag(o->values[RN_SET_TRUST_LOCAL], &o->trust_local))
        return refuse_value(o, ruleset, RN_SET_TRUST_LOCAL, "write true or false");
    if (!o->trust_local && o->token_count == 0)
        return refuse_value(
            o, ruleset, RN_SET_TRUST_LOCAL,
            "set admin_token or tokens, too, or no client could use the admin port");
    if (!rn_rationd_parse_count(o->values[RN_SET_GRPC_MAX_AGE], 100 * 86400, &o->grpc_max_age))
        return refuse_value(o, ruleset, RN_SET_GRPC_MAX_AGE, "write seconds; 0: for ever");
    if (!rn_rationd_parse_flag(o->values[RN_SET_RLS_HEADERS], &o->rls_headers))
        return refuse_value(o, ruleset, RN_SET_RLS_HEADERS, "write true or false");
    if (!rn_rationd_parse_flag(o->values[RN_SET_RLS_METADATA], &o->rls_metadata))
        return refuse_value(o, ruleset, RN_SET_RLS_METADATA, "write true or false");
    if (!rn_rationd_parse_flag(o->values[RN_SET_RLS_QUOTA_MODE], &o->rls_quota_mode))
        return refuse_value(o, ruleset, RN_SET_RLS_QUOTA_MODE, "write true or false");
    return check_addresses(o, ruleset) && read_redis(o, ruleset) && read_tls(o, ruleset);
}

bool rn_rationd_options_resolve(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        const struct rn_setting *s = find_setting(ruleset, settings[i].name);

        if (!o->values[i] && s) {
            o->from_file[i] = true;
            o->values[i] = strndup(s->value.data, s->value.len); /* outlives the rules */
            if (!o->values[i])
                return complain("out of memory at", settings[i].name, NULL);
        }
        if (!o->values[i] && settings[i].environment)
            o->values[i] = getenv(settings[i].environment);
        if (!o->values[i])
            o->values[i] = settings[i].otherwise;
    }
    return read_values(o, ruleset);
}
