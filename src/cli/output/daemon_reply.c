/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/daemon_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/output/columns.h"

static void copy(char *to, size_t size, struct rn_slice text)
{
    snprintf(to, size, "%.*s", (int)text.len, text.data == NULL ? "" : text.data);
}

static void read_verdict(const struct rn_cli_json *from, bool allowed, struct ration_verdict *v)
{
    *v = (struct ration_verdict){.allowed = allowed, .limit = UINT64_MAX, .remaining = UINT64_MAX};
    rn_cli_json_u64(from, "limit", &v->limit);
    rn_cli_json_u64(from, "remaining", &v->remaining);
    v->reset_after_ns = rn_cli_json_seconds(from, "reset_after");
    v->retry_after_ns = rn_cli_json_seconds(from, "retry_after");
}

/* The limit that decided is the first whose fields equal those of the decision. */
static void read_limits(const struct rn_cli_json *decision, struct ration_outcome *o)
{
    const struct ration_verdict *v = &o->decision.verdict;
    const struct rn_cli_json *entry = rn_cli_json_list(decision, "limits");

    for (; entry != NULL; entry = entry->next, o->limit_count++) {
        struct ration_outcome_limit *l = &o->limits[o->listed];

        if (o->listed == RATION_OUTCOME_LIMITS)
            continue;
        copy(l->rule, sizeof l->rule, rn_cli_json_text(entry, "rule"));
        read_verdict(entry, true, &l->verdict);
        l->shadow = rn_cli_json_is_true(entry, "shadow");
        if (o->decision.decided_by < 0 && o->rule[0] != '\0' && strcmp(l->rule, o->rule) == 0 &&
            l->verdict.limit == v->limit && l->verdict.remaining == v->remaining) {
            o->decision.decided_by = (int)o->listed;
            l->verdict.allowed = o->decision.allowed;
            l->verdict.retry_after_ns = v->retry_after_ns;
        }
        o->listed++;
    }
}

void rn_daemon_reply_outcome(const struct rn_cli_json *decision, unsigned status,
                             struct ration_outcome *o)
{
    bool allowed = rn_cli_json_is_true(decision, "allowed");
    int64_t held_ns = rn_cli_json_seconds(decision, "held");
    uint64_t level = 0;

    *o = (struct ration_outcome){.status = (uint16_t)status};
    o->decision.allowed = allowed;
    o->decision.decided_by = -1;
    read_verdict(decision, allowed, &o->decision.verdict);
    copy(o->rule, sizeof o->rule, rn_cli_json_text(decision, "rule"));
    copy(o->message, sizeof o->message, rn_cli_json_text(decision, "message"));
    o->soft = rn_cli_json_is_true(decision, "soft");
    o->shadow_refused = rn_cli_json_is_true(decision, "shadow");
    o->shadow_delay_ns = rn_cli_json_seconds(decision, "shadow_delay");
    o->delay_ns = held_ns > 0 ? held_ns : rn_cli_json_seconds(decision, "delay");
    o->hold = held_ns > 0;
    o->waited_ns = rn_cli_json_seconds(decision, "waited");
    if (rn_slice_is(rn_cli_json_text(decision, "error"), "denied"))
        o->kind = RATION_BY_DENY_LIST;
    else if (rn_cli_json_is_true(decision, "banned"))
        o->kind = rn_cli_json_u64(decision, "level", &level) ? RATION_BY_ESCALATION : RATION_BY_BAN;
    else if (rn_cli_json_is_true(decision, "paused"))
        o->kind = RATION_BY_PAUSE;
    else
        o->kind = allowed && o->rule[0] == '\0' ? RATION_BY_NO_RULE : RATION_BY_LIMITS;
    o->level = (uint16_t)level;
    read_limits(decision, o);
}

void rn_daemon_reply_limits(const struct rn_output *out, const struct rn_cli_json *first)
{
    static const char *const titles[] = {"rule", "limit",     "factor",
                                         "left", "resets in", "retry in"};
    struct rn_columns columns;
    char text[RN_TIME_TEXT];

    rn_columns_init(&columns, titles, 6);
    for (const struct rn_cli_json *v = first; v != NULL; v = v->next) {
        int64_t retry_ns = rn_cli_json_seconds(v, "retry_after");
        uint64_t limit, remaining;

        rn_columns_text(&columns, rn_cli_json_text(v, "rule"));
        rn_columns_text(&columns, rn_cli_json_text(v, "text"));
        if (rn_cli_json_get(v, "factor") != NULL)
            rn_columns_put(&columns, "%d%%", rn_cli_json_percent(v, "factor"));
        else
            rn_columns_put(&columns, "%s", "");
        if (rn_cli_json_u64(v, "limit", &limit) && rn_cli_json_u64(v, "remaining", &remaining))
            rn_columns_put(&columns, "%" PRIu64 " of %" PRIu64, remaining, limit);
        else
            rn_columns_put(&columns, "unlimited");
        rn_columns_put(&columns, "%s", rn_output_time(rn_cli_json_seconds(v, "reset_after"), text));
        rn_columns_put(&columns, "%s", retry_ns == 0 ? "" : rn_output_time(retry_ns, text));
    }
    rn_columns_write(&columns, out, 0);
    rn_columns_done(&columns);
    for (const struct rn_cli_json *v = first; v != NULL; v = v->next) {
        struct rn_slice rule = rn_cli_json_text(v, "rule");
        char before[RATION_NAME_SIZE + 2];

        snprintf(before, sizeof before, "%.*s ", (int)rule.len, rule.data);
        rn_daemon_reply_line(out, before, v);
    }
}

