/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in line: a request that a limit refuses for the moment stands in line for it and is
 * decided again when its turn has come. A waiter holds no thread and no charge.
 *
 * For threads: ration_wait(r, &request, &out) is ration_decide that may take request.max_wait_ns.
 *
 * For event loops: give the request a waiter. Any decision may then answer RATION_EWAITS: nothing
 * is charged, and the waiter stands in line. When its turn has come, or its time is over, `turn` is
 * called. Ask again then, with the same request and waiter, and answer the client if the code is
 * not RATION_EWAITS once more.
 *
 * In each line those of higher priority come first, then those that came first, whichever thread
 * they belong to. Lines belong to a process. Nobody overtakes a line: also callers that would not
 * wait are refused while others wait. A request that needs several limits stands in one line at a
 * time; once it has changed lines twice, others leave it what it needs of slower limits.
 */
#ifndef RATION_WAIT_H
#define RATION_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

struct ration;
struct ration_charge;
struct ration_outcome;
struct ration_request;
struct ration_waiting; /* the waiters of one thread */

/* Zero it and set the first two, or it is RATION_EINVAL. It must stay where it is while it waits.
 */
struct ration_waiter {
    struct ration_waiting *waiting;
    void (*turn)(struct ration_waiter *waiter); /* called in ration_waiting_run; may free it */
    int64_t most_ns;  /* the longest time in line, whatever the rules let it; 0: no bound */
    uint64_t own[29]; /* the library's */
};

/* `wake` is called, in any thread, when ration_waiting_run must be called sooner than
 * ration_waiting_next said; never within ration_waiting_run of the same waiters. It must only
 * signal (an eventfd, uv_async_send). NULL: use ration_waiting_fd, or, in a program of one thread,
 * ask ration_waiting_next after everything. 0 or RATION_ENOMEM. */
RATION_API int ration_waiting_new(struct ration *r, void (*wake)(void *arg), void *arg,
                                  struct ration_waiting **out);
/* None of its waiters may wait any more. NULL is fine. */
RATION_API void ration_waiting_free(struct ration_waiting *waiting);
/* A descriptor that is readable when ration_waiting_run must be called, for loops without a timer
 * of their own; or RATION_EIO. It belongs to `waiting`. */
RATION_API int ration_waiting_fd(struct ration_waiting *waiting);
/* In its own thread: calls `turn` of each waiter whose turn has come or whose time is over. */
RATION_API void ration_waiting_run(struct ration_waiting *waiting, int64_t now_ns);
/* How long until ration_waiting_run must be called again, at the latest; RATION_NEVER. Ask after
 * each run, and after each decision that answered RATION_EWAITS. In its own thread. */
RATION_API int64_t ration_waiting_next(struct ration_waiting *waiting, int64_t now_ns);
/* From now on none of its waiters waits beyond at_ns: for a process that stops. Any thread. */
RATION_API void ration_waiting_end_by(struct ration_waiting *waiting, int64_t at_ns);
/* Leaves the line, uncharged: the client went away. Nothing if it does not wait. In its own
 * thread. */
RATION_API void ration_waiter_leave(struct ration_waiter *waiter);
/* How long it may still stand in line, at most; 0 if it does not wait. In its own thread. */
RATION_API int64_t ration_waiter_rest(const struct ration_waiter *waiter, int64_t now_ns);

/* The most that may wait in this process, in all lines together; 10,000 unless set. 0: nobody waits
 * in line. */
RATION_API void ration_waiting_set_most(struct ration *r, uint64_t most);

/* Bounds in seconds: .005 .01 .025 .05 .1 .25 .5 1 2.5 5 10, and more. */
#define RATION_WAIT_BUCKETS 12

/* Totals of this process, for metrics. joined = waiting + admitted + left + timed_out. */
struct ration_waiting_totals {
    uint64_t waiting;      /* now */
    uint64_t lines;        /* now */
    uint64_t most;         /* that may wait: ration_waiting_set_most */
    uint64_t joined;       /* requests that have begun to wait */
    uint64_t admitted;     /* and went ahead in the end */
    uint64_t left;         /* whose client went away */
    uint64_t timed_out;    /* refused in the end: after max_wait, when it was clear that it cannot
                              be met, displaced by a higher priority, or for another reason */
    uint64_t refused_full; /* not let in: the line, or the process, had no room */
    uint64_t refused_late; /* not let in: arrival showed that max_wait cannot be met */
    uint64_t times[RATION_WAIT_BUCKETS]; /* how long those admitted or timed out stood in line */
    uint64_t time_sum_ns;
};
RATION_API void ration_waiting_totals(const struct ration *r, struct ration_waiting_totals *totals);

/* Blocking forms: as ration_decide and ration_take, at the present time, but the thread sleeps
 * while it stands in line. request->max_wait_ns 0: as long as the rules let it; c->max_wait_ns 0:
 * not at all. Any number of threads may wait. Never RATION_EWAITS. There is no such form for places
 * and reservations: give ration_acquire or ration_reserve a waiter. */
RATION_API int ration_wait(struct ration *r, const struct ration_request *request,
                           struct ration_outcome *out);
RATION_API int ration_wait_charge(struct ration *r, struct ration_charge *c);

/* The line that a request would stand in now. */
struct ration_line {
    uint64_t waiting;         /* all that stand there */
    uint64_t ahead;           /* those that would go before the request */
    int64_t opens_after_ns;   /* until the first has its turn */
    int64_t wait_at_least_ns; /* until this request could have its own */
};
/* Of the limits of the rule with this name, or of all rules that apply (`rule` NULL), the line with
 * the longest wait; all 0 if none stands. RATION_ENORULE: there is no such rule;
 * RATION_EUNMATCHED: it, or any, does not apply to the request. */
RATION_API int ration_line(struct ration *r, const struct ration_request *request, const char *rule,
                           size_t rule_len, int64_t now_ns, struct ration_line *out);

#endif
