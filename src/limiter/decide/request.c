/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request or an Envoy descriptor to the rules that apply.
 */
#include "limiter/clients/client_index.h"
#include "limiter/decide/fast_path.h"
#include "limiter/decide/gather.h"
#include "limiter/decide/workspace.h"
#include "limiter/effect/effect.h"
#include "limiter/effect/uncovered.h"
#include "limiter/envoy/descriptors.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "rules/envoy/envoy.h"

/* One decision. */
struct decision_input {
    struct ration *r;
    const struct rn_book *book;
    const struct ration_request *request;
    int64_t now_ns; /* may be RATION_NOW */
    struct rn_workspace *workspace;
};

/* Whether the client is banned; `out` says so. */
static inline bool refuse_if_banned(struct rn_gathered *g, struct rn_values *values,
                                    const struct ration_request *request, bool look_only,
                                    struct ration_outcome *out)
{
    int64_t left_ns;
    const struct rn_ban *ban = rn_ban_find(g->r, g->book, values, request, g->tx.now_ns, &left_ns);

    if (!ban)
        return false;
    rn_gather_by_ban(g, (struct rn_slice){ban->reason, ban->reason_len}, left_ns, look_only, out);
    return true;
}

static void add_matches(struct rn_gathered *g, const struct rn_matches *matches, bool for_envoy,
                        bool only_look)
{
    if (matches->outcome == RN_MATCH_TOO_MANY)
        g->error = RATION_EINVAL;
    for (uint32_t i = 0; i < matches->count && g->error == 0; i++) {
        const struct rn_match *match = &matches->items[i];

        if ((rn_unlikely(g->no_server) && !rn_fallback_is_local(match->rule)) ||
            (for_envoy && !match->rule->for_envoy))
            continue;
        *rn_gather_next(g) = rn_applied_of(match);
        if (only_look)
            rn_gather_next(g)->cost = 0;
        rn_gather_add(g);
    }
}

/* The usage of rules that were not asked: a ban refused the request, or the server does not answer
 * and `on_store_failure: allow` admits it (`unasked`). */
static RN_ASIDE void count_usage(const struct rn_gathered *g, const struct rn_matches *matches,
                                 bool unasked, bool allowed)
{
    int64_t wall_ns = ration_wall(g->r, g->tx.now_ns);

    for (uint32_t i = 0; i < matches->count; i++) {
        const struct rn_match *match = &matches->items[i];
        struct rn_usage_rule *usage = rn_usage_of(g->book, match->rule);
        struct rn_applied applied = rn_applied_of(match);

        if (usage && !match->rule->by_outcome && !(unasked && rn_fallback_is_local(match->rule)))
            rn_usage_count(usage, &applied, rn_gather_hash(&applied, &usage->base), allowed,
                           match->cost, wall_ns);
    }
}

void rn_gather_count_unasked(struct ration *r, const struct rn_book *book,
                             const struct rn_applied *a, uint64_t hash, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_counts *row = rn_stats_row(rn_stats_stripe(&book->stats), a->rule->index);
    struct rn_usage_rule *usage = rn_usage_of(book, a->rule);

    rn_stats_count(s, row, RN_RESULT_REFUSED, a->rule->by_outcome ? 0 : a->cost);
    rn_gather_note_refusal(r, s, a, hash, now_ns);
    rn_stats_count_total(s, RN_RESULT_REFUSED);
    if (book->effects)
        rn_effect_refuse(book->effects, a->rule, hash);
    if (usage && !a->rule->by_outcome)
        rn_usage_count(usage, a, hash, false, a->cost, ration_wall(r, now_ns));
}

static int decide_matches(struct rn_gathered *g, struct rn_matches *matches,
                          const struct ration_request *request, bool look_only,
                          struct ration_outcome *out)
{
    if (matches->outcome == RN_MATCH_ALLOWED || matches->outcome == RN_MATCH_DENIED) {
        rn_gather_by_list(g, matches->outcome, look_only, out);
        return 0;
    }
    bool counts = g->book->usage != NULL && !look_only && matches->outcome == RN_MATCH_LIMITS;

    if (refuse_if_banned(g, &matches->values, request, look_only, out)) {
        if (rn_unlikely(counts))
            count_usage(g, matches, false, out->decision.allowed);
        return 0;
    }
    const struct rn_rule *refuser = rn_unlikely(g->no_server) ? rn_fallback_refuser(matches) : NULL;

    if (refuser) {
        rn_gather_by_rule(g, refuser, look_only, out);
        return 0;
    }
    add_matches(g, matches, false, false);
    int code = rn_gather_run(g, look_only, out);

    if (code == 0 && out->kind == RATION_BY_NO_RULE && g->r->uncovered && !look_only)
        rn_uncovered_note(g->r->uncovered, request, rn_stats_stripe(&g->r->stats));
    if (rn_unlikely(g->no_server) && counts && code == 0 && out->decision.allowed)
        count_usage(g, matches, true, true);
    return code;
}

/* --- Envoy ------------------------------------------------------------------------------ */

static int decide_descriptor(struct rn_workspace *w, const struct ration_descriptor *d,
                             struct ration_outcome *out)
{
    struct rn_gathered *g = &w->gathered;
    struct rn_matches *matches = &w->matches;
    struct rn_slice domain = {d->domain, d->domain_len}, parts[RN_ENVOY_PARTS_MAX];
    struct ration_request request = {.attributes = w->attributes, .cost = d->hits};
    uint32_t part_count = 0;

