/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFIFO:
        return "a FIFO";
    case S_IFDIR:
        return "a directory";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

static bool is_of_shell(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

int rn_file_open(const char *path, char problem[RN_FILE_PROBLEM])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat is;

    if (fd < 0 || fstat(fd, &is) != 0) {
        int code = errno; /* a socket cannot be opened at all */

        snprintf(problem, RN_FILE_PROBLEM, "%s",
                 code == ENXIO ? "it is a socket, not a regular file" : strerror(code));
    } else if (S_ISREG(is.st_mode) || (S_ISFIFO(is.st_mode) && is_of_shell(path)) ||
               (S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3))) { /* /dev/null */
        (void)fcntl(fd, F_SETFL, 0); /* from now on a pipe may be waited for */
        return fd;
    } else {
        snprintf(problem, RN_FILE_PROBLEM, "it is %s, not a regular file", kind_of(is.st_mode));
    }
    if (fd >= 0)
        close(fd);
    return -1;
}
