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
 *     if (ration_decide(r, &(struct ration_request){.attributes = a, .count = 2}, RATION_NOW,
 *                       &out) == 0 &&
 *         !out.decision.allowed)
 *         reply(out.status, out.decision.verdict.retry_after_ns);
 *
 * Rules may be replaced at any time, under load. Each request is decided by one
 * set of rules; none waits for a reload. What a reload leaves as it was keeps
 * its counters, and what it changes keeps the share that was spent.
 *
 * A decision takes at most 16 KB of stack. The first one of a thread allocates a workspace, which
 * ration_close() frees; later ones allocate nothing.
 */
#ifndef RATION_RULES_H
#define RATION_RULES_H

#include <ration/ration.h>
#include <ration/request.h>

#define RATION_OUTCOME_LIMITS 16 /* limits that an outcome tells about */
#define RATION_LEASES_MAX 4      /* concurrency limits that may apply to one request */
#define RATION_MESSAGE_SIZE 512
#define RATION_LIMIT_TEXT 160   /* a limit as text */
#define RATION_KEY_TEXT 256     /* what a rule counts by, as text */
#define RATION_SETTING_SIZE 512 /* a setting as text */
#define RATION_TICKET_SIZE 4096 /* a ticket of RATION_CHARGES_MAX charges, and a NUL */

/* --- rules ------------------------------------------------------------------- */

/* What is wrong with the files, or worth a warning. */
struct ration_report;

/* For people: `file:line:column: error: what was found; what would be right`, the
 * line and a caret, for each. Empty if all is well. Lives as long as the report. */
RATION_API const char *ration_report_text(const struct ration_report *report);
RATION_API size_t ration_report_errors(const struct ration_report *report);
RATION_API size_t ration_report_warnings(const struct ration_report *report);
RATION_API void ration_report_free(struct ration_report *report);

/* The same for programs. Its texts live as long as the report. */
struct ration_diagnostic {
    bool is_error;         /* else a warning */
    const char *file;      /* empty: of no file in particular */
    uint32_t line, column; /* from 1; 0: the file as a whole */
    const char *message;   /* what was found; what would be right */
};
/* Calls `see` for each, in the order of the files, until it returns non-zero. Of errors and
 * of warnings the first 100 are kept. */
RATION_API void ration_report_each(const struct ration_report *report,
                                   int (*see)(void *arg, const struct ration_diagnostic *d),
                                   void *arg);

/* Reads files and directories, native or Envoy's, and puts their rules in the
 * place of the current ones. RATION_EPARSE if there is an error, RATION_ENOMEM:
 * the current rules stay. A sub-directory is a team: once files have been loaded, errors in a
 * team's files are reported, but only this team keeps its former rules (ration_teams_each), and
 * the result is 0. `report` may be NULL; else *report is set in any case
 * (to NULL only if there is no memory for one) and to be freed. May wait for
 * another reload and for decisions that have begun. */
RATION_API int ration_rules_load(struct ration *r, const char *const *paths, size_t count,
                                 struct ration_report **report);
/* The same from memory; `name` stands for the file in messages. */
RATION_API int ration_rules_parse(struct ration *r, const char *name, const char *text, size_t len,
                                  struct ration_report **report);
/* Only says what is wrong: 0, RATION_EPARSE or RATION_ENOMEM. */
RATION_API int ration_rules_validate(const char *name, const char *text, size_t len,
                                     struct ration_report **report);
/* How often rules have been put in place: 0 before the first. */
RATION_API uint64_t ration_rules_version(const struct ration *r);

/* The current rules as one file of the native format (rules of Envoy files, see
 * ration_rule_info, have no such form and are left out, and so are the secrets among the settings
 * of `server:`); empty if there are none. *text is terminated, to be freed by ration_text_free, and
 * *len (may be NULL) its length. 0 or RATION_ENOMEM. */
RATION_API int ration_rules_text(struct ration *r, char **text, size_t *len);
RATION_API void ration_text_free(char *text);

/* A setting of the section `server:`, which the library does not interpret. */
struct ration_setting {
    char value[RATION_SETTING_SIZE];
    char file[RATION_MESSAGE_SIZE]; /* where it was given, cut to fit */
    uint32_t line;
};
/* RATION_ENOSETTING: the current rules do not give it; RATION_EINVAL: its value
 * does not fit. */
RATION_API int ration_setting(struct ration *r, const char *name, struct ration_setting *setting);

/* The whole service in shadow mode: everything is counted, nothing refused. In
 * addition to what the rules say (mode: shadow); this process only, and off
 * after ration_open. Decisions that have begun end as they began. */
RATION_API void ration_shadow_set(struct ration *r, bool on);
RATION_API bool ration_shadow(const struct ration *r);

