/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `ration help COMMAND` prints. man/ration.1.scd says the same at more length.
 */
#include "cli/command.h"

#define HELP_RULES                                                                                 \
    "  FILE              rules, in the native or in Envoy's format; a directory means the\n"       \
    "                    .yaml, .yml and .json files in it, - for standard input\n"

#define HELP_REQUEST                                                                               \
    HELP_RULES                                                                                     \
    "  ATTRIBUTE=VALUE   what the request is like: ip=192.0.2.7 method=POST path=/login\n"         \
    "                    user=ada header.x-api-key=k1; for a FILE in Envoy's format first\n"       \
    "                    domain=NAME, then the pairs of one descriptor in their order.\n"          \
    "                    After -- every argument is an attribute\n\n"

#define HELP_OUTPUT                                                                                \
    "  --json            for programs\n"                                                           \
    "  --color WHEN      auto, always or never\n"

#define HELP_TIME                                                                                  \
    "  --at TIME         as if it were TIME: +30s, +2 days, 2027-01-31, "                          \
    "2027-01-31T23:59:00+01:00\n"

#define HELP_TLS                                                                                   \
    "  --cacert FILE     certificates to trust, if its address is https://... (those that this\n"  \
    "                    system trusts, or RATION_CACERT)\n"                                       \
    "  --cert FILE, --key FILE  a certificate to show it (none, or RATION_CERT, RATION_KEY)\n"

#define HELP_SERVER                                                                                \
    "  --server[=ADDR]   ask the daemon, as without any FILE\n"                                    \
    "  --token-file FILE the daemon's token (none, or RATION_TOKEN, RATION_TOKEN_FILE)\n" HELP_TLS \
    "  --timeout TIME    for its answer (5s, or RATION_TIMEOUT)\n"

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

const char rn_help_schema[] =
    "usage: ration schema\n\n"
    "Prints the JSON Schema of rules files, by which editors complete keys, explain them and\n"
    "mark mistakes. The first line of a rules file names it:\n\n"
    "# yaml-language-server: $schema=/usr/share/ration/ration.schema.json\n\n" HELP_OUTPUT
    "\nExit status: 0 done, 2 error.\n";

/* --- commands that need a running daemon --------------------------------------------------- */

#define HELP_ATTRIBUTES "  ATTRIBUTE=VALUE   as in a request: ip=192.0.2.7 user=ada path=/login\n"

#define HELP_PORT                                                                                  \
    "  --admin ADDR      where the daemon's admin port is (127.0.0.1:8082, or RATION_ADMIN):\n"    \
    "                    host:port, :port, unix:PATH, or by TLS https://host:port\n"               \
    "  --token-file FILE the daemon's token (none, or RATION_TOKEN, RATION_TOKEN_FILE)\n" HELP_TLS \
    "  --timeout TIME    for its answer (5s, or RATION_TIMEOUT)\n"

#define HELP_ADMIN                                                                                 \
    HELP_PORT                                                                                      \
    "  --json            what the daemon answered, for programs\n"                                 \
    "  --color WHEN      auto, always or never\n"

const char rn_help_publish[] =
    "usage: ration publish [OPTION...] FILE...\n"
    "       ration publish [OPTION...]\n\n"
    "Prints the limits as users of an API should read them: how many requests of which kind, for\n"
    "each tier; what the headers mean; how to come back after a refusal. Without a FILE, those of\n"
    "a daemon. Rules in shadow mode, in Envoy's format and with publish: false are left "
    "out.\n\n" HELP_RULES "  --format FORMAT   html, markdown (as without this) or json\n"
    "  --server          ask the daemon, as without any FILE\n" HELP_PORT
    "  --json            the same as --format json\n"
    "  --color WHEN      auto, always or never\n"
    "\nExit status: 0 printed, 2 error.\n";

const char rn_help_health[] =
    "usage: ration health\n\n"
    "Asks /readyz, which needs no token. For health checks where there is no curl, such as in a\n"
    "container.\n\n" HELP_ADMIN
    "\nExit status: 0 ready, 1 not ready: it starts or it ends, 2 no answer.\n";

const char rn_help_top[] =
    "usage: ration top [OPTION...]\n\n"
    "Shows how much a daemon decides and refuses, and which keys are refused most: live on\n"
    "a terminal (q ends it), else once.\n\n"
    "  --count N         number of keys (20)\n"
    "  --interval TIME   time between two samples (1s)\n"
    "  --once            one table, after one interval\n" HELP_ADMIN;

