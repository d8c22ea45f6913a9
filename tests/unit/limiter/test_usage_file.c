/* SPDX-License-Identifier: Apache-2.0 */
/* The usage file: full, used again, resized, left by killed processes; names, marks, corrections.
 */
#include "usage_fixture.h"

#include "limiter/usage/periods.h"

#define DAY (24 * 60 * MINUTE)

static const char by_user[] = "limits:\n  - { name: a, key: user, limit: 1000000 per second, "
                              "usage: { per: day, keep: 1 } }\n";

static void decide_user(struct ration *r, unsigned user, int64_t now_ns)
{
    char words[40];

    snprintf(words, sizeof words, "user=u%u", user);
    assert_true(decide(r, words, now_ns).decision.allowed);
}

static struct ration_usage_totals totals_of(const struct ration *r)
{
    struct ration_usage_totals totals;

    ration_usage_totals(r, &totals);
    return totals;
}

static struct rn_usage_file *file_of(const struct ration *r)
{
    return r->usage.file;
}

static void beyond_the_room_there_is_other_and_sums_stay_exact(void **state)
{
    struct ration *r = open_usage(by_user);
    uint64_t capacity = totals_of(r).capacity;
    unsigned users = (unsigned)capacity + 1000;
    struct rows rows;

    (void)state;
    for (unsigned times = 0; times < 2; times++)
        for (unsigned i = 0; i < users; i++)
            decide_user(r, i, T0);
    rows = all_rows(r, T0);
    assert_int_equal(rows.admitted, 2 * users);
    assert_in_range(totals_of(r).entries, capacity * 95 / 100, capacity);
    assert_int_equal(rows.count, totals_of(r).entries + 1); /* and `other` */
    assert_int_equal(totals_of(r).other, 2 * (users - totals_of(r).entries));
    ration_close(r);
}

static void what_was_given_to_other_is_given_back_from_it(void **state)
{
    struct ration *r = open_usage(by_user);
    unsigned users = (unsigned)totals_of(r).capacity * 2;
    struct ration_outcome out;
    char words[40];

    (void)state;
    for (unsigned i = 0; i < users; i++) {
        snprintf(words, sizeof words, "user=u%u", i);
        out = decide(r, words, T0);
        if (i % 2 == 0)
            assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    }
    assert_int_equal(all_rows(r, T0).admitted, users / 2);
    ration_close(r);
}

static void room_of_periods_that_are_not_kept_is_used_again(void **state)
{
    struct ration *r = open_usage(by_user);
    unsigned users = (unsigned)totals_of(r).capacity * 6 / 10;

    (void)state;
    for (unsigned day = 0; day < 12; day += 4) { /* nothing of four days ago is kept */
        int64_t now_ns = stopped_at(r, T0 + (int64_t)day * DAY);

        for (unsigned i = 0; i < users; i++)
            decide_user(r, i, now_ns);
        assert_int_equal(all_rows(r, now_ns).admitted, users);
        assert_int_equal(totals_of(r).other, 0);
    }
    ration_close(r);
}

static void rows_of_a_kept_period_are_never_given_away(void **state)
{
    struct ration *r = open_usage(by_user);
    unsigned users = (unsigned)totals_of(r).capacity;
    struct rows rows;

    (void)state;
    for (unsigned day = 0; day < 2; day++)
        for (unsigned i = 0; i < users; i++)
            decide_user(r, i, stopped_at(r, T0 + (int64_t)day * DAY));
    rows = all_rows(r, T0 + DAY);
    assert_int_equal(rows.admitted, 2 * users);
    ration_close(r);
}

static void the_row_other_outlives_as_many_periods_as_a_rule_may_keep(void **state)
{
    struct ration *r = open_usage("limits:\n  - { name: a, key: user, limit: 9 per second, usage: "
                                  "{ per: day, keep: 60 } }\n");
    struct rn_usage_counts *counts;

    (void)state;
    for (int64_t day = 0; day < 200; day++) {
        counts = rn_usage_file_other(file_of(r), 0, (T0 - T0 % DAY + day * DAY) / SECOND);
        rn_usage_add(file_of(r), counts, &counts->admitted, day + 1);
    }
    assert_int_equal(all_rows(r, T0 + 199 * DAY).admitted, (140 + 200) * 61 / 2);
    ration_close(r);
}

