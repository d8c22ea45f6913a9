/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request or an Envoy descriptor to the rules that apply.
 */
#include "limiter/clients/client_index.h"
#include "limiter/decide/fast_path.h"
#include "limiter/decide/gather.h"
#include "limiter/decide/workspace.h"
#include "limiter/envoy/descriptors.h"
#include "limiter/limiter.h"
#include "rules/envoy/envoy.h"

/* What is decided on. */
struct scene {
    struct ration *r;
    const struct rn_book *book;
    const struct ration_request *request;
    int64_t now_ns; /* may be RATION_NOW */
    struct rn_workspace *workspace;
};

static void add_matches(struct rn_gathered *g, const struct rn_matches *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const struct rn_match *match = &m->items[i];

        if (rn_unlikely(g->no_server) && !rn_fallback_is_local(match->rule))
            continue;
        *rn_gather_next(g) = rn_applied_of(match);
        rn_gather_add(g);
    }
}

/* Whether the client is banned; `out` says so. */
static inline bool rule_by_ban(struct rn_gathered *g, struct rn_values *values,
                               const struct ration_request *request, bool look_only,
                               struct ration_outcome *out)
{
    const struct rn_client_index *index = rn_book_client_index(g->book);
    int64_t left_ns;
    const struct rn_ban *ban =
        index ? rn_ban_find(g->r, index, values, request, g->tx.now_ns, &left_ns) : NULL;

    for (uint32_t n = 1; index && !ban && values && n < values->paths.count; n++) {
        rn_values_read_as(g->book->ruleset, values, n);
        ban = rn_ban_find(g->r, index, values, request, g->tx.now_ns, &left_ns);
    }
    if (!ban)
        return false;
    rn_gather_by_ban(g, (struct rn_slice){ban->reason, ban->reason_len}, left_ns, look_only, out);
    return true;
}

static int rule_on_matches(struct rn_gathered *g, struct rn_matches *matches,
                           const struct ration_request *request, bool look_only,
                           struct ration_outcome *out)
{
    switch (matches->outcome) {
    case RN_MATCH_LIMITS:
    case RN_MATCH_TOO_MANY:
        break;
    case RN_MATCH_ALLOWED:
        rn_gather_by_list(g, RATION_BY_ALLOW_LIST, look_only, out);
        return 0;
    case RN_MATCH_DENIED:
        rn_gather_by_list(g, RATION_BY_DENY_LIST, look_only, out);
        return 0;
    }
    if (rule_by_ban(g, &matches->values, request, look_only, out))
        return 0;
    const struct rn_rule *refuser = rn_unlikely(g->no_server) ? rn_fallback_refuser(matches) : NULL;

    if (refuser) {
        rn_gather_by_rule(g, refuser, look_only, out);
        return 0;
    }
    if (matches->outcome == RN_MATCH_TOO_MANY)
        g->error = RATION_EINVAL;
    else
        add_matches(g, matches);
    return rn_gather_run(g, look_only, out);
}

/* Without rules nothing applies. */
static int allow_all(struct rn_stripe *s, bool look_only, struct ration_outcome *out)
{
    rn_outcome_init(out, RATION_BY_NO_RULE);
    if (!look_only)
        rn_stats_unmatched(s);
    return 0;
}

/* --- Envoy ------------------------------------------------------------------------------ */

static const struct rn_envoy_limit *match_descriptor(const struct rn_ruleset *ruleset,
                                                     const struct ration_descriptor *d,
                                                     struct rn_slice *parts, uint32_t *part_count)
{
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX];

    if (d->count > RN_ENVOY_DEPTH_MAX)
        return NULL;
    for (size_t i = 0; i < d->count; i++) {
        const struct ration_descriptor_entry *e = &d->entries[i];

        entries[i] = (struct rn_envoy_entry){{e->key, e->key_len}, {e->value, e->value_len}};
    }
    return rn_envoy_match(ruleset, (struct rn_slice){d->domain, d->domain_len}, entries, d->count,
                          parts, part_count);
}

/* What is asked for with no hits is only looked at. */
static void add_native(struct rn_gathered *g, const struct rn_matches *matches, uint64_t hits)
{
    if (matches->outcome == RN_MATCH_TOO_MANY)
        g->error = RATION_EINVAL;
    for (uint32_t i = 0; i < matches->count; i++) {
        if (!matches->items[i].rule->for_envoy)
            continue;
        *rn_gather_next(g) = rn_applied_of(&matches->items[i]);
        if (hits == 0)
            rn_gather_next(g)->cost = 0;
        rn_gather_add(g);
    }
}

