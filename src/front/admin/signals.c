/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals on the admin port: pushing a value, listing all with the factors of the rules that follow
 * them, and their metrics. Labels are names of a rules file, so no client can add one.
 */
#include "limiter/signals/signals.h"
#include "front/admin/admin_internal.h"

/* --- pushing ------------------------------------------------------------------------------- */

void rn_admin_put_signal(struct rn_http_context *c)
{
    struct rn_slice name = {c->rest.data + 1, c->rest.len - 1};
    struct ration_error error = {0};
    struct rn_admin_params params;

    if (c->rest.len <= 1) {
        rn_front_http_error(c, 404, "not_found",
                            "the name of the signal is missing; write /v1/signals/NAME");
        return;
    }
    if (!rn_admin_read(c, &params, RN_ADMIN_VALUE))
        return;
    if (!(params.given & RN_ADMIN_VALUE)) {
        rn_front_http_error(c, 400, "bad_request", "\"value\" is missing; write one such as 0.7");
        return;
    }
    int code = ration_signal_push(c->front->limiter, name.data, name.len, params.value, &error);

    if (code == RATION_EFULL) {
        rn_front_http_error(c, 507, "full", "%s", error.text);
    } else if (code != 0) {
        rn_front_http_error(c, 400, "bad_request", "%s", error.text);
    } else {
        struct rn_members m = rn_admin_begin(c);

        rn_members_text(&m, "signal", name);
        rn_admin_end(c, &m, 200);
    }
}

/* --- listing --------------------------------------------------------------------------------- */

static void put_number(struct rn_members *m, const char *name, double value)
{
    rn_members_name(m, name);
    rn_buf_putf(m->out, "%.9g", value);
}

static int list_signal(void *arg, const struct ration_signal_info *info)
{
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "name", (struct rn_slice){info->name, info->name_len});
    rn_members_text(m, "source", rn_slice_of(info->source));
    rn_members_text(m, "unit", rn_slice_of(info->unit));
    if (info->age_ns < 0) {
        rn_members_name(m, "value");
        rn_buf_put_literal(m->out, "null");
    } else {
        put_number(m, "value", info->value);
    }
    rn_members_seconds(m, "age", info->age_ns < 0 ? RATION_NEVER : info->age_ns);
    rn_members_bool(m, "stale", info->stale);
    rn_members_close(m, '}');
    return 0;
}

struct listing {
    struct rn_members *members;
    const struct rn_front_fleet *fleet;
};

static int list_factor(void *arg, const struct ration_rule_info *info)
{
    const struct listing *listing = arg;
    const struct rn_front_fleet *fleet = listing->fleet;
    struct rn_slice name = {info->name, info->name_len};
    struct rn_members *m = listing->members;
    struct rn_front_asked asked;

    if (!info->follows)
        return 0;
    rn_members_open(m, NULL, '{');
    rn_members_text(m, "rule", name);
    put_number(m, "factor", info->factor_percent / 100.0);
    if (fleet->asked != NULL && fleet->asked(fleet->arg, name, &asked)) {
        rn_members_open(m, "fleet", '{');
        put_number(m, "factor", asked.percent / 100.0);
        if (asked.percent < 100)
            rn_members_text(m, "node", rn_slice_of(asked.node));
        rn_members_close(m, '}');
    }
    rn_members_close(m, '}');
    return 0;
}

void rn_admin_get_signals(struct rn_http_context *c)
{
    struct rn_members m = rn_admin_begin(c);

    rn_members_open(&m, "signals", '[');
    ration_signals_each(c->front->limiter, list_signal, &m);
    rn_members_close(&m, ']');
    rn_members_open(&m, "factors", '[');
    ration_rules_each(c->front->limiter, list_factor, &(struct listing){&m, &c->front->fleet});
    rn_members_close(&m, ']');
    if (c->front->fleet.name != NULL)
        rn_members_text(&m, "node", rn_slice_of(c->front->fleet.name));
    rn_members_seconds(&m, "looked", rn_signals_age_ns(c->front->limiter));
    rn_admin_end(c, &m, 200);
}

/* --- metrics -----------------------------------------------------------------------------------
 */

struct page {
    struct rn_buf *out;
    bool stale; /* ration_signal_stale; otherwise ration_signal_value */
};

static int put_signal(void *arg, const struct ration_signal_info *info)
{
    const struct page *page = arg;
    struct rn_metrics_label labels[] = {
        RN_METRICS_LABEL("signal", ((struct rn_slice){info->name, info->name_len})),
        RN_METRICS_LABEL("source", rn_slice_of(info->source))};

    if (page->stale)
        rn_metrics_put(page->out, "ration_signal_stale", labels, 2, info->stale);
    else if (info->age_ns >= 0)
        rn_metrics_put_double(page->out, "ration_signal_value", labels, 2, info->value);
    return 0;
}

static int put_factor(void *arg, const struct ration_rule_info *info)
{
    struct rn_metrics_label label =
        RN_METRICS_LABEL("rule", ((struct rn_slice){info->name, info->name_len}));

    if (info->follows)
        rn_metrics_put_double(arg, "ration_rule_factor", &label, 1, info->factor_percent / 100.0);
    return 0;
}

void rn_admin_metrics_put_signals(struct rn_buf *out, struct rn_front *front, bool each)
{
    struct page page = {.out = out};

    rn_metrics_begin(out, "ration_signal_value", RN_METRICS_GAUGE,
                     "The last value of each signal: shares of 1, seconds, or a plain number.");
    ration_signals_each(front->limiter, put_signal, &page);
    page.stale = true;
    rn_metrics_begin(out, "ration_signal_stale", RN_METRICS_GAUGE,
                     "Whether a signal has no value that is new enough to count.");
    ration_signals_each(front->limiter, put_signal, &page);
    if (each) {
        rn_metrics_begin(out, "ration_rule_factor", RN_METRICS_GAUGE,
                         "How much of a rule's limits is in force, for rules that follow signals.");
        ration_rules_each(front->limiter, put_factor, out);
    }
    if (front->queries.put_metrics)
        front->queries.put_metrics(front->queries.arg, out);
}
