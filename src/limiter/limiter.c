/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a limiter, and the rare parts of a decision.
 */
#include "limiter/limiter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "limiter/decide/workspace.h"
#include "limiter/effect/uncovered.h"
#include "limiter/factor.h"
#include "limiter/line/gate.h"
#include "limiter/own_algorithm.h"
#include "limiter/rulebook/reload.h"
#include "limiter/tickets/reset_log.h"

/* Percentages of the memory for blocks: */
#define SHARE_AD_HOC 2      /* the known limits need no blocks; limits given with a call may */
#define SHARE_MIXED_MOST 75 /* keys of some limits need less than those of others */
#define SHARE_UNKNOWN 50    /* no limit is known */
/* Any number: ids of reservations must hash unlike the keys of limits. */
#define RESERVATION_DOMAIN UINT64_C(0xA0761D6478BD642F)

static int check_options(const struct ration_options *o, struct ration_error *error)
{
    const unsigned known = RATION_SHADOW | RATION_KEEP | RATION_EVICT_LAST;

    if (o->memory_bytes != 0 && o->memory_bytes < RN_TABLE_BYTES_MIN)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%" PRIu64 " bytes of memory; give at least %" PRIu64, o->memory_bytes,
                            RN_TABLE_BYTES_MIN);
    if (o->usage_bytes != 0 && o->usage_bytes < RN_USAGE_BYTES_MIN)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%" PRIu64 " bytes for usage; give at least %" PRIu64, o->usage_bytes,
                            RN_USAGE_BYTES_MIN);
    if (o->limit_count >= RN_AD_HOC || (o->limit_count != 0 && !o->limits))
        return rn_error_set(error, RATION_EINVAL, 0, "%zu limits, but no list of that length",
                            o->limit_count);
    for (size_t i = 0; i < o->limit_count; i++) {
        const struct ration_named *named = &o->limits[i];

        if (!named->name || named->name[0] == '\0')
            return rn_error_set(error, RATION_EINVAL, 0, "limit %zu has no name; give it one", i);
        if (named->flags & ~known)
            return rn_error_set(error, RATION_EINVAL, 0,
                                "limit \"%s\": flags 0x%x; there are only RATION_SHADOW, "
                                "RATION_KEEP and RATION_EVICT_LAST",
                                named->name, named->flags);
        const char *fault = rn_limit_fault(&named->limit);

        if (fault)
            return rn_error_set(error, RATION_EINVAL, 0, "limit \"%s\": %s", named->name, fault);
    }
    return rn_own_algorithm_check_all(o->own_algorithms, o->own_algorithm_count, error);
}

/* What the known limits need of the table. */
struct demand {
    double least, most; /* share of blocks, in percent */
    size_t limits;
    unsigned sizes; /* of blocks */
};

static void demand_add(struct demand *d, const struct rn_limit *limit)
{
    double share = rn_table_block_share(limit);

    if (limit->form == RN_FORM_NONE)
        return;
    d->least = d->limits == 0 || share < d->least ? share : d->least;
    d->most = share > d->most ? share : d->most;
    d->sizes += limit->words_full == 0 ? 0 : limit->words_small == limit->words_full ? 1 : 2;
    d->limits++;
}

static void demand_add_rule(struct demand *d, const struct rn_rule_limit *limit)
{
    struct rn_limit widest = rn_factor_widest(limit);

    demand_add(d, &widest);
}

/* So that slots and blocks run out together if all keys are of one limit. */
static double demand_share(const struct demand *d)
{
    if (d->limits == 0)
        return SHARE_UNKNOWN;
    if (d->most == 0)
        return SHARE_AD_HOC;
    return d->most > d->least && d->most > SHARE_MIXED_MOST
               ? (d->least > SHARE_MIXED_MOST ? d->least : SHARE_MIXED_MOST)
               : d->most;
}