static int rule_on_descriptor(struct rn_workspace *w, const struct ration_descriptor *d,
                              struct ration_outcome *out)
{
    struct rn_gathered *g = &w->gathered;
    struct rn_matches *matches = &w->matches;
    struct ration_request request = {.attributes = w->attributes, .cost = d->hits};

    matches->outcome = RN_MATCH_LIMITS;
    matches->count = 0;
    if (d->count > RN_DESCRIPTOR_ENTRIES_MAX)
        return RATION_EINVAL;
    request.count = rn_descriptor_attributes((struct rn_slice){d->domain, d->domain_len},
                                             d->entries, d->count, w->attributes);
    if (g->book->ruleset->apply_to_envoy)
        rn_match_request(g->book->ruleset, &request, matches);
    if (matches->outcome == RN_MATCH_ALLOWED || matches->outcome == RN_MATCH_DENIED) {
        rn_gather_by_list(
            g, matches->outcome == RN_MATCH_DENIED ? RATION_BY_DENY_LIST : RATION_BY_ALLOW_LIST,
            d->hits == 0, out);
        return 0;
    }
    if (rule_by_ban(g, NULL, &request, d->hits == 0, out))
        return 0;
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t part_count = 0;
    const struct rn_envoy_limit *e = match_descriptor(g->book->ruleset, d, parts, &part_count);

    if (e && e->rule) {
        *rn_gather_next(g) =
            (struct rn_applied){.rule = e->rule,
                                .limits = e->limit ? e->rule->tiers[0].limits : NULL,
                                .limit_count = e->limit != NULL,
                                .key = parts,
                                .key_count = part_count,
                                .cost = d->hits,
                                .shadow = e->shadow_mode || e->rule->shadow};
        rn_gather_add(g);
    }
    add_native(g, matches, d->hits);
    int code = rn_gather_run(g, false, out);

    if (code == 0 && e && e->unlimited && g->tx.n == 0)
        out->decision.verdict.limit = out->decision.verdict.remaining = UINT32_MAX;
    return code;
}

/* --- requests ---------------------------------------------------------------------------- */

static void read_terms(const struct rn_gathered *g, struct rn_terms *terms)
{
    for (size_t i = 0; i < g->tx.n; i++) {
        terms->charge_flags |= g->tx.items[i].limit->charge_flags;
        if (g->charges[i].cost > terms->reserved)
            terms->reserved = g->charges[i].cost;
    }
}

static RN_ASIDE int decide_at_length(const struct scene *s, struct rn_terms *terms,
                                     struct ration_outcome *out)
{
    struct rn_gathered *g = &s->workspace->gathered;
    int code;

    rn_gather_init(g, s->r, s->book, s->now_ns);
    g->max_wait_ns = s->request->max_wait_ns;
    g->lease_ns = terms->lease_ns;
    g->all_shadow |= s->request->shadow;
    g->no_server = terms->no_server;
    g->drain = s->request->drain;
    code = rule_on_matches(g, &s->workspace->matches, s->request, terms->look_only, out);
    if (terms->reserving)
        read_terms(g, terms);
    return code;
}

/* Whether nothing but the limits that apply has to be minded. */
static bool is_ordinary(const struct scene *s, const struct rn_terms *terms)
{
    return !terms->look_only && !terms->no_server && !terms->reserving && !s->request->shadow &&
           !s->r->fallback && !rn_book_client_index(s->book) && !rn_gather_is_shadow(s->r, s->book);
}

RN_HOT static int rule_on_request(const struct scene *s, struct rn_terms *terms,
                                  struct ration_outcome *out)
{
    struct rn_matches *matches = &s->workspace->matches;
    const struct rn_compiled *fast_path;

    rn_match_request(s->book->ruleset, s->request, matches);
    fast_path = rn_likely(is_ordinary(s, terms)) ? rn_fast_path_find(s->book, matches) : NULL;
    if (rn_likely(fast_path != NULL) &&
        rn_fast_path_admit(s->r, s->book, &matches->items[0], fast_path, s->now_ns, out))
        return 0;
    return decide_at_length(s, terms, out);
}

RN_HOT int rn_gather_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                            struct rn_terms *terms, struct ration_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (rn_unlikely(!w))
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    int code = pin.book
                   ? rule_on_request(&(struct scene){r, pin.book, request, now_ns, w}, terms, out)
                   : allow_all(s, terms->look_only, out);

    terms->decided = code == 0;
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
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
    int code;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (pin.book) {
        rn_gather_init(&w->gathered, r, pin.book, now_ns);
        code = rule_on_descriptor(w, descriptor, out);
    } else {
        code = allow_all(s, false, out);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}
