/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/conn/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "net/dialler.h"
#include "net/resolve.h"
#include "net/server.h"

#define UNREAD_MAX_BYTES ((size_t)4 << 20) /* of one reply; ours have a few hundred bytes */

/* --- attempts ----------------------------------------------------------------------- */

int64_t rn_link_next_wait(int64_t last_ns, uint64_t random)
{
    int64_t last = last_ns > RN_LINK_WAIT_MIN_NS ? last_ns : RN_LINK_WAIT_MIN_NS;
    int64_t most = last < RN_LINK_WAIT_MAX_NS / 3 ? 3 * last : RN_LINK_WAIT_MAX_NS;

    return RN_LINK_WAIT_MIN_NS + (int64_t)(random % (uint64_t)(most - RN_LINK_WAIT_MIN_NS + 1));
}

static void note_why(struct rn_link *link, const char *why)
{
    if (link->why[0] == '\0')
        snprintf(link->why, sizeof link->why, "%s", why);
}

/* The attempt has failed, or its connection has ended: answers the pending commands and sets the
 * timer of the next attempt. */
static void give_up(struct rn_link *link)
{
    struct rn_wheel *wheel = rn_loop_wheel(link->loop);
    int64_t now_ns = rn_wheel_now(wheel);
    uint64_t random = 0; /* stays 0 without entropy: the shortest wait */

    link->conn = NULL;
    link->up = false;
    redisReaderFree(link->reader);
    link->reader = NULL;
    while (link->owed_count > 0) {
        unsigned at = link->owed_first;

        link->owed_first = (at + 1) % RN_LINK_COMMANDS;
        link->owed_count--;
        if (link->owed[at].reply)
            link->owed[at].reply(link->owed[at].arg, NULL);
    }
    if (link->ending)
        return;
    if (link->served && !link->distrusted && now_ns - link->up_ns >= RN_LINK_LASTED_NS) {
        rn_timer_set(wheel, &link->again, 0);
        return;
    }
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    link->wait_ns = rn_link_next_wait(link->wait_ns, random);
    rn_timer_set(wheel, &link->again, now_ns + link->wait_ns);
    note_why(link, link->opened ? "the connection was closed" : "no connection could be made");
    link->events->down(link->events->arg, link->why);
}

/* With TLS, the certificate must match the host of the address. */
static bool secure(struct rn_link *link)
{
    const char *host = link->address, *colon = strrchr(host, ':');
    bool bracketed = host[0] == '[' && colon > host + 1;
    char name[RN_URL_ADDRESS];

    if (!link->options.tls)
        return true;
    snprintf(name, sizeof name, "%.*s", (int)(colon - host) - (bracketed ? 2 : 0),
             host + bracketed);
    return rn_dialler_use_tls(link->dialler, link->options.tls, name);
}

static void dial(struct rn_link *link, const struct rn_address *to)
{
    link->reader = redisReaderCreate();
    bool ready = link->reader && secure(link);

    link->conn = ready ? rn_dialler_connect(link->dialler, to) : NULL;
    if (link->conn)
        return;
    note_why(link, ready ? strerror(errno) : "out of memory");
    give_up(link);
}

/* A name may have several addresses, and some may not answer: each attempt takes the next. */
static void on_resolved(void *arg, const struct rn_address *found, size_t count, const char *why)
{
    struct rn_link *link = arg;

    link->resolving = NULL;
    if (count > 0) {
        dial(link, &found[link->attempts % count]);
        return;
    }
    note_why(link, why);
    give_up(link);
}

static void connect_to_address(struct rn_link *link)
{
    struct ration_error error = {.text = "the name cannot be looked up"};
    struct rn_address to;

    if (rn_address_is_name(link->address)) {
        link->resolving = rn_resolve_begin(link->loop, link->address, on_resolved, link);
        if (link->resolving)
            return;
    } else if (rn_address_parse(link->address, &to, &error) == 0) {
        dial(link, &to);
        return;
    }
    note_why(link, error.text);
    give_up(link);
}

static void attempt(struct rn_timer *timer)
{
    struct rn_link *link = (struct rn_link *)((char *)timer - offsetof(struct rn_link, again));

    link->attempts++;
    link->why[0] = '\0';
    link->opened = link->served = link->distrusted = link->leaving = false;
    if (!link->events->seek) {
        connect_to_address(link);
        return;
    }
    link->seeking = true;
    link->events->seek(link->events->arg);
}

void rn_link_go(struct rn_link *link, const char *address)
{
    if (!link->seeking)
        return;
    link->seeking = false;
    snprintf(link->address, sizeof link->address, "%s", address);
    connect_to_address(link);
}

void rn_link_fail(struct rn_link *link, const char *why)
{
    if (!link->seeking)
        return;
    link->seeking = false;
    note_why(link, why);
    give_up(link);
}

void rn_link_hurry(struct rn_link *link)
{
    link->wait_ns = 0;
    if (rn_timer_is_set(&link->again))
        rn_timer_set(rn_loop_wheel(link->loop), &link->again, 0);
}

/* --- commands ----------------------------------------------------------------------- */

bool rn_link_push(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg)
{
    char *text = NULL;
    long long len = /* an int before hiredis 1.0 */
        link->owed_count < RN_LINK_COMMANDS ? redisFormatCommandArgv(&text, argc, argv, lens) : -1;

    if (len < 0)
        return false;
    unsigned at = (link->owed_first + link->owed_count) % RN_LINK_COMMANDS;

    rn_buf_put(rn_conn_out(link->conn), text, (size_t)len);
    redisFreeCommand(text);
    link->owed[at].reply = reply;
    link->owed[at].arg = arg;
    link->owed[at].sent_ns = rn_wheel_now(rn_loop_wheel(link->loop));
    link->owed_count++;
    if (!rn_timer_is_set(&link->silence))
        rn_timer_set(rn_loop_wheel(link->loop), &link->silence,
                     link->owed[at].sent_ns + link->options.silence_ns);
    return true;
}

