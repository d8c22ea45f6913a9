/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting, deleting, finding and listing overrides.
 *
 * Never mints. Let s be the share of a limit that is spent. An override whose
 * shape the rule does not have starts with the largest s among the rule's own
 * states of the client, and each admission under it raises theirs, as between
 * the tiers of a rule (check.c). So while no time passes, an admission of u
 * units under either raises the s of both by at least u / the larger capacity:
 * setting and deleting to and fro admits no more than that.
 *
 * Over time windows and logs forget what they could not count. Limits of the rule
 * that cover the override are therefore its guards, as between tiers, and what has
 * been spent of them when it is set makes it ask them. The rule's limits know no
 * override: one that covers them is not asked once it is gone, and what each of
 * both admits by itself adds up.
 *
 * One override that replaces another goes by the state of that one only: the
 * rule's, which may be far smaller, was filled up by what the override admitted.
 */
#include "base/error.h"
#include "limiter/limiter.h"
#include "limiter/roster.h"
#include "limiter/ruling.h"

#define RULE_MAX 1024 /* bytes of a name */
#define LIMIT_MAX 255

__extension__ typedef unsigned __int128 u128;

/* --- carrying over ------------------------------------------------------------------------- */

/* The state of the client under one limit or another of its rule. */
struct client_state {
    struct ration *r;
    uint64_t hash;
    int64_t shift_ns;
    int64_t now_ns;
};

static int apply(const struct client_state *s, const struct rn_compiled *l, enum rn_op op,
                 uint64_t cost, struct rn_answer *answer)
{
    struct rn_charge charge = {.ask = {.op = op, .now_ns = s->now_ns, .cost = cost}};
    int code = rn_limiter_apply_shifted(s->r, l, s->hash ^ l->salt, s->shift_ns, &charge);

    if (code == 0)
        *answer = charge.answer;
    return code;
}

/* Raises *most to the share spent of `from`, in units of `to`. */
static int add_share(const struct client_state *s, const struct rn_compiled *from,
                     const struct rn_compiled *to, uint64_t *most)
{
    struct rn_answer answer;
    int code = apply(s, from, RN_PEEK, 0, &answer);

    if (code != 0)
        return code;
    uint64_t cap = from->limit.cap, spent = cap - answer.remaining;
    u128 share = ((u128)spent * to->limit.cap + cap - 1) / cap;

    if (share > *most)
        *most = (uint64_t)share;
    return 0;
}

static int add_shares_of_rule(const struct client_state *s, const struct rn_family *f,
                              const struct rn_compiled *to, uint64_t *most)
{
    int code = 0;

    for (uint32_t i = 0; i < f->member_count && code == 0; i++) {
        if (f->members[i].limit->salt == to->salt)
            return *most = 0, 0;           /* one state, which is what it is */
        if (!f->members[i].limit->is_mark) /* nothing is spent of those */
            code = add_share(s, f->members[i].limit, to, most);
    }
    for (uint32_t i = 0; i < f->retired_count && code == 0; i++)
        if (f->retired[i].until_ns > s->now_ns && f->retired[i].limit.salt != to->salt)
            code = add_share(s, &f->retired[i].limit, to, most);
    return code;
}

/* The rule's limits set no mark of an override, which they know nothing of. */
static int mark_if_spent(const struct client_state *s, const struct rn_compiled *l)
{
    struct rn_answer answer;

    for (uint32_t i = 0; i < l->guard_count; i++) {
        int code = apply(s, l->guards[i], RN_PEEK, 0, &answer);

        if (code != 0)
            return code;
        if (answer.remaining < l->guards[i]->limit.cap)
            return apply(s, l->mark, RN_FORCE, 1, &answer);
    }
    return 0;
}

/* The whole units that are spent, of which a peek tells the next number above. */
static uint64_t whole_spent(const struct rn_compiled *l, const struct rn_answer *peeked)
{
    uint64_t spent = l->limit.cap - peeked->remaining;

    return spent != 0 && rn_compiled_refills(l) ? spent - 1 : spent;
}

