/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bans under a book. Bans that ask for the same names, and for networks of the
 * same length, are of one kind; for each kind in use a request is hashed and
 * looked up once.
 */
#include <stdlib.h>

#include "base/error.h"
#include "limiter/clients/client_index.h"
#include "limiter/limiter.h"

/* --- what is compared ------------------------------------------------------------------ */

int rn_ban_spell(struct rn_client *client, struct rn_ban_texts *texts, struct ration_error *error)
{
    if (client->count == 0 || client->count > RATION_BAN_ATTRIBUTES_MAX)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "a ban by %u attributes; give it 1 to %d, all of which must be equal",
                            client->count, RATION_BAN_ATTRIBUTES_MAX);
    for (uint32_t i = 0; i < client->count; i++) {
        struct rn_client_attribute *a = &client->attributes[i];
        struct rn_cidr cidr;
        int code = 0;

        if (rn_slice_is(a->name, "path"))
            code = rn_client_spell_path(&a->value, &(struct rn_path_settings){0}, &texts->paths,
                                        error);
        if (code == 0 && rn_slice_is(a->name, "ip"))
            code = rn_cidr_parse(a->value.data, a->value.len, &cidr, error);
        if (code != 0)
            return code;
        if (!rn_slice_is(a->name, "ip"))
            continue;
        a->value =
            (struct rn_slice){texts->texts[i], cidr.prefix == cidr.network.bits
                                                   ? rn_ip_write(&cidr.network, texts->texts[i])
                                                   : rn_cidr_write(&cidr, texts->texts[i])};
    }
    return 0;
}

/* One value as it is hashed: a text, or the network of an address. */
struct value {
    struct rn_slice text;
    struct rn_ip ip;
};

static void hash_value(struct rn_siphash *s, const struct rn_ban_part *part, const struct value *v)
{
    const uint8_t form[] = {part->bits, part->prefix};

    rn_siphash_add(s, part->name.data, part->name.len);
    rn_siphash_add(s, form, sizeof form);
    if (part->bits == 0) {
        rn_siphash_add(s, v->text.data, v->text.len);
    } else {
        struct rn_ip network = rn_ip_mask(v->ip, part->prefix);

        rn_siphash_add(s, network.bytes, sizeof network.bytes);
    }
}

/* --- entering --------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    return rn_slice_compare(((const struct rn_client_attribute *)left)->name,
                            ((const struct rn_client_attribute *)right)->name);
}

/* Its number, or kind_count. */
static uint32_t find_kind(const struct rn_client_index *index, const struct rn_ban_kind *wanted)
{
    for (uint32_t i = 0; i < index->kind_count; i++) {
        const struct rn_ban_kind *kind = &index->kinds[i];
        bool same = kind->count == wanted->count;

        for (uint32_t k = 0; k < kind->count && same; k++)
            same = rn_slice_equal(kind->parts[k].name, wanted->parts[k].name) &&
                   kind->parts[k].bits == wanted->parts[k].bits &&
                   kind->parts[k].prefix == wanted->parts[k].prefix;
        if (same)
            return i;
    }
    return index->kind_count;
}

/* RATION_EFULL or RATION_ENOMEM, or *kind. Names are copied: kinds stay. */
static int enter_kind(struct rn_client_index *index, const struct rn_ban_kind *wanted,
                      struct rn_ban_kind **kind)
{
    uint32_t number = find_kind(index, wanted);
    struct rn_ban_kind *new;

    if (number == RATION_BAN_KINDS_MAX)
        return RATION_EFULL;
    new = &index->kinds[number];
    *kind = new;
    if (number < index->kind_count)
        return 0;
    *new = *wanted;
    for (uint32_t i = 0; i < new->count; i++) {
        new->parts[i].name = rn_builder_dup(&index->builder, wanted->parts[i].name);
        if (!new->parts[i].name.data)
            return RATION_ENOMEM;
    }
    __atomic_store_n(&index->kind_count, number + 1, __ATOMIC_RELEASE);
    return 0;
}

/* The kind of a ban, the hash of its values, and its bit in the filter. Attributes that the rules
 * take for addresses are compared as such, if the value is one. */
