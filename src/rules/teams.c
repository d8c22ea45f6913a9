/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files below some paths, and finds the team of each. */
#include "rules/teams.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rules/yaml/document.h"

#define ROOT 0
#define TEAM_NAME_MAX 31 /* so that half of a limit's name is left */

struct reader {
    struct rn_teams *teams;
    struct rn_report *report;
    char *folder;        /* the real path of the directory being read; NULL: a single file */
    uint32_t file_count; /* of all teams */
    bool failed;         /* out of memory */
};

/* --- teams ------------------------------------------------------------------------- */

static struct rn_teams *make_teams(void)
{
    struct rn_teams *teams = calloc(1, sizeof *teams);

    if (teams != NULL && (teams->items = calloc(1, sizeof *teams->items)) == NULL) {
        free(teams);
        return NULL;
    }
    if (teams != NULL) {
        teams->count = 1;
        teams->items[ROOT].name = RN_SLICE("");
    }
    return teams;
}

static void drop_files(struct rn_team *team)
{
    free(team->files);
    team->files = NULL;
    team->file_count = 0;
}

void rn_teams_free(struct rn_teams *teams)
{
    if (teams == NULL)
        return;
    for (uint32_t i = 0; i < teams->count; i++) {
        drop_files(&teams->items[i]);
        rn_arena_done(&teams->items[i].arena);
    }
    free(teams->items);
    free(teams);
}

const struct rn_team *rn_teams_find(const struct rn_teams *teams, struct rn_slice name)
{
    for (uint32_t i = 0; i < teams->count; i++)
        if (rn_slice_equal(teams->items[i].name, name))
            return &teams->items[i];
    return NULL;
}

/* Adds a file with copies of its texts. */
static bool add_file(struct rn_team *team, struct rn_team_file file)
{
    struct rn_team_file *files =
        reallocarray(team->files, (size_t)team->file_count + 1, sizeof *files);
    struct rn_slice *other = file.problem.data != NULL ? &file.problem : &file.text;

    if (files == NULL)
        return false;
    team->files = files;
    file.path = rn_arena_dup(&team->arena, file.path);
    *other = rn_arena_dup(&team->arena, *other);
    files[team->file_count] = file;
    team->file_count += file.path.data != NULL && other->data != NULL;
    return file.path.data != NULL && other->data != NULL;
}

bool rn_teams_keep(struct rn_team *team, const struct rn_team *former)
{
    bool ok = true;

    drop_files(team);
    team->kept = true;
    for (uint32_t i = 0; ok && former != NULL && i < former->file_count; i++) {
        struct rn_team_file copy = former->files[i];
        char *path = NULL;

        /* The file's text has changed since, and messages must say so. */
        if (asprintf(&path, "%s%s", copy.path.data, former->kept ? "" : " (former version)") < 0)
            return false;
        copy.path = rn_slice_of(path);
        ok = add_file(team, copy);
        free(path);
    }
    return ok;
}

void rn_teams_drop_root(struct rn_teams *teams)
{
    drop_files(&teams->items[ROOT]);
    rn_arena_done(&teams->items[ROOT].arena);
}

struct rn_teams *rn_teams_of_text(struct rn_slice name, struct rn_slice text)
{
    struct rn_teams *teams = make_teams();

    if (teams != NULL &&
        !add_file(&teams->items[ROOT], (struct rn_team_file){.path = name, .text = text})) {
        rn_teams_free(teams);
        return NULL;
    }
    return teams;
}

/* --- files ------------------------------------------------------------------------- */

static void add_problem(struct reader *r, uint32_t team, const char *path, const char *problem)
{
    struct rn_team_file file = {.path = rn_slice_of(path), .problem = rn_slice_of(problem)};

    r->failed |= !add_file(&r->teams->items[team], file);
    r->file_count++;
}

static void read_file(struct reader *r, uint32_t team, const char *path)
{
    char reason[RN_FILE_PROBLEM], problem[RN_FILE_PROBLEM + 32];
    struct rn_team_file file = {.path = rn_slice_of(path)};
    char *bytes;

    if (!rn_document_read(path, r->folder, &bytes, &file.text.len, reason)) {
        snprintf(problem, sizeof problem, "cannot be read: %s", reason);
        add_problem(r, team, path, problem);
        return;
    }
    file.text.data = bytes;
    r->failed |= !add_file(&r->teams->items[team], file);
    r->file_count++;
    free(bytes);
}

