/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply is an array of names and values in any order. If a member occurs twice, the last
 * one counts.
 */
#include "wire/parsed_decision.h"

#include "wire/resp_reply.h"

#define SECONDS_DIGITS_MAX 10 /* before the point: the nanoseconds fit 64 bits */

const char *const rn_parsed_decision_kinds[RN_PARSED_DECISION_KINDS] = {
    [RATION_BY_LIMITS] = "limits",  [RATION_BY_NO_RULE] = "none", [RATION_BY_ALLOW_LIST] = "allow",
    [RATION_BY_DENY_LIST] = "deny", [RATION_BY_BAN] = "ban",      [RATION_BY_ESCALATION] = "ban",
    [RATION_BY_PAUSE] = "limits",
};
const char *const rn_parsed_decision_families[RN_PARSED_DECISION_FAMILIES] = {
    [RATION_HEADERS_BOTH] = "both",
    [RATION_HEADERS_X] = "x",
    [RATION_HEADERS_IETF] = "ietf",
    [RATION_HEADERS_NONE] = "none",
};

struct reader {
    struct rn_slice reply;
    size_t at;
    struct rn_parsed_decision *parsed;
};

/* --- values ------------------------------------------------------------------------------ */

static bool next(struct reader *r, struct rn_resp_reply *value)
{
    return rn_resp_reply_next(r->reply.data, r->reply.len, &r->at, value) == RN_PARSE_DONE;
}

static bool next_text(struct reader *r, struct rn_slice *text)
{
    struct rn_resp_reply value;

    if (!next(r, &value) || value.kind != RN_RESP_REPLY_BULK)
        return false;
    *text = value.text;
    return true;
}

static bool next_integer(struct reader *r, int64_t least, int64_t most, int64_t *n)
{
    struct rn_resp_reply value;

    if (!next(r, &value) || value.kind != RN_RESP_REPLY_INTEGER || value.number < least ||
        value.number > most)
        return false;
    *n = value.number;
    return true;
}

/* The readers of members below store what they read at `to`, which has the member's type. */

static bool read_bool(struct reader *r, void *to)
{
    int64_t n;

    if (!next_integer(r, 0, 1, &n))
        return false;
    *(bool *)to = n == 1;
    return true;
}

/* Null: without a limit. */
static bool read_amount(struct reader *r, void *to)
{
    struct rn_resp_reply value;

    if (!next(r, &value))
        return false;
    *(uint64_t *)to = value.kind == RN_RESP_REPLY_NULL ? UINT64_MAX : (uint64_t)value.number;
    return value.kind == RN_RESP_REPLY_NULL ||
           (value.kind == RN_RESP_REPLY_INTEGER && value.number >= 0);
}

/* Digits, and up to nine more after a point. */
static bool parse_seconds(struct rn_slice text, int64_t *ns)
{
    int64_t n = 0, unit = 1000000000;
    bool fraction = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '.' && !fraction && i > 0 && i + 1 < text.len) {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9' || (fraction ? unit == 1 : i == SECONDS_DIGITS_MAX))
            return false;
        n = n * 10 + (c - '0');
        unit /= fraction ? 10 : 1;
    }
    /* At most 10^10 - 1 seconds: below 2^63, but only just. */
    return text.len > 0 && !__builtin_mul_overflow(n, unit, ns) && *ns < RATION_NEVER;
}

/* Null: never. */
static bool read_time(struct reader *r, void *to)
{
    struct rn_resp_reply value;

    if (!next(r, &value))
        return false;
    if (value.kind == RN_RESP_REPLY_NULL)
        *(int64_t *)to = RATION_NEVER;
    return value.kind == RN_RESP_REPLY_NULL ||
           (value.kind == RN_RESP_REPLY_BULK && parse_seconds(value.text, to));
}

static bool read_delay(struct reader *r, void *to)
{
    return read_time(r, to) && *(int64_t *)to != RATION_NEVER;
}

static bool read_lease_time(struct reader *r, void *to)
{
    return read_time(r, to) && *(int64_t *)to > 0;
}

/* Null: none. */
static bool read_rule(struct reader *r, void *to)
{
    struct rn_resp_reply value;

    if (!next(r, &value) || (value.kind != RN_RESP_REPLY_BULK && value.kind != RN_RESP_REPLY_NULL))
        return false;
    rn_slice_copy(to, RATION_NAME_SIZE,
                  value.kind == RN_RESP_REPLY_BULK ? value.text : RN_SLICE(""));
    return true;
}

static bool read_ticket(struct reader *r, void *to)
{
    struct rn_slice *ticket = to;

    return next_text(r, ticket) && ticket->len > 0 && ticket->len < RATION_TICKET_SIZE;
}

_Static_assert(sizeof(enum ration_outcome_kind) == sizeof(unsigned) &&
                   sizeof(enum ration_header_family) == sizeof(unsigned),
               "read_word() writes enums as that");

