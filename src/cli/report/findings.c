/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/findings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rules/report/report.h"

/* With less than this nothing is said about shares and unused room: it would be chance. */
#define CLIENTS_LEAST 10
#define REQUESTS_LEAST 100

static const struct {
    const char *word, *heading;
} kinds[RN_FINDING_KINDS] = {
    [RN_FINDING_NEVER_HIT] = {"never_hit", "Rules that no request has met"},
    [RN_FINDING_REFUSES_MANY] = {"refuses_many", "Rules that refuse many of their clients"},
    [RN_FINDING_SHADOWED] = {"shadowed", "Rules that never get to refuse"},
    [RN_FINDING_NEAR] = {"near_limit", "Clients near their limit"},
    [RN_FINDING_UNCOVERED] = {"uncovered", "Requests that no rule covers"},
    [RN_FINDING_SIGNAL] = {"signal_never_fired", "Signals that never fired"},
    [RN_FINDING_SUGGESTION] = {"suggestion", "Suggested limits"},
};

const char *rn_findings_word(enum rn_finding_kind kind)
{
    return kinds[kind].word;
}

const char *rn_findings_heading(enum rn_finding_kind kind)
{
    return kinds[kind].heading;
}

struct rn_slice rn_findings_message(const struct rn_findings *f,
                                    const struct rn_findings_item *finding)
{
    return (struct rn_slice){f->text.data + finding->at, finding->len};
}

void rn_findings_done(struct rn_findings *f)
{
    free(f->items);
    rn_buf_done(&f->text);
}

/* Begins a finding; what is put into f->text until end() is its message. */
static void begin(struct rn_findings *f, enum rn_finding_kind kind, struct rn_slice rule)
{
    if (f->count == f->room) {
        size_t room = f->room * 2 + 16;
        struct rn_findings_item *items = realloc(f->items, room * sizeof *items);

        if (items == NULL) {
            f->failed = true;
            return;
        }
        f->items = items;
        f->room = room;
    }
    f->items[f->count++] = (struct rn_findings_item){.kind = kind, .rule = rule, .at = f->text.len};
}

static void end(struct rn_findings *f)
{
    if (f->count != 0)
        f->items[f->count - 1].len = f->text.len - f->items[f->count - 1].at;
    f->failed |= f->text.failed;
}

static uint64_t number(const struct rn_cli_json *object, const char *name)
{
    uint64_t n = 0;

    rn_cli_json_u64(object, name, &n);
    return n;
}

uint64_t rn_findings_requests(const struct rn_cli_json *rule)
{
    uint64_t n = number(rule, "allowed") + number(rule, "refused");

    rn_cli_json_u64(rule, "requests", &n);
    return n;
}

uint64_t rn_findings_clients(const struct rn_cli_json *rule)
{
    uint64_t n = number(rule, "clients");

    rn_cli_json_u64(rn_cli_json_get(rule, "clients"), "seen", &n);
    return n;
}

uint64_t rn_findings_refused(const struct rn_cli_json *rule)
{
    uint64_t n = number(rule, "clients_refused");

    rn_cli_json_u64(rn_cli_json_get(rule, "clients"), "refused", &n);
    return n;
}

/* Whether the rule counts clients apart. A replay counts clients of its own. */
static bool is_keyed(const struct rn_cli_json *rule)
{
    return rn_cli_json_get(rule, "keyed") == NULL || rn_cli_json_is_true(rule, "keyed");
}

/* 12 %, 0.4 % or 99.6 %. Only all of them are 100 %. */
static void put_share(struct rn_buf *out, uint64_t part, uint64_t whole)
{
    uint64_t permille = whole == 0 ? 0 : part >= whole ? 1000 : (part * 1000 + whole / 2) / whole;

    if (part < whole && permille > 999)
        permille = 999;
    if (permille < 100 || (permille >= 990 && permille < 1000))
        rn_buf_putf(out, "%" PRIu64 ".%" PRIu64 " %%", permille / 10, permille % 10);
    else
        rn_buf_putf(out, "%" PRIu64 " %%", (permille + 5) / 10);
}

/* --- rules --------------------------------------------------------------------------- */

static void look_for_many(struct rn_findings *f, const struct rn_cli_json *rule,
                          struct rn_slice name)
{
    uint64_t clients = rn_findings_clients(rule), refused = rn_findings_refused(rule);
    struct rn_excerpt quoted = rn_excerpt(name);
    bool shadow = number(rule, "refused") == 0;

