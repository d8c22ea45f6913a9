/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings in the environment: RATION_LOG_LEVEL for --log-level, and so on for each option.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/log.h"
#include "rationd/options_internal.h"
#include "rules/report/report.h"

#define PREFIX "RATION_"

void rn_rationd_environment_name(const char *option, char name[RN_SOURCE_MAX])
{
    snprintf(name, RN_SOURCE_MAX, PREFIX "%s", option);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

const char *rn_rationd_environment_find(const char *option)
{
    char name[RN_SOURCE_MAX];
    const char *value;

    rn_rationd_environment_name(option, name);
    value = getenv(name);
    return value && *value ? value : NULL; /* compose files leave variables empty */
}

bool rn_rationd_environment_read_configs(struct rn_rationd_options *o)
{
    const char *list = rn_rationd_environment_find("config");
    char *copy = list ? strdup(list) : NULL, *rest = NULL; /* lives as long as the process */

    if (list && !copy)
        return rn_rationd_fail("out of memory at RATION_CONFIG");
    for (char *file = copy ? strtok_r(copy, ":", &rest) : NULL; file;
         file = strtok_r(NULL, ":", &rest)) {
        if (o->config_count == RN_CONFIGS_MAX)
            return rn_rationd_fail("RATION_CONFIG has more than %d files; name their directory",
                                   RN_CONFIGS_MAX);
        o->configs[o->config_count++] = file;
    }
    return true;
}

/* --- misspelt variables ------------------------------------------------------------------- */

/* Variables of the command `ration`, of which a shared environment has some, too. */
static const char *const of_ration[] = {"RATION_TOKEN", "RATION_TOKEN_FILE", "RATION_CACERT",
                                        "RATION_CERT",  "RATION_KEY",        "RATION_TIMEOUT"};
#define OF_RATION (sizeof of_ration / sizeof *of_ration)
#define NAMES (RN_SET_COUNT + 1 + OF_RATION)

/* Kubernetes sets RATION_SERVICE_HOST, RATION_HTTP_PORT=tcp://... and more for a service that is
 * called ration or ration-http. */
static bool is_of_kubernetes(struct rn_slice name)
{
    const char *value = name.data + name.len + 1;

    return memmem(name.data, name.len, "_SERVICE_", 9) ||
           memmem(name.data, name.len, "_PORT_", 6) || strncmp(value, "tcp://", 6) == 0 ||
           strncmp(value, "udp://", 6) == 0;
}

/* The variable that was probably meant: spelt alike, or else the beginning of the name, as
 * RATION_REDIS is of RATION_REDIS_URL. NULL: none, or `name` is one of them. */
static const char *find_meant(struct rn_slice name, const char *const names[NAMES])
{
    const char *ends[NAMES], *begins = NULL, *alike;

    for (size_t i = 0; i < NAMES; i++) {
        size_t len = strlen(names[i]);

        if (rn_slice_is(name, names[i]))
            return NULL;
        if (name.len > len && memcmp(name.data, names[i], len) == 0 && name.data[len] == '_' &&
            (!begins || len > strlen(begins)))
            begins = names[i];
        ends[i] = names[i] + strlen(PREFIX);
    }
    /* Compared without the prefix, which would make all names alike. */
    name.data += strlen(PREFIX);
    name.len -= strlen(PREFIX);
    alike = rn_suggest(name, ends, NAMES);
    return alike ? alike - strlen(PREFIX) : begins;
}

void rn_rationd_environment_warn(void)
{
    char own[RN_SET_COUNT][RN_SOURCE_MAX], advice[128];
    const char *names[NAMES] = {"RATION_CONFIG"};

    memcpy(names + 1, of_ration, sizeof of_ration);
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        rn_rationd_environment_name(rn_rationd_specs[i].name, own[i]);
        names[1 + OF_RATION + i] = own[i];
    }
    for (char **entry = environ; *entry; entry++) {
        struct rn_slice name = {*entry, strcspn(*entry, "=")};
        const char *meant;

        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0 || (*entry)[name.len] == '\0' ||
            is_of_kubernetes(name) || !(meant = find_meant(name, names)))
            continue;
        snprintf(advice, sizeof advice, "no program reads it; did you mean %s?", meant);
        rn_log(RN_LOG_WARN, "environment.unknown", RN_LOG_TEXT("variable", name),
               RN_LOG_TEXT("advice", rn_slice_of(advice)));
    }
}