static void a_file_of_another_size_has_what_was_in_it(void **state)
{
    struct ration *r = open_usage(by_user);
    uint64_t incarnation = totals_of(r).incarnation;
    unsigned users = (unsigned)totals_of(r).capacity + 500;
    int64_t before;

    (void)state;
    for (unsigned i = 0; i < users; i++)
        decide_user(r, i, T0);
    before = (int64_t)all_rows(r, T0).count;
    ration_close(r);
    r = open_state(UINT64_C(4) << 20);
    rules_at(r, by_user, T0);
    assert_int_equal(totals_of(r).bytes, UINT64_C(4) << 20);
    assert_int_equal(totals_of(r).incarnation, incarnation);
    assert_int_equal(all_rows(r, T0).count, before);
    assert_int_equal(all_rows(r, T0).admitted, users);
    for (unsigned i = 0; i < 100; i++)
        decide_user(r, i, T0);
    assert_int_equal(all_rows(r, T0).admitted, users + 100);
    assert_in_range(all_rows(r, T0).count, before, before + 10); /* nearly all were there */
    ration_close(r);
    r = open_state(UINT64_C(1) << 20); /* it does not fit any more */
    rules_at(r, by_user, T0);
    assert_int_equal(totals_of(r).bytes, UINT64_C(4) << 20);
    ration_close(r);
    r = open_state(0);
    rules_at(r, by_user, T0);
    assert_int_equal(totals_of(r).bytes, UINT64_C(4) << 20);
    ration_close(r);
}

static void the_file_outlives_its_table(void **state)
{
    struct ration *r = open_usage(by_user);

    (void)state;
    decide_user(r, 1, T0);
    ration_close(r);
    unlink(state_path);
    r = open_usage(by_user);
    decide_user(r, 1, T0);
    assert_int_equal(all_rows(r, T0).admitted, 2);
    ration_close(r);
}

static void an_entry_whose_maker_was_killed_is_finished_by_the_next(void **state)
{
    struct ration *r = open_usage(by_user);
    struct rn_usage_file *file = file_of(r);
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct rn_usage_rule *rule = pin.book->usage[0];
    int64_t start_s = (T0 - T0 % DAY) / SECOND;
    uint64_t hash = rn_siphash(&rule->base.seed, "u1", 2);
    uint64_t tag = rn_usage_tag(rule->slot, hash, start_s);

    (void)state;
    rn_pin_drop(&pin);
    rn_usage_group_of(file, tag, 0)->tags[0] = tag; /* and nothing else of it */
    assert_int_equal(all_rows(r, T0).count, 0);
    decide_user(r, 1, T0);
    assert_rows(r, T0, "a u1 2023-11-14 1/0/0\n");
    assert_ptr_equal(rn_usage_file_find(file, tag), &rn_usage_group_of(file, tag, 0)->entries[0]);
    ration_close(r);
}

static void what_was_being_wiped_at_a_kill_is_free_again_at_the_next_start(void **state)
{
    struct ration *r = open_usage(by_user);
    struct rn_usage_group *group = file_of(r)->groups;

    (void)state;
    group->tags[3] = RN_USAGE_WIPED;
    group->entries[3].counts.admitted = 7;
    file_of(r)->head->wiping = 1;
    ration_close(r);
    r = open_usage(by_user);
    group = file_of(r)->groups;
    assert_int_equal(group->tags[3], 0);
    assert_int_equal(group->entries[3].counts.admitted, 0);
    assert_int_equal(file_of(r)->head->wiping, 0);
    ration_close(r);
}

static void two_entries_of_one_client_are_one_row(void **state)
{
    struct ration *r = open_usage(by_user);
    struct rn_usage_file *file = file_of(r);
    struct rn_usage_counts *first, *second = NULL;
    uint64_t tag = 0;

    (void)state;
    decide_user(r, 1, T0);
    for (uint64_t i = 0; i < file->group_count * RN_USAGE_ENTRIES && tag == 0; i++)
        tag = file->groups[i / RN_USAGE_ENTRIES].tags[i % RN_USAGE_ENTRIES];
    first = rn_usage_file_find(file, tag);
    for (unsigned choice = 0; choice < RN_USAGE_CHOICES && !second; choice++) {
        struct rn_usage_group *group = rn_usage_group_of(file, tag, choice);

        if ((char *)first >= (char *)group && (char *)first < (char *)(group + 1))
            continue;
        group->entries[2] = *(struct rn_usage_entry *)(void *)first;
        group->tags[2] = tag;
        second = &group->entries[2].counts;
    }
    assert_non_null(second);
    assert_rows(r, T0, "a u1 2023-11-14 2/0/0\n");
    ration_close(r);
}

