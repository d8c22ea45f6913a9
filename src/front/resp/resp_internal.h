/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the RESP port: a command that is being answered, and the commands there are.
 */
#ifndef RN_FRONT_RESP_INTERNAL_H
#define RN_FRONT_RESP_INTERNAL_H

#include "front/await/held_request.h"
#include "front/await/reply_queue.h"
#include "front/front.h"

/* The requests of a gateway that wait in line: the connection goes on meanwhile. One connection
 * takes more than --waiting allows by default: over several, announcements may arrive in another
 * order. */
#define RN_RESP_LINE_MAX 16384
#define RN_RESP_LINE_BUCKETS 1024 /* a power of two */
struct rn_resp_line {
    uint32_t count;
    struct rn_held_request *buckets[RN_RESP_LINE_BUCKETS]; /* by id */
};

struct rn_resp_state {
    struct rn_reply_queue queue;
    struct rn_resp_line *line; /* NULL: no command had LINE so far */
    uint8_t version;           /* 2, or 3 after HELLO 3 */
    struct rn_token_shown shown;
};

struct rn_resp_context {
    struct rn_front *front;
    struct rn_conversation *conversation;
    struct rn_front_workspace *ws;
    struct rn_conn *conn;
    struct rn_resp_state *state;
    struct rn_buf *out;
    const char *data; /* the command as it arrived */
    uint32_t argc;
    struct rn_slice *argv; /* the name first */
    bool ended;            /* nothing more is answered */
};

enum rn_resp_flags {
    RN_RESP_NEEDS_ADMIN = 1, /* needs a token of scope admin, unless the peer is local */
    RN_RESP_JOINS = 2,       /* only joins the batch, which is charged and answered later */
    RN_RESP_DECIDES = 4,     /* may be decided at the same time as others like it */
    RN_RESP_INLINE = 8,      /* may be sent inline: it changes nothing */
};

struct rn_resp_entry {
    const char *name;            /* in capitals */
    uint32_t argc_min, argc_max; /* with the name */
    unsigned flags;
    const char *summary, *usage;
    void (*answer)(struct rn_resp_context *c);
};

/* table.c: all commands, and the one of this name; NULL: there is none. */
extern const struct rn_resp_entry rn_resp_entries[];
extern const size_t rn_resp_entry_count;
const struct rn_resp_entry *rn_front_resp_find(struct rn_slice name);

/* conversation.c: answers with an error; with the usage of the command. */
void rn_front_resp_fail(struct rn_resp_context *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rn_front_resp_fail_usage(struct rn_resp_context *c);
bool rn_front_resp_is(struct rn_slice word, const char *capitals);
/* Reads a whole number. False after answering. */
bool rn_front_resp_number(struct rn_resp_context *c, struct rn_slice text, const char *what,
                          int64_t *n);
/* The same for one that is 0 or more, as large as JSON allows. */
bool rn_front_resp_cost(struct rn_resp_context *c, struct rn_slice text, const char *what,
                        uint64_t *n);
/* Whether this caller may change what others have spent. False after answering. */
bool rn_front_resp_may_change(struct rn_resp_context *c);

/* batch.c: charges the commands that have joined, and answers them. */
void rn_front_resp_flush_batch(struct rn_resp_context *c);
/* Lets the commands join that repeat the last one with another key, up to a full batch. Returns
 * their bytes; 0: the next one must be parsed. */
size_t rn_front_resp_join_again(struct rn_resp_context *c, char *data, size_t len, uint64_t *count);
void rn_front_resp_cl_throttle(struct rn_resp_context *c);
void rn_front_resp_gcra(struct rn_resp_context *c);
void rn_front_resp_throttle(struct rn_resp_context *c);
void rn_front_resp_take(struct rn_resp_context *c);

/* write_decision.c */
void rn_front_resp_put_decision(struct rn_buf *out, const struct rn_decision_format *format,
                                const struct rn_decision *decision, int64_t held_ns);

/* decide.c: decides on ws->params and answers, now or later. */
void rn_front_resp_decide(struct rn_resp_context *c, enum rn_verb verb);
/* Reads the id of a request in line. False after answering. */
bool rn_front_resp_line_id(struct rn_resp_context *c, struct rn_slice text, uint64_t *id);
void rn_front_resp_leave(struct rn_resp_context *c);
/* The connection has ended: all its requests leave their lines. */
void rn_front_resp_line_drop(struct rn_resp_state *state);

/* ration_commands.c */
void rn_front_resp_check(struct rn_resp_context *c);
void rn_front_resp_take_alone(struct rn_resp_context *c);
void rn_front_resp_peek(struct rn_resp_context *c);
void rn_front_resp_reset_key(struct rn_resp_context *c);
void rn_front_resp_acquire(struct rn_resp_context *c);
void rn_front_resp_renew(struct rn_resp_context *c);
void rn_front_resp_release(struct rn_resp_context *c);
void rn_front_resp_reserve(struct rn_resp_context *c);
void rn_front_resp_commit(struct rn_resp_context *c);
void rn_front_resp_refund(struct rn_resp_context *c);
void rn_front_resp_charge_outcome(struct rn_resp_context *c);
void rn_front_resp_outcome(struct rn_resp_context *c);
void rn_front_resp_signal(struct rn_resp_context *c);
void rn_front_resp_help(struct rn_resp_context *c);

/* pause_command.c */
void rn_front_resp_pause(struct rn_resp_context *c);

/* client_commands.c */
void rn_front_resp_ping(struct rn_resp_context *c);
void rn_front_resp_echo(struct rn_resp_context *c);
void rn_front_resp_hello(struct rn_resp_context *c);
void rn_front_resp_auth(struct rn_resp_context *c);
void rn_front_resp_select(struct rn_resp_context *c);
void rn_front_resp_quit(struct rn_resp_context *c);
void rn_front_resp_reset(struct rn_resp_context *c);
void rn_front_resp_client(struct rn_resp_context *c);
void rn_front_resp_info(struct rn_resp_context *c);
void rn_front_resp_command(struct rn_resp_context *c);
void rn_front_resp_config(struct rn_resp_context *c);

#endif
