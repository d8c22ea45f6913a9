/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration`: finds the command and runs it. Each command is a file of its own.
 */
#include <string.h>

#include <ration/ration.h>

#include "cli/options.h"
#include "cli/output.h"
#include "rules/report.h"

const struct rn_command rn_commands[] = {
    {"check", "decide on a request, and count it", rn_help_check,
     RN_OPTION_REQUEST | RN_OPTION_STATE | RN_OPTION_COST | RN_OPTION_TIMES | RN_OPTION_AT,
     rn_command_check},
    {"explain", "which rules apply to a request, and why", rn_help_explain,
     RN_OPTION_REQUEST | RN_OPTION_STATE | RN_OPTION_COST | RN_OPTION_MATCHING | RN_OPTION_AT,
     rn_command_explain},
    {"lint", "find mistakes in rules files", rn_help_lint, RN_OPTION_STRICT, rn_command_lint},
};
const size_t rn_command_count = sizeof rn_commands / sizeof rn_commands[0];

static const struct rn_command *find_command(const char *name)
{
    for (size_t i = 0; i < rn_command_count; i++)
        if (strcmp(rn_commands[i].name, name) == 0)
            return &rn_commands[i];
    return NULL;
}

static void put_usage(FILE *file)
{
    fputs("ration tries out rate limits before they are deployed.\n\n"
          "usage: ration COMMAND [OPTION...] FILE... [ATTRIBUTE=VALUE...]\n\n",
          file);
    for (size_t i = 0; i < rn_command_count; i++)
        fprintf(file, "  %-9s %s\n", rn_commands[i].name, rn_commands[i].summary);
    fputs("  help      this text, or that of a command: ration help check\n\n"
          "  ration lint rules.yaml\n"
          "  ration explain rules.yaml method=POST path=/login ip=192.0.2.7\n"
          "  ration check --times 6 rules.yaml method=POST path=/login ip=192.0.2.7\n\n"
          "Rules are described in docs/rules.md. Exit status: 0 allowed, 1 refused, 2 error.\n",
          file);
}

static int complain_of_command(const char *name)
{
    const char *names[8] = {"help", "--version"};
    size_t count = 2;
    const char *meant;

    for (size_t i = 0; i < rn_command_count; i++)
        names[count++] = rn_commands[i].name;
    meant = rn_suggest(rn_slice_of(name), names, count);
    if (meant != NULL)
        rn_complain("there is no command %s; did you mean %s?", rn_excerpt(rn_slice_of(name)).text,
                    meant);
    else
        rn_complain("there is no command %s; \"ration help\" lists those there are",
                    rn_excerpt(rn_slice_of(name)).text);
    return RN_EXIT_ERROR;
}

static int help(int argc, char **argv)
{
    const struct rn_command *command;

    if (argc == 0) {
        put_usage(stdout);
        return RN_EXIT_OK;
    }
    command = find_command(argv[0]);
    if (command == NULL)
        return complain_of_command(argv[0]);
    fputs(command->help, stdout);
    return RN_EXIT_OK;
}

static int run(const struct rn_command *command, int argc, char **argv)
{
    struct rn_options options;
    int status = rn_options_parse(&options, command, argc, argv);

    if (status == 0 && options.help)
        fputs(command->help, stdout);
    else if (status == 0)
        status = command->run(&options);
    rn_options_done(&options);
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct rn_command *command = find_command(name);
    int status;

    if (argc < 2) {
        put_usage(stderr);
        return RN_EXIT_ERROR;
    }
    if (command != NULL) {
        status = run(command, argc - 2, argv + 2);
    } else if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 ||
               strcmp(name, "-h") == 0) {
        status = help(argc - 2, argv + 2);
    } else if (strcmp(name, "--version") == 0) {
        printf("ration %s\n", ration_version());
        status = RN_EXIT_OK;
    } else {
        return complain_of_command(name);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rn_complain("the output could not be written");
        return RN_EXIT_ERROR;
    }
    return status;
}
