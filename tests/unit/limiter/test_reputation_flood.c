/* SPDX-License-Identifier: Apache-2.0 */
/* More offenders than there is room for: nobody is banned unearned, the worst stay banned, each
 * loss is counted, and neither memory nor the states of limits suffer. RATION_SOAK=1: ten million
 * offenders. */
#include "reputation_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "../sanitized.h"

#define FLOOD                                                                                      \
    "limits:\n"                                                                                    \
    "  - {name: login, key: ip, limit: 1 per second,\n"                                            \
    "     escalate: {after: 1 refusals within 10s, ban: 1h, grow: 2x, up_to: 24h}}\n"              \
    "  - {name: quota, key: user, limit: 100 per day}\n"
#define USERS 1000
#define WORST 500

static uint64_t resident_bytes(void)
{
    unsigned long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_ip(char text[40], uint32_t n)
{
    snprintf(text, 40, "ip=%u.%u.%u.%u", n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255);
}

/* Admitted, then refused: banned, if there is room for that. */
static void offend_once(struct ration *r, uint32_t client, int64_t now_ns)
{
    char ip[40];

    write_ip(ip, client);
    offend(r, ip, 2, now_ns);
}

static void spend_quotas(struct ration *r, int64_t now_ns)
{
    char user[40];

    for (unsigned i = 0; i < USERS; i++) {
        snprintf(user, sizeof user, "user=%u", i);
        assert_int_equal(admitted(r, user, i % 100, now_ns), i % 100);
    }
}

static void check_quotas(struct ration *r, int64_t now_ns)
{
    char user[40];

    for (unsigned i = 0; i < USERS; i++) {
        snprintf(user, sizeof user, "user=%u", i);
        /* Twenty minutes refill a unit and a half. */
        assert_in_range(left_of(r, "quota", user, now_ns), 100 - i % 100, 100 - i % 100 + 2);
    }
}

static struct ration *open_flood(uint64_t bytes)
{
    struct ration_options options = {.memory_bytes = bytes};
    struct ration *r = NULL;
    struct ration_error error;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    return r;
}

/* The clock of the table goes on meanwhile, and totals are told by it: so the flood is dated from
 * now on, and bans of one hour are in force at its end by both clocks. */
static void a_flood_of_offenders_leaves_the_worst_banned(void **state)
{
    uint32_t offenders = getenv("RATION_SOAK") ? 10000000 : SANITIZED ? 250000 : 1000000;
    struct ration *r = open_flood(UINT64_C(64) << 20);
    int64_t start = ration_now(r) - 20 * MINUTE, now = start;
    struct ration_reputation_totals totals;
    uint64_t settled = 0;
    char ip[40];

    (void)state;
    rules_at(r, FLOOD, now - 24 * HOUR);
    spend_quotas(r, now);
    for (unsigned level = 0; level < 3; level++)
        for (uint32_t i = 0; i < WORST; i++)
            offend_once(r, i, now - (3 - level) * 8 * HOUR);
    for (uint32_t i = 0; i < WORST; i++)
        offend_once(r, i, now); /* the fourth time: eight hours */
    for (uint32_t i = 0; i < offenders; i++) {
        now = start + i * (20 * MINUTE / offenders);
        offend_once(r, WORST + i, now);
        if (i == offenders / 2)
            settled = resident_bytes();
    }
    if (!SANITIZED)
        assert_in_range(resident_bytes(), 0, settled + (4 << 20));
    for (uint32_t i = 0; i < WORST; i++) {
        write_ip(ip, i);
        assert_int_equal(decide(r, ip, now).level, 4);
    }
    check_quotas(r, now);
    ration_reputation_totals(r, &totals);
    print_message("%u offenders: %lu of %lu records are bans, %lu bans and %lu others were lost\n",
                  offenders, (unsigned long)totals.banned, (unsigned long)totals.capacity,
                  (unsigned long)totals.lost_bans, (unsigned long)totals.lost_counts);
    assert_true(totals.banned <= totals.capacity && totals.banned > totals.capacity * 95 / 100);
    assert_int_equal(totals.banned + totals.lost_bans, WORST + offenders);
    struct ration_memory memory;

    ration_memory(r, now, &memory);
    assert_int_equal(memory.evictions, 0);
    ration_close(r);
}

/* --- nobody unearned ------------------------------------------------------------------------ */

#define CLIENTS 120000 /* of which a third fits */
#define AFTER 3
#define WITHIN (600 * SECOND)

/* What the client was really refused by its limit, and its bans. */
struct history {
    int64_t times[AFTER]; /* of the last refusals */
    int64_t ended_ns;     /* the last ban */
    uint32_t refusals, bans;
};

static void check_length(const struct history *h, const struct ration_outcome *out)
{
    static const int64_t lengths[] = {0, MINUTE, 2 * MINUTE, 4 * MINUTE, 5 * MINUTE};
    int64_t rest = out->decision.verdict.retry_after_ns;

    assert_true(out->level >= 1 && out->level <= h->bans);
    assert_true(rest > 0 && rest <= lengths[out->level < 4 ? out->level : 4]);
}

/* A ban began by the last of these refusals. */
static void check_beginning(struct history *h, const struct ration_outcome *out, int64_t now_ns,
                            bool steps)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (int i = 0; i < AFTER; i++) {
        first = h->times[i] < first ? h->times[i] : first;
        last = h->times[i] > last ? h->times[i] : last;
    }
    assert_true(h->refusals >= AFTER);
    assert_true(last - first < WITHIN);
    assert_true(steps || first >= h->ended_ns);
    h->bans++;
    check_length(h, out);
    h->ended_ns = now_ns + out->decision.verdict.retry_after_ns;
}

