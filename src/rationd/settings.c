/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the values of settings: first by the table, then those that depend on others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"
#include "net/address.h"
#include "rationd/options_internal.h"
#include "rules/report/report.h"

/* --- one value ------------------------------------------------------------------------------ */

_Static_assert(sizeof(enum rn_log_level) == sizeof(unsigned), "read_value() writes enums as that");

/* False: bad value. */
static bool read_value(const struct rn_rationd_spec *spec, const char *text, void *to)
{
    size_t pos = 0, len = strlen(text);
    uint64_t n;

    switch (spec->kind) {
    case RN_SPEC_TEXT:
        return true;
    case RN_SPEC_FLAG:
        *(bool *)to = strcmp(text, "true") == 0;
        return *(bool *)to || strcmp(text, "false") == 0;
    case RN_SPEC_COUNT:
        if (rn_number_parse(text, len, &pos, &n, NULL) != 0 || pos != len ||
            n < (uint64_t)spec->min || n > (uint64_t)spec->max)
            return false;
        *(uint32_t *)to = (uint32_t)n;
        return true;
    case RN_SPEC_SIZE:
        return rn_number_parse_size(text, to) && *(uint64_t *)to >= (uint64_t)spec->min;
    case RN_SPEC_TIME:
        return rn_number_parse_duration(text, len, &pos, to, NULL) == 0 && pos == len &&
               *(int64_t *)to >= spec->min && *(int64_t *)to <= spec->max;
    case RN_SPEC_WORD:
        for (unsigned i = 0; spec->words[i]; i++)
            if (strcmp(text, spec->words[i]) == 0) {
                *(unsigned *)to = i;
                return true;
            }
        return false;
    }
    return false;
}

/* --- secrets ------------------------------------------------------------------------------ */

/* The file of a credential that systemd has for this service, from malloc; NULL: there is none.
 * It lives as long as the process. One that cannot be looked at is there: the reader complains. */
static const char *find_credential(const char *name)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    char *path = NULL;
    struct stat is;

    if (directory && asprintf(&path, "%s/%s", directory, name) < 0)
        return NULL;
    if (path && (lstat(path, &is) == 0 || errno != ENOENT))
        return path;
    free(path);
    return NULL;
}

/* Reads secrets from files: each replaces the value of the other setting. A secret that is not set
 * otherwise may be a credential with the name of its setting. */
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
        bool given = *value && **value && *value != rn_rationd_specs[secrets[i].value].otherwise;
        struct ration_error error;

        if ((!path || !*path) && !given)
            path = o->values[secrets[i].file] =
                find_credential(rn_rationd_specs[secrets[i].value].name);
        if (!path || !*path)
            continue;
        if (given) {
            snprintf(error.text, sizeof error.text, "%s is given, too; keep one of them",
                     secrets[i].name);
            return rn_rationd_options_refuse(o, ruleset, secrets[i].file, error.text);
        }
        *value = rn_secrets_read_file(path, &error);
        if (!*value)
            return rn_rationd_options_refuse(o, ruleset, secrets[i].file, error.text);
    }
    return rn_secrets_read_tokens(o, ruleset);
}

/* --- listeners and TLS -------------------------------------------------------------------- */

static const enum rn_rationd_setting listeners[] = {RN_SET_HTTP, RN_SET_GRPC, RN_SET_RESP,
                                                    RN_SET_ADMIN};
#define LISTENERS (sizeof listeners / sizeof *listeners)

/* Checks the syntax of listen addresses, and that there is one. Names are resolved later. */
static bool check_addresses(const struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    bool any = false;

    for (size_t i = 0; i < LISTENERS; i++) {
        const char *text = o->values[listeners[i]], *colon = strrchr(text, ':');
        struct rn_address address;
        struct ration_error error;

        if (colon && rn_address_is_name(text))
            text = colon;
        if (strcmp(text, "none") == 0)
            continue;
        if (rn_address_parse(text, &address, &error) != 0)
            return rn_rationd_options_refuse(o, ruleset, listeners[i], error.text);
        any = true;
    }
    if (!any)
        rn_rationd_fail("http, resp, grpc and admin are all none; give one of them an "
                        "address, or no client can reach rationd");
    return any;
}

/* Parses a comma-separated list of listeners; without one, all that can speak TLS do. */
static bool read_secure(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    const char *at = o->values[RN_SET_TLS];
    bool tcp[LISTENERS];

    for (size_t i = 0; i < LISTENERS; i++) {
        const char *address = o->values[listeners[i]];

        tcp[i] = strcmp(address, "none") != 0 && strncmp(address, "unix:", 5) != 0;
        /* A socket unit may put a TCP socket in the place of a unix socket. */
        o->secure[listeners[i]] = !at && strcmp(address, "none") != 0;
    }
    while (at && *(at += strspn(at, ", "))) {
        struct rn_slice name = {at, strcspn(at, ", ")};
        char advice[128];
        size_t i = 0;

        while (i < LISTENERS && !rn_slice_is(name, rn_rationd_specs[listeners[i]].name))
            i++;
        if (i == LISTENERS || !tcp[i]) {
            snprintf(advice, sizeof advice, "%s: %s", rn_excerpt(name).text,
                     i < LISTENERS ? "is a unix socket or none, and those do not speak TLS"
                                   : "listeners are http, grpc, resp and admin");
            return rn_rationd_options_refuse(o, ruleset, RN_SET_TLS, advice);
        }
        o->secure[listeners[i]] = true;
        at += name.len;
    }
    return true;
}

