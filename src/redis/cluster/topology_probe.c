/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/topology_probe.h"
#include "redis/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define WORDS_MAX 4

/* --- the question ------------------------------------------------------------------- */

static void on_answer(void *arg, const redisReply *reply)
{
    struct rn_topology_probe *probe = arg;
    bool is_answer = reply && reply->type != REDIS_REPLY_ERROR;

    probe->asking = false;
    const char *fault = is_answer
                            ? probe->events->told(probe->events->arg, reply, probe->link.address)
                        : reply ? reply->str
                                : NULL;
    probe->wanted |= !is_answer || fault;
    if (fault)
        rn_link_distrust(&probe->link, fault);
}

static void send_question(struct rn_topology_probe *probe)
{
    const char *argv[WORDS_MAX];
    int argc = 0;

    while (argc < WORDS_MAX && probe->question[argc]) {
        argv[argc] = probe->question[argc];
        argc++;
    }
    if (!rn_link_send(&probe->link, argc, argv, NULL, on_answer, probe))
        return;
    probe->wanted = false;
    probe->asking = true;
    probe->asked_ns = rn_timing_now(probe->link.loop);
    rn_timer_set(rn_loop_wheel(probe->link.loop), &probe->timer,
                 probe->asked_ns + RN_TOPOLOGY_PROBE_ANSWER_NS);
}

void rn_topology_probe_ask(struct rn_topology_probe *probe)
{
    int64_t earliest_ns = probe->asked_ns + RN_TOPOLOGY_PROBE_EVERY_NS;

    probe->wanted = true;
    if (probe->asking || !probe->link.up)
        return;
    if (probe->asked_ns == 0 || earliest_ns <= rn_timing_now(probe->link.loop))
        send_question(probe);
    else
        rn_timer_set(rn_loop_wheel(probe->link.loop), &probe->timer, earliest_ns);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_topology_probe *probe =
        (struct rn_topology_probe *)((char *)timer - offsetof(struct rn_topology_probe, timer));

    if (probe->asking &&
        rn_timing_now(probe->link.loop) >= probe->asked_ns + RN_TOPOLOGY_PROBE_ANSWER_NS)
        rn_link_drop(&probe->link, "no answer in time");
    else if (probe->wanted)
        rn_topology_probe_ask(probe);
}

/* --- the servers ----------------------------------------------------------------------- */

static void on_seek(void *arg)
{
    struct rn_topology_probe *probe = arg;

    rn_link_go(&probe->link, probe->servers[probe->next++ % probe->server_count]);
}

static void on_up(void *arg)
{
    struct rn_topology_probe *probe = arg;

    if (probe->wanted)
        rn_topology_probe_ask(probe);
}

static void on_down(void *arg, const char *why)
{
    struct rn_topology_probe *probe = arg;

    /* Try all other servers before the wait grows. */
    if (probe->next % probe->server_count != 0)
        probe->link.wait_ns = 0;
    probe->events->missed(probe->events->arg, why);
}

void rn_topology_probe_forget(struct rn_topology_probe *probe)
{
    probe->server_count = probe->seed_count;
}

void rn_topology_probe_learn(struct rn_topology_probe *probe, const char *address)
{
    for (unsigned i = 0; i < probe->server_count; i++)
        if (strcmp(probe->servers[i], address) == 0)
            return;
    if (probe->server_count < RN_TOPOLOGY_PROBE_SERVERS)
        snprintf(probe->servers[probe->server_count++], RN_URL_ADDRESS, "%s", address);
}

/* --- start and end --------------------------------------------------------------------- */

bool rn_topology_probe_init(struct rn_topology_probe *probe, struct rn_loop *loop,
                            const struct rn_link_options *options, const char *const *question,
                            const struct rn_topology_probe_events *events)
{
    *probe = (struct rn_topology_probe){.events = events, .question = question, .wanted = true};
    probe->timer.fire = on_timer;
    probe->link_events =
        (struct rn_link_events){.arg = probe, .seek = on_seek, .up = on_up, .down = on_down};
    probe->servers = calloc(RN_TOPOLOGY_PROBE_SERVERS, sizeof *probe->servers);
    if (!probe->servers || !rn_link_init(&probe->link, loop, options, "", &probe->link_events)) {
        free(probe->servers);
        *probe = (struct rn_topology_probe){0};
        return false;
    }
    for (unsigned i = 0; i < options->url->host_count; i++)
        rn_topology_probe_learn(probe, options->url->hosts[i]);
    probe->seed_count = probe->server_count;
    (void)!getrandom(&probe->next, sizeof probe->next, GRND_NONBLOCK); /* spread the nodes */
    return true;
}

void rn_topology_probe_done(struct rn_topology_probe *probe)
{
    if (!probe->servers)
        return;
    rn_link_done(&probe->link);
    rn_timer_cancel(rn_loop_wheel(probe->link.loop), &probe->timer);
    free(probe->servers);
    *probe = (struct rn_topology_probe){0};
}
