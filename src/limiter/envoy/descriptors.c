/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envoy's requests: finds the limits of all descriptors, drops those that another one replaces,
 * and charges the rest together, with native rules if the rules say so (native_rules.c).
 *
 * A descriptor with 0 hits only looks: it is over if less than one unit is left. A descriptor with
 * hits reports what was used, as Envoy does when a stream is done: what does not fit is answered as
 * over, and charged all the same (a late debit).
 *
 * Quota mode: the request is over if all quota descriptors are. So if several
 * are there, one that has room is enforced and the others are charged as shadow
 * limits are: if they have room. Should others take its last room just then, the
 * request is refused, although a second might have had some.
 */
#include "limiter/envoy/descriptors.h"

#include "limiter/clients/client_index.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/state.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/receipt.h"
#include "limiter/value_stats.h"

static struct rn_slice domain_of(const struct rn_descriptors *d)
{
    return (struct rn_slice){d->request->domain, d->request->domain_len};
}

/* --- what applies ------------------------------------------------------------------- */

const struct rn_envoy_limit *
rn_descriptor_match(const struct rn_ruleset *ruleset, struct rn_slice domain,
                    const struct ration_descriptor_entry *from, size_t count,
                    struct rn_slice parts[RN_ENVOY_PARTS_MAX], uint32_t *part_count)
{
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX];

    if (count > RN_ENVOY_DEPTH_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct rn_envoy_entry){{from[i].key, from[i].key_len},
                                             {from[i].value, from[i].value_len}};
    return rn_envoy_match(ruleset, domain, entries, count, parts, part_count);
}

static bool match_one(struct rn_descriptors *d, const struct rn_ruleset *ruleset, size_t at,
                      bool known)
{
    const struct ration_descriptor_ask *ask = &d->request->asks[at];
    struct rn_descriptor *item = &d->items[at];
    struct rn_slice *parts = d->parts + d->part_count;

    *item = (struct rn_descriptor){
        .ask = ask, .parts = parts, .charge = RN_NO_CHARGE, .reported = RN_NO_CHARGE};
    if (ask->count == 0 || ask->count > RN_DESCRIPTOR_ENTRIES_MAX ||
        (ask->limit_given && rn_descriptors_given_period(ask->unit) == 0))
        return false;
    if (ask->count > RN_ENVOY_DEPTH_MAX || !known)
        return true; /* deeper than any rule */
    if (d->part_count + 2 * ask->count > RN_DESCRIPTOR_PARTS)
        return false;
    item->match = rn_descriptor_match(ruleset, domain_of(d), ask->entries, ask->count, parts,
                                      &item->part_count);
    item->given = ask->limit_given;
    if (item->given && !(item->match && item->match->rule)) {
        item->match = NULL;
        item->part_count = (uint32_t)(2 * ask->count);
        for (size_t i = 0; i < ask->count; i++) {
            const struct ration_descriptor_entry *e = &ask->entries[i];

            parts[2 * i] = (struct rn_slice){e->key, e->key_len};
            parts[2 * i + 1] = (struct rn_slice){e->value, e->value_len};
        }
    }
    d->part_count += item->part_count;
    return true;
}

static bool replaces(const struct rn_envoy_limit *limit, struct rn_slice name)
{
    for (uint32_t i = 0; i < limit->replaces_count; i++)
        if (rn_slice_equal(limit->replaces[i], name))
            return true;
    return false;
}

/* All are read before any is dropped: one that is replaced still replaces others. */
static bool match_all(struct rn_descriptors *d, const struct rn_ruleset *ruleset)
{
    bool known = rn_envoy_has_domain(ruleset, domain_of(d));
    bool dropped[RATION_DESCRIPTORS_MAX] = {false};

    d->count = d->request->count;
    d->part_count = 0;
    for (size_t i = 0; i < d->count; i++)
        if (!match_one(d, ruleset, i, known))
            return false;
    for (size_t i = 0; i < d->count; i++) {
        const struct rn_envoy_limit *limit = d->items[i].match;

        if (!limit || limit->replaces_count == 0 || d->items[i].given)
            continue;
        for (size_t j = 0; j < d->count; j++) {
            const struct rn_envoy_limit *other = d->items[j].match;

            dropped[j] |=
                other && !d->items[j].given && other->name.len != 0 && replaces(limit, other->name);
        }
    }
    for (size_t i = 0; i < d->count; i++)
        if (dropped[i])
            d->items[i].match = NULL;
    return true;
}

