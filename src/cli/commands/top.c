/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration top`: how much is decided and refused, and whose requests are refused
 * most; live on a terminal, else once.
 *
 * The daemon tells totals. What happens per second is the difference between
 * two samples.
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
#include "cli/output/pretty.h"
#include "cli/output/screen.h"

#define TEXT_SIZE 128 /* names of rules and keys are cut to this */
#define ROWS_MAX 1000 /* the most that the daemon lists */

struct row {
    char rule[TEXT_SIZE], key[TEXT_SIZE];
    size_t key_len; /* the key may contain NUL */
    uint64_t refused;
    double per_second; /* negative: unknown, the key was not in the previous list */
};

struct sample {
    int64_t at_ns; /* monotonic; 0: none yet */
    uint64_t allowed, refused;
    double allowed_per_second, refused_per_second;
    char version[32];
    int64_t uptime_ns;
    uint64_t rules_version;
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

static bool ask_status(struct rn_daemon *d, struct sample *s)
{
    const struct rn_cli_json *decisions, *rules;
    struct rn_slice version;

    if (!rn_daemon_try(d, &(struct rn_daemon_request){.method = "GET", .target = "/v1/status"}))
        return false;
    s->at_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    decisions = rn_cli_json_get(d->answer, "decisions");
    rules = rn_cli_json_get(d->answer, "rules");
    version = rn_cli_json_text(d->answer, "version");
    snprintf(s->version, sizeof s->version, "%.*s", (int)version.len, version.data);
    s->uptime_ns = rn_cli_json_seconds(d->answer, "uptime");
    s->shadow = rn_cli_json_is_true(d->answer, "shadow");
    rn_cli_json_u64(rules, "version", &s->rules_version);
    rn_cli_json_u64(decisions, "allowed", &s->allowed);
    rn_cli_json_u64(decisions, "refused", &s->refused);
    return true;
}

static bool ask_keys(struct rn_daemon *d, struct sample *s)
{
    size_t len;

    if (!rn_daemon_try(
            d, &(struct rn_daemon_request){.method = "GET", .target = "/v1/top?count=1000"}))
        return false;
    s->row_count = 0;
    for (const struct rn_cli_json *v = rn_cli_json_list(d->answer, "keys");
         v != NULL && s->row_count < ROWS_MAX; v = v->next) {
        struct row *row = &s->rows[s->row_count++];

        copy(row->rule, &len, rn_cli_json_text(v, "rule"));
        copy(row->key, &row->key_len, rn_cli_json_text(v, "key"));
        row->refused = 0;
        row->per_second = -1;
        rn_cli_json_u64(v, "refused", &row->refused);
    }
    return true;
}

static const struct row *find_row(const struct sample *s, const struct row *like)
{
    for (size_t i = 0; i < s->row_count; i++)
        if (strcmp(s->rows[i].rule, like->rule) == 0 && s->rows[i].key_len == like->key_len &&
            memcmp(s->rows[i].key, like->key, like->key_len) == 0)
            return &s->rows[i];
    return NULL;
}

/* A restarted daemon counts from 0. */
static double per_second(uint64_t now, uint64_t before, double seconds)
{
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void compare(struct sample *now, const struct sample *before)
{
    double seconds = (double)(now->at_ns - before->at_ns) / (double)RN_SECOND_NS;

    now->allowed_per_second = per_second(now->allowed, before->allowed, seconds);
    now->refused_per_second = per_second(now->refused, before->refused, seconds);
    for (size_t i = 0; i < now->row_count; i++) {
        const struct row *row = find_row(before, &now->rows[i]);

        /* The daemon's list is bounded: a new key inherits the count of the key it replaces. So
         * only a key that was in the previous list has a rate. */
        now->rows[i].per_second =
            row != NULL ? per_second(now->rows[i].refused, row->refused, seconds) : -1;
    }
}

/* Takes a sample: samples[0] is the newest, samples[1] the previous one. */
static bool take_sample(struct rn_daemon *d, struct sample samples[2])
{
    struct sample next = samples[1];

    next.allowed = next.refused = next.rules_version = 0;
    if (!ask_status(d, &next) || d->status != 200 || !ask_keys(d, &next) || d->status != 200)
        return false;
    samples[1] = samples[0];
    samples[0] = next;
    if (samples[1].at_ns != 0)
        compare(&samples[0], &samples[1]);
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
    rn_output_put(out, RN_PLAIN, " at %s, up %s, rules version %" PRIu64, d->http.address.text,
                  rn_output_time(s->uptime_ns, text), s->rules_version);
    if (s->shadow)
        rn_output_put(out, RN_ODD, ", shadow mode");
    rn_output_put(out, RN_PLAIN,
                  "\n%.0f decisions/s: ", s->allowed_per_second + s->refused_per_second);
    rn_output_put(out, RN_GOOD, "%.0f allowed/s", s->allowed_per_second);
    rn_output_put(out, RN_PLAIN, ", ");
    rn_output_put(out, s->refused_per_second > 0 ? RN_BAD : RN_PLAIN, "%.0f refused/s",
                  s->refused_per_second);
    rn_output_put(out, RN_PLAIN, ", block rate %.1f %%\n", 100 * block_rate(s));
    rn_output_put(out, RN_DIM, "since the start: %" PRIu64 " allowed, %" PRIu64 " refused\n\n",
                  s->allowed, s->refused);
}

static void put_rows(const struct rn_output *out, const struct sample *s, uint64_t most)
{
    static const char *const titles[] = {">refused", ">per second", "rule", "key"};
    struct rn_columns columns;

    if (s->row_count == 0) {
        rn_output_put(out, RN_PLAIN, "no request has been refused\n");
        return;
    }
    rn_columns_init(&columns, titles, 4);
    for (size_t i = 0; i < s->row_count && i < most; i++) {
        const struct row *row = &s->rows[i];

        rn_columns_put(&columns, "%" PRIu64, row->refused);
        if (row->per_second < 0)
            rn_columns_put(&columns, "-");
        else
            rn_columns_put(&columns, "%.1f", row->per_second);
        rn_columns_text(&columns, rn_slice_of(row->rule));
        rn_columns_text(&columns, (struct rn_slice){row->key, row->key_len});
    }
    rn_columns_write(&columns, out, 0);
    rn_columns_done(&columns);
}

static void put_json(const struct sample *s, uint64_t most)
{
    struct rn_pretty json = RN_PRETTY_TO(stdout);

    rn_pretty_open(&json, NULL, '{');
    rn_pretty_uint(&json, "allowed", s->allowed);
    rn_pretty_uint(&json, "refused", s->refused);
    rn_pretty_number(&json, "allowed_per_second", s->allowed_per_second);
    rn_pretty_number(&json, "refused_per_second", s->refused_per_second);
    rn_pretty_number(&json, "block_rate", block_rate(s));
    rn_pretty_bool(&json, "shadow", s->shadow);
    rn_pretty_open(&json, "keys", '[');
    for (size_t i = 0; i < s->row_count && i < most; i++) {
        rn_pretty_open(&json, NULL, '{');
        rn_pretty_text(&json, "rule", rn_slice_of(s->rows[i].rule));
        rn_pretty_text(&json, "key", (struct rn_slice){s->rows[i].key, s->rows[i].key_len});
        rn_pretty_uint(&json, "refused", s->rows[i].refused);
        if (s->rows[i].per_second < 0)
            rn_pretty_null(&json, "per_second");
        else
            rn_pretty_number(&json, "per_second", s->rows[i].per_second);
        rn_pretty_close(&json, '}');
    }
    rn_pretty_close(&json, ']');
    rn_pretty_close(&json, '}');
}

/* --- once, and live ---------------------------------------------------------------- */

static int show_once(struct rn_daemon *d, struct sample samples[2])
{
    struct rn_output out = rn_output_to(stdout, d->options);
    int64_t interval_ns = d->options->interval_ns;
    struct timespec wait = {interval_ns / RN_SECOND_NS, interval_ns % RN_SECOND_NS};

    if (!take_sample(d, samples))
        goto failed;
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        ;
    if (!take_sample(d, samples))
        goto failed;
    if (d->options->json) {
        put_json(&samples[0], d->options->count);
    } else {
        put_head(&out, d, &samples[0]);
        put_rows(&out, &samples[0], d->options->count);
    }
    return RN_EXIT_OK;
failed:
    rn_daemon_complain(d);
    return RN_EXIT_ERROR;
}

/* Keeps trying while the daemon is away. */
static void draw(struct rn_screen *screen, const struct rn_daemon *d, const struct sample *s,
                 bool fresh)
{
    char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len);
    struct rn_output out = rn_output_to(stdout, d->options);

    if (memory == NULL)
        return;
    out.file = memory;
    put_head(&out, d, s);
    if (!fresh)
        rn_output_put(&out, RN_BAD, "%s; trying again\n\n", d->http.problem);
    put_rows(&out, s, d->options->count);
    fclose(memory);
    rn_screen_show(screen, (struct rn_slice){text, len});
    free(text);
}

static int show_live(struct rn_daemon *d, struct sample samples[2])
{
    struct rn_screen screen;
    enum rn_screen_event event = RN_SCREEN_TIME;
    bool fresh = true;

    if (!take_sample(d, samples)) {
        rn_daemon_complain(d);
        return RN_EXIT_ERROR;
    }
    if (!rn_screen_open(&screen)) {
        rn_output_error("this terminal cannot be used: %s; --once works without one",
                        strerror(errno));
        return RN_EXIT_ERROR;
    }
    d->http.wake_fd = screen.wake_fd;
    for (int64_t next_ns = samples[0].at_ns; event != RN_SCREEN_QUIT;) {
        draw(&screen, d, &samples[0], fresh);
        if (event == RN_SCREEN_TIME)
            next_ns = rn_clock_read_ns(CLOCK_MONOTONIC) + d->options->interval_ns;
        event = rn_screen_wait(&screen, next_ns);
        if (event == RN_SCREEN_TIME)
            fresh = take_sample(d, samples);
    }
    rn_screen_close(&screen);
    return RN_EXIT_OK;
}

static int run(struct rn_daemon *d)
{
    struct sample samples[2] = {{.at_ns = 0}, {.at_ns = 0}};
    bool live =
        !d->options->once && !d->options->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    int status = RN_EXIT_ERROR;

    for (int i = 0; i < 2; i++)
        samples[i].rows = calloc(ROWS_MAX, sizeof *samples[i].rows);
    if (samples[0].rows == NULL || samples[1].rows == NULL)
        rn_output_error("out of memory");
    else
        status = live ? show_live(d, samples) : show_once(d, samples);
    free(samples[0].rows);
    free(samples[1].rows);
    return status;
}

int rn_command_top(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, run);
}
