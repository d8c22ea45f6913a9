/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/print/trial.h"

#include <stdlib.h>
#include <string.h>

#include "rules/print/print_internal.h"

#define SUFFIX_LEN (sizeof RN_TRIAL_SUFFIX - 1)
#define NAME_MAX_LEN (RATION_NAME_SIZE - 1)

/* Rules sorted by name. */
struct rules {
    const struct rn_rule **items;
    size_t count;
};

struct making {
    struct rules old, new; /* without those of the trial that ended */
    struct rn_printer from, to, out;
    struct rn_buf left, right; /* what is compared */
    struct rn_report *report;
    struct rn_trial *trial;
};

static void put(void *context, const char *text, size_t len)
{
    rn_buf_put(context, text, len);
}

/* --- rules by name -------------------------------------------------------------------------- */

static int compare_rules(const void *a, const void *b)
{
    return rn_slice_compare((*(const struct rn_rule *const *)a)->name,
                            (*(const struct rn_rule *const *)b)->name);
}

static const struct rn_rule *find(const struct rules *rules, struct rn_slice name)
{
    const struct rn_rule key = {.name = name}, *wanted = &key;
    const struct rn_rule **found = rules->count == 0 ? NULL
                                                     : bsearch(&wanted, rules->items, rules->count,
                                                               sizeof *rules->items, compare_rules);

    return found ? *found : NULL;
}

/* Marks the rules of this ruleset that the list has: `marks` has room for all. */
static void mark(const struct rules *all, struct rn_slice list, bool *marks)
{
    while (list.len != 0) {
        const char *end = memchr(list.data, '\n', list.len);
        size_t len = end ? (size_t)(end - list.data) : list.len;
        const struct rn_rule *rule = find(all, (struct rn_slice){list.data, len});

        if (rule)
            marks[rule->index] = true;
        len += end != NULL;
        list = (struct rn_slice){list.data + len, list.len - len};
    }
}

