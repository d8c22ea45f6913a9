/* SPDX-License-Identifier: Apache-2.0 */
/* Suggested limits, as text, JSON and a page. */
#include "cli/replay/suggestion.h"

#include <inttypes.h>

#include "cli/output/output.h"
#include "cli/replay/summary.h"
#include "wire/page/chart.h"

#define BAR 40 /* characters */

static const double shares[] = {0, 0.001, 0.01, 0.05, 0.1};

/* `5 per minute`, with burst only if it is not the amount. */
static const char *limit_text(const struct ration_limit *limit, char text[RATION_LIMIT_TEXT])
{
    struct ration_limit shown = *limit;

    if (shown.burst == shown.amount)
        shown.burst = 0;
    ration_limit_write(&shown, text, RATION_LIMIT_TEXT);
    return text;
}

static const char *limit_of_amount(const struct rn_suggestion *s, uint64_t amount,
                                   char text[RATION_LIMIT_TEXT])
{
    struct ration_limit limit = s->limit;

    limit.amount = amount;
    limit.burst = 0;
    if (amount <= s->most)
        return limit_text(&limit, text);
    snprintf(text, RATION_LIMIT_TEXT, "none is enough");
    return text;
}

/* The limit that is suggested. */
static const char *limit_found(const struct rn_suggestion *s, char text[RATION_LIMIT_TEXT])
{
    return s->limit.amount > s->most ? limit_of_amount(s, s->limit.amount, text)
                                     : limit_text(&s->limit, text);
}

/* Of a queue, since its rate empties it between two requests, but not between two at once. */
static const char none[] =
    "More requests come at one instant than the queue holds, at any rate: give it a longer queue, "
    "or touch more clients.";

/* The class as `12 to 14`. */
static void class_text(const void *arg, size_t i, char *text, size_t size)
{
    const struct rn_suggestion *s = arg;

    if (s->has_none && i + 1 == s->classes)
        snprintf(text, size, "none is enough");
    else if (i >= s->classes || s->from[i + 1] == UINT64_MAX)
        snprintf(text, size, "%" PRIu64 " and more", s->from[i]);
    else if (s->from[i + 1] == s->from[i] + 1)
        snprintf(text, size, "%" PRIu64, s->from[i]);
    else
        snprintf(text, size, "%" PRIu64 " to %" PRIu64, s->from[i], s->from[i + 1] - 1);
}

static void put_sample(char *text, size_t size, const struct rn_suggestion_list *list)
{
    text[0] = '\0';
    if (list->halvings != 0)
        snprintf(text, size,
                 "one of %" PRIu64 " clients, chosen by hash: give more --memory for all",
                 UINT64_C(1) << list->halvings);
}

/* What else the rule has that decides who is refused; empty: nothing. */
static void put_left_out(char *text, size_t size, const struct rn_suggestion_list *list)
{
    const struct rn_rule *rule = list->rule;
    bool several = false;

    for (uint32_t i = 0; i < rule->tier_count; i++)
        several |= rule->tiers[i].limit_count > 1;
    const struct {
        bool has;
        const char *name;
    } parts[] = {{several, "limits behind the first"},
                 {rule->soft_percent != 0, "soft"},
                 {rule->earn != NULL, "earn"},
                 {rule->by_outcome, "charge_on"},
                 {rule->line_size != 0, "max_wait"}};
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < RN_COUNT(parts); i++)
        if (parts[i].has)
            len += (size_t)snprintf(text + len, size - len, "%s%s",
                                    len == 0 ? "what the rule has beside its limit is left out: "
                                             : ", ",
                                    parts[i].name);
}

static void put_own_notes(const struct rn_suggestion_list *list,
                          void (*put)(void *arg, const char *text), void *arg)
{
    char text[200];

    put_sample(text, sizeof text, list);
    if (text[0] != '\0')
        put(arg, text);
    put_left_out(text, sizeof text, list);
    if (text[0] != '\0')
        put(arg, text);
}

/* --- text ----------------------------------------------------------------------------------- */

/* Classes without clients from `i` on that may be left out of the picture. */
static size_t count_empty(const struct rn_suggestion *s, size_t i)
{
    size_t n = 0;

    while (i + n < s->classes && s->counts[i + n] == 0 && i + n + 1 != s->mark)
        n++;
    return n;
}

static void put_histogram(const struct rn_output *out, const struct rn_suggestion *s)
{
    uint64_t most = 0;
    char name[64];

    for (size_t i = 0; i < s->classes; i++)
        most = s->counts[i] > most ? s->counts[i] : most;
    for (size_t i = 0; i < s->classes; i++) {
        int length = (int)(s->counts[i] * BAR / most);
        enum rn_style style = i < s->mark ? RN_PLAIN : RN_BAD;

        if (count_empty(s, i) > 2) {
            i += count_empty(s, i) - 1;
            rn_output_put(out, RN_DIM, "  %20s\n", "...");
            continue;
        }
        class_text(s, i, name, sizeof name);
        rn_output_put(out, RN_PLAIN, "  %20s %9" PRIu64 " ", name, s->counts[i]);
        for (int k = 0; k < length || (k == 0 && s->counts[i] != 0); k++)
            rn_output_put(out, style, "#");
        rn_output_put(out, RN_PLAIN, "%s\n",
                      i + 1 == s->mark && s->limit.amount <= s->most ? "  <- the limit" : "");
    }
}