    refused = refused < clients ? refused : clients;
    if (!is_keyed(rule) || clients < CLIENTS_LEAST || refused * 1000 <= clients * f->share_permille)
        return;
    begin(f, RN_FINDING_REFUSES_MANY, name);
    rn_buf_putf(&f->text, "%s %s about %" PRIu64 " of %" PRIu64 " clients (", quoted.text,
                shadow ? "would have refused" : "has refused", refused, clients);
    put_share(&f->text, refused, clients);
    rn_buf_putf(&f->text, "), %" PRIu64 " requests of %" PRIu64 "; is that what it is for?",
                number(rule, shadow ? "shadowed" : "refused"), rn_findings_requests(rule));
    end(f);
    begin(f, RN_FINDING_SUGGESTION, name);
    rn_buf_putf(&f->text,
                "raise %s, or charge expensive requests alone: ration suggest --rules RULES --rule "
                "%s LOG finds the smallest limit that touches few clients",
                quoted.text, quoted.text);
    end(f);
}

static void look_for_shadow(struct rn_findings *f, const struct rn_cli_json *rule,
                            struct rn_slice name)
{
    const struct rn_cli_json *beside = rn_cli_json_get(rule, "beside");
    uint64_t refused = number(beside, "refused");

    if (!rn_cli_json_is_true(beside, "always") || refused == 0 || number(rule, "refused") != 0 ||
        number(rule, "shadowed") != 0)
        return;
    begin(f, RN_FINDING_SHADOWED, name);
    rn_buf_putf(&f->text,
                "%s has refused nothing: %s applies to all of its requests, and has refused "
                "%" PRIu64 " of them while %s had room; lower %s, or remove it",
                rn_excerpt(name).text, rn_excerpt(rn_cli_json_text(beside, "rule")).text, refused,
                rn_excerpt(name).text, rn_excerpt(name).text);
    end(f);
}

static void look_for_near(struct rn_findings *f, const struct rn_cli_json *rule,
                          struct rn_slice name)
{
    uint64_t near = number(rule, "clients_near");
    const struct rn_cli_json *client = rn_cli_json_list(rule, "near");

    if (near == 0 || !is_keyed(rule))
        return;
    begin(f, RN_FINDING_NEAR, name);
    rn_buf_putf(&f->text, "%s: about %" PRIu64 " client%s (", rn_excerpt(name).text, near,
                near == 1 ? "" : "s");
    put_share(&f->text, near, rn_findings_clients(rule));
    rn_buf_putf(&f->text, ") had less than a fifth of the limit left");
    for (const char *before = ", such as "; client != NULL; client = client->next, before = ", ")
        rn_buf_putf(&f->text, "%s%s", before, rn_excerpt(client->text).text);
    end(f);
}

/* --- suggestions ---------------------------------------------------------------------- */

/* A quarter more than was used, and no odd figures. */
static uint64_t round_up(uint64_t used)
{
    uint64_t n = used + used / 4 + 1, unit = 1;

    while (n / unit >= 100)
        unit *= 10;
    return (n + unit - 1) / unit * unit;
}

/* The limit with `n` in the place of its capacity: that is its burst, if it has one. */
static bool put_smaller(struct rn_buf *out, struct rn_slice text, uint64_t n)
{
    const char *burst = memmem(text.data, text.len, " burst ", 7);
    const char *space = memchr(text.data, ' ', text.len);

    if (burst != NULL) {
        rn_buf_put(out, text.data, (size_t)(burst - text.data));
        rn_buf_putf(out, " burst %" PRIu64, n);
        return true;
    }
    if (space == NULL)
        return false;
    rn_buf_putf(out, "%" PRIu64, n);
    rn_buf_put(out, space, text.len - (size_t)(space - text.data));
    return true;
}

