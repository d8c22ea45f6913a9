/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of overrides and bans: kept abreast of the journal, and the roster
 * kept abreast of it.
 */
#include "limiter/clients.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "limiter/limiter.h"
#include "limiter/roster.h"

#define SUFFIX ".overrides"
#define DEAD_MIN 64 /* records that are not worth a new file */
#define EXPIRY_PAUSE_NS INT64_C(1000000000)

int rn_clients_init(struct rn_clients *c)
{
    *c = (struct rn_clients){
        .next_expiry_ns = INT64_MAX, .last_expiry_ns = INT64_MIN, .journal = {.fd = -1}};
    return pthread_mutex_init(&c->lock, NULL) == 0 ? 0 : RATION_ENOMEM;
}

static void free_entries(struct rn_roll *roll)
{
    uint64_t at = 0;

    for (void *entry; (entry = rn_roll_next(roll, &at)) != NULL;)
        free(entry);
    rn_roll_done(roll);
}

void rn_clients_done(struct rn_clients *c)
{
    free_entries(&c->overrides);
    free_entries(&c->bans);
    rn_journal_done(&c->journal);
    pthread_mutex_destroy(&c->lock);
}

static struct rn_book *current_book(struct ration *r)
{
    return __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
}

static struct rn_roll *roll_of(struct rn_clients *c, bool ban)
{
    return ban ? &c->bans : &c->overrides;
}

/* --- rosters ----------------------------------------------------------------------------- */

/* Into the roster, if it can be; RATION_ENOMEM is the only failure. */
static int enter(struct rn_roster *roster, const struct rn_book *book, struct rn_entry *e)
{
    struct rn_client client;
    uint64_t hash = 0;
    int code;

    if (!rn_client_read((struct rn_slice){e->payload, e->len}, &client))
        return e->active = false, 0;
    code = e->ban ? rn_ban_enter(roster, book, &client, e->expires_ns, &hash)
                  : rn_override_enter(roster, book, &client, e->expires_ns, &hash);
    if (code == RATION_ENOMEM)
        return code;
    e->active = code == 0;
    e->hash = hash;
    return 0;
}

static void leave(struct rn_roster *roster, const struct rn_entry *e)
{
    if (!roster || !e->active)
        return;
    if (e->ban)
        rn_ban_leave(roster, e->hash);
    else
        rn_override_leave(roster, e->hash);
}

static int enter_all(struct rn_roll *roll, struct rn_roster *roster, const struct rn_book *book)
{
    uint64_t at = 0;

    for (struct rn_entry *e; (e = rn_roll_next(roll, &at)) != NULL;)
        if (enter(roster, book, e) != 0)
            return RATION_ENOMEM;
    return 0;
}

/* A roster of all entries for a book. NULL: out of memory. */
static struct rn_roster *make_roster(struct rn_clients *c, const struct rn_book *book)
{
    struct rn_roster *roster = rn_roster_new(book);

    if (!roster || enter_all(&c->overrides, roster, book) != 0 ||
        enter_all(&c->bans, roster, book) != 0) {
        rn_roster_free(roster);
        c->stale = true;
        return NULL;
    }
    rn_roll_trim(&roster->overrides);
    rn_roll_trim(&roster->bans);
    return roster;
}

int rn_clients_fill(struct rn_clients *c, struct rn_book *book)
{
    if (c->overrides.live == 0 && c->bans.live == 0)
        return 0;
    book->roster = make_roster(c, book);
    return book->roster ? 0 : RATION_ENOMEM;
}

/* Swaps the book for `renewed`, which is the same but for the roster, or the
 * first one. */
static void put_in_place(struct ration *r, struct rn_book *renewed)
{
    struct rn_book *current = current_book(r), *old;

    pthread_mutex_lock(&r->shelf.lock);
    old = rn_shelf_swap(&r->shelf, &r->stats, renewed);
    if (current)
        current->shell = true; /* also if it is stuck on the shelf */
    rn_book_free(old);
    pthread_mutex_unlock(&r->shelf.lock);
}

