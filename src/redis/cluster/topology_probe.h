/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the same question again and again of whichever of several servers answers:
 * nodes of a cluster, where its slots are; Sentinels, who is master. One connection to
 * one of them; when it is lost, silent or of no use, to the next.
 */
#ifndef RN_REDIS_TOPOLOGY_PROBE_H
#define RN_REDIS_TOPOLOGY_PROBE_H

#include "redis/conn/link.h"

#define RN_TOPOLOGY_PROBE_SERVERS 64
#define RN_TOPOLOGY_PROBE_EVERY_NS (INT64_C(100) * 1000000)  /* at most */
#define RN_TOPOLOGY_PROBE_ANSWER_NS (INT64_C(500) * 1000000) /* is waited for */

struct rn_topology_probe_events {
    void *arg;
    /* No error. `from` is the address of who answers. Returns NULL, or why the next
     * server is to be asked. */
    const char *(*told)(void *arg, const redisReply *reply, const char *from);
    /* A server could not be asked, for this reason; the next will be. */
    void (*missed)(void *arg, const char *why);
};

struct rn_topology_probe {
    struct rn_link link;
    struct rn_link_events link_events;
    const struct rn_topology_probe_events *events;
    const char *const *question; /* NULL at its end; borrowed */
    char (*servers)[RN_URL_ADDRESS];
    unsigned seed_count, server_count, next; /* the first are those of the URL */
    struct rn_timer timer;
    int64_t asked_ns;
    bool wanted, asking;
};

/* The question is asked for the first time at once. The options' purpose says of whom.
 * False: out of memory. */
bool rn_topology_probe_init(struct rn_topology_probe *probe, struct rn_loop *loop,
                            const struct rn_link_options *options, const char *const *question,
                            const struct rn_topology_probe_events *events);
/* Does nothing for one that is zeroed. */
void rn_topology_probe_done(struct rn_topology_probe *probe);

/* `told` follows, sooner or later. Asking for it again meanwhile makes no difference. */
void rn_topology_probe_ask(struct rn_topology_probe *probe);

/* The servers that may be asked besides those of the URL are these from now on. Begin with
 * rn_topology_probe_forget. */
void rn_topology_probe_forget(struct rn_topology_probe *probe);
void rn_topology_probe_learn(struct rn_topology_probe *probe, const char *address);

#endif