static const char busiest[] = "  --touch allows less than one of them: this is what the busiest "
                              "client needs\n";

static void put_tier(const struct rn_output *out, const struct rn_suggestion_list *list,
                     const struct rn_suggestion *s)
{
    char a[RN_COUNT_TEXT], b[RN_COUNT_TEXT], c[RN_COUNT_TEXT], limit[RATION_LIMIT_TEXT];

    rn_output_put(out, RN_BOLD, "\n%s", list->rule->title);
    if (s->tier->value.len != 0) {
        rn_output_put(out, RN_BOLD, ", tier ");
        rn_output_escaped(out, s->tier->value);
    }
    rn_output_put(out, RN_PLAIN, ": %s requests by %s clients\n", rn_output_count(s->requests, a),
                  rn_output_count(s->clients, b));
    rn_output_put(out, RN_GOOD, "  limit: %s\n", limit_found(s, limit));
    if (s->limit.amount > s->most)
        rn_output_put(out, RN_PLAIN, "  %s\n\n", none);
    else
        rn_output_put(out, RN_PLAIN, "  touches %s of %s clients (%s)\n%s\n",
                      rn_output_count(s->touched, a), rn_output_count(s->clients, b),
                      rn_output_share(s->touched, s->clients, c),
                      list->touch > 0 && (double)s->clients * list->touch < 1 ? busiest : "");
    rn_output_put(out, RN_BOLD, "  %20s %9s\n", "limit needed", "clients");
    put_histogram(out, s);
    rn_output_put(out, RN_BOLD, "\n  clients touched  limit\n");
    for (size_t i = 0; i < RN_COUNT(shares); i++)
        rn_output_put(out, RN_PLAIN, "  %13.4g %%  %s\n", 100 * shares[i],
                      limit_of_amount(s, rn_suggestion_amount(s, shares[i]), limit));
}

static void put_note(void *arg, const char *text)
{
    const struct rn_output *out = arg;

    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_lines(out, rn_slice_of(text));
    rn_output_put(out, RN_PLAIN, "\n");
}

