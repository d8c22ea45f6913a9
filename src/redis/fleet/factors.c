/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapts with `scope: fleet`: after each poll a node says which factors its own signals ask for,
 * and takes the lowest that another node asks for. What a node says is text:
 *
 *   1 web-3        the version of this format, the name of the machine
 *   50 api         a percentage, 1 to 100, and a rule: every rule with such an adapt
 *   100 reports
 *
 * A node that is gone ends what it said. If it was the one that asked for the least, the factor is
 * not raised at once but in the steps of the rule (core/ramp.h). Nothing that is malformed counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limiter/rulebook/book.h"
#include "limiter/signals/signals.h"
#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define VERSION "1 "
#define NODE_DIGITS 16
/* A name that is no name of a machine would be written to logs. */
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"

/* --- the rules ----------------------------------------------------------------------------- */

/* The rules with such an adapt, with what is known of those that were there before. False: out of
 * memory. */
static bool list_rules(struct rn_fleet_factors *f, const struct rn_book *book)
{
    const struct rn_ruleset *set = book->ruleset;
    struct rn_fleet_asked *rules;
    size_t count = 0, at = 0;

    if (f->version == book->version + 1)
        return true;
    for (uint32_t i = 0; i < set->rule_count; i++)
        count += set->rules[i].adapt.has_fleet;
    rules = calloc(count + 1, sizeof *rules);
    if (rules == NULL)
        return false;
    for (uint32_t i = 0; i < set->rule_count; i++) {
        struct rn_slice name = set->rules[i].name;

        if (!set->rules[i].adapt.has_fleet || name.len >= sizeof rules->rule)
            continue;
        rules[at].percent = 100;
        for (size_t k = 0; k < f->count; k++)
            if (rn_slice_is(name, f->rules[k].rule))
                rules[at] = f->rules[k];
        memcpy(rules[at].rule, name.data, name.len);
        rules[at++].index = i;
    }
    free(f->rules);
    f->rules = rules;
    f->count = at;
    f->version = book->version + 1;
    return true;
}

static void write_own(struct rn_fleet *fleet, const struct rn_book *book, struct rn_buf *out)
{
    struct rn_fleet_factors *f = &fleet->factors;
    int64_t now_ns = ration_now(fleet->limiter);
    bool fresh;

    rn_buf_putf(out, VERSION "%s\n", f->host);
    for (size_t i = 0; i < f->count; i++) {
        unsigned own = rn_signals_fleet_own(
            fleet->limiter->table, &book->ruleset->rules[f->rules[i].index], now_ns, &fresh);

        if (fresh && own >= 1 && own <= 100)
            rn_buf_putf(out, "%u %s\n", own, f->rules[i].rule);
    }
}

/* --- what others say ------------------------------------------------------------------------ */

struct heard {
    unsigned percent;           /* the lowest; 0: none */
    char node[NODE_DIGITS + 1]; /* that asks for it */
    char host[RN_FLEET_HOST];
    bool same; /* the node that asked for the least before still names the rule */
};

static struct rn_slice next_line(struct rn_slice *rest)
{
    const char *end = memchr(rest->data, '\n', rest->len);
    struct rn_slice line = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};
    size_t used = end == NULL ? rest->len : line.len + 1;

    *rest = (struct rn_slice){rest->data + used, rest->len - used};
    return line;
}

bool rn_fleet_factors_read_host(struct rn_slice *said, char host[RN_FLEET_HOST])
{
    struct rn_slice line = next_line(said);
    size_t skip = sizeof VERSION - 1;

    if (line.len <= skip || line.len - skip >= RN_FLEET_HOST ||
        memcmp(line.data, VERSION, skip) != 0)
        return false;
    memset(host, 0, RN_FLEET_HOST);
    memcpy(host, line.data + skip, line.len - skip);
    return strspn(host, NAME_CHARACTERS) == line.len - skip;
}

