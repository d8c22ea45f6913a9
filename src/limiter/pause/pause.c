/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting, finding and lifting pauses.
 */
#include "limiter/pause/pause.h"

#include <stdlib.h>

#include "limiter/board.h"
#include "limiter/decide/gather.h"
#include "limiter/envoy/descriptors.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/state.h"

/* Any odd number and any numbers: pauses are keyed unlike the states of limits. */
#define CLIENT_FACTOR UINT64_C(0xC2B2AE3D27D4EB4F)
#define CLIENT_TERM UINT64_C(0x165667B19E3779F9)
#define KEY_DOMAIN UINT64_C(0x27D4EB2F165667C5)

/* A clock of a caller may be a little behind that of the one that has paused. */
#define TOLERANCE_NS INT64_C(1000000000)

#define SPAN_NS (INT64_C(300) * 1000000000)
#define SHARE 4 /* of the keys that fit into the table, a quarter may be pauses */

#define BOARD_WORDS (sizeof(struct rn_pause_board) / sizeof(uint64_t))

void rn_pause_open(struct ration *r)
{
    struct rn_pauses *p = &r->pauses;
    uint64_t *words = rn_board_entry(r->table, RN_BOARD_PAUSE, RN_SLICE("pauses"), BOARD_WORDS);

    p->board = words ? (struct rn_pause_board *)(void *)words : &p->none;
}

void rn_pause_close(struct rn_pauses *pauses)
{
    pthread_mutex_destroy(&pauses->lock);
    free(pauses->log);
}

/* --- keys ------------------------------------------------------------------------------------ */

uint64_t rn_pause_key(uint64_t hash)
{
    return hash * CLIENT_FACTOR + CLIENT_TERM;
}

uint64_t rn_pause_key_of_text(const struct ration *r, const void *key, size_t len)
{
    const struct rn_hash_key seed = {r->secret.k0 ^ KEY_DOMAIN, ~r->secret.k1};

    return rn_siphash(&seed, key, len);
}

/* --- one pause --------------------------------------------------------------------------------
 * The board is written by any process, and not trusted: a filter or a latest end that is wrong
 * costs a look into the table, or hides a pause, and does no other harm. */

static uint64_t *filter_word(struct rn_pause_board *board, uint64_t key)
{
    return &board->filter[key >> 58];
}

static uint64_t filter_bit(uint64_t key)
{
    return UINT64_C(1) << (key >> 52 & 63);
}

/* RN_PEEK and RN_RESET: `lasts_ns` does not matter. RN_FORCE: the pause lasts that long. */
static int apply(struct ration *r, enum rn_op op, uint64_t key, int64_t lasts_ns, int64_t now_ns,
                 struct rn_answer *answer)
{
    struct rn_limit limit;
    struct rn_charge charge = {.limit = &limit,
                               .key = key,
                               .flags = RN_CHARGE_KEEP,
                               .ask = {.op = op, .now_ns = now_ns, .cost = op == RN_FORCE}};

    rn_compiled_init_flag(&limit, lasts_ns);
    rn_store_apply(rn_table_store(r->table), &charge, 1);
    *answer = charge.answer;
    return charge.error;
}

/* The rest as the table has it. A damaged word is no pause. */
static int64_t look(struct ration *r, uint64_t key, int64_t now_ns)
{
    struct rn_answer answer;

    if (apply(r, RN_PEEK, key, RATION_PAUSE_MAX_NS, now_ns, &answer) != 0 ||
        answer.reset_after_ns > RATION_PAUSE_MAX_NS + TOLERANCE_NS)
        return 0;
    return answer.reset_after_ns;
}

