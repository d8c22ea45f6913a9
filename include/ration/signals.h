/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: values that limits follow. Rules name them (`signals:`) and say what they change
 * (`adapt:`, `elastic:`); the program that uses the library says when to look at them, since the
 * library starts no threads:
 *
 *     ration_signal_push(r, "backlog", 7, queue_length(), NULL);
 *     ration_signals_tick(r, RATION_NOW);
 *
 * The second call about once a second. All processes that share a state file share values and
 * factors. One of those that call ration_signals_tick looks at the signals for all; if it ends,
 * another does so within seconds.
 */
#ifndef RATION_SIGNALS_H
#define RATION_SIGNALS_H

#include <ration/ration.h>

/* The values of pushed signals are at most this, with either sign. */
#define RATION_SIGNAL_MAX 1e12

/* Samples the load of the machine, computes quantiles and shares, and sets the factors of the rules
 * that follow signals. Call it about once a second, from any thread; calls that come sooner, or
 * while another thread is in it, do nothing. Returns how many factors have changed. */
RATION_API int ration_signals_tick(struct ration *r, int64_t now_ns);

/* Sets the value of a signal with `source: push`. RATION_EINVAL: there is no such signal, it has
 * another source, or the value is no number or too large; `error` (may be NULL) says which. */
RATION_API int ration_signal_push(struct ration *r, const char *name, size_t len, double value,
                                  struct ration_error *error);

/* Tells how a request of a rule ended, for signals with `source: latency` or `status`: its HTTP
 * status (0: unknown) and how long it took (negative: unknown). Rules that no signal is about
 * ignore it. RATION_EINVAL: there is no such rule. */
RATION_API int ration_signal_outcome(struct ration *r, const char *rule, size_t len,
                                     unsigned status, int64_t duration_ns, int64_t now_ns);

struct ration_signal_info {
    const char *name; /* not terminated */
    size_t name_len;
    const char *source; /* "cpu", "latency", "status", "push", "prometheus" */
    const char *unit;   /* "share" (1 is 100 %), "seconds" or "number" */
    double value;       /* the last one; 0 if there was none */
    int64_t age_ns;     /* of that value; negative: there was none */
    bool stale;         /* there is no value, or it is too old to count */
};
/* Calls `see` for every signal of the rules, until it returns non-zero. It must not load rules. */
RATION_API void ration_signals_each(struct ration *r,
                                    int (*see)(void *arg, const struct ration_signal_info *info),
                                    void *arg);

#endif
