/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/url.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

#define EXAMPLES "write redis://[user:password@]host[:port][/db] or redis+unix:///path[?db=0]"
#define DB_MAX 65535

static int fault(struct ration_error *error, const char *whole, const char *at, const char *what)
{
    return rn_error_set(error, RATION_EPARSE, (size_t)(at - whole), "%s; " EXAMPLES, what);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes %XX. NULL, or what is wrong. */
static const char *decode(struct rn_slice text, char out[RN_URL_WORD])
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.data[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.data[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return "a % in the user or password that two hexadecimal digits do not follow";
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= RN_URL_WORD)
            return "a user or password of more than 255 bytes";
        out[n++] = c;
    }
    out[n] = '\0';
    return NULL;
}

/* user:password, :password or user. */
static const char *parse_login(struct rn_slice login, struct rn_url *out)
{
    const char *colon = memchr(login.data, ':', login.len);
    size_t user_len = colon ? (size_t)(colon - login.data) : login.len;
    const char *wrong = decode((struct rn_slice){login.data, user_len}, out->user);

    if (wrong || !colon)
        return wrong ? wrong : "a user without a password";
    wrong = decode((struct rn_slice){colon + 1, login.len - user_len - 1}, out->password);
    return !wrong && out->password[0] == '\0' ? "an empty password" : wrong;
}

static const char *parse_db(const char *text, unsigned *db)
{
    unsigned value = 0;
    size_t n = 0;

    for (; text[n] >= '0' && text[n] <= '9' && value <= DB_MAX; n++)
        value = value * 10 + (unsigned)(text[n] - '0');
    if (n == 0 || text[n] != '\0' || value > DB_MAX)
        return "a database that is not a number from 0 to 65535";
    *db = value;
    return NULL;
}

static int parse_unix(const char *whole, const char *path, struct rn_url *out,
                      struct ration_error *error)
{
    const char *query = strchr(path, '?');
    size_t len = query ? (size_t)(query - path) : strlen(path);
    const char *wrong = NULL;

    if (path[0] != '/' || len < 2)
        return fault(error, whole, path, "a unix socket without an absolute path");
    if (len + sizeof "unix:" > sizeof out->address)
        return fault(error, whole, path, "the path of a unix socket that is too long");
    if (query && strncmp(query, "?db=", 4) != 0)
        return fault(error, whole, query, "an option that is not ?db=");
    if (query)
        wrong = parse_db(query + 4, &out->db);
    snprintf(out->address, sizeof out->address, "unix:%.*s", (int)len, path);
    return wrong ? fault(error, whole, query, wrong) : 0;
}

static int parse_tcp(const char *whole, const char *host, struct rn_url *out,
                     struct ration_error *error)
{
    size_t len = strcspn(host, "/?#");
    const char *after = host + len, *bracket = memchr(host, ']', len);
    const char *name_end = bracket ? bracket : host; /* the colons of IPv6 are before it */
    const char *colon = memchr(name_end, ':', (size_t)(after - name_end)), *wrong = NULL;

    if (len == 0 || colon == host)
        return fault(error, whole, host, "no host");
    if (len > 255)
        return fault(error, whole, host, "a host of more than 255 bytes");
    if (strncmp(host, "unix", 4) == 0 && (len == 4 || host[4] == ':')) /* would be read as a path */
        return fault(error, whole, host, "a host called unix, which is no name but a socket");
    if (*after == '?' || *after == '#')
        return fault(error, whole, after, "options, which only redis+unix:// has");
    if (*after == '/' && after[1] != '\0')
        wrong = parse_db(after + 1, &out->db);
    snprintf(out->address, sizeof out->address, "%.*s%s", (int)len, host, colon ? "" : ":6379");
    return wrong ? fault(error, whole, after + 1, wrong) : 0;
}

int rn_url_parse(const char *text, struct rn_url *out, struct ration_error *error)
{
    static const char tcp[] = "redis://", local[] = "redis+unix://";
    bool is_tcp = strncmp(text, tcp, sizeof tcp - 1) == 0;
    bool is_unix = strncmp(text, local, sizeof local - 1) == 0;

    if (!is_tcp && !is_unix)
        return fault(error, text, text, "not the address of a Redis");
    *out = (struct rn_url){0};
    const char *rest = text + (is_tcp ? sizeof tcp : sizeof local) - 1;
    /* The last @ before the path: a password may hold one. */
    size_t span = is_tcp ? strcspn(rest, "/?#") : strcspn(rest, "/?");
    const char *at = memrchr(rest, '@', span);

    if (at) {
        const char *wrong = parse_login((struct rn_slice){rest, (size_t)(at - rest)}, out);

        if (wrong)
            return fault(error, text, rest, wrong);
        rest = at + 1;
    }
    return is_tcp ? parse_tcp(text, rest, out, error) : parse_unix(text, rest, out, error);
}
