/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/geo/database.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#define TRIES 3 /* of a file that changes while it is read, at start */
#define FILE_MAX (INT64_C(4) << 30)
/* A file that was changed less than this before it was read may change again without another time:
 * it is read once more. */
#define SETTLED_NS (2 * RN_SECOND_NS)

/* What a file looks like from outside. */
struct stamp {
    uint64_t device, inode, size;
    int64_t changed_ns, modified_ns;
};

/* The outcome of reading a file. */
struct reading {
    struct rn_geo_table *table; /* NULL: there is none, for `error`, or the old one is the same */
    bool same;
    bool moved; /* the file changed meanwhile */
    struct stamp stamp;
    struct ration_error error;
};

struct rn_database {
    struct rn_database *next;
    unsigned refs;
    unsigned fields;            /* bits: those that rules use */
    struct rn_geo_table *table; /* NULL: not loaded yet */
    struct stamp seen;          /* of the file that was read last */
    bool unsettled;             /* it was young then */
    bool reading;               /* `reader` runs, or waits to be joined */
    bool done;                  /* atomically: `outcome` is set */
    pthread_t reader;
    unsigned reader_fields; /* what it reads with, */
    uint64_t reader_hash;
    struct reading outcome; /* and what comes of it */
    uint64_t loads, failures;
    char problem[RN_DATABASE_PROBLEM];
    char path[];
};

/* All databases of the process. The lock is of the list, and of all in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rn_database *all;

/* --- files ------------------------------------------------------------------------------ */

