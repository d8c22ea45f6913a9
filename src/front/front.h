/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all conversations of a daemon share: the limiter, the settings, and for
 * each loop its counters and memory to work in.
 */
#ifndef RN_FRONT_FRONT_H
#define RN_FRONT_FRONT_H

#include <ration/rules.h>

#include "front/await/fiber_pool.h"
#include "front/decision.h"
#include "front/token.h"
#include "net/server.h"
#include "wire/http.h"
#include "wire/metrics.h"
#include "wire/resp.h"
#include "wire/rls.h"

enum rn_front_protocol {
    RN_FRONT_HTTP,
    RN_FRONT_RESP,
    RN_FRONT_GRPC,
    RN_FRONT_ADMIN,
    RN_FRONT_COUNT
};

/* Of one loop: written by its thread, read by anyone, hence atomically. */
struct rn_front_counts {
    uint64_t requests[RN_FRONT_COUNT];     /* messages answered */
    uint64_t bad[RN_FRONT_COUNT];          /* refused as messages: no decision was made */
    uint64_t failed[RN_FRONT_COUNT];       /* decisions that could not be made */
    uint64_t held;                         /* replies held, ever */
    uint64_t resp_http;                    /* RESP connections closed for speaking HTTP */
    uint64_t wrong_tokens[RN_FRONT_COUNT]; /* and those that were not looked at */
    struct rn_histogram
        latency[RN_FRONT_COUNT]; /* from its arrival to its answer, without holding */
};

#define RN_FRONT_BATCH 64
#define RN_LIMIT_CACHE 8

/* A limit that came with a command lately: its bytes, and what they mean. */
struct rn_cached_limit {
    char text[62];
    uint8_t len, extra; /* len 0: nothing is remembered */
    struct ration_limit limit;
};

struct rn_resp_entry;

/* What a command of the batch means, but for its key. */
struct rn_joined {
    const struct ration_limit *limit; /* one of those that are limit_cache; NULL: nothing */
    uint64_t cost;
    uint8_t shape; /* how it wants to be answered */
    bool drain;
};

/* Memory to work in, for one conversation at a time. What is left behind saves work, and
 * means nothing. */
struct rn_front_workspace {
    struct rn_front_counts *counts; /* of the loop */
    struct rn_buf scratch, body;
    struct rn_params params;
    struct rn_decision decided;
    struct rn_http_request request;
    char names[RN_HTTP_HEAD_MAX + 8 * RN_HTTP_HEADERS_MAX]; /* header.NAME of each header */

    /* RESP: a run of commands that are charged together. */
    struct rn_resp_command command;
    const struct rn_resp_entry *last_entry; /* what was found last, */
    char last_name[16];                     /* and under which name */
    uint8_t last_name_len;
    struct ration_charge charges[RN_FRONT_BATCH];
    uint8_t shapes[RN_FRONT_BATCH]; /* how each wants to be answered */
    uint32_t charge_count;
    struct rn_joined joined;          /* what joined last, */
    struct rn_resp_template template; /* and how it is last_entry, if it was last_entry twice in a
                                         row */
    uint8_t limit_cache_last;
    struct rn_cached_limit limit_cache[RN_LIMIT_CACHE];

    /* Envoy's rate limit service. */
    struct ration_descriptors_outcome rls_outcome;
    struct rn_rls_reader rls;
};

/* One loop's. */
struct rn_front_loop {
    _Alignas(128) struct rn_front_counts counts;
    struct rn_front_workspace ws; /* of conversations that do not wait */
    struct rn_fiber_pool turns;
    struct rn_grpc_call *spare_calls; /* and how many there are: */
    uint32_t spare_count;
    struct rn_queued_reply *spare_replies; /* likewise */
    uint32_t spare_reply_count;
};

/* Who makes a change, as the log has it. */
struct rn_author {
    struct rn_slice by;    /* an address, or what led to it */
    struct rn_slice token; /* the name of the token that was shown; data NULL: none was needed */
};

#define RN_LOG_AUTHOR(author)                                                                      \
    RN_LOG_TEXT("by", (author).by),                                                                \
        RN_LOG_TEXT((author).token.data ? "token" : NULL, (author).token)

