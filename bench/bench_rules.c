/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What finding the rules of a request costs, keys included, for 10, 1,000 and
 * 10,000 rules of which 10 or 1 apply. The rules that do not apply must not
 * show: time and instructions stay within 1.5 times from 10 to 10,000. Requests
 * take turns, so that a large ruleset is not measured on one warm corner of it.
 *
 *   bench-rules
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rules/match/match.h"
#include "rules/ruleset.h"
#include "steps.h"

#define ROUNDS 9
#define REPEAT 20000
#define STEPPED 8 /* requests: stepping is slow */
#define REQUESTS 64
#define GIVEN 7

static unsigned missed;

struct text {
    char *bytes;
    size_t len, room;
};

/* Requests in turns against one ruleset. */
struct work {
    struct rn_ruleset *ruleset;
    struct ration_request requests[REQUESTS];
    struct ration_attribute given[REQUESTS][GIVEN];
    char values[REQUESTS][4][40];
    unsigned count;
    struct rn_matches matches;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void write_text(struct text *text, const char *format, unsigned a, unsigned b, unsigned c)
{
    char line[300];
    int len = snprintf(line, sizeof line, format, a, b, c);

    if (text->len + (size_t)len > text->room) {
        text->room = 2 * text->room + sizeof line;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            abort();
    }
    memcpy(text->bytes + text->len, line, (size_t)len);
    text->len += (size_t)len;
}

/* --- the rules --------------------------------------------------------------------- */

/* Each group of ten applies to the same requests, for reasons of all kinds. */
static void write_group(struct text *text, unsigned group)
{
    static const char *const when[] = {
        "{path: /g%u/**}",
        "{path: /g%u/**, method: [GET, POST]}",
        "{path: '/g%u/{id}/items'}",
        "{path: '/g%u/*/items', method: GET}",
        "{host: h%u.example.com}",
        "{host: h%u.example.com, path: /**}",
        "{tenant: t%u}",
        "{tenant: [t%u, nobody, somebody]}",
        "{tenant: t%u, method: {not: PUT}}",
        "{tenant: t%u, ip: 192.0.2.0/24}",
    };
    static const char *const key[] = {"ip", "[tenant, ip]", "api_key or ip"};

    for (unsigned i = 0; i < 10; i++) {
        write_text(text, "  - name: g%u-%u\n    when: ", group, i, 0);
        write_text(text, when[i], group, 0, 0);
        write_text(text, "\n    key: ", 0, 0, 0);
        write_text(text, key[i % 3], 0, 0, 0);
        write_text(text, "\n    limit: 100 per minute\n", 0, 0, 0);
    }
}

static struct text ten_apply(unsigned rules)
{
    struct text text = {0};

    write_text(&text, "limits:\n", 0, 0, 0);
    for (unsigned i = 0; i < rules / 10; i++)
        write_group(&text, i);
    return text;
}

static struct text one_applies(unsigned rules)
{
    struct text text = {0};

    write_text(&text, "limits:\n", 0, 0, 0);
    for (unsigned i = 0; i < rules; i++)
        write_text(&text,
                   "  - name: r%u\n    when: {path: /g%u/**, method: GET}\n    key: [tenant, ip]\n"
                   "    limit: 100 per minute\n",
                   i, i, 0);
    return text;
}

/* No condition tells more than a few rules apart: only all three together do. */
static struct text crossed(unsigned rules)
{
    static const char *const methods[] = {"GET", "PUT", "POST", "DELETE"};
    struct text text = {0};
    unsigned side = 1;

    while (side * side * 4 < rules)
        side++;
    write_text(&text, "limits:\n", 0, 0, 0);
    for (unsigned i = 0; i < rules; i++) {
        write_text(&text,
                   "  - name: r%u\n    when: {host: h%u.example.com, path: '/g%u/**', method: ", i,
                   i / 4 / side, i / 4 % side);
        write_text(&text, methods[i % 4], 0, 0, 0);
        write_text(&text, "}\n    key: [tenant, ip]\n    limit: 100 per minute\n", 0, 0, 0);
    }
    return text;
}

static struct rn_ruleset *parse(struct text text)
{
    struct rn_report report;
    struct rn_ruleset *ruleset;

