/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/own_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MAGIC UINT64_C(0x65726F74736E7672) /* "rvnstore" */
#define VERSION 1
/* A process whose clock is behind by less than this still finds the state that counts for it. */
#define SKEW_NS (INT64_C(10) * 1000000000)
#define WORDS_MAX (RATION_RECORD_MAX / 8 - 1) /* of a state */

/* --- one state ----------------------------------------------------------------------- */

/* Words of a state, in a buffer with a word for the form before it. */
struct state {
    uint64_t *words, *draft; /* `room` words each */
    uint32_t count;          /* 0: there is no state */
    uint32_t room;
    enum rn_form form;
    bool changed;
};

/* What the store has found, as far as it can be a state. */
static void read_state(struct state *s, const struct ration_record *record)
{
    uint64_t head = 0;
    size_t words = record->len / 8;

    s->count = 0;
    s->changed = false;
    if (words < 2 || record->len % 8 != 0 || words - 1 > s->room)
        return;
    memcpy(&head, record->data, 8);
    if (head == RN_FORM_NONE || head > RN_FORM_OWN ||
        (rn_form_is_word((unsigned)head) && words != 2))
        return;
    s->form = (enum rn_form)head;
    s->count = (uint32_t)(words - 1);
    memcpy(s->words, (const char *)record->data + 8, 8 * (size_t)s->count);
}

static void reset_state(struct state *s, struct rn_charge *c)
{
    bool spent = s->count != 0 && rn_limit_idle_at(s->form, s->words[0]) > c->ask.now_ns;

    s->changed |= s->count != 0;
    s->count = 0;
    c->answer = (struct rn_answer){.allowed = spent, .remaining = c->limit->cap};
}

/* The state in the draft, in a form of the limit; returns its words. */
static uint32_t begin_draft(struct state *s, const struct rn_limit *limit, enum rn_form *form)
{
    uint32_t least = limit->words_small ? limit->words_small : 1;
    bool serves =
        s->count != 0 && (s->form == limit->form || s->form == rn_form_grows_into(limit->form));

    *form = serves ? s->form : limit->form;
    memset(s->draft, 0, 8 * (size_t)s->room);
    if (serves)
        memcpy(s->draft, s->words, 8 * (size_t)s->count);
    else if (s->count == 1)
        rn_limit_convert(limit, s->form, s->words[0], s->draft);
    return serves && s->count > least ? s->count : least;
}

static void apply_charge(struct state *s, struct rn_charge *c)
{
    const struct rn_limit *limit = c->limit;
    enum rn_form form;

    c->error = 0;
    if (c->ask.op == RN_RESET) {
        reset_state(s, c);
        return;
    }
    uint32_t count = begin_draft(s, limit, &form);
    enum rn_outcome outcome = rn_form_apply(form, limit, s->draft, count, &c->ask, &c->answer);

    if (outcome == RN_GROW) {
        if (rn_form_is_word(form)) {
            rn_limit_convert(limit, form, s->draft[0], s->draft);
            form = rn_form_grows_into(form);
        }
        count = form == RN_FORM_WIDE ? RN_WIDE_WORDS : limit->words_full;
        outcome = rn_form_apply(form, limit, s->draft, count, &c->ask, &c->answer);
    }
    if (outcome == RN_FAULT)
        c->error = RATION_EALGORITHM;
    if (outcome != RN_WRITE)
        return;
    uint64_t *words = s->words;

    s->words = s->draft;
    s->draft = words;
    s->form = form;
    s->count = count;
    s->changed = true;
}

/* --- one update ---------------------------------------------------------------------- */

struct work {
    struct rn_charge *batch;
    size_t n;
    struct ration_record records[RATION_UPDATE_MAX];
    struct state states[RATION_UPDATE_MAX];
    uint8_t record_of[RATION_UPDATE_MAX];
    uint64_t *memory;
    bool is_done; /* compute has run, and had memory */
};

static uint32_t most_words(const struct work *w, size_t record)
{
    size_t found = w->records[record].len / 8;
    uint32_t most = RN_WIDE_WORDS;

    for (size_t i = 0; i < w->n; i++)
        if (w->record_of[i] == record && w->batch[i].limit->words_full > most)
            most = w->batch[i].limit->words_full;
    return found > most && found <= WORDS_MAX + 1 ? (uint32_t)found : most;
}

/* Two buffers for each state, each behind the word of its form. */
static bool lay_out(struct work *w, size_t count)
{
    size_t words = 0;

    for (size_t i = 0; i < count; i++) {
        w->states[i].room = most_words(w, i);
        words += 2 * ((size_t)w->states[i].room + 1);
    }
    free(w->memory);
    w->memory = malloc(8 * words);
    uint64_t *at = w->memory;

    for (size_t i = 0; i < count && at; i++) {
        w->states[i].words = at + 1;
        w->states[i].draft = at + w->states[i].room + 2;
        at += 2 * ((size_t)w->states[i].room + 1);
    }
    return w->memory != NULL;
}