const char rn_help_report[] =
    "usage: ration report [OPTION...]\n\n"
    "Tells from what a daemon has counted whether its rules do what they are for: rules that no\n"
    "request has met, that refuse many of their clients, or that never get to refuse; clients\n"
    "near their limit; requests that no rule covers; signals that never fired; limits to try.\n\n"
    "  --replay FILE     from what ration replay --json printed; - for standard input\n"
    "  --share SHARE     of its clients that a rule may refuse before that is reported (5%)\n"
    "  --html FILE       write a page instead; - for standard output\n" HELP_PORT HELP_OUTPUT
    "\nExit status: 0 reported, 2 error.\n";

const char rn_help_state[] =
    "usage: ration state [OPTION...] ATTRIBUTE=VALUE...\n\n"
    "Shows what is left of each limit that applies to a request. Nothing is "
    "counted.\n\n" HELP_ATTRIBUTES "  --rule NAME       only of this rule\n" HELP_ADMIN
    "\nExit status: 0 shown, 1 no limit applies, 2 error.\n";

const char rn_help_reset[] =
    "usage: ration reset [OPTION...] ATTRIBUTE=VALUE...\n\n"
    "Forgets what was counted for a client in each limit that applies to the request. Bans by\n"
    "rules, and what was earned, stay: see ration reputation.\n\n" HELP_ATTRIBUTES
    "  --rule NAME       only in this rule\n" HELP_ADMIN
    "\nExit status: 0 reset, 1 no limit applies, 2 error.\n";

const char rn_help_adjust[] =
    "usage: ration adjust --rule NAME (--add N | --remaining N) ATTRIBUTE=VALUE...\n\n"
    "Charges a client more, gives some back, or sets what is left.\n\n" HELP_ATTRIBUTES
    "  --rule NAME       in this rule\n"
    "  --add N           charge N more; if negative, give back, never above full\n"
    "  --remaining N     N are left from now on\n" HELP_ADMIN
    "\nExit status: 0 done, 1 no limit applies, 2 error.\n";

const char rn_help_override[] =
    "usage: ration override list [--rule NAME]\n"
    "       ration override set RULE ATTRIBUTE=VALUE... --limit LIMIT [--for TIME] [--note TEXT]\n"
    "       ration override delete RULE ATTRIBUTE=VALUE...\n\n"
    "Another limit for one key of a rule, whatever the rules file says.\n\n"
    "  RULE              the name of the rule\n"
    "  ATTRIBUTE=VALUE   all attributes of the rule's key: user=ada\n"
    "  --rule NAME       list: only of this rule\n"
    "  --limit LIMIT     as in rules: \"1000 per minute\", \"20 per second burst 50\", unlimited\n"
    "  --for TIME        how long: 90s, 2h, \"3 days\"; without it, until it is deleted\n"
    "  --note TEXT       shown in the list\n" HELP_ADMIN
    "\nExit status: 0 done, 1 delete: there was none, 2 error.\n";

const char rn_help_pause[] =
    "usage: ration pause KEY [LENGTH | --lift]\n"
    "       ration pause [--rule NAME] ATTRIBUTE=VALUE... [LENGTH | --lift]\n\n"
    "Nothing of the key, or of the client, is admitted until the pause ends: on all nodes, also\n"
    "after a restart. If it is paused already, the later end counts. Without a length, tells how\n"
    "long the pause lasts.\n\n"
    "  KEY               of limits that come with a call: /v1/throttle, RATION.TAKE, CL.THROTTLE\n"
    "  ATTRIBUTE=VALUE   of a client under rules, as in its requests\n"
    "  --rule NAME       only under this rule; without it, under all that apply\n"
    "  LENGTH            30s, 5m, seconds, or a Retry-After header as it was received: 120,\n"
    "                    \"Wed, 18 Nov 2026 08:30:00 GMT\"; 24 hours at most\n"
    "  --lift            ends the pause\n" HELP_ADMIN
    "\nExit status: 0 paused, or lifted, or the length was 0; 1 it was not paused; 2 error.\n";

