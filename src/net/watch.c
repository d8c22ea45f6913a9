/* SPDX-License-Identifier: Apache-2.0 */
/*
 * We watch directories, never files: editors and deployments replace a file, and a watch
 * would stay with the old one. For each path we watch its directory, the directory of the
 * file that it leads to, those of all links on the way, and, if the path is a directory,
 * that one and the directories in it.
 */
#include "net/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ration/error.h>

#include "base/siphash.h"
#include "net/log.h"

#define INNER_LEVELS 1 /* directories in a directory */
#define LOOK_MS 2000
#define QUIET_MS 100   /* after the last change */
#define APART_MS 200   /* between two calls */
#define LATEST_MS 1000 /* after the first change, even if more follow */

struct rn_watch_folder {
    uv_fs_event_t event; /* first: freed as one */
    char path[];
};

static void on_quiet(uv_timer_t *timer);

/* Sets the timer that reports the change. */
static void note_change(struct rn_watch *watch)
{
    uint64_t now = uv_now(watch->look.loop), at = now + QUIET_MS;

    if (watch->first_ms == 0)
        watch->first_ms = now;
    if (at > watch->first_ms + LATEST_MS)
        at = watch->first_ms + LATEST_MS;
    if (watch->called_ms != 0 && at < watch->called_ms + APART_MS)
        at = watch->called_ms + APART_MS;
    uv_timer_start(&watch->quiet, on_quiet, at > now ? at - now : 0, 0);
}

static void on_folder(uv_fs_event_t *event, const char *name, int events, int status)
{
    (void)name, (void)events, (void)status;
    note_change(event->data);
}

static void free_folder(uv_handle_t *handle)
{
    free(handle);
}

/* Directories to watch, each once. */
struct folders {
    char **paths;
    size_t count;
    bool failed;
};

static void want(struct folders *wanted, const char *path, size_t len)
{
    char *copy = strndup(len > 0 ? path : ".", len > 0 ? len : 1);
    void *more = copy ? realloc(wanted->paths, (wanted->count + 1) * sizeof copy) : NULL;

    if (more)
        wanted->paths = more;
    wanted->failed |= !more;
    for (size_t i = 0; more && i < wanted->count; i++)
        if (strcmp(wanted->paths[i], copy) == 0)
            more = NULL;
    if (more)
        wanted->paths[wanted->count++] = copy;
    else
        free(copy);
}

static void want_parent(struct folders *wanted, const char *path, size_t len)
{
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    want(wanted, path, len);
}

/* The visible directories in a directory: rules of teams are there. */
static void want_inner(struct folders *wanted, const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        char *inner = NULL, *real;
        struct stat is;

        if (entry->d_name[0] == '.' || fstatat(dirfd(folder), entry->d_name, &is, 0) != 0 ||
            !S_ISDIR(is.st_mode))
            continue;
        wanted->failed |= asprintf(&inner, "%s/%s", path, entry->d_name) < 0;
        real = wanted->failed ? NULL : realpath(inner, NULL);
        if (real)
            want(wanted, real, strlen(real));
        free(real);
        free(inner);
    }
    if (folder)
        closedir(folder);
}

/* The directories of the path, of all links on the way, and of the file that it leads to. */
static void want_path(struct folders *wanted, const char *path)
{
    char *real = realpath(path, NULL), *copy = strdup(path);
    struct stat is;

    want_parent(wanted, path, strlen(path));
    wanted->failed |= !copy;
    for (size_t i = 1; copy && i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        copy[i] = '\0';
        if (lstat(copy, &is) == 0 && S_ISLNK(is.st_mode))
            want_parent(wanted, copy, i);
        copy[i] = path[i];
    }
    if (real)
        want_parent(wanted, real, strlen(real));
    if (real && stat(real, &is) == 0 && S_ISDIR(is.st_mode)) {
        want(wanted, real, strlen(real));
        want_inner(wanted, real);
    }
    free(copy);
    free(real);
}

