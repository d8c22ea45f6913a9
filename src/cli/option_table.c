/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of all commands.
 */
#include <stddef.h>

#include "cli/options_internal.h"

#define ALWAYS 0 /* as `bits`: every command takes it */
#define FLAG RN_KIND_FLAG
#define TEXT RN_KIND_TEXT
#define ANY RN_KIND_ANY
#define OPTIONAL RN_KIND_OPTIONAL
#define COUNT RN_KIND_COUNT
#define WHOLE RN_KIND_WHOLE
#define LENGTH RN_KIND_LENGTH
#define RATE RN_KIND_RATE
#define COLOUR RN_KIND_COLOUR
#define MOMENT RN_KIND_MOMENT
#define LIST RN_KIND_LIST
#define SIZE RN_KIND_SIZE

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define YEAR (366 * 86400 * SECOND)

#define AT(field) offsetof(struct rn_options, field)
#define BIT(name) RN_OPTION(RN_OPTION_##name)

const struct rn_option_spec rn_option_specs[] = {
    {"--help", ALWAYS, FLAG, AT(help), NULL, NULL, NULL, 0, 0},
    {"--json", ALWAYS, FLAG, AT(json), NULL, NULL, NULL, 0, 0},
    {"--color", ALWAYS, COLOUR, AT(colour), "always", "auto, always or never", "auto always never",
     0, 0},
    {"--state", BIT(STATE), TEXT, AT(state), "/tmp/state", "the name of a file", ":files", 0, 0},
    {"--cost", BIT(COST), COUNT, AT(cost), "5", "a number from 1 on", NULL, 0, INT64_MAX},
    {"--drain", BIT(TIMES), FLAG, AT(drain), NULL, NULL, NULL, 0, 0},
    {"--times", BIT(TIMES), COUNT, AT(times), "10", "a number from 1 to 1000000", NULL, 0, 1000000},
    {"--status", BIT(TIMES), COUNT, AT(status), "401", "a status from 100 to 599",
     "200 401 403 404 500", 100, 599},
    {"--at", BIT(AT), MOMENT, AT(at), "+30s", "a time such as +30s or 2027-01-31T23:59:00Z", NULL,
     0, 0},
    {"--strict", BIT(STRICT), FLAG, AT(strict), NULL, NULL, NULL, 0, 0},
    {"--matching", BIT(MATCHING), FLAG, AT(matching), NULL, NULL, NULL, 0, 0},
    {"--server", BIT(SERVER), OPTIONAL, AT(server), NULL, NULL, NULL, 0, 0},
    {"--http", BIT(HTTP) | BIT(BENCH), TEXT, AT(http), "127.0.0.1:8080", "an address", NULL, 0, 0},
    {"--admin", BIT(ADMIN), TEXT, AT(admin), "127.0.0.1:8082", "an address", NULL, 0, 0},
    {"--resp", BIT(BENCH), TEXT, AT(resp), "127.0.0.1:6380", "an address", NULL, 0, 0},
    {"--token-file", BIT(TIMEOUT), TEXT, AT(token_file), "/etc/ration/token", "the name of a file",
     ":files", 0, 0},
    {"--cacert", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(cacert), "ca.pem", "the name of a file",
     ":files", 0, 0},
    {"--cert", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(cert), "cert.pem", "the name of a file",
     ":files", 0, 0},
    {"--key", BIT(TIMEOUT) | BIT(BENCH), TEXT, AT(key), "key.pem", "the name of a file", ":files",
     0, 0},
    {"--timeout", BIT(TIMEOUT), LENGTH, AT(timeout_ns), "5s",
     "a length of time such as 5s, from 1 ms to 10 minutes", NULL, MS, 600 * SECOND},
    {"--rule", BIT(RULE), TEXT, AT(rule), "api", "the name of a rule", ":rules", 0, 0},
    {"--banned", BIT(BANNED), FLAG, AT(banned), NULL, NULL, NULL, 0, 0},
    {"--hash", BIT(HASH), TEXT, AT(hash), "9e3779b97f4a7c15", "16 hexadecimal digits", NULL, 0, 0},
    {"--lift", BIT(LIFT), FLAG, AT(lift), NULL, NULL, NULL, 0, 0},
    {"--end", BIT(END), FLAG, AT(end), NULL, NULL, NULL, 0, 0},
    {"--count", BIT(COUNT), COUNT, AT(count), "20", "a number from 1 to 1000", NULL, 0, 1000},
    {"--interval", BIT(INTERVAL), LENGTH, AT(interval_ns), "1s",
     "a length of time such as 1s, from 100 ms to 1 hour", NULL, 100 * MS, 3600 * SECOND},
    {"--once", BIT(INTERVAL), FLAG, AT(once), NULL, NULL, NULL, 0, 0},
    {"--add", BIT(ADD), WHOLE, AT(add), "5", "a number such as 5 or -5", NULL, -1, INT64_MAX},
    {"--remaining", BIT(REMAINING), WHOLE, AT(remaining), "100", "a number from 0 on", NULL, 0,
     INT64_MAX},
    {"--limit", BIT(LIMIT) | BIT(BENCH), TEXT, AT(limit), "\"1000 per minute\"",
     "a limit such as \"1000 per minute\"", NULL, 0, 0},
    {"--for", BIT(FOR), LENGTH, AT(for_ns), "10m", "a length of time such as 10m or 2 hours", NULL,
     MS, 10 * YEAR},
    {"--note", BIT(NOTE), TEXT, AT(note), "\"paid for more\"", "some words", NULL, 0, 0},
    {"--reason", BIT(REASON), TEXT, AT(reason), "scraping", "some words", NULL, 0, 0},
    {"--client", BIT(USAGE), ANY, AT(client), "ada", "the name of a client", NULL, 0, 0},
    {"--period", BIT(USAGE), TEXT, AT(period), "2026-11", "a period such as 2026-11 or last",
     "current last", 0, 0},
    {"--csv", BIT(EXPORT), FLAG, AT(csv), NULL, NULL, NULL, 0, 0},
    {"--scope", BIT(EXPORT), TEXT, AT(scope), "node", "node or fleet", "node fleet", 0, 0},
    {"--units", BIT(UNITS), WHOLE, AT(units), "-20", "a number such as 20 or -20", NULL, -1,
     INT64_MAX},
    {"--if-version", BIT(IF_VERSION), WHOLE, AT(if_version), "3", "the number of a version", NULL,
     0, INT64_MAX},
    {"--replay", BIT(SHARE), TEXT, AT(replayed), "replay.json", "the name of a file", ":files", 0,
     0},
    {"--share", BIT(SHARE), TEXT, AT(share), "5%", "a share of clients such as 5%", NULL, 0, 0},
    {"--format", BIT(FORMAT), TEXT, AT(format), "html", "html, markdown or json",
     "html markdown json", 0, 0},
    {"--command", BIT(BENCH), TEXT, AT(load), "throttle", "throttle, check, take or ping",
     "throttle take check ping", 0, 0},
    {"--connections", BIT(BENCH), COUNT, AT(connections), "50", "a number from 1 to 10000", NULL, 0,
     10000},
    {"--pipeline", BIT(BENCH), COUNT, AT(pipeline), "16", "a number from 1 to 1024", NULL, 0, 1024},
    {"--duration", BIT(BENCH), LENGTH, AT(duration_ns), "5s",
     "a length of time such as 10s, from 100 ms to 10 minutes", NULL, 100 * MS, 600 * SECOND},
    {"--requests", BIT(BENCH), COUNT, AT(requests), "100000", "a number from 1 on", NULL, 0,
     INT64_MAX},
    {"--keys", BIT(BENCH), COUNT, AT(keys), "10000", "a number from 1 to 1000000000", NULL, 0,
     1000000000},
    {"--rate", BIT(BENCH), RATE, AT(rate), "50000/s", "a rate such as 50000/s", NULL, 0,
     1000000000},
    {"--threads", BIT(BENCH), COUNT, AT(threads), "2", "a number from 1 to 64", NULL, 0, 64},
    {"--remote", BIT(BENCH), FLAG, AT(remote), NULL, NULL, NULL, 0, 0},
    {"--rules", BIT(LOGS), LIST, AT(rules), "rules.yaml", "the name of a file, at most 32 times",
     ":files", 0, 0},
    {"--against", BIT(REPLAY), LIST, AT(against), "old.yaml",
     "the name of a file, at most 32 times", ":files", 0, 0},
    {"--from", BIT(LOGS), MOMENT, AT(from), "2026-11-19T08:00:00Z",
     "a time such as 2026-11-19T08:00:00Z", NULL, 0, 0},
    {"--to", BIT(LOGS), MOMENT, AT(to), "2026-11-20", "a time such as 2026-11-19T08:00:00Z", NULL,
     0, 0},
    {"--format", BIT(LOGS), TEXT, AT(format), "combined", "the name of a format",
     "combined apache nginx-json caddy traefik envoy haproxy alb csv json", 0, 0},
    {"--map", BIT(LOGS), LIST, AT(maps), "api_key=http_x_api_key", "NAME=FIELD, at most 32 times",
     NULL, 0, 0},
    {"--set", BIT(LOGS), LIST, AT(sets), "tier=free", "NAME=VALUE, at most 32 times", NULL, 0, 0},
    {"--by", BIT(REPLAY) | BIT(SUGGEST), TEXT, AT(by), "user", "the name of an attribute",
     "ip user api_key", 0, 0},
    {"--memory", BIT(LOGS), SIZE, AT(memory_bytes), "1G", "a size from 32M to 1T", NULL,
     INT64_C(32) << 20, INT64_C(1) << 40},
    {"--reorder", BIT(LOGS), LENGTH, AT(reorder_ns), "60s",
     "a length of time such as 60s, from 0 to 1 hour", NULL, 0, 3600 * SECOND},
    {"--touch", BIT(SUGGEST), TEXT, AT(touch), "1%", "a share such as 1% or 0.5%", "0% 0.1% 1% 5%",
     0, 0},
    {"--top", BIT(REPLAY), COUNT, AT(top), "10", "a number from 1 to 1000", NULL, 0, 1000},
    {"--html", BIT(HTML), TEXT, AT(html), "page.html", "the name of a file", ":files", 0, 0},
    {"--decisions", BIT(REPLAY), TEXT, AT(decisions), "decisions.csv", "the name of a file",
     ":files", 0, 0},
};
const size_t rn_option_spec_count = sizeof rn_option_specs / sizeof rn_option_specs[0];
_Static_assert(sizeof rn_option_specs / sizeof rn_option_specs[0] <= RN_OPTION_SPECS, "raise it");

bool rn_option_is_taken(const struct rn_command *command, const struct rn_option_spec *spec)
{
    return spec->bits == ALWAYS || (command->options & spec->bits) != 0;
}
