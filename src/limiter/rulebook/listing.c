/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current rules for callers: one by one, as text, the settings that are not for the library,
 * and the mode of the whole service.
 */
#include "limiter/rulebook/listing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/rulebook/book.h"
#include "limiter/rulebook/reload.h"
#include "rules/print/print.h"

/* --- rules ------------------------------------------------------------------------------ */

/* A text of fixed size. A longer text is cut. */
struct line {
    char *text;
    size_t len, size;
};

static void append(struct line *line, struct rn_slice text)
{
    rn_slice_copy(line->text + line->len, line->size - line->len, text);
    line->len += strlen(line->text + line->len);
}

/* "ip, user or api_key". */
static void write_key(const struct rn_ruleset *set, const struct rn_rule *rule, char *out,
                      size_t size)
{
    struct line line = {.text = out, .size = size};

    out[0] = '\0';
    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];

        for (uint8_t a = 0; a < part->count; a++) {
            append(&line, a != 0 ? RN_SLICE(" or ") : i != 0 ? RN_SLICE(", ") : RN_SLICE(""));
            append(&line, set->attributes[part->attributes[a]].name);
        }
    }
    if (rule->envoy)
        append(&line, RN_SLICE("descriptor"));
}

static void describe_limit(struct ration_rule_limit *to, const struct rn_book *book,
                           const struct rn_tier *tier, const struct rn_rule_limit *limit)
{
    const struct ration_limit *spec = &limit->spec;

    rn_slice_copy(to->tier, sizeof to->tier, tier->value);
    ration_limit_write(spec, to->text, sizeof to->text);
    to->algorithm = spec->algorithm;
    to->amount = spec->amount;
    to->places = __atomic_load_n(&book->places[limit->id], __ATOMIC_RELAXED);
}

/* One rule without its totals. */
static struct ration_rule_info describe_rule(const struct rn_book *book, const struct rn_rule *rule)
{
    struct ration_rule_info info = {.name = rule->name.data,
                                    .name_len = rule->name.len,
                                    .file = rule->file.data,
                                    .file_len = rule->file.len,
                                    .line = rule->line,
                                    .shadow = rule->shadow,
                                    .envoy = rule->envoy,
                                    .for_envoy = rule->for_envoy,
                                    .follows = rn_rule_follows(rule),
                                    .factor_percent = rn_factor_get(book, rule),
                                    .usage = rule->usage != NULL};

    write_key(book->ruleset, rule, info.key, sizeof info.key);
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];

        info.limit_count += tier->limit_count;
        for (uint32_t k = 0; k < tier->limit_count && info.listed < RATION_OUTCOME_LIMITS; k++)
            describe_limit(&info.limits[info.listed++], book, tier, tier->limits[k]);
    }
    return info;
}

/* Under the lock: without it, counts of the book before may be missing. */
static void each(struct ration *r, uint32_t first, bool with_totals,
                 int (*see)(void *arg, const struct ration_rule_info *info), void *arg)
{
    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    uint32_t count = book ? book->ruleset->rule_count : 0;

    for (uint32_t i = first; i < count; i++) {
        const struct rn_rule *rule = &book->ruleset->rules[i];
        struct ration_rule_info info = describe_rule(book, rule);
        struct rn_counts sum;

        if (with_totals) {
            rn_book_totals(book, rule, &sum);
            rn_stats_set_totals(&info.totals, &sum);
        }
        if (see(arg, &info) != 0)
            break;
    }
    pthread_mutex_unlock(&r->shelf.lock);
}

void ration_rules_each(struct ration *r, int (*see)(void *arg, const struct ration_rule_info *info),
                       void *arg)
{
    each(r, 0, true, see, arg);
}

void rn_listing_each(struct ration *r, uint32_t first,
                     int (*see)(void *arg, const struct ration_rule_info *info), void *arg)
{
    each(r, first, false, see, arg);
}

uint32_t rn_listing_count(struct ration *r)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    uint32_t count = pin.book ? pin.book->ruleset->rule_count : 0;

    rn_pin_drop(&pin);
    return count;
}

/* --- text ------------------------------------------------------------------------------- */

static void print(void *context, const char *text, size_t len)
{
    rn_buf_put(context, text, len);
}

int ration_rules_text(struct ration *r, char **text, size_t *len)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct rn_buf buf;

    rn_buf_init(&buf);
    if (pin.book)
        rn_print_ruleset(pin.book->ruleset, print, &buf);
    rn_pin_drop(&pin);
    rn_buf_put_char(&buf, '\0');
    if (buf.failed) {
        rn_buf_done(&buf);
        return RATION_ENOMEM;
    }
    *text = buf.data; /* from malloc: the caller's now */
    if (len)
        *len = buf.len - 1;
    return 0;
}

bool rn_limiter_has_secrets(struct ration *r)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    bool has = pin.book && rn_print_omits_secrets(pin.book->ruleset);

    rn_pin_drop(&pin);
    return has;
}

void ration_text_free(char *text)
{
    free(text);
}

/* --- settings ---------------------------------------------------------------------------- */

int ration_setting(struct ration *r, const char *name, struct ration_setting *setting)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_ruleset *set = pin.book ? pin.book->ruleset : NULL;
    int code = RATION_ENOSETTING;

    for (uint32_t i = 0; set && i < set->setting_count && code == RATION_ENOSETTING; i++) {
        const struct rn_setting *from = &set->settings[i];

        if (!rn_slice_is(from->name, name))
            continue;
        code = from->value.len < sizeof setting->value ? 0 : RATION_EINVAL;
        if (code != 0)
            continue;
        rn_slice_copy(setting->value, sizeof setting->value, from->value);
        rn_slice_copy(setting->file, sizeof setting->file, from->file);
        setting->line = from->line;
    }
    rn_pin_drop(&pin);
    return code;
}

/* --- the mode of the service -------------------------------------------------------------- */

void ration_shadow_set(struct ration *r, bool on)
{
    __atomic_store_n(&r->shadow, on, __ATOMIC_RELAXED);
    rn_gate_poke_all(r, RATION_NOW);
}

bool ration_shadow(const struct ration *r)
{
    return __atomic_load_n(&r->shadow, __ATOMIC_RELAXED);
}
