/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the layers of this room: async in front of leased in front of strict. A
 * backend may answer later, so that different layers can work on the parts of one batch at the
 * same time. To all other rooms a backend is a store (store/store.h): rn_store_apply hands it the
 * batch and parks the fiber until the answer is there.
 */
#ifndef RN_REDIS_BACKEND_H
#define RN_REDIS_BACKEND_H

#include "store/store.h"

enum rn_progress {
    RN_DONE = 0,    /* every charge is answered; `done` is not called */
    RN_PENDING = 1, /* `done` will be called once, from the loop */
};

typedef void rn_backend_done(void *arg, struct rn_charge *batch, size_t n);

struct rn_backend;
struct rn_backend_ops {
    /* done NULL: the caller cannot wait; what cannot be answered at once has RATION_ESTORE. */
    enum rn_progress (*begin)(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                              rn_backend_done *done, void *arg);
    /* As rn_store_ops.disown. */
    void (*disown)(struct rn_backend *backend, const struct rn_charge *charge, uint64_t late);
};

struct rn_backend {
    struct rn_store store; /* first */
    const struct rn_backend_ops *ops;
};

void rn_backend_init(struct rn_backend *backend, const struct rn_backend_ops *ops);

static inline enum rn_progress rn_backend_begin(struct rn_backend *backend, struct rn_charge *batch,
                                                size_t n, rn_backend_done *done, void *arg)
{
    return backend->ops->begin(backend, batch, n, done, arg);
}

/* --- jobs: batches that are not answered yet ------------------------------------------------ */

#define RN_BACKEND_JOBS 1024 /* of one layer; a further batch has RATION_ESTORE */

struct rn_backend_job {
    struct rn_charge *batch;
    size_t n, left; /* left: parts of the batch that are not answered yet */
    rn_backend_done *done;
    void *arg;
    struct rn_backend_jobs *jobs;
    uint64_t asked;      /* of the strict backend: rn_refusal_cache_asked */
    uint64_t life;       /* changes whenever the job ends: older references are then void */
    int64_t deadline_ns; /* INT64_MAX: none */
    struct rn_backend_job *next, **link;
};

struct rn_backend_jobs {
    void *owner;                                 /* the layer */
    struct rn_backend_job *first, *last, *spare; /* under way, by deadline; unused */
    struct rn_backend_job pool[RN_BACKEND_JOBS];
};

/* Of zeroed jobs. */
void rn_backend_init_jobs(struct rn_backend_jobs *jobs, void *owner);
/* A job with nothing left to answer: the caller counts its parts in `left`. NULL: too many. */
struct rn_backend_job *rn_backend_begin_job(struct rn_backend_jobs *jobs, struct rn_charge *batch,
                                            size_t n, rn_backend_done *done, void *arg,
                                            int64_t deadline_ns);
/* Ends the job without calling `done`. */
void rn_backend_end_job(struct rn_backend_job *job);
/* `parts` of the job have been answered. The last ones end it and call `done`. */
void rn_backend_answered(struct rn_backend_job *job, size_t parts);

#endif