bool rn_fleet_factors_read(struct rn_slice *said, unsigned *percent, struct rn_slice *rule)
{
    struct rn_slice line = next_line(said);
    size_t at = 0;

    *percent = 0;
    for (; at < line.len && at < 3 && line.data[at] >= '0' && line.data[at] <= '9'; at++)
        *percent = *percent * 10 + (unsigned)(line.data[at] - '0');
    if (*percent < 1 || *percent > 100 || at + 1 >= line.len || line.data[at] != ' ')
        return false;
    *rule = (struct rn_slice){line.data + at + 1, line.len - at - 1};
    return true;
}

static bool is_node(struct rn_slice name)
{
    char digits[NODE_DIGITS + 1] = {0};

    if (name.len != NODE_DIGITS)
        return false;
    memcpy(digits, name.data, NODE_DIGITS);
    return strspn(digits, "0123456789abcdef") == NODE_DIGITS;
}

/* Rules that this node does not have are no mistake. False: something is malformed. */
static bool hear_node(const struct rn_fleet_factors *f, struct rn_slice node, struct rn_slice said,
                      struct heard *heard)
{
    char host[RN_FLEET_HOST];
    struct rn_slice rule;
    unsigned percent;
    bool good = true;

    if (!is_node(node) || !rn_fleet_factors_read_host(&said, host))
        return false;
    while (said.len > 0) {
        if (!rn_fleet_factors_read(&said, &percent, &rule)) {
            good = false;
            continue;
        }
        for (size_t i = 0; i < f->count; i++) {
            if (!rn_slice_is(rule, f->rules[i].rule))
                continue;
            heard[i].same |= rn_slice_is(node, f->rules[i].node);
            if (heard[i].percent != 0 && heard[i].percent <= percent)
                continue;
            heard[i].percent = percent;
            memcpy(heard[i].node, node.data, NODE_DIGITS);
            memcpy(heard[i].host, host, sizeof host);
        }
    }
    return good;
}

/* Puts what was heard of one rule in force. */
static void use(struct rn_fleet *fleet, const struct rn_book *book, struct rn_fleet_asked *asked,
                const struct heard *heard)
{
    const struct rn_rule *rule = &book->ruleset->rules[asked->index];
    unsigned percent = heard->percent != 0 ? heard->percent : 100;
    bool lost = percent > asked->percent && !heard->same;
    char value[8];
    int len = snprintf(value, sizeof value, "%u%%", percent);

    asked->percent = percent;
    memcpy(asked->node, heard->node, sizeof asked->node);
    snprintf(asked->who, sizeof asked->who, "%s/%s", heard->host, heard->node);
    unsigned before =
        rn_signals_fleet_ask(fleet->limiter, book, rule,
                             &(struct rn_signals_ask){percent, lost, ration_now(fleet->limiter)});

    if (percent < before && percent < 100)
        rn_log(RN_LOG_WARN, "factor.changed", RN_LOG_TEXT("rule", rule->name),
               RN_LOG_NUMBER("from_percent", before), RN_LOG_NUMBER("to_percent", percent),
               RN_LOG_TEXT("signal", RN_SLICE("fleet")),
               RN_LOG_TEXT("value", ((struct rn_slice){value, (size_t)len})),
               RN_LOG_TEXT("node", rn_slice_of(asked->who)));
}

static void take_reply(struct rn_fleet *fleet, const struct rn_book *book, const redisReply *reply)
{
    struct rn_fleet_factors *f = &fleet->factors;
    struct heard *heard = calloc(f->count + 1, sizeof *heard);
    size_t bad = 0;

    if (heard == NULL)
        return;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *node = reply->element[i], *said = reply->element[i + 1];
        bool texts = node->type == REDIS_REPLY_STRING && said->type == REDIS_REPLY_STRING;

        if (!texts || !hear_node(f, (struct rn_slice){node->str, node->len},
                                 (struct rn_slice){said->str, said->len}, heard))
            bad++;
    }
    for (size_t i = 0; i < f->count; i++)
        use(fleet, book, &f->rules[i], &heard[i]);
    free(heard);
    rn_redis_count(&fleet->counts.refused, bad != 0 && !f->refusing ? bad : 0);
    if (bad != 0 && !f->refusing)
        rn_log(RN_LOG_WARN, "fleet.factors_refused", RN_LOG_NUMBER("nodes", bad),
               RN_LOG_TEXT("meaning", RN_SLICE("ration:{fleet}:factors has what this version does "
                                               "not understand; it changes no factor")));
    f->refusing = bad != 0;
}

