/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library rows of the performance goals: each figure with its goal and a
 * verdict. Times are the fastest of several short rounds, because on a shared
 * machine everything but the fastest measures the neighbours; what is compared
 * is measured in turns. Instructions are counted exactly, by single-stepping.
 *
 *   bench-core [KEYS]     KEYS: how many live keys the large table holds (10^7)
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <ration/ration.h>

#include "steps.h"

#define ROUNDS 9
#define BATCH 16
#define MAX_THREADS 2

static unsigned missed;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void row(const char *what, double value, const char *unit, const char *relation, double goal)
{
    bool met = *relation == '<' ? value <= goal : value >= goal;

    missed += !met;
    printf("  %-58s %9.1f %-8s goal %s %-7g %s\n", what, value, unit, *relation == '<' ? "≤" : "≥",
           goal, met ? "met" : "MISSED");
    fflush(stdout);
}

static void must(int code, const struct ration_error *error)
{
    if (code == 0)
        return;
    fprintf(stderr, "bench-core: %s\n",
            error && *error->text ? error->text : ration_error_text(code));
    exit(1);
}

static struct ration *open_with(struct ration_limit limit, uint64_t bytes)
{
    struct ration_named named = {.name = "bench", .limit = limit};
    struct ration_options options = {.memory_bytes = bytes, .limits = &named, .limit_count = 1};
    struct ration_error error;
    struct ration *r = NULL;

    must(ration_open(&options, &r, &error), &error);
    return r;
}

static struct ration_limit limit_of(const char *text, enum ration_algorithm algorithm)
{
    struct ration_limit limit;
    struct ration_error error;

    must(ration_limit_parse(text, strlen(text), &limit, &error), &error);
    limit.algorithm = algorithm;
    return limit;
}

/* Never refuses within a benchmark. */
static struct ration_limit ample(void)
{
    return limit_of("1000000000 per second", RATION_TOKEN_BUCKET);
}