/* A fresh roster for the current book. What is out of memory stays as it is. */
static void renew_roster(struct ration *r)
{
    struct rn_book *book = current_book(r), *renewed;
    struct rn_roster *roster = make_roster(&r->clients, book);

    renewed = roster ? rn_book_renew(book, roster) : NULL;
    if (!renewed) {
        rn_roster_free(roster);
        return;
    }
    put_in_place(r, renewed);
    r->clients.stale = false;
}

static struct rn_book *empty_book(struct ration *r)
{
    struct rn_report report;
    struct rn_builder builder;
    struct rn_ruleset *ruleset = NULL;
    struct rn_book *book;

    rn_report_init(&report);
    if (rn_builder_init(&builder, &report)) {
        ruleset = rn_builder_finish(&builder);
        rn_builder_done(&builder);
    }
    rn_report_done(&report);
    book = ruleset ? rn_book_new(ruleset, &r->secret, NULL, 0) : NULL;
    if (!book)
        rn_ruleset_free(ruleset);
    return book;
}

int rn_clients_roster(struct ration *r, bool need_book, struct rn_book **book,
                      struct rn_roster **roster, struct ration_error *error)
{
    *book = current_book(r);
    *roster = NULL;
    if (!*book && need_book) {
        *book = empty_book(r);
        if (*book)
            put_in_place(r, *book);
    }
    if (*book && !(*roster = (*book)->roster)) {
        *roster = make_roster(&r->clients, *book);
        __atomic_store_n(&(*book)->roster, *roster, __ATOMIC_RELEASE);
    }
    if ((!*book && !need_book) || *roster)
        return 0;
    return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for overrides and bans");
}

/* --- entries ------------------------------------------------------------------------------ */

static struct rn_entry *make_entry(const struct rn_clients *c, bool ban, uint64_t sequence,
                                   struct rn_slice payload, const struct rn_client *client)
{
    struct rn_entry *e = malloc(sizeof *e + payload.len);

    if (!e)
        return NULL;
    *e = (struct rn_entry){.identity = rn_client_identity(client, &c->secret),
                           .sequence = sequence,
                           .epoch = c->epoch,
                           .expires_ns = INT64_MAX,
                           .ban = ban,
                           .len = payload.len};
    if (client->expires_wall_ns != 0)
        e->expires_ns = client->expires_wall_ns - (c->wall_ns - c->now_ns);
    memcpy(e->payload, payload.data, payload.len);
    return e;
}

/* Takes the place of one of the same identity. */
static int put_entry(struct ration *r, struct rn_entry *e)
{
    struct rn_clients *c = &r->clients;
    struct rn_roll *roll = roll_of(c, e->ban);
    struct rn_book *book;
    struct rn_roster *roster;
    int code = rn_clients_roster(r, e->ban, &book, &roster, NULL);

    if (code != 0 || !rn_roll_reserve(roll))
        return RATION_ENOMEM;
    rn_roll_trim(roll);
    if (roster && enter(roster, book, e) != 0)
        return RATION_ENOMEM;
    struct rn_entry *before = rn_roll_put(roll, e->identity, e);

    if (before && (!e->active || before->hash != e->hash))
        leave(roster, before);
    free(before);
    if (e->expires_ns < c->next_expiry_ns)
        c->next_expiry_ns = e->expires_ns;
    return 0;
}

static void drop_entry(struct ration *r, struct rn_entry *e)
{
    const struct rn_book *book = current_book(r);

    rn_roll_remove(roll_of(&r->clients, e->ban), e->identity);
    leave(book ? book->roster : NULL, e);
    free(e);
}

/* Those that have expired; or, after a reading of a whole journal, that it does
 * not name. */
static void drop_some(struct ration *r, struct rn_roll *roll, bool expired)
{
    struct rn_clients *c = &r->clients;
    uint64_t at = 0;

    for (struct rn_entry *e; (e = rn_roll_next(roll, &at)) != NULL;) {
        if (expired ? e->expires_ns <= c->now_ns : e->epoch != c->epoch)
            drop_entry(r, e);
        else if (e->expires_ns < c->next_expiry_ns)
            c->next_expiry_ns = e->expires_ns;
    }
}

