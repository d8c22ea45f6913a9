/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/failover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "net/server.h"
#include "redis/cluster/redirect.h"
#include "redis/timing.h"

/* --- events of Sentinel ------------------------------------------------------------------ */

/* The n-th word, from 0 on, in `out`. False: there are fewer, or it is too long. */
static bool word_at(const char *text, unsigned n, char *out, size_t size)
{
    size_t len;

    for (; n > 0; n--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    len = strcspn(text, " ");
    if (len == 0 || len >= size)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static bool is_word(const char *text, unsigned n, const char *expected)
{
    char word[RN_URL_ADDRESS];

    return word_at(text, n, word, sizeof word) && strcmp(word, expected) == 0;
}

/* Host and port are two words. */
static bool read_address(const char *text, unsigned n, char out[RN_URL_ADDRESS])
{
    char host[RN_URL_ADDRESS], port[8];

    return word_at(text, n, host, sizeof host) && word_at(text, n + 1, port, sizeof port) &&
           atoi(port) > 0 && atoi(port) <= 65535 &&
           rn_redirect_address(host, (unsigned)atoi(port), out);
}

/* master NAME HOST PORT
 * slave NAME HOST PORT @ MASTER HOST PORT
 * NAME HOST PORT HOST PORT                  of +switch-master: from, to */
enum rn_failover_word rn_failover_parse(const char *channel, const char *text, const char *name,
                                        char address[RN_URL_ADDRESS])
{
    if (strcmp(channel, "+switch-master") == 0)
        return is_word(text, 0, name) && read_address(text, 3, address) ? RN_FAILOVER_TO
                                                                        : RN_FAILOVER_NOTHING;
    if (strcmp(channel, "+selected-slave") == 0 || strcmp(channel, "+promoted-slave") == 0)
        return is_word(text, 4, "@") && is_word(text, 5, name) && read_address(text, 2, address)
                   ? RN_FAILOVER_TO
                   : RN_FAILOVER_NOTHING;
    if (!is_word(text, 0, "master") || !is_word(text, 1, name))
        return RN_FAILOVER_NOTHING;
    return strcmp(channel, "+failover-state-select-slave") == 0 ? RN_FAILOVER_BEGINS
           : strncmp(channel, "-failover-abort-", 16) == 0      ? RN_FAILOVER_ENDS
                                                                : RN_FAILOVER_NOTHING;
}

/* --- a failover ---------------------------------------------------------------------------- */

struct listener {
    struct rn_failover *failover;
    struct rn_link link;
    struct rn_link_events events;
    struct rn_timer ping;
    const char *address;
};

struct rn_failover {
    struct rn_loop *loop;
    const char *name;
    const struct rn_failover_events *events;
    char current[RN_URL_ADDRESS];   /* master */
    char former[RN_URL_ADDRESS];    /* the replaced master, or the one being replaced; "": none */
    char successor[RN_URL_ADDRESS]; /* "": not known yet */
    int64_t until_ns;               /* former and successor are valid */
    size_t count;
    struct listener listeners[];
};

static bool is_under_way(const struct rn_failover *f)
{
    return f->former[0] != '\0' && rn_wheel_now(rn_loop_wheel(f->loop)) < f->until_ns;
}

/* Several Sentinels report the same failover: only the first report counts. */
static void begin(struct rn_failover *f, const char *successor)
{
    bool known = is_under_way(f) && strcmp(f->former, f->current) == 0;

    if (strcmp(successor, f->current) == 0 || f->current[0] == '\0' ||
        (known && (successor[0] == '\0' || strcmp(successor, f->successor) == 0)))
        return;
    snprintf(f->former, sizeof f->former, "%s", f->current);
    snprintf(f->successor, sizeof f->successor, "%s", successor);
    f->until_ns = rn_wheel_now(rn_loop_wheel(f->loop)) +
                  (successor[0] ? RN_FAILOVER_FORMER_NS : RN_FAILOVER_PAUSE_NS);
    rn_log(RN_LOG_INFO, "redis.failover", RN_LOG_TEXT("from", rn_slice_of(f->former)),
           RN_LOG_TEXT("to", rn_slice_of(successor[0] ? successor : "not known yet")));
    f->events->changed(f->events->arg);
}

static void take_event(struct listener *listener, const char *channel, const char *text)
{
    struct rn_failover *f = listener->failover;
    char address[RN_URL_ADDRESS];

    switch (rn_failover_parse(channel, text, f->name, address)) {
    case RN_FAILOVER_BEGINS:
        begin(f, "");
        break;
    case RN_FAILOVER_TO:
        rn_redirect_complete(address, listener->address);
        begin(f, address);
        break;
    case RN_FAILOVER_ENDS:
        f->former[0] = '\0';
        break;
    case RN_FAILOVER_NOTHING:
        break;
    }
}

/* PSUBSCRIBE is confirmed once for each pattern, with the number of patterns so far: the first
 * answers the command. */
static bool on_pushed(void *arg, const redisReply *reply)
{
    bool is_list = reply->type == REDIS_REPLY_ARRAY && reply->elements > 2 &&
                   reply->element[0]->type == REDIS_REPLY_STRING;

    if (is_list && reply->elements == 4 && strcmp(reply->element[0]->str, "pmessage") == 0 &&
        reply->element[2]->type == REDIS_REPLY_STRING &&
        reply->element[3]->type == REDIS_REPLY_STRING) {
        take_event(arg, reply->element[2]->str, reply->element[3]->str);
        return true;
    }
    return is_list && strcmp(reply->element[0]->str, "psubscribe") == 0 &&
           reply->element[2]->type == REDIS_REPLY_INTEGER && reply->element[2]->integer > 1;
}

const char *rn_failover_next(const struct rn_failover *f)
{
    return is_under_way(f) ? f->successor : NULL;
}

bool rn_failover_replaces(const struct rn_failover *f, const char *address)
{
    return is_under_way(f) && strcmp(f->former, address) == 0;
}

void rn_failover_use(struct rn_failover *f, const char *address)
{
    snprintf(f->current, sizeof f->current, "%s", address);
}

/* --- listening ---------------------------------------------------------------------------- */

static void on_seek(void *arg)
{
    struct listener *listener = arg;

    rn_link_go(&listener->link, listener->address);
}

/* For instance, the user may not subscribe: rationd then learns of a failover when it is over. */
static void on_subscribed(void *arg, const redisReply *reply)
{
    const struct listener *listener = arg;

    if (reply && reply->type == REDIS_REPLY_ERROR)
        rn_log(RN_LOG_WARN, "redis.unsubscribed", RN_LOG_TEXT("reason", rn_slice_of(reply->str)),
               RN_LOG_TEXT("server", rn_slice_of(listener->address)));
}

static void on_up(void *arg)
{
    struct listener *listener = arg;
    const char *argv[] = {"PSUBSCRIBE",      "+failover-state-select-slave",
                          "+selected-slave", "+promoted-slave",
                          "+switch-master",  "-failover-abort-*"};

    rn_link_send(&listener->link, 6, argv, NULL, on_subscribed, listener);
    rn_timing_in(listener->link.loop, &listener->ping, RN_FAILOVER_PING_NS);
}

/* A subscription is silent for as long as nothing happens. The link gives up a Sentinel that does
 * not answer. */
static void on_ping(struct rn_timer *timer)
{
    struct listener *listener =
        (struct listener *)((char *)timer - offsetof(struct listener, ping));
    const char *argv[] = {"PING"};

    if (rn_link_send(&listener->link, 1, argv, NULL, NULL, NULL))
        rn_timing_in(listener->link.loop, &listener->ping, RN_FAILOVER_PING_NS);
}

/* The topology probe already reports Sentinels that are down. */
static void on_down(void *arg, const char *why)
{
    (void)arg, (void)why;
}

struct rn_failover *rn_failover_new(struct rn_loop *loop, const struct rn_link_options *options,
                                    const struct rn_failover_events *events)
{
    const struct rn_url *url = options->url;
    struct rn_failover *f = calloc(1, sizeof *f + url->host_count * sizeof *f->listeners);

    if (!f)
        return NULL;
    f->loop = loop;
    f->name = url->master;
    f->events = events;
    for (; f->count < url->host_count; f->count++) {
        struct listener *listener = &f->listeners[f->count];

        listener->failover = f;
        listener->address = url->hosts[f->count];
        listener->ping.fire = on_ping;
        listener->events = (struct rn_link_events){
            .arg = listener, .seek = on_seek, .up = on_up, .down = on_down, .pushed = on_pushed};
        if (!rn_link_init(&listener->link, loop, options, "", &listener->events)) {
            rn_failover_free(f);
            return NULL;
        }
    }
    return f;
}

void rn_failover_free(struct rn_failover *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++) {
        rn_timer_cancel(rn_loop_wheel(f->loop), &f->listeners[i].ping);
        rn_link_done(&f->listeners[i].link);
    }
    free(f);
}
