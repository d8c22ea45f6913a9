/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All algorithms on one trace, for docs/choosing.md: how often each differs from an exact sliding
 * window, what it admits around the boundary of a window, its memory and its instructions.
 *
 *   bench-algorithms [--exact] [--svg FILE]    --exact: only what is the same in each run
 *
 * Exact means: of the requests that this algorithm admitted, fewer than 100 lie in the 60 s before.
 * A request is wrongly admitted if there were 100 already, and wrongly refused if there were fewer.
 * A leaky bucket is judged by when requests depart. Time is an argument, and the trace is made from
 * a fixed seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/ration.h>

#include "steps.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define AMOUNT 100
#define LONGEST 70000
#define TRACE_SECONDS 900
#define SAMPLE 3 /* seconds between two points of a curve */
#define TABLE_BYTES (UINT64_C(16) << 20)

struct row {
    const char *name, *text;
    enum ration_algorithm algorithm;
    uint32_t sub_windows;
};

static const struct row rows[] = {
    {"token bucket", "100 per minute", RATION_TOKEN_BUCKET, 0},
    {"token bucket, small burst", "100 per minute burst 10", RATION_TOKEN_BUCKET, 0},
    {"leaky bucket", "100 per minute queue 10", RATION_LEAKY_BUCKET, 0},
    {"fixed window", "100 per minute", RATION_FIXED_WINDOW, 0},
    {"sliding window, two weighted", "100 per minute", RATION_SLIDING_WINDOW, 0},
    {"sliding window, 12 sub-windows", "100 per minute", RATION_SLIDING_WINDOW, 12},
    {"sliding log", "100 per minute", RATION_SLIDING_LOG, 0},
    {"concurrency, requests of 2 s", "5 concurrent", RATION_CONCURRENCY, 0},
};
#define ROWS (sizeof rows / sizeof *rows)

/* When requests come, in ns from the start, which is the boundary of a window. */
struct trace {
    int64_t at[LONGEST];
    size_t count;
};

struct result {
    int64_t admitted[LONGEST]; /* when, or when they depart */
    size_t count, wrong_admissions, wrong_refusals;
};

static struct trace recorded, boundary;
static struct result on_trace[ROWS], at_boundary;

/* --- what is asked ------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D) >> 33;
}

/* Requests a minute in that millisecond: quiet, near the limit, bursts across four boundaries,
 * three times too much, near the limit again. */
static uint64_t rate_at(int64_t ms)
{
    int64_t second = ms / 1000, in_minute = ms % 60000;

    if (second < 180)
        return 60;
    if (second < 330)
        return 100;
    if (second < 570)
        return in_minute < 2000 || in_minute >= 58000 ? 2400 : 6;
    if (second < 720)
        return 300;
    return 90;
}

static void make_traces(void)
{
    uint64_t random = UINT64_C(88172645463325252);

    for (int64_t ms = 0; ms < TRACE_SECONDS * 1000; ms++)
        if (next_random(&random) % 60000 < rate_at(ms))
            recorded.at[recorded.count++] = ms * SECOND / 1000;
    /* One request each millisecond, from a second before a boundary on. */
    for (int64_t ms = 59000; ms < 122000; ms++)
        boundary.at[boundary.count++] = ms * SECOND / 1000;
}

/* --- what is answered ------------------------------------------------------------ */

/* With `scale` times the amount, burst and queue of the row. */
static struct ration *open_row(const struct row *row, uint64_t scale)
{
    struct ration_named named = {.name = "bench"};
    struct ration_options options = {
        .memory_bytes = TABLE_BYTES, .limits = &named, .limit_count = 1};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_limit_parse(row->text, strlen(row->text), &named.limit, &error) == 0) {
        named.limit.algorithm = row->algorithm;
        named.limit.sub_windows = row->sub_windows;
        named.limit.amount *= scale;
        named.limit.burst *= scale;
        named.limit.queue *= scale;
        if (ration_open(&options, &r, &error) == 0)
            return r;
    }
    fprintf(stderr, "bench-algorithms: %s\n", error.text);
    exit(1);
}

/* A place is held for 2 s, and frees itself. */
static void decide(struct ration *r, const struct row *row, struct ration_charge *c, int64_t now)
{
    uint64_t lease;
    int code = row->algorithm == RATION_CONCURRENCY ? ration_acquire(r, c, 2 * SECOND, now, &lease)
                                                    : ration_take(r, c, now);

    if (code != 0) {
        fprintf(stderr, "bench-algorithms: %s: %s\n", row->name, ration_error_text(code));
        exit(1);
    }
}

