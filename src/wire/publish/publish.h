/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits as users of an API should read them: which requests, counted by what, how many, for
 * each tier; what the headers mean; how to come back after a refusal. As HTML, Markdown or JSON.
 *
 * Left out: rules in shadow mode, rules with `publish: false`, rules in Envoy's format, lists,
 * bans, signals; and of the others names of files, of attributes that only the operator knows, and
 * conditions on anything but method and path.
 */
#ifndef RN_WIRE_PUBLISH_PUBLISH_H
#define RN_WIRE_PUBLISH_PUBLISH_H

#include "base/buf.h"
#include "rules/ruleset.h"

enum rn_publish_format {
    RN_PUBLISH_HTML,
    RN_PUBLISH_MARKDOWN,
    RN_PUBLISH_JSON,
    RN_PUBLISH_FORMATS,
};

extern const char *const rn_publish_types[RN_PUBLISH_FORMATS]; /* media types */

/* Appends the limits; out->failed: out of memory. `set` NULL: there are no rules. */
void rn_publish_put(struct rn_buf *out, const struct rn_ruleset *set,
                    enum rn_publish_format format);

/* Whether anything of the rules is for users of the API. */
bool rn_publish_any(const struct rn_ruleset *set);

/* The format that an Accept header asks for (RFC 9110, 12.5.1); without one, or if it takes
 * anything, Markdown. RN_PUBLISH_FORMATS: none of them. */
enum rn_publish_format rn_publish_accepted(struct rn_slice accept);

#endif
