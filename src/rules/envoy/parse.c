/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file of envoyproxy/ratelimit into a descriptor tree and, for each
 * rate_limit in it, a rule. rate_limit.c reads the rate_limit, fields.c
 * knows the keys, match.c searches the tree.
 */
#include "rules/envoy/envoy.h"

#include <stdio.h>

#include "rules/envoy/parse_internal.h"
#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"
#include "rules/printable.h"

#define PATTERNS_COMPARED 64 /* of a key, with each that follows: see warn_of_hidden */

static struct rn_envoy_level *read_level(struct rn_envoy_reader *r, const struct rn_node *list,
                                         const struct rn_envoy_level *before);

/* --- rules -------------------------------------------------------------------------- */

/* domain.key_value.key2_value2. If underscores make two names equal, the second gets a number;
 * their counters differ in any case. */
static struct rn_slice name_of_path(struct rn_envoy_reader *r)
{
    size_t room = 3 * r->domain.len + 16;

    for (uint32_t i = 0; i < r->depth; i++)
        room += 3 * (r->path[i]->key.len + r->path[i]->value.len) + 2;
    char *name = rn_builder_alloc(r->builder, room, 1);

    if (!name)
        return (struct rn_slice){NULL, 0};
    size_t len = rn_printable_write(name, r->domain);

    for (uint32_t i = 0; i < r->depth; i++) {
        name[len++] = '.';
        len += rn_printable_write(name + len, r->path[i]->key);
        if (r->path[i]->value.len != 0)
            name[len++] = '_';
        len += rn_printable_write(name + len, r->path[i]->value);
    }
    size_t plain = len;

    for (unsigned n = 2; rn_builder_find_rule(r->builder, (struct rn_slice){name, len}); n++)
        len = plain + (size_t)snprintf(name + plain, room - plain, "#%u", n);
    return (struct rn_slice){name, len};
}

/* The names that metrics use for the values of a limit. NULL: its metrics do not distinguish
 * values, or memory ran out. */
static const struct rn_rule_values *find_values(struct rn_envoy_reader *r,
                                                const struct rn_envoy_limit *limit)
{
    if (limit->metric_values == 0)
        return NULL;
    struct rn_rule_values *values = rn_builder_alloc(r->builder, 1, sizeof *values);
    struct rn_slice *names = rn_builder_alloc(r->builder, r->depth + 1, sizeof *names);
    char *text = rn_builder_alloc(r->builder, RN_PRINTABLE_MAX * r->domain.len + 1, 1);

    if (!values || !names || !text)
        return NULL;
    names[0] = (struct rn_slice){text, rn_printable_write(text, r->domain)};
    for (uint32_t i = 0; i < r->depth; i++) {
        const struct rn_envoy_node *node = r->path[i];
        bool from_request = limit->metric_values >> i & 1; /* the request's value follows */
        size_t len;

        text = rn_builder_alloc(r->builder,
                                RN_PRINTABLE_MAX * (node->key.len + node->value.len) + 1, 1);
        if (!text)
            return NULL;
        len = rn_printable_write(text, node->key);
        if (from_request || node->value.len != 0)
            text[len++] = '_';
        if (!from_request)
            len += rn_printable_write(text + len, node->value);
        names[i + 1] = (struct rn_slice){text, len};
    }
    *values = (struct rn_rule_values){names, r->depth, limit->metric_values};
    return values;
}

static void add_rule(struct rn_envoy_reader *r, const struct rn_node *map,
                     struct rn_envoy_limit *limit, const struct ration_limit *spec)
{
    /* The keys that most likely cause a fault, most likely first. */
    static const char *const suspects[] = {"algorithm", "burst", "sub_windows", "limit",
                                           "requests_per_unit"};
    const struct rn_envoy_node *node = r->path[r->depth - 1];
    const struct rn_node *suspect = NULL;
    const char *fault = NULL;

    for (uint32_t i = 0; i < r->depth; i++)
        if (r->path[i]->key.len == 0)
            return; /* a descriptor on the path had an error */
    struct rn_slice name = name_of_path(r);

    if (!name.data)
        return;
    struct rn_rule *rule = rn_builder_rule(r->builder, name, node->line, node->column);
    struct rn_rule_limit *compiled = NULL;