static void drop_expired(struct ration *r)
{
    struct rn_clients *c = &r->clients;

    c->next_expiry_ns = INT64_MAX;
    c->last_expiry_ns = c->now_ns;
    drop_some(r, &c->overrides, true);
    drop_some(r, &c->bans, true);
}

/* --- the journal ----------------------------------------------------------------------------- */

static void restart(void *arg)
{
    struct ration *r = arg;

    r->clients.epoch++;
    r->clients.reread = true;
}

static int see_set(struct ration *r, const struct rn_record *record, const struct rn_client *client,
                   bool ban)
{
    struct rn_clients *c = &r->clients;
    struct rn_entry *known = rn_roll_find(roll_of(c, ban), rn_client_identity(client, &c->secret)),
                    *e;

    if (known && known->sequence == record->sequence) {
        known->epoch = c->epoch;
        return 0;
    }
    e = make_entry(c, ban, record->sequence, record->payload, client);
    if (!e || put_entry(r, e) != 0) {
        free(e);
        return RATION_ENOMEM;
    }
    return 0;
}

/* What is no change that we know was written by a later version: left out. */
static int see(void *arg, const struct rn_record *record)
{
    struct ration *r = arg;
    struct rn_clients *c = &r->clients;
    bool ban = record->kind == RN_BAN_SET || record->kind == RN_BAN_DELETE;
    struct rn_client client;
    struct rn_entry *e;

    if (record->kind == RN_RECORD_MARK)
        return 0;
    if (record->kind > RN_BAN_DELETE || !rn_client_read(record->payload, &client)) {
        c->undone++;
        return 0;
    }
    if (record->kind == RN_OVERRIDE_SET || record->kind == RN_BAN_SET)
        return see_set(r, record, &client, ban);
    e = rn_roll_find(roll_of(c, ban), rn_client_identity(&client, &c->secret));
    if (e)
        drop_entry(r, e);
    return 0;
}

/* Reads, for writing or not. */
static int catch_up(struct ration *r, bool write, struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    const struct rn_journal_reader reader = {restart, see, r};
    uint64_t generation = __atomic_load_n(rn_table_generation(r->table), __ATOMIC_ACQUIRE);
    int code;

    c->undone = 0;
    code = write ? rn_journal_lock(&c->journal, &reader, error)
                 : rn_journal_read(&c->journal, &reader, error);
    c->generation = generation; /* a failure is told once, until something changes */
    if (code != 0)
        return code;
    if (c->reread) {
        drop_some(r, &c->overrides, false);
        drop_some(r, &c->bans, false);
        c->reread = false;
    }
    if (c->journal.sequence > c->sequence)
        c->sequence = c->journal.sequence;
    if (c->undone != 0 && error && error->text[0] == '\0')
        rn_error_set(error, 0, 0, "\"%s\": %" PRIu64 " records of a later version were left out",
                     c->journal.path, c->undone);
    return 0;
}

/* --- a change -------------------------------------------------------------------------------- */

static void lock(struct ration *r, int64_t now_ns)
{
    struct rn_clients *c = &r->clients;

    pthread_mutex_lock(&c->lock);
    c->now_ns = rn_limiter_now(r, now_ns);
    c->wall_ns = c->now_ns + rn_table_wall_offset(r->table, c->now_ns);
}

int rn_clients_begin(struct ration *r, int64_t now_ns, struct ration_error *error)
{
    int code;

    if (error)
        *error = (struct ration_error){0};
    lock(r, now_ns);
    code = r->clients.journal.path ? catch_up(r, true, error) : 0;
    if (code != 0)
        pthread_mutex_unlock(&r->clients.lock);
    return code;
}