/* Charges the new state what it lacks. */
static int carry_over(const struct client_state *s, const struct rn_family *f,
                      const struct rn_plan *plan, const struct rn_plan *before)
{
    const struct rn_compiled *to = &plan->compiled;
    struct rn_answer answer;
    uint64_t share = 0;
    int code;

    if (!plan->limit || !rn_compiled_counts(to))
        return 0;
    if (!before || !before->limit || !rn_compiled_counts(&before->compiled))
        code = add_shares_of_rule(s, f, to, &share);
    else if (before->compiled.salt == to->salt)
        return 0;
    else
        code = add_share(s, &before->compiled, to, &share);
    if (code == 0)
        code = mark_if_spent(s, to);
    if (code != 0 || share == 0)
        return code;
    code = apply(s, to, RN_PEEK, 0, &answer);
    uint64_t spent = code == 0 ? whole_spent(to, &answer) : 0;

    if (code != 0 || spent >= share)
        return code;
    return apply(s, to, RN_FORCE, share - spent, &answer);
}

static int carry_over_to(struct ration *r, const struct rn_book *book,
                         const struct rn_roster *roster, const struct rn_override_key *key,
                         const struct rn_plan *plan, struct ration_error *error)
{
    const struct rn_override *before = rn_roll_find(&roster->overrides, key->hash);
    struct client_state s = {.r = r, .hash = key->hash, .now_ns = r->clients.now_ns};

    s.shift_ns = rn_ruling_shift_ns(key->rule, key->hash);
    if (before && before->expires_ns <= s.now_ns)
        before = NULL;
    int code =
        carry_over(&s, &book->families[key->rule->index], plan, before ? before->plan : NULL);

    return code == 0 ? 0
                     : rn_error_set(error, code, 0,
                                    "what the client has spent cannot be carried over: %s",
                                    ration_error_text(code));
}

/* --- setting -------------------------------------------------------------------------------- */

static int read_rule(const struct ration_override *o, struct rn_client *client,
                     struct ration_error *error)
{
    *client = (struct rn_client){
        .rule = {o->rule, o->rule_len}, .limit = RN_SLICE(""), .note = RN_SLICE("")};
    if (!o->rule || o->rule_len == 0 || o->rule_len > RULE_MAX)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "an override names its rule, by at most %d bytes; give the name",
                            RULE_MAX);
    return rn_client_take(client, o->attributes, o->count, error);
}

static int read_override(const struct ration_override *o, struct rn_client *client,
                         struct ration_error *error)
{
    int code = read_rule(o, client, error);

    if (code != 0)
        return code;
    client->limit = (struct rn_slice){o->limit, o->limit_len};
    if (!o->limit || o->limit_len == 0 || o->limit_len > LIMIT_MAX)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "an override has a limit, of at most %d bytes; write for example "
                            "1000 per minute",
                            LIMIT_MAX);
    return rn_client_take_note(client, "note", o->note, o->note_len, error);
}

static int set(struct ration *r, struct rn_client *client, int64_t expires_ns,
               struct ration_error *error)
{
    struct rn_override_key key;
    struct rn_book *book;
    struct rn_roster *roster;
    const struct rn_plan *plan;
    int code = rn_clients_roster(r, false, &book, &roster, error);

    if (code == 0)
        code = rn_override_resolve(book, &r->secret, client, &key, error);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < client->count; i++)
        client->attributes[i] = key.attributes[i];
    plan = rn_override_plan(roster, book, key.rule, client->limit, &code, error);
    if (!plan)
        return code;
    code = rn_clients_expiry(&r->clients, expires_ns, client, error);
    if (code == 0)
        code = rn_clients_room(r, client, false, error);
    if (code == 0)
        code = carry_over_to(r, book, roster, &key, plan, error);
    return code != 0 ? code : rn_clients_change(r, RN_OVERRIDE_SET, client, error);
}

int rn_override_set_at(struct ration *r, const struct ration_override *o, int64_t now_ns,
                       struct ration_error *error)
{
    struct rn_client client;
    int code = read_override(o, &client, error);

