/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration __complete WORD...`: what the last word may become, for the scripts in completions/. One
 * line for each candidate: the word, a tab, what it means. A line `:files` says that names of files
 * fit, too. Commands and options come from their tables, what they mean from their help.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/daemon.h"
#include "cli/options_internal.h"

#define BIT(name) RN_OPTION(RN_OPTION_##name)
#define PATIENCE_NS INT64_C(300000000) /* until a daemon has told its rules */

/* Whether the candidate goes on from what has been typed. */
static bool goes_on(const char *candidate, const char *typed)
{
    return strncmp(candidate, typed, strlen(typed)) == 0;
}

/* A meaning of several lines becomes one. */
static void offer(const char *candidate, size_t len, struct rn_slice meaning)
{
    printf("%.*s\t", (int)len, candidate);
    for (size_t i = 0; i < meaning.len; i++)
        if (meaning.data[i] != '\n')
            putchar(meaning.data[i]);
        else
            for (putchar(' '); i + 1 < meaning.len && meaning.data[i + 1] == ' '; i++)
                ;
    putchar('\n');
}

/* --- commands ---------------------------------------------------------------------- */

static void offer_commands(const char *typed)
{
    for (size_t i = 0; i < rn_command_count; i++)
        if (rn_commands[i].summary != NULL && goes_on(rn_commands[i].name, typed))
            offer(rn_commands[i].name, strcspn(rn_commands[i].name, " "),
                  rn_slice_of(rn_commands[i].summary));
}

/* `list`, `set` and `delete` after `override`, with their lines of its help. */
static void offer_second_words(const char *first, const char *typed)
{
    for (size_t i = 0; i < rn_command_count; i++) {
        const struct rn_command *c = &rn_commands[i];
        size_t len = rn_command_first_word(c, first);
        char usage[64];
        const char *line;

        if (len == 0 || c->name[len] == '\0' || !goes_on(c->name + len + 1, typed))
            continue;
        snprintf(usage, sizeof usage, "ration %s", c->name);
        line = strstr(c->help, usage);
        line = line != NULL ? line : usage; /* `shadow on|off|status` */
        offer(c->name + len + 1, strlen(c->name + len + 1),
              (struct rn_slice){line, strcspn(line, "\n")});
    }
}

/* The command that the first words name; *used: how many they are. NULL: none. */
static const struct rn_command *find_command(int count, char **words, int *used)
{
    for (size_t i = 0; i < rn_command_count; i++) {
        const struct rn_command *c = &rn_commands[i];
        size_t len = rn_command_first_word(c, words[0]);

        *used = c->name[len] == '\0' ? 1 : 2;
        if (len != 0 && (*used == 1 || (count > 1 && strcmp(c->name + len + 1, words[1]) == 0)))
            return c;
    }
    return NULL;
}

/* --- options ----------------------------------------------------------------------- */

/* Skips the word for a value behind an option in a help text: ` FILE`, `[=ADDR]`, ` N/s`. */
static const char *skip_value(const char *at)
{
    const char *end = at + (*at == '[' ? strcspn(at, "]") + 1 : 1);

    if (*at == ' ')
        while (isupper((unsigned char)*end) || (*end == '/' && isupper((unsigned char)end[-1])) ||
               (*end == 's' && end[-1] == '/'))
            end++;
    return *at == '[' || isupper((unsigned char)at[1]) ? end : at;
}

/* The length of a text with the lines after it that go on with it: those are indented. */
static size_t length_with_rest(const char *text)
{
    static const char indent[] = "\n                    ";
    size_t len = strcspn(text, "\n");

    while (strncmp(text + len, indent, sizeof indent - 1) == 0)
        len += 1 + strcspn(text + len + 1, "\n");
    return len;
}

/* What the help of a command says about an option: `  --state FILE      count in this file`, or
 * `  --cert FILE, --key FILE  a certificate`. Empty: nothing. */
static struct rn_slice find_meaning(const char *help, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = help; (at = strstr(at, name)) != NULL; at++) {
        bool first = at - help > 3 && memcmp(at - 3, "\n  ", 3) == 0;

        if ((!first && (at - help < 2 || memcmp(at - 2, ", ", 2) != 0)) ||
            (at[len] != ' ' && at[len] != '['))
            continue;
        at = skip_value(at + len);
        while (*at == ',') /* the next option of the line */
            at = skip_value(at + 2 + strcspn(at + 2, " [\n"));
        at += strspn(at, " ");
        return (struct rn_slice){at, length_with_rest(at)};
    }
    return (struct rn_slice){"", 0};
}

static void offer_options(const struct rn_command *command, const char *typed)
{
    for (size_t i = 0; i < rn_option_spec_count; i++) {
        const struct rn_option_spec *spec = &rn_option_specs[i];

        if (!rn_option_is_taken(command, spec) || !goes_on(spec->name, typed))
            continue;
        offer(spec->name, strlen(spec->name),
              strcmp(spec->name, "--help") == 0 ? rn_slice_of("describe the command")
                                                : find_meaning(command->help, spec->name));
    }
}

static const struct rn_option_spec *find_option(const struct rn_command *command,
                                                struct rn_slice name)
{
    for (size_t i = 0; i < rn_option_spec_count; i++)
        if (rn_option_is_taken(command, &rn_option_specs[i]) &&
            rn_slice_is(name, rn_option_specs[i].name))
            return &rn_option_specs[i];
    return NULL;
}

/* --- values ------------------------------------------------------------------------ */

/* Whether a shell takes the name as it is, and a terminal shows it so. bash would insert $(...)
 * as it is; names of Envoy's rules, or of a hostile daemon, may have any bytes. */
static bool is_plain(struct rn_slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.data[i]) &&
            (name.data[i] == '\0' || strchr(i == 0 ? "_/" : "_/.-:,=+@%", name.data[i]) == NULL))
            return false;
    return name.len > 0;
}

/* The names of the rules of a running daemon, if it tells them soon. */
static void offer_rules(const struct rn_options *given, struct rn_slice before, const char *typed)
{
    struct rn_options options = *given;
    struct rn_daemon daemon;

    options.word_count = 0; /* what is typed already is checked later */
    options.attribute_count = 0;
    options.timeout_ns = PATIENCE_NS;
    if (rn_daemon_init(&daemon, &options, RN_PORT_ADMIN) &&
        rn_daemon_try(&daemon, &(struct rn_daemon_request){.method = "GET", .target = "/v1/rules"}))
        for (const struct rn_cli_json *rule = rn_cli_json_list(daemon.answer, "rules");
             rule != NULL; rule = rule->next) {
            struct rn_slice name = rn_cli_json_text(rule, "name");
            size_t len = strlen(typed);

            if (is_plain(name) && name.len >= len && memcmp(name.data, typed, len) == 0)
                printf("%.*s%.*s\ta rule\n", (int)before.len, before.data, (int)name.len,
                       name.data);
        }
    rn_daemon_done(&daemon);
}

/* Offers each of `candidates`, words or :files or :rules, with `before` in front. */
static void offer_values(const struct rn_options *given, const char *candidates,
                         struct rn_slice before, const char *typed)
{
    if (candidates != NULL && strcmp(candidates, ":rules") == 0) {
        offer_rules(given, before, typed);
        return;
    }
    for (const char *at = candidates; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");

        if (*at == ':')
            puts(":files");
        else if (goes_on(at, typed) || strlen(typed) == 0)
            printf("%.*s%.*s\t\n", (int)before.len, before.data, (int)len, at);
        at += len;
    }
}

static void offer_attributes(const struct rn_options *given, const char *typed)
{
    static const char *const attributes[][2] = {{"ip=", "the address of the client"},
                                                {"method=", "GET, POST, ..."},
                                                {"path=", "with what follows a ?"},
                                                {"host=", "the Host header"},
                                                {"header.", "NAME=VALUE"}};

    if (goes_on(typed, "method="))
        offer_values(given, "GET HEAD POST PUT PATCH DELETE OPTIONS", RN_SLICE("method="),
                     typed + 7);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (goes_on(attributes[i][0], typed) && strlen(typed) < strlen(attributes[i][0]))
            offer(attributes[i][0], strlen(attributes[i][0]), rn_slice_of(attributes[i][1]));
}

/* --- the last word ----------------------------------------------------------------- */

/* The last word of `words`, which follow the command, may be an option or the value of one, a file,
 * a rule or an attribute. */
static void complete_argument(const struct rn_options *given, int count, char **words)
{
    const struct rn_command *command = given->command;
    const char *typed = words[count - 1], *before = count > 1 ? words[count - 2] : "";
    const char *equals = typed[0] == '-' ? strchr(typed, '=') : NULL;
    struct rn_slice name = {equals != NULL ? typed : before,
                            equals != NULL ? (size_t)(equals - typed) : strlen(before)};
    const struct rn_option_spec *spec = find_option(command, name);
    bool after_dashes = false;

    for (int i = 0; i < count - 1; i++)
        after_dashes |= strcmp(words[i], "--") == 0;
    if (!after_dashes && spec != NULL && spec->kind != RN_KIND_FLAG &&
        (equals != NULL || spec->kind != RN_KIND_OPTIONAL)) {
        offer_values(given, spec->candidates,
                     (struct rn_slice){typed, equals != NULL ? (size_t)(equals + 1 - typed) : 0},
                     equals != NULL ? equals + 1 : typed);
        return;
    }
    if (typed[0] == '-' && !after_dashes) {
        offer_options(command, typed);
        return;
    }
    if ((command->options & BIT(REQUEST)) != 0)
        offer_attributes(given, typed);
    if (after_dashes || ((command->options & BIT(REQUEST)) != 0 && strchr(typed, '=') != NULL))
        return;
    if ((command->options & BIT(FILES)) != 0 ||
        (command->operand != NULL && strcmp(command->operand, "FILE") == 0))
        puts(":files");
    else if (command->operand != NULL && given->word_count == 0)
        offer_values(given, ":rules", RN_SLICE(""), typed);
    else if (typed[0] == '\0')
        offer_options(command, typed);
}

int rn_completion_run(int argc, char **argv)
{
    const struct rn_command *command;
    struct rn_options given;
    int used = 0;

    if (argc == 0)
        return RN_EXIT_OK;
    if (argc == 1 || (argc == 2 && strcmp(argv[0], "help") == 0)) {
        offer_commands(argv[argc - 1]);
        if (argc == 1 && goes_on("help", argv[0]))
            offer("help", 4, rn_slice_of("describe a command"));
        if (argc == 1 && goes_on("--version", argv[0]))
            offer("--version", 9, rn_slice_of("print the version"));
        return RN_EXIT_OK;
    }
    if (argc == 2)
        offer_second_words(argv[0], argv[1]);
    command = find_command(argc - 1, argv, &used);
    if (command == NULL)
        return RN_EXIT_OK;
    /* Complains of what is not complete yet; the scripts drop stderr. */
    (void)rn_options_parse(&given, command, argc - 1 - used, argv + used);
    complete_argument(&given, argc - used, argv + used);
    rn_options_done(&given);
    return RN_EXIT_OK;
}