static int compare_sequences(const void *left, const void *right)
{
    const struct rn_entry *a = *(const struct rn_entry *const *)left;
    const struct rn_entry *b = *(const struct rn_entry *const *)right;

    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static size_t gather(const struct rn_roll *roll, int64_t now_ns, const struct rn_entry **out)
{
    uint64_t at = 0;
    size_t count = 0;

    for (const struct rn_entry *e; (e = rn_roll_next(roll, &at)) != NULL;)
        if (e->expires_ns > now_ns)
            out[count++] = e;
    return count;
}

struct walk {
    const struct rn_entry **entries;
    size_t at, count;
};

static bool next_record(void *arg, struct rn_record *record)
{
    struct walk *w = arg;

    if (w->at == w->count)
        return false;
    const struct rn_entry *e = w->entries[w->at++];

    *record = (struct rn_record){
        e->ban ? RN_BAN_SET : RN_OVERRIDE_SET, e->sequence, {e->payload, e->len}};
    return true;
}

/* Writes the journal anew if more than half of it is history. Should that fail,
 * it stays as it is. */
static void compact(struct rn_clients *c)
{
    uint64_t live = (uint64_t)c->overrides.live + c->bans.live;
    struct walk w = {.count = 0};

    if (c->journal.records <= 2 * live + DEAD_MIN)
        return;
    w.entries = calloc(live + 1, sizeof(struct rn_entry *));
    if (!w.entries)
        return;
    w.count = gather(&c->overrides, c->now_ns, w.entries);
    w.count += gather(&c->bans, c->now_ns, w.entries + w.count);
    qsort(w.entries, w.count, sizeof(struct rn_entry *), compare_sequences);
    rn_journal_rewrite(&c->journal, next_record, &w, NULL);
    free(w.entries);
}

static void tidy(struct ration *r)
{
    const struct rn_book *book = current_book(r);

    if (book && (r->clients.stale || (book->roster && rn_roster_is_worn(book->roster))))
        renew_roster(r);
}

void rn_clients_end(struct ration *r, bool changed)
{
    struct rn_clients *c = &r->clients;

    if (changed && c->journal.path) {
        compact(c);
        c->generation = __atomic_add_fetch(rn_table_generation(r->table), 1, __ATOMIC_RELEASE);
    }
    rn_journal_unlock(&c->journal);
    tidy(r);
    pthread_mutex_unlock(&c->lock);
}

struct rn_entry *rn_clients_find(struct rn_clients *c, const struct rn_client *client, bool ban)
{
    struct rn_entry *e = rn_roll_find(roll_of(c, ban), rn_client_identity(client, &c->secret));

    return e && e->expires_ns > c->now_ns ? e : NULL;
}

int rn_clients_room(struct ration *r, const struct rn_client *client, bool ban,
                    struct ration_error *error)
{
    const uint32_t most = ban ? RATION_BANS_MAX : RATION_OVERRIDES_MAX;
    struct rn_roll *roll = roll_of(&r->clients, ban);

    if (roll->live >= most)
        drop_expired(r);
    if (roll->live < most || rn_clients_find(&r->clients, client, ban))
        return 0;
    return rn_error_set(error, RATION_EFULL, 0,
                        "%" PRIu32 " %s are set, which is the most; delete some", most,
                        ban ? "bans" : "overrides");
}

int rn_clients_expiry(const struct rn_clients *c, int64_t expires_ns, struct rn_client *client,
                      struct ration_error *error)
{
    if (expires_ns < 0 || expires_ns > RATION_EXPIRY_MAX_NS)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "it would expire in %" PRId64 " ns; give 0 for never, or at most ten "
                            "years",
                            expires_ns);
    client->expires_wall_ns = expires_ns == 0 ? 0 : c->wall_ns + expires_ns;
    return 0;
}

static int apply(struct ration *r, enum rn_client_change kind, struct rn_slice payload,
                 struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    struct rn_record record = {.kind = kind, .payload = payload};
    int code = c->journal.path ? rn_journal_write(&c->journal, kind, payload, error) : 0;

    if (code != 0)
        return code;
    record.sequence = c->sequence = c->journal.path ? c->journal.sequence : c->sequence + 1;
    code = see(r, &record);
    if (code == 0)
        return 0;
    /* It is on the disk and must be here, too: as soon as there is memory. */
    c->journal.id = 0;
    c->journal.size = -1;
    return rn_error_set(error, code, 0, "out of memory for overrides and bans");
}

