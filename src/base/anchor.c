/* SPDX-License-Identifier: Apache-2.0 */
#include "base/anchor.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "base/siphash.h"

#define DAY_NS (86400 * RN_SECOND_NS)
/* The offset of the wall clock is followed when it changes by more than this. */
#define JITTER_NS INT64_C(1000000)
/* As boot_ns of the line: it follows no clock. */
#define DETACHED INT64_MIN
/* Two clocks that are read within this time count as read at once. */
#define CLOSE_NS INT64_C(10000)
#define CLOSE_TRIES 10
/* Sums of two such times do not overflow. */
#define TIME_MAX_NS (INT64_C(1) << 62)

#define load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* The kernel's random id of this boot; zeros if there is none, and then only the boot-time
 * clock shows a reboot. */
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

/* Both clocks at one instant. The process may be preempted between two reads, which would show as
 * a wall clock that was set: so the closest of several readings counts. */
struct reading {
    int64_t boot_ns, wall_ns;
};

static struct reading read_clocks(void)
{
    struct reading best = {0, 0};
    int64_t least_ns = INT64_MAX;

    for (int i = 0; i < CLOSE_TRIES && least_ns > CLOSE_NS; i++) {
        int64_t before_ns = rn_clock_boot_ns(), wall_ns = rn_clock_wall_ns();
        int64_t took_ns = rn_clock_boot_ns() - before_ns;

        if (took_ns < least_ns) {
            least_ns = took_ns;
            best = (struct reading){before_ns + took_ns / 2, wall_ns};
        }
    }
    return best;
}

static uint64_t check_of(const struct rn_anchor_save *save)
{
    static const struct rn_hash_key fixed = {UINT64_C(0x726F68636E617672), 1}; /* "rvanchor" */

    return rn_siphash(&fixed, save, offsetof(struct rn_anchor_save, check));
}

static bool is_time(int64_t ns)
{
    return ns >= 0 && ns < TIME_MAX_NS;
}

static bool is_distance(int64_t ns)
{
    return ns > -TIME_MAX_NS && ns < TIME_MAX_NS;
}

static bool is_save_sound(const struct rn_anchor_save *save)
{
    return save->check == check_of(save) && is_time(save->line.boot_ns) &&
           is_distance(save->line.delta_ns) && is_time(save->last_seen_ns) &&
           is_distance(save->wall_offset_ns);
}

/* Copies the newer sound save. Returns how many of the two are sound. */
static unsigned find_save(const struct rn_anchor *a, struct rn_anchor_save *newest)
{
    unsigned sound = 0;

    for (unsigned i = 0; i < 2; i++) {
        struct rn_anchor_save save = a->saves[i];

        if (!is_save_sound(&save))
            continue;
        if (sound == 0 || save.last_seen_ns > newest->last_seen_ns)
            *newest = save;
        sound++;
    }
    return sound;
}

static struct rn_anchor_line load_line(const struct rn_anchor_line *line)
{
    return (struct rn_anchor_line){.boot_id = {load(&line->boot_id[0]), load(&line->boot_id[1])},
                                   .boot_ns = load(&line->boot_ns),
                                   .delta_ns = load(&line->delta_ns)};
}

static void store_line(struct rn_anchor_line *to, const struct rn_anchor_line *line)
{
    store(&to->boot_id[0], line->boot_id[0]);
    store(&to->boot_id[1], line->boot_id[1]);
    store(&to->boot_ns, line->boot_ns);
    store(&to->delta_ns, line->delta_ns);
}

static bool is_same_line(const struct rn_anchor_line *a, const struct rn_anchor_line *b)
{
    return a->boot_id[0] == b->boot_id[0] && a->boot_id[1] == b->boot_id[1] &&
           a->boot_ns == b->boot_ns && a->delta_ns == b->delta_ns;
}

/* Word by word: if two processes save into the same place at once, its checksum is wrong, and
 * the other save counts. */