/* --- charging ----------------------------------------------------------------------- */

uint64_t rn_descriptor_hits(const struct rn_descriptors *d, const struct ration_descriptor_ask *ask)
{
    if (ask->hits_given)
        return ask->hits;
    return d->request->hits != 0 ? d->request->hits : 1;
}

enum rn_descriptor_purpose rn_descriptor_purpose(const struct ration_descriptor_ask *ask)
{
    if (ask->refund)
        return RN_PURPOSE_REFUND;
    if (!ask->hits_given)
        return RN_PURPOSE_ADMIT;
    return ask->hits == 0 ? RN_PURPOSE_LOOK : RN_PURPOSE_USED;
}

void rn_descriptor_charge(struct rn_descriptors *d, size_t charge,
                          enum rn_descriptor_purpose purpose, uint64_t units)
{
    struct rn_gathered *g = &d->gathered;
    struct rn_transaction_item *item = &g->tx.items[charge];

    d->purposes[charge] = (uint8_t)purpose;
    d->units[charge] = units;
    g->charges[charge].cost = purpose == RN_PURPOSE_REFUND ? 0 : units;
    g->rules[g->rule_of[charge]].cost =
        purpose == RN_PURPOSE_REFUND || purpose == RN_PURPOSE_LOOK ? 0 : units;
    item->past_lines = purpose != RN_PURPOSE_ADMIT;
    if (purpose != RN_PURPOSE_LOOK)
        return;
    item->by_outcome = true;
    item->max_wait_ns = 0; /* a look does not wait */
}

static void add_one(struct rn_descriptors *d, size_t at)
{
    struct rn_descriptor *item = &d->items[at];
    struct rn_gathered *g = &d->gathered;
    enum rn_descriptor_purpose purpose = rn_descriptor_purpose(item->ask);
    uint64_t hits = purpose == RN_PURPOSE_LOOK ? 1 : rn_descriptor_hits(d, item->ask);
    uint64_t cost = purpose == RN_PURPOSE_LOOK || purpose == RN_PURPOSE_REFUND ? 0 : hits;
    struct rn_applied *applied = rn_gather_next(g);
    size_t before = g->tx.n;

    if (item->given) {
        struct rn_given_limit *given = &d->given[at];

        rn_descriptors_given_init(given, g->book, item, domain_of(d));
        *applied = (struct rn_applied){.rule = given->limit.rule,
                                       .limits = &given->list,
                                       .limit_count = 1,
                                       .instead = &given->compiled,
                                       .key = item->parts,
                                       .key_count = item->part_count,
                                       .cost = cost};
    } else if (item->match && item->match->rule) {
        *applied = rn_applied_of_envoy(item->match, item->parts, item->part_count, cost);
    } else {
        return;
    }
    applied->refund = purpose == RN_PURPOSE_REFUND;
    applied->late = purpose == RN_PURPOSE_USED;
    rn_gather_add(g);
    item->unlimited |= g->tx.n == before;
    if (g->tx.n == before)
        return;
    item->charge = (uint8_t)before;
    item->charges |= UINT64_C(1) << before;
    rn_descriptor_charge(d, before, purpose, hits);
}

/* A limit in shadow mode never refuses, by itself or with others. */
bool rn_descriptor_is_quota(const struct rn_descriptors *d, const struct rn_descriptor *item)
{
    const struct rn_envoy_limit *match = item->given ? NULL : item->match;

    return item->charge != RN_NO_CHARGE && match && match->rule && !match->shadow_mode &&
           !match->rule->shadow && (match->quota_mode || d->request->quota_mode);
}

/* Without room anywhere all stay as they are, and refuse. */
static void choose_quota(struct rn_descriptors *d)
{
    struct rn_gathered *g = &d->gathered;
    size_t enforced = d->count, quotas = 0;

    for (size_t i = 0; i < d->count; i++)
        quotas += rn_descriptor_is_quota(d, &d->items[i]);
    if (quotas < 2)
        return;
    g->tx.now_ns = rn_limiter_now(g->r, g->tx.now_ns);
    for (size_t i = 0; i < d->count && enforced == d->count; i++) {
        size_t at = d->items[i].charge;
        struct rn_charge peek = {.ask = {.op = RN_PEEK, .now_ns = g->tx.now_ns}};
        int64_t unread;

        if (!rn_descriptor_is_quota(d, &d->items[i]))
            continue;
        peek.ask.cost = g->charges[at].cost;
        if (rn_lines_any(g->r->lines) && rn_gate_is_held(&g->tx, at, &unread))
            continue; /* others have that room */
        if (rn_limiter_apply(g->r, g->tx.items[at].limit, g->tx.items[at].key, &peek) == 0 &&
            peek.answer.allowed)
            enforced = i;
    }
    for (size_t i = 0; i < d->count && enforced < d->count; i++)
        if (rn_descriptor_is_quota(d, &d->items[i]) && i != enforced)
            g->tx.items[d->items[i].charge].shadow = true;
}

