/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/workspace.h"

#include <stdlib.h>

/* Threads that share a stripe share one unused workspace. */
struct rn_workspace *rn_workspace_new(struct rn_stripe *s)
{
    struct rn_workspace *w =
        s->shared ? __atomic_exchange_n(&s->workspaces, NULL, __ATOMIC_ACQUIRE) : NULL;

    return w ? w : malloc(sizeof *w);
}

void rn_workspace_return_shared(struct rn_stripe *s, struct rn_workspace *w)
{
    w->next = NULL;
    free(__atomic_exchange_n(&s->workspaces, w, __ATOMIC_ACQ_REL));
}

void rn_workspaces_free(struct rn_stripe *s)
{
    while (s->workspaces) {
        struct rn_workspace *w = s->workspaces;

        s->workspaces = w->next;
        free(w);
    }
}
