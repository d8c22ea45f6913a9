/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The databases that rules look addresses up in: replacing those whose files have changed, and
 * telling about them.
 */
#include <stdlib.h>

#include <ration/rules.h>

#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"

static struct ration_database describe(const struct rn_geo_source *source)
{
    struct rn_database_info info;
    struct ration_database database = {.path = source->path.data};

    rn_database_describe(source->database, &info);
    database.built_s = info.built_s;
    database.networks = info.networks;
    database.loads = info.loads;
    database.failures = info.failures;
    rn_slice_copy(database.title, sizeof database.title, rn_slice_of(info.title));
    rn_slice_copy(database.problem, sizeof database.problem, rn_slice_of(info.problem));
    return database;
}

/* Puts the newest tables in place, under the lock of clients, which keeps the book in place. Waits
 * until no decision uses the former ones. */
static void put_in_place(struct ration *r)
{
    struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED), *old = NULL;
    const struct rn_geo_table **former;
    uint32_t count = 0, changed = 0;

    for (struct rn_geo_source *s = book->ruleset->databases; s; s = s->next)
        count++;
    former = calloc(count, sizeof *former);
    struct rn_book *renewed = former ? rn_book_renew(book, book->client_index) : NULL;

    for (struct rn_geo_source *s = book->ruleset->databases; renewed && s; s = s->next) {
        const struct rn_geo_table *table = rn_database_ref_table(s->database);

        former[changed++] = s->table;
        __atomic_store_n(&s->table, table, __ATOMIC_RELEASE);
    }
    if (renewed) {
        pthread_mutex_lock(&r->shelf.lock);
        old = rn_pin_shelf_swap(&r->shelf, &r->stats, renewed);
        book->handed_over = true;
        if (old)
            old->client_index = NULL; /* `renewed` has it */
        rn_book_free(old);
        pthread_mutex_unlock(&r->shelf.lock);
    }
    /* A book that is stuck on the shelf may still be read, and then so may these. */
    for (uint32_t i = 0; i < changed && old; i++)
        rn_database_unref_table(former[i]);
    free(former);
}

void ration_databases_refresh(struct ration *r,
                              void (*see)(void *arg, const struct ration_database *database),
                              void *arg)
{
    bool changed = false;

    pthread_mutex_lock(&r->clients.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    struct rn_geo_source *first = book ? book->ruleset->databases : NULL;

    for (struct rn_geo_source *s = first; s; s = s->next) {
        enum rn_database_news news = rn_database_refresh(s->database);
        const struct rn_geo_table *table = rn_database_ref_table(s->database);

        changed |= table != s->table;
        rn_database_unref_table(table);
        if (news != RN_DATABASE_SAME && see) {
            struct ration_database database = describe(s);

            see(arg, &database);
        }
    }
    if (changed)
        put_in_place(r);
    pthread_mutex_unlock(&r->clients.lock);
}

void ration_databases_each(struct ration *r,
                           int (*see)(void *arg, const struct ration_database *database), void *arg)
{
    pthread_mutex_lock(&r->clients.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    const struct rn_geo_source *s = book ? book->ruleset->databases : NULL;

    for (int stop = 0; s && stop == 0; s = s->next) {
        struct ration_database database = describe(s);

        stop = see(arg, &database);
    }
    pthread_mutex_unlock(&r->clients.lock);
}
