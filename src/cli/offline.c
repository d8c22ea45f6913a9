/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads rules as the daemon would, and opens a limiter to try them on.
 */
#include "cli/offline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output/output.h"
#include "limiter/rulebook/reload.h"
#include "rules/envoy/tree_internal.h"
#include "rules/yaml/document.h"

/* Enough to try rules; a daemon that opens the file may use more. */
#define STATE_BYTES (UINT64_C(4) << 20)

/* --- rules ------------------------------------------------------------------------- */

/* Checks that words are files: a user may have meant an attribute or a command. */
static bool check_files(const struct rn_options *o)
{
    struct stat status;
    bool ok = true;

    for (size_t i = 0; i < o->word_count; i++) {
        struct rn_excerpt name = rn_excerpt(rn_slice_of(o->words[i]));

        if (stat(o->words[i], &status) == 0)
            continue;
        if (errno == ENOENT && (o->command->options & RN_OPTION(RN_OPTION_REQUEST)) != 0 &&
            o->words[i][strspn(o->words[i], "abcdefghijklmnopqrstuvwxyz_-")] == '\0')
            rn_output_error("there is no file %s; if it is an attribute, write %s=VALUE", name.text,
                            o->words[i]);
        else
            rn_output_error("%s cannot be opened: %s", name.text, strerror(errno));
        ok = false;
    }
    return ok;
}

bool rn_offline_load(struct rn_offline *s, const struct rn_options *options)
{
    size_t room = RN_DOCUMENT_BYTES + 1, len = 0, got; /* one byte more than a file may have */
    char *text;

    *s = (struct rn_offline){.options = options};
    rn_report_init(&s->report);
    if (strcmp(options->words[0], "-") == 0) {
        text = malloc(room);
        while (text != NULL && (got = fread(text + len, 1, room - len, stdin)) > 0)
            len += got;
        if (text == NULL || ferror(stdin)) {
            rn_output_error("standard input cannot be read: %s", strerror(errno));
            free(text);
            return false;
        }
        s->ruleset = rn_ruleset_parse(RN_SLICE("stdin"), (struct rn_slice){text, len}, &s->report);
        free(text);
    } else {
        if (!check_files(options))
            return false;
        s->ruleset = rn_ruleset_load(options->words, options->word_count, &s->report);
    }
    if (s->ruleset == NULL && s->report.count[RN_ERROR] == 0)
        rn_output_error("out of memory");
    return s->ruleset != NULL;
}

void rn_offline_done(struct rn_offline *s)
{
    if (s->limiter != NULL)
        ration_close(s->limiter);
    else
        rn_ruleset_free(s->ruleset);
    rn_report_done(&s->report);
}

/* --- the request ------------------------------------------------------------------- */

static bool check_request(struct rn_offline *s)
{
    const struct rn_options *o = s->options;
    const struct rn_ruleset *ruleset = s->ruleset;
    bool domain_first = o->attribute_count > 0 && o->attributes[0].name_len == 6 &&
                        memcmp(o->attributes[0].name, "domain", 6) == 0;
    bool native = ruleset->list_count != 0 || ruleset->domain_count == 0;

    for (uint32_t i = 0; !native && i < ruleset->rule_count; i++)
        native = !ruleset->rules[i].envoy;
    s->envoy = (ruleset->domain_count != 0 || ruleset->apply_to_envoy) && domain_first;
    if (!s->envoy && !native)
        return rn_output_error(
            "these rules are in Envoy's format; begin the request with its domain, as in "
            "domain=%s, then give the pairs of a descriptor in order",
            rn_excerpt(ruleset->domains[0].name).text);
    if (s->envoy && o->attribute_count - 1 > RN_ENVOY_DEPTH_MAX)
        return rn_output_error("a descriptor of %zu pairs; give at most %d", o->attribute_count - 1,
                               RN_ENVOY_DEPTH_MAX);
    return true;
}

size_t rn_offline_entries(const struct rn_offline *s, struct rn_envoy_entry *entries)
{
    size_t count = s->options->attribute_count - 1;

    for (size_t i = 0; i < count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i + 1];

        entries[i] = (struct rn_envoy_entry){{a->name, a->name_len}, {a->value, a->value_len}};
    }
    return count;
}

/* --- state ------------------------------------------------------------------------- */

