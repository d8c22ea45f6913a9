/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/looks_at.h"

#include <string.h>

#include "rules/report/report.h"

#define HEADER "header."

static bool is_header(struct rn_slice name, struct rn_slice header)
{
    size_t prefix = sizeof HEADER - 1;

    return name.len == prefix + header.len && memcmp(name.data, HEADER, prefix) == 0 &&
           memcmp(name.data + prefix, header.data, header.len) == 0;
}

bool rn_ruleset_uses_attribute(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &ruleset->attributes[i];
        bool is_it = false;

        switch (a->source) {
        case RN_SOURCE_REQUEST:
            is_it = rn_slice_equal(name, a->name);
            break;
        case RN_SOURCE_PATH:
            is_it = rn_slice_is(name, "path");
            break;
        case RN_SOURCE_HEADER:
            is_it = is_header(name, a->header);
            break;
        case RN_SOURCE_FORWARDED:
            is_it = rn_slice_is(name, "ip") || is_header(name, a->header);
            break;
        }
        if (is_it)
            return true;
    }
    return false;
}

const char *rn_ruleset_suggest_attribute(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    const char *names[RN_ATTRIBUTES_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < ruleset->attribute_count; i++)
        if (ruleset->attributes[i].source == RN_SOURCE_REQUEST)
            names[count++] = ruleset->attributes[i].name.data; /* in the arena a NUL follows */
    return rn_suggest(name, names, count);
}
