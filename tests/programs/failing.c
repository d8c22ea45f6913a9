/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload that makes one call fail: the FAIL_AT-th of those below that the
 * program makes after it has called failing_arm(), or, with FAIL_FROM_START, after
 * it has been loaded. Afterwards failing_fired() tells whether it came to that, and
 * the file FAIL_TELL, if named, how many calls there were and which one failed.
 *
 * libuv ends the process when it cannot grow its tables or open its pipe; these
 * calls of its are let through.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __GLIBC__
typedef __SOCKADDR_ARG address;
typedef __CONST_SOCKADDR_ARG const_address;
#else
typedef struct sockaddr *address;
typedef const struct sockaddr *const_address;
#endif
int renameat2(int, const char *, int, const char *, unsigned); /* musl 1.2.3 has none */

static long left; /* calls until the one that fails; 0: not armed, or done */
static long calls;
static bool fired, armed;
static const char *which = "none";

void failing_arm(void);
bool failing_fired(void);

void failing_arm(void)
{
    const char *at = getenv("FAIL_AT");

    left = at ? strtol(at, NULL, 10) : 0;
    armed = true;
}

__attribute__((constructor)) static void arm_at_start(void)
{
    if (getenv("FAIL_FROM_START"))
        failing_arm();
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("FAIL_TELL");
    long made = __atomic_load_n(&calls, __ATOMIC_SEQ_CST);
    FILE *file;

    armed = false;
    if (path && (file = fopen(path, "w"))) {
        fprintf(file, "%ld %s\n", made, which);
        fclose(file);
    }
}

bool failing_fired(void)
{
    return fired;
}

static bool is_of_libuv(void *caller)
{
    Dl_info from;

    return dladdr(caller, &from) != 0 && strstr(from.dli_fname, "libuv") != NULL;
}

static bool fails(const char *name, void *caller)
{
    if (!armed)
        return false;
    if ((strcmp(name, "realloc") == 0 || strcmp(name, "pipe2") == 0) && is_of_libuv(caller))
        return false;
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&left, __ATOMIC_SEQ_CST) <= 0 ||
        __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) != 0)
        return false;
    which = name;
    fired = true;
    return true;
}

/* Defines a function that fails with `error` and `result`, or calls the real one. */
#define FAILING(type, name, parameters, arguments, error, result)                                  \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
                                                                                                   \
        if (!real)                                                                                 \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        if (fails(#name, __builtin_return_address(0))) {                                           \
            errno = (error);                                                                       \
            return result;                                                                         \
        }                                                                                          \
        return real arguments;                                                                     \
    }

FAILING(void *, malloc, (size_t n), (n), ENOMEM, NULL)
FAILING(void *, realloc, (void *p, size_t n), (p, n), ENOMEM, NULL)
FAILING(void *, aligned_alloc, (size_t a, size_t n), (a, n), ENOMEM, NULL)
FAILING(void *, mmap, (void *at, size_t n, int p, int f, int fd, off_t o), (at, n, p, f, fd, o),
        ENOMEM, MAP_FAILED)
FAILING(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), ENOSPC, ENOSPC)
FAILING(int, flock, (int fd, int how), (fd, how), EINTR, -1)
FAILING(int, renameat2, (int a, const char *from, int b, const char *to, unsigned how),
        (a, from, b, to, how), EINVAL, -1)
FAILING(int, link, (const char *from, const char *to), (from, to), EACCES, -1)
FAILING(int, rename, (const char *from, const char *to), (from, to), EACCES, -1)
FAILING(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), EIO, -1)
FAILING(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), ENOSYS, -1)

FAILING(FILE *, fopen, (const char *path, const char *how), (path, how), EMFILE, NULL)
FAILING(int, socket, (int family, int type, int protocol), (family, type, protocol), EMFILE, -1)
FAILING(int, bind, (int fd, const_address to, socklen_t n), (fd, to, n), EACCES, -1)
FAILING(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE, -1)
FAILING(int, accept4, (int fd, address from, socklen_t *n, int how), (fd, from, n, how), EMFILE, -1)
FAILING(ssize_t, recv, (int fd, void *to, size_t n, int how), (fd, to, n, how), ECONNRESET, -1)
FAILING(ssize_t, send, (int fd, const void *from, size_t n, int how), (fd, from, n, how), EPIPE, -1)
FAILING(int, epoll_create1, (int how), (how), EMFILE, -1)
FAILING(int, eventfd, (unsigned count, int how), (count, how), EMFILE, -1)
FAILING(int, pipe2, (int fds[2], int how), (fds, how), EMFILE, -1)
FAILING(int, inotify_init1, (int how), (how), EMFILE, -1)
FAILING(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), ENOSPC,
        -1)
FAILING(int, setsockopt, (int fd, int level, int name, const void *to, socklen_t n),
        (fd, level, name, to, n), ENOBUFS, -1)
FAILING(int, getsockname, (int fd, address name, socklen_t *n), (fd, name, n), ENOBUFS, -1)
FAILING(int, pthread_create,
        (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *arg),
        (thread, how, run, arg), EAGAIN, EAGAIN)

/* dlsym may allocate before there is a real calloc to ask. */
void *calloc(size_t count, size_t size)
{
    static void *(*real)(size_t, size_t);
    static bool looking;
    static char early[4096];

    if (!real && !looking) {
        looking = true;
        *(void **)&real = dlsym(RTLD_NEXT, "calloc");
        looking = false;
    }
    if (!real)
        return count * size <= sizeof early ? early : NULL;
    if (fails("calloc", __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return real(count, size);
}

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list more;
    mode_t mode = 0;

    if (flags & O_CREAT) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    if (fails("open", __builtin_return_address(0))) {
        errno = EMFILE;
        return -1;
    }
    return real(path, flags, mode);
}
