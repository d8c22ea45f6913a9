/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a limit whose number of places is learnt: {concurrent: adaptive, min: 5, max: 500}.
 */
#include "rules/native/limits_internal.h"

static const char *const keys[] = {"concurrent", "min", "max"};

/* `by` and `use` make it a choice of tiers, one of which may be called concurrent. */
bool rn_limits_is_adaptive(const struct rn_node *node)
{
    return node->kind == RN_NODE_MAP && rn_node_find(node, "concurrent") != NULL &&
           rn_node_find(node, "by") == NULL && rn_node_find(node, "use") == NULL;
}

static bool read_bound(struct rn_report *report, const struct rn_node *map, const char *key,
                       uint64_t *bound)
{
    const struct rn_node *node = rn_node_find(map, key);

    if (node == NULL) {
        rn_report_error(report, map->at,
                        "adaptive without %s; write for example {concurrent: adaptive, min: 5, "
                        "max: 500}",
                        key);
        return false;
    }
    if (!rn_node_as_uint(node, report, bound))
        return false;
    if (*bound >= 1 && *bound <= RATION_ADAPTIVE_MAX)
        return true;
    rn_report_error(report, node->at, "%s is %llu; write 1 to 10000 places", key,
                    (unsigned long long)*bound);
    return false;
}

bool rn_limits_read_adaptive(struct rn_report *report, const struct rn_node *map,
                             struct ration_limit *spec)
{
    const struct rn_node *word = rn_node_find(map, "concurrent");
    uint64_t least = 0, most = 0;
    bool ok = true;

    RN_NODE_EACH(node, map) {
        bool known = false;

        for (size_t i = 0; i < RN_COUNT(keys); i++)
            known |= rn_slice_is(node->key->text, keys[i]);
        if (!known)
            rn_report_unknown_key(report, node, keys, RN_COUNT(keys));
        ok &= known;
    }
    if (word->kind != RN_NODE_SCALAR || !rn_slice_is(word->text, "adaptive")) {
        rn_report_error(report, word->at,
                        "concurrent as a key must be adaptive, found %s; a fixed number is a text: "
                        "write for example limit: 20 concurrent",
                        rn_node_describe(word).text);
        return false;
    }
    ok &= read_bound(report, map, "min", &least);
    ok &= read_bound(report, map, "max", &most);
    if (ok && least > most) {
        rn_report_error(report, rn_node_find(map, "min")->at,
                        "min is %llu, above max, which is %llu; write a smaller min",
                        (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    *spec = (struct ration_limit){
        .algorithm = RATION_CONCURRENCY, .amount = most, .adaptive_min = (uint16_t)least};
    return ok;
}
