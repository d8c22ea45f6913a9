/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that all nodes have, and the file in which a node keeps them for a start
 * without Redis: the rules as they were given, behind a line that says when they were
 * made. Nothing behind it: each node has its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/log.h"
#include "redis/fleet_inner.h"

#define MARK "# rules of the fleet, made at "
#define MARK_LEN (sizeof MARK - 1)
#define FILE_MAX ((off_t)64 << 20)

struct rn_slice rn_fleet_rules(const struct rn_fleet *fleet)
{
    return fleet->rules.set ? rn_buf_slice(&fleet->rules.text) : (struct rn_slice){0};
}

struct rn_fleet_value rn_fleet_rules_value(const struct rn_fleet *fleet)
{
    const struct rn_fleet_rules *rules = &fleet->rules;

    return (struct rn_fleet_value){.kind = rules->set ? RN_FLEET_RULES_SET : RN_FLEET_RULES_DELETE,
                                   .made_us = rules->made_us,
                                   .text = rn_buf_slice(&rules->text)};
}

/* --- the file --------------------------------------------------------------------------- */

static bool write_file(int fd, const struct rn_fleet_rules *rules)
{
    bool written = dprintf(fd, MARK "%016" PRId64 "\n", rules->made_us) > 0;
    const char *at = rules->text.data;

    for (size_t left = rules->set ? rules->text.len : 0; written && left > 0;) {
        ssize_t n = write(fd, at, left);

        written = n > 0 || (n < 0 && errno == EINTR);
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return written && fsync(fd) == 0;
}

/* Whole or not at all. */
static void save(const struct rn_fleet *fleet)
{
    const char *path = fleet->options.rules_path;
    char *aside = NULL;

    if (!path || asprintf(&aside, "%s.new-%ld", path, (long)getpid()) < 0)
        return;
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0660);
    bool saved = fd >= 0 && write_file(fd, &fleet->rules);

    if (fd >= 0)
        close(fd);
    if (!saved || rename(aside, path) != 0) {
        rn_log(RN_LOG_ERROR, "fleet.unsaved", RN_LOG_TEXT("file", rn_slice_of(path)),
               RN_LOG_TEXT("error", rn_slice_of(strerror(errno))));
        unlink(aside);
    }
    free(aside);
}

static bool read_file(const char *path, struct rn_buf *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char part[4096];
    ssize_t n = -1;
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX)
        while ((n = read(fd, part, sizeof part)) > 0)
            rn_buf_put(bytes, part, (size_t)n);
    close(fd);
    return n == 0 && !bytes->failed;
}

/* Where the rules begin behind the line; 0: it is no such line. */
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

void rn_fleet_rules_load(struct rn_fleet *fleet)
{
    struct rn_fleet_rules *rules = &fleet->rules;
    struct rn_buf bytes = {0};
    size_t at = 0;

    if (fleet->options.rules_path && read_file(fleet->options.rules_path, &bytes))
        at = read_mark(&bytes, &rules->made_us);
    if (at != 0) {
        rn_buf_put(&rules->text, bytes.data + at, bytes.len - at);
        rules->set = rules->text.len > 0 && !rules->text.failed;
    }
    rn_buf_done(&bytes);
    if (rules->set)
        fleet->options.use_rules(fleet->options.arg, rn_buf_slice(&rules->text));
}

/* --- changes ---------------------------------------------------------------------------- */

static bool put(struct rn_fleet *fleet, struct rn_slice text, int64_t made_us)
{
    struct rn_fleet_rules *rules = &fleet->rules;

    rn_buf_clear(&rules->text);
    rn_buf_put_slice(&rules->text, text);
    rules->set = text.data != NULL && !rules->text.failed;
    rules->made_us = made_us;
    return !rules->text.failed;
}

/* Later than what they replace, as with overrides. */
void rn_fleet_rules_changed(struct rn_fleet *fleet, struct rn_slice text)
{
    int64_t now_us = rn_clock_read_ns(CLOCK_REALTIME) / 1000;
    int64_t before_us = fleet->rules.made_us;

    if (!fleet->options.changes)
        return;
    put(fleet, text, now_us > before_us ? now_us : before_us + 1);
    fleet->rules.shared = false;
    save(fleet);
    rn_fleet_changed(fleet);
}

static bool is_known(const struct rn_fleet_rules *rules, const struct rn_fleet_value *value)
{
    return rules->made_us == value->made_us && rules->set == (value->kind == RN_FLEET_RULES_SET) &&
           rn_slice_equal(rn_buf_slice(&rules->text), value->text);
}

void rn_fleet_rules_take(struct rn_fleet *fleet, const struct rn_fleet_value *value)
{
    struct rn_fleet_rules *rules = &fleet->rules;
    struct rn_slice text = value->kind == RN_FLEET_RULES_SET ? value->text : (struct rn_slice){0};

    if (value->made_us < rules->made_us)
        return;
    if (is_known(rules, value)) {
        rules->shared = true;
        return;
    }
    bool had = rules->set;

    put(fleet, text, value->made_us);
    rules->shared = true;
    if (!had && !rules->set)
        return; /* its own they were, and are */
    if (fleet->options.use_rules(fleet->options.arg, text) != 0) {
        rn_fleet_count(&fleet->counts.refused, 1);
        return;
    }
    rn_fleet_count(&fleet->counts.taken, 1);
    save(fleet);
}