const char rn_help_ban[] =
    "usage: ration ban list\n"
    "       ration ban add ATTRIBUTE=VALUE... [--for TIME] [--reason TEXT]\n"
    "       ration ban delete ATTRIBUTE=VALUE...\n\n"
    "Requests that have all of these attributes are refused. Bans by rules with escalate are not\n"
    "among these: see ration reputation.\n\n"
    "  ATTRIBUTE=VALUE   ip=192.0.2.7, ip=198.51.100.0/24, user=mallory\n"
    "  --for TIME        how long: 90s, 10m, \"3 days\"; without it, until it is deleted\n"
    "  --reason TEXT     shown in the list and to the client\n" HELP_ADMIN
    "\nExit status: 0 done, 1 delete: there was none, 2 error.\n";

const char rn_help_usage[] =
    "usage: ration usage [--rule NAME] [--client NAME] [--period PERIOD] [--csv | --json]\n"
    "       ration usage correct --rule NAME --client NAME --period PERIOD --units N\n"
    "                            [--note TEXT]\n\n"
    "Lists what clients of rules with usage: true have used: units admitted and refused in each\n"
    "day, week, month or year. A correction is added to what is billed; what was counted stays.\n\n"
    "  --rule NAME       only of this rule\n"
    "  --client NAME     only of this client\n"
    "  --period PERIOD   only of this one: current, last, 2026-11, 2026-11-18, 2026-W47 or 2026\n"
    "  --csv             as CSV, names exactly as they are\n"
    "  --scope SCOPE     what this node has counted (node), or all nodes that share a Redis\n"
    "                    (fleet, as without this)\n"
    "  --state FILE      read from this state file; no daemon is needed\n"
    "  --units N         N more to bill; below 0: fewer\n"
    "  --note TEXT       why, for the daemon's log\n" HELP_ADMIN
    "\nExit status: 0 complete or corrected, 1 nodes are missing, 2 error.\n";

const char rn_help_reputation[] =
    "usage: ration reputation list [--rule NAME] [--banned]\n"
    "       ration reputation lift [--rule NAME] ATTRIBUTE=VALUE...\n"
    "       ration reputation lift --rule NAME --hash HASH\n\n"
    "Clients that rules with escalate have banned, or count refusals of, and those that have\n"
    "earned more under rules with earn. Lifting forgets the ban, its level and the refusals.\n"
    "What was earned, and what the limits have counted, stays: see ration "
    "reset.\n\n" HELP_ATTRIBUTES "  --rule NAME       only of this rule\n"
    "  --banned          only clients that are banned now\n"
    "  --hash HASH       the client with this hash, as in the list\n" HELP_ADMIN
    "\nExit status: 0 done, 1 lift: there was nothing to forget, 2 error.\n";

const char rn_help_rules[] =
    "usage: ration rules get\n"
    "       ration rules push FILE [--if-version N]\n"
    "       ration rules validate FILE\n"
    "       ration rules versions\n"
    "       ration rules show VERSION\n"
    "       ration rules rollback VERSION [--if-version N]\n"
    "       ration rules trial FILE [--if-version N]\n"
    "       ration rules trial --end\n"
    "       ration rules delete\n"
    "       ration rules reload\n\n"
    "Reads, replaces or tries the rules of a running daemon. What is pushed is in force at once\n"
    "and until it is deleted: then the daemon's files hold again. (A daemon without --state\n"
    "forgets it at the next reload or restart.) With bad rules nothing changes.\n\n"
    "A trial counts what the rules of FILE that are new or differ would refuse, as\n"
    "NAME.trial, and refuses nothing: push the file when you have seen enough, or end it.\n\n"
    "The daemon keeps the last 100 versions of its rules. A rollback pushes the text of one.\n\n"
    "  FILE              rules; - for standard input\n"
    "  --end             the rules from before the trial\n"
    "  VERSION           its number in the list of versions\n"
    "  --if-version N    only if the rules in force are version N, as push tells it\n" HELP_ADMIN
    "\nExit status: 0 done or valid, 2 error.\n";

const char rn_help_shadow[] =
    "usage: ration shadow on|off|status\n\n"
    "In shadow mode the daemon decides and counts, and refuses no request.\n\n" HELP_ADMIN;

