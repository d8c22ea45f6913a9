/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of `ration bench`, for people or as JSON.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/bench/bench.h"
#include "cli/output/columns.h"
#include "rules/report/report.h"

struct result {
    uint64_t requests, allowed, refused, errors, unsent, unanswered;
    double seconds, per_second;
    const char *problem; /* of any thread; empty: none */
    bool broken;
    struct rn_latency latency;
};

static const char *const titles[] = {">min", ">p50", ">p90", ">p99", ">p99.9", ">max"};
#define QUANTILES (sizeof titles / sizeof titles[0])

static int64_t quantile(const struct rn_latency *h, size_t i)
{
    static const double percents[QUANTILES] = {0, 50, 90, 99, 99.9, 0};

    return i == 0               ? h->min_ns
           : i == QUANTILES - 1 ? h->max_ns
                                : rn_latency_quantile(h, percents[i]);
}

static void add_up(const struct rn_bench *b, struct result *r)
{
    int64_t last_ns = b->plan.start_ns;

    r->problem = "";
    for (uint32_t i = 0; i < b->thread_count; i++) {
        const struct rn_bench_thread *d = b->threads[i];

        r->requests += d->answered;
        r->allowed += d->allowed;
        r->refused += d->refused;
        r->errors += d->errors;
        r->unsent += d->unsent;
        r->unanswered += d->unanswered;
        r->broken |= d->broken;
        if (d->problem[0] != '\0')
            r->problem = d->problem;
        if (d->last_ns > last_ns)
            last_ns = d->last_ns;
        rn_latency_merge(&r->latency, &d->latency);
    }
    r->seconds = (double)(last_ns - b->plan.start_ns) / (double)RN_SECOND_NS;
    r->per_second = r->seconds > 0 ? (double)r->requests / r->seconds : 0;
}

/* --- for people -------------------------------------------------------------------- */

static void put_count(const struct rn_output *out, const char *label, uint64_t count)
{
    rn_output_put(out, RN_DIM, "%-12s", label);
    rn_output_put(out, RN_PLAIN, "%" PRIu64 "\n", count);
}

static void put(const struct rn_bench *b, const struct result *r)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    struct rn_output out = rn_output_to(stdout, b->options);
    struct rn_columns columns;

    rn_output_put(&out, RN_DIM, "%-12s", "requests");
    rn_output_put(&out, RN_PLAIN, "%" PRIu64 " in %.2f s\n", r->requests, r->seconds);
    rn_output_put(&out, RN_DIM, "%-12s", "per second");
    rn_output_put(&out, RN_BOLD, "%.0f\n", r->per_second);
    put_count(&out, "allowed", r->allowed);
    put_count(&out, "refused", r->refused);
    put_count(&out, "errors", r->errors);
    if (r->unanswered > 0)
        put_count(&out, "unanswered", r->unanswered);
    if (r->unsent > 0)
        put_count(&out, "never sent", r->unsent);
    if (r->latency.count == 0)
        return;
    rn_output_put(&out, RN_PLAIN, "\nlatency%s\n",
                  b->options->rate != 0 ? ", from when each request was due" : "");
    rn_columns_init(&columns, titles, QUANTILES);
    for (size_t i = 0; i < QUANTILES; i++) { /* to three digits: 12.3 us, 1.23 ms */
        double value = (double)quantile(&r->latency, i);
        int unit = 0;

        for (; value >= 999.5 && unit < 3; unit++)
            value /= 1000;
        rn_columns_put(&columns, "%.*f %s",
                       unit == 0 || value >= 99.95 ? 0
                       : value >= 9.995            ? 1
                                                   : 2,
                       value, units[unit]);
    }
    rn_columns_write(&columns, &out, 0);
    rn_columns_done(&columns);
}

/* --- for programs ------------------------------------------------------------------ */

static void put_json(const struct rn_bench *b, const struct result *r)
{
    const struct rn_latency *h = &r->latency;
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};

    rn_members_open(&m, NULL, '{');
    rn_members_u64(&m, "requests", r->requests);
    rn_output_number(&m, "seconds", r->seconds, 3);
    rn_output_number(&m, "per_second", r->per_second, 3);
    rn_output_number(&m, "cpu_seconds", b->cpu_seconds, 3);
    rn_members_u64(&m, "allowed", r->allowed);
    rn_members_u64(&m, "refused", r->refused);
    rn_members_u64(&m, "errors", r->errors);
    rn_members_u64(&m, "unanswered", r->unanswered);
    rn_members_u64(&m, "never_sent", r->unsent);
    rn_members_open(&m, "latency", '{');
    for (size_t i = 0; i < QUANTILES; i++)
        rn_output_number(&m, titles[i] + 1, (double)quantile(h, i) / 1e9, 9);
    rn_members_close(&m, '}');
    rn_members_close(&m, '}');
    rn_output_json(&text);
}

int rn_bench_report(const struct rn_bench *b)
{
    struct result *r = calloc(1, sizeof *r);
    int status = RN_EXIT_ERROR;

    if (r == NULL) {
        rn_output_error("out of memory");
        return status;
    }
    add_up(b, r);
    if (b->options->json)
        put_json(b, r);
    else if (r->requests > 0 || !r->broken)
        put(b, r);
    if (r->broken)
        rn_output_error("%s", r->problem);
    else if (r->problem[0] != '\0')
        rn_output_error("the first error: %s", rn_excerpt(rn_slice_of(r->problem)).text);
    if (!r->broken && r->errors == 0 && r->unanswered == 0)
        status = RN_EXIT_OK;
    free(r);
    return status;
}