bool rn_offline_open(struct rn_offline *s, bool create)
{
    const char *path = s->options->state;
    bool exists = path != NULL && access(path, F_OK) == 0;
    struct ration_options options = {.state_path = path, .memory_bytes = exists ? 0 : STATE_BYTES};
    const struct rn_timestamp *at = &s->options->at;
    struct ration_error error;
    int64_t now, ahead = 0;

    if (!check_request(s))
        return false;
    if (path != NULL && !exists && !create)
        return rn_output_error("there is no state file %s; ration check --state makes one",
                               rn_excerpt(rn_slice_of(path)).text);
    if (ration_open(&options, &s->limiter, &error) != 0)
        return rn_output_error("--state: %s", error.text);
    if (error.text[0] != '\0')
        rn_output_error("note: %s", error.text);
    now = ration_now(s->limiter);
    /* The limiter owns the ruleset now, even if this fails. */
    if (rn_reload_install(s->limiter, s->ruleset, now, &error) != 0) {
        s->ruleset = NULL;
        return rn_output_error("%s", error.text);
    }
    if (at->given)
        ahead = at->relative ? at->ns : at->ns - ration_wall(s->limiter, now);
    s->now_ns = now + ahead;
    if (ahead >= 0 && ahead <= RATION_PERIOD_MAX_NS)
        return true;
    return rn_output_error("--at: that %s",
                           ahead < 0 ? "time has passed; give one to come, or a length such as +30s"
                                     : "is more than ten years ahead; give a time before that");
}

/* --- deciding ---------------------------------------------------------------------- */

static int decide_descriptor(struct rn_offline *s, bool look, uint64_t cost,
                             struct ration_outcome *outcome)
{
    const struct ration_attribute *domain = &s->options->attributes[0];
    struct ration_descriptor_entry entries[RN_ENVOY_DEPTH_MAX];
    struct ration_descriptor d = {.domain = domain->value,
                                  .domain_len = domain->value_len,
                                  .entries = entries,
                                  .count = s->options->attribute_count - 1,
                                  .hits = look ? 0 : cost};
    int code;

    for (size_t i = 0; i < d.count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i + 1];

        entries[i] = (struct ration_descriptor_entry){a->name, a->name_len, a->value, a->value_len};
    }
    code = ration_decide_descriptor(s->limiter, &d, s->now_ns, outcome);
    /* A look has cost 0, which always fits. So compare the real cost with what is left; the last
     * limit with less decides. */
    for (uint32_t i = 0; code == 0 && look && i < outcome->listed; i++) {
        struct ration_outcome_limit *limit = &outcome->limits[i];
        struct ration_verdict *verdict = &limit->verdict;

        if (verdict->remaining >= cost)
            continue;
        verdict->allowed = false;
        verdict->retry_after_ns = cost > verdict->limit ? RATION_NEVER : verdict->reset_after_ns;
        outcome->shadow_refused |= limit->shadow;
        if (limit->shadow)
            continue;
        outcome->decision.allowed = false;
        outcome->decision.decided_by = (int)i;
        outcome->decision.verdict = *verdict;
        memcpy(outcome->rule, limit->rule, sizeof outcome->rule);
    }
    return code;
}

bool rn_offline_decide(struct rn_offline *s, bool look, struct ration_outcome *outcome)
{
    struct ration_request request = {.attributes = s->options->attributes,
                                     .count = s->options->attribute_count,
                                     .cost = s->options->cost,
                                     .drain = s->options->drain};
    int code;

    if (s->envoy && s->options->drain)
        return rn_output_error(
            "--drain is for rules in the native format; Envoy's protocol has no drain");
    if (s->envoy)
        code = decide_descriptor(s, look, request.cost == 0 ? 1 : request.cost, outcome);
    else if (look)
        code = ration_decide_peek(s->limiter, &request, s->now_ns, outcome);
    else
        code = ration_decide(s->limiter, &request, s->now_ns, outcome);
    if (code == RATION_EINVAL)
        rn_output_error("more than %d limits (or %d concurrency limits) apply to this request; use "
                        "fewer",
                        RATION_CHARGES_MAX, RATION_LEASES_MAX);
    else if (code != 0)
        rn_output_error("no decision: %s", ration_error_text(code));
    return code == 0;
}