/* How many of the first `count` times lie in the `length` that ends at `end`, which is included. */
static size_t within(const int64_t *times, size_t count, int64_t end, int64_t length)
{
    size_t n = 0;

    for (size_t i = count; i > 0 && times[i - 1] > end - length; i--)
        n += times[i - 1] <= end;
    return n;
}

/* The first multiple of a minute on the table's time line that is still to come. */
static int64_t next_boundary(const struct ration *r)
{
    return (ration_now(r) / MINUTE + 1) * MINUTE;
}

static void run(const struct row *row, const struct trace *trace, struct result *out)
{
    struct ration *r = open_row(row, 1);
    int64_t start = next_boundary(r);
    struct ration_charge c = {.key = "client", .key_len = 6, .cost = 1};

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < trace->count; i++) {
        decide(r, row, &c, start + trace->at[i]);
        int64_t when = trace->at[i] + (c.verdict.allowed ? c.verdict.delay_ns : 0);
        bool room = within(out->admitted, out->count, when, MINUTE) < AMOUNT;

        out->wrong_admissions += c.verdict.allowed && !room;
        out->wrong_refusals += !c.verdict.allowed && room;
        if (c.verdict.allowed)
            out->admitted[out->count++] = when;
    }
    ration_close(r);
}

static size_t most_in(const struct result *result, int64_t length)
{
    size_t most = 0;

    for (size_t i = 0; i < result->count; i++) {
        size_t n = within(result->admitted, i + 1, result->admitted[i], length);

        most = n > most ? n : most;
    }
    return most;
}

/* Of a full table whose clients have all spent all they have. */
static double bytes_per_client(const struct row *row)
{
    struct ration *r = open_row(row, 1);
    struct ration_memory memory;

    ration_memory(r, ration_now(r), &memory);
    ration_close(r);
    return (double)memory.bytes / (double)memory.capacity;
}

static void print_exact(void)
{
    printf("| algorithm | limit | admitted of %zu | wrongly admitted | wrongly refused | most in a "
           "minute | "
           "boundary: most in 2 s | boundary: most in a minute | bytes per client |\n"
           "|---|---|---|---|---|---|---|---|---|\n",
           recorded.count);
    for (size_t i = 0; i < ROWS; i++) {
        const struct result *result = &on_trace[i];

        run(&rows[i], &recorded, &on_trace[i]);
        run(&rows[i], &boundary, &at_boundary);
        printf("| %s | `%s` | %zu |", rows[i].name, rows[i].text, result->count);
        if (rows[i].algorithm == RATION_CONCURRENCY)
            printf(" not a rate | not a rate |");
        else
            printf(" %zu | %zu |", result->wrong_admissions, result->wrong_refusals);
        printf(" %zu | %zu | %zu | %.0f |\n", most_in(result, MINUTE),
               most_in(&at_boundary, 2 * SECOND), most_in(&at_boundary, MINUTE),
               bytes_per_client(&rows[i]));
    }
}

/* --- what it costs ----------------------------------------------------------------- */

struct stepped {
    struct ration *r;
    const struct row *row;
    struct ration_charge c;
    int64_t now, pace;
};

static void step(void *context, uint64_t count)
{
    struct stepped *s = context;

    for (uint64_t i = 0; i < count; i++)
        decide(s->r, s->row, &s->c, s->now += s->pace);
}

/* Of one client that asks each millisecond; the key is hashed and the time given. Limits are ten
 * times as large for admissions, so that none is refused while they are counted. */
static double instructions(const struct row *row, bool refused)
{
    struct stepped s = {.r = open_row(row, refused ? 1 : 10), .row = row, .pace = SECOND / 1000};

    s.now = next_boundary(s.r);
    s.c = (struct ration_charge){.hash = ration_hash(s.r, 0, "client", 6), .cost = 1};
    step(&s, refused ? 150 : 20);
    double counted = bench_steps(step, &s, 1);

    if (s.c.verdict.allowed == refused) {
        fprintf(stderr, "bench-algorithms: %s: %s instead\n", row->name,
                refused ? "admitted" : "refused");
        exit(1);
    }
    ration_close(s.r);
    return counted;
}

static void print_costs(void)
{
    puts("\n| algorithm | instructions of an admission | of a refusal |\n|---|---|---|");
    for (size_t i = 0; i < ROWS; i++) {
        printf("| %s | %.0f | %.0f |\n", rows[i].name, instructions(&rows[i], false),
               instructions(&rows[i], true));
        fflush(stdout);
    }
}