void rn_limiter_set_capacity(struct ration *r, const struct rn_ruleset *ruleset)
{
    static const struct rn_limit word = {.form = RN_FORM_GCRA};
    uint32_t rules = ruleset ? ruleset->limit_count : 0;
    struct demand d = {0};

    for (size_t i = 0; i < r->limit_count; i++)
        demand_add(&d, &r->limits[i].limit);
    for (uint32_t i = 0; i < rules; i++)
        demand_add_rule(&d, ruleset->limits[i]);
    uint64_t least = rn_table_capacity(r->table, &word, d.sizes);

    for (size_t i = 0; i < r->limit_count + rules; i++) {
        struct rn_limit limit = i < r->limit_count
                                    ? r->limits[i].limit
                                    : rn_factor_widest(ruleset->limits[i - r->limit_count]);
        uint64_t capacity = rn_table_capacity(r->table, &limit, d.sizes);

        least = capacity < least ? capacity : least;
    }
    __atomic_store_n(&r->capacity, least, __ATOMIC_RELAXED);
}

void rn_limiter_detach_clock(struct ration *r)
{
    rn_table_detach_clock(r->table);
}

uint64_t rn_limiter_capacity(const struct ration *r)
{
    return __atomic_load_n(&r->capacity, __ATOMIC_RELAXED);
}

static int compile_limits(struct ration *r, const struct ration_options *o,
                          struct ration_error *error)
{
    size_t n = o->limit_count;

    r->limits = calloc(n + 1, sizeof *r->limits);
    r->calendars = rn_calendars_new();
    if (!r->limits || !r->calendars)
        return RATION_ENOMEM;
    for (; r->limit_count < n; r->limit_count++) {
        uint32_t i = (uint32_t)r->limit_count;
        struct rn_limit *limit = &r->limits[i].limit;

        if (rn_compiled_init(&r->limits[i], &r->secret, i, &o->limits[i]) != 0)
            return RATION_ENOMEM;
        if (limit->calendar_id != 0 &&
            rn_calendars_attach(r->calendars, &o->limits[i].limit, limit, error) != 0) {
            r->limit_count++; /* ration_close must free it */
            return RATION_EINVAL;
        }
    }
    if (!rn_compiled_link(r->limits, n, &r->secret, &r->variants))
        return RATION_ENOMEM;
    r->top = rn_top_new();
    r->lines = rn_lines_new();
    return r->top && r->lines ? rn_stats_init(&r->stats, n) : RATION_ENOMEM;
}

static void set_secret(struct ration *r, const struct rn_hash_key *secret)
{
    r->secret = *secret;
    r->reservation_seed = (struct rn_hash_key){secret->k0 ^ RESERVATION_DOMAIN, ~secret->k1};
}

/* Redis has the keys as plain text. If the nodes have a secret, a reader of Redis still cannot
 * sign. */
static struct rn_hash_key bind_to_secret(const struct ration *r, const struct rn_hash_key *key)
{
    const struct rn_hash_key other = {~r->secret.k0, r->secret.k1};

    return (struct rn_hash_key){rn_siphash(&r->secret, key, sizeof *key),
                                rn_siphash(&other, key, sizeof *key)};
}

void rn_limiter_add_ticket_key(struct ration *r, const struct rn_hash_key *key, bool signs)
{
    struct rn_hash_key bound = bind_to_secret(r, key);

    rn_ticket_keys_add(&r->ticket_keys, &bound, signs);
}

int rn_limiter_judge(const struct ration *r, const struct ration_limit *spec,
                     struct ration_error *error)
{
    const char *fault = rn_limit_fault(spec);
    struct rn_compiled own;
    int code;

    if (fault)
        return rn_error_set(error, RATION_EINVAL, 0, "%s", fault);
    rn_compiled_init_ad_hoc(&own, &r->secret, spec);
    code =
        own.limit.calendar_id != 0 ? rn_calendars_attach(r->calendars, spec, &own.limit, error) : 0;
    if (code != 0)
        return code;
    fault = rn_limiter_is_remote(r) ? r->fallback->store_fault(&own.limit) : NULL;
    return fault ? rn_error_set(error, RATION_EINVAL, 0, "the limit has %s", fault) : 0;
}

int rn_limiter_share(struct ration *r, const struct rn_hash_key *secret,
                     rn_limit_fault_fn *store_fault)
{
    r->fallback = malloc(sizeof *r->fallback);
    if (!r->fallback)
        return RATION_ENOMEM;
    rn_fallback_init(r->fallback, r->table, store_fault);
    r->host.store_fault = store_fault;
    r->store = &r->fallback->store;
    r->shelf.waits = true;
    set_secret(r, secret);
    struct rn_hash_key own = bind_to_secret(r, &r->ticket_key);

    rn_ticket_keys_init(&r->ticket_keys, &own);
    return 0;
}

