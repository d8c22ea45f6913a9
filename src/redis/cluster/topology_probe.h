/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for the topology, again and again: a node of a cluster for the slot map, or a Sentinel for
 * the master. The probe is connected to one of them; when that one is lost, does not answer, or
 * gives a useless answer, it goes to the next.
 */
#ifndef RN_REDIS_TOPOLOGY_PROBE_H
#define RN_REDIS_TOPOLOGY_PROBE_H

#include "redis/conn/link.h"

#define RN_TOPOLOGY_PROBE_SERVERS 64
#define RN_TOPOLOGY_PROBE_EVERY_NS (INT64_C(100) * 1000000)  /* between two questions, at least */
#define RN_TOPOLOGY_PROBE_ANSWER_NS (INT64_C(500) * 1000000) /* to answer */

struct rn_topology_probe_events {
    void *arg;
    /* A reply that is no error; `from` is the address of the server. Returns NULL, or the reason
     * to ask the next server. */
    const char *(*told)(void *arg, const redisReply *reply, const char *from);
    /* The question to a server has failed; the probe will ask the next one. */
    void (*missed)(void *arg, const char *why);
};

struct rn_topology_probe {
    struct rn_link link;
    struct rn_link_events link_events;
    const struct rn_topology_probe_events *events;
    const char *const *question; /* ends with NULL; borrowed */
    char (*servers)[RN_URL_ADDRESS];
    unsigned seed_count, server_count, next; /* seeds: those of the URL, first */
    struct rn_timer timer;
    int64_t asked_ns;
    bool wanted, asking;
};

/* Asks for the first time at once. False: out of memory. */
bool rn_topology_probe_init(struct rn_topology_probe *probe, struct rn_loop *loop,
                            const struct rn_link_options *options, const char *const *question,
                            const struct rn_topology_probe_events *events);
/* Does nothing for a zeroed probe. */
void rn_topology_probe_done(struct rn_topology_probe *probe);

/* `told` follows, sooner or later. More calls until then make no difference. */
void rn_topology_probe_ask(struct rn_topology_probe *probe);

/* Replace the servers that the probe may ask besides those of the URL: forget first, then learn
 * each. */
void rn_topology_probe_forget(struct rn_topology_probe *probe);
void rn_topology_probe_learn(struct rn_topology_probe *probe, const char *address);

#endif
