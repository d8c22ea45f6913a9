/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the section `signals:`, which names values that limits can follow, and says where each
 * comes from.
 */
#include <string.h>

#include "base/number.h"
#include "rules/native/native_internal.h"

#define SECOND_NS INT64_C(1000000000)
#define EXPIRES_MAX_NS (3600 * SECOND_NS)
#define NAME_MAX_LEN 63

static const char *const sources[] = {"cpu", "latency", "status", "push", "prometheus"};

/* --- parts of an entry ---------------------------------------------------------------- */

/* A duration from a second to `most_ns`; *ns is unchanged if there is none. */
static void read_span(struct rn_builder *builder, const struct rn_node *map, const char *key,
                      int64_t most_ns, int64_t *ns)
{
    const struct rn_node *node = rn_node_find(map, key);
    int64_t value;

    if (node == NULL || !rn_native_duration(builder, node, &value))
        return;
    if (value < SECOND_NS || value > most_ns)
        rn_report_error(builder->report, node->at,
                        "%s must be from 1 second to %d minutes, found %s; signals are looked at "
                        "once a second",
                        key, (int)(most_ns / (60 * SECOND_NS)), rn_excerpt(node->text).text);
    else
        *ns = value;
}

static void read_quantile(struct rn_builder *builder, const struct rn_node *map,
                          struct rn_signal *signal)
{
    const struct rn_node *node = rn_native_require(builder, map, "quantile", "99%");
    int64_t value = 0;

    if (node == NULL)
        return;
    if (node->kind == RN_NODE_SCALAR && node->text.len > 1 &&
        node->text.data[node->text.len - 1] == '%')
        rn_signal_parse_decimal((struct rn_slice){node->text.data, node->text.len - 1},
                                RN_SIGNAL_UNIT / 100, &value);
    if (value <= 0 || value >= RN_SIGNAL_UNIT)
        rn_report_error(builder->report, node->at,
                        "quantile must be a percentage between 0%% and 100%%, found %s; write for "
                        "example 99%%",
                        rn_node_describe(node).text);
    else
        signal->quantile = (uint32_t)value;
}

/* What is wrong with http://host[:port][/path]; NULL: nothing, and the parts are set. */
static const char *split_url(struct rn_builder *builder, struct rn_slice url,
                             struct rn_signal *signal)
{
    const struct rn_slice http = RN_SLICE("http://");
    size_t at = http.len, end;
    uint64_t port = 80;

    if (rn_slice_starts_with(url, RN_SLICE("https://")))
        return "rationd asks a Prometheus without TLS";
    if (!rn_slice_starts_with(url, http))
        return "the url of a Prometheus begins with http://";
    for (size_t i = 0; i < url.len; i++)
        if (url.data[i] <= ' ' || url.data[i] > '~' || strchr("@?#\"\\", url.data[i]) != NULL)
            return "a url here has no spaces, user, password, ? or #";
    bool bracket = at < url.len && url.data[at] == '[';

    for (end = at += bracket; end < url.len; end++)
        if (url.data[end] == '/' || (bracket ? url.data[end] == ']' : url.data[end] == ':'))
            break;
    if (end == at || (bracket && (end == url.len || url.data[end] != ']')))
        return "the url names no address";
    signal->host = rn_builder_dup(builder, (struct rn_slice){url.data + at, end - at});
    at = end + bracket;
    if (at < url.len && url.data[at] == ':') {
        at++;
        if (rn_number_parse(url.data, url.len, &at, &port, NULL) != 0 || port == 0 || port > 65535)
            return "the url has no port from 1 to 65535 behind its colon";
    }
    if (at < url.len && url.data[at] != '/')
        return "the url names no address";
    struct rn_slice path = {url.data + at, url.len - at};

    while (path.len > 0 && path.data[path.len - 1] == '/')
        path.len--;
    signal->path = rn_builder_dup(builder, path);
    signal->port = (uint16_t)port;
    return NULL;
}

static void read_prometheus(struct rn_builder *builder, const struct rn_node *map,
                            struct rn_signal *signal)
{
    const struct rn_node *url = rn_native_require(builder, map, "url", "\"http://127.0.0.1:9090\"");
    const struct rn_node *query =
        rn_native_require(builder, map, "query", "\"sum(rate(errors_total[1m]))\"");
    struct rn_slice text;

    if (url != NULL && rn_node_as_text(url, builder->report, &text)) {
        const char *fault = split_url(builder, text, signal);

        if (fault != NULL)
            rn_report_error(builder->report, url->at, "found %s: %s; write for example %s",
                            rn_excerpt(text).text, fault, "\"http://127.0.0.1:9090\"");
        signal->url = rn_builder_dup(builder, text);
    }
    if (query != NULL && rn_node_as_text(query, builder->report, &text)) {
        if (text.len == 0 || text.len > 2000)
            rn_report_error(builder->report, query->at,
                            "query must be PromQL of 1 to 2,000 bytes that yields one number");
        signal->query = rn_builder_dup(builder, text);
    }
    signal->every_ns = 5 * SECOND_NS;
    read_span(builder, map, "every", RN_SIGNAL_OVER_MAX_NS, &signal->every_ns);
    if (signal->expires_ns < signal->every_ns)
        rn_report_error(builder->report, map->at,
                        "a value expires before the next is asked for; write expires longer than "
                        "every");
}

/* --- an entry --------------------------------------------------------------------------- */

