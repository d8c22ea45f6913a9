/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line. NAME=VALUE is an attribute, an argument that starts with `-` is an
 * option, all others are words. One table has the options of all commands.
 */
#include "cli/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define ALWAYS 0 /* as `bits`: every command takes it */

/* How to parse the value of an option, and the type of its field. */
enum kind {
    FLAG,     /* bool; no value */
    TEXT,     /* const char *, not empty */
    ANY,      /* const char *, may be empty */
    OPTIONAL, /* const char *; a value only after = */
    COUNT,    /* uint64_t from 1, or min, to max */
    WHOLE,    /* const char * that is an integer; may be negative if `min` < 0 */
    LENGTH,   /* int64_t ns from min to max */
    RATE,     /* uint64_t from 1 to max, with or without /s */
    COLOUR,   /* enum rn_colour */
    MOMENT,   /* struct rn_timestamp */
};

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define YEAR (366 * 86400 * SECOND)

#define AT(field) offsetof(struct rn_options, field)
#define BIT(name) RN_OPTION(RN_OPTION_##name)

static const struct spec {
    const char *name;
    uint64_t bits; /* commands with one of these bits take it */
    enum kind kind;
    size_t offset;       /* in struct rn_options */
    const char *example; /* example of a value; NULL: takes none */
    const char *right;   /* what is expected, for error messages */
    int64_t min, max;
} specs[] = {
    {"--help", ALWAYS, FLAG, AT(help), NULL, NULL, 0, 0},
    {"--json", ALWAYS, FLAG, AT(json), NULL, NULL, 0, 0},
    {"--color", ALWAYS, COLOUR, AT(colour), "always", "auto, always or never", 0, 0},
    {"--state", BIT(STATE), TEXT, AT(state), "/tmp/state", "the name of a file", 0, 0},
    {"--cost", BIT(COST), COUNT, AT(cost), "5", "a number from 1 on", 0, INT64_MAX},
    {"--drain", BIT(TIMES), FLAG, AT(drain), NULL, NULL, 0, 0},
    {"--times", BIT(TIMES), COUNT, AT(times), "10", "a number from 1 to 1000000", 0, 1000000},
    {"--status", BIT(TIMES), COUNT, AT(status), "401", "a status from 100 to 599", 100, 599},
    {"--at", BIT(AT), MOMENT, AT(at), "+30s", "a time such as +30s or 2027-01-31T23:59:00Z", 0, 0},
    {"--strict", BIT(STRICT), FLAG, AT(strict), NULL, NULL, 0, 0},
    {"--matching", BIT(MATCHING), FLAG, AT(matching), NULL, NULL, 0, 0},
    {"--server", BIT(SERVER), OPTIONAL, AT(server), NULL, NULL, 0, 0},
    {"--http", BIT(HTTP) | BIT(BENCH), TEXT, AT(http), "127.0.0.1:8080", "an address", 0, 0},
    {"--admin", BIT(ADMIN), TEXT, AT(admin), "127.0.0.1:8082", "an address", 0, 0},
    {"--resp", BIT(BENCH), TEXT, AT(resp), "127.0.0.1:6380", "an address", 0, 0},
    {"--token-file", BIT(TIMEOUT), TEXT, AT(token_file), "/etc/ration/token", "the name of a file",
     0, 0},
    {"--cacert", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(cacert), "ca.pem", "the name of a file", 0, 0},
    {"--cert", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(cert), "cert.pem", "the name of a file", 0, 0},
    {"--key", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(key), "key.pem", "the name of a file", 0, 0},
    {"--timeout", BIT(TIMEOUT), LENGTH, AT(timeout_ns), "5s",
     "a length of time from 1 ms to 10 minutes", MS, 600 * SECOND},
    {"--rule", BIT(RULE), TEXT, AT(rule), "api", "the name of a rule", 0, 0},
    {"--banned", BIT(BANNED), FLAG, AT(banned), NULL, NULL, 0, 0},
    {"--hash", BIT(HASH), TEXT, AT(hash), "9e3779b97f4a7c15", "16 hexadecimal digits", 0, 0},
    {"--lift", BIT(LIFT), FLAG, AT(lift), NULL, NULL, 0, 0},
    {"--count", BIT(COUNT), COUNT, AT(count), "20", "a number from 1 to 1000", 0, 1000},
    {"--interval", BIT(INTERVAL), LENGTH, AT(interval_ns), "1s",
     "a length of time from 100 ms to 1 hour", 100 * MS, 3600 * SECOND},
    {"--once", BIT(INTERVAL), FLAG, AT(once), NULL, NULL, 0, 0},
    {"--add", BIT(ADD), WHOLE, AT(add), "5", "a number such as 5 or -5", -1, INT64_MAX},
    {"--remaining", BIT(REMAINING), WHOLE, AT(remaining), "100", "a number from 0 on", 0,
     INT64_MAX},
    {"--limit", BIT(LIMIT) | BIT(BENCH), TEXT, AT(limit), "\"1000 per minute\"",
     "a limit such as \"1000 per minute\"", 0, 0},
    {"--for", BIT(FOR), LENGTH, AT(for_ns), "10m", "a length of time such as 10m or 2 hours", MS,
     10 * YEAR},
    {"--note", BIT(NOTE), TEXT, AT(note), "\"paid for more\"", "some words", 0, 0},
    {"--reason", BIT(REASON), TEXT, AT(reason), "scraping", "some words", 0, 0},
    {"--client", BIT(USAGE), ANY, AT(client), "ada", "the name of a client", 0, 0},
    {"--period", BIT(USAGE), TEXT, AT(period), "2026-11", "a period such as 2026-11 or last", 0, 0},
    {"--csv", BIT(EXPORT), FLAG, AT(csv), NULL, NULL, 0, 0},
    {"--scope", BIT(EXPORT), TEXT, AT(scope), "node", "node or fleet", 0, 0},
    {"--units", BIT(UNITS), WHOLE, AT(units), "-20", "a number such as 20 or -20", -1, INT64_MAX},
    {"--if-version", BIT(IF_VERSION), WHOLE, AT(if_version), "3", "the number of a version", 0,
     INT64_MAX},
    {"--command", BIT(BENCH), TEXT, AT(load), "throttle", "throttle, check, take or ping", 0, 0},
    {"--connections", BIT(BENCH), COUNT, AT(connections), "50", "a number from 1 to 10000", 0,
     10000},
    {"--pipeline", BIT(BENCH), COUNT, AT(pipeline), "16", "a number from 1 to 1024", 0, 1024},
    {"--duration", BIT(BENCH), LENGTH, AT(duration_ns), "5s",
     "a length of time from 100 ms to 10 minutes", 100 * MS, 600 * SECOND},
    {"--requests", BIT(BENCH), COUNT, AT(requests), "100000", "a number from 1 on", 0, INT64_MAX},
    {"--keys", BIT(BENCH), COUNT, AT(keys), "10000", "a number from 1 to 1000000000", 0,
     1000000000},
    {"--rate", BIT(BENCH), RATE, AT(rate), "50000/s", "a rate such as 50000/s", 0, 1000000000},
    {"--threads", BIT(BENCH), COUNT, AT(threads), "2", "a number from 1 to 64", 0, 64},
    {"--remote", BIT(BENCH), FLAG, AT(remote), NULL, NULL, 0, 0},
};
#define SPECS (sizeof specs / sizeof specs[0])

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

