/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all conversations of a daemon share: the limiter, the settings, and for each loop
 * its counters and workspace.
 */
#ifndef RN_FRONT_FRONT_H
#define RN_FRONT_FRONT_H

#include <pthread.h>

#include <ration/rules.h>

#include "base/fiber.h"
#include "front/admin/version_list.h"
#include "front/await/fiber_pool.h"
#include "front/await/turns.h"
#include "front/decision.h"
#include "front/token.h"
#include "net/server.h"
#include "wire/http.h"
#include "wire/metrics.h"
#include "wire/publish/publish.h"
#include "wire/resp.h"
#include "wire/rls.h"

enum rn_front_protocol {
    RN_FRONT_HTTP,
    RN_FRONT_RESP,
    RN_FRONT_GRPC,
    RN_FRONT_ADMIN,
    RN_FRONT_COUNT
};

/* Counters of one loop: written by its thread, read by others, so atomically. */
struct rn_front_counts {
    uint64_t requests[RN_FRONT_COUNT];           /* messages answered */
    uint64_t bad[RN_FRONT_COUNT];                /* answered with an error */
    uint64_t failed[RN_FRONT_COUNT];             /* decisions that could not be made */
    uint64_t delayed;                            /* replies */
    uint64_t resp_http;                          /* RESP connections closed for speaking HTTP */
    uint64_t wrong_tokens[RN_FRONT_COUNT];       /* and those that were not compared */
    struct rn_histogram latency[RN_FRONT_COUNT]; /* from arrival to answer, without delays */
};

#define RN_FRONT_BATCH 64
#define RN_LIMIT_CACHE 8

/* A limit that came with a command lately: its bytes, and what they mean. */
struct rn_cached_limit {
    char text[62];
    uint8_t len, extra; /* len 0: empty; extra: tells apart commands that read the same bytes
                         * differently */
    struct ration_limit limit;
};

struct rn_resp_entry;

/* A command of the batch without its key. */
struct rn_joined {
    const struct ration_limit *limit; /* in the limit cache; NULL: none */
    uint64_t cost;
    uint8_t shape; /* of the reply */
    bool drain;
};

/* Memory for one conversation at a time. What the last one left there only saves work. */
struct rn_front_workspace {
    struct rn_front_counts *counts; /* of the loop */
    struct rn_buf scratch, body;
    struct rn_params params;
    struct rn_decision decision;
    struct rn_http_request request;
    char names[RN_HTTP_HEAD_MAX + 8 * RN_HTTP_HEADERS_MAX]; /* header.NAME of each header */

    /* RESP: a run of commands that are charged together. */
    struct rn_resp_command command;
    const struct rn_resp_entry *last_entry; /* the command that was found last, */
    char last_name[16];                     /* and the name it came under */
    uint8_t last_name_len;
    struct ration_charge charges[RN_FRONT_BATCH];
    uint8_t styles[RN_FRONT_BATCH]; /* of their replies */
    uint32_t charge_count;
    struct rn_joined joined;          /* the one that joined last, */
    struct rn_resp_template template; /* and its bytes, if it came twice in a row */
    uint8_t limit_cache_last;
    struct rn_cached_limit limit_cache[RN_LIMIT_CACHE];

    /* Envoy's rate limit service. */
    struct ration_descriptors_outcome rls_outcome;
    struct rn_rls_reader rls;
};

/* What one loop has. */
struct rn_front_loop {
    _Alignas(128) struct rn_front_counts counts;
    struct rn_front_workspace ws; /* of conversations that do not wait */
    struct rn_fiber_pool pool;
    struct rn_await_turns turns;
    struct rn_grpc_call *spare_calls;
    uint32_t spare_count;
    struct rn_queued_reply *spare_replies;
    uint32_t spare_reply_count;
    struct rn_held_request *spare_held;
    uint32_t spare_held_count;
};

/* The author of a change, for the log. */
struct rn_author {
    struct rn_slice by;    /* an address, or what caused the change */
    struct rn_slice token; /* the name of the author's token; data NULL: none was needed */
};