void rn_suggestion_text(const struct rn_suggestion_list *list)
{
    struct rn_output out = rn_output_to(stdout, list->run->options);
    char text[200], from[RN_TIME_TEXT], to[RN_TIME_TEXT], count[RN_COUNT_TEXT];

    rn_notes_logs(list->run, text, sizeof text);
    rn_output_lines(&out, rn_slice_of(text));
    rn_output_put(&out, RN_PLAIN, ": %s requests, %s to %s UTC\n",
                  rn_output_count(list->run->requests, count),
                  rn_output_moment(list->run->first_ns, from),
                  rn_output_moment(list->run->last_ns, to));
    for (size_t i = 0; i < list->count; i++)
        put_tier(&out, list, &list->items[i]);
    rn_output_put(&out, RN_BOLD, "\nNotes\n");
    rn_notes_times(list->run, put_note, &out);
    rn_notes_feeds(list->run, put_note, &out);
    put_own_notes(list, put_note, &out);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void put_member_note(void *arg, const char *text)
{
    rn_members_text(arg, NULL, rn_slice_of(text));
}

static void put_suggestion(struct rn_members *m, const struct rn_suggestion *s)
{
    char limit[RATION_LIMIT_TEXT];

    rn_members_open(m, NULL, '{');
    if (s->tier->value.len != 0)
        rn_members_text(m, "tier", s->tier->value);
    else
        rn_members_null(m, "tier");
    if (s->limit.amount <= s->most) {
        rn_members_text(m, "limit", rn_slice_of(limit_found(s, limit)));
        rn_members_u64(m, "amount", s->limit.amount);
        rn_members_u64(m, "burst", s->limit.burst != 0 ? s->limit.burst : s->limit.amount);
    } else {
        rn_members_null(m, "limit");
        rn_members_null(m, "amount");
        rn_members_null(m, "burst");
    }
    rn_members_u64(m, "requests", s->requests);
    rn_members_u64(m, "clients", s->clients);
    rn_members_u64(m, "touched", s->touched);
    rn_members_open(m, "distribution", '[');
    for (size_t i = 0; i < s->classes; i++) {
        rn_members_open(m, NULL, '{');
        if (s->has_none && i + 1 == s->classes)
            rn_members_null(m, "from");
        else
            rn_members_u64(m, "from", s->from[i]);
        rn_members_u64(m, "clients", s->counts[i]);
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
    rn_members_open(m, "alternatives", '[');
    for (size_t i = 0; i < RN_COUNT(shares); i++) {
        rn_members_open(m, NULL, '{');
        rn_output_number(m, "touch_percent", 100 * shares[i], 4);
        if (rn_suggestion_amount(s, shares[i]) <= s->most)
            rn_members_text(
                m, "limit",
                rn_slice_of(limit_of_amount(s, rn_suggestion_amount(s, shares[i]), limit)));
        else
            rn_members_null(m, "limit");
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
    rn_members_close(m, '}');
}

void rn_suggestion_json(const struct rn_suggestion_list *list)
{
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};

    rn_members_open(&m, NULL, '{');
    rn_members_text(&m, "rule", rn_slice_of(list->rule->title));
    rn_output_number(&m, "touch_percent", 100 * list->touch, 4);
    rn_members_u64(&m, "one_client_of", UINT64_C(1) << list->halvings);
    rn_members_open(&m, "suggestions", '[');
    for (size_t i = 0; i < list->count; i++)
        put_suggestion(&m, &list->items[i]);
    rn_members_close(&m, ']');
    rn_members_open(&m, "notes", '[');
    rn_notes_times(list->run, put_member_note, &m);
    rn_notes_feeds(list->run, put_member_note, &m);
    put_own_notes(list, put_member_note, &m);
    rn_members_close(&m, ']');
    rn_members_close(&m, '}');
    rn_output_json(&text);
}

/* --- the page ----------------------------------------------------------------------------------
 */

static void put_picture(struct rn_page *page, const struct rn_suggestion *s)
{
    uint64_t below[RN_SUGGESTION_CLASSES] = {0}, above[RN_SUGGESTION_CLASSES] = {0};
    char label[RATION_LIMIT_TEXT];
    struct rn_chart_columns chart = {
        .caption = "How many clients need which limit, so that none of their requests is refused. ",
        .names = (const char *const[]){"within the limit", NULL, "touched by it"},
        .values = {below, NULL, above},
        .count = s->classes,
        .label = class_text,
        .arg = s,
        .mark = s->limit.amount <= s->most ? s->mark : SIZE_MAX,
        .mark_label = limit_found(s, label),
    };

    for (size_t i = 0; i < s->classes; i++)
        (i < s->mark ? below : above)[i] = s->counts[i];
    rn_chart_columns(page, &chart);
}

static void put_section(struct rn_page *page, const struct rn_suggestion_list *list,
                        const struct rn_suggestion *s)
{
    static const char *const titles[] = {">clients touched at most", "limit"};
    char heading[200], code[2 * RATION_LIMIT_TEXT], limit[RATION_LIMIT_TEXT];
    char a[RN_COUNT_TEXT], b[RN_COUNT_TEXT], c[RN_COUNT_TEXT];

    snprintf(heading, sizeof heading, "%s%s%.*s", list->rule->title,
             s->tier->value.len != 0 ? ", tier " : "", (int)s->tier->value.len,
             s->tier->value.data != NULL ? s->tier->value.data : "");
    rn_page_heading(page, heading);
    snprintf(code, sizeof code, "limit: %s", limit_found(s, limit));
    if (s->limit.amount <= s->most) {
        rn_page_code(page, rn_slice_of(code));
        rn_page_paragraph(page, "It touches %s of %s clients (%s).", rn_output_count(s->touched, a),
                          rn_output_count(s->clients, b),
                          rn_output_share(s->touched, s->clients, c));
    } else {
        rn_page_note(page, "%s", none);
    }
    put_picture(page, s);
    rn_page_table_open(page, titles, RN_COUNT(titles));
    for (size_t i = 0; i < RN_COUNT(shares); i++) {
        rn_page_cellf(page, "%.4g %%", 100 * shares[i]);
        rn_page_cellf(page, "%s", limit_of_amount(s, rn_suggestion_amount(s, shares[i]), limit));
    }
    rn_page_table_close(page);
}

static void put_paragraph(void *arg, const char *text)
{
    rn_page_paragraph(arg, "%s", text);
}

bool rn_suggestion_page(const struct rn_suggestion_list *list, const char *path)
{
    struct rn_page page;
    char logs[200], subtitle[400], from[RN_TIME_TEXT], to[RN_TIME_TEXT];
    bool saved;

    rn_notes_logs(list->run, logs, sizeof logs);
    snprintf(subtitle, sizeof subtitle, "%s, %s to %s UTC", logs,
             rn_output_moment(list->run->first_ns, from), rn_output_moment(list->run->last_ns, to));
    rn_page_open(&page, "Limits that few clients would have met", subtitle);
    for (size_t i = 0; i < list->count; i++)
        put_section(&page, list, &list->items[i]);
    rn_page_heading(&page, "Notes");
    rn_notes_times(list->run, put_paragraph, &page);
    rn_notes_feeds(list->run, put_paragraph, &page);
    put_own_notes(list, put_paragraph, &page);
    rn_page_close(&page);
    saved = rn_output_save(path, &page.out);
    rn_page_done(&page);
    return saved;
}