static bool is_name(struct rn_slice name)
{
    bool good = name.len != 0 && name.len <= NAME_MAX_LEN;

    for (size_t i = 0; good && i < name.len; i++) {
        char c = name.data[i], lower = (char)(c | 0x20);

        good = (lower >= 'a' && lower <= 'z') ||
               (i != 0 && ((c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'));
    }
    return good;
}

/* The place of a new signal; NULL after reporting. */
static struct rn_signal *add_signal(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_native *native = builder->native;
    uint32_t n = builder->ruleset->signal_count;
    struct rn_slice name = node->key->text;

    if (!is_name(name)) {
        rn_report_error(
            builder->report, node->key->at,
            "%s is not the name of a signal; use 1 to 63 letters, digits, dots, hyphens and "
            "underscores, beginning with a letter",
            rn_excerpt(name).text);
        return NULL;
    }
    if (n == RN_SIGNALS_MAX) {
        rn_report_error(builder->report, node->key->at, "more than %d signals; use fewer",
                        RN_SIGNALS_MAX);
        return NULL;
    }
    if (native->signals == NULL)
        native->signals = rn_builder_alloc(builder, RN_SIGNALS_MAX, sizeof *native->signals);
    if (native->signals == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (rn_slice_equal(native->signals[i].name, name)) {
            rn_native_is_again(builder, node, &native->signal_notes[i].at);
            return NULL;
        }
    builder->ruleset->signals = native->signals;
    builder->ruleset->signal_count = n + 1;
    native->signal_notes[n].at = node->key->at;
    native->signals[n].name = rn_builder_dup(builder, name);
    return &native->signals[n];
}

void rn_native_read_signal(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const keys[][8] = {
        [RN_SIGNAL_CPU] = {"source"},
        [RN_SIGNAL_LATENCY] = {"source", "of", "quantile", "over"},
        [RN_SIGNAL_STATUS] = {"source", "of", "status", "over"},
        [RN_SIGNAL_PUSH] = {"source", "expires"},
        [RN_SIGNAL_PROMETHEUS] = {"source", "url", "query", "every", "expires"}};
    struct rn_signal *signal;
    size_t count = 0;

    if (!rn_native_expect_map(builder, node, "{source: cpu}") ||
        (signal = add_signal(builder, node)) == NULL)
        return;
    const struct rn_node *source = rn_native_require(builder, node, "source", "cpu");
    int word =
        source == NULL ? -1 : rn_native_word(builder, source, "source", sources, RN_COUNT(sources));

    if (word < 0)
        return;
    signal->source = (enum rn_signal_source)word;
    while (count < RN_COUNT(keys[0]) && keys[word][count] != NULL)
        count++;
    rn_native_map(builder, node, keys[word], count);
    signal->over_ns = 10 * SECOND_NS;
    signal->expires_ns =
        (word == RN_SIGNAL_PUSH || word == RN_SIGNAL_PROMETHEUS ? 30 : 5) * SECOND_NS;
    read_span(builder, node, "over", RN_SIGNAL_OVER_MAX_NS, &signal->over_ns);
    read_span(builder, node, "expires", EXPIRES_MAX_NS, &signal->expires_ns);
    if (signal->source == RN_SIGNAL_LATENCY || signal->source == RN_SIGNAL_STATUS)
        builder->native->signal_notes[signal - builder->native->signals].of =
            rn_native_require(builder, node, "of", "api");
    if (signal->source == RN_SIGNAL_LATENCY)
        read_quantile(builder, node, signal);
    const struct rn_node *status = signal->source != RN_SIGNAL_STATUS
                                       ? NULL
                                       : rn_native_require(builder, node, "status", "5xx");

    if (status != NULL)
        rn_native_statuses(builder, status, &signal->statuses);
    if (signal->source == RN_SIGNAL_PROMETHEUS)
        read_prometheus(builder, node, signal);
}

int rn_native_find_signal(struct rn_builder *builder, const struct rn_node *node,
                          struct rn_slice name)
{
    const struct rn_ruleset *ruleset = builder->ruleset;
    const char *names[RN_SIGNALS_MAX], *meant;

    for (uint32_t i = 0; i < ruleset->signal_count; i++) {
        names[i] = ruleset->signals[i].name.data;
        if (rn_slice_equal(ruleset->signals[i].name, name)) {
            builder->native->signal_notes[i].used = true;
            return (int)i;
        }
    }
    meant = rn_suggest(name, names, ruleset->signal_count);
    if (meant != NULL)
        rn_report_error(builder->report, node->at, "no signal is named %s; did you mean \"%s\"?",
                        rn_excerpt(name).text, meant);
    else
        rn_report_error(builder->report, node->at,
                        "no signal is named %s; add it to the section signals, for example "
                        "signals: {cpu: {source: cpu}}",
                        rn_excerpt(name).text);
    return -1;
}

/* --- after all files ---------------------------------------------------------------------- */

void rn_native_finish_signals(struct rn_builder *builder)
{
    struct rn_native *native = builder->native;

    for (uint32_t i = 0; i < builder->ruleset->signal_count; i++) {
        const struct rn_native_signal *note = &native->signal_notes[i];
        struct rn_slice name;

        if (note->of != NULL && rn_node_as_text(note->of, builder->report, &name)) {
            const struct rn_rule *rule = rn_builder_find_rule(builder, name);

            if (rule != NULL)
                rn_builder_refer(builder, rule, &native->signals[i].of);
            else
                rn_report_error(builder->report, note->of->at,
                                "no limit is named %s; write the name of the limit whose requests "
                                "the signal is about",
                                rn_excerpt(name).text);
        }
        if (!note->used && builder->report->count[RN_ERROR] == 0)
            rn_report_warning(builder->report, note->at,
                              "no limit follows the signal %s; use it in adapt or elastic, or "
                              "remove it",
                              rn_excerpt(native->signals[i].name).text);
    }
}
