/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nginx module: what its files share.
 *
 *   module.c            tables that nginx reads: directives, how locations inherit them, hooks
 *   rules.c             reads the rules file while nginx reads its configuration
 *   zone.c              the table of counters, opened by each worker
 *   handler.c           one decision for each request of a client
 *   attributes.c        the request as rules see it
 *   context.c           what the module keeps of a request until it ends
 *   delay.c             requests that are delayed
 *   line.c              requests that stand in line in this worker
 *   places.c            places of concurrency limits, here or at rationd, kept as long as the
 *                       request lasts
 *   charge_later.c      limits that are charged by the status of the response
 *   outcome.c           how requests ended, for signals
 *   response.c          rate limit headers, and the response to a refused request
 *   variables.c         $ration_verdict and the like
 *
 * Asking rationd:
 *
 *   server_directive.c  the directive ration_server
 *   password.c          its password_file=
 *   server.c            the connections to one rationd
 *   link.c, tls.c       one connection
 *   ask.c               one question, its answer or its deadline
 *   rationd_line.c      requests that stand in line at rationd
 *   ticket.c            what goes back to rationd later: places, turns, charges
 *
 * A worker has one thread: nothing here is locked.
 */
#ifndef RN_NGINX_MODULE_H
#define RN_NGINX_MODULE_H

#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_http.h>

#include <ration/rules.h>
#include <ration/wait.h>

#include "base/buf.h"
#include "base/hints.h"

struct rn_ruleset;
struct rn_ngx_link;
struct rn_ngx_tls;
struct rn_parsed_decision;

extern ngx_module_t ngx_http_ration_module;

/* --- configuration ---------------------------------------------------------------------- */

#define RN_NGX_HEADER_PREFIX "header."

/* The attributes that the rules look at. */
struct rn_ngx_needed {
    bool any; /* one or more of these: */
    bool ip, method, path, host, scheme;
    size_t header_count;
    ngx_str_t *headers; /* names of attributes, with the prefix */
};

struct rn_ngx_waiter;

/* One worker process. From `outcome` on: scratch memory for the current request. */
struct rn_ngx_worker {
    struct ration *limiter;
    const struct rn_ngx_needed *needed; /* NULL: everything */
    bool banning;                       /* there are bans, which may look at anything */
    unsigned observes;                  /* signals are about requests of some rule: 1 */
    ngx_event_t refresh;                /* reads overrides and bans that others changed */
    bool refresh_failed;
    struct ration_waiting *waiting; /* requests in lines of this worker; NULL: no rule has a line */
    ngx_queue_t in_line;            /* their waiters */
    struct rn_ngx_waiter *spare;    /* of requests that are not in line; NULL: make one */
    ngx_event_t turns;              /* when the next of them has its turn */
    bool ending;                    /* the worker finishes its requests and ends */
    struct ration_outcome outcome;
    struct rn_buf text;    /* headers or a body */
    struct rn_buf names;   /* of attributes */
    struct rn_buf command; /* for rationd */
    struct ration_attribute *attributes;
    size_t attribute_room;
};

#define RN_NGX_HOW 5 /* parameters in which servers with one address may differ */

/* A rationd that locations ask. */
struct rn_ngx_server {
    ngx_str_t name;            /* as written, */
    ngx_str_t how[RN_NGX_HOW]; /* and so are these */
    ngx_str_t password;        /* the AUTH command; empty: none */
    struct rn_ngx_tls *tls;    /* NULL: without */
    ngx_addr_t *addresses;
    ngx_uint_t address_count;
    ngx_uint_t connections;    /* of each worker */
    struct rn_ngx_link *links; /* of this worker: as many */
    ngx_uint_t up;             /* of them, how many can be asked */
    bool logged, logged_up;    /* whether a state was logged, and which one last */
};

/* Configuration of http {}. */
struct rn_ngx_main {
    ngx_array_t rule_files;     /* of char * */
    ngx_array_t servers;        /* of struct rn_ngx_server * */
    struct rn_ruleset *ruleset; /* until a worker has taken it over */
    ngx_str_t state;            /* terminated; empty: by the prefix of the configuration */
    size_t bytes;               /* 0: as in the file, or the library's own size */
    size_t usage_bytes;         /* the same for usage */
    bool zone_given;
    bool used;         /* some location has `ration on` or `shadow` */
    ngx_int_t waiting; /* the most that may stand in line in a worker; unset: the library's own */
    struct rn_ngx_worker *worker;
};

