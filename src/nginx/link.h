/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of a worker to a rationd. The worker connects when it starts, sends the
 * password and PING, and connects again after a random pause when the connection is lost.
 * Commands are pipelined: those of one round of nginx's event loop go out together, and
 * replies come in order. Nothing here blocks.
 *
 *   WAITING ──pause over──> GREETING ──PONG──> UP
 *      ^                       │               │
 *      └── failed, too slow ───┘               │
 *      └── closed, bad reply, MISSES_MAX missed deadlines ──┘
 *
 *   WAITING    nothing can be asked, so a dead rationd costs nothing
 *   GREETING   connecting, TLS handshake, waiting for PONG; can be asked in the very first
 *              attempt only
 *   UP         can be asked
 *
 * A command is sent at most once: never again on another connection. When the caller stops
 * waiting for a reply, another function receives that reply in its place. Pushes, which come
 * between replies, go to rationd_line.c.
 */
#ifndef RN_NGINX_LINK_H
#define RN_NGINX_LINK_H

#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "base/buf.h"

#define RN_NGX_OWED 4096 /* most replies outstanding on a connection; a power of two */

struct rn_ngx_link;

/* Receives one complete reply. data NULL: there will be none; rationd may or may not have run
 * the command. Returns false if this cannot be the reply: then the connection is closed. */
typedef bool rn_ngx_on_reply(struct rn_ngx_link *link, void *arg, struct rn_slice reply);

enum rn_ngx_link_state { RN_NGX_WAITING, RN_NGX_GREETING, RN_NGX_UP };

struct rn_ngx_link {
    struct rn_ngx_server *server;
    struct rn_ngx_worker *worker;
    ngx_log_t *log;
    ngx_log_t quiet; /* swallows nginx's own lines about each attempt */
    ngx_peer_connection_t peer;
    enum rn_ngx_link_state state;
    bool open;          /* commands may go out: TLS, if any, has verified the server */
    bool hopeful;       /* the first attempt: assume that it will succeed */
    const char *denial; /* why the server refuses us; NULL: it does not */
    bool logged_error;  /* that rationd answers with errors */
    bool without_lines; /* it is older than LINE: nothing can wait there */
    ngx_uint_t attempts;
    ngx_event_t again;  /* WAITING: next attempt; GREETING: its deadline */
    ngx_event_t flush;  /* at the end of the round */
    ngx_msec_t wait_ms; /* before the last attempt */
    ngx_uint_t misses;  /* deadlines missed in a row */

    struct rn_buf in, out;
    size_t sent;            /* of `out` */
    struct rn_buf later;    /* commands for the next connection, */
    ngx_uint_t later_count; /* and their number */
    uint64_t first, next;   /* numbers of the oldest command without a reply, and of the next */
    ngx_rbtree_t in_line;   /* requests that stand in line there, by their number, */
    uint64_t in_line_count; /* and how many */
    ngx_rbtree_node_t nobody;
    struct {
        rn_ngx_on_reply *on_reply;
        void *arg;
    } owed[RN_NGX_OWED];
};

/* In a worker. All fields but server, worker and log must be zero. Begins to connect. */
void rn_ngx_link_open(struct rn_ngx_link *link);
/* Sends what the socket takes at once. No callback is called. */
void rn_ngx_link_close(struct rn_ngx_link *link);

static inline uint64_t rn_ngx_link_owed(const struct rn_ngx_link *link)
{
    return link->next - link->first;
}

/* Replies and announcements to come: for choosing among connections, each of which can have only so
 * many in line. */
static inline uint64_t rn_ngx_link_load(const struct rn_ngx_link *link)
{
    return rn_ngx_link_owed(link) + link->in_line_count;
}

/* Whether a command can be sent now. */
bool rn_ngx_link_can_ask(const struct rn_ngx_link *link);
/* Returns the command's number, for rn_ngx_link_forget; 0: not sent, no callback. on_reply
 * NULL: the reply is ignored. */
uint64_t rn_ngx_link_send(struct rn_ngx_link *link, struct rn_slice command,
                          rn_ngx_on_reply *on_reply, void *arg);
/* Sends a command now or when the connection is up again, and ignores its reply. Only for
 * commands that may come late; dropped if very many wait. */
void rn_ngx_link_send_sometime(struct rn_ngx_link *link, struct rn_slice command);
/* The caller stops waiting: `instead` receives the reply, with arg NULL. */
void rn_ngx_link_forget(struct rn_ngx_link *link, uint64_t number, rn_ngx_on_reply *instead);

/* A deadline was missed. Several in a row end the connection. */
void rn_ngx_link_missed(struct rn_ngx_link *link);
/* A deadline was met. */
static inline void rn_ngx_link_kept(struct rn_ngx_link *link)
{
    link->misses = 0;
    link->wait_ms = 0;
}

#endif
