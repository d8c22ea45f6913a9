/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file: a line with the time of the rules, then the rules as they were given. Nothing after the
 * line: the rules files apply.
 */
#include "redis/fleet/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/log.h"

#define MARK "# rules of the fleet, made at "
#define MARK_LEN (sizeof MARK - 1)
#define FILE_MAX ((off_t)64 << 20)

bool rn_rules_file_save(const char *path, struct rn_slice text, int64_t made_us)
{
    const char *at = text.data;
    char *aside = NULL;

    if (asprintf(&aside, "%s.new-%ld", path, (long)getpid()) < 0)
        return false;
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0660);
    bool saved = fd >= 0 && dprintf(fd, MARK "%016" PRId64 "\n", made_us) > 0;

    for (size_t left = text.len; saved && left > 0;) {
        ssize_t n = write(fd, at, left);

        saved = n > 0 || (n < 0 && errno == EINTR);
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    saved = saved && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    saved = saved && rename(aside, path) == 0;
    if (!saved) {
        rn_log(RN_LOG_ERROR, "rules.unsaved", RN_LOG_TEXT("file", rn_slice_of(path)),
               RN_LOG_TEXT("error", rn_slice_of(strerror(errno))));
        unlink(aside);
    }
    free(aside);
    return saved;
}

/* NULL, or why the file cannot be read. */
static const char *read_file(const char *path, struct rn_buf *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    char part[4096];
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        wrong = "not a regular file";
    else if (st.st_size > FILE_MAX)
        wrong = "larger than 64 MiB";
    while (!wrong && (n = read(fd, part, sizeof part)) != 0) {
        if (n < 0)
            wrong = strerror(errno);
        else
            rn_buf_put(bytes, part, (size_t)n);
    }
    close(fd);
    return bytes->failed ? "out of memory" : wrong;
}

/* The offset of the rules after the first line; 0: the line is malformed. */
static size_t read_mark(const struct rn_buf *bytes, int64_t *made_us)
{
    const char *line = bytes->data;
    size_t len = MARK_LEN + 16 + 1;

    if (bytes->len < len || memcmp(line, MARK, MARK_LEN) != 0 || line[len - 1] != '\n')
        return 0;
    *made_us = 0;
    for (size_t i = MARK_LEN; i + 1 < len; i++) {
        if (line[i] < '0' || line[i] > '9')
            return 0;
        *made_us = *made_us * 10 + (line[i] - '0');
    }
    return len;
}

bool rn_rules_file_load(const char *path, struct rn_buf *text, int64_t *made_us)
{
    struct rn_buf bytes = {0};
    const char *wrong;
    struct stat st;
    size_t at = 0;

    if (lstat(path, &st) != 0 && errno == ENOENT)
        return false;
    wrong = read_file(path, &bytes);
    if (!wrong)
        at = read_mark(&bytes, made_us);
    if (!wrong && at == 0)
        wrong = "its first line does not say when the rules were made";
    if (at != 0)
        rn_buf_put(text, bytes.data + at, bytes.len - at);
    rn_buf_done(&bytes);
    if (wrong)
        rn_log(RN_LOG_ERROR, "rules.lost", RN_LOG_TEXT("file", rn_slice_of(path)),
               RN_LOG_TEXT("error", rn_slice_of(wrong)),
               RN_LOG_TEXT("meaning", RN_SLICE("rules that an operator has set are not in force")));
    return at != 0 && text->len > 0 && !text->failed;
}