static const char *no_fault(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

/* The states of all limits are kept by a store of the embedder's. */
static int use_store(struct ration *r, const struct ration_store *store, struct ration_error *error)
{
    struct rn_hash_key secret;
    struct rn_own_store own;
    int code = rn_own_store_init(&own, store, error);

    if (code == 0)
        code = rn_own_store_secret(&own, &r->secret, rn_table_now(r->table), &secret, error);
    if (code != 0)
        return code;
    if (rn_limiter_share(r, &secret, no_fault) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a store");
    r->fallback->own = own;
    return 0;
}

static int fill(struct ration *r, const struct ration_options *o, const struct rn_ruleset *ruleset,
                struct ration_error *error)
{
    struct demand demand = {0};
    int clients = rn_clients_init(&r->clients), code = rn_pin_shelf_init(&r->shelf);

    if (rn_usage_init(&r->usage, o) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a path");
    if (clients != 0 || code != 0 || pthread_mutex_init(&r->load_lock, NULL) != 0 ||
        pthread_mutex_init(&r->pauses.lock, NULL) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a lock");
    for (size_t i = 0; i < o->limit_count; i++) {
        struct rn_limit limit;

        rn_limit_init(&limit, &o->limits[i].limit);
        demand_add(&demand, &limit);
    }
    for (uint32_t i = 0; ruleset && i < ruleset->limit_count; i++)
        demand_add_rule(&demand, ruleset->limits[i]);
    code = rn_table_open(&(struct rn_table_options){.path = o->state_path,
                                                    .bytes = o->memory_bytes,
                                                    .block_share = demand_share(&demand),
                                                    .keep_share = demand.limits == 0},
                         &r->table, error);
    if (code != 0)
        return code;
    r->store = rn_table_store(r->table);
    rn_pause_open(r);
    set_secret(r, rn_table_secret(r->table));
    r->ticket_key = (struct rn_hash_key){rn_siphash(&r->secret, "ticket", 6),
                                         rn_siphash(&r->reservation_seed, "ticket", 6)};
    rn_ticket_keys_init(&r->ticket_keys, &r->ticket_key);
    if (getrandom(&r->id_seed, sizeof r->id_seed, 0) != sizeof r->id_seed)
        return rn_error_set(error, RATION_EIO, 0, "the system has no random numbers");
    code = o->store ? use_store(r, o->store, error) : 0;
    if (code != 0)
        return code;
    code = compile_limits(r, o, error);
    if (code == RATION_EINVAL)
        return code;
    if (code != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for %zu limits",
                            o->limit_count);
    rn_limiter_set_capacity(r, NULL);
    return rn_clients_open(r, o->state_path, error);
}

int ration_open(const struct ration_options *options, struct ration **out,
                struct ration_error *error)
{
    return rn_limiter_open(options, NULL, out, error);
}

int rn_limiter_open(const struct ration_options *options, const struct rn_ruleset *ruleset,
                    struct ration **out, struct ration_error *error)
{
    struct ration_error unread;
    int code;

    error = error ? error : &unread;
    *error = (struct ration_error){0};
    code = check_options(options, error);
    if (code != 0)
        return code;
    struct ration *r = calloc(1, sizeof *r);

    if (r) {
        rn_wait_seats_init(&r->seats);
        r->host.own = r->own_algorithms;
        r->host.own_count = options->own_algorithm_count;
        for (size_t i = 0; i < r->host.own_count; i++)
            r->own_algorithms[i] = options->own_algorithms[i];
    }
    code = r ? fill(r, options, ruleset, error)
             : rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a limiter");
    if (code != 0)
        ration_close(r);
    else
        *out = r;
    return code;
}

void ration_close(struct ration *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->limit_count; i++)
        rn_compiled_done(&r->limits[i]);
    free(r->limits);
    rn_calendars_free(r->calendars);
    rn_arena_done(&r->variants);
    rn_pin_shelf_done(&r->shelf);
    rn_signals_done(&r->signals);
    rn_uncovered_free(r->uncovered);
    rn_teams_free(r->teams);
    pthread_mutex_destroy(&r->load_lock);
    rn_clients_done(&r->clients);
    for (unsigned i = 0; i < RN_THREADS && r->stats.memory; i++)
        rn_workspaces_free(rn_stats_at(&r->stats, i));
    rn_stats_done(&r->stats);
    rn_top_free(r->top);
    rn_wait_seats_done(&r->seats);
    rn_lines_free(r->lines);
    rn_usage_done(&r->usage);
    free(r->fallback);
    rn_pause_close(&r->pauses);
    rn_records_close(&r->reputation.records);
    if (r->table)
        rn_table_close(r->table);
    free(r);
}

/* Whether others may have room after it. */
static bool frees(enum rn_op op)
{
    return op == RN_GIVE_BACK || op == RN_RELEASE || op == RN_RESET || op == RN_CREDIT;
}

int rn_limiter_apply_shifted(struct ration *r, const struct rn_compiled *l, uint64_t key,
                             int64_t shift_ns, struct rn_charge *charge)
{
    charge->limit = &rn_factor_step(l)->limit;
    charge->key = key;
    charge->flags |= l->charge_flags;
    charge->ask.wall_offset_ns = rn_table_wall_offset(r->table, charge->ask.now_ns) - shift_ns;
    rn_store_apply(r->store, charge, 1);
    if (rn_unlikely(rn_lines_any(r->lines)) && frees(charge->ask.op))
        rn_gate_poke(r, key, charge->ask.now_ns);
    return charge->error;
}

int rn_limiter_apply(struct ration *r, const struct rn_compiled *l, uint64_t key,
                     struct rn_charge *charge)
{
    return rn_limiter_apply_shifted(r, l, key, 0, charge);
}

/* A guard in which charges fade one by one must not keep one that its limit has forgotten: it would
 * have no room to count the next. Other guards may keep it: when they are full, they stay full for
 * longer than they could count. */
int rn_limiter_give_back(struct ration *r, const struct rn_compiled *l,
                         const struct rn_refund *refund, int64_t now_ns)
{
    struct rn_charge charge = {
        .flags = RN_CHARGE_RESET_LOG,
        .ask = {.op = RN_GIVE_BACK, .now_ns = now_ns, .at_ns = refund->at_ns}};

    if (rn_fallback_has_decided(refund->mark) || /* no store has it */
        rn_reset_log_covers(r, &l->limit, refund->key, refund->at_ns, now_ns))
        return 0;
    for (uint32_t i = 0; i < l->guard_count; i++) {
        const struct rn_compiled *guard = rn_factor_same(l->guards[i], l);
        struct rn_charge same = charge;

        if (!rn_limit_mark_at(&guard->limit, refund->at_ns, &same.ask.mark))
            continue;
        if (rn_limiter_is_remote(r))
            same.ask.mark = RN_MARK_BY_AGE;
        same.ask.cost = refund->units;
        (void)rn_limiter_apply_shifted(r, guard, refund->key ^ l->salt ^ guard->salt,
                                       refund->shift_ns, &same);
    }
    charge.ask.cost = refund->cost;
    charge.ask.id = refund->id;
    charge.ask.mark = refund->mark;
    return rn_limiter_apply_shifted(r, l, refund->key, refund->shift_ns, &charge);
}

/* A counter makes the ids of a thread differ; process and time those of a child that was forked
 * with our seed and counters. They are hashed, so that no id betrays another. An id is also the
 * mark of a lease: 63 bits, since fallback.h uses negative marks. */
uint64_t rn_limiter_new_id(struct ration *r)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    uint64_t words[] = {__atomic_fetch_add(&s->ids, 1, __ATOMIC_RELAXED), rn_thread_index(),
                        (uint64_t)getpid(), (uint64_t)rn_clock_boot_ns()};
    uint64_t id = rn_siphash(&r->id_seed, words, sizeof words) & INT64_MAX;

    return id ? id : 1;
}

void rn_limiter_count_refusal(struct ration *r, struct rn_stripe *s, const struct rn_compiled *l,
                              const struct ration_charge *c)
{
    rn_limiter_count(s, l, l->shadow ? RN_RESULT_ALLOWED | RN_RESULT_SHADOWED : RN_RESULT_REFUSED);
    if (!l->shadow)
        rn_top_note(r->top, s, l->index, RN_SLICE(""), c);
}
