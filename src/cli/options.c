/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line. NAME=VALUE is an attribute, an argument that starts with `-` is an
 * option, all others are words. option_table.c has the options of all commands.
 */
#include "cli/options_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define SECOND INT64_C(1000000000)
#define BIT(name) RN_OPTION(RN_OPTION_##name)

/* --- values ------------------------------------------------------------------------ */

/* Parses the whole text; `suffix` may follow the number. */
static bool read_count(const char *text, const char *suffix, int64_t max, uint64_t *value)
{
    size_t pos = 0, len = strlen(text);
    uint64_t number;

    if (rn_number_parse(text, len, &pos, &number, NULL) != 0 || number == 0 ||
        number > (uint64_t)max)
        return false;
    if (pos != len && strcmp(text + pos, suffix) != 0)
        return false;
    *value = number;
    return true;
}

static bool read_whole(const struct rn_option_spec *spec, const char *text, const char **value)
{
    const char *digits = text + (spec->min < 0 && (*text == '-' || *text == '+'));
    size_t len = strspn(digits, "0123456789");

    /* The text is sent unchanged: it must be digits that fit 64 bits. */
    *value = *text == '+' ? digits : text;
    return len > 0 && len <= 18 && digits[len] == '\0' && (len == 1 || digits[0] != '0');
}

static bool add_value(struct rn_option_list *list, const char *value)
{
    if (value[0] == '\0' || list->count == RN_OPTION_VALUES)
        return false;
    list->values[list->count++] = value;
    return true;
}

/* False: bad value. */
static bool set_option(struct rn_options *o, const struct rn_option_spec *spec, const char *value)
{
    static const char *const colours[] = {"auto", "always", "never"}; /* enum rn_colour */
    void *to = (char *)o + spec->offset;
    size_t pos = 0;

    switch (spec->kind) {
    case RN_KIND_FLAG:
        *(bool *)to = true;
        return true;
    case RN_KIND_TEXT:
        *(const char **)to = value;
        return value[0] != '\0';
    case RN_KIND_ANY:
        *(const char **)to = value;
        return true;
    case RN_KIND_OPTIONAL:
        *(const char **)to = value == NULL ? "" : value;
        return true;
    case RN_KIND_COUNT:
        return read_count(value, "", spec->max, to) && *(uint64_t *)to >= (uint64_t)spec->min;
    case RN_KIND_WHOLE:
        return read_whole(spec, value, to);
    case RN_KIND_LENGTH:
        return rn_number_parse_duration(value, strlen(value), &pos, to, NULL) == 0 &&
               value[pos] == '\0' && *(int64_t *)to >= spec->min && *(int64_t *)to <= spec->max;
    case RN_KIND_RATE:
        return read_count(value, "/s", spec->max, to);
    case RN_KIND_COLOUR:
        for (enum rn_colour i = RN_COLOUR_AUTO; i <= RN_COLOUR_NEVER; i++)
            if (strcmp(value, colours[i]) == 0) {
                *(enum rn_colour *)to = i;
                return true;
            }
        return false;
    case RN_KIND_MOMENT:
        return rn_timestamp_parse(value, to);
    case RN_KIND_LIST:
        return add_value(to, value);
    case RN_KIND_SIZE:
        return rn_number_parse_size(value, to) && *(uint64_t *)to >= (uint64_t)spec->min &&
               *(uint64_t *)to <= (uint64_t)spec->max;
    }
    return false;
}

/* --- options ----------------------------------------------------------------------- */

static void complain_of_option(const struct rn_options *o, struct rn_slice name)
{
    const char *names[RN_OPTION_SPECS] = {NULL}, *meant;
    size_t count = 0;

    for (size_t i = 0; i < rn_option_spec_count; i++) {
        if (rn_option_is_taken(o->command, &rn_option_specs[i]))
            names[count++] = rn_option_specs[i].name;
        else if (rn_slice_is(name, rn_option_specs[i].name)) {
            rn_output_error("%s takes no %s; \"ration help %s\" lists its options",
                            o->command->name, rn_option_specs[i].name, o->command->name);
            return;
        }
    }
    meant = rn_suggest(name, names, count);
    for (size_t i = 0; meant == NULL && name.len > 3 && i < count; i++)
        if (strncmp(names[i], name.data, name.len) == 0) /* --token of --token-file */
            meant = names[i];
    if (meant != NULL)
        rn_output_error("there is no option %s; did you mean %s?", rn_excerpt(name).text, meant);
    else
        rn_output_error("there is no option %s; \"ration help %s\" lists all",
                        rn_excerpt(name).text, o->command->name);
}

/* Parses argv[*i], and argv[*i + 1] if that is its value. */
static bool read_option(struct rn_options *o, int argc, char **argv, int *i)
{
    const char *equals = strchr(argv[*i], '='), *value = equals != NULL ? equals + 1 : NULL;
    struct rn_slice name = {argv[*i], strcspn(argv[*i], "=")};
    const struct rn_option_spec *spec = rn_slice_is(name, "-h") ? &rn_option_specs[0] : NULL;

    for (size_t k = 0; spec == NULL && k < rn_option_spec_count; k++)
        if (rn_option_is_taken(o->command, &rn_option_specs[k]) &&
            rn_slice_is(name, rn_option_specs[k].name))
            spec = &rn_option_specs[k];
    if (spec == NULL) {
        complain_of_option(o, name);
        return false;
    }
    if (spec->kind == RN_KIND_FLAG && equals != NULL)
        return rn_output_error("%s takes no value; write it alone", spec->name);
    if (spec->kind != RN_KIND_FLAG && spec->kind != RN_KIND_OPTIONAL && equals == NULL) {
        if (*i + 1 == argc)
            return rn_output_error("%s needs a value; write for example %s %s", spec->name,
                                   spec->name, spec->example);
        value = argv[++*i];
    }
    if (set_option(o, spec, value))
        return true;
    return rn_output_error("%s: found %s, expected %s", spec->name,
                           rn_excerpt(rn_slice_of(value)).text, spec->right);
}

