/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "net/dial.h"
#include "net/server.h"
#include "redis/script.h"

#define UNREAD_MAX_BYTES ((size_t)4 << 20) /* of one reply; ours have a few hundred */

static void connect_again(struct rn_timer *timer);

/* --- attempts ----------------------------------------------------------------------- */

int64_t rn_link_next_wait(int64_t last_ns, uint64_t random)
{
    int64_t last = last_ns > RN_LINK_WAIT_MIN_NS ? last_ns : RN_LINK_WAIT_MIN_NS;
    int64_t most = last < RN_LINK_WAIT_MAX_NS / 3 ? 3 * last : RN_LINK_WAIT_MAX_NS;

    return RN_LINK_WAIT_MIN_NS + (int64_t)(random % (uint64_t)(most - RN_LINK_WAIT_MIN_NS + 1));
}

static void wait_for_next(struct rn_link *link)
{
    struct rn_wheel *wheel = rn_loop_wheel(link->loop);
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK); /* 0: at once after the shortest */
    link->wait_ns = rn_link_next_wait(link->wait_ns, random);
    rn_timer_set(wheel, &link->again, rn_wheel_now(wheel) + link->wait_ns);
}

static void note_why(struct rn_link *link, const char *why)
{
    if (link->why[0] == '\0')
        snprintf(link->why, sizeof link->why, "%s", why);
}

/* There is no connection: everybody is told, and the next attempt is set. */
static void give_up(struct rn_link *link)
{
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
    wait_for_next(link);
    link->events->down(link->events->arg, link->why[0] ? link->why : "the connection was closed");
}

static void attempt(struct rn_link *link)
{
    link->attempts++;
    link->why[0] = '\0';
    link->reader = redisReaderCreate();
    link->conn = link->reader ? rn_dial(link->dialler, &link->address) : NULL;
    if (link->conn)
        return;
    note_why(link, link->reader ? strerror(errno) : "out of memory");
    give_up(link);
}

static void connect_again(struct rn_timer *timer)
{
    attempt((struct rn_link *)((char *)timer - offsetof(struct rn_link, again)));
}

/* --- commands ----------------------------------------------------------------------- */

static bool push(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                 rn_link_reply *reply, void *arg)
{
    char *text = NULL;
    int len =
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
    return true;
}

int64_t rn_link_owed_since(const struct rn_link *link)
{
    return link->owed_count > 0 ? link->owed[link->owed_first].sent_ns : INT64_MAX;
}

bool rn_link_send(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg)
{
    return link->up && push(link, argc, argv, lens, reply, arg);
}

void rn_link_call_later(struct rn_link *link)
{
    if (link->conn)
        rn_conn_call_later(link->conn);
}

void rn_link_distrust(struct rn_link *link, const char *why)
{
    note_why(link, why);
    link->up = false;
    if (link->conn)
        rn_conn_close(link->conn);
}

void rn_link_drop(struct rn_link *link, const char *why)
{
    note_why(link, why);
    if (link->conn)
        rn_dial_end(link->conn);
}

/* --- greeting ------------------------------------------------------------------------ */

static void greeted(void *arg, const redisReply *reply)
{
    struct rn_link *link = arg;

    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        rn_link_distrust(link, reply->str);
        return;
    }
    if (--link->greetings > 0 || link->why[0] != '\0')
        return;
    link->up = true;
    link->wait_ns = 0;
    link->events->up(link->events->arg);
}

static bool greet_with(struct rn_link *link, int argc, const char **argv)
{
    link->greetings++;
    return push(link, argc, argv, NULL, greeted, link);
}

static bool authenticate(struct rn_link *link)
{
    const struct rn_url *url = link->url;
    const char *with_user[] = {"AUTH", url->user, url->password};
    const char *without[] = {"AUTH", url->password};

    if (url->password[0] == '\0')
        return true;
    return url->user[0] != '\0' ? greet_with(link, 3, with_user) : greet_with(link, 2, without);
}

static bool load_scripts(struct rn_link *link)
{
    bool sent = true;

    for (size_t i = 0; i < RN_SCRIPTS && sent; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rn_scripts[i].text.data};
        const size_t lens[] = {6, 4, rn_scripts[i].text.len};

        link->greetings++;
        sent = push(link, 3, argv, lens, greeted, link);
    }
    return sent;
}

static void greet(struct rn_link *link)
{
    char db[12];
    const char *select[] = {"SELECT", db};

    link->greetings = 0;
    snprintf(db, sizeof db, "%u", link->url->db);
    bool sent = authenticate(link) && (link->url->db == 0 || greet_with(link, 2, select)) &&
                load_scripts(link);
    if (!sent)
        rn_link_distrust(link, "out of memory");
}

/* --- what net tells us --------------------------------------------------------------- */

static void on_opened(struct rn_conn *conn)
{
    greet(rn_conn_context(conn));
}

static void take_reply(struct rn_link *link, redisReply *reply)
{
    unsigned at = link->owed_first;

    if (link->owed_count == 0) {
        rn_link_distrust(link, "a reply to no command");
        return;
    }
    link->owed_first = (at + 1) % RN_LINK_COMMANDS;
    link->owed_count--;
    link->replies++;
    if (link->owed[at].reply)
        link->owed[at].reply(link->owed[at].arg, reply);
}

/* The reader keeps what is incomplete: to net, all is consumed. */
static size_t on_received(struct rn_conn *conn, char *data, size_t len)
{
    struct rn_link *link = rn_conn_context(conn);
    void *reply = NULL;
    int code = redisReaderFeed(link->reader, data, len);

    while (code == REDIS_OK && (code = redisReaderGetReply(link->reader, &reply)) == REDIS_OK &&
           reply) {
        take_reply(link, reply);
        freeReplyObject(reply);
        if (link->why[0] != '\0')
            return len; /* nothing that follows is believed */
    }
    if (code != REDIS_OK)
        rn_link_distrust(link, "what came is no reply of Redis");
    else if (link->reader->len - link->reader->pos > UNREAD_MAX_BYTES)
        rn_link_distrust(link, "a reply without an end");
    return len;
}

static void on_limited(struct rn_conn *conn, enum rn_conn_limit why)
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
    .message_ns = RN_LINK_CONNECT_NS,
    .stall_ns = RN_LINK_CONNECT_NS,
    .message_max = 1,
    .opened = on_opened,
    .received = on_received,
    .limited = on_limited,
    .closed = on_closed,
    .later = on_later,
};

/* --- life ----------------------------------------------------------------------------- */

int rn_link_init(struct rn_link *link, struct rn_loop *loop, const struct rn_url *url,
                 const struct rn_link_events *events, struct ration_error *error)
{
    *link = (struct rn_link){.loop = loop, .url = url, .events = events};
    link->again.fire = connect_again;
    int failed = rn_address_parse(url->address, &link->address, error);

    if (failed != 0)
        return failed;
    link->dialler = rn_dialler_new(loop, "redis", &redis_protocol, link);
    if (!link->dialler)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    rn_timer_set(rn_loop_wheel(loop), &link->again, 0);
    return 0;
}

void rn_link_done(struct rn_link *link)
{
    link->ending = true;
    rn_timer_cancel(rn_loop_wheel(link->loop), &link->again);
    if (link->conn)
        rn_dial_end(link->conn);
    rn_dialler_free(link->dialler);
    link->dialler = NULL;
}
