/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway inside nginx: what its files share.
 *
 *   module.c      the tables that nginx reads: directives, hooks, phases
 *   config.c      directives and how locations inherit them
 *   rules.c       the rules file, read while nginx reads its own
 *   zone.c        the table of counters, opened by each worker
 *   attributes.c  the request as rules see it
 *   directive.c   where rationd is, and how it is asked
 *   password.c    what is shown to it
 *   server.c      its connections
 *   link.c        one of them
 *   tls.c         what makes it private
 *   ask.c         one question, its answer or its deadline
 *   lease.c       places that rationd has given
 *   ticket.c      what it is told later: how a request ended, or that nobody waits for it
 *   wanted.c      which of that the rules look at
 *   handler.c     one decision for each request that a client makes
 *   context.c       what is remembered of it until the request ends
 *   pause.c       requests that wait for something
 *   delay.c       their place in a queue
 *   places.c      places of concurrency limits, held as long as the request lasts
 *   dues.c        limits that are charged by the status of the answer
 *   refusal.c     status and body of a refusal
 *   headers.c     rate limit headers of any answer
 *   variables.c   $ration_verdict and its like
 *
 * A worker has one thread: nothing here is locked.
 */
#ifndef RN_NGINX_MODULE_H
#define RN_NGINX_MODULE_H

#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_http.h>

#include <ration/rules.h>

#include "base/buf.h"
#include "base/hints.h"

struct rn_ruleset;
struct rn_ngx_link;
struct rn_ngx_tls;
struct rn_told;

extern ngx_module_t ngx_http_ration_module;

/* --- configuration ---------------------------------------------------------------------- */

#define RN_NGX_HEADER_PREFIX "header."

/* What the rules look at. */
struct rn_ngx_wanted {
    bool any; /* of these five: */
    bool ip, method, path, host, scheme;
    size_t header_count;
    ngx_str_t *headers; /* names of attributes, with the prefix */
};

/* What a worker has while it runs; the rest is scratch for the request at hand. */
struct rn_ngx_worker {
    struct ration *limiter;
    const struct rn_ngx_wanted *wanted; /* NULL: everything */
    bool banning;                       /* there are bans, which may look at anything */
    ngx_event_t refresh;                /* overrides and bans that others have changed */
    bool refresh_failed;
    struct ration_outcome outcome;
    struct rn_buf text;    /* headers or a body */
    struct rn_buf names;   /* of attributes */
    struct rn_buf command; /* for rationd */
    struct ration_attribute *attributes;
    size_t attribute_room;
};

#define RN_NGX_HOW 5 /* parameters that tell servers of one address apart */

/* A rationd that some location asks. */
struct rn_ngx_server {
    ngx_str_t name;            /* as written, */
    ngx_str_t how[RN_NGX_HOW]; /* and so are these */
    ngx_str_t password;        /* the command that shows it; empty: none is */
    struct rn_ngx_tls *tls;    /* NULL: without */
    ngx_addr_t *addresses;
    ngx_uint_t address_count;
    ngx_uint_t connections;    /* of each worker */
    struct rn_ngx_link *links; /* of this worker: as many */
    ngx_uint_t up;             /* of them, how many can be asked */
    bool told, told_up;        /* what the log was told last, if anything */
};