void rn_link_hear(struct rn_link *link)
{
    if (link->conn)
        rn_conn_read_now(link->conn);
}

/* After a long round of the loop the reply may have arrived, so this reads first. */
static void on_silence(struct rn_timer *timer)
{
    struct rn_link *link = (struct rn_link *)((char *)timer - offsetof(struct rn_link, silence));
    struct rn_wheel *wheel = rn_loop_wheel(link->loop);

    rn_link_hear(link);
    if (link->owed_count == 0)
        return;
    int64_t sent_ns = link->owed[link->owed_first].sent_ns;
    int64_t due_ns =
        (sent_ns > link->heard_ns ? sent_ns : link->heard_ns) + link->options.silence_ns;

    if (rn_wheel_now(wheel) < due_ns)
        rn_timer_set(wheel, &link->silence, due_ns);
    else
        rn_link_drop(link, "no answer in time");
}

bool rn_link_send(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg)
{
    return link->up && rn_link_push(link, argc, argv, lens, reply, arg);
}

unsigned rn_link_room(const struct rn_link *link)
{
    return link->up ? RN_LINK_COMMANDS - link->owed_count : 0;
}

void rn_link_call_later(struct rn_link *link)
{
    if (link->conn)
        rn_conn_call_before_sleep(link->conn);
}

void rn_link_distrust(struct rn_link *link, const char *why)
{
    note_why(link, why);
    link->up = false;
    link->distrusted = true;
    if (link->conn)
        rn_conn_close(link->conn);
}

void rn_link_leave(struct rn_link *link, const char *why)
{
    note_why(link, why);
    link->up = false;
    link->leaving = true;
}

void rn_link_drop(struct rn_link *link, const char *why)
{
    if (!link->conn)
        return;
    note_why(link, why);
    rn_dialler_close(link->conn);
}

/* --- events of the connection --------------------------------------------------------- */

static void on_opened(struct rn_conn *conn)
{
    struct rn_link *link = rn_conn_context(conn);

    link->opened = true;
    rn_greeting_send(link);
}

static void take_reply(struct rn_link *link, redisReply *reply)
{
    unsigned at = link->owed_first;

    if (link->events->pushed && link->events->pushed(link->events->arg, reply))
        return;
    if (link->owed_count == 0) {
        rn_link_distrust(link, "Redis sent a reply that answers no command");
        return;
    }
    link->heard_ns = rn_wheel_now(rn_loop_wheel(link->loop));
    link->owed_first = (at + 1) % RN_LINK_COMMANDS;
    link->owed_count--;
    if (link->owed[at].reply)
        link->owed[at].reply(link->owed[at].arg, reply);
}

/* The reader keeps incomplete replies, so all input is consumed here. */
static size_t on_received(struct rn_conn *conn, char *data, size_t len)
{
    struct rn_link *link = rn_conn_context(conn);
    void *reply = NULL;
    int code = redisReaderFeed(link->reader, data, len);

    while (code == REDIS_OK && (code = redisReaderGetReply(link->reader, &reply)) == REDIS_OK &&
           reply) {
        take_reply(link, reply);
        freeReplyObject(reply);
        if (link->distrusted)
            return len; /* ignore the rest */
    }
    if (link->leaving && link->owed_count == 0)
        rn_conn_close(conn);
    if (code != REDIS_OK)
        rn_link_distrust(link, "the data received is not a Redis reply");
    else if (link->reader->len - link->reader->pos > UNREAD_MAX_BYTES)
        rn_link_distrust(link, "a reply is too long");
    return len;
}

static void on_closing(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    (void)why;
    note_why(rn_conn_context(conn), "no answer in time");
}

static void on_closed(struct rn_conn *conn)
{
    give_up(rn_conn_context(conn));
}

static void on_later(struct rn_conn *conn)
{
    struct rn_link *link = rn_conn_context(conn);

    if (link->up)
        link->events->later(link->events->arg);
}

static const struct rn_protocol redis_protocol = {
    .name = "redis",
    .message_max = 1,
    .opened = on_opened,
    .received = on_received,
    .closing = on_closing,
    .closed = on_closed,
    .before_sleep = on_later,
};

/* --- start and end -------------------------------------------------------------------- */

bool rn_link_init(struct rn_link *link, struct rn_loop *loop, const struct rn_link_options *options,
                  const char *address, const struct rn_link_events *events)
{
    *link = (struct rn_link){
        .loop = loop, .options = *options, .events = events, .protocol = redis_protocol};
    if (link->options.silence_ns == 0)
        link->options.silence_ns = RN_LINK_SILENCE_NS;
    link->protocol.message_ns = link->protocol.stall_ns = link->options.silence_ns;
    snprintf(link->address, sizeof link->address, "%s", address);
    link->again.fire = attempt;
    link->silence.fire = on_silence;
    link->dialler = rn_dialler_new(loop, "redis", &link->protocol, link);
    if (!link->dialler)
        return false;
    rn_timer_set(rn_loop_wheel(loop), &link->again, 0);
    return true;
}

void rn_link_done(struct rn_link *link)
{
    link->ending = true;
    rn_timer_cancel(rn_loop_wheel(link->loop), &link->again);
    rn_timer_cancel(rn_loop_wheel(link->loop), &link->silence);
    rn_resolve_cancel(link->resolving);
    link->resolving = NULL;
    if (link->conn)
        rn_dialler_close(link->conn);
    rn_dialler_free(link->dialler);
    link->dialler = NULL;
}