static struct stamp stamp_of(const struct stat *is)
{
    return (struct stamp){is->st_dev, is->st_ino, (uint64_t)is->st_size,
                          is->st_ctim.tv_sec * RN_SECOND_NS + is->st_ctim.tv_nsec,
                          is->st_mtim.tv_sec * RN_SECOND_NS + is->st_mtim.tv_nsec};
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* All zero if there is no file. */
static struct stamp look_at(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 ? stamp_of(&is) : (struct stamp){0};
}

/* A look at the end: files of gigabytes that are no databases must not fill the memory. Small ones
 * are read anyway. */
static bool may_be_database(int fd, const struct stat *is)
{
    size_t size = RN_MMDB_END_MAX;
    char *end = is->st_size > (off_t)size ? malloc(size) : NULL;
    ssize_t got = end == NULL ? 0 : pread(fd, end, size, is->st_size - (off_t)size);
    bool may_be = got != (ssize_t)size || rn_mmdb_has_metadata(end, size);

    free(end);
    return may_be;
}

/* The bytes that an open file has; NULL: *error says why. */
static char *read_all(int fd, const struct stat *is, size_t *size, struct ration_error *error)
{
    size_t wanted = (size_t)is->st_size, got = 0;
    char *bytes = NULL;

    if (!may_be_database(fd, is)) {
        rn_error_set(error, RATION_EPARSE, 0, "%s", rn_mmdb_no_metadata);
        return NULL;
    }
    if (is->st_size <= FILE_MAX)
        bytes = malloc(wanted + 1);
    if (bytes == NULL) {
        rn_error_set(error, RATION_ENOMEM, 0, "it has %lld bytes, more than there is memory for",
                     (long long)is->st_size);
        return NULL;
    }
    while (got < wanted) {
        ssize_t n = read(fd, bytes + got, wanted - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rn_error_set(error, RATION_EIO, 0, "reading it failed: %s", strerror(errno));
            free(bytes);
            return NULL;
        }
        if (n == 0) /* it got shorter meanwhile */
            break;
        got += (size_t)n;
    }
    *size = got;
    return bytes;
}

/* Refuses a database that cannot answer what rules ask. */
static bool has_fields(const struct rn_geo_table *table, unsigned fields,
                       struct ration_error *error)
{
    for (unsigned i = 0; i < RN_GEO_FIELDS; i++) {
        if (!(fields >> i & 1) || table->having[i] != 0)
            continue;
        rn_error_set(error, RATION_EPARSE, 0, "no network in it has a%s %s (it is a %s)",
                     i == RN_GEO_ASN || i == RN_GEO_ORG ? "n" : "", rn_geo_table_fields[i],
                     table->title[0] != '\0' ? table->title : "database without a type");
        return false;
    }
    return true;
}

/* Reads a file. `old_hash` is of the table in use, 0: none. Takes no lock. */
static void read_file(const char *path, unsigned fields, uint64_t old_hash, struct reading *out)
{
    char problem[RN_FILE_PROBLEM], *bytes = NULL;
    int fd = rn_file_open(path, problem);
    size_t size = 0;
    struct stat is;

    *out = (struct reading){.table = NULL};
    if (fd < 0) {
        rn_error_set(&out->error, RATION_EIO, 0, "%s", problem);
        return;
    }
    if (fstat(fd, &is) == 0) {
        out->stamp = stamp_of(&is);
        bytes = read_all(fd, &is, &size, &out->error);
    }
    if (bytes != NULL && fstat(fd, &is) == 0) {
        struct stamp now = stamp_of(&is);

        out->moved = !is_same(&now, &out->stamp);
    }
    close(fd);
    out->same = bytes != NULL && old_hash != 0 && rn_geo_table_hash(bytes, size) == old_hash;
    if (bytes != NULL && !out->same)
        out->table = rn_geo_table_new(bytes, size, &out->error);
    free(bytes);
    if (out->table != NULL && !has_fields(out->table, fields, &out->error)) {
        rn_geo_table_free(out->table);
        out->table = NULL;
    }
}

/* --- tables ----------------------------------------------------------------------------- */

static void unref_locked(struct rn_geo_table *table)
{
    if (table != NULL && --table->refs == 0)
        rn_geo_table_free(table);
}

const struct rn_geo_table *rn_database_ref_table(struct rn_database *database)
{
    pthread_mutex_lock(&lock);
    struct rn_geo_table *table = database->table;

    table->refs++;
    pthread_mutex_unlock(&lock);
    return table;
}

void rn_database_unref_table(const struct rn_geo_table *table)
{
    pthread_mutex_lock(&lock);
    unref_locked((struct rn_geo_table *)table);
    pthread_mutex_unlock(&lock);
}

/* Takes what was read, under the lock. */
static enum rn_database_news take(struct rn_database *db, struct reading *r)
{
    db->seen = r->stamp;
    db->unsettled =
        r->table != NULL && rn_clock_read_ns(CLOCK_REALTIME) - r->stamp.changed_ns < SETTLED_NS;
    if (r->table == NULL && r->moved)
        return RN_DATABASE_SAME; /* half written, it seems: the next look sees another stamp */
    if (r->table == NULL && !r->same) {
        db->failures++;
        snprintf(db->problem, sizeof db->problem, "%.*s", (int)sizeof db->problem - 1,
                 r->error.text);
        return RN_DATABASE_FAILED;
    }
    db->problem[0] = '\0';
    if (r->same)
        return RN_DATABASE_SAME;
    db->loads++;
    unref_locked(db->table);
    db->table = r->table;
    return RN_DATABASE_LOADED;
}

/* --- databases -------------------------------------------------------------------------- */

/* The database of a path, with one reference more; NULL: out of memory. */
static struct rn_database *find_or_add(const char *path)
{
    struct rn_database *db = all;

    while (db != NULL && strcmp(db->path, path) != 0)
        db = db->next;
    if (db == NULL) {
        db = calloc(1, sizeof *db + strlen(path) + 1);
        if (db == NULL)
            return NULL;
        memcpy(db->path, path, strlen(path) + 1);
        db->next = all;
        all = db;
    }
    db->refs++;
    return db;
}

struct rn_database *rn_database_open(const char *path, enum rn_geo_field field,
                                     struct ration_error *error)
{
    struct stamp now = look_at(path);
    struct reading read;

