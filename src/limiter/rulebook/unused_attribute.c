/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/rulebook/unused_attribute.h"

#include <stdio.h>

#include "limiter/limiter.h"
#include "rules/report/report.h"
#include "rules/ruleset.h"

static void write_note(const struct rn_ruleset *ruleset, const struct ration_attribute *attributes,
                       size_t count, char note[RATION_MESSAGE_SIZE])
{
    struct rn_slice unknown = {0};

    for (size_t i = 0; i < count; i++) {
        struct rn_slice name = {attributes[i].name, attributes[i].name_len};

        if (rn_slice_starts_with(name, RN_SLICE("header.")) ||
            rn_ruleset_uses_attribute(ruleset, name))
            continue;
        const char *meant = rn_ruleset_suggest_attribute(ruleset, name);

        if (meant) {
            snprintf(note, RATION_MESSAGE_SIZE, "no rule looks at %s; did you mean %s?",
                     rn_excerpt(name).text, meant);
            return;
        }
        unknown = unknown.data ? unknown : name;
    }
    if (unknown.data)
        snprintf(note, RATION_MESSAGE_SIZE, "no rule looks at %s", rn_excerpt(unknown).text);
}

void rn_unused_attribute_note(struct ration *r, const struct ration_attribute *attributes,
                              size_t count, char note[RATION_MESSAGE_SIZE])
{
    struct rn_pin pin = rn_pin_take(&r->shelf, rn_stats_stripe(&r->stats));

    note[0] = '\0';
    if (pin.book)
        write_note(pin.book->ruleset, attributes, count, note);
    rn_pin_drop(&pin);
}
