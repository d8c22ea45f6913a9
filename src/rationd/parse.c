/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/parse.h"

#include <string.h>

#include "base/number.h"

static bool read_number(const char *text, uint64_t *n, const char **rest)
{
    size_t pos = 0, len = strlen(text);

    if (rn_number_parse(text, len, &pos, n, NULL) != 0)
        return false;
    *rest = text + pos;
    return true;
}

bool rn_rationd_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgt";
    const char *rest, *unit;
    uint64_t n;

    if (!read_number(text, &n, &rest))
        return false;
    rest += *rest == ' ';
    unit = *rest ? strchr(units, *rest | 0x20) : NULL;
    if (*rest && !unit)
        return false;
    if (unit) {
        unsigned shift = 10 * (unsigned)(unit - units + 1);

        if (n > UINT64_MAX >> shift)
            return false;
        n <<= shift;
        rest++;
    }
    *bytes = n;
    return *rest == '\0' || strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0;
}

bool rn_rationd_parse_count(const char *text, uint64_t max, uint32_t *count)
{
    const char *rest;
    uint64_t n;

    if (!read_number(text, &n, &rest) || *rest != '\0' || n > max)
        return false;
    *count = (uint32_t)n;
    return true;
}

bool rn_rationd_parse_flag(const char *text, bool *flag)
{
    *flag = strcmp(text, "true") == 0;
    return *flag || strcmp(text, "false") == 0;
}

bool rn_rationd_parse_duration(const char *text, int64_t *ns)
{
    size_t pos = 0, len = strlen(text);

    return rn_number_parse_duration(text, len, &pos, ns, NULL) == 0 && pos == len;
}
