/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules from files: which limits apply to a request, and to which keys.
 *
 *     const char *files[] = {"rules.yaml"};
 *     struct ration_report *report;
 *     if (ration_rules_load(r, files, 1, &report) != 0)
 *         fputs(ration_report_text(report), stderr);
 *     ration_report_free(report);
 *
 *     struct ration_attribute a[] = {{"ip", 2, ip, strlen(ip)}, {"path", 4, path, strlen(path)}};
 *     struct ration_outcome out;
 *     if (ration_decide(r, &(struct ration_request){a, 2, 1}, RATION_NOW, &out) == 0 &&
 *         !out.decision.allowed)
 *         reply(out.response.status, out.decision.verdict.retry_after_ns);
 *
 * Rules may be replaced at any time, under load. Each request is decided by one
 * set of rules; none waits for a reload. What a reload leaves as it was keeps
 * its counters, and what it changes keeps the share that was spent.
 *
 * A decision allocates nothing and uses about 100 KB of stack.
 */
#ifndef RATION_RULES_H
#define RATION_RULES_H

#include <ration/ration.h>
#include <ration/request.h>

#define RATION_OUTCOME_LIMITS 16 /* limits that an outcome tells about */
#define RATION_LEASES_MAX 4      /* concurrency limits that may apply to one request */
#define RATION_NAME_SIZE 64
#define RATION_MESSAGE_SIZE 512

/* --- rules ------------------------------------------------------------------- */

/* What is wrong with the files, or worth a warning. */
struct ration_report;

/* For people: `file:line:column: error: what was found; what would be right`, the
 * line and a caret, for each. Empty if all is well. Lives as long as the report. */
RATION_API const char *ration_report_text(const struct ration_report *report);
RATION_API size_t ration_report_errors(const struct ration_report *report);
RATION_API size_t ration_report_warnings(const struct ration_report *report);
RATION_API void ration_report_free(struct ration_report *report);

/* Reads files and directories, native or Envoy's, and puts their rules in the
 * place of the current ones. RATION_EPARSE if there is an error, RATION_ENOMEM:
 * the current rules stay. `report` may be NULL; else *report is set in any case
 * (to NULL only if there is no memory for one) and to be freed. May wait for
 * another reload and for decisions that have begun. */
RATION_API int ration_rules_load(struct ration *r, const char *const *paths, size_t count,
                                 struct ration_report **report);
/* The same from memory; `name` stands for the file in messages. */
RATION_API int ration_rules_parse(struct ration *r, const char *name, const char *text, size_t len,
                                  struct ration_report **report);
/* How often rules have been put in place: 0 before the first. */
RATION_API uint64_t ration_rules_version(const struct ration *r);

/* What a rule has decided in this process, also before a reload that kept its
 * name. RATION_EINVAL: there is no such rule. */
RATION_API int ration_rule_totals(struct ration *r, const char *name, size_t len,
                                  struct ration_totals *totals);

/* --- decisions ----------------------------------------------------------------- */

enum ration_outcome_kind {
    RATION_BY_LIMITS,     /* the limits of the rules that apply */
    RATION_BY_NO_RULE,    /* none applies: allowed */
    RATION_BY_ALLOW_LIST, /* no limit was asked */
    RATION_BY_DENY_LIST,  /* refused, for ever */
    RATION_BY_BAN,        /* clients.h: refused until it ends; `message` is its reason */
};

enum ration_header_family {
    RATION_HEADERS_X,
    RATION_HEADERS_IETF,
    RATION_HEADERS_BOTH,
    RATION_HEADERS_NONE,
};

struct ration_outcome_limit {
    char rule[RATION_NAME_SIZE];
    struct ration_verdict verdict; /* limit and remaining are without the soft part, and
                                      remaining without what a priority must leave */
    enum ration_algorithm algorithm;
    int64_t period_ns; /* 0 for concurrency */
    bool shadow;
};

struct ration_outcome {
    struct ration_decision decision; /* decided_by is an index into `limits`, or -1 */
    enum ration_outcome_kind kind;
    bool soft;                   /* admitted, above the limit as written */
    bool shadow_refused;         /* admitted, although a rule in shadow mode would have refused */
    int64_t delay_ns;            /* wait this long before going ahead: queues and throttling */
    bool hold;                   /* the rule asks the server to do the waiting */
    char rule[RATION_NAME_SIZE]; /* that decided; empty if none applied. Names are cut to fit. */

    uint16_t status; /* how that rule wants a refusal answered */
    enum ration_header_family headers;
    char message[RATION_MESSAGE_SIZE]; /* empty: no particular one. Cut to fit. */

    uint32_t limit_count; /* how many limits applied, */
    uint32_t listed;      /* and how many of them follow: the decisive one always does */
    struct ration_outcome_limit limits[RATION_OUTCOME_LIMITS];

    uint64_t lease; /* not 0: places of concurrency limits are held under it */
    uint32_t place_count;
    struct {
        uint64_t hash, amount;
    } places[RATION_LEASES_MAX];
};

/* Charges all limits that apply to the request, or none. A refusal is not an
 * error. Errors leave `out` untouched: RATION_EINVAL if more than
 * RATION_CHARGES_MAX limits (or RATION_LEASES_MAX concurrency limits) apply,
 * nothing is charged then; RATION_EFULL and the like from the store. */
RATION_API int ration_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                             struct ration_outcome *out);
/* What ration_decide would say, charging and counting nothing. */
RATION_API int ration_decide_peek(struct ration *r, const struct ration_request *request,
                                  int64_t now_ns, struct ration_outcome *out);

/* Envoy: one descriptor of a domain. */
struct ration_descriptor_entry {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
};
struct ration_descriptor {
    const char *domain;
    size_t domain_len;
    const struct ration_descriptor_entry *entries;
    size_t count;
    uint64_t hits; /* 0 looks without charging */
};
/* Unknown domains and descriptors without a limit are allowed (RATION_BY_NO_RULE).
 * Unlimited ones have UINT32_MAX remaining. */
RATION_API int ration_decide_descriptor(struct ration *r,
                                        const struct ration_descriptor *descriptor, int64_t now_ns,
                                        struct ration_outcome *out);

/* Frees the places that the outcome holds; once. RATION_EGONE: their lease has
 * ended before. Without places it does nothing. */
RATION_API int ration_outcome_release(struct ration *r, struct ration_outcome *out, int64_t now_ns);

#endif
