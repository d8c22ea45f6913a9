/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/scout.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "net/server.h"

#define WORDS_MAX 4

static int64_t now_of(const struct rn_scout *scout)
{
    return rn_wheel_now(rn_loop_wheel(scout->link.loop));
}

static void wake_at(struct rn_scout *scout, int64_t at_ns)
{
    rn_timer_set(rn_loop_wheel(scout->link.loop), &scout->timer, at_ns);
}

/* --- the question ------------------------------------------------------------------- */

static void on_answer(void *arg, const redisReply *reply)
{
    struct rn_scout *scout = arg;

    bool is_answer = reply && reply->type != REDIS_REPLY_ERROR;

    scout->asking = false;
    const char *fault = is_answer
                            ? scout->events->told(scout->events->arg, reply, scout->link.address)
                        : reply ? reply->str
                                : NULL;
    scout->wanted |= !is_answer || fault;
    if (fault)
        rn_link_distrust(&scout->link, fault);
}

static void send_question(struct rn_scout *scout)
{
    const char *argv[WORDS_MAX];
    int argc = 0;

    while (argc < WORDS_MAX && scout->question[argc]) {
        argv[argc] = scout->question[argc];
        argc++;
    }
    if (!rn_link_send(&scout->link, argc, argv, NULL, on_answer, scout))
        return;
    scout->wanted = false;
    scout->asking = true;
    scout->asked_ns = now_of(scout);
    wake_at(scout, scout->asked_ns + RN_SCOUT_ANSWER_NS);
}

void rn_scout_ask(struct rn_scout *scout)
{
    int64_t earliest_ns = scout->asked_ns + RN_SCOUT_EVERY_NS;

    scout->wanted = true;
    if (scout->asking || !scout->link.up)
        return;
    if (scout->asked_ns == 0 || earliest_ns <= now_of(scout))
        send_question(scout);
    else
        wake_at(scout, earliest_ns);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_scout *scout = (struct rn_scout *)((char *)timer - offsetof(struct rn_scout, timer));

    if (scout->asking && now_of(scout) >= scout->asked_ns + RN_SCOUT_ANSWER_NS)
        rn_link_drop(&scout->link, "no answer in time");
    else if (scout->wanted)
        rn_scout_ask(scout);
}

/* --- whom ---------------------------------------------------------------------------- */

static void on_seek(void *arg)
{
    struct rn_scout *scout = arg;

    rn_link_go(&scout->link, scout->servers[scout->next++ % scout->server_count]);
}

static void on_up(void *arg)
{
    struct rn_scout *scout = arg;

    if (scout->wanted)
        rn_scout_ask(scout);
}

static void on_down(void *arg, const char *why)
{
    struct rn_scout *scout = arg;

    /* The others are worth an attempt before the wait grows. */
    if (scout->next % scout->server_count != 0)
        scout->link.wait_ns = 0;
    scout->events->missed(scout->events->arg, why);
}

void rn_scout_forget(struct rn_scout *scout)
{
    scout->server_count = scout->seed_count;
}

void rn_scout_learn(struct rn_scout *scout, const char *address)
{
    for (unsigned i = 0; i < scout->server_count; i++)
        if (strcmp(scout->servers[i], address) == 0)
            return;
    if (scout->server_count < RN_SCOUT_SERVERS)
        snprintf(scout->servers[scout->server_count++], RN_URL_ADDRESS, "%s", address);
}

/* --- life ----------------------------------------------------------------------------- */

bool rn_scout_init(struct rn_scout *scout, struct rn_loop *loop,
                   const struct rn_link_options *options, const char *const *question,
                   const struct rn_scout_events *events)
{
    *scout = (struct rn_scout){.events = events, .question = question, .wanted = true};
    scout->timer.fire = on_timer;
    scout->link_events =
        (struct rn_link_events){.arg = scout, .seek = on_seek, .up = on_up, .down = on_down};
    scout->servers = calloc(RN_SCOUT_SERVERS, sizeof *scout->servers);
    if (!scout->servers || !rn_link_init(&scout->link, loop, options, "", &scout->link_events)) {
        free(scout->servers);
        *scout = (struct rn_scout){0};
        return false;
    }
    for (unsigned i = 0; i < options->url->host_count; i++)
        rn_scout_learn(scout, options->url->hosts[i]);
    scout->seed_count = scout->server_count;
    (void)!getrandom(&scout->next, sizeof scout->next, GRND_NONBLOCK); /* not all to the first */
    return true;
}

void rn_scout_done(struct rn_scout *scout)
{
    if (!scout->servers)
        return;
    rn_link_done(&scout->link);
    rn_timer_cancel(rn_loop_wheel(scout->link.loop), &scout->timer);
    free(scout->servers);
    *scout = (struct rn_scout){0};
}
