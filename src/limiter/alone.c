/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/alone.h"

#include "limiter/ruling.h"

int rn_alone_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                    struct ration_outcome *out)
{
    return rn_ruling_decide(r, request, now_ns, &(struct rn_terms){.alone = true}, out);
}

bool rn_alone_counts(const struct rn_rule *rule)
{
    return rule->on_store_failure == RN_FAIL_LOCAL;
}

const struct rn_rule *rn_alone_refuser(const struct rn_matches *matches)
{
    for (uint32_t i = 0; i < matches->count; i++) {
        const struct rn_rule *rule = matches->items[i].rule;

        if (rule->on_store_failure == RN_FAIL_REFUSE && !rule->shadow)
            return rule;
    }
    return NULL;
}