const char rn_help_bench[] =
    "usage: ration bench [OPTION...] [ATTRIBUTE=VALUE...]\n\n"
    "Sends a daemon as many requests as it answers, or as --rate says, and shows how many that\n"
    "were and how long they took.\n\n"
    "  --resp ADDR       its RESP port (127.0.0.1:6380, or RATION_RESP): host:port, :port,\n"
    "                    unix:PATH, or by TLS rediss://host:port\n"
    "  --http ADDR       its HTTP port instead; by TLS https://host:port\n" HELP_TLS
    "  --command NAME    throttle (CL.THROTTLE or /v1/throttle), take (RATION.TAKE or\n"
    "                    /v1/throttle), check (by rules), ping\n"
    "  --limit LIMIT     of throttle and take (\"100 per minute\")\n"
    "  ATTRIBUTE=VALUE   of check (ip={ip} path=/); {key} and {ip} become one of the keys\n"
    "  --keys N          number of different keys, chosen at random (10000)\n"
    "  --connections N   number of connections (50)\n"
    "  --pipeline N      requests in flight on each connection, at most (16)\n"
    "  --threads N       number of threads (1)\n"
    "  --duration TIME   how long (5s)\n"
    "  --requests N      number of requests instead, for at most 10 minutes\n"
    "  --rate N/s        requests are due at fixed times, whatever the daemon does, and are\n"
    "                    measured from when they were due\n"
    "  --remote          also to a machine that is not this one\n"
    "  --json            for programs; times are in seconds\n"
    "  --color WHEN      auto, always or never\n"
    "\nExit status: 0 all answered, 2 errors.\n";

#define HELP_LOGS                                                                                  \
    "  LOG               an access log, also compressed by gzip or zstd; several are merged by\n"  \
    "                    time; - for standard input\n"

#define HELP_READING                                                                               \
    "  --format NAME     combined, apache, nginx-json, caddy, traefik, envoy, haproxy, alb, csv\n" \
    "                    or json (what the first lines look like)\n"                               \
    "  --map NAME=FIELD  the attribute NAME is this field of the log: api_key=http_x_api_key,\n"   \
    "                    ip=extra1; also time, end, status, request, and duration=FIELD:ms (s,\n"  \
    "                    ms, us, ns; without one, what the format has)\n"                          \
    "  --set NAME=VALUE  all requests have this attribute: tier=free\n"                            \
    "  --from TIME       only requests from then on: 2026-11-19, 2026-11-19T08:00:00Z; UTC,\n"     \
    "                    unless it says +01:00\n"                                                  \
    "  --to TIME         only requests before\n"                                                   \
    "  --reorder TIME    how much older than others before it a line may be (60s)\n"               \
    "  --memory SIZE     most memory for counting: 512M, 4G (256M)\n"

const char rn_help_replay[] =
    "usage: ration replay [OPTION...] --rules FILE LOG...\n\n"
    "Runs the requests of access logs through rules, on the time of the logs, and shows which\n"
    "would have been limited, by which rule, when and for how long.\n\n" HELP_LOGS
    "  --rules FILE      the rules to try; may be given several times\n"
    "  --against FILE    the rules that they would replace: shows what changes\n" HELP_READING
    "  --by NAME         the attribute that tells clients apart, for all rules together (ip)\n"
    "  --top N           how many clients to list (10)\n"
    "  --html FILE       write a page with pictures; - for standard output\n"
    "  --decisions FILE  write each decision, as CSV; - for standard output\n" HELP_OUTPUT
    "\nExit status: 0 done, 2 error, or no line is a request.\n";

const char rn_help_suggest[] =
    "usage: ration suggest [OPTION...] LOG...\n"
    "       ration suggest [OPTION...] --rules FILE --rule NAME LOG...\n\n"
    "Finds the smallest limit that few clients would have met, by access logs: with the\n"
    "period, the algorithm and the key of a rule, or by default for each minute and "
    "address.\n\n" HELP_LOGS "  --rules FILE      rules; may be given several times\n"
    "  --rule NAME       the rule whose limit is wanted; its requests and its key count\n"
    "  --touch SHARE     at most this share of clients may be refused (1%)\n"
    "  --by NAME         without --rules, the attribute that tells clients apart "
    "(ip)\n" HELP_READING "  --html FILE       write a page with pictures\n" HELP_OUTPUT
    "\nExit status: 0 done, 1 no request is of that rule, 2 error.\n";