enum rn_ngx_mode { RN_NGX_OFF, RN_NGX_ON, RN_NGX_SHADOW };
enum rn_ngx_body { RN_NGX_BODY_AUTO, RN_NGX_BODY_JSON, RN_NGX_BODY_PROBLEM, RN_NGX_BODY_OFF };
#define RN_NGX_HEADERS_OF_RULE 100 /* not one of enum ration_header_family */

struct rn_ngx_attribute {
    ngx_str_t name;
    ngx_int_t variable; /* that it is, by its index; NGX_ERROR: as follows */
    ngx_http_complex_value_t value;
};

/* Configuration of a location; NGX_CONF_UNSET: not given yet. */
struct rn_ngx_location {
    ngx_uint_t mode;              /* enum rn_ngx_mode */
    ngx_uint_t headers;           /* enum ration_header_family, or RN_NGX_HEADERS_OF_RULE */
    ngx_uint_t status;            /* of refusals by limits; 0: as the rule says */
    ngx_uint_t body;              /* enum rn_ngx_body */
    ngx_uint_t log_level;         /* of refusals; delays are logged one level below */
    ngx_array_t *attributes;      /* of struct rn_ngx_attribute; NULL: none */
    struct rn_ngx_server *server; /* NULL: decisions are made here */
    ngx_msec_t timeout_ms;        /* for its answer */
};

/* ration_rules FILE...: reads the files and logs everything that is wrong in them. */
char *rn_ngx_rules_read(ngx_conf_t *cf, ngx_command_t *command, void *conf);

/* ration_server ADDRESS [PARAMETER...] | off. */
char *rn_ngx_server_read(ngx_conf_t *cf, ngx_command_t *command, void *conf);
/* *command is AUTH with the password, in the pool of the configuration. NGX_ERROR after
 * logging what is wrong with the file. */
ngx_int_t rn_ngx_password_read(ngx_conf_t *cf, ngx_str_t file, ngx_str_t *command);
struct rn_ngx_loss {
    const char *why;
    ngx_err_t error;
    bool lasting; /* waiting does not help: the configuration must change */
};
/* A connection has come up, or was lost and is no longer counted in `up`. */
void rn_ngx_server_found(struct rn_ngx_server *server, ngx_log_t *log);
void rn_ngx_server_lost(struct rn_ngx_server *server, ngx_log_t *log,
                        const struct rn_ngx_loss *loss);
/* The connection with the fewest replies outstanding; NULL: none can be asked. */
struct rn_ngx_link *rn_ngx_server_pick(const struct rn_ngx_server *server);
/* In a worker: opens or closes all connections. */
ngx_int_t rn_ngx_servers_open(const struct rn_ngx_main *main, ngx_cycle_t *cycle);
void rn_ngx_servers_close(const struct rn_ngx_main *main);
/* Nobody stands in line there longer than that: the worker ends. */
void rn_ngx_servers_end_by(const struct rn_ngx_main *main, ngx_msec_t ms);

/* In the master: creates the file of the table, owned by the user of the workers. An error
 * prevents the start of nginx, but not a reload. */
ngx_int_t rn_ngx_zone_prepare(ngx_cycle_t *cycle);
ngx_int_t rn_ngx_zone_open(ngx_cycle_t *cycle);
void rn_ngx_zone_close(ngx_cycle_t *cycle);

/* The lines of a worker, if one of the rules has a line. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_lines_open(struct rn_ngx_worker *worker, const struct rn_ngx_main *main,
                            ngx_log_t *log);
/* Requests that still wait leave their lines. */
void rn_ngx_lines_close(struct rn_ngx_worker *worker);
/* From now on nobody waits longer than that: the worker ends. */
void rn_ngx_lines_end_by(struct rn_ngx_worker *worker, ngx_msec_t ms);

/* --- one request ---------------------------------------------------------------------------- */