static uint64_t describe(const struct rn_client_index *index, const struct rn_book *book,
                         const struct rn_client *client, struct rn_ban_kind *kind,
                         struct rn_ban_bit *bit)
{
    const struct rn_ruleset *ruleset = book->ruleset;
    struct rn_client sorted = *client;
    struct rn_siphash s;

    *kind = (struct rn_ban_kind){.count = client->count};
    qsort(sorted.attributes, sorted.count, sizeof *sorted.attributes, compare_names);
    rn_siphash_init(&s, &index->ban_seed);
    for (uint32_t i = 0; i < sorted.count; i++) {
        struct rn_slice name = sorted.attributes[i].name;
        struct rn_ban_part *part = &kind->parts[i];
        struct value v = {.text = sorted.attributes[i].value};
        struct rn_path_readings paths;
        struct rn_cidr cidr;

        *part = (struct rn_ban_part){.name = name, .number = rn_ruleset_attribute(ruleset, name)};
        if ((rn_slice_is(name, "ip") ||
             (part->number != RN_NO_ATTRIBUTE && ruleset->attributes[part->number].is_ip)) &&
            rn_cidr_parse(v.text.data, v.text.len, &cidr, NULL) == 0) {
            part->bits = cidr.network.bits;
            part->prefix = cidr.prefix;
            v.ip = cidr.network;
        }
        if (rn_slice_is(name, "path")) { /* all spellings of it are banned */
            rn_path_read_all(v.text, &ruleset->paths, &paths);
            v.text = paths.text[0];
        }
        hash_value(&s, part, &v);
        if (i == 0)
            *bit = part->bits != 0 ? rn_ban_filter_network(&v.ip, part->prefix)
                                   : rn_ban_filter_text(v.text);
    }
    return rn_siphash_done(&s);
}

int rn_ban_check(const struct rn_client_index *index, const struct rn_book *book,
                 const struct rn_client *client, struct ration_error *error)
{
    struct rn_ban_kind wanted;
    struct rn_ban_bit bit;

    describe(index, book, client, &wanted, &bit);
    if (find_kind(index, &wanted) < RATION_BAN_KINDS_MAX)
        return 0;
    return rn_error_set(error, RATION_EFULL, 0,
                        "bans of %d kinds (names of attributes, lengths of networks) are set, "
                        "which is the most; use one of them",
                        RATION_BAN_KINDS_MAX);
}

static void add_live(struct rn_ban_kind *kind, uint32_t more)
{
    __atomic_store_n(&kind->live, kind->live + more, __ATOMIC_RELEASE);
}

static void retire(struct rn_client_index *index, struct rn_ban *ban)
{
    add_live(ban->kind, UINT32_MAX);
    (void)rn_client_index_retire(index, ban); /* if not, better lost than freed */
}

