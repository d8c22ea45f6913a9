/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of a worker to a rationd: made when the worker starts, greeted with the
 * password and PING, and made again when it is lost, after a random while, one attempt at a time.
 * Commands are pipelined; all of one round of nginx's loop go out together, and replies
 * come in order. Nothing here ever blocks.
 *
 *   WAITING    for the next attempt: nothing can be asked, so a dead rationd costs nothing
 *   GREETING   connecting, agreeing on TLS, or waiting for PONG: only the first attempt can
 *              be asked
 *   UP         until it ends, says what is no reply, or misses several deadlines on end
 *
 * At most once: what was sent on a lost connection is never sent again. Whoever gives up
 * waiting for a reply leaves its place in the order to somebody who hears it all the same.
 */
#ifndef RN_NGINX_LINK_H
#define RN_NGINX_LINK_H

#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "base/buf.h"

#define RN_NGX_OWED 4096 /* replies that a connection may owe; a power of two */

struct rn_ngx_link;

/* One reply, whole, borrowed; data NULL: there will be none, and whether the command was
 * run is not known. False: this is no reply
 * to what was asked, and nothing that follows can be believed. */
typedef bool rn_ngx_hear(struct rn_ngx_link *link, void *arg, struct rn_slice reply);

enum rn_ngx_link_state { RN_NGX_WAITING, RN_NGX_GREETING, RN_NGX_UP };

struct rn_ngx_link {
    struct rn_ngx_server *server;
    struct rn_ngx_worker *worker;
    ngx_log_t *log;
    ngx_log_t quiet; /* for nginx's own lines about each attempt */
    ngx_peer_connection_t peer;
    enum rn_ngx_link_state state;
    bool open;           /* commands may go out: the server is the right one */
    bool hopeful;        /* the first attempt: there is no reason to expect the worst */
    const char *denial;  /* why the server will not have us; NULL: it has not said so */
    bool told_objection; /* that this connection answers with errors */
    ngx_uint_t attempts;
    ngx_event_t again;  /* the next attempt, or the end of this one's patience */
    ngx_event_t flush;  /* at the end of the round */
    ngx_msec_t wait_ms; /* before the last attempt */
    ngx_uint_t misses;  /* deadlines on end */

    struct rn_buf in, out;
    size_t sent;            /* of `out` */
    struct rn_buf later;    /* commands for the next connection, */
    ngx_uint_t later_count; /* and how many they are */
    uint64_t first, next;   /* numbers of the oldest reply that is owed, and of the next one */
    struct {
        rn_ngx_hear *hear;
        void *arg;
    } owed[RN_NGX_OWED];
};

/* In a worker; the link is zeroed but for server, worker and log. Begins to connect. */
void rn_ngx_link_open(struct rn_ngx_link *link);
/* What has been written goes out as far as the socket takes it; nobody is told. */
void rn_ngx_link_close(struct rn_ngx_link *link);

static inline uint64_t rn_ngx_link_owed(const struct rn_ngx_link *link)
{
    return link->next - link->first;
}

/* Whether it is worth writing a command. */
bool rn_ngx_link_can_ask(const struct rn_ngx_link *link);
/* The command's number, for rn_ngx_link_forget; 0: it cannot be sent, nothing follows.
 * `hear` may be NULL: the reply does not matter. */
uint64_t rn_ngx_link_send(struct rn_ngx_link *link, struct rn_slice command, rn_ngx_hear *hear,
                          void *arg);
/* A command whose reply nobody waits for: sent now, or once it is up again. Only for what
 * is harmless if it comes late; with very many waiting it is dropped. */
void rn_ngx_link_send_sometime(struct rn_ngx_link *link, struct rn_slice command);
/* Whoever asked has gone or given up: `instead` hears the reply, without an argument. */
void rn_ngx_link_forget(struct rn_ngx_link *link, uint64_t number, rn_ngx_hear *instead);

/* A deadline was missed; several on end are the end of the connection. */
void rn_ngx_link_missed(struct rn_ngx_link *link);
/* One was kept. */
static inline void rn_ngx_link_kept(struct rn_ngx_link *link)
{
    link->misses = 0;
    link->wait_ms = 0;
}

#endif