static bool read_whole(const struct spec *spec, const char *text, const char **value)
{
    const char *digits = text + (spec->min < 0 && (*text == '-' || *text == '+'));
    size_t len = strspn(digits, "0123456789");

    /* The text is sent unchanged: it must be digits that fit 64 bits. */
    *value = *text == '+' ? digits : text;
    return len > 0 && len <= 18 && digits[len] == '\0' && (len == 1 || digits[0] != '0');
}

/* False: bad value. */
static bool set_option(struct rn_options *o, const struct spec *spec, const char *value)
{
    static const char *const colours[] = {"auto", "always", "never"}; /* enum rn_colour */
    void *to = (char *)o + spec->offset;
    size_t pos = 0;

    switch (spec->kind) {
    case FLAG:
        *(bool *)to = true;
        return true;
    case TEXT:
        *(const char **)to = value;
        return value[0] != '\0';
    case ANY:
        *(const char **)to = value;
        return true;
    case OPTIONAL:
        *(const char **)to = value == NULL ? "" : value;
        return true;
    case COUNT:
        return read_count(value, "", spec->max, to) && *(uint64_t *)to >= (uint64_t)spec->min;
    case WHOLE:
        return read_whole(spec, value, to);
    case LENGTH:
        return rn_number_parse_duration(value, strlen(value), &pos, to, NULL) == 0 &&
               value[pos] == '\0' && *(int64_t *)to >= spec->min && *(int64_t *)to <= spec->max;
    case RATE:
        return read_count(value, "/s", spec->max, to);
    case COLOUR:
        for (enum rn_colour i = RN_COLOUR_AUTO; i <= RN_COLOUR_NEVER; i++)
            if (strcmp(value, colours[i]) == 0) {
                *(enum rn_colour *)to = i;
                return true;
            }
        return false;
    case MOMENT:
        return rn_timestamp_parse(value, to);
    }
    return false;
}

/* --- options ----------------------------------------------------------------------- */

static bool is_taken(const struct rn_options *o, const struct spec *spec)
{
    return spec->bits == ALWAYS || (o->command->options & spec->bits) != 0;
}

static void complain_of_option(const struct rn_options *o, struct rn_slice name)
{
    const char *names[SPECS], *meant;
    size_t count = 0;

    for (size_t i = 0; i < SPECS; i++) {
        if (is_taken(o, &specs[i]))
            names[count++] = specs[i].name;
        else if (rn_slice_is(name, specs[i].name)) {
            rn_output_error("%s takes no %s; \"ration help %s\" lists its options",
                            o->command->name, specs[i].name, o->command->name);
            return;
        }
    }
    meant = rn_suggest(name, names, count);
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
    const struct spec *spec = rn_slice_is(name, "-h") ? &specs[0] : NULL;

    for (size_t k = 0; spec == NULL && k < SPECS; k++)
        if (is_taken(o, &specs[k]) && rn_slice_is(name, specs[k].name))
            spec = &specs[k];
    if (spec == NULL) {
        complain_of_option(o, name);
        return false;
    }
    if (spec->kind == FLAG && equals != NULL)
        return rn_output_error("%s takes no value; write it alone", spec->name);
    if (spec->kind != FLAG && spec->kind != OPTIONAL && equals == NULL) {
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

int rn_options_parse(struct rn_options *o, const struct rn_command *command, int argc, char **argv)
{
    bool files = (command->options & BIT(FILES)) != 0, only_attributes = false, ok = true;
    bool server = (command->options & BIT(SERVER)) != 0; /* replaces the files */
    size_t room = (size_t)argc + 1;

    *o = (struct rn_options){.command = command,
                             .times = 1,
                             .timeout_ns = 5 * SECOND,
                             .count = 20,
                             .interval_ns = SECOND};
    o->words = calloc(room, sizeof *o->words);
    o->attributes = calloc(room, sizeof *o->attributes);
    if (o->words == NULL || o->attributes == NULL) {
        rn_output_error("out of memory");
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
    if (!ok || o->help)
        return ok ? 0 : RN_EXIT_ERROR;
    if (command->options & BIT(LIFT))
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
