/* SPDX-License-Identifier: Apache-2.0 */
#include "front/admin/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void read_memory(struct rn_process *process)
{
    unsigned long long pages, resident;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return;
    if (fscanf(file, "%llu %llu", &pages, &resident) == 2) {
        process->virtual_bytes = pages * page_bytes;
        process->resident_bytes = resident * page_bytes;
    }
    fclose(file);
}

static void count_descriptors(struct rn_process *process)
{
    DIR *folder = opendir("/proc/self/fd");

    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        process->open_fds += entry->d_name[0] != '.';
    process->open_fds -= process->open_fds != 0; /* the folder's own */
    closedir(folder);
}

void rn_process_stats_read(struct rn_process *process)
{
    struct rlimit limit;
    struct rusage usage;

    *process = (struct rn_process){0};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        process->cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process->max_fds = limit.rlim_cur;
    read_memory(process);
    count_descriptors(process);
}
