/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Database queries of several tenants, each within its share of the work. A tenant that asks for
 * too much is refused before the database hears of it, so the others do not wait for it.
 *
 *     build/examples/tenants shop.db '200 per second burst 500' <<END
 *     alice SELECT count(*) FROM orders
 *     bob SELECT * FROM orders a, orders b, orders c
 *     END
 *
 * A query costs what it made SQLite do: one unit for each 1000 steps of its virtual machine, which
 * is the same on every machine and at every load. That is known afterwards only. So each query
 * reserves what most queries cost, and commit() settles: what was not used comes back, what was
 * used beyond it is owed. A tenant in debt is refused until its rate has paid for it. A single
 * query is stopped after QUERY_MOST.
 *
 * With threads: share the limiter, give each thread a connection of its own to the database.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include <ration/ration.h>

#define MS_NS INT64_C(1000000)
#define QUERY_TIMEOUT_NS (INT64_C(60) * 1000 * MS_NS) /* longer than a query takes */

enum {
    STEPS_OF_UNIT = 1000,
    QUERY_USUAL = 5,  /* units; most queries cost less */
    QUERY_MOST = 1000 /* units; at most the burst: a debt is never larger than that */
};

struct service {
    struct ration *limiter; /* has one limit: of a tenant's work */
    sqlite3 *db;
    uint64_t used; /* units, by the query that runs */
};

/* SQLite calls this after every STEPS_OF_UNIT steps. Not 0: stop the query. */
static int count_work(void *arg)
{
    struct service *s = arg;

    return ++s->used >= QUERY_MOST;
}

/* Runs a query to its end, and returns how many rows it had, or -1. */
static int64_t run_query(struct service *s, const char *sql)
{
    sqlite3_stmt *query = NULL;
    int64_t rows = 0;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &query, NULL);

    if (code == SQLITE_OK && !query) /* nothing but a comment */
        return 0;
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(query);
        rows += code == SQLITE_ROW;
    }
    sqlite3_finalize(query);
    return code == SQLITE_DONE ? rows : -1;
}

/* One query of a tenant. Returns 0 if it was decided, or a RATION_E*. */
static int ask(struct service *s, const char *tenant, const char *sql)
{
    struct ration_charge c = {
        .limit = 0, .key = tenant, .key_len = strlen(tenant), .cost = QUERY_USUAL};
    struct ration_decision d;
    uint64_t hold;
    int failed = ration_reserve(s->limiter, &c, 1, QUERY_TIMEOUT_NS, RATION_NOW, &hold, &d);

    if (failed)
        return failed;
    if (!d.allowed) {
        printf("%s refused, again in %" PRId64 " ms\n", tenant,
               (d.verdict.retry_after_ns + MS_NS - 1) / MS_NS);
        return 0;
    }
    s->used = 0;
    int64_t rows = run_query(s, sql);
    /* A query that failed or was stopped has made the database work, too. */
    uint64_t used = s->used + 1; /* a unit that has begun counts */
    failed = ration_commit(s->limiter, hold, &c, 1, &used, RATION_NOW);
    if (rows >= 0)
        printf("%s rows=%" PRId64 " cost=%" PRIu64 "\n", tenant, rows, used);
    else
        printf("%s failed: %s cost=%" PRIu64 "\n", tenant, sqlite3_errmsg(s->db), used);
    return failed;
}

/* Queries from standard input: a tenant and SQL on each line. */
static int ask_all(struct service *s)
{
    char *line = NULL;
    size_t size = 0;
    int failed = 0;

    while (!failed && getline(&line, &size, stdin) > 0) {
        char *sql = strchr(line, ' ');

        if (!sql)
            continue;
        *sql = '\0';
        failed = ask(s, line, sql + 1);
        fflush(stdout);
    }
    free(line);
    return failed;
}

static int open_limiter(const char *text, struct ration **out)
{
    struct ration_named limit = {.name = "database"};
    struct ration_error error = {0};
    int failed = ration_limit_parse(text, strlen(text), &limit.limit, &error);

    if (!failed)
        failed =
            ration_open(&(struct ration_options){.limits = &limit, .limit_count = 1}, out, &error);
    if (failed)
        fprintf(stderr, "tenants: %s\n", error.text);
    return failed;
}

int main(int argc, char **argv)
{
    struct service s = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: tenants DATABASE LIMIT < QUERIES\n");
        return 2;
    }
    if (open_limiter(argv[2], &s.limiter) != 0)
        return EXIT_FAILURE;
    if (sqlite3_open(argv[1], &s.db) != SQLITE_OK) {
        fprintf(stderr, "tenants: %s\n", sqlite3_errmsg(s.db));
        sqlite3_close(s.db);
        ration_close(s.limiter);
        return EXIT_FAILURE;
    }
    sqlite3_busy_timeout(s.db, 1000);
    sqlite3_progress_handler(s.db, STEPS_OF_UNIT, count_work, &s);
    int failed = ask_all(&s);

    if (failed)
        fprintf(stderr, "tenants: %s\n", ration_error_text(failed));
    sqlite3_close(s.db);
    ration_close(s.limiter);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