int rn_ban_enter(struct rn_client_index *index, const struct rn_book *book,
                 const struct rn_client *client, int64_t expires_ns, bool replaces, uint64_t *hash)
{
    struct rn_ban_kind wanted, *kind;
    struct rn_ban *ban, *before;
    struct rn_ban_bit bit;
    int code;

    if (client->count == 0 || client->count > RATION_BAN_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    *hash = describe(index, book, client, &wanted, &bit);
    before = rn_map_find(&index->bans, *hash);
    if (before && !replaces) {
        index->bans_meet = true;
        if (before->expires_ns >= expires_ns)
            return 0;
    }
    code = enter_kind(index, &wanted, &kind);
    if (code != 0)
        return code;
    ban = malloc(sizeof *ban + client->note.len);
    if (!ban || !rn_map_reserve(&index->bans)) {
        free(ban);
        return RATION_ENOMEM;
    }
    *ban = (struct rn_ban){expires_ns, kind, client->note.len};
    if (client->note.len != 0)
        memcpy(ban->reason, client->note.data, client->note.len);
    add_live(kind, 1);
    rn_ban_filter_add(&index->ban_filter, &kind->parts[0], bit);
    before = rn_map_put(&index->bans, *hash, ban);
    if (before)
        retire(index, before);
    return 0;
}

void rn_ban_leave(struct rn_client_index *index, uint64_t hash)
{
    struct rn_ban *before = rn_map_remove(&index->bans, hash);

    if (before)
        retire(index, before);
}

/* --- finding ---------------------------------------------------------------------------- */

static const struct rn_ban *find_of_kind(const struct rn_client_index *index,
                                         const struct rn_ban_kind *kind,
                                         const struct rn_values *values,
                                         const struct ration_request *request)
{
    struct rn_siphash s;

    rn_siphash_init(&s, &index->ban_seed);
    for (uint32_t i = 0; i < kind->count; i++) {
        const struct rn_ban_part *part = &kind->parts[i];
        bool known = values && part->number != RN_NO_ATTRIBUTE;
        struct value v = {.text = known ? values->value[part->number] : (struct rn_slice){0}};

        for (size_t k = 0; k < request->count && !known && !v.text.data; k++) {
            const struct ration_attribute *a = &request->attributes[k];

            if (rn_slice_equal((struct rn_slice){a->name, a->name_len}, part->name))
                v.text = (struct rn_slice){a->value, a->value_len};
        }
        if (values && !known && rn_slice_is(part->name, "path"))
            v.text = values->paths.text[0];
        if (!v.text.data)
            return NULL;
        if (part->bits != 0 && known)
            v.ip = values->address[part->number];
        else if (part->bits != 0 && rn_ip_parse_host(v.text.data, v.text.len, &v.ip, NULL) != 0)
            return NULL;
        if (part->bits != 0 && v.ip.bits != part->bits)
            return NULL;
        hash_value(&s, part, &v);
    }
    return rn_map_find(&index->bans, rn_siphash_done(&s));
}

/* By one reading of the path. */
static const struct rn_ban *find_by_reading(const struct ration *r,
                                            const struct rn_client_index *index,
                                            const struct rn_values *values,
                                            const struct ration_request *request, int64_t now_ns,
                                            int64_t *left_ns)
{
    uint32_t count = __atomic_load_n(&index->kind_count, __ATOMIC_ACQUIRE);
    const struct rn_ban *longest = NULL;

    *left_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct rn_ban_kind *kind = &index->kinds[i];
        const struct rn_ban *ban = __atomic_load_n(&kind->live, __ATOMIC_ACQUIRE) != 0
                                       ? find_of_kind(index, kind, values, request)
                                       : NULL;

        if (!ban)
            continue;
        if (ban->expires_ns == INT64_MAX)
            return *left_ns = RATION_NEVER, ban;
        now_ns = rn_limiter_now(r, now_ns);
        if (ban->expires_ns > now_ns && ban->expires_ns - now_ns > *left_ns) {
            *left_ns = ban->expires_ns - now_ns;
            longest = ban;
        }
    }
    return longest;
}

const struct rn_ban *rn_ban_find(const struct ration *r, const struct rn_book *book,
                                 struct rn_values *values, const struct ration_request *request,
                                 int64_t now_ns, int64_t *left_ns)
{
    const struct rn_client_index *index = rn_book_client_index(book);

    if (!index || rn_likely(!rn_ban_filter_passes(&index->ban_filter, values, request)))
        return NULL;
    const struct rn_ban *ban = find_by_reading(r, index, values, request, now_ns, left_ns);

    for (uint32_t n = 1; !ban && values && n < values->paths.count; n++) {
        rn_values_read_as(book->ruleset, values, n);
        ban = find_by_reading(r, index, values, request, now_ns, left_ns);
    }
    return ban;
}

bool rn_ban_any(struct ration *r)
{
    struct rn_pin pin = rn_pin_take(&r->shelf, rn_stats_stripe(&r->stats));
    const struct rn_client_index *index = pin.book ? rn_book_client_index(pin.book) : NULL;
    uint32_t count = index ? __atomic_load_n(&index->kind_count, __ATOMIC_ACQUIRE) : 0;
    bool any = false;

    for (uint32_t i = 0; i < count && !any; i++)
        any = __atomic_load_n(&index->kinds[i].live, __ATOMIC_ACQUIRE) != 0;
    rn_pin_drop(&pin);
    return any;
}
