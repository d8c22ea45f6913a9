/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/redirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster/hash_slot.h"

bool rn_redirect_address(const char *host, unsigned port, char out[RN_URL_ADDRESS])
{
    const char *form = strchr(host, ':') ? "[%s]:%u" : "%s:%u";
    int len = snprintf(out, RN_URL_ADDRESS, form, host, port);

    return len > 0 && len < RN_URL_ADDRESS;
}

void rn_redirect_complete(char address[RN_URL_ADDRESS], const char *near)
{
    const char *colon = strrchr(near, ':');
    size_t host = colon ? (size_t)(colon - near) : 0, port = strlen(address);

    if (address[0] != ':' || host + port >= RN_URL_ADDRESS)
        return;
    memmove(address + host, address, port + 1);
    memcpy(address, near, host);
}

/* A number up to `most` followed by `end`; -1: there is none. */
static long parse_number(const char *text, char end, long most, const char **after)
{
    char *stop;
    long value = text[0] >= '0' && text[0] <= '9' ? strtol(text, &stop, 10) : -1;

    if (value < 0 || value > most || *stop != end)
        return -1;
    *after = stop + 1;
    return value;
}

/* "SLOT HOST:PORT"; the host may have colons, or be missing. */
static bool parse_redirection(const char *text, struct rn_redirect *out)
{
    const char *rest, *end;
    char host[RN_URL_WORD];
    long slot = parse_number(text, ' ', RN_HASH_SLOTS - 1, &rest);
    const char *colon = slot < 0 ? NULL : strrchr(rest, ':');
    long port = colon ? parse_number(colon + 1, '\0', 65535, &end) : -1;

    if (port <= 0 || (size_t)(colon - rest) >= sizeof host)
        return false;
    out->slot = (uint16_t)slot;
    snprintf(host, sizeof host, "%.*s", (int)(colon - rest), rest);
    return rn_redirect_address(host, (unsigned)port, out->address);
}

void rn_redirect_parse(const char *error, struct rn_redirect *out)
{
    static const struct {
        const char *word;
        enum rn_redirect_kind kind;
    } rows[] = {
        {"NOSCRIPT ", RN_REDIRECT_NO_SCRIPT},
        {"MOVED ", RN_REDIRECT_MOVED},
        {"ASK ", RN_REDIRECT_ASK},
        {"TRYAGAIN ", RN_REDIRECT_TRY_AGAIN},
        {"READONLY ", RN_REDIRECT_NOT_HERE},
        {"LOADING ", RN_REDIRECT_NOT_HERE},
        {"MASTERDOWN ", RN_REDIRECT_NOT_HERE},
        {"NOAUTH ", RN_REDIRECT_NOT_HERE},
        {"BUSY ", RN_REDIRECT_NOT_NOW},
        {"CLUSTERDOWN ", RN_REDIRECT_NO_OWNER},
    };

    *out = (struct rn_redirect){.kind = RN_REDIRECT_FAILED};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].word);
        bool redirects = rows[i].kind == RN_REDIRECT_MOVED || rows[i].kind == RN_REDIRECT_ASK;

        if (strncmp(error, rows[i].word, len) != 0)
            continue;
        if (!redirects || parse_redirection(error + len, out))
            out->kind = rows[i].kind;
        return;
    }
}