/* When all are over, decisions read one word again. A caller's time may be ahead of the table's. */
int64_t rn_pause_latest(struct ration *r, int64_t now_ns)
{
    uint64_t *word = &r->pauses.board->latest_ns, latest = __atomic_load_n(word, __ATOMIC_ACQUIRE);

    if ((int64_t)latest > now_ns)
        return (int64_t)latest - now_ns;
    if (latest != 0 && (int64_t)latest <= rn_table_now(r->table))
        __atomic_compare_exchange_n(word, &latest, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return 0;
}

RN_ASIDE int64_t rn_pause_left(struct ration *r, uint64_t key, int64_t now_ns)
{
    if (rn_pause_latest(r, now_ns) == 0 ||
        !(__atomic_load_n(filter_word(r->pauses.board, key), __ATOMIC_RELAXED) & filter_bit(key)))
        return 0;
    return look(r, key, now_ns);
}

/* --- changing ----------------------------------------------------------------------------------
 */

/* Bits stay set when pauses end. They are cleared by the first pause after a time without any. One
 * that another process sets meanwhile may lose its bit: then that process sees the end change, or
 * this one does. */
static void enter(struct ration *r, uint64_t key, int64_t ends_ns, int64_t now_ns)
{
    struct rn_pause_board *board = r->pauses.board;
    uint64_t latest = __atomic_load_n(&board->latest_ns, __ATOMIC_SEQ_CST), seen = latest;

    if ((int64_t)latest <= now_ns && (int64_t)latest <= rn_table_now(r->table)) {
        for (unsigned i = 0; i < RN_PAUSE_FILTER_WORDS; i++)
            __atomic_store_n(&board->filter[i], 0, __ATOMIC_SEQ_CST);
        latest = __atomic_load_n(&board->latest_ns, __ATOMIC_SEQ_CST);
        for (unsigned i = 0; i < RN_PAUSE_FILTER_WORDS && latest != seen; i++)
            __atomic_store_n(&board->filter[i], UINT64_MAX, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_or(filter_word(board, key), filter_bit(key), __ATOMIC_SEQ_CST);
    while ((int64_t)latest < ends_ns &&
           !__atomic_compare_exchange_n(&board->latest_ns, &latest, (uint64_t)ends_ns, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    __atomic_fetch_or(filter_word(board, key), filter_bit(key), __ATOMIC_SEQ_CST);
}

/* The table never evicts a pause. Those that this process has begun may take a part of it, so that
 * the states of limits have room. Each counts until the span of its end is over. */
static bool has_room(const struct ration *r, int64_t now_ns)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < RN_PAUSE_SPANS; i++)
        if (r->pauses.ending[i].span >= now_ns / SPAN_NS)
            count += r->pauses.ending[i].count;
    return count < rn_limiter_capacity(r) / SHARE;
}

/* One more ends then, or one fewer. */
static void count_ending(struct rn_pauses *p, int64_t ends_ns, bool more)
{
    int64_t span = ends_ns / SPAN_NS;
    unsigned i = (unsigned)((uint64_t)span % RN_PAUSE_SPANS);

    if (p->ending[i].span != span) {
        p->ending[i].span = span;
        p->ending[i].count = 0;
    }
    if (more)
        p->ending[i].count++;
    else if (p->ending[i].count != 0)
        p->ending[i].count--;
}

/* Without memory for the log the event stays one of this node. */
static void remember(struct ration *r, const struct rn_pause_event *event)
{
    struct rn_pauses *p = &r->pauses;

    if (!r->fallback)
        return; /* no other node shares the limits */
    if (!p->log)
        p->log = calloc(RN_PAUSE_LOG, sizeof *p->log);
    if (p->log)
        p->log[++p->last % RN_PAUSE_LOG] = *event;
}

/* What to do with a pause: */
enum wish { LOOK, PROLONG, LIFT };

/* One change, or a look. */
struct pausing {
    enum wish wish;
    bool heard; /* from another node */
    int64_t for_ns, now_ns;
    int64_t rest_ns; /* out: the longest after the change; of a lift, before it; */
    bool applied;    /* and whether there was a client */
};

/* Under the lock. A lift made here is told even if nothing is paused here: another node may know
 * more. */
static int change(struct ration *r, uint64_t key, const struct pausing *p, int64_t before)
{
    bool lifts = p->wish == LIFT;
    struct rn_pause_event event = {.key = key,
                                   .at_ns = p->now_ns,
                                   .ends_ns = lifts ? 0 : p->now_ns + p->for_ns,
                                   .heard = p->heard};
    struct rn_answer unread;

    if (lifts ? p->heard && before == 0 : p->for_ns <= before)
        return 0;
    if (before == 0 && !lifts && !has_room(r, p->now_ns))
        return RATION_EFULL;
    int code = apply(r, lifts ? RN_RESET : RN_FORCE, key, lifts ? RATION_PAUSE_MAX_NS : p->for_ns,
                     p->now_ns, &unread);

    if (code != 0)
        return code;
    if (before != 0)
        count_ending(&r->pauses, p->now_ns + before, false);
    if (!lifts) {
        count_ending(&r->pauses, event.ends_ns, true);
        enter(r, key, event.ends_ns, p->now_ns);
    }
    remember(r, &event);
    if (!p->heard && (!lifts || before != 0))
        __atomic_fetch_add(lifts ? &r->pauses.lifted : &r->pauses.begun, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Prolongs a pause, and never shortens it, or lifts it. If another process changes the same pause
 * in this very moment, one of both changes may be lost. */
static int pause_one(struct ration *r, uint64_t key, struct pausing *p)
{
    int code = 0;

    if (r->pauses.board == &r->pauses.none)
        return p->wish == PROLONG ? RATION_EFULL : 0;
    if (p->wish != LOOK)
        pthread_mutex_lock(&r->pauses.lock);
    int64_t rest_ns = p->wish == LOOK ? rn_pause_left(r, key, p->now_ns) : look(r, key, p->now_ns);

    if (p->wish != LOOK) {
        code = change(r, key, p, rest_ns);
        pthread_mutex_unlock(&r->pauses.lock);
    }
    if (p->wish == LIFT)
        rn_gate_poke_all(r, p->now_ns); /* that may have been what they waited for */
    if (code != 0)
        return code;
    if (p->wish == PROLONG && rest_ns < p->for_ns)
        rest_ns = p->for_ns;
    p->applied = true;
    p->rest_ns = rest_ns > p->rest_ns ? rest_ns : p->rest_ns;
    return 0;
}

size_t rn_pause_recent(struct ration *r, uint64_t *number, struct rn_pause_event *out, size_t most)
{
    struct rn_pauses *p = &r->pauses;
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    uint64_t first = p->last > RN_PAUSE_LOG ? p->last - RN_PAUSE_LOG : 0;

    *number = *number > first ? *number : first;
    while (*number < p->last && n < most)
        out[n++] = p->log[++*number % RN_PAUSE_LOG];
    pthread_mutex_unlock(&p->lock);
    return n;
}

bool rn_pause_apply(struct ration *r, uint64_t key, int64_t rest_ns)
{
    struct pausing p = {.wish = rest_ns > 0 ? PROLONG : LIFT,
                        .heard = true,
                        .for_ns = rest_ns < RATION_PAUSE_MAX_NS ? rest_ns : RATION_PAUSE_MAX_NS,
                        .now_ns = rn_limiter_now(r, RATION_NOW)};

    return pause_one(r, key, &p) == 0;
}

/* --- who is paused ------------------------------------------------------------------------------
 */

static int pause_rule(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                      void *arg)
{
    const struct rn_compiled *any = rn_book_any_limit(book, a->rule);

    return any ? pause_one(r, rn_pause_key(rn_gather_hash(a, any)), arg) : 0;
}

static int pause_descriptor(struct ration *r, const struct ration_descriptor *d, struct pausing *p)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t part_count = 0;
    const struct rn_envoy_limit *limit =
        pin.book
            ? rn_descriptor_match(pin.book->ruleset, (struct rn_slice){d->domain, d->domain_len},
                                  d->entries, d->count, parts, &part_count)
            : NULL;
    int code = 0;

    if (limit && limit->rule) {
        struct rn_applied applied = rn_applied_of_envoy(limit, parts, part_count, 0);

        code = pause_rule(r, pin.book, &applied, p);
    }
    rn_pin_drop(&pin);
    return code;
}

static int pause_key(struct ration *r, const struct ration_pause_of *of, struct pausing *p)
{
    if (of->limit_given && of->limit >= r->limit_count)
        return RATION_EINVAL;
    return pause_one(
        r,
        of->limit_given ? rn_pause_key(rn_siphash(&r->limits[of->limit].seed, of->key, of->key_len))
                        : rn_pause_key_of_text(r, of->key, of->key_len),
        p);
}

static int pause(struct ration *r, const struct ration_pause_of *of, struct pausing *p,
                 int64_t *rest_ns)
{
    p->now_ns = rn_limiter_now(r, p->now_ns);
    int code = of->request ? rn_state_change(r, of->request, of->rule, of->rule_len, pause_rule, p)
               : of->descriptor ? pause_descriptor(r, of->descriptor, p)
               : of->key        ? pause_key(r, of, p)
                                : RATION_EINVAL;

    if (code == 0 && !p->applied)
        code = RATION_EUNMATCHED;
    if (code == 0 && rest_ns)
        *rest_ns = p->rest_ns;
    return code;
}

int ration_pause(struct ration *r, const struct ration_pause_of *of, int64_t for_ns, int64_t now_ns,
                 int64_t *rest_ns)
{
    if (for_ns < 0 || for_ns > RATION_PAUSE_MAX_NS)
        return RATION_EINVAL;
    return pause(r, of, &(struct pausing){.wish = PROLONG, .for_ns = for_ns, .now_ns = now_ns},
                 rest_ns);
}

int ration_pause_lift(struct ration *r, const struct ration_pause_of *of, int64_t now_ns,
                      int64_t *rest_ns)
{
    return pause(r, of, &(struct pausing){.wish = LIFT, .now_ns = now_ns}, rest_ns);
}

int ration_pause_rest(struct ration *r, const struct ration_pause_of *of, int64_t now_ns,
                      int64_t *rest_ns)
{
    return pause(r, of, &(struct pausing){.wish = LOOK, .now_ns = now_ns}, rest_ns);
}

void ration_pause_totals(struct ration *r, int64_t now_ns, struct ration_pause_totals *totals)
{
    struct rn_pauses *p = &r->pauses;

    totals->begun = __atomic_load_n(&p->begun, __ATOMIC_RELAXED);
    totals->lifted = __atomic_load_n(&p->lifted, __ATOMIC_RELAXED);
    totals->refused = __atomic_load_n(&p->refused, __ATOMIC_RELAXED);
    totals->last_ends_ns = rn_pause_latest(r, rn_limiter_now(r, now_ns));
}
