/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration`: finds the command and runs it. Each command has its own file in commands/.
 */
#include <string.h>

#include <ration/ration.h>

#include "cli/options.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define BIT(name) RN_OPTION(RN_OPTION_##name)
#define TRIES                                                                                      \
    (BIT(REQUEST) | BIT(FILES) | BIT(STATE) | BIT(COST) | BIT(AT) | BIT(SERVER) | BIT(TIMEOUT))

#define REQUEST "path=/login ip=192.0.2.7"

const struct rn_command rn_commands[] = {
    {"check", "decide on a request, and count it", rn_help_check, "rules file",
     "rules.yaml " REQUEST, TRIES | BIT(TIMES) | BIT(HTTP), rn_command_check},
    {"explain", "which rules apply to a request, and why", rn_help_explain, "rules file",
     "rules.yaml " REQUEST, TRIES | BIT(MATCHING) | BIT(ADMIN), rn_command_explain},
    {"lint", "find mistakes in rules files", rn_help_lint, "rules file", "rules.yaml",
     BIT(FILES) | BIT(STRICT), rn_command_lint},

    {"top", "clients refused most, live", rn_help_top, NULL, "",
     RN_OPTIONS_ADMIN | BIT(COUNT) | BIT(INTERVAL), rn_command_top},
    {"state", "what a client has left", rn_help_state, NULL, "ip=192.0.2.7",
     RN_OPTIONS_ADMIN | BIT(REQUEST) | BIT(RULE), rn_command_state},
    {"reset", "forget the counters of a client", rn_help_reset, NULL, "ip=192.0.2.7",
     RN_OPTIONS_ADMIN | BIT(REQUEST) | BIT(RULE), rn_command_reset},
    {"adjust", "give a client more, or take some away", rn_help_adjust, NULL,
     "--rule api --add -10 user=ada",
     RN_OPTIONS_ADMIN | BIT(REQUEST) | BIT(RULE) | BIT(ADD) | BIT(REMAINING), rn_command_adjust},

    {"override list", "other limits for single clients", rn_help_override, NULL, "",
     RN_OPTIONS_ADMIN | BIT(RULE), rn_command_client_list},
    {"override set", NULL, rn_help_override, "RULE", "api user=ada --limit \"1000 per minute\"",
     RN_OPTIONS_ADMIN | BIT(REQUEST) | BIT(LIMIT) | BIT(FOR) | BIT(NOTE), rn_command_client_set},
    {"override delete", NULL, rn_help_override, "RULE", "api user=ada",
     RN_OPTIONS_ADMIN | BIT(REQUEST), rn_command_client_delete},
    {"ban list", "refuse all requests of a client", rn_help_ban, NULL, "", RN_OPTIONS_ADMIN,
     rn_command_client_list},
    {"ban add", NULL, rn_help_ban, NULL, "ip=192.0.2.7 --for 10m",
     RN_OPTIONS_ADMIN | BIT(REQUEST) | BIT(FOR) | BIT(REASON), rn_command_client_set},
    {"ban delete", NULL, rn_help_ban, NULL, "ip=192.0.2.7", RN_OPTIONS_ADMIN | BIT(REQUEST),
     rn_command_client_delete},

    {"rules get", "read, try, replace the daemon's rules", rn_help_rules, NULL, "",
     RN_OPTIONS_ADMIN, rn_command_rules_get},
    {"rules push", NULL, rn_help_rules, "FILE", "rules.yaml", RN_OPTIONS_ADMIN | BIT(IF_VERSION),
     rn_command_rules_push},
    {"rules validate", NULL, rn_help_rules, "FILE", "rules.yaml", RN_OPTIONS_ADMIN,
     rn_command_rules_validate},
    {"rules delete", NULL, rn_help_rules, NULL, "", RN_OPTIONS_ADMIN, rn_command_rules_delete},
    {"rules reload", NULL, rn_help_rules, NULL, "", RN_OPTIONS_ADMIN, rn_command_rules_reload},
    {"shadow status", "count refusals without refusing", rn_help_shadow, NULL, "", RN_OPTIONS_ADMIN,
     rn_command_shadow_status},
    {"shadow on", NULL, rn_help_shadow, NULL, "", RN_OPTIONS_ADMIN, rn_command_shadow_on},
    {"shadow off", NULL, rn_help_shadow, NULL, "", RN_OPTIONS_ADMIN, rn_command_shadow_off},
    {"bench", "measure a daemon under load", rn_help_bench, NULL, "", BIT(BENCH) | BIT(REQUEST),
     rn_command_bench},
};
const size_t rn_command_count = sizeof rn_commands / sizeof rn_commands[0];
#define COMMANDS (sizeof rn_commands / sizeof rn_commands[0])

/* --- finding ----------------------------------------------------------------------- */

/* The length of the first word of the command's name, if that is `word`; else 0. */
static size_t first_word(const struct rn_command *command, const char *word)
{
    size_t len = strcspn(command->name, " ");

    return strlen(word) == len && memcmp(command->name, word, len) == 0 ? len : 0;
}

/* The first command with this first word. */
static const struct rn_command *find_first(const char *word)
{
    for (size_t i = 0; i < rn_command_count; i++)
        if (first_word(&rn_commands[i], word) != 0)
            return &rn_commands[i];
    return NULL;
}

/* The command named by argv[0], or by argv[0] and argv[1]. *used: how many of them. */
static const struct rn_command *find_command(int argc, char **argv, int *used)
{
    for (size_t i = 0; i < rn_command_count; i++) {
        const char *name = rn_commands[i].name;
        size_t len = first_word(&rn_commands[i], argv[0]);

        if (len == 0)
            continue;
        *used = name[len] == '\0' ? 1 : 2;
        if (*used == 1 || (argc > 1 && strcmp(name + len + 1, argv[1]) == 0))
            return &rn_commands[i];
    }
    return NULL;
}

/* --- complaints and help ----------------------------------------------------------- */

static void put_usage(FILE *file)
{
    fputs(
        "ration tries out rate limits before they are deployed, and asks and steers a rationd.\n\n"
        "usage: ration COMMAND [OPTION...] [FILE...] [ATTRIBUTE=VALUE...]\n\n",
        file);
    for (size_t i = 0; i < rn_command_count; i++)
        if (rn_commands[i].summary != NULL)
            fprintf(file, "  %-9.*s %s\n", (int)strcspn(rn_commands[i].name, " "),
                    rn_commands[i].name, rn_commands[i].summary);
    fputs("  help      this text, or that of a command: ration help check\n\n"
          "  ration lint rules.yaml\n"
          "  ration explain rules.yaml method=POST path=/login ip=192.0.2.7\n"
          "  ration check --times 6 rules.yaml method=POST path=/login ip=192.0.2.7\n"
          "  ration check method=POST path=/login ip=192.0.2.7        (asks the daemon)\n"
          "  ration ban add ip=192.0.2.7 --for 10m\n\n"
          "Rules are described in docs/rules.md. Exit status: 0 allowed, 1 refused or not there,\n"
          "2 error.\n",
          file);
}

static int complain_of_command(const char *name)
{
    const char *names[COMMANDS + 2] = {"help", "--version"};
    char words[COMMANDS][16];
    size_t count = 2;
    const char *meant;

    for (size_t i = 0; i < rn_command_count; i++) {
        snprintf(words[i], sizeof words[i], "%.*s", (int)strcspn(rn_commands[i].name, " "),
                 rn_commands[i].name);
        names[count++] = words[i];
    }
    meant = rn_suggest(rn_slice_of(name), names, count);
    if (meant != NULL)
        rn_output_error("there is no command %s; did you mean %s?",
                        rn_excerpt(rn_slice_of(name)).text, meant);
    else
        rn_output_error("there is no command %s; \"ration help\" lists all",
                        rn_excerpt(rn_slice_of(name)).text);
    return RN_EXIT_ERROR;
}

/* Complains that the second word is unknown or missing. */
static int complain_of_second(const char *first, const char *second)
{
    char all[128] = "";
    size_t len = 0;

    for (size_t i = 0; i < rn_command_count; i++) {
        size_t word = first_word(&rn_commands[i], first);

        if (word != 0)
            len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", len == 0 ? "" : ", ",
                                    rn_commands[i].name + word + 1);
    }
    if (second == NULL)
        rn_output_error("%s what? write one of %s after it", first, all);
    else
        rn_output_error("there is no %s %s; write one of %s", first,
                        rn_excerpt(rn_slice_of(second)).text, all);
    return RN_EXIT_ERROR;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help(int argc, char **argv)
{
    const struct rn_command *command;

    if (argc == 0) {
        put_usage(stdout);
        return RN_EXIT_OK;
    }
    command = find_first(argv[0]);
    if (command == NULL)
        return complain_of_command(argv[0]);
    fputs(command->help, stdout);
    return RN_EXIT_OK;
}

/* --- running ----------------------------------------------------------------------- */

static int run(int argc, char **argv)
{
    struct rn_options options;
    int used, status;
    const struct rn_command *command = find_command(argc, argv, &used);

    if (command != NULL) {
        status = rn_options_parse(&options, command, argc - used, argv + used);
        if (status == 0 && options.help)
            fputs(command->help, stdout);
        else if (status == 0)
            status = command->run(&options);
        rn_options_done(&options);
        return status;
    }
    if (strcmp(argv[0], "help") == 0 || is_help(argv[0]))
        return help(argc - 1, argv + 1);
    if (strcmp(argv[0], "--version") == 0) {
        printf("ration %s\n", ration_version());
        return RN_EXIT_OK;
    }
    if (find_first(argv[0]) == NULL)
        return complain_of_command(argv[0]);
    if (argc > 1 && is_help(argv[1]))
        return help(1, argv);
    return complain_of_second(argv[0], argc > 1 ? argv[1] : NULL);
}

int main(int argc, char **argv)
{
    int status;

    if (argc < 2) {
        put_usage(stderr);
        return RN_EXIT_ERROR;
    }
    status = run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rn_output_error("the output could not be written");
        return RN_EXIT_ERROR;
    }
    return status;
}