static void hand_back(const struct state *s, struct ration_record *record)
{
    record->changed = s->changed;
    if (!s->changed)
        return;
    s->words[-1] = (uint64_t)s->form;
    record->data = s->words - 1;
    record->len = s->count != 0 ? 8 * ((size_t)s->count + 1) : 0;
    if (s->count == 0)
        return;
    int64_t idle_at = rn_limit_idle_at(s->form, s->words[0]);

    record->idle_at_ns = idle_at < INT64_MAX - SKEW_NS ? idle_at + SKEW_NS : INT64_MAX;
}

static void compute(struct ration_update *u)
{
    struct work *w = u->own;

    w->is_done = lay_out(w, u->count);
    for (size_t i = 0; i < u->count; i++) {
        u->records[i].changed = false;
        if (w->is_done)
            read_state(&w->states[i], &u->records[i]);
    }
    for (size_t i = 0; i < w->n && w->is_done; i++)
        apply_charge(&w->states[w->record_of[i]], &w->batch[i]);
    for (size_t i = 0; i < u->count && w->is_done; i++)
        hand_back(&w->states[i], &u->records[i]);
}

static size_t name_records(struct work *w)
{
    size_t count = 0;

    for (size_t i = 0; i < w->n; i++) {
        uint64_t key = w->batch[i].key != RN_OWN_STORE_HEAD ? w->batch[i].key : 1;
        size_t at = 0;

        while (at < count && w->records[at].key != key)
            at++;
        if (at == count)
            w->records[count++] = (struct ration_record){.key = key};
        w->record_of[i] = (uint8_t)at;
    }
    return count;
}

static void apply_some(struct rn_own_store *own, struct rn_charge *batch, size_t n)
{
    struct work *w = calloc(1, sizeof *w);
    int code = -1;

    if (w) {
        w->batch = batch;
        w->n = n;
        struct ration_update u = {.records = w->records,
                                  .count = name_records(w),
                                  .now_ns = batch[0].ask.now_ns,
                                  .compute = compute,
                                  .own = w};

        code = own->user.update(own->user.arg, &u);
    }
    if (code != 0 || !w->is_done)
        for (size_t i = 0; i < n; i++)
            batch[i].error = RATION_ESTORE;
    if (w)
        free(w->memory);
    free(w);
}

/* Charges without a state never reach the store. */
static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_own_store *own = (struct rn_own_store *)(void *)store;
    size_t begin = 0;

    for (size_t i = 0; i <= n; i++) {
        bool stateless = i < n && batch[i].limit->form == RN_FORM_NONE;

        if (i < n && !stateless && i - begin < RATION_UPDATE_MAX)
            continue;
        if (i > begin)
            apply_some(own, batch + begin, i - begin);
        begin = i + stateless;
        if (stateless) {
            uint64_t none = 0;

            rn_limit_apply(batch[i].limit, &none, 1, &batch[i].ask, &batch[i].answer);
            batch[i].error = 0;
        }
    }
}

static const struct rn_store_ops ops = {.apply = apply};

int rn_own_store_init(struct rn_own_store *own, const struct ration_store *user,
                      struct ration_error *error)
{
    if (user->size < sizeof *user || !user->update)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "a store of %zu bytes%s; set size to sizeof(struct ration_store), and "
                            "update",
                            user->size, user->update ? "" : " without update");
    *own = (struct rn_own_store){.store = {.ops = &ops}, .user = *user};
    return 0;
}

/* --- the secret ---------------------------------------------------------------------- */

struct head {
    uint64_t words[4];
    bool is_read, is_foreign;
};

static void compute_head(struct ration_update *u)
{
    struct head *h = u->own;
    struct ration_record *record = u->records;
    uint64_t found[4] = {0};

    h->is_read = true;
    h->is_foreign = false;
    record->changed = record->len == 0;
    if (record->changed) {
        record->data = h->words;
        record->len = sizeof h->words;
        record->idle_at_ns = INT64_MAX;
        return;
    }
    if (record->len == sizeof found)
        memcpy(found, record->data, sizeof found);
    h->is_foreign = found[0] != MAGIC || found[1] != VERSION;
    if (!h->is_foreign)
        memcpy(h->words, found, sizeof found);
}

int rn_own_store_secret(struct rn_own_store *own, const struct rn_hash_key *fresh, int64_t now_ns,
                        struct rn_hash_key *secret, struct ration_error *error)
{
    struct head h = {.words = {MAGIC, VERSION, fresh->k0, fresh->k1}};
    struct ration_record record = {.key = RN_OWN_STORE_HEAD};
    struct ration_update u = {
        .records = &record, .count = 1, .now_ns = now_ns, .compute = compute_head, .own = &h};

    if (own->user.update(own->user.arg, &u) != 0 || !h.is_read)
        return rn_error_set(error, RATION_ESTORE, 0, "the store could not be read and written");
    if (h.is_foreign)
        return rn_error_set(error, RATION_EVERSION, 0,
                            "record 0 of the store is not of version %d; use an empty store",
                            VERSION);
    *secret = (struct rn_hash_key){h.words[2], h.words[3]};
    return 0;
}