/* Stores the number of the word. */
static bool read_word(struct reader *r, const char *const *words, unsigned count, unsigned *to)
{
    struct rn_slice text;

    if (!next_text(r, &text))
        return false;
    for (*to = 0; *to < count; ++*to)
        if (rn_slice_is(text, words[*to]))
            return true;
    return false;
}

static bool read_kind(struct reader *r, void *to)
{
    return read_word(r, rn_parsed_decision_kinds, RN_PARSED_DECISION_KINDS, to);
}

static bool read_headers(struct reader *r, void *to)
{
    return read_word(r, rn_parsed_decision_families, RN_PARSED_DECISION_FAMILIES, to);
}

static bool read_decided_by(struct reader *r, void *to)
{
    int64_t index;

    if (!next_integer(r, -1, RATION_OUTCOME_LIMITS - 1, &index))
        return false;
    *(int *)to = (int)index;
    return true;
}

static bool read_status(struct reader *r, void *to)
{
    int64_t status;

    if (!next_integer(r, 400, 599, &status))
        return false;
    *(uint16_t *)to = (uint16_t)status;
    return true;
}

static bool read_level(struct reader *r, void *to)
{
    int64_t level;

    if (!next_integer(r, 1, UINT16_MAX, &level))
        return false;
    *(uint16_t *)to = (uint16_t)level;
    return true;
}

static bool read_message(struct reader *r, void *to)
{
    struct rn_slice text;

    if (!next_text(r, &text))
        return false;
    rn_slice_copy(to, sizeof r->parsed->outcome->message, text);
    return true;
}

/* --- members ------------------------------------------------------------------------------- */

struct member {
    const char *name;
    bool (*read)(struct reader *r, void *to);
    size_t at;                                /* where its field is in the struct */
    enum { REQUIRED, OPTIONAL, TICKET } kind; /* TICKET: optional, in rn_parsed_decision */
};

/* An array of names and values. */
static bool read_members(struct reader *r, void *to, const struct member *members,
                         size_t member_count)
{
    struct rn_resp_reply array;
    unsigned seen = 0;
    struct rn_slice name;

    if (!next(r, &array) || array.kind != RN_RESP_REPLY_ARRAY)
        return false;
    for (int64_t left = array.number; left >= 2; left -= 2) {
        size_t i = 0;

        if (!next_text(r, &name))
            return false;
        while (i < member_count && !rn_slice_is(name, members[i].name))
            i++;
        if (i == member_count) {
            if (rn_resp_reply_skip(r->reply.data, r->reply.len, &r->at) != RN_PARSE_DONE)
                return false;
            continue;
        }
        char *base = members[i].kind == TICKET ? (char *)r->parsed : to;

        if (!members[i].read(r, base + members[i].at))
            return false;
        seen |= 1u << i;
    }
    for (size_t i = 0; i < member_count; i++)
        if (members[i].kind == REQUIRED && !(seen & 1u << i))
            return false;
    return array.number % 2 == 0;
}

static bool read_limits(struct reader *r, void *to)
{
#define AT(field) offsetof(struct ration_outcome_limit, field)
    static const struct member members[] = {
        {"rule", read_rule, AT(rule), REQUIRED},
        {"limit", read_amount, AT(verdict.limit), REQUIRED},
        {"remaining", read_amount, AT(verdict.remaining), REQUIRED},
        {"reset_after", read_time, AT(verdict.reset_after_ns), REQUIRED},
        {"shadow", read_bool, AT(shadow), OPTIONAL},
        {"allowed", read_bool, AT(verdict.allowed), REQUIRED},
        {"amount", read_amount, AT(amount), REQUIRED},
        {"period", read_time, AT(period_ns), REQUIRED},
        {"delay", read_time, AT(verdict.delay_ns), OPTIONAL},
    };
#undef AT
    struct ration_outcome *o = r->parsed->outcome;
    struct ration_outcome_limit *limits = to;
    struct rn_resp_reply array;

    if (!next(r, &array) || array.kind != RN_RESP_REPLY_ARRAY ||
        array.number > RATION_OUTCOME_LIMITS)
        return false;
    o->limit_count = o->listed = (uint32_t)array.number;
    for (uint32_t i = 0; i < o->listed; i++) {
        limits[i] = (struct ration_outcome_limit){.shadow = false};
        if (!read_members(r, &limits[i], members, RN_COUNT(members)))
            return false;
        /* Of the algorithm, a reply says only whether it counts places: then there is no period. */
        limits[i].algorithm = limits[i].period_ns == 0 ? RATION_CONCURRENCY : RATION_TOKEN_BUCKET;
    }
    return true;
}

