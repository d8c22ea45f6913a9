/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 1024
#define FILE_SIZE (64 * 1024) /* /proc/stat has a line for each processor before the long ones */

/* The beginning of a small file, with a NUL behind it. False: it cannot be read. */
static bool read_file(const char *root, const char *folder, const char *name, char *out,
                      size_t size)
{
    char path[PATH_SIZE];
    int len = snprintf(path, sizeof path, "%s%s%s", root, folder, name);
    int file = len > 0 && (size_t)len < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t got = 0;
    ssize_t n = 0;

    if (file < 0)
        return false;
    while (got + 1 < size && (n = read(file, out + got, size - 1 - got)) > 0)
        got += (size_t)n;
    close(file);
    out[got] = '\0';
    return n >= 0;
}

/* --- the machine ------------------------------------------------------------------------ */

/* cpu  user nice system idle iowait irq softirq steal: guests are part of user. */
static bool read_machine(const char *text, struct rn_cpu_reading *out, unsigned *processors)
{
    uint64_t t[8] = {0};

    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 4)
        return false;
    *out = (struct rn_cpu_reading){.of_cgroup = false};
    for (int i = 0; i < 8; i++) {
        out->total += t[i];
        out->busy += i == 3 || i == 4 ? 0 : t[i];
    }
    *processors = 0;
    for (const char *at = text; (at = strstr(at, "\ncpu")) != NULL; at++)
        *processors += 1;
    return true;
}

/* --- its cgroup --------------------------------------------------------------------------- */

/* The quota and use of one group: v2 in cpu.max and cpu.stat, v1 in four files. */
struct group {
    int64_t quota_us, period_us;
    uint64_t used_ns;
};

static bool read_v2(const char *root, const char *folder, struct group *out)
{
    char text[4096];
    const char *usage;

    if (!read_file(root, folder, "/cpu.max", text, sizeof text) ||
        sscanf(text, "%" SCNd64 " %" SCNd64, &out->quota_us, &out->period_us) != 2 ||
        !read_file(root, folder, "/cpu.stat", text, sizeof text))
        return false;
    usage = strstr(text, "usage_usec ");
    if (usage == NULL || sscanf(usage, "usage_usec %" SCNu64, &out->used_ns) != 1)
        return false;
    out->used_ns *= 1000;
    return true;
}

static bool read_number(const char *root, const char *folder, const char *name, int64_t *out)
{
    char text[64];

    return read_file(root, folder, name, text, sizeof text) && sscanf(text, "%" SCNd64, out) == 1;
}

static bool read_v1(const char *root, const char *folder, struct group *out)
{
    char beside[PATH_SIZE];
    int64_t used = -1;
    const char *mount = "/sys/fs/cgroup/cpu/";

    if (!read_number(root, folder, "/cpu.cfs_quota_us", &out->quota_us) ||
        !read_number(root, folder, "/cpu.cfs_period_us", &out->period_us) || out->quota_us <= 0)
        return false;
    if (!read_number(root, folder, "/cpuacct.usage", &used) &&
        strncmp(folder, mount, strlen(mount)) == 0) { /* mounted apart */
        snprintf(beside, sizeof beside, "/sys/fs/cgroup/cpuacct/%s", folder + strlen(mount));
        read_number(root, beside, "/cpuacct.usage", &used);
    }
    out->used_ns = (uint64_t)used;
    return used >= 0;
}

/* The nearest group with a quota, from this process's own up to the root of the mount. A path that
 * does not exist there is that of a container as its host sees it: its root is ours. */
static bool find_group(const char *root, const char *mount, const char *path,
                       bool (*read)(const char *root, const char *folder, struct group *out),
                       struct group *out)
{
    char folder[PATH_SIZE];
    size_t base = strlen(mount);
    int len = snprintf(folder, sizeof folder, "%s%s", mount, path);

    if (len < 0 || (size_t)len >= sizeof folder)
        return false;
    for (;;) {
        size_t end = strlen(folder);

        while (end > base && folder[end - 1] == '/')
            folder[--end] = '\0';
        if (read(root, folder, out))
            return true;
        if (end <= base)
            return false;
        *strrchr(folder, '/') = '\0';
    }
}

/* Lines of /proc/self/cgroup: 0::/path for v2, 4:cpu,cpuacct:/path for v1. */
static bool read_cgroup(const char *root, struct group *out)
{
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"};
    char text[4096], *rest = text, *line;

    if (!read_file(root, "/proc/self", "/cgroup", text, sizeof text))
        return false;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        bool has_cpu = false;

        if (path == NULL)
            continue;
        *path++ = '\0';
        controllers++;
        if (controllers[0] == '\0' && find_group(root, "/sys/fs/cgroup", path, read_v2, out))
            return true;
        for (char *word; (word = strsep(&controllers, ",")) != NULL;)
            has_cpu |= strcmp(word, "cpu") == 0;
        for (size_t i = 0; has_cpu && i < sizeof mounts / sizeof *mounts; i++)
            if (find_group(root, mounts[i], path, read_v1, out))
                return true;
    }
    return false;
}

bool rn_cpu_read(const char *root, int64_t now_ns, struct rn_cpu_reading *out)
{
    char *text = malloc(FILE_SIZE);
    unsigned processors = 0;
    struct group group;
    bool ok = text != NULL && read_file(root, "/proc", "/stat", text, FILE_SIZE) &&
              read_machine(text, out, &processors);

    free(text);
    if (!read_cgroup(root, &group) || group.quota_us <= 0 || group.period_us <= 0 ||
        group.quota_us > INT32_MAX || (ok && group.quota_us >= processors * group.period_us))
        return ok;
    out->of_cgroup = true;
    out->busy = group.used_ns;
    out->total = (uint64_t)((double)now_ns * (double)group.quota_us / (double)group.period_us);
    return true;
}

int64_t rn_cpu_share(const struct rn_cpu_reading *before, const struct rn_cpu_reading *after)
{
    if (before->of_cgroup != after->of_cgroup || after->total <= before->total ||
        after->busy < before->busy)
        return -1;
    double share = (double)(after->busy - before->busy) / (double)(after->total - before->total);

    return share >= 1 ? 1000000 : (int64_t)(share * 1000000);
}