#define RN_LOG_AUTHOR(author)                                                                      \
    RN_LOG_TEXT("by", (author).by),                                                                \
        RN_LOG_TEXT((author).token.data ? "token" : NULL, (author).token)

/* What the admin port needs from the daemon, in the control thread. */
struct rn_front_daemon {
    void *arg;
    /* Reads the files again, as SIGHUP does, and logs the author. 0, RATION_EPARSE or
     * RATION_ENOMEM; the caller must free the report. */
    int (*reload)(void *arg, struct rn_author author, struct ration_report **report);
    /* The files that rules come from; none: they come from the API alone. */
    const char *const *files;
    size_t file_count;
};

/* Called after an operator has changed something that must be kept, here or on other nodes.
 * In the control thread. */
struct rn_front_asked {
    unsigned percent; /* 100: no node asks for less */
    const char *node; /* that asks for the least; valid until the loop goes on */
};

/* A node whose usage may be missing from that of all nodes. */
struct rn_front_missing {
    struct rn_slice name;
    int64_t silent_ns;    /* since its last report */
    uint64_t unpublished; /* entries that it had not reported then */
};

struct ration_usage;
struct ration_usage_query;

struct rn_front_fleet {
    void *arg;
    void (*changed)(void *arg); /* overrides or bans; NULL: nodes share no changes */
    /* text.data NULL: back to the files. False: this change will not outlast a restart. The
     * function NULL: rules that are set are not kept. */
    bool (*rules_changed)(void *arg, struct rn_slice text);
    size_t rules_max;                                   /* bytes that can be shared */
    void (*put_metrics)(void *arg, struct rn_buf *out); /* NULL: there are no other nodes */
    const char *name;                                   /* of this node, as others name it */
    /* What other nodes ask of a rule with `scope: fleet`. False: none of that name, or nothing is
     * known. */
    bool (*asked)(void *arg, struct rn_slice rule, struct rn_front_asked *out);
    /* The usage that all nodes have counted, as ration_usage_each tells that of this one. It may
     * park the fiber it is called on. NULL: nodes share no usage. */
    int (*usage_each)(void *arg, const struct ration_usage_query *query,
                      int (*see)(void *, const struct ration_usage *), void *see_arg,
                      uint64_t *next, struct ration_error *error);
    /* The nodes that the last usage_each of this request may lack something of. */
    int (*usage_missing)(void *arg, int (*see)(void *, const struct rn_front_missing *),
                         void *see_arg);
};

/* The store that nodes share, for the admin port; in the control thread. */
struct rn_front_store {
    void *arg; /* NULL: there is none */
    bool (*is_up)(void *arg);
    void (*put_metrics)(void *arg, struct rn_buf *out);
};

/* Questions of the daemon to other servers, for the page of metrics. */
struct rn_front_queries {
    void *arg;
    void (*put_metrics)(void *arg, struct rn_buf *out); /* NULL: there are none */
};

struct rn_timeline;
struct rn_live_stream;

/* How much of a client's key log lines have: keys may be secrets. */
enum rn_log_keys { RN_KEYS_MASKED, RN_KEYS_FULL, RN_KEYS_NONE };

/* The limits as users of the API read them (http/limits.c); under the lock. */
struct rn_published {
    pthread_mutex_t lock;
    uint64_t version; /* of the rules, + 1; 0: nothing is written yet */
    struct rn_buf texts[RN_PUBLISH_FORMATS];
    char tags[RN_PUBLISH_FORMATS][24]; /* for ETag */
};

struct rn_front {
    struct ration *limiter;
    struct rn_server *server;
    int64_t patience_ns; /* how long a decision may wait for the shared store; 0: there is none */
    int64_t drain_ns;    /* how long a stop waits for connections to end */
    bool trust_local;    /* callers on this machine need no token */
    struct rn_token_guard guard;
    enum rn_log_keys log_keys;
    struct rn_front_loop *loops; /* one for each worker and one for the control loop */
    unsigned loop_count;
    int64_t started_ns; /* Unix time */
    bool publishes;     /* GET /limits */
    struct rn_published published;
    struct rn_rls_extra rls; /* what answers to Envoy have besides */
    int64_t grpc_age_ns;     /* gRPC peers are asked to reconnect then; 0: never */
    struct rn_front_daemon daemon;
    struct rn_front_fleet fleet;
    struct rn_front_queries queries;
    struct rn_front_store store;