#define AT(field) offsetof(struct ration_outcome, field)
#define TICKET_AT(field) offsetof(struct rn_parsed_decision, field)
static const struct member outcome_members[] = {
    {"allowed", read_bool, AT(decision.allowed), REQUIRED},
    {"rule", read_rule, AT(rule), REQUIRED},
    {"limit", read_amount, AT(decision.verdict.limit), REQUIRED},
    {"remaining", read_amount, AT(decision.verdict.remaining), REQUIRED},
    {"reset_after", read_time, AT(decision.verdict.reset_after_ns), REQUIRED},
    {"retry_after", read_time, AT(decision.verdict.retry_after_ns), REQUIRED},
    {"delay", read_delay, AT(delay_ns), REQUIRED},
    {"limits", read_limits, AT(limits), REQUIRED},
    {"soft", read_bool, AT(soft), OPTIONAL},
    {"shadow", read_bool, AT(shadow_refused), OPTIONAL},
    {"shadow_delay", read_time, AT(shadow_delay_ns), OPTIONAL},
    {"waited", read_delay, AT(waited_ns), OPTIONAL},
    {"level", read_level, AT(level), OPTIONAL},
    {"lease", read_ticket, TICKET_AT(lease), TICKET},
    {"lease_for", read_lease_time, TICKET_AT(lease_ns), TICKET},
    {"charge", read_ticket, TICKET_AT(charge), TICKET},
    {"turn", read_ticket, TICKET_AT(turn), TICKET},
    {"paused", read_bool, TICKET_AT(paused), TICKET},
    {"by", read_kind, AT(kind), REQUIRED},
    {"decided_by", read_decided_by, AT(decision.decided_by), REQUIRED},
    {"status", read_status, AT(status), REQUIRED},
    {"headers", read_headers, AT(headers), REQUIRED},
    {"retryafter", read_bool, AT(retryafter), OPTIONAL},
    {"message", read_message, AT(message), REQUIRED},
};
#undef AT
#undef TICKET_AT

bool rn_parsed_decision_read(struct rn_slice reply, struct rn_parsed_decision *parsed)
{
    struct ration_outcome *o = parsed->outcome;
    struct reader r = {.reply = reply, .parsed = parsed};

    memset(o, 0, offsetof(struct ration_outcome, limits));
    o->lease = 0;
    o->place_count = o->receipt_count = o->due_count = 0;
    o->at_ns = 0;
    parsed->lease = parsed->charge = parsed->turn = (struct rn_slice){NULL, 0};
    parsed->lease_ns = 0;
    parsed->paused = false;
    if (!read_members(&r, o, outcome_members, RN_COUNT(outcome_members)))
        return false;
    if (o->level != 0 && o->kind == RATION_BY_BAN)
        o->kind = RATION_BY_ESCALATION;
    if (parsed->paused && o->kind == RATION_BY_LIMITS)
        o->kind = RATION_BY_PAUSE;
    o->decision.verdict.allowed = o->decision.allowed;
    o->decision.verdict.delay_ns = o->delay_ns;
    return r.at == reply.len && o->decision.decided_by < (int)o->listed &&
           (!parsed->lease.data || (parsed->lease_ns > 0 && o->decision.allowed));
}

/* --- waiting in line -------------------------------------------------------------------------- */

/* A list of `kind` that has three members, the first of them this word and the second a number. */
static bool read_line_head(struct reader *r, enum rn_resp_reply_kind kind, const char *word,
                           uint64_t *id)
{
    struct rn_resp_reply list;
    struct rn_slice text;
    int64_t number;

    if (!next(r, &list) || list.kind != kind || list.number != 3 || !next_text(r, &text) ||
        !rn_slice_is(text, word) || !next_integer(r, 0, INT64_MAX, &number))
        return false;
    *id = (uint64_t)number;
    return true;
}

bool rn_parsed_decision_read_wait(struct rn_slice reply, uint64_t *id, uint64_t *max_ms)
{
    struct reader r = {.reply = reply};
    int64_t ms;

    if (!rn_slice_starts_with(reply, RN_SLICE("*3\r\n"))) /* nearly all replies are decisions */
        return false;
    if (!read_line_head(&r, RN_RESP_REPLY_ARRAY, "WAIT", id) ||
        !next_integer(&r, 0, INT64_MAX, &ms) || r.at != reply.len)
        return false;
    *max_ms = (uint64_t)ms;
    return true;
}

bool rn_parsed_decision_read_turn(struct rn_slice push, uint64_t *id, struct rn_slice *value)
{
    struct reader r = {.reply = push};
    size_t begin;

    if (!read_line_head(&r, RN_RESP_REPLY_PUSH, "ration.turn", id))
        return false;
    begin = r.at;
    if (rn_resp_reply_skip(push.data, push.len, &r.at) != RN_PARSE_DONE || r.at != push.len)
        return false;
    *value = (struct rn_slice){push.data + begin, push.len - begin};
    return true;
}
