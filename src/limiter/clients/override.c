/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides under a book: from what an operator wrote to the key of a rule and
 * a compiled limit, so that a decision finds it with the hash it has anyway.
 */
#include <stdlib.h>

#include "base/error.h"
#include "limiter/clients/client_index.h"
#include "limiter/factor.h"
#include "rules/envoy/tree_internal.h"

/* --- the key ------------------------------------------------------------------------- */

/* The parts of the key in the order in which gather.c hashes them. */
struct parts {
    struct ration_part items[RN_ENVOY_PARTS_MAX + RN_KEY_PARTS_MAX];
    size_t count;
};

static void add_part(struct parts *parts, struct rn_slice text)
{
    parts->items[parts->count++] = (struct ration_part){text.data, text.len};
}

static int spell_address(const struct rn_rule *rule, const struct rn_key_part *part,
                         struct rn_client_attribute *a, char text[RN_CIDR_TEXT],
                         struct ration_error *error)
{
    struct rn_cidr cidr;
    int code = rn_cidr_parse(a->value.data, a->value.len, &cidr, error);

    if (code != 0)
        return code;
    uint8_t prefix = cidr.network.bits == 32 ? part->ipv4_prefix : part->ipv6_prefix;

    prefix = prefix < cidr.network.bits ? prefix : cidr.network.bits;
    if (cidr.prefix != cidr.network.bits && cidr.prefix != prefix)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s where rule \"%.*s\" counts by /%u; write an address or such a "
                            "network",
                            rn_error_quote(a->value.data, a->value.len, 0).text,
                            (int)rule->name.len, rule->name.data, prefix);
    cidr.network = rn_ip_mask(cidr.network, prefix);
    cidr.prefix = prefix;
    a->value =
        (struct rn_slice){text, prefix < cidr.network.bits ? rn_cidr_write(&cidr, text)
                                                           : rn_ip_write(&cidr.network, text)};
    return 0;
}

/* Which of the given attributes is one of the part's; count: none. */
static uint32_t find_given(const struct rn_ruleset *ruleset, const struct rn_key_part *part,
                           const struct rn_client *client, uint16_t *number)
{
    for (uint8_t i = 0; i < part->count; i++)
        for (uint32_t k = 0; k < client->count; k++)
            if (rn_slice_equal(ruleset->attributes[part->attributes[i]].name,
                               client->attributes[k].name)) {
                *number = part->attributes[i];
                return k;
            }
    return client->count;
}

static int complain_of_key(const struct rn_rule *rule, struct rn_slice name, const char *what,
                           struct ration_error *error)
{
    return rn_error_set(error, RATION_EINVAL, 0,
                        "rule \"%.*s\": %s %s; give one attribute for each part of its key",
                        (int)rule->name.len, rule->name.data, what,
                        rn_error_quote(name.data, name.len, 0).text);
}

static int resolve_native(const struct rn_ruleset *ruleset, const struct rn_client *client,
                          struct rn_override_key *key, struct parts *parts,
                          struct ration_error *error)
{
    const struct rn_rule *rule = key->rule;
    bool used[RN_CLIENT_ATTRIBUTES_MAX] = {false};

    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];
        uint16_t number = part->attributes[0];
        uint32_t at = find_given(ruleset, part, client, &number);

        if (at == client->count)
            return complain_of_key(rule, ruleset->attributes[number].name, "its key needs", error);
        struct rn_client_attribute *a = &key->attributes[at];
        int code = ruleset->attributes[number].is_ip
                       ? spell_address(rule, part, a, key->texts[at], error)
                       : 0;

        if (rn_slice_is(ruleset->attributes[number].name, "path"))
            code = rn_client_spell_path(&a->value, &ruleset->paths, &key->paths, error);
        if (code != 0)
            return code;
        used[at] = true;
        if (part->count > 1)
            add_part(parts, a->name);
        add_part(parts, a->value);
    }
    for (uint32_t i = 0; i < client->count; i++)
        if (!used[i])
            return complain_of_key(rule, client->attributes[i].name, "its key has no room for",
                                   error);
    return 0;
}