/* --- directories ------------------------------------------------------------------- */

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* By bytes, in any locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The index of a team, which is added if it is new. */
static uint32_t find_team(struct reader *r, const char *name)
{
    const struct rn_team *known = rn_teams_find(r->teams, rn_slice_of(name));
    struct rn_team *items, *team;

    if (known != NULL)
        return (uint32_t)(known - r->teams->items);
    items = reallocarray(r->teams->items, (size_t)r->teams->count + 1, sizeof *items);
    if (items == NULL) {
        r->failed = true;
        return ROOT;
    }
    r->teams->items = items;
    team = &items[r->teams->count++];
    *team = (struct rn_team){.errors = 0};
    team->name = rn_arena_dup(&team->arena, rn_slice_of(name));
    r->failed |= team->name.data == NULL;
    return r->teams->count - 1;
}

static void read_folder(struct reader *r, uint32_t team, const char *path);

/* A team's name is a prefix: attributes have no capitals, a dot would end it, and header.NAME is a
 * header. */
static void read_team(struct reader *r, const char *path, const char *name)
{
    uint32_t team = find_team(r, name);
    size_t len = strlen(name);
    bool good = len > 0 && len <= TEAM_NAME_MAX && strcmp(name, "header") != 0;
    char problem[256];

    for (size_t i = 0; good && i < len; i++)
        good = (name[i] >= 'a' && name[i] <= 'z') ||
               (i > 0 && ((name[i] >= '0' && name[i] <= '9') || name[i] == '-' || name[i] == '_'));
    if (r->failed)
        return;
    if (good) {
        read_folder(r, team, path);
        return;
    }
    snprintf(problem, sizeof problem,
             "%s is not a valid team name; use 1 to %d small letters, digits, hyphens and "
             "underscores, beginning with a letter, and not \"header\"",
             rn_excerpt(rn_slice_of(name)).text, TEAM_NAME_MAX);
    add_problem(r, team, path, problem);
}

/* Reads a file, or if `directories` is set a directory; skips the other kind. */
static void read_entry(struct reader *r, uint32_t team, const char *folder, const char *name,
                       bool directories)
{
    const char *dot = strrchr(name, '.');
    bool is_rules =
        dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
    size_t len = strlen(folder);
    struct stat status;
    char *path = NULL;

    while (len > 1 && folder[len - 1] == '/')
        len--;
    if (asprintf(&path, "%.*s%s%s", (int)len, folder, folder[len - 1] == '/' ? "" : "/", name) <
        0) {
        r->failed = true;
        return;
    }
    if (is_directory(path) != directories)
        ;
    else if (!directories && is_rules)
        read_file(r, team, path);
    else if (!directories && stat(path, &status) != 0 && lstat(path, &status) == 0 &&
             S_ISLNK(status.st_mode)) /* to ignore it could lose a team's rules */
        add_problem(r, team, path, "a link that leads nowhere; mend or remove it");
    else if (directories && !rn_file_is_inside(path, r->folder))
        add_problem(r, team == ROOT ? find_team(r, name) : team, path,
                    "a link that leads out of the directory; put the files themselves there");
    else if (directories && team == ROOT)
        read_team(r, path, name);
    else if (directories)
        add_problem(r, team, path, "a directory inside a team's; move its files one directory up");
    free(path);
}

static void read_folder(struct reader *r, uint32_t team, const char *path)
{
    char problem[256];
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, by_name);

    if (count < 0) {
        snprintf(problem, sizeof problem, "the directory cannot be read: %s", strerror(errno));
        add_problem(r, team, path, problem);
        return;
    }
    for (int i = 0; i < count; i++)
        read_entry(r, team, path, entries[i]->d_name, false);
    for (int i = 0; i < count; i++) {
        read_entry(r, team, path, entries[i]->d_name, true);
        free(entries[i]);
    }
    free(entries);
}

struct rn_teams *rn_teams_read(const char *const *paths, size_t count, struct rn_report *report)
{
    struct reader r = {.teams = make_teams(), .report = report};

    if (r.teams == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        uint32_t before = r.file_count;

        r.folder = is_directory(paths[i]) ? realpath(paths[i], NULL) : NULL;
        if (r.folder == NULL)
            read_file(&r, ROOT, paths[i]);
        else
            read_folder(&r, ROOT, paths[i]);
        free(r.folder);
        if (r.file_count == before)
            rn_report_error(report, (struct rn_place){.file = RN_REPORT_NO_FILE},
                            "directory %s holds no rules; files end in .yaml, .yml or .json",
                            rn_excerpt(rn_slice_of(paths[i])).text);
    }
    if (r.failed) {
        rn_teams_free(r.teams);
        return NULL;
    }
    return r.teams;
}
