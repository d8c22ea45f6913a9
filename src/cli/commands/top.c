/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration top`: how much is decided and refused, and which clients are refused most; live on a
 * terminal, else once. The daemon counts totals; the rate is the difference of two samples.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/client/daemon.h"
#include "cli/output/columns.h"
#include "cli/output/screen.h"

#define TEXT_SIZE 128 /* names of rules and keys are cut to this */
#define ROWS_MAX 1000 /* the most that the daemon lists */

struct row {
    char rule[TEXT_SIZE], key[TEXT_SIZE];
    size_t key_len; /* the key may contain NUL */
    uint64_t refused;
    double per_second; /* negative: unknown, the key was not in the previous list */
    int64_t ban_ns;    /* 0: no rule bans it */
};

struct sample {
    int64_t at_ns; /* monotonic; 0: none yet */
    uint64_t allowed, refused;
    double allowed_per_second, refused_per_second;
    char version[32];
    int64_t uptime_ns;
    uint64_t rules_version;
    uint64_t waiting, lines; /* requests in line, and how many lines they are in */
    bool shadow;
    struct row *rows; /* all keys that the daemon lists, so that a new row of the table often has a
                         previous count */
    size_t row_count;
};

/* --- samples ----------------------------------------------------------------------- */

static void copy(char to[TEXT_SIZE], size_t *len, struct rn_slice text)
{
    *len = text.len < TEXT_SIZE ? text.len : TEXT_SIZE - 1;
    memcpy(to, text.data == NULL ? "" : text.data, *len);
    to[*len] = '\0';
}

/* A restarted daemon counts from 0. */
static double per_second(uint64_t now, uint64_t before, double seconds)
{
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

/* Reads /v1/top, and the rates since the previous sample. The daemon's list is bounded: a new key
 * inherits the count of the key it replaces. So only a key that was in the previous list has a
 * rate. */
static void read_rows(const struct rn_cli_json *keys, struct sample *now,
                      const struct sample *before, double seconds)
{
    size_t len;

    now->row_count = 0;
    for (const struct rn_cli_json *v = keys; v != NULL && now->row_count < ROWS_MAX; v = v->next) {
        struct row *row = &now->rows[now->row_count++];

        copy(row->rule, &len, rn_cli_json_text(v, "rule"));
        copy(row->key, &row->key_len, rn_cli_json_text(v, "key"));
        row->refused = 0;
        row->per_second = -1;
        row->ban_ns = rn_cli_json_seconds(v, "banned_for");
        rn_cli_json_u64(v, "refused", &row->refused);
        for (size_t i = 0; before->at_ns != 0 && i < before->row_count; i++) {
            const struct row *b = &before->rows[i];

            if (strcmp(b->rule, row->rule) == 0 && b->key_len == row->key_len &&
                memcmp(b->key, row->key, row->key_len) == 0)
                row->per_second = per_second(row->refused, b->refused, seconds);
        }
    }
}

/* Takes a sample: samples[0] is the newest, samples[1] the previous one. */
static bool take_sample(struct rn_daemon *d, struct sample samples[2])
{
    struct sample next = {.rows = samples[1].rows};
    const struct sample *before = &samples[0];
    const struct rn_cli_json *decisions;
    struct rn_slice version;
    double seconds;

    if (!rn_daemon_try(d, &(struct rn_daemon_request){.method = "GET", .target = "/v1/status"}) ||
        d->status != 200)
        return false;
    next.at_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    decisions = rn_cli_json_get(d->answer, "decisions");
    version = rn_cli_json_text(d->answer, "version");
    snprintf(next.version, sizeof next.version, "%.*s", (int)version.len, version.data);
    next.uptime_ns = rn_cli_json_seconds(d->answer, "uptime");
    next.shadow = rn_cli_json_is_true(d->answer, "shadow");
    rn_cli_json_u64(rn_cli_json_get(d->answer, "rules"), "version", &next.rules_version);
    rn_cli_json_u64(decisions, "allowed", &next.allowed);
    rn_cli_json_u64(decisions, "refused", &next.refused);
    rn_cli_json_u64(rn_cli_json_get(d->answer, "waiting"), "requests", &next.waiting);
    rn_cli_json_u64(rn_cli_json_get(d->answer, "waiting"), "lines", &next.lines);
    seconds = (double)(next.at_ns - before->at_ns) / (double)RN_SECOND_NS;
    if (before->at_ns != 0) {
        next.allowed_per_second = per_second(next.allowed, before->allowed, seconds);
        next.refused_per_second = per_second(next.refused, before->refused, seconds);
    }
    if (!rn_daemon_try(
            d, &(struct rn_daemon_request){.method = "GET", .target = "/v1/top?count=1000"}) ||
        d->status != 200)
        return false;
    read_rows(rn_cli_json_list(d->answer, "keys"), &next, before, seconds);
    samples[1] = samples[0];
    samples[0] = next;
    return true;
}

static double block_rate(const struct sample *s)
{
    double refused = s->refused_per_second, all = s->allowed_per_second + refused;

    return all > 0 ? refused / all : 0;
}

/* --- for people -------------------------------------------------------------------- */

static void put_head(const struct rn_output *out, const struct rn_daemon *d, const struct sample *s)
{
    char text[RN_TIME_TEXT];

    rn_output_put(out, RN_BOLD, "rationd %s", s->version);
    rn_output_put(out, RN_PLAIN, " at %s, up %s, rules version %" PRIu64, d->endpoint.address.text,
                  rn_output_time(s->uptime_ns, text), s->rules_version);
    if (s->shadow)
        rn_output_put(out, RN_ODD, ", shadow mode");
    rn_output_put(out, RN_PLAIN,
                  "\n%.0f decisions/s: ", s->allowed_per_second + s->refused_per_second);
    rn_output_put(out, RN_GOOD, "%.0f allowed/s", s->allowed_per_second);
    rn_output_put(out, RN_PLAIN, ", ");
    rn_output_put(out, s->refused_per_second > 0 ? RN_BAD : RN_PLAIN, "%.0f refused/s",
                  s->refused_per_second);
    rn_output_put(out, RN_PLAIN, ", block rate %.1f %%", 100 * block_rate(s));
    if (s->waiting > 0)
        rn_output_put(out, RN_ODD, "; %" PRIu64 " wait%s in %" PRIu64 " line%s", s->waiting,
                      s->waiting == 1 ? "s" : "", s->lines, s->lines == 1 ? "" : "s");
    rn_output_put(out, RN_PLAIN, "\n");
    rn_output_put(out, RN_DIM, "since the start: %" PRIu64 " allowed, %" PRIu64 " refused\n\n",
                  s->allowed, s->refused);
}

static void put_rows(const struct rn_output *out, const struct sample *s, uint64_t most)
{
    static const char *const titles[] = {">refused", ">per second", "rule", "key", "banned for"};
    struct rn_columns columns;
    char text[RN_TIME_TEXT];

    if (s->row_count == 0) {
        rn_output_put(out, RN_PLAIN, "no request has been refused\n");
        return;
    }
    rn_columns_init(&columns, titles, 5);
    for (size_t i = 0; i < s->row_count && i < most; i++) {
        const struct row *row = &s->rows[i];

        rn_columns_put(&columns, "%" PRIu64, row->refused);
        if (row->per_second < 0)
            rn_columns_put(&columns, "-");
        else
            rn_columns_put(&columns, "%.1f", row->per_second);
        rn_columns_text(&columns, rn_slice_of(row->rule));
        rn_columns_text(&columns, (struct rn_slice){row->key, row->key_len});
        rn_columns_put(&columns, "%s", row->ban_ns != 0 ? rn_output_time(row->ban_ns, text) : "");
    }
    rn_columns_write(&columns, out, 0);
    rn_columns_done(&columns);
}

static void put_json(const struct sample *s, uint64_t most)
{
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};

    rn_members_open(&m, NULL, '{');
    rn_members_u64(&m, "allowed", s->allowed);
    rn_members_u64(&m, "refused", s->refused);
    rn_output_number(&m, "allowed_per_second", s->allowed_per_second, 3);
    rn_output_number(&m, "refused_per_second", s->refused_per_second, 3);
    rn_output_number(&m, "block_rate", block_rate(s), 3);
    rn_members_bool(&m, "shadow", s->shadow);
    rn_members_u64(&m, "waiting", s->waiting);
    rn_members_open(&m, "keys", '[');
    for (size_t i = 0; i < s->row_count && i < most; i++) {
        rn_members_open(&m, NULL, '{');
        rn_members_text(&m, "rule", rn_slice_of(s->rows[i].rule));
        rn_members_text(&m, "key", (struct rn_slice){s->rows[i].key, s->rows[i].key_len});
        rn_members_u64(&m, "refused", s->rows[i].refused);
        if (s->rows[i].per_second < 0)
            rn_members_null(&m, "per_second");
        else
            rn_output_number(&m, "per_second", s->rows[i].per_second, 3);
        if (s->rows[i].ban_ns != 0)
            rn_members_seconds(&m, "banned_for", s->rows[i].ban_ns);
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_members_close(&m, '}');
    rn_output_json(&text);
}

/* --- once, and live ---------------------------------------------------------------- */

/* Keeps trying while the daemon is away. */
static int show_live(struct rn_daemon *d, struct sample samples[2])
{
    struct rn_output out = rn_output_to(stdout, d->options);
    struct rn_screen screen;
    enum rn_screen_event event = RN_SCREEN_TIME;
    bool fresh = true;

    if (!rn_screen_open(&screen)) {
        rn_output_error("this terminal cannot be used: %s; --once works without one",
                        strerror(errno));
        return RN_EXIT_ERROR;
    }
    d->http.until.wake_fd = screen.wake_fd;
    for (int64_t next_ns = samples[0].at_ns; event != RN_SCREEN_QUIT;) {
        char *text = NULL;
        size_t len = 0;

        out.file = open_memstream(&text, &len);
        if (out.file != NULL) {
            put_head(&out, d, &samples[0]);
            if (!fresh)
                rn_output_put(&out, RN_BAD, "%s; trying again\n\n", d->http.problem);
            put_rows(&out, &samples[0], d->options->count);
            fclose(out.file);
            rn_screen_show(&screen, (struct rn_slice){text, len});
            free(text);
        }
        if (event == RN_SCREEN_TIME)
            next_ns = rn_clock_read_ns(CLOCK_MONOTONIC) + d->options->interval_ns;
        event = rn_screen_wait(&screen, next_ns);
        if (event == RN_SCREEN_TIME)
            fresh = take_sample(d, samples);
    }
    rn_screen_close(&screen);
    return RN_EXIT_OK;
}

int rn_command_top(struct rn_daemon *d)
{
    struct sample samples[2] = {{.rows = calloc(ROWS_MAX, sizeof *samples->rows)},
                                {.rows = calloc(ROWS_MAX, sizeof *samples->rows)}};
    bool live =
        !d->options->once && !d->options->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct rn_output out = rn_output_to(stdout, d->options);
    int64_t interval_ns = d->options->interval_ns;
    struct timespec wait = {interval_ns / RN_SECOND_NS, interval_ns % RN_SECOND_NS};
    int status = RN_EXIT_ERROR;
    bool ok = samples[0].rows != NULL && samples[1].rows != NULL;

    if (!ok)
        rn_output_error("out of memory");
    else if (!(ok = take_sample(d, samples)))
        rn_daemon_complain(d);
    if (ok && live) {
        status = show_live(d, samples);
    } else if (ok) {
        while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
            ;
        if (!take_sample(d, samples)) {
            rn_daemon_complain(d);
        } else if (d->options->json) {
            put_json(&samples[0], d->options->count);
            status = RN_EXIT_OK;
        } else {
            put_head(&out, d, &samples[0]);
            put_rows(&out, &samples[0], d->options->count);
            status = RN_EXIT_OK;
        }
    }
    free(samples[0].rows);
    free(samples[1].rows);
    return status;
}