/* Adds the units of a charge to the usage of its rule, or takes them away; once for all limits of
 * the rule, which lie together. */
static void adjust_usage(const struct rn_gathered *g, size_t charge, bool away, uint64_t units)
{
    const struct rn_applied *a = &g->rules[g->rule_of[charge]];
    struct rn_usage_rule *usage = rn_usage_of(g->book, a->rule);
    int64_t signed_units = units < INT64_MAX ? (int64_t)units : INT64_MAX;

    if (usage && (charge == 0 || g->rule_of[charge - 1] != g->rule_of[charge]))
        rn_usage_adjust(usage, a->hash, away ? -signed_units : signed_units,
                        g->tx.now_ns + rn_table_wall_offset(g->r->table, g->tx.now_ns));
}

/* What a refund leaves takes the place of what was there before it. */
static int refund_all(struct rn_descriptors *d)
{
    struct rn_gathered *g = &d->gathered;
    int code = 0;

    for (size_t i = 0; i < g->tx.n && code == 0; i++) {
        struct rn_transaction_item *charged = &g->tx.items[i];
        struct rn_charge peek = {.ask = {.op = RN_PEEK, .now_ns = g->tx.now_ns}};

        if (d->purposes[i] != RN_PURPOSE_REFUND)
            continue;
        code = rn_state_credit(g->r, charged, d->units[i], g->tx.now_ns);
        if (code == 0)
            adjust_usage(g, i, true, d->units[i]);
        if (code == 0)
            code = rn_limiter_apply(g->r, charged->limit, charged->key, &peek);
        if (code == 0)
            rn_verdict_set(&g->charges[i].verdict, charged->limit, &peek.answer);
    }
    return code;
}

/* --- the outcome -------------------------------------------------------------------- */

/* The delay is the longest of the limits that were charged. That of a queue is not longer than the
 * caller would wait; a throttled request goes ahead then. */
static void fill(struct rn_descriptors *d, const struct ration_outcome *o,
                 struct ration_descriptors_outcome *out)
{
    const struct rn_gathered *g = &d->gathered;
    int decider = g->tx.n ? g->tx.decision.decided_by : -1;

    out->allowed = o->decision.allowed;
    out->shadowed = o->shadow_refused;
    out->decided_by = -1;
    for (size_t i = d->count; i-- > 0 && decider >= 0;)
        if (d->items[i].charges >> decider & 1)
            out->decided_by = (int)i;
    out->delay_ns = 0;
    for (size_t i = 0; i < g->tx.n && out->allowed && !g->all_shadow; i++)
        if (g->charges[i].taken != 0 && !g->tx.items[i].shadow &&
            g->charges[i].verdict.delay_ns > out->delay_ns)
            out->delay_ns = g->charges[i].verdict.delay_ns;
    if (g->max_wait_ns > 0 && out->delay_ns > g->max_wait_ns)
        out->delay_ns = g->max_wait_ns;
    out->count = d->count;
    for (size_t i = 0; i < d->count; i++)
        rn_descriptors_status_fill(&out->statuses[i], d, i);
    out->at_ns = o->at_ns;
    out->waited_ns = o->waited_ns;
    out->receipt_count = out->delay_ns > 0 || d->request->waiter ? o->receipt_count : 0;
    for (uint32_t i = 0; i < out->receipt_count; i++)
        out->receipts[i] = o->receipts[i];
}

/* For the descriptors that have passed, in their order: routing by quota takes the first. */
static void report_metadata(const struct rn_descriptors *d,
                            const struct ration_descriptors_outcome *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct rn_envoy_limit *limit = d->items[i].given ? NULL : d->items[i].match;
        uint32_t count = limit && !out->statuses[i].over ? limit->metadata_count : 0;

        for (uint32_t m = 0; m < count; m++) {
            const struct rn_envoy_metadata *from = &limit->metadata[m];

            d->request->metadata(d->request->arg,
                                 &(struct ration_metadata){from->key.data, from->key.len,
                                                           from->value.data, from->value.len,
                                                           from->text});
        }
    }
}

