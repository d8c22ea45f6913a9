/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `ration help COMMAND` prints. man/ration.1.scd says the same at more
 * length.
 */
#include "cli/command.h"

#define HELP_RULES                                                                                 \
    "  FILE              rules, in the native or in Envoy's format; a directory means the\n"       \
    "                    .yaml, .yml and .json files in it, - for standard input\n"

#define HELP_REQUEST                                                                               \
    HELP_RULES                                                                                     \
    "  ATTRIBUTE=VALUE   what the request is like: ip=192.0.2.7 method=POST path=/login\n"         \
    "                    user=ada header.x-api-key=k1; for rules in Envoy's format first\n"        \
    "                    domain=NAME, then the pairs of one descriptor in their order.\n"          \
    "                    After -- every argument is an attribute\n\n"

#define HELP_OUTPUT                                                                                \
    "  --json            for programs\n"                                                           \
    "  --color WHEN      auto, always or never\n"

#define HELP_TIME                                                                                  \
    "  --at TIME         as if it were TIME: +30s, +2 days, 2027-01-31, "                          \
    "2027-01-31T23:59:00+01:00\n"

#define HELP_SERVER                                                                                \
    "  --server[=ADDR]   ask the daemon, as without any FILE\n"                                    \
    "  --token-file FILE the daemon's token, unless RATION_TOKEN has "                             \
    "it\n" RN_HELP_TLS "  --timeout TIME    for its answer (5s)\n"

const char rn_help_check[] =
    "usage: ration check [OPTION...] FILE... ATTRIBUTE=VALUE...\n"
    "       ration check [OPTION...] ATTRIBUTE=VALUE...\n\n"
    "Decides whether a request may go ahead, and counts it; without a FILE the daemon does.\n"
    "\n" HELP_REQUEST
    "  --state FILE      count in this file, made if need be; without it nothing is remembered\n"
    "  --cost N          what the request costs, where rules do not say (1)\n"
    "  --drain           if it does not fit, take what is left, and refuse; under one limit only\n"
    "  --times N         number of such requests, one after the other at the same time\n"
    "  --status CODE     they end with this status, for limits with charge_on\n" HELP_TIME
    "  --http ADDR       where the daemon listens (127.0.0.1:8080, or RATION_HTTP)\n" HELP_SERVER
        HELP_OUTPUT
    "\nExit status: 0 allowed, 1 refused (also if only one of several was), 2 error.\n";

const char rn_help_explain[] =
    "usage: ration explain [OPTION...] FILE... ATTRIBUTE=VALUE...\n"
    "       ration explain [OPTION...] ATTRIBUTE=VALUE...\n\n"
    "Shows for each rule whether it applies to a request, why, what would be charged to\n"
    "which key, and which rule would decide. Nothing is counted. Without a FILE it asks the\n"
    "daemon about its rules.\n\n" HELP_REQUEST "  --matching        only the rules that apply\n"
    "  --state FILE      with what has been counted in this file; without it nothing has\n"
    "  --cost N          what the request costs, where rules do not say (1)\n" HELP_TIME
    "  --admin ADDR      where the daemon listens (127.0.0.1:8082, or RATION_ADMIN)\n" HELP_SERVER
        HELP_OUTPUT "\nExit status: 0 it would be allowed, 1 refused, 2 error.\n";

const char rn_help_lint[] =
    "usage: ration lint [OPTION...] FILE...\n\n"
    "Reports all mistakes in rules files, and warns of rules that never\n"
    "apply, costs that never fit, paths that nothing protects.\n\n" HELP_RULES "\n"
    "  --strict          warnings count: exit status 1\n" HELP_OUTPUT
    "\nExit status: 0 no errors, 1 warnings with --strict, 2 errors.\n";
