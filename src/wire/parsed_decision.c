/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and values, in any order. A member that is given twice counts as it was given
 * last.
 */
#include "wire/parsed_decision.h"

#include "wire/resp_reply.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SECONDS_DIGITS_MAX 10 /* before the point: the nanoseconds fit 64 bits */

const char *const rn_parsed_decision_kinds[RN_PARSED_DECISION_KINDS] = {
    [RATION_BY_LIMITS] = "limits",  [RATION_BY_NO_RULE] = "none", [RATION_BY_ALLOW_LIST] = "allow",
    [RATION_BY_DENY_LIST] = "deny", [RATION_BY_BAN] = "ban",
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
    struct rn_parsed_decision *told;
    struct ration_outcome *outcome;
    struct ration_outcome_limit *limit; /* at hand */
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

static bool next_bool(struct reader *r, bool *to)
{
    int64_t n;

    if (!next_integer(r, 0, 1, &n))
        return false;
    *to = n == 1;
    return true;
}

/* Null: without a limit. */
static bool next_amount(struct reader *r, uint64_t *to)
{
    struct rn_resp_reply value;

    if (!next(r, &value))
        return false;
    *to = value.kind == RN_RESP_REPLY_NULL ? UINT64_MAX : (uint64_t)value.number;
    return value.kind == RN_RESP_REPLY_NULL ||
           (value.kind == RN_RESP_REPLY_INTEGER && value.number >= 0);
}

/* Digits, and up to nine more behind a point. */
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
static bool next_time(struct reader *r, int64_t *ns)
{
    struct rn_resp_reply value;

    if (!next(r, &value))
        return false;
    if (value.kind == RN_RESP_REPLY_NULL)
        *ns = RATION_NEVER;
    return value.kind == RN_RESP_REPLY_NULL ||
           (value.kind == RN_RESP_REPLY_BULK && parse_seconds(value.text, ns));
}

static bool next_word(struct reader *r, const char *const *words, size_t count, unsigned *index)
{
    struct rn_slice text;

    if (!next_text(r, &text))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!rn_slice_is(text, words[i]))
            continue;
        *index = (unsigned)i;
        return true;
    }
    return false;
}

/* Null: none. */
static bool next_rule(struct reader *r, char rule[RATION_NAME_SIZE])
{
    struct rn_resp_reply value;

    if (!next(r, &value) || (value.kind != RN_RESP_REPLY_BULK && value.kind != RN_RESP_REPLY_NULL))
        return false;
    rn_slice_copy(rule, RATION_NAME_SIZE,
                  value.kind == RN_RESP_REPLY_BULK ? value.text : (struct rn_slice){"", 0});
    return true;
}

/* --- members ------------------------------------------------------------------------------- */

/* What is read by name, and must be there. */
struct member {
    const char *name;
    bool (*read)(struct reader *r);
    bool optional;
};

/* All pairs of the array of `count` values. */
static bool read_members(struct reader *r, int64_t count, const struct member *members,
                         size_t member_count)
{
    unsigned seen = 0;
    struct rn_slice name;

    for (int64_t left = count; left >= 2; left -= 2) {
        size_t i = 0;

        if (!next_text(r, &name))
            return false;
        while (i < member_count && !rn_slice_is(name, members[i].name))
            i++;
        if (i == member_count
                ? rn_resp_reply_skip(r->reply.data, r->reply.len, &r->at) != RN_PARSE_DONE
                : !members[i].read(r))
            return false;
        seen |= i == member_count ? 0 : 1u << i;
    }
    for (size_t i = 0; i < member_count; i++)
        if (!members[i].optional && !(seen & 1u << i))
            return false;
    return count % 2 == 0;
}

static bool limit_rule(struct reader *r)
{
    return next_rule(r, r->limit->rule);
}

static bool limit_limit(struct reader *r)
{
    return next_amount(r, &r->limit->verdict.limit);
}

static bool limit_remaining(struct reader *r)
{
    return next_amount(r, &r->limit->verdict.remaining);
}

static bool limit_reset_after(struct reader *r)
{
    return next_time(r, &r->limit->verdict.reset_after_ns);
}

static bool limit_shadow(struct reader *r)
{
    return next_bool(r, &r->limit->shadow);
}

static bool limit_allowed(struct reader *r)
{
    return next_bool(r, &r->limit->verdict.allowed);
}

static bool limit_amount(struct reader *r)
{
    return next_amount(r, &r->limit->amount);
}

/* Of the algorithm an answer tells only whether places were counted: then there is no
 * period. */
static bool limit_period(struct reader *r)
{
    if (!next_time(r, &r->limit->period_ns))
        return false;
    r->limit->algorithm = r->limit->period_ns == 0 ? RATION_CONCURRENCY : RATION_TOKEN_BUCKET;
    return true;
}

static bool limit_delay(struct reader *r)
{
    return next_time(r, &r->limit->verdict.delay_ns);
}

static bool read_limit(struct reader *r)
{
    static const struct member members[] = {
        {"rule", limit_rule, false},           {"limit", limit_limit, false},
        {"remaining", limit_remaining, false}, {"reset_after", limit_reset_after, false},
        {"shadow", limit_shadow, true},        {"allowed", limit_allowed, false},
        {"amount", limit_amount, false},       {"period", limit_period, false},
        {"delay", limit_delay, true},
    };
    struct rn_resp_reply array;

    return next(r, &array) && array.kind == RN_RESP_REPLY_ARRAY &&
           read_members(r, array.number, members, COUNT(members));
}

