/* SPDX-License-Identifier: Apache-2.0 */
/* One number for the identity, size and times of files. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/siphash.h"
#include "net/watch.h"

#define INNER_LEVELS 1 /* directories in a directory */

static const struct rn_hash_key fixed_key = {1, 2};

static void add_stat(struct rn_siphash *hash, const struct stat *is)
{
    struct {
        uint64_t device, inode, size;
        int64_t changed_s, changed_ns, modified_s, modified_ns;
    } looks = {is->st_dev,          is->st_ino,         (uint64_t)is->st_size, is->st_ctim.tv_sec,
               is->st_ctim.tv_nsec, is->st_mtim.tv_sec, is->st_mtim.tv_nsec};

    rn_siphash_add(hash, &looks, sizeof looks);
}

/* A sum, since file systems list entries in any order. Names with a dot belong to editors
 * and mounted volumes. Closes the descriptor. */
static uint64_t stamp_folder(int fd, int levels)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = 0;

    if (!folder) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct rn_siphash hash;
        struct stat is;

        if (entry->d_name[0] == '.')
            continue;
        rn_siphash_init(&hash, &fixed_key);
        rn_siphash_add(&hash, entry->d_name, strlen(entry->d_name));
        if (fstatat(dirfd(folder), entry->d_name, &is, 0) == 0) {
            add_stat(&hash, &is);
            if (levels > 0 && S_ISDIR(is.st_mode)) {
                int inner =
                    openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                uint64_t entries = stamp_folder(inner, levels - 1);

                rn_siphash_add(&hash, &entries, sizeof entries);
            }
        }
        sum += rn_siphash_done(&hash);
    }
    closedir(folder);
    return sum;
}

uint64_t rn_watch_stamp_read(const char *const *paths, size_t count)
{
    struct rn_siphash hash;

    rn_siphash_init(&hash, &fixed_key);
    for (size_t i = 0; i < count; i++) {
        char *real = realpath(paths[i], NULL);
        struct stat is;

        rn_siphash_add(&hash, real ? real : "", real ? strlen(real) : 0);
        if (real && stat(real, &is) == 0 && S_ISDIR(is.st_mode)) {
            int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            uint64_t entries = stamp_folder(fd, INNER_LEVELS);

            rn_siphash_add(&hash, &entries, sizeof entries);
        } else if (real && stat(real, &is) == 0) {
            add_stat(&hash, &is);
        }
        free(real);
    }
    return rn_siphash_done(&hash);
}