    matches->outcome = RN_MATCH_LIMITS;
    matches->count = 0;
    if (d->count > RN_DESCRIPTOR_ENTRIES_MAX)
        return RATION_EINVAL;
    request.count = rn_descriptor_attributes(domain, d->entries, d->count, w->attributes);
    if (g->book->ruleset->apply_to_envoy)
        rn_match_request(g->book->ruleset, &request, matches);
    if (matches->outcome == RN_MATCH_ALLOWED || matches->outcome == RN_MATCH_DENIED) {
        rn_gather_by_list(g, matches->outcome, d->hits == 0, out);
        return 0;
    }
    if (refuse_if_banned(g, NULL, &request, d->hits == 0, out))
        return 0;
    const struct rn_envoy_limit *e =
        rn_descriptor_match(g->book->ruleset, domain, d->entries, d->count, parts, &part_count);

    if (e && e->rule) {
        *rn_gather_next(g) = rn_applied_of_envoy(e, parts, part_count, d->hits);
        rn_gather_add(g);
    }
    add_matches(g, matches, true, d->hits == 0);
    int code = rn_gather_run(g, false, out);

    if (code == 0 && e && e->unlimited && g->tx.n == 0)
        out->decision.verdict.limit = out->decision.verdict.remaining = UINT32_MAX;
    return code;
}

/* --- requests ---------------------------------------------------------------------------- */

static RN_ASIDE int decide_at_length(const struct decision_input *s, struct rn_terms *terms,
                                     struct ration_outcome *out)
{
    struct rn_gathered *g = &s->workspace->gathered;
    int code;

    rn_gather_init(g, s->r, s->book, s->now_ns);
    g->max_wait_ns = rn_transaction_patience_ns(s->request->max_wait_ns);
    g->lease_ns = terms->lease_ns;
    g->all_shadow |= s->request->shadow;
    g->no_server = terms->no_server;
    g->drain = s->request->drain;
    if (g->drain)
        g->room = 1;
    if (!terms->look_only && !s->request->drain) {
        g->tx.waiter = s->request->waiter;
        g->tx.max_wait_ns = g->max_wait_ns;
    }
    code = decide_matches(g, &s->workspace->matches, s->request, terms->look_only, out);
    for (size_t i = 0; terms->reserving && i < g->tx.n; i++) {
        terms->charge_flags |= g->tx.items[i].limit->charge_flags;
        if (g->charges[i].cost > terms->reserved)
            terms->reserved = g->charges[i].cost;
    }
    return code;
}

/* Whether the waiter of a request may have to do with its decision. One that is new, and waits only
 * where the rules say so, has not: no rule on the fast path has a line. */
static inline bool has_turn(const struct ration_request *request)
{
    return request->waiter && (request->max_wait_ns != 0 || rn_lines_waits(request->waiter));
}

RN_INLINE static int decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                            struct rn_terms *terms, struct ration_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    int code = 0;

    if (rn_unlikely(!w))
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (rn_likely(pin.book != NULL)) {
        rn_match_request(pin.book->ruleset, request, &w->matches);
        bool turn = has_turn(request);
        bool special = terms->look_only | terms->no_server | terms->reserving | request->shadow |
                       request->drain | turn | rn_gather_is_shadow(r, pin.book);

        if (rn_unlikely(special) || rn_unlikely(!rn_limiter_is_local(r)) ||
            !rn_fast_path_decide(r, pin.book, request, &w->matches, now_ns, out))
            code = decide_at_length(&(struct decision_input){r, pin.book, request, now_ns, w},
                                    terms, out);
    } else {
        rn_gather_without_rules(s, terms->look_only, out);
    }
    terms->decided = code == 0;
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

/* The turn of the waiter ends with the decision, whatever that is. */
static RN_ASIDE int decide_waiter(struct ration *r, const struct ration_request *request,
                                  int64_t now_ns, struct rn_terms *terms,
                                  struct ration_outcome *out)
{
    if (rn_gate_is_awaited(request->waiter))
        return RATION_EWAITS;
    now_ns = rn_limiter_now(r, now_ns);
    int code = decide(r, request, now_ns, terms, out);
    bool admitted = code == 0 && out->decision.allowed;
    int64_t waited_ns = rn_gate_end_turn(r, request->waiter, code, admitted, now_ns);

    if (code == 0 && waited_ns != 0)
        out->waited_ns = waited_ns;
    return code;
}

RN_HOT int rn_gather_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                            struct rn_terms *terms, struct ration_outcome *out)
{
    if (rn_unlikely(request->waiter != NULL) && !terms->look_only)
        return decide_waiter(r, request, now_ns, terms, out);
    return decide(r, request, now_ns, terms, out);
}

RN_HOT int ration_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                         struct ration_outcome *out)
{
    return rn_gather_decide(r, request, now_ns, &(struct rn_terms){0}, out);
}

int ration_decide_peek(struct ration *r, const struct ration_request *request, int64_t now_ns,
                       struct ration_outcome *out)
{
    return rn_gather_decide(r, request, now_ns, &(struct rn_terms){.look_only = true}, out);
}

int ration_decide_descriptor(struct ration *r, const struct ration_descriptor *descriptor,
                             int64_t now_ns, struct ration_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    int code = 0;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (pin.book) {
        rn_gather_init(&w->gathered, r, pin.book, now_ns);
        code = decide_descriptor(w, descriptor, out);
    } else {
        rn_gather_without_rules(s, false, out);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}
