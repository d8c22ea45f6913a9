/* SPDX-License-Identifier: Apache-2.0 */
/* For programs whose clocks go by what a file says: numbers of nanoseconds in binary. Who
 * changes the file moves the clocks. */
#ifndef CLOCK_FILE_H
#define CLOCK_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The numbers in the file that the environment names. */
static const int64_t *map_clock_file(const char *variable, size_t count)
{
    const char *path = getenv(variable);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, count * 8, PROT_READ, MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        abort(); /* a test that runs on the real clock would prove nothing */
    return memory;
}

#endif
