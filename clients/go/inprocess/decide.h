/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Go calls: each decision in one call, by values. A call from Go to C costs more than a small
 * function does, and what Go passes by pointer to C would have to be on its heap.
 */
#ifndef RATION_GO_DECIDE_H
#define RATION_GO_DECIDE_H

#include <stdlib.h>
#include <string.h>

#include <ration/clients.h>
#include <ration/rules.h>

/* A verdict, or a code below 0. */
struct decide_verdict {
    int64_t retry_after_ns, reset_after_ns, delay_ns;
    uint64_t limit, remaining;
    int code;
    bool allowed;
};

/* A key that is empty has no address in Go, where libration would take it as a hash. */
static inline const char *decide_text(const char *text)
{
    return text != NULL ? text : "";
}

/* Go has the limiter as a number: a pointer to a type that it does not know costs it an allocation
 * for each call, before Go 1.20, and a look whether it points to Go's memory. */
static inline struct ration *decide_limiter(uintptr_t handle)
{
    return (struct ration *)handle;
}

static struct ration *decide_open(const char *state, struct ration_error *error)
{
    struct ration_options options = {.state_path = *state != '\0' ? state : NULL};
    struct ration *r = NULL;

    return ration_open(&options, &r, error) == 0 ? r : NULL;
}

/* To be freed; NULL: `error` says why not. */
static struct ration_limit *decide_read_limit(_GoString_ text, struct ration_error *error)
{
    struct ration_limit *limit = calloc(1, sizeof *limit);

    if (limit != NULL && ration_limit_parse(decide_text(_GoStringPtr(text)), _GoStringLen(text),
                                            limit, error) != 0) {
        free(limit);
        return NULL;
    }
    return limit;
}

static struct decide_verdict decide_take(uintptr_t handle, const struct ration_limit *limit,
                                         _GoString_ key, uint64_t cost)
{
    struct ration_charge c = {.ad_hoc = limit,
                              .key = decide_text(_GoStringPtr(key)),
                              .key_len = _GoStringLen(key),
                              .cost = cost};
    int code = ration_take(decide_limiter(handle), &c, RATION_NOW);

    return (struct decide_verdict){.code = code,
                                   .allowed = c.verdict.allowed,
                                   .limit = c.verdict.limit,
                                   .remaining = c.verdict.remaining,
                                   .retry_after_ns = c.verdict.retry_after_ns,
                                   .reset_after_ns = c.verdict.reset_after_ns,
                                   .delay_ns = c.verdict.delay_ns};
}

enum { DECIDE_ATTRIBUTES = 128 };

/* Names and values are behind one another in `bytes`, each of its length. */
static inline void decide_fill(struct ration_attribute *a, const uint32_t *lengths,
                               const char *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        a[i].name = bytes;
        a[i].name_len = lengths[2 * i];
        bytes += lengths[2 * i];
        a[i].value = bytes;
        a[i].value_len = lengths[2 * i + 1];
        bytes += lengths[2 * i + 1];
    }
}

/* A cost of 0 only looks, as at rationd; in a request it would mean 1. */
static inline int decide_request(struct ration *r, const struct ration_request *request,
                                 struct ration_outcome *out)
{
    return request->cost == 0 ? ration_decide_peek(r, request, RATION_NOW, out)
                              : ration_decide(r, request, RATION_NOW, out);
}

/* 1, 0, or a code below 0. */
static int decide_allows(uintptr_t handle, const uint32_t *lengths, const char *bytes,
                         uint32_t count, uint64_t cost)
{
    struct ration_attribute a[DECIDE_ATTRIBUTES];
    struct ration_request request = {.attributes = a, .count = count, .cost = cost};
    struct ration_outcome out;
    int code;

    decide_fill(a, lengths, bytes, count);
    code = decide_request(decide_limiter(handle), &request, &out);
    return code != 0 ? code : out.decision.allowed;
}

/* The tickets are empty where there is none. */
static int decide_check(uintptr_t handle, const uint32_t *lengths, const char *bytes,
                        uint32_t count, uint64_t cost, bool lease, int64_t charge_ns,
                        struct ration_outcome *out, char *leased, char *charge)
{
    struct ration_attribute a[DECIDE_ATTRIBUTES];
    struct ration_request request = {.attributes = a, .count = count, .cost = cost};
    struct ration *r = decide_limiter(handle);
    int code;

    decide_fill(a, lengths, bytes, count);
    *leased = *charge = '\0';
    code = lease ? ration_acquire_request(r, &request, 0, RATION_NOW, out, leased)
                 : decide_request(r, &request, out);
    if (code == 0 && out->due_count != 0 && ration_outcome_ticket(r, out, charge_ns, charge) != 0)
        *charge = '\0';
    return code;
}

static bool decide_report(uintptr_t handle, _GoString_ charge, unsigned status)
{
    uint32_t count = 0;

    return ration_ticket_charge(decide_limiter(handle), decide_text(_GoStringPtr(charge)),
                                _GoStringLen(charge), status, RATION_NOW, &count) == 0 &&
           count > 0;
}

static bool decide_release(uintptr_t handle, _GoString_ lease)
{
    return ration_ticket_release(decide_limiter(handle), decide_text(_GoStringPtr(lease)),
                                 _GoStringLen(lease), RATION_NOW) == 0;
}

#endif