/* Of http {}. */
struct rn_ngx_main {
    ngx_array_t rule_files;     /* of char *; only to tell whether there are any */
    ngx_array_t servers;        /* of struct rn_ngx_server * */
    struct rn_ruleset *ruleset; /* until a worker has put it in place */
    ngx_str_t state;            /* terminated; empty: by the prefix of the configuration */
    size_t bytes;               /* 0: as in the file, or the library's own size */
    bool zone_given;
    bool used; /* some location has `ration on` or `shadow` */
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

/* Of a location; NGX_CONF_UNSET where nothing was said yet. */
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

extern ngx_command_t rn_ngx_commands[];
void *rn_ngx_config_new_main(ngx_conf_t *cf);
char *rn_ngx_config_init_main(ngx_conf_t *cf, void *conf);
void *rn_ngx_config_new_location(ngx_conf_t *cf);
char *rn_ngx_config_merge_location(ngx_conf_t *cf, void *parent, void *child);

/* ration_rules FILE...: reads them, and tells all that is wrong with them. */
char *rn_ngx_rules_read(ngx_conf_t *cf, ngx_command_t *command, void *conf);

/* ration_server ADDRESS [PARAMETER...] | off. */
char *rn_ngx_server_read(ngx_conf_t *cf, ngx_command_t *command, void *conf);
/* *greeting is a command in the pool of the configuration. NGX_ERROR after saying what is
 * wrong with the file. */
ngx_int_t rn_ngx_password_read(ngx_conf_t *cf, ngx_str_t file, ngx_str_t *greeting);
struct rn_ngx_loss {
    const char *why;
    ngx_err_t error;
    bool lasting; /* waiting alone will hardly mend it */
};
/* One of its connections has come up, or was lost and is counted in `up` no more. */
void rn_ngx_server_found(struct rn_ngx_server *server, ngx_log_t *log);
void rn_ngx_server_lost(struct rn_ngx_server *server, ngx_log_t *log,
                        const struct rn_ngx_loss *loss);
/* The connection of this worker that owes the fewest replies; NULL: none can be asked. */
struct rn_ngx_link *rn_ngx_server_pick(const struct rn_ngx_server *server);
/* In a worker: connects to all, or ends the connections. */
ngx_int_t rn_ngx_servers_open(const struct rn_ngx_main *main, ngx_cycle_t *cycle);
void rn_ngx_servers_close(const struct rn_ngx_main *main);

/* In the master: makes the file of the table exist, so that its owner is whom the
 * workers run as. An error prevents the start of nginx, but not a reload. */
ngx_int_t rn_ngx_zone_prepare(ngx_cycle_t *cycle);
ngx_int_t rn_ngx_zone_open(ngx_cycle_t *cycle);
void rn_ngx_zone_close(ngx_cycle_t *cycle);

/* --- one request ---------------------------------------------------------------------------- */

enum rn_ngx_verdict {
    RN_NGX_ALLOWED,
    RN_NGX_DELAYED,
    RN_NGX_REFUSED,
    RN_NGX_SHADOWED,       /* let through, although a limit would have refused */
    RN_NGX_SHADOW_DELAYED, /* let through at once, although a limit would have delayed */
    RN_NGX_FAILED,         /* no decision could be made */
};

/* What limits of one kind said; of several the one that is last here. */
enum rn_ngx_status {
    RN_NGX_STATUS_NONE, /* no limit of this kind applied */
    RN_NGX_STATUS_PASSED,
    RN_NGX_STATUS_DELAYED_DRY_RUN,
    RN_NGX_STATUS_REJECTED_DRY_RUN,
    RN_NGX_STATUS_DELAYED,
    RN_NGX_STATUS_REJECTED,
};

/* What a request has asked rationd. */
enum rn_ngx_question {
    RN_NGX_UNASKED,
    RN_NGX_ASKED,
    RN_NGX_ANSWERED,   /* the worker's outcome says what, until somebody else is resumed */
    RN_NGX_UNANSWERED, /* in time, or there is nobody to ask */
};

struct rn_ngx_stay;
struct rn_ngx_lease;
struct rn_ngx_ticket;
struct rn_ngx_dues;

/* A request of a client from its decision to its end, also through internal
 * redirects. Lives in the request's pool. */
struct rn_ngx_context {
    ngx_http_request_t *request;
    struct rn_ngx_worker *worker;
    bool ruled;   /* a decision was made, or failed */
    bool counted; /* `remaining` means something */
    bool waiting; /* in a queue, until until_ns of the table's time */
    bool timed;   /* `timer` has been set up */
    enum rn_ngx_verdict verdict;
    enum rn_ngx_status rate_status, concurrency_status;
    enum rn_ngx_question question;
    ngx_str_t headers;              /* lines with CRLF */
    int64_t delay_ns;               /* 0: none */
    struct ration_outcome *outcome; /* while waiting: to give it back */
    struct rn_ngx_stay *stay;       /* places; NULL: none */
    struct rn_ngx_link *link;       /* that was asked */
    struct rn_ngx_lease *lease;     /* places of rationd's; NULL: none */
    struct rn_ngx_ticket *charge;   /* what rationd charges by outcome; NULL: nothing */
    struct rn_ngx_ticket *turn;     /* in a queue of rationd's; NULL: none that could be left */
    struct rn_ngx_dues *dues;       /* what is charged by outcome; NULL: nothing */

