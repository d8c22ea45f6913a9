/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a limiter, and the parts of a decision that are not in
 * everyone's way.
 */
#include "limiter/limiter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "limiter/decide/workspace.h"
#include "limiter/rulebook/reload.h"
#include "limiter/tickets/reset_log.h"

/* Percentages of memory for blocks: */
#define SHARE_AD_HOC 2      /* for limits given with the call, if those known need none */
#define SHARE_MIXED_MOST 75 /* if keys of some limits need less than those of others */
#define SHARE_UNKNOWN 50    /* no limit is known */
/* Any number: ids of reservations are hashed like no limit's keys. */
#define RESERVATION_DOMAIN UINT64_C(0xA0761D6478BD642F)

static int check_limit(const struct ration_named *named, size_t i, struct ration_error *error)
{
    const unsigned known = RATION_SHADOW | RATION_KEEP | RATION_EVICT_LAST;

    if (!named->name || named->name[0] == '\0')
        return rn_error_set(error, RATION_EINVAL, 0, "limit %zu has no name; give it one", i);
    if (named->flags & ~known)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "limit \"%s\": flags 0x%x; there are only RATION_SHADOW, RATION_KEEP "
                            "and RATION_EVICT_LAST",
                            named->name, named->flags);
    const char *fault = rn_limit_fault(&named->limit);

    if (fault)
        return rn_error_set(error, RATION_EINVAL, 0, "limit \"%s\": %s", named->name, fault);
    return 0;
}

static int check_options(const struct ration_options *o, struct ration_error *error)
{
    if (o->memory_bytes != 0 && o->memory_bytes < RN_TABLE_BYTES_MIN)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%" PRIu64 " bytes of memory; give at least %" PRIu64, o->memory_bytes,
                            RN_TABLE_BYTES_MIN);
    if (o->limit_count >= RN_AD_HOC || (o->limit_count != 0 && !o->limits))
        return rn_error_set(error, RATION_EINVAL, 0, "%zu limits, but no list of so many",
                            o->limit_count);
    for (size_t i = 0; i < o->limit_count; i++) {
        int code = check_limit(&o->limits[i], i, error);
        if (code != 0)
            return code;
    }
    return 0;
}

/* What the limits that are known want of the table. */
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

/* If every key is of one limit, slots and blocks run out together. */
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

static struct demand demand_of(const struct ration_options *o, const struct rn_ruleset *ruleset)
{
    struct demand d = {0};

    for (size_t i = 0; i < o->limit_count; i++) {
        struct rn_limit limit;

        rn_limit_init(&limit, &o->limits[i].limit);
        demand_add(&d, &limit);
    }
    for (uint32_t i = 0; ruleset && i < ruleset->limit_count; i++)
        demand_add(&d, &ruleset->limits[i]->limit);
    return d;
}

void rn_limiter_set_capacity(struct ration *r, const struct rn_ruleset *ruleset)
{
    static const struct rn_limit word = {.form = RN_FORM_GCRA};
    uint32_t rules = ruleset ? ruleset->limit_count : 0;
    struct demand d = {0};

    for (size_t i = 0; i < r->limit_count; i++)
        demand_add(&d, &r->limits[i].limit);
    for (uint32_t i = 0; i < rules; i++)
        demand_add(&d, &ruleset->limits[i]->limit);
    uint64_t least = rn_table_capacity(r->table, &word, d.sizes);

    for (size_t i = 0; i < r->limit_count + rules; i++) {
        const struct rn_limit *limit =
            i < r->limit_count ? &r->limits[i].limit : &ruleset->limits[i - r->limit_count]->limit;
        uint64_t capacity = rn_table_capacity(r->table, limit, d.sizes);

        least = capacity < least ? capacity : least;
    }
    __atomic_store_n(&r->capacity, least, __ATOMIC_RELAXED);
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
            r->limit_count++; /* it is there to be freed */
            return RATION_EINVAL;
        }
    }
    if (!rn_compiled_link(r->limits, n, &r->secret, &r->variants))
        return RATION_ENOMEM;
    r->top = rn_top_new();
    return r->top ? rn_stats_init(&r->stats, n) : RATION_ENOMEM;
}

static void set_secret(struct ration *r, const struct rn_hash_key *secret)
{
    r->secret = *secret;
    r->reservation_seed = (struct rn_hash_key){secret->k0 ^ RESERVATION_DOMAIN, ~secret->k1};
}

/* Secret, as the table's is. */
static void make_ticket_key(struct ration *r)
{
    r->ticket_key = (struct rn_hash_key){rn_siphash(&r->secret, "ticket", 6),
                                         rn_siphash(&r->reservation_seed, "ticket", 6)};
    rn_ticket_keys_init(&r->ticket_keys, &r->ticket_key);
}

/* Keys are in plain text in Redis. If the nodes have a secret, whoever reads them there still
 * cannot sign. */
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
    fault = r->fallback ? r->fallback->judge(&own.limit) : NULL;
    return fault ? rn_error_set(error, RATION_EINVAL, 0, "the limit has %s", fault) : 0;
}

int rn_limiter_share(struct ration *r, const struct rn_hash_key *secret, rn_limit_judge *judge)
{
    r->fallback = malloc(sizeof *r->fallback);
    if (!r->fallback)
        return RATION_ENOMEM;
    rn_fallback_init(r->fallback, r->table, judge);
    r->store = &r->fallback->store;
    r->shelf.waits = true;
    set_secret(r, secret);
    struct rn_hash_key own = bind_to_secret(r, &r->ticket_key);

    rn_ticket_keys_init(&r->ticket_keys, &own);
    return 0;
}

