/* SPDX-License-Identifier: Apache-2.0 */
#include "front/token.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

#define WRONG_NS RN_SECOND_NS /* until a wrong one is forgotten */
#define WRONG_MAX 10          /* that an address may have */

bool rn_token_guard_init(struct rn_token_guard *guard)
{
    pthread_mutex_init(&guard->lock, NULL);
    return getrandom(&guard->key, sizeof guard->key, 0) == sizeof guard->key;
}

void rn_token_guard_done(struct rn_token_guard *guard)
{
    pthread_mutex_destroy(&guard->lock);
}

/* Takes as long for a wrong text as for one that is partly right. */
static bool is_text(const char *text, struct rn_slice given)
{
    size_t len = strlen(text);
    unsigned char differ = len != given.len;

    if (len == 0 || given.len == 0)
        return false;
    for (size_t i = 0; i < given.len; i++)
        differ |= (unsigned char)(given.data[i] ^ text[i % len]);
    return differ == 0;
}

/* Compares all tokens, so that the time does not depend on which one is right. */
static struct rn_token_shown find_text(struct rn_token_guard *guard, struct rn_slice given)
{
    struct rn_token_shown found = {0};

    pthread_mutex_lock(&guard->lock);
    for (size_t i = 0; i < guard->token_count; i++)
        if (is_text(guard->tokens[i].text, given))
            found = (struct rn_token_shown){&guard->tokens[i], guard->tokens[i].version};
    pthread_mutex_unlock(&guard->lock);
    return found;
}

const struct rn_token *rn_token_find(struct rn_token_guard *guard, struct rn_slice given)
{
    return find_text(guard, given).token;
}

const struct rn_token *rn_token_of(const struct rn_token_shown *shown)
{
    const struct rn_token *token = shown->token;

    return token && __atomic_load_n(&token->version, __ATOMIC_RELAXED) == shown->version ? token
                                                                                         : NULL;
}

bool rn_token_replace(struct rn_token_guard *guard, struct rn_token *token, char *text)
{
    bool is_new = !rn_token_find(guard, rn_slice_of(text));
    char *unused = text;

    pthread_mutex_lock(&guard->lock);
    if (is_new) {
        unused = token->text;
        token->text = text;
        __atomic_store_n(&token->version, token->version + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&guard->lock);
    explicit_bzero(unused, strlen(unused));
    free(unused);
    return is_new;
}

const char *rn_token_scope_name(enum rn_token_scope scope)
{
    static const char *const names[] = {[RN_SCOPE_NONE] = "none",
                                        [RN_SCOPE_METRICS] = "metrics",
                                        [RN_SCOPE_READ] = "read",
                                        [RN_SCOPE_ADMIN] = "admin"};

    return names[scope];
}

/* The entry of the address, or the one of its set that is forgotten first: memory is bounded, and
 * no address pays for the guesses of another. */
static struct rn_token_suspect *find(struct rn_token_guard *guard, const struct rn_ip *ip)
{
    uint64_t hash = rn_siphash(&guard->key, ip->bytes, sizeof ip->bytes);
    struct rn_token_suspect *set = guard->suspects[hash % RN_TOKEN_SETS], *found = set;

    for (size_t i = 0; i < RN_TOKEN_WAYS; i++) {
        if (set[i].clear_ns != 0 && rn_ip_equal(&set[i].ip, ip))
            return &set[i];
        if (set[i].clear_ns < found->clear_ns)
            found = &set[i];
    }
    *found = (struct rn_token_suspect){.ip = *ip};
    return found;
}

/* Counts a token as wrong before it is compared, so that guesses on many connections at once
 * count. False: there were too many. */
static bool count_wrong(struct rn_token_guard *guard, const struct rn_ip *ip, int64_t now_ns)
{
    pthread_mutex_lock(&guard->lock);
    struct rn_token_suspect *suspect = find(guard, ip);
    int64_t clear_ns = (suspect->clear_ns > now_ns ? suspect->clear_ns : now_ns) + WRONG_NS;
    bool counted = clear_ns - now_ns <= WRONG_MAX * WRONG_NS;

    if (counted)
        suspect->clear_ns = clear_ns;
    pthread_mutex_unlock(&guard->lock);
    return counted;
}

static void take_back(struct rn_token_guard *guard, const struct rn_ip *ip)
{
    pthread_mutex_lock(&guard->lock);
    find(guard, ip)->clear_ns -= WRONG_NS;
    pthread_mutex_unlock(&guard->lock);
}

enum rn_token_answer rn_token_try(struct rn_token_guard *guard, const struct rn_peer *peer,
                                  struct rn_token_shown *shown, struct rn_slice name,
                                  struct rn_slice given, int64_t now_ns)
{
    /* A host with IPv6 has a whole /64; all peers on unix sockets count as one. */
    struct rn_ip ip = peer->ip.bits == 128 ? rn_ip_mask(peer->ip, 64) : peer->ip;
    struct rn_token_shown found = find_text(guard, given);
    bool known = rn_token_of(shown) != NULL;

    if (found.token && name.data && !rn_slice_is(name, "default") &&
        !rn_slice_is(name, found.token->name))
        found.token = NULL;
    *shown = (struct rn_token_shown){0};
    if (!(known && found.token)) {
        if (!count_wrong(guard, &ip, now_ns))
            return RN_TOKEN_LATER;
        if (!found.token)
            return RN_TOKEN_WRONG;
        take_back(guard, &ip);
    }
    *shown = found;
    return RN_TOKEN_RIGHT;
}
