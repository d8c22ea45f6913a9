/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of overrides and bans, kept in step with the journal. enforce.c keeps the client index
 * in step with the list.
 */
#include "limiter/clients/clients.h"

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

static void free_entries(struct rn_map *map)
{
    uint64_t at = 0;

    for (void *entry; (entry = rn_map_next(map, &at)) != NULL;)
        free(entry);
    rn_map_done(map);
}

void rn_clients_done(struct rn_clients *c)
{
    free_entries(&c->overrides);
    free_entries(&c->bans);
    free_entries(&c->deleted);
    rn_journal_done(&c->journal);
    pthread_mutex_destroy(&c->lock);
}

/* --- the journal ----------------------------------------------------------------------------- */

static struct rn_entry *make_entry(const struct rn_clients *c, const struct rn_record *record,
                                   const struct rn_client *client)
{
    struct rn_slice payload = record->payload;
    struct rn_entry *e = malloc(sizeof *e + payload.len);

    if (!e)
        return NULL;
    *e = (struct rn_entry){.identity = rn_client_identity(client, &c->secret),
                           .sequence = record->sequence,
                           .epoch = c->epoch,
                           .expires_ns = INT64_MAX,
                           .made_us = client->made_us,
                           .ban = rn_client_change_is_ban(record->kind),
                           .deleted = rn_client_change_deletes(record->kind),
                           .shared = c->merging,
                           .len = payload.len};
    if (e->deleted)
        e->expires_ns = c->now_ns + RN_CLIENTS_DELETED_NS;
    else if (client->expires_wall_ns != 0)
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

struct rn_entry *rn_clients_known(struct rn_clients *c, uint64_t identity, bool ban)
{
    struct rn_entry *e = rn_map_find(rn_clients_map(c, ban), identity);

    return e ? e : rn_map_find(&c->deleted, identity);
}

static int see_delete(struct ration *r, const struct rn_record *record,
                      const struct rn_client *client, struct rn_entry *known)
{
    struct rn_clients *c = &r->clients;
    struct rn_entry *e = c->sharing ? make_entry(c, record, client) : NULL;

    if (known && !known->deleted)
        rn_clients_drop(r, known);
    if (c->sharing && (!e || rn_clients_remember_deleted(c, e) != 0)) {
        free(e);
        return RATION_ENOMEM;
    }
    return 0;
}

/* A record that is no known change was written by a later version, and is skipped. */
static int see(void *arg, const struct rn_record *record)
{
    struct ration *r = arg;
    struct rn_clients *c = &r->clients;
    struct rn_client client;
    struct rn_entry *known;

    if (record->kind == RN_RECORD_MARK)
        return 0;
    if (record->kind > RN_BAN_DELETE || !rn_client_read(record->payload, &client)) {
        c->undone++;
        return 0;
    }
    known = rn_clients_known(c, rn_client_identity(&client, &c->secret),
                             rn_client_change_is_ban(record->kind));
    if (known && known->sequence == record->sequence) {
        known->epoch = c->epoch;
        return 0;
    }
    if (!c->merging)
        __atomic_store_n(&c->local_changes, c->local_changes + 1, __ATOMIC_RELAXED);
    if (rn_client_change_deletes(record->kind))
        return see_delete(r, record, &client, known);
    struct rn_entry *e = make_entry(c, record, &client);

    if (!e || rn_clients_put(r, e) != 0) {
        free(e);
        return RATION_ENOMEM;
    }
    free(rn_map_remove(&c->deleted, e->identity));
    return 0;
}

/* Reads new records; with `write`, locks the journal for writing. */
static int catch_up(struct ration *r, bool write, struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    const struct rn_journal_reader reader = {restart, see, r};
    uint64_t generation = __atomic_load_n(rn_table_generation(r->table), __ATOMIC_ACQUIRE);
    int code;

    c->undone = 0;
    code = write ? rn_journal_lock(&c->journal, &reader, error)
                 : rn_journal_read(&c->journal, &reader, error);
    c->generation = generation; /* report a failure once, until something changes */
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

static void note_time(struct ration *r, int64_t now_ns)
{
    struct rn_clients *c = &r->clients;

    c->now_ns = rn_limiter_now(r, now_ns);
    c->wall_ns = c->now_ns + rn_table_wall_offset(r->table, c->now_ns);
}

void rn_clients_lock(struct ration *r, int64_t now_ns)
{
    pthread_mutex_lock(&r->clients.lock);
    note_time(r, now_ns);
}

bool rn_clients_try_lock(struct ration *r, int64_t now_ns)
{
    if (pthread_mutex_trylock(&r->clients.lock) != 0)
        return false;
    note_time(r, now_ns);
    return true;
}

/* The lock is held. */
static int begin(struct ration *r, struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    struct ration_error unread = {0};
    int code;

    error = error ? error : &unread;
    code = c->journal.path ? catch_up(r, true, error) : 0;
    if (code == 0 && error->text[0] != '\0')
        c->notice = *error;
    if (code != 0)
        pthread_mutex_unlock(&r->clients.lock);
    return code;
}

int rn_clients_begin(struct ration *r, int64_t now_ns, struct ration_error *error)
{
    if (error)
        *error = (struct ration_error){0};
    rn_clients_lock(r, now_ns);
    return begin(r, error);
}

int rn_clients_try_begin(struct ration *r, int64_t now_ns, struct ration_error *error)
{
    if (error)
        *error = (struct ration_error){0};
    if (!rn_clients_try_lock(r, now_ns))
        return rn_error_set(error, RATION_EBUSY, 0, "another change is being made");
    return begin(r, error);
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
        rn_map_find(rn_clients_map(c, ban), rn_client_identity(client, &c->secret));

    return e && e->expires_ns > c->now_ns ? e : NULL;
}

int rn_clients_room(struct ration *r, const struct rn_client *client, bool ban,
                    struct ration_error *error)
{
    const uint32_t most = ban ? RATION_BANS_MAX : RATION_OVERRIDES_MAX;
    struct rn_map *map = rn_clients_map(&r->clients, ban);

    if (map->live >= most)
        rn_clients_drop_expired(r);
    if (map->live < most || rn_clients_find(&r->clients, client, ban))
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

void rn_clients_read_again(struct rn_clients *c)
{
    c->journal.id = 0;
    c->journal.size = -1;
}

int rn_clients_apply(struct ration *r, struct rn_record *records, size_t n,
                     struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    uint64_t last = c->journal.path ? c->journal.sequence : c->sequence;
    int code;

    for (size_t i = 0; i < n; i++)
        records[i].sequence = last + i + 1;
    code = c->journal.path ? rn_journal_write(&c->journal, records, n, error) : 0;
    if (code != 0)
        return code;
    c->sequence = last + n;
    for (size_t i = 0; i < n && code == 0; i++)
        code = see(r, &records[i]);
    if (code == 0)
        return 0;
    rn_clients_read_again(c); /* it is on disk, and must be here as soon as there is memory */
    return rn_error_set(error, code, 0, "out of memory for overrides and bans");
}

/* A change is later than what it replaces, whatever the clocks of other nodes say: an operator who
 * has seen a change means to replace it. */
int rn_clients_change(struct ration *r, enum rn_client_change kind, const struct rn_client *client,
                      struct ration_error *error)
{
    struct rn_clients *c = &r->clients;
    const struct rn_entry *known =
        rn_clients_known(c, rn_client_identity(client, &c->secret), rn_client_change_is_ban(kind));
    struct rn_client made = *client;
    struct rn_buf payload = {0};
    struct rn_record record = {.kind = kind};
    int code;

    made.made_us = c->wall_ns / 1000;
    if (known && known->made_us >= made.made_us)
        made.made_us = known->made_us + 1;
    rn_client_write(&made, &payload);
    record.payload = rn_buf_slice(&payload);
    code = payload.failed ? rn_error_set(error, RATION_ENOMEM, 0, "out of memory for a record")
                          : rn_clients_apply(r, &record, 1, error);
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
    if (rn_journal_init(&c->journal, path, "overrides and bans") != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for the name of a file");
    rn_clients_lock(r, RATION_NOW);
    code = catch_up(r, false, &notice);
    pthread_mutex_unlock(&c->lock);
    /* Without them banned clients would be admitted, and no one would notice. */
    if (code != 0 && code != RATION_EBUSY)
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
    if (error)
        *error = c->notice;
    c->notice = (struct ration_error){0};
    if (c->journal.path &&
        (c->generation != __atomic_load_n(rn_table_generation(r->table), __ATOMIC_ACQUIRE) ||
         !rn_journal_is_current(&c->journal)))
        code = catch_up(r, false, error);
    if (c->now_ns >= c->next_expiry_ns &&
        (c->last_expiry_ns == INT64_MIN || c->now_ns - c->last_expiry_ns >= EXPIRY_PAUSE_NS))
        rn_clients_drop_expired(r);
    rn_clients_tidy(r);
    if (code == 0) {
        struct ration_error fault;
        int file_fault = rn_table_check_file(r->table, &fault);

        if (file_fault == 0)
            file_fault = rn_usage_check_file(&r->usage, &fault);
        if (file_fault == 0)
            file_fault = rn_reputation_check_file(r, &fault);
        if (file_fault != c->file_fault) { /* a fault of the state file is reported once */
            code = file_fault;
            if (code != 0 && error)
                *error = fault;
        }
        c->file_fault = file_fault;
    }
    pthread_mutex_unlock(&c->lock);
    return code;
}

int ration_clients_refresh(struct ration *r, struct ration_error *error)
{
    return rn_clients_refresh_at(r, RATION_NOW, error);
}
