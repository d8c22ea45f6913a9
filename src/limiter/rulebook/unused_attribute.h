/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word to callers about attributes that no rule looks at.
 */
#ifndef RN_LIMITER_RULEBOOK_UNUSED_ATTRIBUTE_H
#define RN_LIMITER_RULEBOOK_UNUSED_ATTRIBUTE_H

#include <ration/rules.h>

/* One sentence about the attribute that is probably misspelt, or, if none is, about the
 * first that no rule looks at; empty if rules look at all of them. Headers do not count:
 * proxies pass them all on. For calls that are rare, or where nothing else is to be done:
 * it compares with every name that the rules know. */
void rn_unused_attribute_note(struct ration *r, const struct ration_attribute *attributes,
                              size_t count, char note[RATION_MESSAGE_SIZE]);

#endif
