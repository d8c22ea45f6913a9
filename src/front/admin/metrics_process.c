/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of the process, from the system. Values that it does not give are 0.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "front/admin/admin_internal.h"

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static uint64_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - (count != 0); /* without the folder's */
}

void rn_admin_metrics_put_process(struct rn_buf *out)
{
    unsigned long long pages = 0, resident = 0;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    struct rlimit limit = {0};
    struct rusage usage = {0};

    if (file) {
        if (fscanf(file, "%llu %llu", &pages, &resident) != 2)
            pages = resident = 0;
        fclose(file);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rn_metrics_put_number(out, "process_cpu_seconds_total", RN_METRICS_COUNTER,
                          "CPU time that the process has used.",
                          seconds(usage.ru_utime) + seconds(usage.ru_stime));
    rn_metrics_put_gauge(out, "process_resident_memory_bytes",
                         "Memory of the process that is present.", resident * page_bytes);
    rn_metrics_put_gauge(out, "process_virtual_memory_bytes", "Address space of the process.",
                         pages * page_bytes);
    rn_metrics_put_gauge(out, "process_open_fds", "File descriptors that are open.",
                         count_descriptors());
    rn_metrics_put_gauge(out, "process_max_fds", "File descriptors that may be open.",
                         limit.rlim_cur);
}