    char rule[RATION_NAME_SIZE]; /* that decided; empty: none applied */
    /* Unset, unless what is above says otherwise. */
    uint64_t remaining; /* of the limit that decided */
    int64_t until_ns;
    uint64_t number;   /* of the command that asks the link */
    ngx_event_t timer; /* while waiting, for a turn or an answer */
};

/* The context that a request belongs to, NULL before its decision. */
struct rn_ngx_context *rn_ngx_context_find(ngx_http_request_t *r);
/* NULL: out of memory. */
struct rn_ngx_context *rn_ngx_context_new(ngx_http_request_t *r, struct rn_ngx_worker *worker);
/* Sets up the timer, which does not run. */
void rn_ngx_context_time(struct rn_ngx_context *context, ngx_event_handler_pt handler);
/* Stops it, if it runs. */
void rn_ngx_context_stop(struct rn_ngx_context *context);

/* In the pool. NULL: out of memory. */
struct rn_ngx_wanted *rn_ngx_wanted_new(const struct rn_ruleset *ruleset, ngx_pool_t *pool);

/* The attributes are the worker's and borrow from the request. Not `whole`: those that
 * the rules of this nginx want. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_attributes_read(ngx_http_request_t *r, struct rn_ngx_worker *worker, bool whole,
                                 struct ration_request *request);

/* Phase handler: NGX_DECLINED lets the request go on. */
ngx_int_t rn_ngx_handler(ngx_http_request_t *r);

/* Asks rationd: NGX_AGAIN; the handler runs again when the question is ANSWERED or
 * UNANSWERED. NGX_DECLINED: it is UNANSWERED at once. Or the status for a request that
 * has more headers than can be asked about. */
ngx_int_t rn_ngx_ask(struct rn_ngx_context *context);
/* At the end of a request whose question is ASKED. */
void rn_ngx_ask_end(struct rn_ngx_context *context);

/* Keeps the places that were told of, if any, until the request ends. NGX_ERROR: out of
 * memory, they are free again. */
ngx_int_t rn_ngx_lease_hold(struct rn_ngx_context *context, struct rn_ngx_link *link,
                            const struct rn_told *told);
void rn_ngx_lease_release(struct rn_ngx_link *link, struct rn_slice lease);
/* At the end of a request that has one. */
void rn_ngx_lease_end(struct rn_ngx_context *context);

struct rn_ngx_ticket {
    struct rn_ngx_link *link; /* by which it came */
    ngx_str_t text;
};

/* Keeps a copy, in the request's pool, in *to; without data there is none. NGX_ERROR:
 * out of memory. */
ngx_int_t rn_ngx_ticket_keep(struct rn_ngx_context *context, struct rn_ngx_link *link,
                             struct rn_slice text, struct rn_ngx_ticket **to);
/* A command about it, with another word if `more` is not empty, in the worker's scratch.
 * Empty: out of memory. */
struct rn_slice rn_ngx_ticket_command(struct rn_ngx_link *link, struct rn_slice name,
                                      struct rn_slice ticket, struct rn_slice more);
/* Sends one, now or when rationd is back. Nobody waits for the reply. */
void rn_ngx_ticket_send(struct rn_ngx_link *link, struct rn_slice name, struct rn_slice ticket,
                        struct rn_slice more);

/* Lets the request wait: NGX_AGAIN, or an error's status. */
ngx_int_t rn_ngx_pause(struct rn_ngx_context *context);
/* Runs the phases again from the handler on. The context may be gone afterwards. */
void rn_ngx_resume(struct rn_ngx_context *context);

/* Begins to wait for delay_ns from now_ns on: NGX_AGAIN. */
ngx_int_t rn_ngx_delay_begin(struct rn_ngx_context *context, int64_t now_ns);
/* Of a request that waits: NGX_DECLINED when it may go on, never earlier than
 * promised; else NGX_AGAIN. */
ngx_int_t rn_ngx_delay_check(struct rn_ngx_context *context);
/* Nobody waits any more for a turn that rationd has given. */
void rn_ngx_delay_leave(struct rn_ngx_link *link, struct rn_slice turn);
/* At the end of a request that is still waiting: it gives back its charge, here or to
 * rationd. */
void rn_ngx_delay_end(struct rn_ngx_context *context);

/* Keeps the places of the outcome, of which there are some, until the request ends.
 * NGX_ERROR: out of memory, they are free again. */
ngx_int_t rn_ngx_places_hold(struct rn_ngx_context *context, struct ration_outcome *outcome);
/* At the end of a request that has some. */
void rn_ngx_places_end(struct rn_ngx_context *context);

/* Keeps what the outcome leaves to be charged, which is something, until the answer is
 * known. NGX_ERROR: out of memory. */
ngx_int_t rn_ngx_dues_note(struct rn_ngx_context *context, const struct ration_outcome *outcome);
/* Handler of the log phase. */
ngx_int_t rn_ngx_dues_charge(ngx_http_request_t *r);

/* Notes the header lines of a decision; they are sent with the answer. */
ngx_int_t rn_ngx_headers_note(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                              int64_t now_ns);
/* Puts the filter in its place. */
void rn_ngx_headers_init(void);

/* Answers with the status, and with a body unless nginx has a page for it. Returns
 * what a phase handler does. */
ngx_int_t rn_ngx_refuse(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                        int64_t now_ns);

ngx_int_t rn_ngx_variables_add(ngx_conf_t *cf);

/* --- small things ------------------------------------------------------------------------------
 */

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