static int resolve_envoy(const struct rn_ruleset *ruleset, const struct rn_client *client,
                         const struct rn_override_key *key, struct parts *parts,
                         struct ration_error *error)
{
    struct rn_envoy_entry entries[RN_CLIENT_ATTRIBUTES_MAX];
    struct rn_slice texts[RN_ENVOY_PARTS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < client->count; i++)
        entries[i] =
            (struct rn_envoy_entry){client->attributes[i].name, client->attributes[i].value};
    for (uint32_t d = 0; d < ruleset->domain_count; d++) {
        const struct rn_envoy_limit *e = rn_envoy_match(ruleset, ruleset->domains[d].name, entries,
                                                        client->count, texts, &count);

        if (!e || e->rule != key->rule)
            continue;
        for (uint32_t i = 0; i < count; i++)
            add_part(parts, texts[i]);
        return 0;
    }
    return rn_error_set(error, RATION_EINVAL, 0,
                        "rule \"%.*s\" is not the one for such a descriptor; give its entries in "
                        "order",
                        (int)key->rule->name.len, key->rule->name.data);
}

static struct rn_compiled base_of(const struct rn_rule *rule, const struct rn_hash_key *secret)
{
    struct rn_limit none;
    struct rn_compiled base;

    rn_limit_init(&none, &(struct ration_limit){.algorithm = RATION_UNLIMITED});
    rn_compiled_init_rule(&base, secret, rule->index,
                          &(struct rn_compiled_rule){.name = rule->name, .limit = &none});
    return base;
}

int rn_override_resolve(const struct rn_book *book, const struct rn_hash_key *secret,
                        const struct rn_client *client, struct rn_override_key *key,
                        struct ration_error *error)
{
    struct parts parts = {.count = 0};
    struct rn_compiled base;
    int code;

    key->rule = book ? rn_book_find(book, client->rule) : NULL;
    if (!key->rule)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "there is no rule %s; load it first, or name another",
                            rn_error_quote(client->rule.data, client->rule.len, 0).text);
    for (uint32_t i = 0; i < client->count; i++)
        key->attributes[i] = client->attributes[i];
    code = key->rule->envoy ? resolve_envoy(book->ruleset, client, key, &parts, error)
                            : resolve_native(book->ruleset, client, key, &parts, error);
    if (code != 0)
        return code;
    base = base_of(key->rule, secret);
    key->hash = rn_compiled_hash_parts(&base, parts.items, parts.count);
    return 0;
}

/* --- the limit ------------------------------------------------------------------------ */

/* Takes from the rule's own limits what the text of an override leaves open. From the last limit to
 * the first, which wins. */
static void refine(const struct rn_rule *rule, struct ration_limit *spec)
{
    bool bare_rate =
        spec->algorithm == RATION_TOKEN_BUCKET && spec->burst == 0 && spec->step_ns == 0;

    for (uint32_t t = rule->tier_count; t-- > 0;)
        for (uint32_t i = rule->tiers[t].limit_count; i-- > 0;) {
            const struct ration_limit *own = &rule->tiers[t].limits[i]->spec;

            if (spec->algorithm == RATION_CONCURRENCY && own->algorithm == RATION_CONCURRENCY)
                spec->lease_ns = own->lease_ns;
            bool may_burst = own->own && spec->algorithm == RATION_TOKEN_BUCKET;

            if ((!bare_rate && !may_burst) || own->algorithm == RATION_CONCURRENCY ||
                own->calendar != RATION_CALENDAR_NONE || own->queue != 0)
                continue;
            spec->algorithm = own->algorithm;
            spec->own = own->own;
            spec->sub_windows = own->sub_windows;
            spec->from_first = own->from_first;
        }
}

/* The rule's entry in the client index, made if there is none. */
static const struct rn_override_rule *
enter_rule(struct rn_client_index *index, const struct rn_book *book, const struct rn_rule *rule)
{
    const struct rn_family *f = &book->families[rule->index];
    struct rn_override_rule *of = index->rules[rule->index];
    uint32_t most = 0;

    if (of)
        return of;
    for (uint32_t t = 0; t < rule->tier_count; t++)
        most += rule->tiers[t].limit_count;
    of = rn_builder_alloc(&index->builder, 1, sizeof *of);
    if (!of)
        return NULL;
    of->base = base_of(rule, &index->secret);
    of->shapes = rn_builder_alloc(&index->builder, f->member_count, sizeof(struct rn_compiled *));
    of->variants = rn_builder_alloc(&index->builder, most, sizeof(struct rn_compiled *));
    if (!of->shapes || !of->variants)
        return NULL;
    for (uint32_t t = 0; t < rule->tier_count; t++)
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++)
            of->variants[of->variant_count++] = &book->limits[rule->tiers[t].limits[i]->id];
    rn_compiled_sort(of->variants, of->variant_count);
    for (; of->shape_count < f->member_count; of->shape_count++)
        of->shapes[of->shape_count] = f->members[of->shape_count].limit;
    __atomic_store_n(&index->rules[rule->index], of, __ATOMIC_RELEASE);
    return of;
}

