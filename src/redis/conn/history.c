/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/conn/history.h"

#include <stdlib.h>
#include <string.h>

/* The text after the name of a field, NULL if there is none. */
static const char *find(const char *info, const char *field)
{
    const char *at = strstr(info, field);

    return at ? at + strlen(field) : NULL;
}

/* The id in a field, NULL if there is none. */
static const char *find_id(const char *info, const char *field)
{
    const char *id = find(info, field);

    return id && strspn(id, "0123456789abcdef") == RN_HISTORY_ID ? id : NULL;
}

static int64_t find_number(const char *info, const char *field)
{
    const char *text = find(info, field);

    return text ? strtoll(text, NULL, 10) : 0;
}

void rn_history_note(struct rn_history *history, const char *info)
{
    const char *id = find_id(info, "\nmaster_replid:");

    if (id && memcmp(history->id, id, RN_HISTORY_ID) == 0)
        history->offset = find_number(info, "\nmaster_repl_offset:");
}

bool rn_history_learn(struct rn_history *history, const char *info)
{
    const char *id = find_id(info, "\nmaster_replid:");
    bool changed = id && history->id[0] != '\0' && memcmp(history->id, id, RN_HISTORY_ID) != 0;

    if (changed) {
        /* A promoted replica names its master's history, and the first byte it does not share. */
        const char *former = find_id(info, "\nmaster_replid2:");
        int64_t beyond = find_number(info, "\nsecond_repl_offset:");
        bool known = former && memcmp(former, history->id, RN_HISTORY_ID) == 0 && beyond > 0;

        history->lost = known && history->offset >= beyond ? history->offset - beyond + 1 : 0;
    }
    if (id)
        memcpy(history->id, id, RN_HISTORY_ID);
    rn_history_note(history, info);
    return changed;
}

void rn_history_short(const struct rn_history *history, char out[RN_HISTORY_SHORT + 1])
{
    bool known = history->id[0] != '\0';

    for (unsigned i = 0; i < RN_HISTORY_SHORT; i++)
        out[i] = known ? history->id[i] : '0';
    out[RN_HISTORY_SHORT] = '\0';
}