/* Of files that are wrong together: the certificate and its key, or the authorities of clients. */
static enum rn_rationd_setting wrong_tls_setting(const struct rn_tls_files *files)
{
    struct rn_tls_files pair = *files;
    struct ration_error error;
    struct rn_tls *tls;

    pair.client_ca = NULL;
    if (rn_tls_new(&pair, &tls, &error) != 0)
        return RN_SET_TLS_CERT;
    rn_tls_unref(tls);
    return RN_SET_TLS_CLIENT_CA;
}

/* Checks each file first, so that the message names the wrong setting. */
static bool read_tls(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    const char *cert = o->values[RN_SET_TLS_CERT];
    struct ration_error error;
    struct rn_tls *tls;

    for (enum rn_rationd_setting i = RN_SET_TLS_KEY; i <= RN_SET_TLS; i++)
        if (o->values[i] && !cert)
            return rn_rationd_options_refuse(
                o, ruleset, i,
                "name the certificate with --tls-cert (tls_cert in the section server), too");
    if (!cert)
        return true;
    if (!o->values[RN_SET_TLS_KEY])
        return rn_rationd_options_refuse(
            o, ruleset, RN_SET_TLS_CERT,
            "name the file of its key with --tls-key (tls_key in the section server)");
    o->tls = (struct rn_tls_files){.cert = cert,
                                   .key = o->values[RN_SET_TLS_KEY],
                                   .client_ca = o->values[RN_SET_TLS_CLIENT_CA],
                                   .only_13 = o->tls_min == 1};
    for (enum rn_rationd_setting i = RN_SET_TLS_CERT; i <= RN_SET_TLS_CLIENT_CA; i++) {
        char problem[RN_FILE_PROBLEM], text[RN_FILE_PROBLEM + 32];
        int fd;

        if (!o->values[i])
            continue;
        fd = rn_file_open(o->values[i], problem);
        if (fd < 0) {
            snprintf(text, sizeof text, "it cannot be read: %s", problem);
            return rn_rationd_options_refuse(o, ruleset, i, text);
        }
        close(fd);
    }
    if (rn_tls_new(&o->tls, &tls, &error) != 0)
        return rn_rationd_options_refuse(o, ruleset, wrong_tls_setting(&o->tls), error.text);
    rn_tls_unref(tls);
    return read_secure(o, ruleset);
}

/* --- all ----------------------------------------------------------------------------------- */

bool rn_rationd_settings_read(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    const char *directory = getenv("STATE_DIRECTORY"); /* of systemd */
    struct ration_error error;

    for (enum rn_rationd_setting i = 0; i < RN_SET_COUNT; i++) {
        const struct rn_rationd_spec *spec = &rn_rationd_specs[i];
        const char *text = o->values[i];

        if (text && !read_value(spec, text, (char *)o + spec->offset) &&
            !(spec->otherwise && strcmp(text, spec->otherwise) == 0))
            return rn_rationd_options_refuse(o, ruleset, i, spec->right);
    }
    rn_log_setup(o->log_level, o->log_format);
    o->state = o->values[RN_SET_STATE];
    if (o->state && strcmp(o->state, "none") == 0)
        o->state = NULL;
    else if (!o->state && directory && !strchr(directory, ':') &&
             snprintf(o->state_path, sizeof o->state_path, "%s/ration.state", directory) <
                 (int)sizeof o->state_path)
        o->state = o->state_path;
    if (!read_secret_files(o, ruleset))
        return false;
    if (!o->trust_local && o->token_count == 0)
        return rn_rationd_options_refuse(
            o, ruleset, RN_SET_TRUST_LOCAL,
            "set admin_token or tokens, too, or no client could use the admin port");
    o->shares = strcmp(o->values[RN_SET_REDIS], "none") != 0;
    if (o->shares && rn_url_parse(o->values[RN_SET_REDIS], &o->redis, &error) != 0) {
        if (o->values[RN_SET_REDIS_FILE] && *o->values[RN_SET_REDIS_FILE])
            return rn_rationd_options_refuse(o, ruleset, RN_SET_REDIS_FILE, error.text);
        return rn_rationd_options_refuse_secret(o, ruleset, RN_SET_REDIS, error.text);
    }
    return check_addresses(o, ruleset) && read_tls(o, ruleset);
}