    if (!rule)
        return;
    rule->envoy = true;
    rule->shadow = limit->shadow_mode;
    rule->values = find_values(r, limit);
    if (!limit->unlimited) {
        compiled = rn_builder_limit(r->builder, rule, spec, &fault);
        for (size_t i = 0; fault && !suspect && i < RN_COUNT(suspects); i++)
            suspect = rn_node_find(map, suspects[i]);
        if (fault)
            rn_report_error(r->report, (suspect ? suspect : map)->at, "%s", fault);
        if (!compiled)
            return;
        if (r->queue)
            rn_native_queue_of_envoy(r->builder, r->queue, rule);
    }
    limit->limit = compiled;
    (void)rn_builder_tier(r->builder, rule, &compiled, compiled ? 1 : 0);
    (void)rn_builder_refer(r->builder, rule, &limit->rule);
}

/* --- descriptors -------------------------------------------------------------------- */

static bool read_text(struct rn_envoy_reader *r, const struct rn_node *node, struct rn_slice *text)
{
    if (!rn_node_as_text(node, r->report, text))
        return false;
    *text = rn_builder_dup(r->builder, *text);
    return text->data != NULL;
}

/* Reads key and value, and adds the node to the level. NULL after reporting, or out of memory. */
static struct rn_envoy_node *read_node(struct rn_envoy_reader *r, const struct rn_node *map,
                                       const struct rn_node *const *fields,
                                       struct rn_envoy_level *level)
{
    const struct rn_node *key = fields[RN_DESCRIPTOR_KEY], *value = fields[RN_DESCRIPTOR_VALUE];
    struct rn_envoy_node *node = rn_builder_alloc(r->builder, 1, sizeof *node);

    if (!node)
        return NULL;
    *node = (struct rn_envoy_node){.value = RN_SLICE(""),
                                   .line = map->at.line,
                                   .column = map->at.column,
                                   .file = r->builder->file};
    if (!key || (key->kind == RN_NODE_SCALAR && key->text.len == 0)) {
        rn_report_error(r->report, key ? key->at : map->at,
                        "descriptor without a key; write key: and the name of a descriptor entry");
        return NULL;
    }
    if (!read_text(r, key, &node->key) || (value && !read_text(r, value, &node->value)))
        return NULL;
    if (memchr(node->key.data, '*', node->key.len))
        rn_report_warning(r->report, key->at,
                          "the * in key %s stands for itself; a wildcard belongs into value",
                          rn_excerpt(node->key).text);
    node->wildcard = memchr(node->value.data, '*', node->value.len) != NULL;
    struct rn_envoy_node *twin = rn_envoy_level_add(level, node);

    if (!twin)
        return node;
    rn_report_error(r->report, map->at, "key %s%s%s is on line %u%s%s already; merge the two",
                    rn_excerpt(node->key).text, node->value.len ? " with value " : " without value",
                    node->value.len ? rn_excerpt(node->value).text : "", twin->line,
                    rn_slice_equal(twin->file, r->builder->file) ? "" : " of ",
                    rn_slice_equal(twin->file, r->builder->file) ? ""
                                                                 : rn_excerpt(twin->file).text);
    return NULL;
}

static void read_limit(struct rn_envoy_reader *r, const struct rn_node *const *fields,
                       struct rn_envoy_node *node)
{
    struct rn_envoy_limit *limit = rn_builder_alloc(r->builder, 1, sizeof *limit);
    const struct rn_node *map = fields[RN_DESCRIPTOR_RATE_LIMIT];
    struct ration_limit spec;

    if (!limit)
        return;
    limit->shadow_mode = rn_envoy_read_flag(r, fields[RN_DESCRIPTOR_SHADOW_MODE]);
    limit->quota_mode = rn_envoy_read_flag(r, fields[RN_DESCRIPTOR_QUOTA_MODE]);
    limit->detailed_metric = rn_envoy_read_flag(r, fields[RN_DESCRIPTOR_DETAILED_METRIC]);
    for (uint32_t i = 0; i < r->depth; i++) {
        const struct rn_envoy_node *n = r->path[i];

        limit->share_threshold |= n->shared;
        if ((limit->detailed_metric || n->value_to_metric) && !n->shared &&
            (n->wildcard || n->value.len == 0))
            limit->metric_values |= UINT32_C(1) << i;
    }
    if (fields[RN_DESCRIPTOR_METADATA])
        rn_envoy_read_metadata(r, fields[RN_DESCRIPTOR_METADATA], limit);
    node->limit = limit;
    if (map && rn_envoy_read_limit(r, map, limit, &spec))
        add_rule(r, map, limit, &spec);
}