/* Spreads i over 64 bits: a key that is already hashed. */
static uint64_t scatter(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    i = (i ^ i >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    i = (i ^ i >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return i ^ i >> 32;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Sixteen bytes that name key i. */
static void name_key(char key[17], uint64_t i)
{
    static const char digits[] = "0123456789abcdef";

    for (int n = 15; n >= 0; n--, i >>= 4)
        key[n] = digits[i & 15];
    key[16] = '\0';
}

/* --- one hot key ------------------------------------------------------------ */

static void take_named(struct ration *r, uint64_t count)
{
    struct ration_charge c = {.key = "203.0.113.77:443", .key_len = 16, .cost = 1};

    for (uint64_t i = 0; i < count; i++)
        ration_take(r, &c, RATION_NOW);
}

static void take_hashed(struct ration *r, uint64_t count)
{
    struct ration_charge c = {.cost = 1, .hash = ration_hash(r, 0, "203.0.113.77:443", 16)};
    int64_t now = ration_now(r);

    for (uint64_t i = 0; i < count; i++)
        ration_take(r, &c, now += 2);
}

static double fastest_ns(void (*work)(struct ration *, uint64_t), struct ration *r, uint64_t count)
{
    double best = 1e9;

    for (int i = 0; i < ROUNDS; i++) {
        double start = seconds();

        work(r, count);
        double ns = (seconds() - start) * 1e9 / (double)count;

        best = ns < best ? ns : best;
    }
    return best;
}

static void step_named(void *r, uint64_t count)
{
    take_named(r, count);
}

static void bench_hot_key(void)
{
    struct ration *r = open_with(ample(), 1 << 20);

    puts("one hot key, token bucket, all admitted");
    row("16-byte key hashed, clock read, decided", fastest_ns(take_named, r, 1000000), "ns", "<",
        38);
    row("the same, instructions", bench_steps(step_named, r, 1), "", "<", 400);
    row("key hashed and time given", fastest_ns(take_hashed, r, 1000000), "ns", "<", 11);
    ration_close(r);
}

/* --- threads ------------------------------------------------------------------ */

struct work {
    struct ration *r;
    void (*run)(struct work *);
    uint64_t count;
    unsigned number;
    pthread_barrier_t *start;
    double rate;
};

/* The processors of a shared machine are not equally fast, nor for long. */
static void pin(unsigned number)
{
    cpu_set_t allowed, one;

    sched_getaffinity(0, sizeof allowed, &allowed);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || number-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void *run_work(void *arg)
{
    struct work *w = arg;

    pin(w->number);
    pthread_barrier_wait(w->start);
    double begin = seconds();

    w->run(w);
    w->rate = (double)w->count / (seconds() - begin) / 1e6;
    return NULL;
}

/* Millions a second of threads `first` up to `last`, each on a processor of its
 * own, together. */
static double rate_of(struct ration *r, void (*run)(struct work *), unsigned first, unsigned last,
                      uint64_t count)
{
    pthread_t ids[MAX_THREADS];
    struct work work[MAX_THREADS];
    pthread_barrier_t start;
    double sum = 0;

    pthread_barrier_init(&start, NULL, last - first + 1);
    for (unsigned i = first; i <= last; i++) {
        work[i] = (struct work){r, run, count, i, &start, 0};
        pthread_create(&ids[i], NULL, run_work, &work[i]);
    }
    for (unsigned i = first; i <= last; i++) {
        pthread_join(ids[i], NULL);
        sum += work[i].rate;
    }
    pthread_barrier_destroy(&start);
    return sum;
}

static double rate_of_both(struct ration *r, void (*run)(struct work *), uint64_t count)
{
    return rate_of(r, run, 0, 1, count);
}

static double rate_of_one(struct ration *r, void (*run)(struct work *), uint64_t count)
{
    return (rate_of(r, run, 0, 0, count) + rate_of(r, run, 1, 1, count)) / 2;
}

static void refuse_hot(struct work *w)
{
    struct ration_charge c = {.cost = 2, .hash = ration_hash(w->r, 0, "hot", 3)};
    int64_t now = ration_now(w->r);

    for (uint64_t i = 0; i < w->count; i++)
        ration_take(w->r, &c, now);
}

/* The same by threads that share nothing: what two processors can do at best
 * at the moment, which is not twice as much where they share a core. */
static struct ration *own[MAX_THREADS];

static void refuse_own(struct work *w)
{
    w->r = own[w->number];
    refuse_hot(w);
}

static void admit_hot(struct work *w)
{
    struct ration_charge c = {.cost = 1, .hash = ration_hash(w->r, 0, "hot", 3)};
    int64_t now = ration_now(w->r);

    for (uint64_t i = 0; i < w->count; i++)
        ration_take(w->r, &c, now += 4);
}

/* The same decision under a mutex, as a limiter that is not made for threads
 * would have to be used. */
static void admit_guarded(struct work *w)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ration_charge c = {.cost = 1, .hash = ration_hash(w->r, 0, "hot", 3)};
    int64_t now = ration_now(w->r);

    for (uint64_t i = 0; i < w->count; i++) {
        pthread_mutex_lock(&lock);
        ration_take(w->r, &c, now += 4);
        pthread_mutex_unlock(&lock);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, compare_doubles);
    return values[ROUNDS / 2];
}

static void bench_threads(void)
{
    struct ration *many = open_with(ample(), 1 << 20);
    struct ration_charge c = {.key = "hot", .key_len = 3, .cost = 1};
    double ratios[ROUNDS];

    puts("one hot key, two threads (median of rounds)");
    for (unsigned i = 0; i < MAX_THREADS; i++) {
        own[i] = open_with(limit_of("1 per hour", RATION_TOKEN_BUCKET), 1 << 20);
        ration_take(own[i], &c, RATION_NOW);
    }
    for (int i = 0; i < ROUNDS; i++)
        ratios[i] =
            2 * rate_of_both(own[0], refuse_hot, 2000000) / rate_of_both(NULL, refuse_own, 2000000);
    row("refusals: against one (2: as if nothing were shared)", median(ratios), "times", ">", 1.9);
    for (int i = 0; i < ROUNDS; i++)
        ratios[i] =
            rate_of_both(many, admit_hot, 500000) / rate_of_both(many, admit_guarded, 500000);
    row("admissions: against the same under a mutex", median(ratios), "times", ">", 1.8);
    for (unsigned i = 0; i < MAX_THREADS; i++)
        ration_close(own[i]);
    ration_close(many);
}

/* --- many keys ------------------------------------------------------------------ */

static uint64_t key_count;

static void take_uniform(struct ration *r, uint64_t count)
{
    uint64_t random = UINT64_C(88172645463325252);
    struct ration_charge c = {.key_len = 16, .cost = 1};
    char key[17];

    c.key = key;
    for (uint64_t i = 0; i < count; i++) {
        name_key(key, scatter(next_random(&random) % key_count));
        ration_take(r, &c, RATION_NOW);
    }
}

static void take_batches(struct work *w)
{
    uint64_t random = UINT64_C(88172645463325252) + w->number;
    struct ration_charge c[BATCH];
    char keys[BATCH][17];

    memset(c, 0, sizeof c);
    for (int i = 0; i < BATCH; i++)
        c[i].key = keys[i], c[i].key_len = 16, c[i].cost = 1;
    for (uint64_t n = 0; n < w->count; n += BATCH) {
        for (int i = 0; i < BATCH; i++)
            name_key(keys[i], scatter(next_random(&random) % key_count));
        ration_take_batch(w->r, c, BATCH, RATION_NOW);
    }
}

/* What making up the keys costs, to be taken off. */
static void only_name(struct work *w)
{
    uint64_t random = UINT64_C(88172645463325252) + w->number;
    volatile char sink;
    char key[17];

    for (uint64_t n = 0; n < w->count; n++) {
        name_key(key, scatter(next_random(&random) % key_count));
        sink = key[n % 16];
    }
    (void)sink;
}

static struct ration *open_filled(uint64_t keys)
{
    uint64_t bytes = (uint64_t)((double)keys * 16 / 0.7) + (1 << 20);
    struct ration *r = open_with(limit_of("1000 per hour", RATION_TOKEN_BUCKET), bytes);
    struct ration_charge c = {.key_len = 16, .cost = 1};
    char key[17];

    c.key = key;
    for (uint64_t i = 0; i < keys; i++) {
        name_key(key, scatter(i));
        must(ration_take(r, &c, RATION_NOW), NULL);
    }
    key_count = keys;
    return r;
}

static double without_naming(double millions, unsigned threads)
{
    double naming = 0;

    for (int i = 0; i < 3; i++) {
        double m = rate_of_one(NULL, only_name, 1000000);

        naming = m > naming ? m : naming;
    }
    return 1 / (1 / millions - 1 / (naming * threads));
}

static double uniform_ns(struct ration *r)
{
    return fastest_ns(take_uniform, r, 1000000) - 1e3 / rate_of_one(NULL, only_name, 1000000);
}

/* What one read from memory takes here that nothing could foresee: no decision
 * on a key that is not in the cache is faster. */
static double miss_ns(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t random = UINT64_C(88172645463325252), sum = 0, count = 1000000;

    if (memory == MAP_FAILED)
        return 0;
    madvise(memory, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    double start = seconds();

    for (uint64_t i = 0; i < count; i++)
        sum += (uint64_t)memory[(next_random(&random) + (sum & 1)) % bytes];
    double ns = (seconds() - start) * 1e9 / (double)count;

    munmap(memory, bytes);
    return sum == UINT64_MAX ? 0 : ns; /* it is used */
}

static void bench_many_keys(uint64_t keys)
{
    double small_ns, large_ns, one = 0, both = 0, miss = miss_ns(keys * 32);
    struct ration *r = open_filled(1000);

    printf("%" PRIu64 " live keys, uniform, 16-byte keys hashed (making them up is taken off)\n",
           keys);
    printf("  (one read that misses the caches takes %.0f ns here)\n", miss);
    small_ns = uniform_ns(r);
    ration_close(r);
    r = open_filled(keys);
    large_ns = uniform_ns(r);
    row("one by one, against one such read", large_ns / miss, "times", "<", 1.15);
    row("one by one, more than with 1000 keys, in such reads", (large_ns - small_ns) / miss,
        "times", "<", 1);
    for (int i = 0; i < ROUNDS; i++) {
        double m = rate_of_one(r, take_batches, 2000000);

        one = m > one ? m : one;
        m = rate_of_both(r, take_batches, 2000000);
        both = m > both ? m : both;
    }
    row("batches of 16, one thread", without_naming(one, 1), "M/s", ">", 20);
    row("batches of 16, two threads", without_naming(both, 2), "M/s", ">", 40);
    ration_close(r);
}

/* --- memory ------------------------------------------------------------------- */

struct memory_case {
    const char *what, *text;
    enum ration_algorithm algorithm;
    uint32_t sub_windows;
    uint64_t cost; /* spent per key, so that a log is full */
    uint64_t keys;
    double goal; /* 0: none was set */
};

/* Whether a table of that many bytes holds the keys without forgetting more than
 * one in 100,000. */
static bool holds(const struct memory_case *m, uint64_t bytes)
{
    struct ration_limit limit = limit_of(m->text, m->algorithm);
    struct ration_memory memory;
    bool held = true;
    uint64_t lease;

    limit.sub_windows = m->sub_windows;
    struct ration *r = open_with(limit, bytes);
    int64_t now = ration_now(r);

    for (uint64_t i = 0; i < m->keys && held; i++) {
        struct ration_charge c = {.hash = scatter(i), .cost = m->cost};

        held = (m->algorithm == RATION_CONCURRENCY ? ration_acquire(r, &c, 0, now, &lease)
                                                   : ration_take(r, &c, now)) == 0;
    }
    ration_memory(r, now, &memory);
    ration_close(r);
    return held && memory.evictions <= m->keys / 100000;
}

/* All bytes of the smallest table that holds the keys, to within half a percent. */
static void bench_memory_of(const struct memory_case *m)
{
    uint64_t low = 0, high = m->keys * 16;

    while (!holds(m, high)) {
        low = high;
        high *= 2;
    }
    while (high - low > high / 200) {
        uint64_t middle = low + (high - low) / 2;

        if (holds(m, middle))
            high = middle;
        else
            low = middle;
    }
    double bytes = (double)high / (double)m->keys;

    if (m->goal == 0)
        printf("  %-58s %9.1f bytes\n", m->what, bytes);
    else
        row(m->what, bytes, "bytes", "<", m->goal);
}

static void bench_memory(void)
{
    static const struct memory_case cases[] = {
        {"token bucket", "100 per minute", RATION_TOKEN_BUCKET, 0, 1, 1000000, 24},
        {"leaky bucket", "10 per second queue 50", RATION_LEAKY_BUCKET, 0, 5, 1000000, 24},
        {"fixed window", "100 per minute", RATION_FIXED_WINDOW, 0, 1, 1000000, 24},
        {"sliding window, two weighted", "500 per minute", RATION_SLIDING_WINDOW, 0, 1, 1000000,
         48},
        {"sliding window, 60 sub-windows", "500 per minute", RATION_SLIDING_WINDOW, 60, 500, 500000,
         150},
        {"sliding log of 500, full", "500 per minute", RATION_SLIDING_LOG, 0, 500, 100000, 1126},
        {"20 concurrent, all places taken", "20 concurrent", RATION_CONCURRENCY, 0, 20, 100000, 0},
    };

    puts("bytes per live key, everything counted");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        bench_memory_of(&cases[i]);
}

int main(int argc, char **argv)
{
    uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;

    if (keys < 1000) {
        fprintf(stderr, "bench-core: KEYS must be a number of at least 1000, not \"%s\"\n",
                argv[1]);
        return 2;
    }
    bench_hot_key();
    bench_threads();
    bench_many_keys(keys);
    bench_memory();
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