/* --- words and attributes ---------------------------------------------------------- */

/* The length of the name before `=`; 0: not an attribute. */
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

/* After `--` every argument is an attribute, whatever its name. */
static bool read_plain(struct rn_options *o, char *arg, bool only_attributes)
{
    size_t len = only_attributes ? strcspn(arg, "=") : name_length(arg);

    if (only_attributes && (len == 0 || arg[len] != '='))
        return rn_output_error("found %s after --, expected an attribute such as ip=192.0.2.7",
                               rn_excerpt(rn_slice_of(arg)).text);
    if (len == 0) {
        o->words[o->word_count++] = arg;
        return true;
    }
    if ((o->command->options & BIT(REQUEST)) == 0)
        return rn_output_error(
            "%s takes no attributes, found %s; if it is a file, put ./ before it", o->command->name,
            rn_excerpt(rn_slice_of(arg)).text);
    /* Header names ignore case; rules have them in lower case. */
    for (size_t i = 0; strncasecmp(arg, "header.", 7) == 0 && i < len; i++)
        if (arg[i] >= 'A' && arg[i] <= 'Z')
            arg[i] = (char)(arg[i] | 0x20);
    o->attributes[o->attribute_count++] =
        (struct ration_attribute){arg, len, arg + len + 1, strlen(arg + len + 1)};
    return true;
}

static int complain_of_words(const struct rn_options *o)
{
    const char *operand = o->command->operand;

    if (operand == NULL)
        rn_output_error("%s: found %s, expected %s", o->command->name,
                        rn_excerpt(rn_slice_of(o->words[0])).text,
                        o->command->options & BIT(REQUEST) ? "an attribute such as ip=192.0.2.7"
                                                           : "options only");
    else if (o->word_count == 0)
        rn_output_error("no %s given; write for example ration %s %s", operand, o->command->name,
                        o->command->example);
    else
        rn_output_error("%s takes one %s, found %s and %s", o->command->name, operand,
                        rn_excerpt(rn_slice_of(o->words[0])).text,
                        rn_excerpt(rn_slice_of(o->words[1])).text);
    return RN_EXIT_ERROR;
}

/* RATION_TIMEOUT stands for --timeout. */
static bool read_timeout(struct rn_options *o)
{
    const char *value = getenv("RATION_TIMEOUT");

    for (const struct rn_option_spec *spec = rn_option_specs; value != NULL && value[0] != '\0';
         spec++) {
        if (strcmp(spec->name, "--timeout") != 0)
            continue;
        return !rn_option_is_taken(o->command, spec) || set_option(o, spec, value) ||
               rn_output_error("RATION_TIMEOUT: found %s, expected %s",
                               rn_excerpt(rn_slice_of(value)).text, spec->right);
    }
    return true;
}

int rn_options_parse(struct rn_options *o, const struct rn_command *command, int argc, char **argv)
{
    bool files = (command->options & BIT(FILES)) != 0, only_attributes = false, ok;
    bool server = (command->options & BIT(SERVER)) != 0; /* replaces the files */
    size_t room = (size_t)argc + 1;

    *o = (struct rn_options){.command = command,
                             .times = 1,
                             .timeout_ns = 5 * SECOND,
                             .count = 20,
                             .interval_ns = SECOND,
                             .by = "ip",
                             .memory_bytes = UINT64_C(256) << 20,
                             .top = 10,
                             .reorder_ns = 60 * SECOND};
    o->words = calloc(room, sizeof *o->words);
    o->attributes = calloc(room, sizeof *o->attributes);
    if (o->words == NULL || o->attributes == NULL) {
        rn_output_error("out of memory");
        return RN_EXIT_ERROR;
    }
    ok = read_timeout(o);
    for (int i = 0; ok && i < argc; i++) {
        if (!only_attributes && strcmp(argv[i], "--") == 0)
            only_attributes = true;
        else if (!only_attributes && argv[i][0] == '-' && argv[i][1] != '\0')
            ok = read_option(o, argc, argv, &i);
        else
            ok = read_plain(o, argv[i], only_attributes);
    }
    if (!ok || o->help)
        return ok ? 0 : RN_EXIT_ERROR;
    if (command->options & (BIT(LIFT) | BIT(END)))
        return 0;
    if (files ? o->word_count == 0 && !server : o->word_count != (command->operand != NULL))
        return complain_of_words(o);
    for (size_t i = 0; o->word_count > 1 && i < o->word_count; i++) {
        if (strcmp(o->words[i], "-") == 0) {
            rn_output_error("- is standard input; give either - or files, not both");
            return RN_EXIT_ERROR;
        }
    }
    return 0;
}

void rn_options_done(struct rn_options *o)
{
    free(o->words);
    free(o->attributes);
}