static void a_rule_too_many_is_an_error(void **state)
{
    struct ration *r = open_state(UINT64_C(1) << 20);
    struct ration_report *report;
    char text[4000] = "limits:\n";

    (void)state;
    for (unsigned i = 0; i < 17; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "  - { name: r%u, key: user, limit: 9 per day, usage: true }\n", i);
    assert_int_equal(ration_rules_parse(r, "x.yaml", text, strlen(text), &report), RATION_EPARSE);
    assert_non_null(strstr(ration_report_text(report),
                           "x.yaml:18:5: error: \"r16\" has usage, and the usage file has no room "
                           "for more than 16 rules, former ones included; give it more memory "
                           "(rationd: --usage-memory), or move it away"));
    ration_report_free(report);
    ration_close(r);
}

/* --- marks --------------------------------------------------------------------------- */

struct seen {
    unsigned count;
    int64_t admitted;
    uint64_t last;
};

static int see_row(void *arg, const struct rn_usage_row *row)
{
    struct seen *seen = arg;

    assert_int_equal(row->keep, 1);
    seen->count++;
    seen->admitted += row->usage.admitted;
    seen->last = row->entry;
    return 0;
}

static struct seen walk(struct ration *r, bool all, size_t most)
{
    struct seen seen = {0};
    uint64_t cursor = 0;

    do
        assert_int_equal(rn_usage_dirty(r, all, &cursor, most, see_row, &seen), 0);
    while (cursor != 0);
    return seen;
}

/* The periods of such rows must be kept at the time of the machine. */
static void changes_are_seen_once_and_all_of_them_if_asked(void **state)
{
    struct ration *r = open_usage(by_user);
    int64_t now_ns = ration_now(r);

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        decide_user(r, i, now_ns);
    assert_int_equal(walk(r, false, 7).count, 1000);
    assert_int_equal(walk(r, false, 7).count, 0);
    assert_int_equal(walk(r, true, 100).admitted, 1000);
    decide_user(r, 5, now_ns);
    decide_user(r, 6, now_ns);
    struct seen seen = walk(r, false, 1);

    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.admitted, 4);
    rn_usage_mark(r, seen.last);
    assert_int_equal(walk(r, false, 100).count, 1);
    assert_int_equal(rn_usage_stamp(r), 1);
    assert_int_equal(rn_usage_stamp(r), 2);
    ration_close(r);
}

/* --- names and queries ----------------------------------------------------------------- */

#define NAME(parts, names, count, text)                                                            \
    (struct rn_slice)                                                                              \
    {                                                                                              \
        text, rn_usage_client(parts, names, count, text)                                           \
    }

static void long_names_are_cut_at_a_character_and_still_differ(void **state)
{
    char long_name[300], a[RATION_USAGE_CLIENT_MAX], b[RATION_USAGE_CLIENT_MAX];
    struct rn_slice parts[2] = {{long_name, 96}, RN_SLICE("x")};

    (void)state;
    memset(long_name, 'n', sizeof long_name);
    assert_int_equal(rn_usage_client(parts, NULL, 1, a), 96);
    assert_memory_equal(a, long_name, 96);
    assert_int_equal(rn_usage_client(parts, NULL, 2, a), 96);
    assert_int_equal(a[79], '~');
    parts[1] = RN_SLICE("y");
    assert_int_equal(rn_usage_client(parts, NULL, 2, b), 96);
    assert_memory_not_equal(a, b, 96);
    memcpy(long_name + 96, " y", 2); /* asked for: the whole name, or as in the row */
    parts[0].len = 98;
    assert_int_equal(rn_usage_client_asked(parts[0], a), 96);
    assert_memory_equal(a, b, 96);
    assert_int_equal(rn_usage_client_asked((struct rn_slice){b, 96}, a), 96);
    assert_memory_equal(a, b, 96);
    /* A client that takes the row's name of another one does not get it. */
    assert_int_equal(rn_usage_client(&(struct rn_slice){b, 96}, NULL, 1, a), 96);
    assert_memory_not_equal(a, b, 96);
    memcpy(long_name + 77, "\xF0\x9F\x98\x80", 4); /* it would end within this */
    assert_int_equal(rn_usage_client(parts, NULL, 1, a), 94);
    assert_int_equal(a[77], '~');
    assert_true(rn_usage_client(&(struct rn_slice){a, 94}, NULL, 1, b) != 94);
}