    rn_report_init(&report);
    ruleset = rn_ruleset_parse(RN_SLICE("bench"), (struct rn_slice){text.bytes, text.len}, &report);
    if (!ruleset) {
        fprintf(stderr, "bench-rules: %s\n",
                report.kept_count ? report.kept[0].message : "out of memory");
        exit(1);
    }
    rn_report_done(&report);
    return ruleset;
}

/* --- the requests ------------------------------------------------------------------ */

static void make_request(struct work *w, unsigned i, unsigned group, const char *ip)
{
    const char *const pairs[GIVEN][2] = {
        {"method", "GET"},           {"path", w->values[i][0]}, {"host", w->values[i][1]},
        {"tenant", w->values[i][2]}, {"ip", w->values[i][3]},   {"header.user-agent", "curl/8.0"},
        {"header.accept", "*/*"},
    };

    snprintf(w->values[i][0], sizeof *w->values[i], "/g%u/4711/items?page=2", group);
    snprintf(w->values[i][1], sizeof *w->values[i], "h%u.example.com", group);
    snprintf(w->values[i][2], sizeof *w->values[i], "t%u", group);
    snprintf(w->values[i][3], sizeof *w->values[i], ip, i);
    for (unsigned n = 0; n < GIVEN; n++)
        w->given[i][n] = (struct ration_attribute){pairs[n][0], strlen(pairs[n][0]), pairs[n][1],
                                                   strlen(pairs[n][1])};
    w->requests[i] = (struct ration_request){.attributes = w->given[i], .count = GIVEN};
}

/* Spread over all groups. */
static struct work *make_work(struct text text, unsigned groups, unsigned expected, const char *ip)
{
    struct work *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    w->ruleset = parse(text);
    w->count = groups < REQUESTS ? groups : REQUESTS;
    for (unsigned i = 0; i < w->count; i++) {
        make_request(w, i, (unsigned)((uint64_t)i * groups / w->count), ip);
        rn_match_request(w->ruleset, &w->requests[i], &w->matches);
        if (w->matches.outcome != RN_MATCH_LIMITS || w->matches.count != expected) {
            fprintf(stderr, "bench-rules: %u rules apply, expected %u\n", w->matches.count,
                    expected);
            exit(1);
        }
    }
    free(text.bytes);
    return w;
}

static void free_work(struct work *w)
{
    rn_ruleset_free(w->ruleset);
    free(w);
}

static void run(void *context, uint64_t count)
{
    struct work *w = context;
    unsigned at = 0;

    for (uint64_t i = 0; i < count; i++) {
        rn_match_request(w->ruleset, &w->requests[at], &w->matches);
        at = at + 1 == w->count ? 0 : at + 1;
    }
}

static double time_ns(struct work *w)
{
    double start = seconds();

    run(w, REPEAT);
    return (seconds() - start) * 1e9 / REPEAT;
}

/* --- the rows ---------------------------------------------------------------------- */

static void verdict(const char *what, double times)
{
    bool met = times <= 1.5;

    missed += !met;
    printf("  %-50s %8.2f times  goal ≤ 1.5  %s\n", what, times, met ? "met" : "MISSED");
}

static void bench_growth(const char *title, struct text (*write)(unsigned), unsigned per_group,
                         unsigned expected)
{
    static const unsigned sizes[] = {10, 1000, 10000};
    double ns[3] = {1e9, 1e9, 1e9}, steps[3];
    struct work *works[3];

    puts(title);
    for (int i = 0; i < 3; i++)
        works[i] = make_work(write(sizes[i]), sizes[i] / per_group, expected, "192.0.2.%u");
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++) {
            double t = time_ns(works[i]);

            ns[i] = t < ns[i] ? t : ns[i];
        }
    for (int i = 0; i < 3; i++) {
        steps[i] = bench_steps(run, works[i], STEPPED);
        printf("  %6u rules %36.0f ns %10.0f instructions\n", sizes[i], ns[i], steps[i]);
        free_work(works[i]);
    }
    verdict("time, 10,000 rules against 10", ns[2] / ns[0]);
    verdict("instructions, 10,000 rules against 10", steps[2] / steps[0]);
    fflush(stdout);
}

static void bench_one(const char *what, struct text text, unsigned groups, unsigned expected,
                      const char *ip)
{
    struct work *w = make_work(text, groups, expected, ip);
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        double t = time_ns(w);

        best = t < best ? t : best;
    }
    printf("  %-48s %8.0f ns %10.0f instructions\n", what, best, bench_steps(run, w, STEPPED));
    free_work(w);
}

static void bench_load(void)
{
    struct text text = ten_apply(10000);
    double best = 1e9;

    for (int i = 0; i < 3; i++) {
        double start = seconds();
        struct rn_ruleset *ruleset = parse(text);
        double took = seconds() - start;

        best = took < best ? took : best;
        rn_ruleset_free(ruleset);
    }
    printf("  %-48s %8.1f ms (%.1f MB of text)\n", "10,000 rules, parsed, checked, indexed",
           best * 1e3, (double)text.len / 1e6);
    free(text.bytes);
}

int main(void)
{
    bench_growth("10 rules apply, of", ten_apply, 10, 10);
    bench_growth("1 rule applies, of", one_applies, 1, 1);
    puts("others, 10,000 rules");
    bench_one("50 hosts with 50 paths and 4 methods, 1 applies", crossed(10000), 50, 1,
              "192.0.2.%u");
    bench_one("1 applies, IPv6 client keyed by its /64", one_applies(10000), 10000, 1,
              "2001:db8:1:2:3:4:5:%x");
    puts("loading");
    bench_load();
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