/* What a rule has decided in this process, also before a reload that kept its
 * name. RATION_EINVAL: there is no such rule. */
RATION_API int ration_rule_totals(struct ration *r, const char *name, size_t len,
                                  struct ration_totals *totals);

/* One rule, as long as `see` runs. */
struct ration_rule_limit {
    char tier[RATION_NAME_SIZE];  /* empty: the rule has no tiers */
    char text[RATION_LIMIT_TEXT]; /* as written: "100 per minute" */
    enum ration_algorithm algorithm;
    uint64_t amount; /* 0 if it is unlimited, too */
    uint32_t places; /* of an adaptive limit: the number in force at the last decision of this
                        process; 0: none yet */
};
struct ration_rule_info {
    const char *name; /* not terminated */
    size_t name_len;
    const char *file; /* not terminated */
    size_t file_len;
    uint32_t line;
    bool shadow;               /* its own mode, not the service's */
    bool envoy;                /* found by descriptors */
    bool for_envoy;            /* applies to requests of Envoy's protocol */
    char key[RATION_KEY_TEXT]; /* "ip, user or api_key"; empty: one counter for all; cut to fit */
    uint32_t limit_count;      /* of all tiers, */
    uint32_t listed;           /* and how many of them follow */
    struct ration_rule_limit limits[RATION_OUTCOME_LIMITS];
    struct ration_totals totals;
    bool follows;            /* signals change its factor (signals.h), which is now: */
    uint32_t factor_percent; /* of the limits as written; 100 unless it follows signals */
    bool usage;              /* it counts the usage of its clients (usage.h) */
};
/* Calls `see` for every rule, in the order of the files, until it returns
 * non-zero. A reload waits until it is done: `see` must not load rules or ask
 * for the totals of one. */
RATION_API void ration_rules_each(struct ration *r,
                                  int (*see)(void *arg, const struct ration_rule_info *info),
                                  void *arg);

/* A sub-directory of a rules directory. */
struct ration_team_info {
    const char *name; /* not terminated */
    size_t name_len;
    bool kept;       /* its files had errors when last loaded: what it had before is in force, */
    uint32_t errors; /* how many, of the first 100 of all teams */
};
/* Calls `see` for every team of the files last loaded, until it returns non-zero. As
 * ration_rules_each otherwise. */
RATION_API void ration_teams_each(struct ration *r,
                                  int (*see)(void *arg, const struct ration_team_info *info),
                                  void *arg);

/* --- databases ----------------------------------------------------------------- */

#define RATION_DATABASE_TITLE 64
#define RATION_DATABASE_PROBLEM 160

/* A file that the rules look addresses up in (attributes with `geo:`). Its texts are terminated. */
struct ration_database {
    const char *path;                  /* valid during the call of `see` */
    char title[RATION_DATABASE_TITLE]; /* the file's own, such as GeoLite2-Country */
    uint64_t built_s;                  /* when the database was made, as Unix time */
    uint64_t networks;
    uint64_t loads, failures;              /* of this process */
    char problem[RATION_DATABASE_PROBLEM]; /* what is wrong with the file of now, which is not in
                                              use; empty: nothing */
};

/* Looks whether the files have changed: call it about once a second, in any thread. A file is read
 * in a thread of its own, a later call puts it in place, and decisions never wait. A file that is
 * damaged or missing leaves the former one in use. Calls `see` (may be NULL) for each database that
 * has been replaced, and once for each change of a file that cannot be used (`problem`). */
RATION_API void
ration_databases_refresh(struct ration *r,
                         void (*see)(void *arg, const struct ration_database *database), void *arg);
/* Calls `see` for each database of the rules in force, until it returns non-zero. It must not load
 * rules. */
RATION_API void ration_databases_each(struct ration *r,
                                      int (*see)(void *arg, const struct ration_database *database),
                                      void *arg);

/* --- decisions ----------------------------------------------------------------- */

enum ration_outcome_kind {
    RATION_BY_LIMITS,     /* the limits of the rules that apply */
    RATION_BY_NO_RULE,    /* none applies: allowed */
    RATION_BY_ALLOW_LIST, /* no limit was asked */
    RATION_BY_DENY_LIST,  /* refused, for ever */
    RATION_BY_BAN,        /* clients.h: refused until it ends; `message` is its reason */
    RATION_BY_ESCALATION, /* a rule with `escalate` has banned the client; `level` says how far */
    RATION_BY_PAUSE,      /* pause.h: refused until it ends */
};

enum ration_header_family {
    RATION_HEADERS_BOTH, /* unless a rule says otherwise */
    RATION_HEADERS_X,
    RATION_HEADERS_IETF,
    RATION_HEADERS_NONE,
};

