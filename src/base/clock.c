/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <fcntl.h>
#include <unistd.h>

#define DAY_NS (86400 * RN_SECOND_NS)
/* Reading two clocks one after the other differs by less than this. */
#define JITTER_NS INT64_C(1000000)

#define load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* The kernel's random id of this boot as two words; zeros where there is none,
 * which leaves the boot-time clock to tell a reboot. */
static void read_boot_id(uint64_t id[2])
{
    char text[36];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : -1;

    id[0] = id[1] = 0;
    for (ssize_t i = 0, digits = 0; i < got; i++) {
        unsigned c = (unsigned char)text[i];
        unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;

        if (digit < 16) {
            id[digits / 16] = id[digits / 16] << 4 | digit;
            if (++digits == 32)
                break;
        }
    }
    if (fd >= 0)
        close(fd);
}

static void set_anchor(struct rn_anchor *a, const uint64_t id[2], int64_t start_ns, int64_t wall_ns)
{
    int64_t boot = rn_clock_boot_ns();

    store(&a->boot_id[0], id[0]);
    store(&a->boot_id[1], id[1]);
    store(&a->boot_ns, boot);
    store(&a->delta_ns, start_ns - boot);
    store(&a->wall_offset_ns, wall_ns - start_ns);
    store(&a->checked_ns, start_ns);
    store(&a->last_seen_ns, start_ns);
}

void rn_anchor_init(struct rn_anchor *a)
{
    uint64_t id[2];
    int64_t wall = rn_clock_wall_ns();

    read_boot_id(id);
    set_anchor(a, id, wall, wall);
}

bool rn_anchor_resume(struct rn_anchor *a)
{
    uint64_t id[2];
    int64_t wall = rn_clock_wall_ns(), last = load(&a->last_seen_ns);

    read_boot_id(id);
    if (id[0] == load(&a->boot_id[0]) && id[1] == load(&a->boot_id[1]) &&
        rn_clock_boot_ns() >= load(&a->boot_ns))
        return true;
    if (last > wall + DAY_NS)
        return false;
    set_anchor(a, id, last > wall ? last : wall, wall);
    return true;
}

void rn_anchor_refresh(struct rn_anchor *a, int64_t now_ns)
{
    int64_t checked = load(&a->checked_ns), old = load(&a->wall_offset_ns);

    if (!__atomic_compare_exchange_n(&a->checked_ns, &checked, now_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return; /* someone else is at it */
    int64_t real = rn_anchor_now(a), offset = rn_clock_wall_ns() - real;
    int64_t passed = real - load(&a->last_seen_ns);

    if (passed > 0)
        store(&a->last_seen_ns, real);
    if (offset > old + JITTER_NS)
        store(&a->wall_offset_ns, offset);
    else if (offset < old - JITTER_NS && passed > 0)
        store(&a->wall_offset_ns, offset > old - passed / 2 ? offset : old - passed / 2);
}
