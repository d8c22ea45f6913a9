/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TRIES 4 /* links may be swapped by a deployment just now */

int rn_file_open(const char *path, char problem[RN_FILE_PROBLEM])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool of_shell = strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
                    strncmp(path, "/proc/self/fd/", 14) == 0;
    struct stat is;

    if (fd < 0 || fstat(fd, &is) != 0) {
        int code = errno; /* a socket cannot be opened at all */

        snprintf(problem, RN_FILE_PROBLEM, "%s",
                 code == ENXIO ? "it is a socket, not a regular file" : strerror(code));
    } else if (S_ISREG(is.st_mode) || (S_ISFIFO(is.st_mode) && of_shell) ||
               (S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3))) { /* /dev/null */
        (void)fcntl(fd, F_SETFL, 0); /* from now on a pipe may be waited for */
        return fd;
    } else {
        snprintf(problem, RN_FILE_PROBLEM, "it is a %s, not a regular file",
                 S_ISFIFO(is.st_mode)   ? "FIFO"
                 : S_ISDIR(is.st_mode)  ? "directory"
                 : S_ISSOCK(is.st_mode) ? "socket"
                                        : "device");
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool begins_with_folder(const char *real, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(real, folder, len) == 0 &&
           (real[len] == '/' || real[len] == '\0' || strcmp(folder, "/") == 0);
}

bool rn_file_is_inside(const char *path, const char *folder)
{
    char *real = realpath(path, NULL);
    bool inside = real && begins_with_folder(real, folder);

    free(real);
    return inside;
}

enum where { INSIDE, OUTSIDE, CHANGED };

/* The path may lead elsewhere since it was opened, so the file at its real path must be the one
 * that is open. */
static enum where find_where(int fd, const char *path, const char *folder)
{
    char *real = realpath(path, NULL);
    struct stat open_one, found;
    enum where where = CHANGED;

    if (real && !begins_with_folder(real, folder))
        where = OUTSIDE;
    else if (real && fstat(fd, &open_one) == 0 && lstat(real, &found) == 0 &&
             open_one.st_dev == found.st_dev && open_one.st_ino == found.st_ino)
        where = INSIDE;
    free(real);
    return where;
}

int rn_file_open_inside(const char *path, const char *folder, char problem[RN_FILE_PROBLEM])
{
    for (int tries = 0; tries < TRIES; tries++) {
        int fd = rn_file_open(path, problem);
        enum where where = fd < 0 ? INSIDE : find_where(fd, path, folder);

        if (where == INSIDE)
            return fd;
        close(fd);
        snprintf(problem, RN_FILE_PROBLEM, "%s",
                 where == OUTSIDE
                     ? "it is a link that leads out of the directory; put the file itself there"
                     : "it changed while it was opened");
        if (where == OUTSIDE)
            return -1;
    }
    return -1;
}

bool rn_file_is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && S_ISREG(x.st_mode) && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}
