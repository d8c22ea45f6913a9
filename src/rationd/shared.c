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

/* --- life -------------------------------------------------------------------------------- */

bool rn_shared_open(struct rn_shared *shared, const struct rn_daemon_options *options,
                    struct ration *limiter)
{
    struct rn_hash_key secret = secret_of(options->values[RN_SET_REDIS_KEY_SECRET]);

    shared->options = options;
    shared->limiter = limiter;
    if (rn_limiter_share(limiter, &secret, rn_code_fault) != 0) {
        fprintf(stderr, "rationd: out of memory\n");
        return false;
    }
    limiter->policy->nodes = options->redis_nodes > 0 ? options->redis_nodes : 1;
    return true;
}

bool rn_shared_prepare(struct rn_shared *shared, unsigned workers)
{
    shared->remotes = calloc(workers + 1, sizeof *shared->remotes);
    if (!shared->remotes || pthread_mutex_init(&shared->lock, NULL) != 0) {
        fprintf(stderr, "rationd: out of memory\n");
        return false;
    }
    shared->count = workers + 1;
    return true;
}

void rn_shared_close(struct rn_shared *shared)
{
    if (shared->count > 0)
        pthread_mutex_destroy(&shared->lock);
    free(shared->remotes);
}

static void put_remote(struct rn_shared *shared, struct rn_loop *loop, struct rn_remote *remote)
{
    pthread_mutex_lock(&shared->lock);
    shared->remotes[rn_loop_index(loop)] = remote;
    pthread_mutex_unlock(&shared->lock);
}

void rn_shared_begin(struct rn_shared *shared, struct rn_loop *loop)
{
    struct ration_error error;
    struct rn_remote *remote;

    if (rn_remote_new(loop, &shared->options->redis, shared->options->redis_deadline_ns, &remote,
                      &error) != 0) {
        rn_log(RN_LOG_ERROR, "redis.unusable", RN_LOG_TEXT("error", rn_slice_of(error.text)));
        return;
    }
    rn_policy_use(rn_remote_store(remote));
    put_remote(shared, loop, remote);
}

void rn_shared_end(struct rn_shared *shared, struct rn_loop *loop)
{
    struct rn_remote *remote = shared->remotes[rn_loop_index(loop)];

    put_remote(shared, loop, NULL);
    rn_policy_use(NULL);
    rn_remote_free(remote);
}

/* --- what is told ------------------------------------------------------------------------- */

bool rn_shared_is_up(void *arg)
{
    struct rn_shared *shared = arg;
    unsigned up = 0;

    pthread_mutex_lock(&shared->lock);
    for (unsigned i = 0; i < shared->count; i++)
        up += shared->remotes[i] && rn_remote_counts(shared->remotes[i])->up;
    pthread_mutex_unlock(&shared->lock);
    return up == shared->count;
}
