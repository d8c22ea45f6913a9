/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envoy's rate limit service: all descriptors of one request, decided together.
 * The rules are files of the Envoy format (docs/envoy-format.md) and, where a native file says
 * apply_to_envoy, native ones: the attributes are the entries of each descriptor, and the domain.
 *
 *     struct ration_descriptor_entry entry = {"user", 4, user, strlen(user)};
 *     struct ration_descriptor_ask ask = {.entries = &entry, .count = 1};
 *     struct ration_descriptors request = {
 *         .domain = "shop", .domain_len = 4, .asks = &ask, .count = 1};
 *     struct ration_descriptors_outcome out;
 *     if (ration_decide_descriptors(r, &request, RATION_NOW, &out) == 0 && !out.allowed)
 *         reply(429);
 */
#ifndef RATION_ENVOY_H
#define RATION_ENVOY_H

#include <ration/rules.h>

#define RATION_DESCRIPTORS_MAX RATION_CHARGES_MAX /* of one request */

/* The protocol's numbers. UNKNOWN is a limit whose period is none of these. */
enum ration_unit {
    RATION_UNIT_UNKNOWN,
    RATION_UNIT_SECOND,
    RATION_UNIT_MINUTE,
    RATION_UNIT_HOUR,
    RATION_UNIT_DAY,
    RATION_UNIT_MONTH, /* 30 days */
    RATION_UNIT_YEAR,  /* 365 days */
    RATION_UNIT_WEEK,
};

/* Zero-initialise it and set what there is. */
struct ration_descriptor_ask {
    const struct ration_descriptor_entry *entries;
    size_t count;
    bool hits_given;
    /* If given: 0 looks without charging, and is over if less than one unit is left. More
     * are what was used: if they do not fit, the descriptor is over, and charged all the same,
     * up to one capacity below empty (a late debit). Else the request's. */
    uint64_t hits;
    bool refund; /* the hits are given back, until nothing is spent */
    /* A limit that takes the place of the file's: a window of `unit`. Counted under
     * the rule that matches, or, if none does, under the domain. Ignored if the
     * domain is unknown, as are all descriptors then. */
    bool limit_given;
    uint32_t requests_per_unit;
    enum ration_unit unit;
};

/* One leaf of a limit's `metadata:`, under the names that lead to it joined with
 * dots. Borrowed during the call. */
struct ration_metadata {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    bool text; /* quoted in the file: "7" is a text, 7 a number */
};

struct ration_descriptors {
    const char *domain;
    size_t domain_len;
    const struct ration_descriptor_ask *asks;
    size_t count;  /* 1 to RATION_DESCRIPTORS_MAX */
    uint64_t hits; /* of descriptors that give none; 0 means 1 */
    /* The longest that the caller would wait, in line and for its place in a queue; 0: as long as
     * the rules let it; less: not at all. */
    int64_t max_wait_ns;
    /* Not NULL: a request that is refused for the moment stands in line (wait.h) where the rules
     * have a `queue`. Not if a descriptor has hits of its own. */
    struct ration_waiter *waiter;
    bool quota_mode; /* of all limits, as if each said so */
    /* Called for each leaf of the metadata of each limit that applies and has passed, when
     * all is decided; may be NULL. Must not call anything of the library. */
    void (*metadata)(void *arg, const struct ration_metadata *leaf);
    void *arg;
};

/* Of the tightest limit that applies to the descriptor. */
struct ration_descriptor_status {
    bool over;                   /* OVER_LIMIT. Never of a limit in shadow mode. */
    bool limited;                /* a limit applies: what follows is set, apart from `remaining` */
    bool shadow;                 /* it would have been refused, were its limit not in shadow mode */
    char name[RATION_NAME_SIZE]; /* rate_limit.name or a native rule's; empty: none. Cut to fit. */
    char rule[RATION_NAME_SIZE]; /* the rule of that limit: domain.key_value; empty: none */
    uint32_t requests_per_unit;
    enum ration_unit unit;
    uint32_t remaining; /* UINT32_MAX: unlimited. 0 if no limit applies. */
    int64_t reset_ns;   /* until the window ends; of other algorithms: until nothing is spent
                           any more, or, if it is over, until it would not be */
};

struct ration_descriptors_outcome {
    bool allowed;
    bool shadowed;     /* allowed, although limits or a whole service in shadow mode would refuse */
    int decided_by;    /* index of the status: if refused the longest wait, else the one nearest its
                          limit; -1: no limit applies */
    int64_t delay_ns;  /* wait this long before going ahead: queues */
    int64_t waited_ns; /* the time in line; 0: none */
    size_t count;
    struct ration_descriptor_status statuses[RATION_DESCRIPTORS_MAX];

    /* For ration_descriptors_give_back alone to read; only with a delay or a waiter. */
    int64_t at_ns;
    uint32_t receipt_count;
    struct ration_receipt receipts[RATION_CHARGES_MAX];
};

/* Charges all descriptors that have a limit, or none. A native rule is charged once for each key,
 * however many descriptors have it: by the one with the most entries, for the largest cost. Over
 * its limit is the request if a descriptor is, except that of those in quota mode all must be.
 * Limits that another one `replaces` do not apply.
 *
 * RATION_EINVAL: the domain is empty; there is no descriptor, or one without
 * entries, or too many of either; a limit given with one has no unit; more limits
 * apply than can be charged. Others as of
 * ration_decide. Errors leave `out` untouched. */
RATION_API int ration_decide_descriptors(struct ration *r, const struct ration_descriptors *request,
                                         int64_t now_ns, struct ration_descriptors_outcome *out);

/* As ration_outcome_give_back, for a caller that went away during the delay. */
RATION_API int ration_descriptors_give_back(struct ration *r,
                                            struct ration_descriptors_outcome *out, int64_t now_ns);

#endif
