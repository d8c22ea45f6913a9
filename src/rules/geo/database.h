/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Database files that rules look addresses up in. A process loads a file once, however many rules
 * and attributes use it. Files are read into memory, never mapped: one that is cut short while it
 * is in use does no harm. Any thread may call these functions.
 *
 * A change of the file is noticed by rn_database_refresh, which reads it in a thread of its own, so
 * that nobody waits. Until that is done, and if the new file is damaged, the table that was loaded
 * before stays.
 */
#ifndef RN_RULES_GEO_DATABASE_H
#define RN_RULES_GEO_DATABASE_H

#include "rules/geo/geo_table.h"

struct rn_database;

/* Finds or loads the database, which must have this field. NULL: `error` says why. If it was loaded
 * before, and the file of now is damaged or missing, the former table stays: `error` has a text
 * then, otherwise its text is empty. */
struct rn_database *rn_database_open(const char *path, enum rn_geo_field field,
                                     struct ration_error *error);
void rn_database_close(struct rn_database *database); /* may be NULL */

/* The table of now, for the caller to give back by rn_database_unref_table. */
const struct rn_geo_table *rn_database_ref_table(struct rn_database *database);
void rn_database_unref_table(const struct rn_geo_table *table); /* may be NULL */

enum rn_database_news {
    RN_DATABASE_SAME,
    RN_DATABASE_LOADED, /* there is another table */
    RN_DATABASE_FAILED, /* the file has changed and cannot be used: info.problem; told once */
};

/* Looks whether the file has changed, and starts to read it or ends that. Call it about once a
 * second. Never waits. */
enum rn_database_news rn_database_refresh(struct rn_database *database);

#define RN_DATABASE_PROBLEM 160

struct rn_database_info {
    const char *path; /* lives as long as the database */
    char title[RN_GEO_TITLE];
    uint64_t built_s, networks;
    uint64_t loads, failures;          /* since the process has the database */
    char problem[RN_DATABASE_PROBLEM]; /* of the file of now; empty: none */
};
void rn_database_describe(struct rn_database *database, struct rn_database_info *info);

/* A database as one ruleset uses it. `table` changes while the ruleset is in use: readers load it
 * atomically, and keep it no longer than they keep the ruleset. */
struct rn_geo_source {
    struct rn_geo_source *next;
    struct rn_slice path; /* terminated */
    struct rn_database *database;
    const struct rn_geo_table *table;
};

#endif