static void put_escalate(const struct rn_output *out, const struct rn_cli_json *escalate)
{
    uint64_t after = 0, refusals = 0, level = 0;
    char text[RN_TIME_TEXT];

    rn_cli_json_u64(escalate, "after", &after);
    rn_cli_json_u64(escalate, "refusals", &refusals);
    rn_cli_json_u64(escalate, "level", &level);
    if (rn_cli_json_is_true(escalate, "banned"))
        rn_output_put(out, RN_BAD, "banned for %s",
                      rn_output_time(rn_cli_json_seconds(escalate, "ends_after"), text));
    else
        rn_output_put(out, RN_PLAIN, "%" PRIu64 " of %" PRIu64 " refusals within %s", refusals,
                      after, rn_output_time(rn_cli_json_seconds(escalate, "within"), text));
    if (level != 0)
        rn_output_put(out, RN_PLAIN, ", level %" PRIu64, level);
    rn_output_put(out, RN_PLAIN, "; the next ban takes %s\n",
                  rn_output_time(rn_cli_json_seconds(escalate, "next_ban"), text));
}

void rn_daemon_reply_reputation(const struct rn_output *out, const char *before,
                                const struct rn_cli_json *of)
{
    const struct rn_cli_json *escalate = rn_cli_json_get(of, "escalate"),
                             *earn = rn_cli_json_get(of, "earn");
    char text[RN_TIME_TEXT];

    if (escalate != NULL) {
        rn_output_put(out, RN_DIM, "%sescalate ", before);
        put_escalate(out, escalate);
    }
    if (earn != NULL) {
        rn_output_put(out, RN_DIM, "%searn    ", before);
        rn_output_put(out, RN_PLAIN, "%d%% of the limit; %d%% more for each %s, up to %d%%\n",
                      rn_cli_json_percent(earn, "earned"), rn_cli_json_percent(earn, "add"),
                      rn_output_time(rn_cli_json_seconds(earn, "every"), text),
                      rn_cli_json_percent(earn, "up_to"));
    }
}

void rn_daemon_reply_queue(const struct rn_output *out, const char *before,
                           const struct rn_cli_json *rule)
{
    const struct rn_cli_json *queue = rn_cli_json_get(rule, "queue");
    struct rn_slice by = rn_cli_json_text(queue, "by");
    char text[RN_TIME_TEXT];
    uint64_t size = 0;

    if (queue == NULL)
        return;
    rn_cli_json_u64(queue, "size", &size);
    rn_output_put(out, RN_DIM, "%squeue   ", before);
    rn_output_put(out, RN_PLAIN, "%" PRIu64 " may wait in line, up to %s, by %.*s\n", size,
                  rn_output_time(rn_cli_json_seconds(queue, "max_wait"), text), (int)by.len,
                  by.data);
}

void rn_daemon_reply_line(const struct rn_output *out, const char *before,
                          const struct rn_cli_json *limit)
{
    const struct rn_cli_json *line = rn_cli_json_get(limit, "line");
    uint64_t waiting = 0, ahead = 0;
    char text[RN_TIME_TEXT];

    if (line == NULL)
        return;
    rn_cli_json_u64(line, "waiting", &waiting);
    rn_cli_json_u64(line, "ahead", &ahead);
    rn_output_put(out, RN_DIM, "%sline    ", before);
    rn_output_put(out, RN_ODD, "%" PRIu64 " wait%s, %" PRIu64 " of them ahead of this request",
                  waiting, waiting == 1 ? "s" : "", ahead);
    rn_output_put(out, RN_PLAIN, "; its turn comes in %s at the earliest\n",
                  rn_output_time(rn_cli_json_seconds(line, "wait_at_least"), text));
}

void rn_daemon_reply_attributes(const struct rn_output *out, const struct rn_cli_json *attributes)
{
    const struct rn_cli_json *v = attributes != NULL ? attributes->first : NULL;

    for (const char *comma = ""; v != NULL; v = v->next, comma = ", ")
        rn_output_pair(out, comma, v->name, v->text);
}

void rn_daemon_reply_pairs(struct rn_columns *columns, const struct rn_cli_json *attributes)
{
    const struct rn_cli_json *v = attributes != NULL ? attributes->first : NULL;
    struct rn_buf all = {0};

    for (; v != NULL; v = v->next) {
        rn_buf_put(&all, " ", all.len > 0);
        rn_buf_put_slice(&all, v->name);
        rn_buf_put_char(&all, '=');
        rn_buf_put_slice(&all, v->text);
    }
    rn_columns_text(columns, rn_buf_slice(&all));
    rn_buf_done(&all);
}
