/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of overrides and bans, kept abreast of the journal. How the roster is
 * kept abreast of it is in clients_roster.c.
 */
#include "limiter/clients.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "limiter/limiter.h"

#define SUFFIX ".overrides"
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

/* --- the journal ----------------------------------------------------------------------------- */

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
    struct rn_entry *known = rn_roll_find(rn_clients_roll(c, ban),
                                          rn_client_identity(client, &c->secret)),
                    *e;

    if (known && known->sequence == record->sequence) {
        known->epoch = c->epoch;
        return 0;
    }
    e = make_entry(c, ban, record->sequence, record->payload, client);
    if (!e || rn_clients_put(r, e) != 0) {
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
    e = rn_roll_find(rn_clients_roll(c, ban), rn_client_identity(&client, &c->secret));
    if (e)
        rn_clients_drop(r, e);
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
        rn_clients_drop_unnamed(r);
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

void rn_clients_lock(struct ration *r, int64_t now_ns)
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
    rn_clients_lock(r, now_ns);
    code = r->clients.journal.path ? catch_up(r, true, error) : 0;
    if (code != 0)
        pthread_mutex_unlock(&r->clients.lock);
    return code;
}

void rn_clients_end(struct ration *r, bool changed)
{
    struct rn_clients *c = &r->clients;

    if (changed && c->journal.path) {
        rn_clients_compact(c);
        c->generation = __atomic_add_fetch(rn_table_generation(r->table), 1, __ATOMIC_RELEASE);
    }
    rn_journal_unlock(&c->journal);
    rn_clients_tidy(r);
    pthread_mutex_unlock(&c->lock);
}

struct rn_entry *rn_clients_find(struct rn_clients *c, const struct rn_client *client, bool ban)
{
    struct rn_entry *e =
        rn_roll_find(rn_clients_roll(c, ban), rn_client_identity(client, &c->secret));

    return e && e->expires_ns > c->now_ns ? e : NULL;
}

int rn_clients_room(struct ration *r, const struct rn_client *client, bool ban,
                    struct ration_error *error)
{
    const uint32_t most = ban ? RATION_BANS_MAX : RATION_OVERRIDES_MAX;
    struct rn_roll *roll = rn_clients_roll(&r->clients, ban);

    if (roll->live >= most)
        rn_clients_drop_expired(r);
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
    rn_clients_lock(r, RATION_NOW);
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
    rn_clients_lock(r, now_ns);
    if (c->journal.path &&
        (c->generation != __atomic_load_n(rn_table_generation(r->table), __ATOMIC_ACQUIRE) ||
         !rn_journal_is_current(&c->journal)))
        code = catch_up(r, false, error);
    if (c->now_ns >= c->next_expiry_ns &&
        (c->last_expiry_ns == INT64_MIN || c->now_ns - c->last_expiry_ns >= EXPIRY_PAUSE_NS))
        rn_clients_drop_expired(r);
    rn_clients_tidy(r);
    pthread_mutex_unlock(&c->lock);
    return code;
}

int ration_clients_refresh(struct ration *r, struct ration_error *error)
{
    return rn_clients_refresh_at(r, RATION_NOW, error);
}