/* Warns of settings that have no effect without a rate_limit. */
static void warn_of_idle(struct rn_envoy_reader *r, const struct rn_node *map,
                         const struct rn_node *const *fields)
{
    static const int idle[] = {RN_DESCRIPTOR_SHADOW_MODE, RN_DESCRIPTOR_QUOTA_MODE,
                               RN_DESCRIPTOR_DETAILED_METRIC, RN_DESCRIPTOR_METADATA};
    const struct rn_node *empty = rn_node_find(map, "rate_limit");

    if (empty)
        rn_report_warning(r->report, empty->key->at,
                          "rate_limit is empty, so nothing is limited here; write unit and "
                          "requests_per_unit, indented below it");
    for (size_t i = 0; i < RN_COUNT(idle); i++)
        if (fields[idle[i]])
            rn_report_warning(r->report, fields[idle[i]]->key->at,
                              "%s has no effect without a rate_limit beside it",
                              rn_excerpt(fields[idle[i]]->key->text).text);
}

static void read_descriptor(struct rn_envoy_reader *r, const struct rn_node *map,
                            struct rn_envoy_level *level)
{
    const struct rn_node *fields[RN_ENVOY_FIELDS_MAX];
    const struct rn_node *share, *children;

    if (!rn_envoy_expect(r, map, RN_NODE_MAP, "write - key: and the name of a descriptor entry"))
        return;
    rn_envoy_read_fields(r, map, RN_ENVOY_DESCRIPTOR, fields);
    struct rn_envoy_node *node = read_node(r, map, fields, level);
    struct rn_envoy_node none = {.value = RN_SLICE("")}; /* to find further mistakes */

    if (!node)
        node = &none;
    r->path[r->depth++] = node;
    share = fields[RN_DESCRIPTOR_SHARE_THRESHOLD];
    children = fields[RN_DESCRIPTOR_DESCRIPTORS];
    node->value_to_metric = rn_envoy_read_flag(r, fields[RN_DESCRIPTOR_VALUE_TO_METRIC]);
    node->shared = rn_envoy_read_flag(r, share);
    if (node->shared && !node->wildcard && node != &none)
        rn_report_error(r->report, share->key->at,
                        "share_threshold without a wildcard; write a value with a * in it, such as "
                        "value: files/*");
    if (!fields[RN_DESCRIPTOR_RATE_LIMIT])
        warn_of_idle(r, map, fields);
    if (children)
        node->below = read_level(r, children, NULL);
    if (fields[RN_DESCRIPTOR_RATE_LIMIT] || !node->below)
        read_limit(r, fields, node);
    r->depth--;
}

/* --- levels ------------------------------------------------------------------------- */

/* Whether `before` matches everything that `node` does. A * in the pattern of `before` also matches
 * a * in that of `node`. */
static bool hides(const struct rn_envoy_node *before, const struct rn_envoy_node *node)
{
    return rn_pattern_match(before->value, node->wildcard ? node->value : RN_SLICE("*"));
}

/* Quadratic in the patterns of one key, hence the bound. */
static void warn_of_hidden(struct rn_envoy_reader *r, const struct rn_envoy_node *head)
{
    for (const struct rn_envoy_node *node = head; node; node = node->next) {
        const struct rn_envoy_node *before = head;
        struct rn_place at = {.line = node->line, .column = node->column, .file = r->file};

        for (int i = 0; before != node && i < PATTERNS_COMPARED && !hides(before, node); i++)
            before = before->next;
        if (before == node || !before->wildcard || !hides(before, node))
            continue;
        if (node->wildcard)
            rn_report_warning(r->report, at,
                              "value %s is never reached: %s on line %u comes first and matches "
                              "all it does; move it up",
                              rn_excerpt(node->value).text, rn_excerpt(before->value).text,
                              before->line);
        else
            rn_report_warning(r->report, at,
                              "key %s without value is never reached: %s on line %u matches every "
                              "value; remove one of them",
                              rn_excerpt(node->key).text, rn_excerpt(before->value).text,
                              before->line);
    }
}

