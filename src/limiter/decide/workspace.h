/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a decision that is too large for a stack: a thread of musl has 128 KB in all. Each
 * thread keeps its workspaces in its stripe of the limiter (stats.h), so that nothing is allocated
 * after the first decision. A thread needs more than one only while its fibers wait in the middle
 * of a decision.
 */
#ifndef RN_LIMITER_DECIDE_WORKSPACE_H
#define RN_LIMITER_DECIDE_WORKSPACE_H

#include "limiter/decide/gather.h"
#include "limiter/envoy/descriptors.h"
#include "rules/match/match.h"

struct rn_workspace {
    struct rn_workspace *next; /* unused ones */
    struct rn_matches matches;
    struct ration_attribute attributes[RN_DESCRIPTOR_ENTRIES_MAX + 1]; /* of a descriptor */
    union {
        struct rn_gathered
            gathered; /* of it, a transaction without rules uses `tx` and `charges` */
        struct rn_descriptors descriptors;
    };
};

/* workspace.c: another workspace if there is none to take (NULL: out of memory); returning one to a
 * shared stripe; freeing all of a stripe. */
struct rn_workspace *rn_workspace_new(struct rn_stripe *s);
void rn_workspace_return_shared(struct rn_stripe *s, struct rn_workspace *w);
void rn_workspaces_free(struct rn_stripe *s);

/* NULL: out of memory. `s` is the stripe of this thread. */
static inline struct rn_workspace *rn_workspace_take(struct rn_stripe *s)
{
    struct rn_workspace *w = __atomic_load_n(&s->workspaces, __ATOMIC_RELAXED);

    if (rn_unlikely(!w || s->shared))
        return rn_workspace_new(s);
    s->workspaces = w->next;
    return w;
}

/* The rules that applied to the last request that this thread has decided, until it decides the
 * next one; the keys point into the request. NULL: it has not decided any. */
static inline const struct rn_matches *rn_workspace_matches(const struct ration *r)
{
    const struct rn_stripe *s = rn_stats_stripe(&r->stats);
    const struct rn_workspace *w = __atomic_load_n(&s->workspaces, __ATOMIC_RELAXED);

    return w ? &w->matches : NULL;
}

static inline void rn_workspace_return(struct rn_stripe *s, struct rn_workspace *w)
{
    if (rn_unlikely(s->shared)) {
        rn_workspace_return_shared(s, w);
        return;
    }
    w->next = s->workspaces;
    s->workspaces = w;
}

#endif