    *error = (struct ration_error){.text = ""};
    pthread_mutex_lock(&lock);
    struct rn_database *db = find_or_add(path);

    if (db == NULL) {
        pthread_mutex_unlock(&lock);
        rn_error_set(error, RATION_ENOMEM, 0, "there is not enough memory for it");
        return NULL;
    }
    bool fresh = db->table != NULL && is_same(&now, &db->seen) && db->problem[0] == '\0';
    unsigned fields = db->fields | 1U << field;
    bool good = true;

    if (!fresh) { /* other rules that name this file wait meanwhile, decisions do not */
        uint64_t old = db->table != NULL && db->problem[0] == '\0' ? db->table->hash : 0;

        read_file(path, fields, old, &read);
        for (int i = 1; i < TRIES && read.table == NULL && read.moved; i++)
            read_file(path, fields, old, &read);
        read.moved = false;
        if (take(db, &read) == RN_DATABASE_FAILED)
            *error = read.error;
    }
    good = db->table != NULL && (error->text[0] != '\0' || has_fields(db->table, fields, error)) &&
           db->table->having[field] != 0;
    if (good)
        db->fields = fields;
    pthread_mutex_unlock(&lock);
    if (good)
        return db;
    rn_database_close(db);
    return NULL;
}

void rn_database_close(struct rn_database *db)
{
    if (db == NULL)
        return;
    pthread_mutex_lock(&lock);
    bool last = --db->refs == 0;

    if (last) {
        struct rn_database **at = &all;

        while (*at != db)
            at = &(*at)->next;
        *at = db->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (db->reading) {
        pthread_join(db->reader, NULL);
        rn_geo_table_free(db->outcome.table);
    }
    rn_database_unref_table(db->table);
    free(db);
}

void rn_database_describe(struct rn_database *db, struct rn_database_info *info)
{
    pthread_mutex_lock(&lock);
    *info = (struct rn_database_info){.path = db->path,
                                      .built_s = db->table->built_s,
                                      .networks = db->table->networks,
                                      .loads = db->loads,
                                      .failures = db->failures};
    memcpy(info->title, db->table->title, sizeof info->title);
    memcpy(info->problem, db->problem, sizeof info->problem);
    pthread_mutex_unlock(&lock);
}

/* --- refreshing ------------------------------------------------------------------------- */

/* What the reader needs is not changed before it is joined. */
static void *run_reader(void *arg)
{
    struct rn_database *db = arg;

    read_file(db->path, db->reader_fields, db->reader_hash, &db->outcome);
    __atomic_store_n(&db->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Signals belong to the program's own threads. */
static bool start_reader(struct rn_database *db)
{
    sigset_t every, before;

    sigfillset(&every);
    if (pthread_sigmask(SIG_SETMASK, &every, &before) != 0)
        return false;
    bool started = pthread_create(&db->reader, NULL, run_reader, db) == 0;

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

enum rn_database_news rn_database_refresh(struct rn_database *db)
{
    enum rn_database_news news = RN_DATABASE_SAME;
    struct stamp now = look_at(db->path);

    pthread_mutex_lock(&lock);
    if (db->reading && __atomic_load_n(&db->done, __ATOMIC_ACQUIRE)) {
        pthread_join(db->reader, NULL);
        db->reading = false;
        news = take(db, &db->outcome);
    } else if (!db->reading) {
        bool settled =
            db->unsettled && rn_clock_read_ns(CLOCK_REALTIME) - now.changed_ns >= SETTLED_NS;

        if (!is_same(&now, &db->seen) || settled) {
            db->unsettled = false;
            db->done = false;
            db->reader_fields = db->fields;
            db->reader_hash = db->problem[0] == '\0' ? db->table->hash : 0;
            db->reading = start_reader(db);
        }
    }
    pthread_mutex_unlock(&lock);
    return news;
}