int rn_clients_change(struct ration *r, enum rn_client_change kind, const struct rn_client *client,
                      struct ration_error *error)
{
    struct rn_buf payload = {0};
    int code;

    rn_client_write(client, &payload);
    code = payload.failed ? rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a record")
                          : apply(r, kind, rn_buf_slice(&payload), error);
    rn_buf_done(&payload);
    return code;
}

/* --- everything ------------------------------------------------------------------------------ */

int rn_clients_open(struct ration *r, const char *state_path, struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    char path[PATH_MAX + sizeof SUFFIX];
    struct ration_error notice = {0};
    int code;

    c->secret = r->secret;
    if (!state_path)
        return 0;
    if (!realpath(state_path, path))
        return rn_error_set(error, RATION_EIO, 0, "state file \"%s\" has gone", state_path);
    memcpy(path + strlen(path), SUFFIX, sizeof SUFFIX);
    if (rn_journal_init(&c->journal, path) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for the name of a file");
    lock(r, RATION_NOW);
    code = catch_up(r, false, &notice);
    pthread_mutex_unlock(&c->lock);
    if (code == RATION_ENOMEM)
        return rn_error_set(error, code, 0, "%s", notice.text);
    if (notice.text[0] != '\0') {
        size_t len = strlen(error->text);

        snprintf(error->text + len, sizeof error->text - len, "%s%s", len ? "; " : "", notice.text);
    }
    return 0;
}

int rn_clients_refresh_at(struct ration *r, int64_t now_ns, struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    int code = 0;

    if (error)
        *error = (struct ration_error){0};
    lock(r, now_ns);
    if (c->journal.path &&
        (c->generation != __atomic_load_n(rn_table_generation(r->table), __ATOMIC_ACQUIRE) ||
         !rn_journal_is_current(&c->journal)))
        code = catch_up(r, false, error);
    if (c->now_ns >= c->next_expiry_ns &&
        (c->last_expiry_ns == INT64_MIN || c->now_ns - c->last_expiry_ns >= EXPIRY_PAUSE_NS))
        drop_expired(r);
    tidy(r);
    pthread_mutex_unlock(&c->lock);
    return code;
}

int ration_clients_refresh(struct ration *r, struct ration_error *error)
{
    return rn_clients_refresh_at(r, RATION_NOW, error);
}

/* --- lists -------------------------------------------------------------------------------------
 */

static int copy_rows(struct rn_clients *c, bool ban, struct rn_clients_list *list)
{
    struct rn_roll *roll = roll_of(c, ban);
    const struct rn_entry **entries = calloc((size_t)roll->live + 1, sizeof(struct rn_entry *));

    list->rows = calloc((size_t)roll->live + 1, sizeof *list->rows);
    if (!entries || !list->rows)
        return free(entries), RATION_ENOMEM;
    list->count = gather(roll, c->now_ns, entries);
    qsort(entries, list->count, sizeof(struct rn_entry *), compare_sequences);
    for (size_t i = 0; i < list->count; i++) {
        const struct rn_entry *e = entries[i];

        list->rows[i] = (struct rn_clients_row){
            .sequence = e->sequence,
            .expires_ns = e->expires_ns == INT64_MAX ? 0 : e->expires_ns - c->now_ns,
            .active = e->active,
            .at = list->payloads.len,
            .len = e->len};
        rn_buf_put(&list->payloads, e->payload, e->len);
    }
    free(entries);
    return list->payloads.failed ? RATION_ENOMEM : 0;
}

int rn_clients_list(struct ration *r, bool ban, int64_t now_ns, struct rn_clients_list *list)
{
    int code;

    *list = (struct rn_clients_list){.count = 0};
    lock(r, now_ns);
    code = copy_rows(&r->clients, ban, list);
    pthread_mutex_unlock(&r->clients.lock);
    return code;
}

void rn_clients_list_done(struct rn_clients_list *list)
{
    free(list->rows);
    rn_buf_done(&list->payloads);
}