enum rn_ngx_verdict {
    RN_NGX_ALLOWED,
    RN_NGX_DELAYED,
    RN_NGX_REFUSED,
    RN_NGX_SHADOWED,       /* allowed, but a limit in shadow mode would refuse */
    RN_NGX_SHADOW_DELAYED, /* allowed at once, but a limit in shadow mode would delay */
    RN_NGX_FAILED,         /* there is no decision */
};

/* What limits of one kind said. Of several, the one that is last here. */
enum rn_ngx_status {
    RN_NGX_STATUS_NONE, /* no limit of this kind applied */
    RN_NGX_STATUS_PASSED,
    RN_NGX_STATUS_DELAYED_DRY_RUN,
    RN_NGX_STATUS_REJECTED_DRY_RUN,
    RN_NGX_STATUS_DELAYED,
    RN_NGX_STATUS_REJECTED,
};

/* Where the question to rationd stands. */
enum rn_ngx_question {
    RN_NGX_UNASKED,
    RN_NGX_ASKED,
    RN_NGX_IN_LINE,    /* rationd lets it stand in line, and tells the answer later */
    RN_NGX_ANSWERED,   /* the answer is in the worker's outcome until another request runs */
    RN_NGX_UNANSWERED, /* no answer in time, or no connection to ask on */
};

struct rn_ngx_places;
struct rn_ngx_lease;
struct rn_ngx_ticket;
struct rn_ngx_charge_later;
struct rn_ngx_outcome;

/* A request that stands, or stood, in line at rationd. */
struct rn_ngx_rationd_line {
    ngx_rbtree_node_t node; /* key: the number of its command */
    struct rn_ngx_context *context;
    int64_t since_ns;  /* of the table's clock */
    int64_t most_ns;   /* that it may wait from then on */
    int64_t waited_ns; /* how long it did, once it is over */
};

/* A request of a client from its decision to its end, internal redirects included. Lives in
 * the request's pool. */
struct rn_ngx_context {
    ngx_http_request_t *request;
    struct rn_ngx_worker *worker;
    bool ruled;         /* a decision was made, or failed */
    bool counted;       /* `remaining` means something */
    bool waiting;       /* delayed until until_ns of the table's clock */
    bool timed;         /* `timer` has been set up */
    uint16_t ban_level; /* 0: not refused by a ban of a rule */
    enum rn_ngx_verdict verdict;
    enum rn_ngx_status rate_status, concurrency_status;
    enum rn_ngx_question question;
    ngx_str_t headers;                        /* lines with CRLF */
    int64_t delay_ns;                         /* 0: none */
    int64_t waited_ns;                        /* in line; 0: not at all */
    struct rn_ngx_waiter *waiter;             /* in a line of this worker; NULL: in none */
    struct rn_ngx_rationd_line *rationd_line; /* NULL: never was in line there */
    struct ration_outcome *outcome;           /* while waiting: to give it back */
    struct rn_ngx_places *places;             /* of this nginx; NULL: none */
    struct rn_ngx_link *link;                 /* the connection that was asked */
    struct rn_ngx_lease *lease;               /* places of rationd; NULL: none */
    struct rn_ngx_ticket *charge;             /* what rationd charges by outcome; NULL: nothing */
    struct rn_ngx_ticket *turn;               /* in a queue of rationd; NULL: none to give back */
    struct rn_ngx_charge_later *later; /* what this nginx charges by outcome; NULL: nothing */

    char rule[RATION_NAME_SIZE]; /* that decided; empty: none applied */
    /* Not initialised: valid only as the fields above say. */
    uint64_t remaining; /* of the limit that decided */
    int64_t until_ns;
    uint64_t number;   /* of the command that asks the link */
    ngx_event_t timer; /* while the request waits */
};

/* The context of a request; NULL before the handler has run. */
struct rn_ngx_context *rn_ngx_context_find(ngx_http_request_t *r);
/* NULL: out of memory. */
struct rn_ngx_context *rn_ngx_context_new(ngx_http_request_t *r, struct rn_ngx_worker *worker);
/* Sets up the timer, which does not run. */
void rn_ngx_context_time(struct rn_ngx_context *context, ngx_event_handler_pt handler);
/* Stops it, if it runs. */
void rn_ngx_context_stop(struct rn_ngx_context *context);