/* --- the picture --------------------------------------------------------------------- */

static const char style[] =
    "<style>\n"
    "  text { fill: #24292f; } .back { fill: #ffffff; } .asked { fill: #9aa4af; } .line { stroke: "
    "#1f6feb; fill: none; }\n"
    "  .over { fill: #cf222e; } .limit { stroke: #57606a; stroke-dasharray: 5 4; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e6edf3; } .back { fill: #0d1117; } .asked { fill: #6e7681; } .line { "
    "stroke: #58a6ff; }\n"
    "    .over { fill: #ff7b72; } .limit { stroke: #8b949e; }\n"
    "  }\n"
    "</style>\n";

#define LEFT 12
#define WIDE 720
#define TALL 74 /* of one strip */
#define TOP 40

static double x_of(int second)
{
    return LEFT + (double)second * (WIDE - 2 * LEFT) / TRACE_SECONDS;
}

/* 220 requests in a minute reach the top of a strip. */
static double y_of(size_t strip, size_t in_minute)
{
    double share = (double)in_minute / 220;

    return TOP + (double)TALL * ((double)strip + 1) - (TALL - 22) * (share > 1 ? 1 : share);
}

static size_t in_last_minute(const int64_t *times, size_t count, int second)
{
    return within(times, count, second * SECOND, MINUTE);
}

/* Bars of what was asked in each 3 s, ten of them a third of a strip. */
static void draw_asked(FILE *f)
{
    fputs("<g class=\"asked\">", f);
    for (int s = SAMPLE; s <= TRACE_SECONDS; s += SAMPLE) {
        size_t n = within(recorded.at, recorded.count, s * SECOND, SAMPLE * SECOND);
        double height = (double)n * (TALL - 22) / 80;

        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"1.8\" height=\"%.1f\"/>", x_of(s - SAMPLE),
                TOP + TALL - height, height);
    }
    fputs("</g>\n", f);
}

static void draw_strip(FILE *f, size_t strip, const struct row *row, const struct result *result)
{
    fprintf(f, "<g class=\"over\">");
    for (int s = 0; s <= TRACE_SECONDS; s += SAMPLE) {
        size_t n = in_last_minute(result->admitted, result->count, s);

        if (n > AMOUNT)
            fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"2.4\" height=\"%.1f\"/>", x_of(s) - 1.2,
                    y_of(strip, n), y_of(strip, AMOUNT) - y_of(strip, n));
    }
    fprintf(f,
            "</g>\n<line class=\"limit\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n"
            "<polyline class=\"line\" stroke-width=\"1.5\" points=\"",
            LEFT, y_of(strip, AMOUNT), WIDE - LEFT, y_of(strip, AMOUNT));
    for (int s = 0; s <= TRACE_SECONDS; s += SAMPLE)
        fprintf(f, "%.1f,%.1f ", x_of(s),
                y_of(strip, in_last_minute(result->admitted, result->count, s)));
    fprintf(f, "\"/>\n<text x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT, y_of(strip, 220) - 4,
            row->name);
}

static void draw(const char *path)
{
    FILE *f = fopen(path, "w");
    size_t tall = TOP + (ROWS + 1) * TALL + 14;

    if (!f) {
        perror(path);
        exit(1);
    }
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %zu\" "
            "font-family=\"sans-serif\" "
            "font-size=\"12\">\n%s<rect class=\"back\" width=\"%d\" height=\"%zu\"/>\n"
            "<text x=\"%d\" y=\"18\" font-size=\"13\">Admitted in the last minute, over 15 "
            "minutes. Dashed: 100. Red: "
            "more than that.</text>\n<text x=\"%d\" y=\"%d\">requests that come</text>\n",
            WIDE, tall, style, WIDE, tall, LEFT, LEFT, TOP + 2);
    draw_asked(f);
    for (size_t i = 0; i < ROWS; i++)
        draw_strip(f, i + 1, &rows[i], &on_trace[i]);
    fputs("</svg>\n", f);
    if (fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    bool exact = false;
    const char *svg = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--exact") == 0)
            exact = true;
        else if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            svg = argv[++i];
        else {
            fprintf(stderr, "usage: bench-algorithms [--exact] [--svg FILE]\n");
            return 2;
        }
    }
    make_traces();
    print_exact();
    if (!exact)
        print_costs();
    if (svg)
        draw(svg);
    return 0;
}