void rn_anchor_save(struct rn_anchor *a)
{
    struct rn_anchor_save new = {.line = load_line(&a->line),
                                 .last_seen_ns = load(&a->last_seen_ns),
                                 .wall_offset_ns = load(&a->wall_offset_ns)};
    struct rn_anchor_save *to = &a->saves[__atomic_fetch_add(&a->turn, 1, __ATOMIC_RELAXED) % 2];

    store_line(&to->line, &new.line);
    store(&to->last_seen_ns, new.last_seen_ns);
    store(&to->wall_offset_ns, new.wall_offset_ns);
    store(&to->check, check_of(&new));
}

static void set_anchor(struct rn_anchor *a, const uint64_t id[2], int64_t start_ns,
                       const struct reading *now)
{
    store_line(&a->line, &(struct rn_anchor_line){.boot_id = {id[0], id[1]},
                                                  .boot_ns = now->boot_ns,
                                                  .delta_ns = start_ns - now->boot_ns});
    store(&a->wall_offset_ns, now->wall_ns - start_ns);
    store(&a->checked_ns, start_ns);
    store(&a->last_seen_ns, start_ns);
    rn_anchor_save(a);
    rn_anchor_save(a);
}

void rn_anchor_init(struct rn_anchor *a)
{
    uint64_t id[2];
    struct reading now = read_clocks();

    read_boot_id(id);
    set_anchor(a, id, now.wall_ns, &now);
}

bool rn_anchor_is_sound(const struct rn_anchor *a)
{
    struct rn_anchor_save save;
    struct rn_anchor_line line = load_line(&a->line);

    return find_save(a, &save) != 0 && is_same_line(&line, &save.line);
}

enum rn_resumed rn_anchor_resume(struct rn_anchor *a)
{
    struct rn_anchor_save save;
    struct rn_anchor_line used = load_line(&a->line);
    unsigned sound = find_save(a, &save);
    struct reading now = read_clocks();
    uint64_t id[2];

    if (sound == 0)
        return RN_RESUMED_DAMAGED;
    read_boot_id(id);
    if (id[0] == save.line.boot_id[0] && id[1] == save.line.boot_id[1] &&
        now.boot_ns >= save.line.boot_ns && now.boot_ns + save.line.delta_ns >= save.last_seen_ns) {
        store_line(&a->line, &save.line);
        store(&a->last_seen_ns, save.last_seen_ns);
        store(&a->wall_offset_ns, save.wall_offset_ns);
        store(&a->checked_ns, save.last_seen_ns);
        rn_anchor_save(a);
        rn_anchor_save(a);
    } else if (save.last_seen_ns > now.wall_ns + DAY_NS) {
        return RN_RESUMED_AHEAD;
    } else {
        set_anchor(a, id, save.last_seen_ns > now.wall_ns ? save.last_seen_ns : now.wall_ns, &now);
    }
    return sound == 2 && is_same_line(&used, &save.line) ? RN_RESUMED : RN_RESUMED_MENDED;
}

void rn_anchor_detach(struct rn_anchor *a)
{
    store(&a->line.boot_ns, DETACHED);
    store(&a->wall_offset_ns, 0);
}

void rn_anchor_refresh(struct rn_anchor *a, int64_t now_ns)
{
    int64_t checked = load(&a->checked_ns), old = load(&a->wall_offset_ns);

    if (!__atomic_compare_exchange_n(&a->checked_ns, &checked, now_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return; /* another thread does it */
    if (load(&a->line.boot_ns) == DETACHED)
        return;
    struct reading now = read_clocks();
    int64_t real = now.boot_ns + load(&a->line.delta_ns), offset = now.wall_ns - real;
    int64_t passed = real - load(&a->last_seen_ns);

    if (passed > 0)
        store(&a->last_seen_ns, real);
    if (offset > old + JITTER_NS)
        store(&a->wall_offset_ns, offset);
    else if (offset < old - JITTER_NS && passed > 0)
        store(&a->wall_offset_ns, offset > old - passed / 2 ? offset : old - passed / 2);
    rn_anchor_save(a);
}