static int fill(struct ration *r, const struct ration_options *o, const struct rn_ruleset *ruleset,
                struct ration_error *error)
{
    struct demand demand = demand_of(o, ruleset);
    int clients = rn_clients_init(&r->clients), code = rn_pin_shelf_init(&r->shelf);

    if (clients != 0 || code != 0 || pthread_mutex_init(&r->load_lock, NULL) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a lock");
    code = rn_table_open(&(struct rn_table_options){.path = o->state_path,
                                                    .bytes = o->memory_bytes,
                                                    .block_share = demand_share(&demand),
                                                    .keep_share = demand.limits == 0},
                         &r->table, error);

    if (code != 0)
        return code;
    r->store = rn_table_store(r->table);
    set_secret(r, rn_table_secret(r->table));
    make_ticket_key(r);
    if (getrandom(&r->id_seed, sizeof r->id_seed, 0) != sizeof r->id_seed)
        return rn_error_set(error, RATION_EIO, 0, "the system has no random numbers");
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
    rn_teams_free(r->teams);
    pthread_mutex_destroy(&r->load_lock);
    rn_clients_done(&r->clients);
    for (unsigned i = 0; i < RN_THREADS && r->stats.memory; i++)
        rn_workspaces_free(rn_stats_at(&r->stats, i));
    rn_stats_done(&r->stats);
    rn_top_free(r->top);
    free(r->fallback);
    if (r->table)
        rn_table_close(r->table);
    free(r);
}

int rn_limiter_apply_shifted(struct ration *r, const struct rn_compiled *l, uint64_t key,
                             int64_t shift_ns, struct rn_charge *charge)
{
    charge->limit = &l->limit;
    charge->key = key;
    charge->flags |= l->charge_flags;
    charge->ask.wall_offset_ns = rn_table_wall_offset(r->table, charge->ask.now_ns) - shift_ns;
    rn_store_apply(r->store, charge, 1);
    return charge->error;
}

int rn_limiter_apply(struct ration *r, const struct rn_compiled *l, uint64_t key,
                     struct rn_charge *charge)
{
    return rn_limiter_apply_shifted(r, l, key, 0, charge);
}

/* Whether a guard must give back what its limit does, and the mark of that. One in which charges
 * fade one by one must not keep one that its limit has forgotten: there would be no room
 * to count the next. Others may: when they are full they stay so for longer than they could
 * count. */
static bool mark_in_guard(const struct ration *r, const struct rn_limit *guard, int64_t at_ns,
                          int64_t *mark)
{
    bool fades = rn_limit_mark_at(guard, at_ns, mark);

    if (r->fallback)
        *mark = RN_MARK_BY_AGE;
    return fades;
}

static void give_back_to_guards(struct ration *r, const struct rn_compiled *l,
                                const struct rn_refund *refund, int64_t now_ns)
{
    for (uint32_t i = 0; i < l->guard_count; i++) {
        const struct rn_compiled *guard = l->guards[i];
        struct rn_charge charge = {.flags = RN_CHARGE_RESET_LOG,
                                   .ask = {.op = RN_GIVE_BACK,
                                           .now_ns = now_ns,
                                           .cost = refund->units,
                                           .at_ns = refund->at_ns}};

        if (mark_in_guard(r, &guard->limit, refund->at_ns, &charge.ask.mark))
            (void)rn_limiter_apply_shifted(r, guard, refund->key ^ l->salt ^ guard->salt,
                                           refund->shift_ns, &charge);
    }
}

int rn_limiter_give_back(struct ration *r, const struct rn_compiled *l,
                         const struct rn_refund *refund, int64_t now_ns)
{
    struct rn_charge charge = {.flags = RN_CHARGE_RESET_LOG,
                               .ask = {.op = RN_GIVE_BACK,
                                       .now_ns = now_ns,
                                       .cost = refund->cost,
                                       .id = refund->id,
                                       .at_ns = refund->at_ns,
                                       .mark = refund->mark}};

    if (rn_fallback_has_decided(refund->mark) || /* no store has it */
        rn_reset_log_covers(r, &l->limit, refund->key, refund->at_ns, now_ns))
        return 0;
    give_back_to_guards(r, l, refund, now_ns);
    return rn_limiter_apply_shifted(r, l, refund->key, refund->shift_ns, &charge);
}

/* A count keeps the ids of a thread apart; process and time those of a child
 * that was forked with our seed and counts. Hashed, none gives away another. An id is the
 * mark of a lease, too: 63 bits, since negative marks are those of fallback.h. */
uint64_t rn_limiter_new_id(struct ration *r)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    uint64_t words[] = {__atomic_fetch_add(&s->ids, 1, __ATOMIC_RELAXED), rn_thread_index(),
                        (uint64_t)getpid(), (uint64_t)rn_clock_boot_ns()};
    uint64_t id = rn_siphash(&r->id_seed, words, sizeof words) & INT64_MAX;

    return id ? id : 1;
}

void rn_limiter_refused(struct ration *r, struct rn_stripe *s, const struct rn_compiled *l,
                        const struct ration_charge *c)
{
    struct rn_counts *row = rn_stats_row(s, l->index);

    if (l->shadow) {
        rn_stats_add(s, &s->total.allowed);
        rn_stats_add(s, &s->total.shadowed);
        rn_stats_add(s, &row->allowed);
        rn_stats_add(s, &row->shadowed);
        return;
    }
    rn_stats_add(s, &s->total.refused);
    rn_stats_add(s, &row->refused);
    rn_top_note(r->top, s, l->index, RN_SLICE(""), c);
}