struct ration_outcome_limit {
    char rule[RATION_NAME_SIZE];
    struct ration_verdict verdict; /* limit and remaining are without the soft part, and
                                      remaining without what a priority must leave */
    enum ration_algorithm algorithm;
    uint64_t amount;   /* units that come back in a period; `limit` may be more or less: burst */
    int64_t period_ns; /* 0 for concurrency */
    bool shadow;
};

/* What one limit was charged, or is due: for ration_outcome_give_back and
 * ration_outcome_charge alone to read. */
struct ration_receipt {
    uint64_t hash, salt, cap, taken;
    int64_t mark;
};

/* The places of one limit. */
struct ration_place {
    uint64_t hash;
    uint32_t amount, adaptive_min; /* as in struct ration_limit */
    int64_t lease_ns;
};

/* What is always set comes first, lists and long texts behind it. */
struct ration_outcome {
    struct ration_decision decision; /* decided_by is an index into `limits`, or -1 */
    enum ration_outcome_kind kind;
    bool soft;           /* admitted, above the limit as written */
    bool shadow_refused; /* admitted, although a rule in shadow mode would have refused */
    bool hold;           /* the rule asks the server to do the waiting */
    bool retryafter;     /* X-RateLimit-RetryAfter, in the place of X-RateLimit-Retry-After */
    bool in_line;        /* refused because of a line (wait.h): it was full or too long, its time
                            there is over, or others are in line before it */
    int64_t waited_ns;   /* the time in line; 0: none */
    int64_t delay_ns;    /* wait this long before going ahead: queues and throttling */
    int64_t shadow_delay_ns; /* as long as limits in shadow mode would have delayed */
    uint16_t status;         /* how the rule that decided wants a refusal answered, */
    uint16_t level;          /* of the ban, from 1 on, if kind is RATION_BY_ESCALATION; else 0 */
    enum ration_header_family headers; /* and any answer */

    uint32_t limit_count; /* how many limits applied, */
    uint32_t listed;      /* and how many of them are in `limits`: the decisive one always is */
    uint64_t lease;       /* not 0: places of concurrency limits are held under it */
    uint32_t place_count;
    uint32_t receipt_count; /* what was charged, apart from places, */
    int64_t at_ns;          /* and when */
    uint32_t due_count;     /* not 0: limits that are charged by the outcome of the request */

    char rule[RATION_NAME_SIZE]; /* that decided; empty if none applied. Names are cut to fit. */
    char message[RATION_MESSAGE_SIZE]; /* its own; empty: no particular one. Cut to fit. */
    struct ration_outcome_limit limits[RATION_OUTCOME_LIMITS];
    struct ration_place places[RATION_LEASES_MAX];
    struct ration_receipt receipts[RATION_CHARGES_MAX];
    struct ration_receipt dues[RATION_CHARGES_MAX];
};

/* Charges all limits that apply to the request, or none; those with `charge_on` it
 * only looks at, and ration_outcome_charge charges them. A refusal is not an
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
/* Unknown domains and descriptors without a limit are allowed (RATION_BY_NO_RULE), unless a
 * native rule applies, by apply_to_envoy. Unlimited ones have UINT32_MAX remaining. */
RATION_API int ration_decide_descriptor(struct ration *r,
                                        const struct ration_descriptor *descriptor, int64_t now_ns,
                                        struct ration_outcome *out);

/* Frees the places that the outcome holds; once. RATION_EGONE: their lease has
 * ended before. Without places it does nothing. */
RATION_API int ration_outcome_release(struct ration *r, struct ration_outcome *out, int64_t now_ns);

/* Returns what the decision has charged, once, as far as that is safe (see
 * ration_give_back: of a queue only its last place), and frees the places. For a
 * client that went away while its answer was held. RATION_EGONE: there was
 * something to return, and none of it could be, as the rules have changed. */
RATION_API int ration_outcome_give_back(struct ration *r, struct ration_outcome *out,
                                        int64_t now_ns);

/* Tells how the request ended, once: limits whose `charge_on` has this HTTP status
 * are charged what they would have been on arrival, or as much as is left. By the
 * rules of now; a rule that has no charge_on any more charges any status. *count
 * (may be NULL) is how many were charged. Without dues it does nothing.
 * RATION_EGONE: there were some, and all their limits are gone from the rules. */
RATION_API int ration_outcome_charge(struct ration *r, struct ration_outcome *out, unsigned status,
                                     int64_t now_ns, uint32_t *count);

/* --- tickets --------------------------------------------------------------------- */

/* What a decision holds, as text: letters, digits, `-` and `_`. Any process that
 * shares the state file can settle it, also after a restart or a reload. Nothing
 * but this text and a key of the table keeps it, and none can be made up:
 * RATION_EINVAL answers a text that is not a ticket of this table or not of the
 * kind that the call is for. */