/* What these rules need, in the pool. NULL: out of memory. */
struct rn_ngx_needed *rn_ngx_attributes_needed(const struct rn_ruleset *ruleset, ngx_pool_t *pool);

/* The attributes are in the worker's scratch memory and point into the request. `whole`: all
 * of them, not only those that the rules of this nginx need. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_attributes_read(ngx_http_request_t *r, struct rn_ngx_worker *worker, bool whole,
                                 struct ration_request *request);

/* Phase handler: NGX_DECLINED lets the request go on. */
ngx_int_t rn_ngx_handler(ngx_http_request_t *r);

/* Asks rationd and returns NGX_AGAIN; the handler runs again when the question is ANSWERED or
 * UNANSWERED. NGX_DECLINED: it is UNANSWERED at once. Else the status for a request with more
 * headers than rationd takes. */
ngx_int_t rn_ngx_ask(struct rn_ngx_context *context);
/* At the end of a request whose question is ASKED. */
void rn_ngx_ask_end(struct rn_ngx_context *context);
/* Goes on with the request. Afterwards the context may be gone. */
void rn_ngx_ask_done(struct rn_ngx_context *context, enum rn_ngx_question question);
/* The same by what rationd said. False: this cannot be an answer. */
bool rn_ngx_ask_answer(struct rn_ngx_context *context, struct rn_slice reply);
/* Nobody wants this answer any more: gives back what it holds. */
bool rn_ngx_ask_discard(struct rn_ngx_link *link, struct rn_slice reply);

/* A new connection, on which nobody waits. */
void rn_ngx_rationd_line_init(struct rn_ngx_link *link);
/* Receives the reply to RATION.LEAVE of nobody, which a rationd that is older than lines does not
 * know. */
bool rn_ngx_rationd_line_known(struct rn_ngx_link *link, void *arg, struct rn_slice reply);
/* rationd has answered `WAIT id max_ms`. NGX_ERROR: out of memory, or impossible values. */
ngx_int_t rn_ngx_rationd_line_begin(struct rn_ngx_context *context, uint64_t id, uint64_t max_ms);
/* Tells rationd that nobody waits under this number any more. */
void rn_ngx_rationd_line_leave(struct rn_ngx_link *link, uint64_t id);
/* At the end of a request whose question is IN_LINE. */
void rn_ngx_rationd_line_end(struct rn_ngx_context *context);
/* A push. False: it is not one of rationd. */
bool rn_ngx_rationd_line_turn(struct rn_ngx_link *link, struct rn_slice push);
/* The connection was lost. */
void rn_ngx_rationd_line_lost(struct rn_ngx_link *link);
/* Nobody stands in line longer than that; the rules of this nginx decide then. */
void rn_ngx_rationd_line_end_by(struct rn_ngx_link *link, ngx_msec_t ms);

/* Keeps the places in the reply, if any, until the request ends. NGX_ERROR: out of memory;
 * the places are released. */
ngx_int_t rn_ngx_lease_hold(struct rn_ngx_context *context, struct rn_ngx_link *link,
                            const struct rn_parsed_decision *parsed);
void rn_ngx_lease_release(struct rn_ngx_link *link, struct rn_slice lease);
/* At the end of a request with a lease. */
void rn_ngx_lease_end(struct rn_ngx_context *context);

struct rn_ngx_ticket {
    struct rn_ngx_link *link; /* that it came on */
    ngx_str_t text;
};

/* Keeps a copy in the request's pool, if `text` has data. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_ticket_keep(struct rn_ngx_context *context, struct rn_ngx_link *link,
                             struct rn_slice text, struct rn_ngx_ticket **to);
/* The command NAME TICKET [MORE], in the worker's scratch memory. Empty: out of memory. */
struct rn_slice rn_ngx_ticket_command(struct rn_ngx_link *link, struct rn_slice name,
                                      struct rn_slice ticket, struct rn_slice more);
/* Sends that command, now or when rationd is back. The reply is ignored. */
void rn_ngx_ticket_send(struct rn_ngx_link *link, struct rn_slice name, struct rn_slice ticket,
                        struct rn_slice more);

