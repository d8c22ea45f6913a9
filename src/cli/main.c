/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration`: finds the command and runs it. Each command has its own file in commands/.
 */
#include <string.h>

#include <ration/ration.h>

#include "cli/client/daemon.h"
#include "cli/options.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define BIT(name) RN_OPTION(RN_OPTION_##name)
#define TRIES                                                                                      \
    (BIT(REQUEST) | BIT(FILES) | BIT(STATE) | BIT(COST) | BIT(AT) | BIT(SERVER) | BIT(TIMEOUT))

#define ADMIN (BIT(ADMIN) | BIT(TIMEOUT))

#define REQUEST "path=/login ip=192.0.2.7"

const struct rn_command rn_commands[] = {
    {"check", "decide on a request, and count it", rn_help_check, "rules file",
     "rules.yaml " REQUEST, TRIES | BIT(TIMES) | BIT(HTTP), rn_command_check, NULL},
    {"explain", "which rules apply to a request, and why", rn_help_explain, "rules file",
     "rules.yaml " REQUEST, TRIES | BIT(MATCHING) | BIT(ADMIN), rn_command_explain, NULL},
    {"lint", "find mistakes in rules files", rn_help_lint, "rules file", "rules.yaml",
     BIT(FILES) | BIT(STRICT), rn_command_lint, NULL},
    {"schema", "the JSON Schema of rules, for editors", rn_help_schema, NULL, "", 0,
     rn_command_schema, NULL},

    {"publish", "the limits as users of an API should read them", rn_help_publish, "rules file",
     "rules.yaml", BIT(FILES) | BIT(SERVER) | BIT(ADMIN) | BIT(TIMEOUT) | BIT(FORMAT),
     rn_command_publish, NULL},
    {"replay", "what rules would have done, by access logs", rn_help_replay, "log file",
     "--rules rules.yaml access.log", BIT(FILES) | BIT(LOGS) | BIT(REPLAY) | BIT(HTML),
     rn_command_replay, NULL},
    {"suggest", "limits that few clients would have met", rn_help_suggest, "log file",
     "--rules rules.yaml --rule api access.log",
     BIT(FILES) | BIT(LOGS) | BIT(SUGGEST) | BIT(RULE) | BIT(HTML), rn_command_suggest, NULL},

    {"health", "whether the daemon takes requests", rn_help_health, NULL, "", ADMIN, NULL,
     rn_command_health},
    {"top", "clients refused most, live", rn_help_top, NULL, "", ADMIN | BIT(COUNT) | BIT(INTERVAL),
     NULL, rn_command_top},
    {"report", "whether rules do what they are for", rn_help_report, NULL, "",
     ADMIN | BIT(SHARE) | BIT(HTML), rn_command_report, NULL},
    {"state", "what a client has left", rn_help_state, NULL, "ip=192.0.2.7",
     ADMIN | BIT(REQUEST) | BIT(RULE), NULL, rn_command_state},
    {"reset", "forget the counters of a client", rn_help_reset, NULL, "ip=192.0.2.7",
     ADMIN | BIT(REQUEST) | BIT(RULE), NULL, rn_command_reset},
    {"adjust", "give a client more, or take some away", rn_help_adjust, NULL,
     "--rule api --add -10 user=ada", ADMIN | BIT(REQUEST) | BIT(RULE) | BIT(ADD) | BIT(REMAINING),
     NULL, rn_command_adjust},

    {"pause", "admit nothing of a key or client for a while", rn_help_pause, NULL, "stripe 30s",
     ADMIN | BIT(REQUEST) | BIT(RULE) | BIT(LIFT), NULL, rn_command_pause},

    {"override list", "other limits for single clients", rn_help_override, NULL, "",
     ADMIN | BIT(RULE), NULL, rn_command_client_list},
    {"override set", NULL, rn_help_override, "RULE", "api user=ada --limit \"1000 per minute\"",
     ADMIN | BIT(REQUEST) | BIT(LIMIT) | BIT(FOR) | BIT(NOTE), NULL, rn_command_client_set},
    {"override delete", NULL, rn_help_override, "RULE", "api user=ada", ADMIN | BIT(REQUEST), NULL,
     rn_command_client_delete},
    {"ban list", "refuse all requests of a client", rn_help_ban, NULL, "", ADMIN, NULL,
     rn_command_client_list},
    {"ban add", NULL, rn_help_ban, NULL, "ip=192.0.2.7 --for 10m",
     ADMIN | BIT(REQUEST) | BIT(FOR) | BIT(REASON), NULL, rn_command_client_set},
    {"ban delete", NULL, rn_help_ban, NULL, "ip=192.0.2.7", ADMIN | BIT(REQUEST), NULL,
     rn_command_client_delete},

    {"usage correct", "what clients have used, for billing", rn_help_usage, NULL,
     "--rule api --client ada --period last --units -20 --note refund",
     ADMIN | BIT(RULE) | BIT(USAGE) | BIT(UNITS) | BIT(NOTE), NULL, rn_command_usage_correct},
    {"usage", NULL, rn_help_usage, NULL, "--period last --csv",
     ADMIN | BIT(RULE) | BIT(USAGE) | BIT(EXPORT) | BIT(STATE), rn_command_usage, NULL},
    {"reputation list", "clients that rules have banned", rn_help_reputation, NULL, "",
     ADMIN | BIT(RULE) | BIT(BANNED), NULL, rn_command_reputation_list},
    {"reputation lift", NULL, rn_help_reputation, NULL, REQUEST,
     ADMIN | BIT(REQUEST) | BIT(RULE) | BIT(HASH), NULL, rn_command_reputation_lift},

    {"rules get", "read, try, replace the daemon's rules", rn_help_rules, NULL, "", ADMIN, NULL,
     rn_command_rules_get},
    {"rules push", NULL, rn_help_rules, "FILE", "rules.yaml", ADMIN | BIT(IF_VERSION), NULL,
     rn_command_rules_push},
    {"rules validate", NULL, rn_help_rules, "FILE", "rules.yaml", ADMIN, NULL,
     rn_command_rules_validate},
    {"rules versions", NULL, rn_help_rules, NULL, "", ADMIN, NULL, rn_command_rules_versions},
    {"rules show", NULL, rn_help_rules, "VERSION", "3", ADMIN, NULL, rn_command_rules_show},
    {"rules rollback", NULL, rn_help_rules, "VERSION", "3", ADMIN | BIT(IF_VERSION), NULL,
     rn_command_rules_rollback},
    {"rules trial", NULL, rn_help_rules, "FILE", "rules.yaml", ADMIN | BIT(IF_VERSION) | BIT(END),
     NULL, rn_command_rules_trial},
    {"rules delete", NULL, rn_help_rules, NULL, "", ADMIN, NULL, rn_command_rules_delete},
    {"rules reload", NULL, rn_help_rules, NULL, "", ADMIN, NULL, rn_command_rules_reload},
    {"shadow status", "count refusals without refusing", rn_help_shadow, NULL, "", ADMIN, NULL,
     rn_command_shadow},
    {"shadow on", NULL, rn_help_shadow, NULL, "", ADMIN, NULL, rn_command_shadow},
    {"shadow off", NULL, rn_help_shadow, NULL, "", ADMIN, NULL, rn_command_shadow},
    {"bench", "measure a daemon under load", rn_help_bench, NULL, "", BIT(BENCH) | BIT(REQUEST),
     rn_command_bench, NULL},
};
const size_t rn_command_count = sizeof rn_commands / sizeof rn_commands[0];
#define COMMANDS (sizeof rn_commands / sizeof rn_commands[0])

/* --- finding ----------------------------------------------------------------------- */

size_t rn_command_first_word(const struct rn_command *command, const char *word)
{
    size_t len = strcspn(command->name, " ");

    return strlen(word) == len && memcmp(command->name, word, len) == 0 ? len : 0;
}

/* --- complaints and help ----------------------------------------------------------- */

static void put_usage(FILE *file)
{
    fputs("ration tries out rate limits before they are deployed, and asks and controls a "
          "rationd.\n\n"
          "usage: ration COMMAND [OPTION...] [FILE...] [ATTRIBUTE=VALUE...]\n\n",
          file);
    for (size_t i = 0; i < rn_command_count; i++)
        if (rn_commands[i].summary != NULL)
            fprintf(file, "  %-10.*s %s\n", (int)strcspn(rn_commands[i].name, " "),
                    rn_commands[i].name, rn_commands[i].summary);
    fputs("  help       this text, or that of a command: ration help check\n\n"
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
    else if (name[0] == '-')
        rn_output_error("expected a command before %s; \"ration help\" lists all",
                        rn_excerpt(rn_slice_of(name)).text);
    else
        rn_output_error("there is no command %s; \"ration help\" lists all",
                        rn_excerpt(rn_slice_of(name)).text);
    return RN_EXIT_ERROR;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help(int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "help") == 0) {
        put_usage(stdout);
        return RN_EXIT_OK;
    }
    for (size_t i = 0; i < rn_command_count; i++)
        if (rn_command_first_word(&rn_commands[i], argv[0]) != 0) {
            fputs(rn_commands[i].help, stdout);
            return RN_EXIT_OK;
        }
    return complain_of_command(argv[0]);
}

/* --- running ----------------------------------------------------------------------- */

/* Complains that the second word of a command is unknown or missing, or that the first one is. */
static int complain(const char *first, const char *second)
{
    char all[128] = "";
    size_t len = 0;

    for (size_t i = 0; i < rn_command_count; i++) {
        size_t word = rn_command_first_word(&rn_commands[i], first);

        if (word != 0)
            len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", len == 0 ? "" : ", ",
                                    rn_commands[i].name + word + 1);
    }
    if (len == 0)
        return complain_of_command(first);
    if (second == NULL)
        rn_output_error("%s what? write one of %s after it", first, all);
    else
        rn_output_error("there is no %s %s; write one of %s", first,
                        rn_excerpt(rn_slice_of(second)).text, all);
    return RN_EXIT_ERROR;
}

/* argv[0], or argv[0] and argv[1], name the command. */
static int run(int argc, char **argv)
{
    for (const struct rn_command *c = rn_commands; c < rn_commands + rn_command_count; c++) {
        size_t len = rn_command_first_word(c, argv[0]);
        int used = c->name[len] == '\0' ? 1 : 2, status;
        struct rn_options options;

        if (len == 0 || (used == 2 && (argc < 2 || strcmp(c->name + len + 1, argv[1]) != 0)))
            continue;
        status = rn_options_parse(&options, c, argc - used, argv + used);
        if (status == 0 && options.help)
            fputs(c->help, stdout);
        else if (status == 0)
            status =
                c->ask != NULL ? rn_daemon_run(&options, RN_PORT_ADMIN, c->ask) : c->run(&options);
        rn_options_done(&options);
        return status;
    }
    if (strcmp(argv[0], "help") == 0 || is_help(argv[0]))
        return help(argc - 1, argv + 1);
    if (strcmp(argv[0], "--version") == 0) {
        printf("ration %s\n", ration_version());
        return RN_EXIT_OK;
    }
    if (strcmp(argv[0], "__complete") == 0) /* asked by completions/ */
        return rn_completion_run(argc - 1, argv + 1);
    if (argc > 1 && is_help(argv[1]))
        return help(1, argv);
    return complain(argv[0], argc > 1 ? argv[1] : NULL);
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
