/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the command line. An argument with a `=` behind a name is an attribute,
 * one that begins with `-` an option, and all others are files.
 */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "cli/output.h"
#include "rules/report.h"

#define TIMES_MAX 1000000
#define ALWAYS 0 /* as `bit`: every command has it */

enum which { HELP, JSON, COLOUR, STATE, COST, TIMES, AT, STRICT, MATCHING };

static const struct spec {
    const char *name;
    enum which which;
    unsigned bit;
    const char *value; /* what it takes, by example; NULL: nothing */
} specs[] = {
    {"--help", HELP, ALWAYS, NULL},
    {"--json", JSON, ALWAYS, NULL},
    {"--color", COLOUR, ALWAYS, "always"},
    {"--state", STATE, RN_OPTION_STATE, "/tmp/state"},
    {"--cost", COST, RN_OPTION_COST, "5"},
    {"--times", TIMES, RN_OPTION_TIMES, "10"},
    {"--at", AT, RN_OPTION_AT, "+30s"},
    {"--strict", STRICT, RN_OPTION_STRICT, NULL},
    {"--matching", MATCHING, RN_OPTION_MATCHING, NULL},
};
#define SPECS (sizeof specs / sizeof specs[0])

/* --- values ------------------------------------------------------------------------ */

static bool read_count(const char *text, uint64_t max, uint64_t *value)
{
    size_t pos = 0, len = strlen(text);
    uint64_t number;

    if (rn_number_parse(text, len, &pos, &number, NULL) != 0 || pos != len || number == 0 ||
        number > max)
        return false;
    *value = number;
    return true;
}

static bool read_colour(const char *text, enum rn_colour *colour)
{
    static const char *const words[] = {"auto", "always", "never"}; /* enum rn_colour */

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *colour = (enum rn_colour)i;
            return true;
        }
    }
    return false;
}

/* NULL, or what would be right. */
static const char *set_option(struct rn_options *o, enum which which, const char *value)
{
    switch (which) {
    case HELP:
        o->help = true;
        return NULL;
    case JSON:
        o->json = true;
        return NULL;
    case STRICT:
        o->strict = true;
        return NULL;
    case MATCHING:
        o->matching = true;
        return NULL;
    case STATE:
        o->state = value;
        return value[0] != '\0' ? NULL : "the name of a file";
    case COLOUR:
        return read_colour(value, &o->colour) ? NULL : "auto, always or never";
    case COST:
        return read_count(value, UINT64_MAX, &o->cost) ? NULL : "a number from 1 on";
    case TIMES:
        return read_count(value, TIMES_MAX, &o->times) ? NULL : "a number from 1 to 1000000";
    case AT:
        return rn_moment_parse(value, &o->at) ? NULL
                                              : "a time such as +30s or 2027-01-31T23:59:00Z";
    }
    return NULL;
}

/* --- options ----------------------------------------------------------------------- */

static const struct spec *find_spec(const struct rn_options *o, struct rn_slice name)
{
    for (size_t i = 0; i < SPECS; i++)
        if ((specs[i].bit == ALWAYS || (o->command->options & specs[i].bit) != 0) &&
            rn_slice_is(name, specs[i].name))
            return &specs[i];
    return rn_slice_is(name, "-h") ? &specs[0] : NULL;
}

static void complain_of_option(const struct rn_options *o, struct rn_slice name)
{
    const char *names[SPECS], *meant;
    size_t count = 0;

    for (size_t i = 0; i < SPECS; i++) {
        if (specs[i].bit == ALWAYS || (o->command->options & specs[i].bit) != 0)
            names[count++] = specs[i].name;
        else if (rn_slice_is(name, specs[i].name)) {
            rn_complain("%s takes no %s; \"ration help %s\" tells what it does take",
                        o->command->name, specs[i].name, o->command->name);
            return;
        }
    }
    meant = rn_suggest(name, names, count);
    if (meant != NULL)
        rn_complain("there is no option %s; did you mean %s?", rn_excerpt(name).text, meant);
    else
        rn_complain("there is no option %s; \"ration help %s\" lists those there are",
                    rn_excerpt(name).text, o->command->name);
}