/* Reservations: ration_decide, and what is charged can be settled once until
 * `timeout_ns` (1 ms to a day) has passed. Places are held that long, too, and
 * are freed when it is settled. `ticket` is empty if the request is refused. */
RATION_API int ration_decide_reserve(struct ration *r, const struct ration_request *request,
                                     int64_t timeout_ns, int64_t now_ns, struct ration_outcome *out,
                                     char ticket[RATION_TICKET_SIZE]);
/* The same for one charge, of any limit but one of concurrency. */
RATION_API int ration_reserve_ticket(struct ration *r, struct ration_charge *c, int64_t timeout_ns,
                                     int64_t now_ns, char ticket[RATION_TICKET_SIZE]);
/* Keeps `cost` units of each charge (`all`: everything) and gives back the rest,
 * as far as that is safe. A cost above what was reserved is charged in full, as a
 * late debit: each limit by itself, up to one capacity below empty. RATION_EALREADY: it has been
 * settled (or was forgotten for want of room, and the charge stands). RATION_EGONE: it has expired
 * and the charge stands; or there was something to give back, and or to charge, and none of it
 * could be, as its limits are gone from the rules. */
RATION_API int ration_ticket_commit(struct ration *r, const char *ticket, size_t len, bool all,
                                    uint64_t cost, int64_t now_ns);
RATION_API int ration_ticket_refund(struct ration *r, const char *ticket, size_t len,
                                    int64_t now_ns);

/* Dues: what ration_outcome_charge would charge, for another process to do within
 * `timeout_ns` (1 ms to a day) of the decision. Empty if there are none. */
RATION_API int ration_outcome_ticket(struct ration *r, const struct ration_outcome *out,
                                     int64_t timeout_ns, char ticket[RATION_TICKET_SIZE]);
/* As ration_outcome_charge. It is charged at most once: RATION_EALREADY, it has
 * been. (What was forgotten for want of room may be charged again.) A status that
 * charges nothing leaves it open. RATION_EGONE: it has expired, too. */
RATION_API int ration_ticket_charge(struct ration *r, const char *ticket, size_t len,
                                    unsigned status, int64_t now_ns, uint32_t *count);

/* Places: ration_decide with a length for the leases (0: the limits' own; at
 * most RATION_LEASE_MAX_NS). `ticket` is empty if no place was taken; else
 * it stands for the places, not for what other limits were charged. */
RATION_API int ration_acquire_request(struct ration *r, const struct ration_request *request,
                                      int64_t lease_ns, int64_t now_ns, struct ration_outcome *out,
                                      char ticket[RATION_TICKET_SIZE]);
/* ration_acquire for one charge of a concurrency limit. */
RATION_API int ration_acquire_ticket(struct ration *r, struct ration_charge *c, int64_t lease_ns,
                                     int64_t now_ns, char ticket[RATION_TICKET_SIZE]);
/* From now on for lease_ns (0: as long as before). *expires_after_ns (may be
 * NULL) is when the first of the places ends. RATION_EGONE: one has ended. */
RATION_API int ration_ticket_renew(struct ration *r, const char *ticket, size_t len,
                                   int64_t lease_ns, int64_t now_ns, int64_t *expires_after_ns);
/* RATION_EGONE: all places had ended or been released before. */
RATION_API int ration_ticket_release(struct ration *r, const char *ticket, size_t len,
                                     int64_t now_ns);

/* --- the state of a client --------------------------------------------------------- */

/* Of the rule with this name, or of all rules that apply to the request (`rule`
 * NULL). RATION_ENORULE: there is none of this name; RATION_EUNMATCHED: it does
 * not apply to the request, or is an Envoy rule. Nothing is counted as a decision.
 * ration_decide_peek looks. */

/* Forgets what the client has spent, under all tiers and an override, and the
 * places it holds. *count (may be NULL) is the number of limits that apply to it. */
RATION_API int ration_state_reset(struct ration *r, const struct ration_request *request,
                                  const char *rule, size_t rule_len, int64_t now_ns,
                                  uint32_t *count);
/* Charges each limit `add` units more, or as many as are left; negative: gives
 * back, never above full. RATION_EPLACES: there are limits of concurrency only
 * (others of the rule are adjusted, places are left alone). */
RATION_API int ration_state_adjust(struct ration *r, const struct ration_request *request,
                                   const char *rule, size_t rule_len, int64_t add, int64_t now_ns);
/* Leaves each limit this many units, at most what it has when nothing is spent.
 * As ration_state_adjust otherwise. */
RATION_API int ration_state_set_remaining(struct ration *r, const struct ration_request *request,
                                          const char *rule, size_t rule_len, uint64_t remaining,
                                          int64_t now_ns);

#endif