/* What the admin port asks of the daemon, in the control thread. */
struct rn_front_daemon {
    void *arg;
    /* Reads the files again, as SIGHUP does, and logs who asked for it. 0,
     * RATION_EPARSE or RATION_ENOMEM; the report is the caller's to free. */
    int (*reload)(void *arg, struct rn_author author, struct ration_report **report);
    /* The files that rules come from; none: they come from the API alone. */
    const char *const *files;
    size_t file_count;
};

/* Whoever keeps what operators change, here or on other nodes, and is told after it was
 * changed. In the control thread. */
struct rn_front_fleet {
    void *arg;
    void (*changed)(void *arg); /* overrides or bans; NULL: nodes share no changes */
    /* data NULL: to the files'. NULL: rules that are set are not kept. False: this change
     * will not outlast a restart. */
    bool (*rules_changed)(void *arg, struct rn_slice text);
    size_t rules_max;                                   /* bytes that can be shared */
    void (*put_metrics)(void *arg, struct rn_buf *out); /* NULL: there are no other nodes */
};

/* The store that nodes share, as the admin port tells of it; in the control thread. */
struct rn_front_store {
    void *arg; /* NULL: there is none */
    bool (*is_up)(void *arg);
    void (*put_metrics)(void *arg, struct rn_buf *out);
};

/* How much of a client's key log lines tell: keys may be secrets. */
enum rn_log_keys { RN_KEYS_MASKED, RN_KEYS_FULL, RN_KEYS_NONE };

struct rn_front {
    struct ration *limiter;
    struct rn_server *server;
    int64_t patience_ns; /* how long a decision may wait for a shared store; 0: there is none */
    bool trust_local;    /* callers on this machine need no token */
    struct rn_token_guard guard;
    enum rn_log_keys log_keys;
    struct rn_front_loop *loops; /* one for each worker and one for the control loop */
    unsigned loop_count;
    int64_t started_ns;      /* Unix time */
    struct rn_rls_extra rls; /* what answers to Envoy have besides */
    int64_t grpc_age_ns;     /* gRPC connections are asked to go then; 0: never */
    struct rn_front_daemon daemon;
    struct rn_front_fleet fleet;
    struct rn_front_store store;

    /* The control thread's. */
    bool starting;                    /* not ready yet */
    bool rules_from_api;              /* since the last load of the files */
    struct rn_buf rules_text;         /* then: as they were given */
    int64_t rules_loaded_ns;          /* Unix time */
    uint64_t reloads, reloads_failed; /* of the files */
    bool reload_failed;               /* the last one */
    uint64_t puts, puts_failed;       /* of rules, over the API */
    struct ration_memory memory;      /* as it was counted last: see rn_front_memory */
    int64_t memory_until_ns;          /* on CLOCK_MONOTONIC: when to count again */
};

void rn_front_workspace_done(struct rn_front_workspace *ws);

/* 0, RATION_ENOMEM or RATION_EIO. */
int rn_front_init(struct rn_front *front, struct ration *limiter, struct rn_server *server);
void rn_front_done(struct rn_front *front);

static inline struct rn_front_loop *rn_front_loop(const struct rn_front *front,
                                                  const struct rn_conn *conn)
{
    return &front->loops[rn_loop_index(rn_conn_loop(conn))];
}

static inline void rn_front_count(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

/* Has the metadata of limits kept for the answer, if that is wanted. */
static inline void rn_front_set_rls(const struct rn_front *front, struct rn_rls_reader *reader)
{
    reader->request.quota_mode = front->rls.quota_mode;
    reader->request.metadata = front->rls.metadata ? rn_rls_keep : NULL;
    reader->request.arg = reader;
}

/* Replaces the rules by a text that the author gave, as PUT /v1/rules does, and logs it.
 * Messages call it `name` (NULL: rules). 0, RATION_EPARSE or RATION_ENOMEM; the report is the
 * caller's to free. In the control thread. */
int rn_front_put_rules(struct rn_front *front, const char *name, struct rn_slice text,
                       struct rn_author author, struct ration_report **report);

/* A log line for each diagnostic of a report (may be NULL), with its place. */
void rn_front_log_report(const struct ration_report *report);

/* How full the table is, as of the last ten seconds: counting takes a walk through all of it.
 * In the control thread. */
const struct ration_memory *rn_front_memory(struct rn_front *front);

/* The protocols. Their context is the rn_front. */
extern const struct rn_protocol rn_http_protocol, rn_resp_protocol, rn_grpc_protocol,
    rn_admin_protocol;

#endif