/* Copies the level of an earlier file of the same domain; patterns keep their order. */
static uint32_t add_level(struct rn_envoy_level *level, const struct rn_envoy_level *before)
{
    uint32_t count = 0;

    for (uint32_t i = 0; before && i <= before->mask; i++) {
        struct rn_envoy_node *node = before->slots[i].node, *next;

        for (; node; node = next) {
            bool in_chain = node->wildcard || node->value.len == 0;

            next = before->slots[i].chain ? node->next : NULL;
            if (in_chain != before->slots[i].chain)
                continue;
            count++;
            if (level) {
                node->next = NULL;
                rn_envoy_level_add(level, node);
            }
        }
    }
    return count;
}

/* NULL: not a list, an empty one, too deep, or out of memory. `before`: the level as an earlier
 * file of the domain left it. */
static struct rn_envoy_level *read_level(struct rn_envoy_reader *r, const struct rn_node *list,
                                         const struct rn_envoy_level *before)
{
    struct rn_envoy_level *level;

    if (!rn_envoy_expect(r, list, RN_NODE_LIST, "begin each descriptor with - key:") ||
        list->count == 0)
        return NULL;
    if (r->depth == RN_ENVOY_DEPTH_MAX) {
        rn_report_error(r->report, list->at,
                        "descriptors nested more than %d deep; join some of the keys",
                        RN_ENVOY_DEPTH_MAX);
        return NULL;
    }
    uint32_t slots = rn_envoy_level_slots(list->count + add_level(NULL, before));

    level = rn_builder_alloc(r->builder, 1, sizeof *level);
    if (!level)
        return NULL;
    level->slots = rn_builder_alloc(r->builder, slots, sizeof *level->slots);
    level->mask = slots - 1;
    if (!level->slots)
        return NULL;
    add_level(level, before);
    RN_NODE_EACH(map, list)
        read_descriptor(r, map, level);
    for (uint32_t i = 0; i < slots; i++) {
        if (level->slots[i].node && level->slots[i].chain)
            warn_of_hidden(r, level->slots[i].node);
    }
    return level;
}

/* --- the file ----------------------------------------------------------------------- */

/* Keeps the array sorted; it doubles whenever its length is a power of two. */
static void add_domain(struct rn_envoy_reader *r, uint32_t at, struct rn_envoy_level *top)
{
    struct rn_builder *b = r->builder;
    struct rn_envoy_domain *all = b->domains;
    uint32_t count = b->domain_count;

    if ((count & (count - 1)) == 0) {
        all = rn_builder_alloc(b, count ? 2 * (size_t)count : 1, sizeof *all);
        if (!all)
            return;
        if (count)
            memcpy(all, b->domains, count * sizeof *all);
    }
    memmove(&all[at + 1], &all[at], (count - at) * sizeof *all);
    all[at] = (struct rn_envoy_domain){.name = r->domain, .file = b->file, .top = top};
    b->domains = all;
    b->domain_count = count + 1;
}

bool rn_envoy_parse(struct rn_builder *builder, const struct rn_document *document)
{
    struct rn_envoy_reader r = {
        .builder = builder, .report = builder->report, .file = document->file};
    const struct rn_node *fields[RN_ENVOY_FIELDS_MAX];
    uint32_t errors = builder->report->count[RN_ERROR];
    struct rn_envoy_level *top = NULL;

    if (!rn_envoy_expect(&r, document->root, RN_NODE_MAP, "write domain and descriptors"))
        return false;
    rn_envoy_read_fields(&r, document->root, RN_ENVOY_FILE, fields);
    const struct rn_node *name = fields[RN_FILE_DOMAIN];
    bool known = name && (name->kind != RN_NODE_SCALAR || name->text.len != 0);

    if (!known)
        rn_report_error(r.report, name ? name->at : document->root->at,
                        "file without a domain; write domain: and the name that Envoy sends");
    known = known && read_text(&r, name, &r.domain);
    struct rn_envoy_domain *before = NULL; /* the domain in an earlier file or document */
    uint32_t at = rn_envoy_domain_place(builder->domains, builder->domain_count, r.domain);

    if (known && at < builder->domain_count && rn_slice_equal(builder->domains[at].name, r.domain))
        before = &builder->domains[at];
    if (fields[RN_FILE_DESCRIPTORS])
        top = read_level(&r, fields[RN_FILE_DESCRIPTORS], before ? before->top : NULL);
    rn_envoy_check_replaces(&r);
    if (before && top)
        before->top = top;
    else if (known && !before)
        add_domain(&r, at, top);
    return builder->report->count[RN_ERROR] == errors && !builder->failed;
}