/* Each row is a bill: what callers send must not make it look like that of another client. */
static void clients_with_different_keys_have_different_names(void **state)
{
    const struct rn_slice left[] = {RN_SLICE("a b"), RN_SLICE("c")},
                          right[] = {RN_SLICE("a"), RN_SLICE("b c")},
                          escaped[] = {RN_SLICE("a%20b"), RN_SLICE("c")};
    char a[RATION_USAGE_CLIENT_MAX], b[RATION_USAGE_CLIENT_MAX], c[RATION_USAGE_CLIENT_MAX];
    struct ration *r = open_usage("limits:\n  - { name: a, key: api_key or ip, limit: 5 per hour, "
                                  "usage: true }\n");

    (void)state;
    assert_true(rn_slice_is(NAME(left, NULL, 2, a), "a%20b c"));
    assert_true(rn_slice_is(NAME(right, NULL, 2, b), "a b%20c"));
    assert_true(rn_slice_is(NAME(escaped, NULL, 2, c), "a%2520b c"));
    decide(r, "ip=192.0.2.1", T0);
    decide(r, "api_key=192.0.2.1", T0);
    decide(r, "api_key=ip=192.0.2.1", T0);
    assert_rows(r, T0,
                "a api_key=192.0.2.1 2023-11 1/0/0\na api_key=ip=192.0.2.1 2023-11 1/0/0\n"
                "a ip=192.0.2.1 2023-11 1/0/0\n");
    ration_close(r);
}

static void a_page_ends_where_the_next_begins(void **state)
{
    struct ration *r = open_usage(by_user);
    struct ration_usage_query q = {.at_s = T0 / SECOND, .limit = 7};
    struct rows rows = {0};

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        decide_user(r, i, T0);
    do
        assert_int_equal(ration_usage_each(r, &q, add_row, &rows, &q.cursor, NULL), 0);
    while (q.cursor != 0);
    assert_int_equal(rows.count, 50);
    assert_int_equal(rows.admitted, 50);
    ration_close(r);
}

#define QUERY(rule_, client_, period_)                                                             \
    &(struct ration_usage_query)                                                                   \
    {                                                                                              \
        .rule = rule_, .rule_len = strlen(rule_), .client = client_,                               \
        .client_len = strlen(client_), .period = period_, .period_len = strlen(period_),           \
        .at_s = T0 / SECOND                                                                        \
    }

static void corrections_are_apart_and_may_make_a_row(void **state)
{
    struct ration *r = open_usage(by_user);
    struct ration_error error;

    (void)state;
    decide_user(r, 1, T0);
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u1", "current"), -5, &error), 0);
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u1", "2023-11-14"), 2, &error), 0);
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u2", "last"), 9, &error), 0);
    assert_rows(r, T0, "a u1 2023-11-14 1/0/-3\na u2 2023-11-13 0/0/9\n");
    assert_int_equal(ration_usage_correct(r, QUERY("b", "u1", "last"), 1, &error), RATION_ENORULE);
    assert_string_equal(error.text, "no rule named \"b\" has usage");
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u1", "2023-11"), 1, &error),
                     RATION_EINVAL);
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u1", "2023-11-12"), 1, &error),
                     RATION_EINVAL);
    assert_string_equal(error.text, "\"2023-11-12\" is not a period that the rule keeps; write "
                                    "current, last, or one that a listing shows");
    assert_int_equal(ration_usage_correct(r, QUERY("a", "u1", "soon"), 1, &error), RATION_EINVAL);
    assert_string_equal(error.text, "\"soon\" is not a period; write current, last, or one such as "
                                    "2026, 2026-11, 2026-W47 or 2026-11-18");
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        USAGE_TEST(beyond_the_room_there_is_other_and_sums_stay_exact),
        USAGE_TEST(what_was_given_to_other_is_given_back_from_it),
        USAGE_TEST(room_of_periods_that_are_not_kept_is_used_again),
        USAGE_TEST(rows_of_a_kept_period_are_never_given_away),
        USAGE_TEST(the_row_other_outlives_as_many_periods_as_a_rule_may_keep),
        USAGE_TEST(a_file_of_another_size_has_what_was_in_it),
        USAGE_TEST(the_file_outlives_its_table),
        USAGE_TEST(an_entry_whose_maker_was_killed_is_finished_by_the_next),
        USAGE_TEST(what_was_being_wiped_at_a_kill_is_free_again_at_the_next_start),
        USAGE_TEST(two_entries_of_one_client_are_one_row),
        USAGE_TEST(a_rule_too_many_is_an_error),
        USAGE_TEST(changes_are_seen_once_and_all_of_them_if_asked),
        USAGE_TEST(long_names_are_cut_at_a_character_and_still_differ),
        USAGE_TEST(clients_with_different_keys_have_different_names),
        USAGE_TEST(a_page_ends_where_the_next_begins),
        USAGE_TEST(corrections_are_apart_and_may_make_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