/* Suspends the request: NGX_AGAIN, or the status of an error. */
ngx_int_t rn_ngx_pause(struct rn_ngx_context *context);
/* Runs the phases again from the handler on. Afterwards the context may be gone. */
void rn_ngx_resume(struct rn_ngx_context *context);

/* Lets the request stand in line, if the rules say so. */
void rn_ngx_line_allow(struct rn_ngx_context *context, struct ration_request *request);
/* The decision was RATION_EWAITS: suspends the request until its turn. NGX_AGAIN, or the status of
 * an error. */
ngx_int_t rn_ngx_line_wait(struct rn_ngx_context *context);
/* The request stands in line no more: it is decided, or its client has gone. */
void rn_ngx_line_end(struct rn_ngx_context *context);

/* Delays the request for delay_ns from now_ns on: NGX_AGAIN. */
ngx_int_t rn_ngx_delay_begin(struct rn_ngx_context *context, int64_t now_ns);
/* NGX_DECLINED when a delayed request may go on, never too early; else NGX_AGAIN. */
ngx_int_t rn_ngx_delay_check(struct rn_ngx_context *context);
/* Gives back a turn in a queue of rationd. */
void rn_ngx_delay_leave(struct rn_ngx_link *link, struct rn_slice turn);
/* At the end of a request that is still delayed: gives back its charge, here or to
 * rationd. */
void rn_ngx_delay_end(struct rn_ngx_context *context);

/* Keeps the places of the outcome (at least one) until the request ends. NGX_ERROR: out of
 * memory; the places are released. */
ngx_int_t rn_ngx_places_hold(struct rn_ngx_context *context, struct ration_outcome *outcome);
/* At the end of a request with places. */
void rn_ngx_places_end(struct rn_ngx_context *context);

/* Keeps what the outcome leaves to be charged, and what signals want to know, until the status is
 * known. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_charge_later_note(struct rn_ngx_context *context,
                                   const struct ration_outcome *outcome);
/* The rules of an admitted request, in its pool; NULL: out of memory. */
struct rn_ngx_outcome *rn_ngx_outcome_note(struct rn_ngx_context *context,
                                           const struct ration_outcome *outcome);
/* Tells the signals about these rules how the request ended. */
void rn_ngx_outcome_tell(struct rn_ngx_context *context, const struct rn_ngx_outcome *noted,
                         ngx_uint_t status);
/* Handler of the log phase. */
ngx_int_t rn_ngx_charge_later_run(ngx_http_request_t *r);

/* Keeps the header lines of a decision; they go out with the response. */
ngx_int_t rn_ngx_headers_note(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                              int64_t now_ns);
/* Installs the header filter. */
void rn_ngx_headers_init(void);

/* Answers with the status, and with a body unless there is an error_page. Returns what a
 * phase handler returns. */
ngx_int_t rn_ngx_refuse(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                        int64_t now_ns);

ngx_int_t rn_ngx_variables_add(ngx_conf_t *cf);

/* --- small things ----------------------------------------------------------------------------- */

/* nginx's strings are unsigned. */
static inline struct rn_slice rn_ngx_slice(ngx_str_t text)
{
    return (struct rn_slice){(const char *)text.data, text.len};
}

static inline struct rn_ngx_main *rn_ngx_main_of(ngx_http_request_t *r)
{
    return ngx_http_get_module_main_conf(r, ngx_http_ration_module);
}

static inline struct rn_ngx_location *rn_ngx_location_of(ngx_http_request_t *r)
{
    return ngx_http_get_module_loc_conf(r, ngx_http_ration_module);
}

/* A copy in the pool; data NULL: out of memory. */
static inline ngx_str_t rn_ngx_copy(ngx_pool_t *pool, const char *text, size_t len)
{
    ngx_str_t copy = {len, ngx_pnalloc(pool, len != 0 ? len : 1)};

    if (copy.data)
        memcpy(copy.data, text, len);
    return copy;
}

/* Rounded up: timers must not be early. */
static inline ngx_msec_t rn_ngx_milliseconds(int64_t ns)
{
    return ns <= 0 ? 0 : (ngx_msec_t)((ns - 1) / 1000000 + 1);
}

#endif