/* Reads argv[*i], and argv[*i + 1] if it is the value. */
static bool read_option(struct rn_options *o, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *equals = strchr(arg, '='), *value = NULL, *right;
    struct rn_slice name = {arg, equals != NULL ? (size_t)(equals - arg) : strlen(arg)};
    const struct spec *spec = find_spec(o, name);

    if (spec == NULL) {
        complain_of_option(o, name);
        return false;
    }
    if (spec->value == NULL && equals != NULL) {
        rn_complain("%s takes no value; write it alone", spec->name);
        return false;
    }
    if (spec->value != NULL) {
        value = equals != NULL ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
        if (value == NULL) {
            rn_complain("%s needs a value; write for example %s %s", spec->name, spec->name,
                        spec->value);
            return false;
        }
    }
    right = set_option(o, spec->which, value);
    if (right != NULL)
        rn_complain("%s: found %s, expected %s", spec->name, rn_excerpt(rn_slice_of(value)).text,
                    right);
    return right == NULL;
}

/* --- files and attributes ---------------------------------------------------------- */

/* How long the name before `=` is; 0: this is no attribute. */
static size_t name_length(const char *arg)
{
    size_t len = strcspn(arg, "=");

    if (arg[len] != '=' || len == 0)
        return 0;
    for (size_t i = 0; i < len; i++) {
        char c = arg[i], lower = (char)(c | 0x20);
        bool letter = lower >= 'a' && lower <= 'z', digit = c >= '0' && c <= '9';

        if (!letter && c != '_' && (i == 0 || (!digit && c != '-' && c != '.')))
            return 0;
    }
    return len;
}

/* Names of headers have no letter case; the rules have them in lower case. */
static void lower_header(char *name, size_t len)
{
    if (len < 7 || strncasecmp(name, "header.", 7) != 0)
        return;
    for (size_t i = 0; i < len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] | 0x20);
}

static void add_attribute(struct rn_options *o, char *arg, size_t name_len)
{
    lower_header(arg, name_len);
    o->attributes[o->attribute_count++] =
        (struct ration_attribute){.name = arg,
                                  .name_len = name_len,
                                  .value = arg + name_len + 1,
                                  .value_len = strlen(arg + name_len + 1)};
}

/* Behind `--` everything is an attribute, whatever its name looks like. */
static bool read_plain(struct rn_options *o, char *arg, bool only_attributes)
{
    size_t len = only_attributes ? strcspn(arg, "=") : name_length(arg);

    if (only_attributes && (len == 0 || arg[len] != '=')) {
        rn_complain("found %s behind --, expected an attribute such as ip=192.0.2.7",
                    rn_excerpt(rn_slice_of(arg)).text);
        return false;
    }
    if (len == 0) {
        o->files[o->file_count++] = arg;
        return true;
    }
    if ((o->command->options & RN_OPTION_REQUEST) == 0) {
        rn_complain("%s takes no attributes, found %s; if it is a file, put ./ before it",
                    o->command->name, rn_excerpt(rn_slice_of(arg)).text);
        return false;
    }
    add_attribute(o, arg, len);
    return true;
}

static int check(const struct rn_options *o)
{
    if (o->file_count == 0) {
        rn_complain("no rules file given; write for example ration %s rules.yaml%s",
                    o->command->name,
                    o->command->options & RN_OPTION_REQUEST ? " path=/login ip=192.0.2.7" : "");
        return RN_EXIT_ERROR;
    }
    for (size_t i = 0; o->file_count > 1 && i < o->file_count; i++) {
        if (strcmp(o->files[i], "-") == 0) {
            rn_complain("- is standard input and stands alone; give either - or files");
            return RN_EXIT_ERROR;
        }
    }
    return 0;
}

int rn_options_parse(struct rn_options *o, const struct rn_command *command, int argc, char **argv)
{
    bool only_attributes = false, ok = true;
    size_t room = (size_t)argc + 1;

    *o = (struct rn_options){.command = command, .times = 1};
    o->files = calloc(room, sizeof *o->files);
    o->attributes = calloc(room, sizeof *o->attributes);
    if (o->files == NULL || o->attributes == NULL) {
        rn_complain("out of memory");
        return RN_EXIT_ERROR;
    }
    for (int i = 0; ok && i < argc; i++) {
        if (!only_attributes && strcmp(argv[i], "--") == 0)
            only_attributes = true;
        else if (!only_attributes && argv[i][0] == '-' && argv[i][1] != '\0')
            ok = read_option(o, argc, argv, &i);
        else
            ok = read_plain(o, argv[i], only_attributes);
    }
    if (!ok)
        return RN_EXIT_ERROR;
    return o->help ? 0 : check(o);
}

void rn_options_done(struct rn_options *o)
{
    free(o->files);
    free(o->attributes);
}
