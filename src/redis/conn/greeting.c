/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "net/server.h"
#include "redis/conn/link.h"
#include "redis/scripts/script.h"

static void become_up(struct rn_link *link)
{
    link->up = link->served = true;
    link->up_ns = rn_wheel_now(rn_loop_wheel(link->loop));
    link->wait_ns = 0;
    link->events->up(link->events->arg);
}

static void on_greeted(void *arg, const redisReply *reply)
{
    struct rn_link *link = arg;

    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        rn_link_distrust(link, reply->str);
        return;
    }
    if (--link->greetings == 0 && link->why[0] == '\0')
        become_up(link);
}

/* The reply to ROLE starts with the role. The master that Sentinel named may be a replica by
 * now. */
static void on_role(void *arg, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ARRAY &&
        (reply->elements == 0 || reply->element[0]->type != REDIS_REPLY_STRING ||
         strcmp(reply->element[0]->str, "master") != 0)) {
        rn_link_distrust(arg, "the server is not a master");
        return;
    }
    on_greeted(arg, reply);
}

static bool greet_with(struct rn_link *link, int argc, const char **argv, const size_t *lens)
{
    link->greetings++;
    return rn_link_push(link, argc, argv, lens, on_greeted, link);
}

static void on_history(void *arg, const redisReply *reply)
{
    struct rn_link *link = arg;

    if (reply && reply->type == REDIS_REPLY_STRING) {
        if (link->options.url->kind == RN_URL_SINGLE && strstr(reply->str, "role:slave")) {
            rn_link_distrust(link, "the server is not a master");
            return;
        }
        if (rn_history_learn(&link->history, reply->str))
            link->events->changed(link->events->arg);
    }
    on_greeted(arg, reply);
}

/* What a server that holds states is asked and given. */
static bool prepare_server(struct rn_link *link)
{
    char db[12];
    const char *select[] = {"SELECT", db}, *role[] = {"ROLE"}, *info[] = {"INFO", "replication"};
    bool needs_role = link->options.purpose == RN_LINK_MASTER;

    snprintf(db, sizeof db, "%u", link->options.url->db);
    if (link->options.url->db != 0 && !greet_with(link, 2, select, NULL))
        return false;
    link->greetings += needs_role + 1u;
    bool sent = (!needs_role || rn_link_push(link, 1, role, NULL, on_role, link)) &&
                rn_link_push(link, 2, info, NULL, on_history, link);

    for (size_t i = 0; i < RN_SCRIPTS && sent; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", rn_scripts[i].text.data};
        const size_t lens[] = {6, 4, rn_scripts[i].text.len};

        sent = greet_with(link, 3, argv, lens);
    }
    return sent;
}

/* Everything after AUTH. */
static void greet(struct rn_link *link)
{
    bool asks = link->options.purpose == RN_LINK_ASK_SERVER ||
                link->options.purpose == RN_LINK_ASK_SENTINEL;

    if (!asks && !prepare_server(link))
        rn_link_distrust(link, "out of memory");
    else if (link->greetings == 0)
        become_up(link);
}

static void on_authenticated(void *arg, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        rn_link_distrust(arg, reply->str);
    else if (reply)
        greet(arg);
}

/* A client that has not authenticated must not send long commands: Redis closes the connection,
 * and the reply to AUTH may be lost with it. So the scripts wait for that reply. */
void rn_greeting_send(struct rn_link *link)
{
    const struct rn_url *url = link->options.url;
    bool sentinel = link->options.purpose == RN_LINK_ASK_SENTINEL;
    const char *user = sentinel ? url->asker : url->user;
    const char *password = sentinel ? url->asker_password : url->password;
    const char *with_user[] = {"AUTH", user, password}, *without[] = {"AUTH", password};

    link->greetings = 0;
    if (password[0] == '\0')
        greet(link);
    else if (!rn_link_push(link, user[0] != '\0' ? 3 : 2, user[0] != '\0' ? with_user : without,
                           NULL, on_authenticated, link))
        rn_link_distrust(link, "out of memory");
}