    if (code == 0)
        code = rn_clients_begin(r, now_ns, error);
    if (code != 0)
        return code;
    code = set(r, &client, o->expires_ns, error);
    rn_clients_end(r, code == 0);
    return code;
}

int ration_override_set(struct ration *r, const struct ration_override *o,
                        struct ration_error *error)
{
    return rn_override_set_at(r, o, RATION_NOW, error);
}

/* --- deleting, finding and listing
 * ----------------------------------------------------------------------
 */

/* Spelt as the rule does, or, if that is not there any more, as it is kept: `client` may
 * point into `key` then. NULL: there is none. */
static const struct rn_entry *find(struct ration *r, struct rn_client *client,
                                   struct rn_override_key *key, struct ration_error *error)
{
    const struct rn_entry *found = rn_clients_find(&r->clients, client, false);

    if (!found && rn_override_resolve(rn_clients_book(r), &r->secret, client, key, NULL) == 0) {
        for (uint32_t i = 0; i < client->count; i++)
            client->attributes[i] = key->attributes[i];
        found = rn_clients_find(&r->clients, client, false);
    }
    if (!found)
        rn_error_set(error, RATION_EGONE, 0, "there is no override of rule %s for such a client",
                     rn_error_quote(client->rule.data, client->rule.len, 0).text);
    return found;
}

int ration_override_delete(struct ration *r, const struct ration_override *o,
                           struct ration_error *error)
{
    struct rn_override_key key;
    struct rn_client client;
    int code = read_rule(o, &client, error);

    if (code == 0)
        code = rn_clients_begin(r, RATION_NOW, error);
    if (code != 0)
        return code;
    code = find(r, &client, &key, error) ? rn_clients_change(r, RN_OVERRIDE_DELETE, &client, error)
                                         : RATION_EGONE;
    rn_clients_end(r, code == 0);
    return code;
}

int ration_override_find(struct ration *r, struct ration_override *o, struct ration_error *error)
{
    const struct rn_entry *found;
    struct rn_override_key key;
    struct rn_client client;
    int code = read_rule(o, &client, error);

    if (code != 0)
        return code;
    rn_clients_lock(r, RATION_NOW);
    found = find(r, &client, &key, error);
    if (found) {
        o->sequence = found->sequence;
        o->active = found->active;
    }
    pthread_mutex_unlock(&r->clients.lock);
    return found ? 0 : RATION_EGONE;
}

static int tell(const struct rn_clients_row *row, const struct rn_client *client,
                int (*see)(void *arg, const struct ration_override *o), void *arg)
{
    struct ration_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX];

    for (uint32_t i = 0; i < client->count; i++) {
        const struct rn_client_attribute *a = &client->attributes[i];

        attributes[i] =
            (struct ration_attribute){a->name.data, a->name.len, a->value.data, a->value.len};
    }
    return see(arg, &(struct ration_override){.rule = client->rule.data,
                                              .rule_len = client->rule.len,
                                              .attributes = attributes,
                                              .count = client->count,
                                              .limit = client->limit.data,
                                              .limit_len = client->limit.len,
                                              .expires_ns = row->expires_ns,
                                              .note = client->note.data,
                                              .note_len = client->note.len,
                                              .sequence = row->sequence,
                                              .active = row->active});
}

int ration_override_list(struct ration *r, const struct ration_listing *listing,
                         int (*see)(void *arg, const struct ration_override *o), void *arg)
{
    struct rn_clients_list list;
    struct rn_client client;
    int code = rn_clients_list(r, false, listing, &list);

    for (size_t i = 0; i < list.count && code == 0; i++) {
        const struct rn_clients_row *row = &list.rows[i];

        if (rn_client_read((struct rn_slice){list.payloads.data + row->at, row->len}, &client) &&
            tell(row, &client, see, arg) != 0)
            break;
    }
    rn_clients_list_done(&list);
    return code;
}

int ration_override_each(struct ration *r, const char *rule, size_t rule_len,
                         int (*see)(void *arg, const struct ration_override *o), void *arg)
{
    return ration_override_list(r, &(struct ration_listing){.rule = rule, .rule_len = rule_len},
                                see, arg);
}