/* --- the call --------------------------------------------------------------------------------- */

/* A call that Redis refuses is logged once. It does not concern the other things that nodes share.
 */
static bool on_factors(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;
    struct rn_fleet_factors *f = &fleet->factors;

    if (reply == NULL)
        return rn_fleet_called(fleet, reply, "");
    fleet->calling = false;
    bool good = reply->type == REDIS_REPLY_ARRAY;

    if (good) {
        struct rn_pin pin = rn_pin_take_counted(&fleet->limiter->shelf);

        if (pin.book != NULL && list_rules(f, pin.book))
            take_reply(fleet, pin.book, reply);
        f->heard_ns = rn_wheel_now(rn_loop_wheel(fleet->loop));
        rn_pin_drop(&pin);
    } else if (!f->failed) {
        const char *why = "the reply is not one of the script";

        rn_log(RN_LOG_WARN, "fleet.factors_failed",
               RN_LOG_TEXT("reason",
                           rn_slice_of(reply->type == REDIS_REPLY_ERROR ? reply->str : why)));
    }
    f->failed = !good;
    rn_fleet_go_on(fleet);
    return good || reply->type == REDIS_REPLY_ERROR;
}

bool rn_fleet_factors_exchange(struct rn_fleet *fleet)
{
    struct rn_fleet_factors *f = &fleet->factors;
    struct rn_pin pin = rn_pin_take_counted(&fleet->limiter->shelf);
    struct rn_buf said = {0};
    char ttl[24];
    bool sent = false;

    if (pin.book != NULL && list_rules(f, pin.book) && f->count != 0 && !fleet->leaving)
        write_own(fleet, pin.book, &said);
    rn_pin_drop(&pin);
    if ((said.len != 0 || f->said) && !said.failed) {
        snprintf(ttl, sizeof ttl, "%lld", (long long)RN_FLEET_THERE_NS / 1000);
        sent = rn_fleet_call(
            fleet, RN_SCRIPT_FLEET_FACTORS, "nf",
            (struct rn_slice[]){rn_slice_of(fleet->node), rn_buf_slice(&said), rn_slice_of(ttl)}, 3,
            on_factors);
        f->said = said.len != 0;
    }
    rn_buf_done(&said);
    return sent;
}

/* --- what is known ---------------------------------------------------------------------------- */

void rn_fleet_factors_init(struct rn_fleet *fleet)
{
    char *host = fleet->factors.host;

    if (gethostname(host, sizeof fleet->factors.host - 1) != 0 || host[0] == '\0' ||
        host[strspn(host, NAME_CHARACTERS)] != '\0')
        snprintf(host, sizeof fleet->factors.host, "node");
    snprintf(fleet->factors.who, sizeof fleet->factors.who, "%s/%s", host, fleet->node);
}

const char *rn_fleet_name(const struct rn_fleet *fleet)
{
    return fleet->factors.who;
}

size_t rn_fleet_factors(const struct rn_fleet *fleet, const struct rn_fleet_asked **rules)
{
    int64_t age_ns = rn_wheel_now(rn_loop_wheel(fleet->loop)) - fleet->factors.heard_ns;

    *rules = fleet->factors.rules;
    return fleet->factors.heard_ns != 0 && age_ns <= RN_SIGNALS_FLEET_NS ? fleet->factors.count : 0;
}