/* The rules but for those that are listed. False: out of memory. */
static bool collect(const struct rn_ruleset *ruleset, struct rn_slice ended, struct rules *rules)
{
    size_t count = ruleset->rule_count, kept = 0;
    bool *marks = calloc(count + 1, sizeof *marks);

    *rules = (struct rules){.items = calloc(count + 1, sizeof *rules->items)};
    if (!marks || !rules->items) {
        free(marks);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        rules->items[i] = &ruleset->rules[i];
    rules->count = count;
    qsort(rules->items, count, sizeof *rules->items, compare_rules);
    mark(rules, ended, marks);
    for (size_t i = 0; i < count; i++)
        if (!marks[rules->items[i]->index])
            rules->items[kept++] = rules->items[i];
    rules->count = kept;
    free(marks);
    return true;
}

static void put_name(struct rn_buf *list, struct rn_slice name, const char *suffix)
{
    rn_buf_put_slice(list, name);
    rn_buf_put_slice(list, rn_slice_of(suffix));
    rn_buf_put_char(list, '\n');
}

/* --- sections ------------------------------------------------------------------------------- */

static void compare(struct making *m, void (*print)(struct rn_printer *p), unsigned section)
{
    rn_buf_clear(&m->left);
    rn_buf_clear(&m->right);
    print(&m->from);
    print(&m->to);
    if (!rn_slice_equal(rn_buf_slice(&m->left), rn_buf_slice(&m->right)))
        m->trial->differs |= section;
}

static void print_lists(struct rn_printer *p)
{
    rn_print_lists(p, false);
    rn_print_lists(p, true);
}

static void put_line(struct making *m, const struct rn_buf *line, const char *section, bool *open)
{
    if (line->len == 0)
        return;
    if (!*open)
        rn_print(&m->out, "%s", section);
    *open = true;
    rn_buf_put_slice(&m->trial->text, rn_buf_slice(line));
}

/* Those in force, and those that only the candidate has. Another meaning of a known name would
 * change the rules in force. */
static void merge_attributes(struct making *m)
{
    const struct rn_ruleset *base = m->from.ruleset, *candidate = m->to.ruleset;
    bool open = false;

    for (uint32_t i = 0; i < base->attribute_count; i++) {
        rn_buf_clear(&m->left);
        rn_print_attribute_line(&m->from, (uint16_t)i);
        put_line(m, &m->left, "attributes:\n", &open);
    }
    for (uint32_t i = 0; i < candidate->attribute_count; i++) {
        uint16_t known = rn_ruleset_attribute(base, candidate->attributes[i].name);

        rn_buf_clear(&m->left);
        rn_buf_clear(&m->right);
        rn_print_attribute_line(&m->to, (uint16_t)i);
        if (known != RN_NO_ATTRIBUTE)
            rn_print_attribute_line(&m->from, known);
        if (known == RN_NO_ATTRIBUTE)
            put_line(m, &m->right, "attributes:\n", &open);
        else if (!rn_slice_equal(rn_buf_slice(&m->left), rn_buf_slice(&m->right)))
            m->trial->differs |= RN_TRIAL_ATTRIBUTES;
    }
}

static const struct rn_signal *find_signal(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    for (uint32_t i = 0; i < ruleset->signal_count; i++)
        if (rn_slice_equal(ruleset->signals[i].name, name))
            return &ruleset->signals[i];
    return NULL;
}

/* A signal may be about a rule that is on trial only. */
static void print_new_signal(struct making *m, const struct rn_signal *signal)
{
    struct rn_signal copy = *signal;
    struct rn_rule of;
    struct rn_buf name = {0};

    if (signal->of != NULL && !find(&m->old, signal->of->name)) {
        of = *signal->of;
        rn_buf_put_slice(&name, of.name);
        rn_buf_put_literal(&name, RN_TRIAL_SUFFIX);
        of.name = rn_buf_slice(&name);
        copy.of = &of;
    }
    rn_print_signal_line(&m->to, &copy);
    m->right.failed |= name.failed;
    rn_buf_done(&name);
}

static void merge_signals(struct making *m)
{
    const struct rn_ruleset *base = m->from.ruleset, *candidate = m->to.ruleset;
    bool open = false;

    for (uint32_t i = 0; i < base->signal_count; i++) {
        rn_buf_clear(&m->left);
        rn_print_signal_line(&m->from, &base->signals[i]);
        put_line(m, &m->left, "signals:\n", &open);
    }
    for (uint32_t i = 0; i < candidate->signal_count; i++) {
        const struct rn_signal *signal = &candidate->signals[i];
        const struct rn_signal *known = find_signal(base, signal->name);

        rn_buf_clear(&m->left);
        rn_buf_clear(&m->right);
        if (!known) {
            print_new_signal(m, signal);
            put_line(m, &m->right, "signals:\n", &open);
            continue;
        }
        rn_print_signal_line(&m->from, known);
        rn_print_signal_line(&m->to, signal);
        if (!rn_slice_equal(rn_buf_slice(&m->left), rn_buf_slice(&m->right)))
            m->trial->differs |= RN_TRIAL_SIGNALS;
    }
}

/* --- rules ---------------------------------------------------------------------------------- */

/* A rule is tried if it is none of those in force. */
static bool is_new(struct making *m, const struct rn_rule *rule, const struct rn_rule *known)
{
    if (!known)
        return true;
    rn_buf_clear(&m->left);
    rn_buf_clear(&m->right);
    rn_print_rule(&m->from, known);
    rn_print_rule(&m->to, rule);
    return !rn_slice_equal(rn_buf_slice(&m->left), rn_buf_slice(&m->right));
}

/* Whether its name on trial is good. */
static bool check(struct making *m, const struct rn_rule *rule, struct rn_slice name)
{
    struct rn_place at = rn_ruleset_place(rule, m->report);

    if (name.len > NAME_MAX_LEN)
        rn_report_error(m->report, at,
                        "%s is tried as %s, which is longer than %d characters; give it a name of "
                        "at most %d",
                        rn_excerpt(rule->name).text, rn_excerpt(name).text, NAME_MAX_LEN,
                        NAME_MAX_LEN - (int)SUFFIX_LEN);
    else if (find(&m->old, name) || find(&m->new, name))
        rn_report_error(m->report, at,
                        "%s is tried as %s, and there is a rule of that name already; give that "
                        "one another name",
                        rn_excerpt(rule->name).text, rn_excerpt(name).text);
    else
        return true;
    return false;
}

static void try_rule(struct making *m, const struct rn_rule *rule)
{
    const struct rn_rule *known = find(&m->old, rule->name);
    struct rn_rule tried = *rule;
    struct rn_buf name = {0};

    if (rule->envoy) {
        rn_report_error(m->report, rn_ruleset_place(rule, m->report),
                        "rules in Envoy's format cannot be tried; write them in the native format, "
                        "or use shadow_mode: true");
        return;
    }
    if (!is_new(m, rule, known))
        return;
    rn_buf_put_slice(&name, rule->name);
    rn_buf_put_literal(&name, RN_TRIAL_SUFFIX);
    tried.name = rn_buf_slice(&name);
    tried.shadow = true;
    tried.escalate = NULL;
    tried.earn = NULL;
    tried.usage = NULL;
    if (!name.failed && check(m, rule, tried.name)) {
        struct rn_printer p = {m->to.ruleset, put, &m->trial->text};

        rn_print_rule(&p, &tried);
        put_name(&m->trial->added, rule->name, RN_TRIAL_SUFFIX);
        if (known)
            put_name(&m->trial->changed, rule->name, "");
    }
    m->trial->text.failed |= name.failed;
    rn_buf_done(&name);
}

/* In the order of their files. */
static void put_rules(struct making *m)
{
    const struct rn_ruleset *base = m->from.ruleset, *candidate = m->to.ruleset;

    rn_print(&m->out, "limits:\n");
    for (uint32_t i = 0; i < base->rule_count; i++) {
        const struct rn_rule *rule = &base->rules[i];

        if (find(&m->old, rule->name) != rule)
            continue;
        struct rn_printer p = {base, put, &m->trial->text};

        rn_print_rule(&p, rule);
        if (!find(&m->new, rule->name))
            put_name(&m->trial->removed, rule->name, "");
    }
    for (uint32_t i = 0; i < candidate->rule_count; i++)
        if (find(&m->new, candidate->rules[i].name) == &candidate->rules[i])
            try_rule(m, &candidate->rules[i]);
}

/* --- the whole ------------------------------------------------------------------------------ */

bool rn_trial_make(const struct rn_ruleset *base, const struct rn_ruleset *candidate,
                   struct rn_slice ended, struct rn_report *report, struct rn_trial *trial)
{
    struct making m = {.out = {base, put, &trial->text}, .report = report, .trial = trial};
    bool made = collect(base, ended, &m.old);

    made = collect(candidate, ended, &m.new) && made;
    m.from = (struct rn_printer){base, put, &m.left};
    m.to = (struct rn_printer){candidate, put, &m.right};
    if (made) {
        compare(&m, rn_print_mode, RN_TRIAL_MODE);
        compare(&m, rn_print_paths, RN_TRIAL_PATHS);
        compare(&m, print_lists, RN_TRIAL_LISTS);
        rn_print_mode(&m.out);
        rn_print_server(&m.out);
        rn_print_paths(&m.out);
        merge_attributes(&m);
        merge_signals(&m);
        print_lists(&m.out);
        put_rules(&m);
    }
    made = made && !m.left.failed && !m.right.failed && !trial->text.failed &&
           !trial->added.failed && !trial->changed.failed && !trial->removed.failed;
    free(m.old.items);
    free(m.new.items);
    rn_buf_done(&m.left);
    rn_buf_done(&m.right);
    return made && report->count[RN_ERROR] == 0;
}

/* Rules in force name signals by their place, and those that came with the trial are the last: so
 * these can be left out. */
bool rn_trial_end(const struct rn_ruleset *base, struct rn_slice ended, struct rn_buf *text)
{
    struct rn_ruleset without = *base;
    struct rn_rule *rules = calloc((size_t)base->rule_count + 1, sizeof *rules);
    struct rn_signal *signals = calloc((size_t)base->signal_count + 1, sizeof *signals);
    struct rules kept;
    bool made = collect(base, ended, &kept) && rules && signals;

    without.rules = rules;
    without.signals = signals;
    without.rule_count = without.signal_count = 0;
    for (uint32_t i = 0; made && i < base->rule_count; i++)
        if (find(&kept, base->rules[i].name) == &base->rules[i])
            rules[without.rule_count++] = base->rules[i];
    for (uint32_t i = 0; made && i < base->signal_count; i++)
        if (!base->signals[i].of || find(&kept, base->signals[i].of->name))
            signals[without.signal_count++] = base->signals[i];
    if (made)
        rn_print_ruleset(&without, put, text);
    free(rules);
    free(signals);
    free(kept.items);
    return made && !text->failed;
}

void rn_trial_done(struct rn_trial *trial)
{
    rn_buf_done(&trial->text);
    rn_buf_done(&trial->added);
    rn_buf_done(&trial->changed);
    rn_buf_done(&trial->removed);
}