static bool read_limits(struct reader *r)
{
    struct ration_outcome *o = r->outcome;
    struct rn_resp_reply array;

    if (!next(r, &array) || array.kind != RN_RESP_REPLY_ARRAY ||
        array.number > RATION_OUTCOME_LIMITS)
        return false;
    o->limit_count = o->listed = (uint32_t)array.number;
    for (uint32_t i = 0; i < o->listed; i++) {
        r->limit = &o->limits[i];
        *r->limit = (struct ration_outcome_limit){.shadow = false};
        if (!read_limit(r))
            return false;
    }
    return true;
}

static bool read_allowed(struct reader *r)
{
    return next_bool(r, &r->outcome->decision.allowed);
}

static bool read_rule(struct reader *r)
{
    return next_rule(r, r->outcome->rule);
}

static bool read_most(struct reader *r)
{
    return next_amount(r, &r->outcome->decision.verdict.limit);
}

static bool read_remaining(struct reader *r)
{
    return next_amount(r, &r->outcome->decision.verdict.remaining);
}

static bool read_reset_after(struct reader *r)
{
    return next_time(r, &r->outcome->decision.verdict.reset_after_ns);
}

static bool read_retry_after(struct reader *r)
{
    return next_time(r, &r->outcome->decision.verdict.retry_after_ns);
}

static bool read_delay(struct reader *r)
{
    return next_time(r, &r->outcome->delay_ns) && r->outcome->delay_ns != RATION_NEVER;
}

static bool read_soft(struct reader *r)
{
    return next_bool(r, &r->outcome->soft);
}

static bool read_shadow(struct reader *r)
{
    return next_bool(r, &r->outcome->shadow_refused);
}

static bool read_shadow_delay(struct reader *r)
{
    return next_time(r, &r->outcome->shadow_delay_ns);
}

static bool next_ticket(struct reader *r, struct rn_slice *ticket)
{
    return next_text(r, ticket) && ticket->len > 0 && ticket->len < RATION_TICKET_SIZE;
}

static bool read_lease(struct reader *r)
{
    return next_ticket(r, &r->told->lease);
}

static bool read_charge(struct reader *r)
{
    return next_ticket(r, &r->told->charge);
}

static bool read_turn(struct reader *r)
{
    return next_ticket(r, &r->told->turn);
}

static bool read_lease_for(struct reader *r)
{
    return next_time(r, &r->told->lease_ns) && r->told->lease_ns > 0;
}

static bool read_by(struct reader *r)
{
    unsigned kind;

    if (!next_word(r, rn_parsed_decision_kinds, RN_PARSED_DECISION_KINDS, &kind))
        return false;
    r->outcome->kind = (enum ration_outcome_kind)kind;
    return true;
}

static bool read_decided_by(struct reader *r)
{
    int64_t index;

    if (!next_integer(r, -1, RATION_OUTCOME_LIMITS - 1, &index))
        return false;
    r->outcome->decision.decided_by = (int)index;
    return true;
}

static bool read_status(struct reader *r)
{
    int64_t status;

    if (!next_integer(r, 400, 599, &status))
        return false;
    r->outcome->status = (uint16_t)status;
    return true;
}

static bool read_headers(struct reader *r)
{
    unsigned family;

    if (!next_word(r, rn_parsed_decision_families, RN_PARSED_DECISION_FAMILIES, &family))
        return false;
    r->outcome->headers = (enum ration_header_family)family;
    return true;
}

static bool read_retryafter(struct reader *r)
{
    return next_bool(r, &r->outcome->retryafter);
}

static bool read_message(struct reader *r)
{
    struct rn_slice text;

    if (!next_text(r, &text))
        return false;
    rn_slice_copy(r->outcome->message, sizeof r->outcome->message, text);
    return true;
}

/* --- the decision ----------------------------------------------------------------------------- */

/* Members that belong together. */
static bool agree(const struct ration_outcome *o, const struct rn_parsed_decision *told)
{
    return o->decision.decided_by < (int)o->listed && (!told->lease.data || told->lease_ns > 0) &&
           (o->decision.allowed || !told->lease.data);
}

bool rn_parsed_decision_read(struct rn_slice reply, struct rn_parsed_decision *told)
{
    static const struct member members[] = {
        {"allowed", read_allowed, false},
        {"rule", read_rule, false},
        {"limit", read_most, false},
        {"remaining", read_remaining, false},
        {"reset_after", read_reset_after, false},
        {"retry_after", read_retry_after, false},
        {"delay", read_delay, false},
        {"limits", read_limits, false},
        {"soft", read_soft, true},
        {"shadow", read_shadow, true},
        {"shadow_delay", read_shadow_delay, true},
        {"lease", read_lease, true},
        {"lease_for", read_lease_for, true},
        {"charge", read_charge, true},
        {"turn", read_turn, true},
        {"by", read_by, false},
        {"decided_by", read_decided_by, false},
        {"status", read_status, false},
        {"headers", read_headers, false},
        {"retryafter", read_retryafter, true},
        {"message", read_message, false},
    };
    struct ration_outcome *o = told->outcome;
    struct reader r = {.reply = reply, .told = told, .outcome = o};
    struct rn_resp_reply array;

    memset(o, 0, offsetof(struct ration_outcome, limits));
    o->lease = 0;
    o->place_count = o->receipt_count = o->due_count = 0;
    o->at_ns = 0;
    told->lease = told->charge = told->turn = (struct rn_slice){NULL, 0};
    told->lease_ns = 0;
    if (!next(&r, &array) || array.kind != RN_RESP_REPLY_ARRAY ||
        !read_members(&r, array.number, members, COUNT(members)))
        return false;
    o->decision.verdict.allowed = o->decision.allowed;
    o->decision.verdict.delay_ns = o->delay_ns;
    return r.at == reply.len && agree(o, told);
}
