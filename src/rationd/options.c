/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where settings come from: the command line, the environment, the section `server:`, the
 * default. option_table.c lists the settings, settings.c reads the values.
 */
#include "rationd/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rationd/options_internal.h"
#include "rules/report/report.h"

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
    size_t count = 4;

    if (strcmp(name, "check") == 0)
        return o->check = true;
    if (strcmp(name, "version") == 0)
        return o->version = true;
    if (strcmp(name, "help") == 0)
        return o->help = true;
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        if (!rn_rationd_specs[i].value)
            continue;
        names[count++] = rn_rationd_specs[i].name;
        if (rn_slice_is(word, rn_rationd_specs[i].name)) {
            value = &o->values[i];
            o->source[i] = RN_FROM_COMMAND_LINE;
        }
    }
    if (rn_slice_is(word, "config") && o->config_count < RN_CONFIGS_MAX)
        value = &o->configs[o->config_count++];
    if (value && (equals || *at + 1 < argc)) {
        *value = equals ? equals + 1 : argv[++*at];
        return true;
    }
    meant = rn_suggest(word, names, count);
    if (value)
        rn_rationd_fail("a value is missing after %s", argv[*at]);
    else if (meant)
        rn_rationd_fail("unknown option --%.*s; did you mean --%s?", (int)word.len, name, meant);
    else
        rn_rationd_fail("unknown option --%.*s; rationd --help lists what there is", (int)word.len,
                        name);
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
    return o->config_count > 0 || rn_rationd_environment_read_configs(o);
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
    char name[RN_SOURCE_MAX];

    if (s && o->source[which] == RN_FROM_SECTION)
        rn_rationd_fail("%.*s:%u:%u: %.*s: %s; %s", (int)s->file.len, s->file.data, s->line,
                        s->column, (int)s->name.len, s->name.data,
                        rn_excerpt(rn_slice_of(value)).text, advice);
    else
        rn_rationd_fail("%s %s; %s", rn_rationd_options_given_as(o, which, name),
                        rn_excerpt(rn_slice_of(value)).text, advice);
    return false;
}

bool rn_rationd_options_refuse_secret(const struct rn_rationd_options *o,
                                      const struct rn_ruleset *ruleset,
                                      enum rn_rationd_setting which, const char *advice)
{
    const struct rn_setting *s = find_setting(ruleset, rn_rationd_specs[which].name);
    char name[RN_SOURCE_MAX];

    if (s && o->source[which] == RN_FROM_SECTION)
        return rn_rationd_fail("%.*s:%u:%u: %.*s: %s", (int)s->file.len, s->file.data, s->line,
                               s->column, (int)s->name.len, s->name.data, advice);
    return rn_rationd_fail("%s: %s", rn_rationd_options_given_as(o, which, name), advice);
}

const char *rn_rationd_options_given_as(const struct rn_rationd_options *o,
                                        enum rn_rationd_setting which, char name[RN_SOURCE_MAX])
{
    if (o->source[which] == RN_FROM_ENVIRONMENT)
        rn_rationd_environment_name(rn_rationd_specs[which].name, name);
    else
        snprintf(name, RN_SOURCE_MAX, "--%s", rn_rationd_specs[which].name);
    return name;
}

bool rn_rationd_options_resolve(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    for (size_t i = 0; i < RN_SET_COUNT; i++) {
        const struct rn_setting *s = find_setting(ruleset, rn_rationd_specs[i].name);

        if (!o->values[i] && (o->values[i] = rn_rationd_environment_find(rn_rationd_specs[i].name)))
            o->source[i] = RN_FROM_ENVIRONMENT;
        if (!o->values[i] && s) {
            o->source[i] = RN_FROM_SECTION;
            o->values[i] = strndup(s->value.data, s->value.len); /* outlives the rules */
            if (!o->values[i])
                return rn_rationd_fail("out of memory at %s", rn_rationd_specs[i].name);
        }
        if (!o->values[i])
            o->values[i] = rn_rationd_specs[i].otherwise;
    }
    if (!rn_rationd_settings_read(o, ruleset))
        return false;
    rn_rationd_environment_warn();
    return true;
}
