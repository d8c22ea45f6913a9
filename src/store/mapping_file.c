/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mapping_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LOCK_TRIES 200
#define LOCK_PAUSE_NS 10000000L

enum rn_attempt rn_mapping_file_fail(const struct rn_mapping_file *file, int code,
                                     const char *format, ...)
{
    struct ration_error *error = file->error;
    int n = file->path
                ? snprintf(error->text, sizeof error->text, "%s \"%s\": ", file->what, file->path)
                : 0;
    va_list args;

    va_start(args, format);
    if (n >= 0 && (size_t)n < sizeof error->text)
        vsnprintf(error->text + n, sizeof error->text - (size_t)n, format, args);
    va_end(args);
    error->code = code;
    return RN_ATTEMPT_FAILED;
}

/* What to do about a file that cannot be opened or created. */
static const char *advice_for(int code)
{
    switch (code) {
    case EACCES:
    case EPERM:
        return "; this process must be able to read and write the file, and its folder to make it";
    case ENOENT:
    case ENOTDIR:
        return "; make its folder first";
    case EROFS:
        return "; choose a file system that can be written";
    default:
        return "";
    }
}

bool rn_mapping_file_is_at(const char *path, int fd)
{
    struct stat by_fd, by_path;

    return fstat(fd, &by_fd) == 0 && stat(path, &by_path) == 0 && by_fd.st_ino == by_path.st_ino &&
           by_fd.st_dev == by_path.st_dev;
}

enum rn_attempt rn_mapping_file_lock(const struct rn_mapping_file *file, int *fd, bool *alone)
{
    struct stat st;

    *fd = open(file->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ENOENT)
        return RN_ATTEMPT_OPENED;
    if (*fd < 0)
        return rn_mapping_file_fail(file, RATION_EIO, "cannot be opened: %s%s", strerror(errno),
                                    advice_for(errno));
    *alone = flock(*fd, LOCK_EX | LOCK_NB) == 0;
    if (!*alone && flock(*fd, LOCK_SH | LOCK_NB) != 0)
        return RN_ATTEMPT_WAIT;
    if (!rn_mapping_file_is_at(file->path, *fd))
        return RN_ATTEMPT_AGAIN;
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode))
        return rn_mapping_file_fail(file, RATION_EFOREIGN, "not a regular file");
    return RN_ATTEMPT_OPENED;
}

enum rn_attempt rn_mapping_file_share(const struct rn_mapping_file *file, int fd)
{
    return flock(fd, LOCK_SH) == 0 && rn_mapping_file_is_at(file->path, fd) ? RN_ATTEMPT_OPENED
                                                                            : RN_ATTEMPT_AGAIN;
}

int rn_mapping_file_new(const struct rn_mapping_file *file, uint64_t bytes,
                        char name[RN_MAPPING_PATH_BYTES])
{
    if (snprintf(name, RN_MAPPING_PATH_BYTES, "%s.new-%ld-%" PRIx64, file->path, (long)getpid(),
                 (uint64_t)rn_clock_boot_ns()) >= RN_MAPPING_PATH_BYTES) {
        rn_mapping_file_fail(file, RATION_EINVAL, "the path is longer than %d bytes",
                             RN_MAPPING_PATH_BYTES - 64);
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);

    if (fd < 0) {
        rn_mapping_file_fail(file, RATION_EIO, "cannot be created: %s%s", strerror(errno),
                             advice_for(errno));
        return -1;
    }
    int error = posix_fallocate(fd, 0, (off_t)bytes);

    if (error) {
        rn_mapping_file_fail(file, RATION_EIO, "cannot reserve %" PRIu64 " bytes: %s", bytes,
                             strerror(error));
        close(fd);
        unlink(name);
        return -1;
    }
    fchmod(fd, 0660); /* regardless of the umask: a group shares the file */
    return fd;
}

/* Gives a file a name that must be free. Not every file system can rename without
 * replacing, and not every version of musl has the call: a second link does the same. */
static bool name_file(const char *from, const char *to)
{
#ifdef RENAME_NOREPLACE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
#endif
    return link(from, to) == 0;
}

enum rn_attempt rn_mapping_file_place(const struct rn_mapping_file *file, const char *name)
{
    bool placed = name_file(name, file->path) || errno == EEXIST;

    if (!placed)
        rn_mapping_file_fail(file, RATION_EIO, "cannot be created: %s", strerror(errno));
    unlink(name);
    return placed ? RN_ATTEMPT_AGAIN : RN_ATTEMPT_FAILED;
}

int rn_mapping_file_check(const struct rn_mapping_file *file, int fd, uint64_t bytes)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return rn_error_set(file->error, RATION_EIO, 0, "%s \"%s\": cannot be looked at: %s",
                            file->what, file->path, strerror(errno));
    if ((uint64_t)st.st_size < bytes)
        return rn_error_set(file->error, RATION_ETORN, 0,
                            "%s \"%s\": cut from %" PRIu64 " to %" PRIu64
                            " bytes while in use; its counters are lost: stop all its users, "
                            "move it away and start again",
                            file->what, file->path, bytes, (uint64_t)st.st_size);
    if (!rn_mapping_file_is_at(file->path, fd))
        return rn_error_set(file->error, RATION_EIO, 0,
                            "%s \"%s\": deleted, moved or replaced while in use; this "
                            "process still counts in the old one, and processes that start now "
                            "do not: restart all its users",
                            file->what, file->path);
    return 0;
}

int rn_mapping_file_try(struct rn_mapping_file *file, enum rn_attempt (*attempt)(void *arg),
                        void *arg)
{
    char resolved[PATH_MAX];
    struct stat st;

    if (lstat(file->path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (!realpath(file->path, resolved)) {
            rn_mapping_file_fail(file, RATION_EIO,
                                 "a symbolic link that leads nowhere; name the file itself");
            return RATION_EIO;
        }
        file->path = resolved;
    }
    for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
        enum rn_attempt result = attempt(arg);

        if (result == RN_ATTEMPT_OPENED)
            return 0;
        if (result == RN_ATTEMPT_FAILED)
            return file->error->code;
        if (result == RN_ATTEMPT_WAIT)
            nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    rn_mapping_file_fail(file, RATION_EBUSY,
                         "locked for two seconds by a process that creates or rebuilds it; try "
                         "again when it is done");
    return RATION_EBUSY;
}