/* Charges, each by itself, what was used and did not fit. The outcome has been filled in, so the
 * transaction can be used again. */
static void debit_late(struct rn_descriptors *d, struct ration_descriptors_outcome *out)
{
    struct rn_gathered *g = &d->gathered;
    struct {
        size_t charge;
        const struct rn_compiled *limit;
        uint64_t key;
        int64_t shift_ns;
    } late[RATION_CHARGES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < g->tx.n; i++)
        if (d->purposes[i] == RN_PURPOSE_USED && g->charges[i].taken == 0) {
            late[count].charge = i;
            late[count].limit = g->tx.items[i].limit;
            late[count].key = g->tx.items[i].key;
            late[count++].shift_ns = g->tx.items[i].shift_ns;
        }
    if (rn_likely(count == 0))
        return;
    rn_charge_later_begin(&g->tx, g->r, g->charges, g->tx.now_ns);
    for (size_t i = 0; i < count; i++)
        rn_transaction_add(&g->tx, late[i].limit, late[i].key, d->units[late[i].charge])->shift_ns =
            late[i].shift_ns;
    (void)rn_charge_later_finish(&g->tx, g->book);
    for (size_t i = 0; i < count; i++) {
        const struct rn_applied *applied = &g->rules[g->rule_of[late[i].charge]];

        if (g->charges[i].error != 0)
            continue;
        for (size_t k = 0; k < d->count; k++)
            if (d->items[k].reported == late[i].charge)
                out->statuses[k].remaining =
                    rn_descriptors_status_clip(g->charges[i].verdict.remaining);
        if (applied->rule->values)
            rn_value_stats_add(g->book, applied->rule, applied->key, true, 0,
                               d->units[late[i].charge]);
        adjust_usage(g, late[i].charge, false, d->units[late[i].charge]);
    }
}

/* --- refusals by a list or a ban ----------------------------------------------------- */

/* `o` is a refusal because of descriptor `at`. */
static void refuse_by(struct rn_descriptors *d, size_t at, int64_t left_ns,
                      const struct ration_outcome *o, struct ration_descriptors_outcome *out)
{
    for (size_t i = 0; i < d->count; i++) {
        d->items[i].match = NULL;
        d->items[i].unlimited = false;
        d->items[i].charge = RN_NO_CHARGE;
    }
    fill(d, o, out);
    out->decided_by = (int)at;
    out->statuses[at].over = !out->allowed;
    out->statuses[at].reset_ns = left_ns;
}

/* One banned descriptor refuses the request, whatever the others say; an `allow` beats a ban. */
static bool decide_by_ban(struct rn_descriptors *d, struct ration_outcome *o,
                          struct ration_descriptors_outcome *out)
{
    struct rn_gathered *g = &d->gathered;
    const struct rn_ban *ban = NULL;
    int64_t left_ns = 0;
    size_t at = 0;

    for (; at < d->count && !ban; at++) {
        const struct ration_descriptor_ask *ask = d->items[at].ask;
        struct ration_request request = {.attributes = d->attributes};

        if (d->items[at].allowed)
            continue;
        request.count =
            rn_descriptor_attributes(domain_of(d), ask->entries, ask->count, d->attributes);
        ban = rn_ban_find(g->r, g->book, NULL, &request, g->tx.now_ns, &left_ns);
    }
    if (!ban)
        return false;
    rn_descriptors_drop_native(d);
    rn_gather_by_ban(g, (struct rn_slice){ban->reason, ban->reason_len}, left_ns, false, o);
    refuse_by(d, at - 1, left_ns, o, out);
    return true;
}

/* A client that rule number `by` has banned, or that is paused under it, for left_ns more. */
static int decide_by_rule(struct rn_descriptors *d, uint32_t by, int64_t left_ns,
                          struct ration_outcome *o, struct ration_descriptors_outcome *out)
{
    struct rn_gathered *g = &d->gathered;
    const struct rn_rule *rule = g->rules[by].rule;
    uint64_t charges = 0;
    size_t at = 0;

    for (size_t i = 0; i < g->tx.n; i++)
        charges |= (uint64_t)(g->rule_of[i] == by) << i;
    while (at + 1 < d->count && !(d->items[at].charges & charges))
        at++;
    int code = rn_gather_run(g, false, o);

