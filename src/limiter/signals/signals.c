/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of signals: on the board, pushed, told by outcomes, listed. evaluate.c makes factors
 * of them.
 */
#include "limiter/signals/signals.h"

#include "base/error.h"
#include "limiter/board.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"
#include "rules/report/report.h"

/* --- on the board ----------------------------------------------------------------------- */

enum { VALUE, TIME, WORDS }; /* TIME 0: never set, or being set */

/* Each source has entries of its own: what a signal of the same name had before a reload may be a
 * number of another unit. */
static enum rn_board_kind kind_of(const struct rn_signal *signal)
{
    return (enum rn_board_kind)(RN_BOARD_SIGNAL | (unsigned)signal->source << 8);
}

bool rn_signals_set(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                    int64_t value)
{
    uint64_t *words = rn_board_entry(table, kind_of(signal), signal->name, WORDS);

    if (words == NULL)
        return false;
    __atomic_store_n(&words[TIME], 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&words[VALUE], (uint64_t)value, __ATOMIC_SEQ_CST);
    __atomic_store_n(&words[TIME], (uint64_t)(now_ns > 0 ? now_ns : 1), __ATOMIC_SEQ_CST);
    return true;
}

bool rn_signals_get(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                    int64_t *value, int64_t *age_ns)
{
    const uint64_t *words = rn_board_find(table, kind_of(signal), signal->name, WORDS);
    uint64_t at = 0, again = 0;

    /* A writer is done after two stores; a killed one left 0, which is "never". */
    for (int i = 0; words != NULL && i < 1000; i++) {
        at = __atomic_load_n(&words[TIME], __ATOMIC_SEQ_CST);
        *value = (int64_t)__atomic_load_n(&words[VALUE], __ATOMIC_SEQ_CST);
        again = __atomic_load_n(&words[TIME], __ATOMIC_SEQ_CST);
        if (at == again && at != 0)
            break;
    }
    bool known = words != NULL && at == again && at != 0 && at <= INT64_MAX;
    int64_t age = !known ? -1 : now_ns > (int64_t)at ? now_ns - (int64_t)at : 0;

    if (age_ns != NULL)
        *age_ns = age;
    /* One of the far future would never expire: it is damaged, or of another clock. */
    return known && age <= signal->expires_ns && (int64_t)at <= now_ns + signal->expires_ns;
}

bool rn_signals_from_double(double value, int64_t *out)
{
    if (!(value >= -RATION_SIGNAL_MAX && value <= RATION_SIGNAL_MAX)) /* nor NaN */
        return false;
    *out = (int64_t)(value * (double)RN_SIGNAL_UNIT + (value < 0 ? -0.5 : 0.5));
    return true;
}

/* --- for users -------------------------------------------------------------------------- */

int ration_signal_push(struct ration *r, const char *name, size_t len, double value,
                       struct ration_error *error)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_signal *signal = NULL;
    struct rn_slice wanted = {name, len};
    int64_t millionths;
    int code = 0;

    for (uint32_t i = 0; pin.book != NULL && i < pin.book->ruleset->signal_count; i++)
        if (rn_slice_equal(pin.book->ruleset->signals[i].name, wanted))
            signal = &pin.book->ruleset->signals[i];
    if (signal == NULL)
        code = rn_error_set(error, RATION_EINVAL, 0,
                            "there is no signal %s; add it to the section signals",
                            rn_excerpt(wanted).text);
    else if (signal->source != RN_SIGNAL_PUSH)
        code = rn_error_set(error, RATION_EINVAL, 0,
                            "this signal has source: %s, so its value cannot be pushed",
                            rn_signal_source_name(signal->source));
    else if (!rn_signals_from_double(value, &millionths))
        code =
            rn_error_set(error, RATION_EINVAL, 0, "the value must be a number from -1e12 to 1e12");
    else if (!rn_signals_set(r->table, signal, rn_table_now(r->table), millionths))
        code = rn_error_set(error, RATION_EFULL, 0, "the table has no room for more signals");
    rn_pin_drop(&pin);
    return code;
}

int ration_signal_outcome(struct ration *r, const char *rule, size_t len, unsigned status,
                          int64_t duration_ns, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *found =
        pin.book == NULL ? NULL : rn_book_find(pin.book, (struct rn_slice){rule, len});

    if (found != NULL)
        rn_histogram_add(r->table, pin.book, found, status, duration_ns, rn_limiter_now(r, now_ns));
    rn_pin_drop(&pin);
    return found == NULL ? RATION_EINVAL : 0;
}

void ration_signals_each(struct ration *r,
                         int (*see)(void *arg, const struct ration_signal_info *info), void *arg)
{
    static const char *const units[] = {[RN_SIGNAL_SHARE] = "share",
                                        [RN_SIGNAL_DURATION] = "seconds",
                                        [RN_SIGNAL_NUMBER] = "number"};
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    int64_t now_ns = rn_table_now(r->table);

    for (uint32_t i = 0; pin.book != NULL && i < pin.book->ruleset->signal_count; i++) {
        const struct rn_signal *signal = &pin.book->ruleset->signals[i];
        struct ration_signal_info info = {.name = signal->name.data,
                                          .name_len = signal->name.len,
                                          .source = rn_signal_source_name(signal->source),
                                          .unit = units[rn_signal_unit(signal)]};
        int64_t value = 0;

        info.stale = !rn_signals_get(r->table, signal, now_ns, &value, &info.age_ns);
        info.value = info.age_ns < 0 ? 0 : (double)value / (double)RN_SIGNAL_UNIT;
        if (see(arg, &info) != 0)
            break;
    }
    rn_pin_drop(&pin);
}