static struct rn_plan *make_plan(struct rn_client_index *index, const struct rn_book *book,
                                 const struct rn_rule *rule, const struct ration_limit *spec,
                                 const char **fault)
{
    struct rn_plan *plan = rn_builder_alloc(&index->builder, 1, sizeof *plan);
    const struct rn_override_rule *of = enter_rule(index, book, rule);

    *fault = NULL;
    if (!plan || !of)
        return NULL;
    if (spec->algorithm == RATION_UNLIMITED)
        return plan;
    plan->limit = rn_builder_limit(&index->builder, rule, spec, fault);
    if (!plan->limit)
        return NULL;
    rn_compiled_init_rule(&plan->compiled, &index->secret, rule->index,
                          &(struct rn_compiled_rule){.name = rule->name,
                                                     .limit = &plan->limit->limit,
                                                     .shadow = rule->shadow,
                                                     .charge_flags = rn_book_charge_flags(rule)});
    plan->compiled.shapes = of->shapes;
    plan->compiled.shape_count = of->shape_count;
    const struct rn_factor *factor = book->factors[rule->index];

    return rn_compiled_guard(&plan->compiled, of->variants, of->variant_count, &index->secret,
                             index->builder.arena) &&
                   (!factor || rn_factor_compile(&plan->compiled, factor, index->builder.arena))
               ? plan
               : NULL;
}

const struct rn_plan *rn_override_plan(struct rn_client_index *index, const struct rn_book *book,
                                       const struct rn_rule *rule, struct rn_slice text, int *code,
                                       struct ration_error *error)
{
    struct ration_limit spec;
    struct rn_siphash s;
    const char *fault = NULL;

    rn_siphash_init(&s, &index->secret);
    rn_siphash_add(&s, &rule->index, sizeof rule->index);
    rn_siphash_add(&s, text.data, text.len);
    uint64_t hash = rn_siphash_done(&s);
    struct rn_plan *plan = rn_map_find(&index->plans, hash);

    if (plan)
        return plan;
    *code = ration_limit_parse(text.data, text.len, &spec, error);
    if (*code != 0)
        return NULL;
    refine(rule, &spec);
    plan = rn_map_reserve(&index->plans) ? make_plan(index, book, rule, &spec, &fault) : NULL;
    if (plan)
        rn_map_put(&index->plans, hash, plan);
    else
        *code = fault ? rn_error_set(error, RATION_EINVAL, 0, "%s", fault)
                      : rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a limit");
    return plan;
}

/* --- in force -------------------------------------------------------------------------- */

int rn_override_enter(struct rn_client_index *index, const struct rn_book *book,
                      const struct rn_client *client, int64_t expires_ns, uint64_t *hash)
{
    struct rn_override_key key;
    const struct rn_plan *plan;
    int code = rn_override_resolve(book, &index->secret, client, &key, NULL);

    if (code != 0)
        return RATION_EINVAL;
    /* Values that the rule would spell in another way were set under another key: an address must
     * not become its network because the rule was changed. */
    for (uint32_t i = 0; i < client->count; i++)
        if (!rn_slice_equal(client->attributes[i].value, key.attributes[i].value))
            return RATION_EINVAL;
    plan = rn_override_plan(index, book, key.rule, client->limit, &code, NULL);
    if (!plan)
        return code;
    struct rn_override *o = malloc(sizeof *o);
    void *before = rn_map_find(&index->overrides, key.hash);

    if (!o || !rn_map_reserve(&index->overrides) ||
        (before && !rn_client_index_retire(index, before))) {
        free(o);
        return RATION_ENOMEM;
    }
    *o = (struct rn_override){plan, expires_ns};
    rn_map_put(&index->overrides, key.hash, o);
    *hash = key.hash;
    return 0;
}

/* If memory runs out for the limbo, a leak is better than a free. */
void rn_override_leave(struct rn_client_index *index, uint64_t hash)
{
    void *before = rn_map_remove(&index->overrides, hash);

    if (before)
        (void)rn_client_index_retire(index, before);
}