    if (code != 0)
        return code;
    rn_descriptors_drop_native(d);
    refuse_by(d, at, left_ns, o, out);
    rn_slice_copy(out->statuses[at].rule, sizeof out->statuses[at].rule, rule->name);
    rn_slice_copy(out->statuses[at].name, sizeof out->statuses[at].name, rule->name);
    return 0;
}

/* --- deciding ----------------------------------------------------------------------- */

/* What a report must charge cannot wait. */
static void set_waiter(struct rn_descriptors *d)
{
    struct rn_transaction *tx = &d->gathered.tx;

    for (size_t i = 0; i < tx->n; i++)
        if (d->purposes[i] != RN_PURPOSE_ADMIT)
            return;
    tx->waiter = d->request->waiter;
    tx->max_wait_ns = d->gathered.max_wait_ns;
    tx->wait_is_bound = true;
}

static int decide(struct rn_descriptors *d, struct ration_descriptors_outcome *out)
{
    struct rn_gathered *g = &d->gathered;
    struct ration_outcome o;

    if (!match_all(d, g->book->ruleset))
        return RATION_EINVAL;
    size_t denied = g->book->ruleset->apply_to_envoy ? rn_descriptors_add_native(d) : d->count;

    if (denied < d->count) {
        rn_gather_by_list(g, RN_MATCH_DENIED, false, &o);
        refuse_by(d, denied, RATION_NEVER, &o, out);
        return 0;
    }
    if (rn_unlikely(rn_book_client_index(g->book) != NULL) && decide_by_ban(d, &o, out))
        return 0;
    if (rn_unlikely(g->ban.rest_ns != 0) && !g->all_shadow)
        return decide_by_rule(d, g->banned_by, g->ban.rest_ns, &o, out);
    for (size_t i = 0; i < d->count; i++)
        add_one(d, i);
    set_waiter(d);
    if (rn_unlikely(g->pause_ns != 0) && !g->all_shadow)
        return decide_by_rule(d, g->paused_by, g->pause_ns, &o, out);
    choose_quota(d);
    int code = rn_gather_run(g, false, &o);

    if (code == 0 && o.decision.allowed)
        code = refund_all(d);
    if (code == 0) {
        fill(d, &o, out);
        if (d->request->metadata)
            report_metadata(d, out);
        debit_late(d, out);
    }
    return code;
}

int ration_decide_descriptors(struct ration *r, const struct ration_descriptors *request,
                              int64_t now_ns, struct ration_descriptors_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    int code = 0;

    if (rn_gate_is_awaited(request->waiter))
        return RATION_EWAITS;
    if (request->domain_len == 0 || request->count == 0 || request->count > RATION_DESCRIPTORS_MAX)
        return rn_gate_fail(r, request->waiter, RATION_EINVAL, now_ns);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return rn_gate_fail(r, request->waiter, RATION_ENOMEM, now_ns);
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (pin.book) {
        struct rn_descriptors *d = &w->descriptors;

        d->request = request;
        d->matches = &w->matches;
        d->attributes = w->attributes;
        rn_gather_init(&d->gathered, r, pin.book, now_ns);
        d->gathered.max_wait_ns = rn_transaction_patience_ns(request->max_wait_ns);
        code = decide(d, out);
    } else { /* without rules every domain is unknown */
        out->allowed = true;
        out->shadowed = false;
        out->decided_by = -1;
        out->delay_ns = out->waited_ns = out->at_ns = 0;
        out->receipt_count = 0;
        out->count = request->count;
        for (size_t i = 0; i < request->count; i++)
            out->statuses[i] = (struct ration_descriptor_status){0};
        rn_stats_count_total(s, RN_RESULT_ALLOWED | RN_RESULT_UNMATCHED);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    if (rn_unlikely(request->waiter != NULL)) {
        int64_t waited_ns =
            rn_gate_end_turn(r, request->waiter, code, code == 0 && out->allowed, now_ns);

        if (code == 0 && waited_ns != 0)
            out->waited_ns = waited_ns;
    }
    return code;
}

int ration_descriptors_give_back(struct ration *r, struct ration_descriptors_outcome *out,
                                 int64_t now_ns)
{
    uint32_t count = out->receipt_count;

    out->receipt_count = 0;
    return rn_receipt_give_back(r, out->receipts, count, out->at_ns, 0, rn_limiter_now(r, now_ns));
}
