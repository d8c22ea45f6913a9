/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by publish.c (all formats), words.c (limits in words), guide.c (headers and retries) and
 * accept.c (which format). */
#ifndef RN_WIRE_PUBLISH_PUBLISH_INTERNAL_H
#define RN_WIRE_PUBLISH_PUBLISH_INTERNAL_H

#include "wire/page/page.h"
#include "wire/publish/publish.h"

/* --- a document, as HTML or Markdown (markup.c) -------------------------------------------- */

struct rn_markup {
    struct rn_page page; /* its buffer has the Markdown, too */
    bool markdown;
    size_t columns, cell; /* of the open table */
};

void rn_markup_open(struct rn_markup *d, bool markdown, const char *title, const char *intro);
void rn_markup_close(struct rn_markup *d);
void rn_markup_heading(struct rn_markup *d, struct rn_slice text);
void rn_markup_paragraph(struct rn_markup *d, struct rn_slice text);
/* `language`: for Markdown. */
void rn_markup_code(struct rn_markup *d, const char *language, const char *text);
void rn_markup_table_open(struct rn_markup *d, const char *const *titles, size_t count);
void rn_markup_cell(struct rn_markup *d, struct rn_slice text);
void rn_markup_table_close(struct rn_markup *d);

/* --- words (words.c) ---------------------------------------------------------------------------
 */

/* Whether users of the API should know of the rule. */
bool rn_publish_shows(const struct rn_rule *rule);

/* "100 requests per minute, up to 20 at once". */
void rn_publish_put_limit(struct rn_buf *out, const struct rn_rule *rule,
                          const struct rn_rule_limit *limit);
/* "POST /login", or "all requests". */
void rn_publish_put_requests(struct rn_buf *out, const struct rn_ruleset *set,
                             const struct rn_alternative *alternative);
/* "API key, or IP address without one"; "all callers together". */
void rn_publish_put_key(struct rn_buf *out, const struct rn_ruleset *set,
                        const struct rn_rule *rule);
/* "free", "all others". */
struct rn_slice rn_publish_tier(const struct rn_rule *rule, uint32_t tier);
/* What else a caller of the rule should know; maybe nothing. */
void rn_publish_put_notes(struct rn_buf *out, const struct rn_rule *rule);

/* --- the guide (guide.c) ------------------------------------------------------------------------
 */

struct rn_publish_headers {
    bool x, ietf;       /* families that rules send */
    bool as_retryafter; /* X-RateLimit-RetryAfter, not X-RateLimit-Retry-After */
};

struct rn_publish_headers rn_publish_headers_of(const struct rn_ruleset *set);
/* The name and the meaning of header `i`; false: there are no more. */
bool rn_publish_header(struct rn_publish_headers headers, size_t i, const char **name,
                       const char **meaning);
void rn_publish_put_guide(struct rn_markup *d, struct rn_publish_headers headers);

extern const char rn_publish_advice[];

#endif
