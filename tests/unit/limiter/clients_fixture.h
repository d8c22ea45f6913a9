/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of overrides and bans share. */
#ifndef RN_TESTS_LIMITER_CLIENTS_FIXTURE_H
#define RN_TESTS_LIMITER_CLIENTS_FIXTURE_H

#include "rules_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ration/clients.h>

#include "limiter/clients/client_index.h"

static const char by_user[] = "limits:\n  - { name: a, key: user, limit: 10 per hour }\n";
static const char by_user_window[] =
    "limits:\n  - { name: a, key: user, limit: 10 per hour, algorithm: fixed-window }\n";

static const char shop[] = "domain: shop\n"
                           "descriptors:\n"
                           "  - key: user\n"
                           "    rate_limit: { unit: hour, requests_per_unit: 10 }\n";

static inline struct ration_outcome decide_in_shop(struct ration *r, const char *user)
{
    const struct ration_descriptor_entry entry = {"user", 4, user, strlen(user)};
    const struct ration_descriptor d = {"shop", 4, &entry, 1, 1};
    struct ration_outcome out;

    assert_int_equal(ration_decide_descriptor(r, &d, T0, &out), 0);
    return out;
}

static inline struct ration_override override_of(const char *rule, struct words *w,
                                                 const char *words, const char *limit)
{
    split_words(w, words);
    return (struct ration_override){.rule = rule,
                                    .rule_len = strlen(rule),
                                    .attributes = w->attributes,
                                    .count = w->request.count,
                                    .limit = limit,
                                    .limit_len = limit ? strlen(limit) : 0};
}

static inline int try_set(struct ration *r, const char *rule, const char *words, const char *limit,
                          int64_t expires_ns, struct ration_error *error)
{
    struct words w;
    struct ration_override o = override_of(rule, &w, words, limit);

    o.expires_ns = expires_ns;
    return rn_clients_set(r, &o, false, T0, error);
}

static inline void set_limit(struct ration *r, const char *rule, const char *words,
                             const char *limit)
{
    struct ration_error error;

    if (try_set(r, rule, words, limit, 0, &error) != 0)
        fail_msg("%s", error.text);
}

static inline int try_delete(struct ration *r, const char *rule, const char *words)
{
    struct words w;
    struct ration_override o = override_of(rule, &w, words, NULL);

    return ration_override_delete(r, &o, NULL);
}

static inline void delete_limit(struct ration *r, const char *rule, const char *words)
{
    assert_int_equal(try_delete(r, rule, words), 0);
}

static inline int try_ban(struct ration *r, const char *words, const char *reason,
                          int64_t expires_ns, struct ration_error *error)
{
    struct words w;

    split_words(&w, words);
    return rn_clients_set(r,
                          &(struct ration_override){.attributes = w.attributes,
                                                    .count = w.request.count,
                                                    .expires_ns = expires_ns,
                                                    .note = reason,
                                                    .note_len = strlen(reason)},
                          true, T0, error);
}

static inline void ban(struct ration *r, const char *words)
{
    struct ration_error error;

    if (try_ban(r, words, "", 0, &error) != 0)
        fail_msg("%s", error.text);
}

static inline int unban(struct ration *r, const char *words)
{
    struct words w;

    split_words(&w, words);
    return ration_ban_delete(
        r, &(struct ration_ban){.attributes = w.attributes, .count = w.request.count}, NULL);
}

/* All overrides as text: "rule name=value limit note[ inactive]\n" each. */
struct listing {
    char text[4096];
    size_t len;
    unsigned count;
};

static inline int list_override(void *arg, const struct ration_override *o)
{
    struct listing *l = arg;

    l->count++;
    l->len += (size_t)snprintf(l->text + l->len, sizeof l->text - l->len, "%.*s", (int)o->rule_len,
                               o->rule);
    for (size_t i = 0; i < o->count; i++)
        l->len += (size_t)snprintf(l->text + l->len, sizeof l->text - l->len, " %.*s=%.*s",
                                   (int)o->attributes[i].name_len, o->attributes[i].name,
                                   (int)o->attributes[i].value_len, o->attributes[i].value);
    l->len += (size_t)snprintf(l->text + l->len, sizeof l->text - l->len, " %.*s%s\n",
                               (int)o->limit_len, o->limit, o->active ? "" : " inactive");
    return 0;
}

static inline const char *overrides(struct ration *r)
{
    static struct listing l;

    l = (struct listing){.len = 0};
    assert_int_equal(ration_override_each(r, NULL, 0, list_override, &l), 0);
    return l.text;
}

static inline int count_override(void *arg, const struct ration_override *o)
{
    (void)o;
    ++*(unsigned *)arg;
    return 0;
}

static inline unsigned count_overrides(struct ration *r)
{
    unsigned count = 0;

    assert_int_equal(ration_override_each(r, NULL, 0, count_override, &count), 0);
    return count;
}

/* --- files --------------------------------------------------------------------------------- */

/* A state file that is not there yet; its journal is state_path() + ".overrides". */
static inline const char *state_path(void)
{
    static char path[64];

    if (path[0] == '\0')
        snprintf(path, sizeof path, "/tmp/ration-clients-%ld", (long)getpid());
    return path;
}

static inline const char *journal_path(void)
{
    static char path[80];

    snprintf(path, sizeof path, "%s.overrides", state_path());
    return path;
}

static inline void remove_files(void)
{
    unlink(state_path());
    unlink(journal_path());
}

static inline int try_open_state(struct ration **r, struct ration_error *error)
{
    return ration_open(
        &(struct ration_options){.state_path = state_path(), .memory_bytes = UINT64_C(2) << 20}, r,
        error);
}

static inline struct ration *open_state(struct ration_error *error)
{
    struct ration *r = NULL;
    struct ration_error own;

    error = error ? error : &own;
    if (try_open_state(&r, error) != 0)
        fail_msg("%s", error->text);
    return r;
}

static inline struct ration *open_state_rules(const char *rules)
{
    struct ration *r = open_state(NULL);

    rules_at(r, rules, T0);
    return r;
}

static inline void refresh(struct ration *r)
{
    struct ration_error error;

    assert_int_equal(ration_clients_refresh(r, &error), 0);
    assert_string_equal(error.text, "");
}

static inline char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);

    assert_non_null(f);
    *len = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static inline void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

#endif
