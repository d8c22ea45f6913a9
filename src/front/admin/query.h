/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a query string that say what to show: each is known, and given once.
 *
 *     struct rn_query_field fields[] = {{.name = "span"}, {.name = "rules"}};
 *
 *     if (!rn_query_read(c, fields, RN_COUNT(fields)))
 *         return;
 */
#ifndef RN_FRONT_ADMIN_QUERY_H
#define RN_FRONT_ADMIN_QUERY_H

#include "front/http/conversation.h"

struct rn_query_field {
    const char *name;
    bool given;
    struct rn_slice value; /* decoded; in ws->names */
};

/* False after answering 400: a parameter is unknown, given twice, or badly escaped. */
bool rn_query_read(struct rn_http_context *c, struct rn_query_field *fields, size_t count);

/* Which of the words the field is; `choice` stays as it is if it was not given. False after
 * answering 400. */
bool rn_query_choose(struct rn_http_context *c, const struct rn_query_field *field,
                     const char *const *words, size_t count, size_t *choice);
/* The same for a whole number. */
bool rn_query_number(struct rn_http_context *c, const struct rn_query_field *field, uint64_t min,
                     uint64_t max, uint64_t *number);
/* Names with commas between them. Within a name, %2C is a comma and %25 a percent sign, which are
 * escaped once more as part of the query: a name that comes twice is listed once. False after
 * answering 400: too many, or a bad escape. */
bool rn_query_names(struct rn_http_context *c, struct rn_query_field *field, size_t max,
                    struct rn_slice *names, size_t *count);

#endif
