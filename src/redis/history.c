/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/history.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The id in the answer, NULL if there is none. */
static const char *find_id(const char *info)
{
    static const char field[] = "\nmaster_replid:";
    const char *id = strstr(info, field);
    size_t len = 0;

    if (!id)
        return NULL;
    id += sizeof field - 1;
    while (is_letter(id[len]))
        len++;
    return len == RN_HISTORY_ID ? id : NULL;
}

bool rn_history_learn(struct rn_history *history, const char *info)
{
    const char *id = find_id(info);

    if (!id || memcmp(history->id, id, RN_HISTORY_ID) == 0)
        return false;
    bool changed = history->id[0] != '\0';

    memcpy(history->id, id, RN_HISTORY_ID);
    return changed;
}

void rn_history_short(const struct rn_history *history, char out[RN_HISTORY_SHORT + 1])
{
    bool known = history->id[0] != '\0';

    for (unsigned i = 0; i < RN_HISTORY_SHORT; i++)
        out[i] = known ? history->id[i] : '0';
    out[RN_HISTORY_SHORT] = '\0';
}
