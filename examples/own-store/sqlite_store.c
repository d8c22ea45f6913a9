/* SPDX-License-Identifier: Apache-2.0 */
#include "sqlite_store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

enum { BEGIN, FIND, PUT, DELETE, CLEAN, COMMIT, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE", /* one writer at a time, from the first read on */
    [FIND] = "SELECT state FROM limits WHERE key = ?1",
    [PUT] = "INSERT INTO limits VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE "
            "SET state = ?2, idle_at = ?3",
    [DELETE] = "DELETE FROM limits WHERE key = ?1",
    [CLEAN] = "DELETE FROM limits WHERE key IN "
              "(SELECT key FROM limits WHERE idle_at < ?1 LIMIT 4)",
    [COMMIT] = "COMMIT",
};

/* One connection, which threads share. */
struct sqlite_store {
    pthread_mutex_t lock;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int wait_ms;
};

/* WAL and synchronous NORMAL: a commit is there after kill -9, and after a power cut perhaps not
 * the last ones. */
static const char schema[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                             "CREATE TABLE IF NOT EXISTS limits (key INTEGER PRIMARY KEY,"
                             " state BLOB NOT NULL, idle_at INTEGER NOT NULL);"
                             "CREATE INDEX IF NOT EXISTS idle ON limits (idle_at);";

/* Of processes that make a new file at the same time, SQLite tells all but one that it is busy,
 * without a wait: two that wait for each other could wait for ever. So ask again, for some seconds.
 */
static bool make_tables(sqlite3 *db)
{
    int code = SQLITE_BUSY;

    sqlite3_busy_timeout(db, 50);
    for (int i = 0; code == SQLITE_BUSY && i < 100; i++) {
        if (i > 0)
            sqlite3_sleep(10);
        code = sqlite3_exec(db, schema, NULL, NULL, NULL);
    }
    return code == SQLITE_OK;
}

struct sqlite_store *sqlite_store_open(const char *path, int wait_ms)
{
    struct sqlite_store *s = calloc(1, sizeof *s);
    bool ok;

    if (!s)
        return NULL;
    s->wait_ms = wait_ms;
    pthread_mutex_init(&s->lock, NULL);
    ok = sqlite3_open(path, &s->db) == SQLITE_OK && make_tables(s->db);
    for (int i = 0; i < STATEMENTS && ok; i++)
        ok = sqlite3_prepare_v2(s->db, texts[i], -1, &s->statements[i], NULL) == SQLITE_OK;
    if (ok && sqlite3_busy_timeout(s->db, wait_ms) == SQLITE_OK)
        return s;
    sqlite_store_close(s);
    return NULL;
}

void sqlite_store_close(struct sqlite_store *s)
{
    if (!s)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Runs a statement that returns no rows. */
static bool run(sqlite3_stmt *statement)
{
    bool ok = sqlite3_step(statement) == SQLITE_DONE;

    return sqlite3_reset(statement) == SQLITE_OK && ok;
}

/* The bytes belong to SQLite only until the next step: keep a copy. */
static bool find(struct sqlite_store *s, struct ration_record *record, void **copy)
{
    sqlite3_stmt *statement = s->statements[FIND];
    int code;

    sqlite3_bind_int64(statement, 1, (sqlite3_int64)record->key);
    code = sqlite3_step(statement);
    record->len = 0;
    if (code == SQLITE_ROW) {
        size_t len = (size_t)sqlite3_column_bytes(statement, 0);

        *copy = malloc(len + 1);
        if (*copy) {
            const unsigned char *bytes = sqlite3_column_blob(statement, 0);

            for (size_t i = 0; i < len; i++)
                ((unsigned char *)*copy)[i] = bytes[i];
            record->data = *copy;
            record->len = len;
        }
    }
    sqlite3_reset(statement);
    return code == SQLITE_DONE || (code == SQLITE_ROW && *copy);
}

static bool put(struct sqlite_store *s, const struct ration_record *record)
{
    sqlite3_stmt *statement = s->statements[record->len == 0 ? DELETE : PUT];

    sqlite3_bind_int64(statement, 1, (sqlite3_int64)record->key);
    if (record->len == 0)
        return run(statement);
    sqlite3_bind_blob(statement, 2, record->data, (int)record->len, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, record->idle_at_ns);
    return run(statement);
}

/* Each update that writes also deletes a few records that are as good as none. */
static bool clean(struct sqlite_store *s, int64_t now_ns)
{
    sqlite3_bind_int64(s->statements[CLEAN], 1, now_ns);
    return run(s->statements[CLEAN]);
}

static bool change(struct sqlite_store *s, struct ration_update *u)
{
    void *copies[RATION_UPDATE_MAX] = {NULL};
    bool ok = true, wrote = false;

    for (size_t i = 0; i < u->count && ok; i++)
        ok = find(s, &u->records[i], &copies[i]);
    if (ok)
        u->compute(u);
    for (size_t i = 0; i < u->count && ok; i++) {
        if (!u->records[i].changed)
            continue;
        ok = put(s, &u->records[i]);
        wrote = true;
    }
    for (size_t i = 0; i < u->count; i++)
        free(copies[i]);
    return ok && (!wrote || clean(s, u->now_ns));
}

/* Threads of this process wait for the mutex as long as for a lock of the file. */
static int update(void *arg, struct ration_update *u)
{
    struct sqlite_store *s = arg;
    struct timespec until;
    bool ok = false;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += s->wait_ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_timedlock(&s->lock, &until) != 0)
        return -1;
    if (run(s->statements[BEGIN])) {
        ok = change(s, u) && run(s->statements[COMMIT]);
        if (!ok)
            sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    pthread_mutex_unlock(&s->lock);
    return ok ? 0 : -1;
}

struct ration_store sqlite_store_ops(struct sqlite_store *s)
{
    return (struct ration_store){.size = sizeof(struct ration_store), .arg = s, .update = update};
}