/* Whether the client was refused by a ban. */
static bool ask(struct ration *r, const char *ip, struct history *h, int64_t now_ns, bool steps)
{
    struct ration_outcome out = decide(r, ip, now_ns);

    if (out.kind == RATION_BY_ESCALATION) {
        check_length(h, &out);
        assert_true(steps || now_ns < h->ended_ns);
        return true;
    }
    if (out.decision.allowed)
        return false;
    h->times[h->refusals++ % AFTER] = now_ns;
    out = look(r, ip, now_ns);
    if (out.kind == RATION_BY_ESCALATION)
        check_beginning(h, &out, now_ns, steps);
    return false;
}

static void bans_are_earned(bool steps)
{
    struct ration *r = open_flood(UINT64_C(4) << 20); /* records: 1 MiB */
    struct history *all = calloc(CLIENTS, sizeof *all);
    uint64_t seed = 88172645463325252u, bans = 0;
    int64_t now = T0;
    char ip[40];

    rules_at(r,
             "limits: [{name: login, key: ip, limit: 1 per minute, escalate: {after: 3 refusals "
             "within 10m, ban: 1m, grow: 2x, up_to: 5m}}]\n",
             now);
    for (int i = 0; i < (SANITIZED ? 200000 : 1000000); i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        /* A few clients ask often, most of them once in a while. */
        uint32_t client = (uint32_t)(seed % 2 != 0 ? seed >> 20 & 255 : (seed >> 20) % CLIENTS);
        struct history *h = &all[client];

        now += (int64_t)(seed >> 40 & 0x3FFFFF);
        if (steps && seed >> 52 == 0)
            now += (seed >> 30 & 1 ? 1 : -1) * (int64_t)(seed % (uint64_t)HOUR);
        write_ip(ip, client);
        for (int twice = 0; twice < 2; twice++)
            bans += ask(r, ip, h, now, steps);
    }
    struct ration_reputation_totals totals;

    ration_reputation_totals(r, &totals);
    assert_true(bans > 100 && totals.bans > 100 && (steps || totals.lost_counts > 100));
    print_message("%lu bans, %lu counts and %lu bans lost\n", (unsigned long)totals.bans,
                  (unsigned long)totals.lost_counts, (unsigned long)totals.lost_bans);
    free(all);
    ration_close(r);
}

static void nobody_is_banned_unearned_when_records_are_lost(void **state)
{
    (void)state;
    bans_are_earned(false);
}

static void nobody_is_banned_unearned_when_the_clock_steps(void **state)
{
    (void)state;
    bans_are_earned(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_offenders_leaves_the_worst_banned),
        cmocka_unit_test(nobody_is_banned_unearned_when_records_are_lost),
        cmocka_unit_test(nobody_is_banned_unearned_when_the_clock_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
