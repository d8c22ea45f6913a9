/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/shared.h"

#include <stdio.h>
#include <stdlib.h>

#include "limiter/limiter.h"
#include "net/log.h"
#include "redis/code.h"

/* The secret of nodes that were given none: everybody may know it. Keys then have
 * names in Redis that who knows a client can guess; nothing else follows. */
static const struct rn_hash_key published = {UINT64_C(0x7261746961746564),
                                             UINT64_C(0x6f6e206b65797331)};

static struct rn_hash_key secret_of(const char *text)
{
    struct rn_hash_key other = {~published.k0, published.k1};

    if (!text || !*text)
        return published;
    return (struct rn_hash_key){rn_siphash(&published, text, strlen(text)),
                                rn_siphash(&other, text, strlen(text))};
}

/* --- rules ------------------------------------------------------------------------------- */

bool rn_shared_fits(const struct rn_ruleset *ruleset)
{
    bool fits = true;

    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];

        for (uint32_t t = 0; t < rule->tier_count; t++)
            for (uint32_t j = 0; j < rule->tiers[t].limit_count; j++) {
                const char *fault = rn_code_fault(&rule->tiers[t].limits[j]->limit);

                if (fault)
                    fprintf(stderr, "rationd: limit %.*s: %s\n", (int)rule->name.len,
                            rule->name.data, fault);
                fits &= fault == NULL;
            }
    }
    return fits;
}

/* --- life -------------------------------------------------------------------------------- */

bool rn_shared_open(struct rn_shared *shared, const struct rn_daemon_options *options,
                    struct ration *limiter)
{
    struct rn_hash_key secret = secret_of(options->values[RN_SET_REDIS_KEY_SECRET]);

    shared->options = options;
    shared->limiter = limiter;
    if (rn_limiter_share(limiter, &secret) != 0) {
        fprintf(stderr, "rationd: out of memory\n");
        return false;
    }
    limiter->policy->nodes = options->redis_nodes;
    return true;
}

bool rn_shared_prepare(struct rn_shared *shared, unsigned workers)
{
    shared->count = workers + 1;
    shared->remotes = calloc(shared->count, sizeof *shared->remotes);
    if (!shared->remotes)
        fprintf(stderr, "rationd: out of memory\n");
    return shared->remotes != NULL;
}

void rn_shared_close(struct rn_shared *shared)
{
    free(shared->remotes);
    shared->remotes = NULL;
}

void rn_shared_begin(struct rn_shared *shared, struct rn_loop *loop)
{
    struct rn_remote **remote = &shared->remotes[rn_loop_index(loop)];
    struct ration_error error;

    if (rn_remote_new(loop, &shared->options->redis, shared->options->redis_deadline_ns, remote,
                      &error) == 0)
        rn_policy_use(rn_remote_store(*remote));
    else
        rn_log(RN_LOG_ERROR, "redis.unusable", RN_LOG_TEXT("error", rn_slice_of(error.text)));
}

void rn_shared_end(struct rn_shared *shared, struct rn_loop *loop)
{
    struct rn_remote **remote = &shared->remotes[rn_loop_index(loop)];

    rn_policy_use(NULL);
    rn_remote_free(*remote);
    *remote = NULL;
}

/* --- what is told ------------------------------------------------------------------------- */

unsigned rn_shared_up(const struct rn_shared *shared)
{
    unsigned up = 0;

    for (unsigned i = 0; i < shared->count; i++)
        up += shared->remotes[i] && !rn_remote_counts(shared->remotes[i])->open;
    return up;
}