    /* For the control thread only. */
    bool starting;                    /* not ready yet */
    bool rules_from_api;              /* since the last load of the files */
    struct rn_buf rules_text;         /* then: as they were given */
    int64_t rules_loaded_ns;          /* Unix time */
    struct rn_version_list versions;  /* of the rules, */
    bool versions_open;               /* once the daemon has started */
    uint64_t reloads, reloads_failed; /* of the files */
    bool reload_failed;               /* the last one */
    uint64_t puts, puts_failed;       /* of rules, over the API */
    struct ration_memory memory;      /* as it was counted last: see rn_front_memory */
    int64_t memory_counted_ns;        /* on CLOCK_MONOTONIC: when; 0: never yet */
    int64_t memory_took_ns;           /* to count it */
    int64_t bans_since_ns;            /* on the table's clock: bans begun earlier are not logged */
    uint64_t bans_logged;             /* sequence of the last event that was looked at */
    struct rn_timeline *timeline;     /* of decisions */
    struct rn_live_stream *streams;   /* of GET /v1/live that are open: */
    unsigned streams_open;            /* how many, */
    uint64_t lines_skipped;           /* and lines that their readers were too slow for */
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

/* A decision begins: from now on it may wait as long as decisions may. */
static inline void rn_front_set_deadline(const struct rn_front *front, const struct rn_conn *conn)
{
    if (front->patience_ns > 0)
        rn_fiber_set_deadline(rn_wheel_now(rn_conn_wheel(conn)) + front->patience_ns);
}

/* Sets what Envoy's rate limit service keeps for the answer. */
static inline void rn_front_set_rls(const struct rn_front *front, struct rn_rls_reader *reader)
{
    reader->request.quota_mode = front->rls.quota_mode;
    reader->request.metadata = front->rls.metadata ? rn_rls_keep : NULL;
    reader->request.arg = reader;
}

/* Replaces the rules by a text of the author's, as PUT /v1/rules does, and logs it. Messages
 * call the text `name` (NULL: rules). 0, RATION_EPARSE or RATION_ENOMEM; the caller must free
 * the report. In the control thread. */
int rn_front_put_rules(struct rn_front *front, const char *name, struct rn_slice text,
                       struct rn_author author, struct ration_report **report);

/* Adds the rules in force to the versions, unless they are those of the last one. `of`: the version
 * of a rollback, else 0. In the control thread. */
void rn_front_note_rules(struct rn_front *front, struct rn_author author, enum rn_version_how how,
                         uint64_t of);
/* Reads the versions that are kept beside the state (NULL: none are), and notes those in force. */
void rn_front_open_versions(struct rn_front *front, const char *path);

/* A log line for each diagnostic of a report (may be NULL), with its place. */
void rn_front_log_report(const struct ration_report *report);

/* A log line for each ban that a rule with `escalate` has begun since the last call, in whichever
 * process of those that share the state file. In the control thread. */
void rn_front_log_bans(struct rn_front *front);

/* Takes a sample of what is decided, if a second is over, and tells the streams. In the control
 * thread, several times a second. */
void rn_front_sample(struct rn_front *front);
/* Ends all streams: the daemon stops. In the control thread. */
void rn_front_end_streams(struct rn_front *front);

/* How full the table is, as of the last ten seconds or more: counting goes through all of it, and
 * takes at most one part in `share` of the time. In the control thread. */
#define RN_FRONT_MEMORY_ASKED 20    /* share: an operator or a monitoring system asks */
#define RN_FRONT_MEMORY_WATCHED 500 /* pages watch, all the time */
const struct ration_memory *rn_front_memory(struct rn_front *front, int64_t share);

/* The protocols. Their context is the rn_front. */
extern const struct rn_protocol rn_http_protocol, rn_resp_protocol, rn_grpc_protocol,
    rn_admin_protocol;

#endif