static void free_paths(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

static void forget_folders(struct rn_watch *watch)
{
    for (size_t i = 0; i < watch->folder_count; i++)
        uv_close((uv_handle_t *)&watch->folders[i]->event, free_folder);
    free(watch->folders);
    watch->folders = NULL;
    watch->folder_count = 0;
}

/* A directory that cannot be watched is still checked every two seconds. */
static void watch_folders(struct rn_watch *watch)
{
    struct folders wanted = {0};

    for (size_t i = 0; i < watch->count; i++)
        want_path(&wanted, watch->paths[i]);
    bool same = watch->folder_count == wanted.count;
    for (size_t i = 0; same && i < wanted.count; i++)
        same = strcmp(watch->folders[i]->path, wanted.paths[i]) == 0;
    if (!wanted.failed && !same) {
        forget_folders(watch);
        watch->folders = calloc(wanted.count, sizeof(struct rn_watch_folder *));
        for (size_t i = 0; watch->folders && i < wanted.count; i++) {
            const char *path = wanted.paths[i];
            struct rn_watch_folder *folder = malloc(sizeof *folder + strlen(path) + 1);

            if (!folder)
                continue;
            strcpy(folder->path, path);
            uv_fs_event_init(watch->look.loop, &folder->event);
            folder->event.data = watch;
            int failed = uv_fs_event_start(&folder->event, on_folder, path, 0);
            if (failed != 0 && failed != UV_ENOENT)
                rn_log(RN_LOG_WARN, "watch.failed", RN_LOG_TEXT("folder", rn_slice_of(path)),
                       RN_LOG_TEXT("reason", rn_slice_of(uv_strerror(failed))));
            watch->folders[watch->folder_count++] = folder;
        }
    }
    free_paths(wanted.paths, wanted.count);
}

/* --- one number for the identity, size and times of files --------------------------------- */

static const struct rn_hash_key fixed_key = {1, 2};

static void add_stat(struct rn_siphash *hash, const struct stat *is)
{
    struct {
        uint64_t device, inode, size;
        int64_t changed_s, changed_ns, modified_s, modified_ns;
    } looks = {is->st_dev,          is->st_ino,         (uint64_t)is->st_size, is->st_ctim.tv_sec,
               is->st_ctim.tv_nsec, is->st_mtim.tv_sec, is->st_mtim.tv_nsec};

    rn_siphash_add(hash, &looks, sizeof looks);
}

/* A sum, since file systems list entries in any order. Names with a dot belong to editors
 * and mounted volumes. Closes the descriptor. */
static uint64_t stamp_folder(int fd, int levels)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = 0;

    if (!folder) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct rn_siphash hash;
        struct stat is;

        if (entry->d_name[0] == '.')
            continue;
        rn_siphash_init(&hash, &fixed_key);
        rn_siphash_add(&hash, entry->d_name, strlen(entry->d_name));
        if (fstatat(dirfd(folder), entry->d_name, &is, 0) == 0) {
            add_stat(&hash, &is);
            if (levels > 0 && S_ISDIR(is.st_mode)) {
                int inner =
                    openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                uint64_t entries = stamp_folder(inner, levels - 1);

                rn_siphash_add(&hash, &entries, sizeof entries);
            }
        }
        sum += rn_siphash_done(&hash);
    }
    closedir(folder);
    return sum;
}

/* A number that changes when a file does: which file the path leads to, its size and times.
 * For a directory, those of its visible entries and of theirs. */
static uint64_t read_stamp(const struct rn_watch *watch)
{
    struct rn_siphash hash;

    rn_siphash_init(&hash, &fixed_key);
    for (size_t i = 0; i < watch->count; i++) {
        char *real = realpath(watch->paths[i], NULL);
        struct stat is;

        rn_siphash_add(&hash, real ? real : "", real ? strlen(real) : 0);
        if (real && stat(real, &is) == 0 && S_ISDIR(is.st_mode)) {
            int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            uint64_t entries = stamp_folder(fd, INNER_LEVELS);

            rn_siphash_add(&hash, &entries, sizeof entries);
        } else if (real && stat(real, &is) == 0) {
            add_stat(&hash, &is);
        }
        free(real);
    }
    return rn_siphash_done(&hash);
}

/* --- changes ------------------------------------------------------------------------------- */

static void on_quiet(uv_timer_t *timer)
{
    struct rn_watch *watch = timer->data;

    watch->first_ms = 0;
    watch_folders(watch); /* before reading the stamp, so that no change is missed between */
    uint64_t seen = read_stamp(watch);
    if (seen == watch->seen)
        return;
    watch->seen = seen;
    watch->called_ms = uv_now(timer->loop);
    watch->changed(watch->arg);
}

static void on_look(uv_timer_t *timer)
{
    struct rn_watch *watch = timer->data;

    if (read_stamp(watch) != watch->seen)
        note_change(watch);
}

void rn_watch_init(struct rn_watch *watch, uv_loop_t *loop)
{
    *watch = (struct rn_watch){0};
    uv_timer_init(loop, &watch->look);
    uv_timer_init(loop, &watch->quiet);
    watch->look.data = watch->quiet.data = watch;
}

int rn_watch_set(struct rn_watch *watch, const char *const *paths, size_t count,
                 void (*changed)(void *arg), void *arg)
{
    char **copies = calloc(count + 1, sizeof *copies);

    for (size_t i = 0; copies && i < count; i++) {
        if (!(copies[i] = strdup(paths[i]))) {
            free_paths(copies, i);
            copies = NULL;
        }
    }
    if (!copies)
        return RATION_ENOMEM;
    free_paths(watch->paths, watch->count);
    watch->paths = copies;
    watch->count = count;
    watch->changed = changed;
    watch->arg = arg;
    watch->first_ms = 0;
    uv_timer_stop(&watch->quiet);
    watch_folders(watch);
    watch->seen = read_stamp(watch);
    return uv_timer_start(&watch->look, on_look, LOOK_MS, LOOK_MS) == 0 ? 0 : RATION_EIO;
}

void rn_watch_done(struct rn_watch *watch)
{
    forget_folders(watch);
    uv_close((uv_handle_t *)&watch->look, NULL);
    uv_close((uv_handle_t *)&watch->quiet, NULL);
    free_paths(watch->paths, watch->count);
}