/* A limit of which nobody has used half protects less than it could. */
static void look_for_room(struct rn_findings *f, const struct rn_cli_json *rule,
                          struct rn_slice name)
{
    if (number(rule, "refused") + number(rule, "shadowed") != 0 ||
        number(rule, "allowed") < REQUESTS_LEAST ||
        (is_keyed(rule) && rn_findings_clients(rule) < CLIENTS_LEAST))
        return;
    for (const struct rn_cli_json *l = rn_cli_json_list(rule, "limits"); l != NULL; l = l->next) {
        uint64_t used = number(l, "most_used"), capacity = number(l, "capacity");
        struct rn_slice tier = rn_cli_json_text(l, "tier"), text = rn_cli_json_text(l, "limit");
        uint64_t enough = round_up(used);

        if (used == 0 || capacity < 10 || enough > capacity / 2 || text.data == NULL)
            continue;
        begin(f, RN_FINDING_SUGGESTION, name);
        rn_buf_putf(&f->text, "%s: ", rn_excerpt(name).text);
        if (tier.data != NULL)
            rn_buf_putf(&f->text, "tier %s: ", rn_excerpt(tier).text);
        if (!put_smaller(&f->text, text, enough))
            rn_buf_putf(&f->text, "%" PRIu64, enough);
        rn_buf_putf(&f->text,
                    " would have refused nothing: no client has used more than %" PRIu64
                    " of %" PRIu64 " at once",
                    used, capacity);
        end(f);
    }
}

static void look_at_rule(struct rn_findings *f, const struct rn_cli_json *rule)
{
    struct rn_slice name = rn_cli_json_text(rule, "rule");

    if (rn_findings_requests(rule) + rn_findings_refused(rule) == 0 &&
        rn_cli_json_get(rule, "beside") == NULL) {
        begin(f, RN_FINDING_NEVER_HIT, name);
        rn_buf_putf(&f->text,
                    "%s: no request has met it; if there should be some, ration explain shows why "
                    "one is not among them",
                    rn_excerpt(name).text);
        end(f);
        return;
    }
    look_for_many(f, rule, name);
    look_for_shadow(f, rule, name);
    look_for_near(f, rule, name);
    look_for_room(f, rule, name);
}

/* --- beside the rules ----------------------------------------------------------------- */

static void look_at_uncovered(struct rn_findings *f, const struct rn_cli_json *path,
                              uint64_t requests)
{
    struct rn_slice text = rn_cli_json_text(path, "request");
    uint64_t n = number(path, "requests");

    n = n < requests ? n : requests;
    begin(f, RN_FINDING_UNCOVERED, text);
    rn_buf_putf(&f->text, "%s: about %" PRIu64 " request%s (",
                text.len == 0 ? "(neither method nor path)" : rn_excerpt(text).text, n,
                n == 1 ? "" : "s");
    put_share(&f->text, n, requests);
    rn_buf_putf(&f->text, " of all)");
    end(f);
}

/* A replay does not tell which they are. */
static void count_uncovered(struct rn_findings *f, uint64_t n, uint64_t requests)
{
    begin(f, RN_FINDING_UNCOVERED, RN_SLICE(""));
    rn_buf_putf(&f->text, "%" PRIu64 " request%s (", n, n == 1 ? "" : "s");
    put_share(&f->text, n, requests);
    rn_buf_putf(&f->text, " of all)");
    end(f);
}

static void look_at_signal(struct rn_findings *f, const struct rn_cli_json *signal)
{
    struct rn_slice rule = rn_cli_json_text(signal, "rule");

    if (rn_cli_json_is_true(signal, "fired"))
        return;
    begin(f, RN_FINDING_SIGNAL, rule);
    rn_buf_putf(&f->text,
                "%s has never changed the limits of %s; if there was load, look at its threshold",
                rn_excerpt(rn_cli_json_text(signal, "signal")).text, rn_excerpt(rule).text);
    end(f);
}

static int by_kind(const void *left, const void *right)
{
    const struct rn_findings_item *a = left, *b = right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

void rn_findings_draw(struct rn_findings *f, const struct rn_cli_json *facts)
{
    const struct rn_cli_json *item;

    for (item = rn_cli_json_list(facts, "rules"); item != NULL; item = item->next)
        look_at_rule(f, item);
    for (item = rn_cli_json_list(facts, "uncovered"); item != NULL; item = item->next)
        look_at_uncovered(f, item, number(facts, "requests"));
    if (rn_cli_json_get(facts, "uncovered") == NULL && number(facts, "unmatched") != 0)
        count_uncovered(f, number(facts, "unmatched"), number(facts, "requests"));
    for (item = rn_cli_json_list(facts, "signals"); item != NULL; item = item->next)
        look_at_signal(f, item);
    if (f->count > 1)
        qsort(f->items, f->count, sizeof *f->items, by_kind);
}
