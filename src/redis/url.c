/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/url.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

#define EXAMPLES                                                                                   \
    "write redis://[user:password@]host[:port][/db], redis+unix:///path, redis+cluster://a,b "     \
    "or redis+sentinel://a,b/master"
#define DB_MAX 65535

/* The URL that is being read, for messages. */
struct reading {
    const char *whole;
    struct rn_url *out;
    struct ration_error *error;
};

static int fault(const struct reading *r, const char *at, const char *what)
{
    return rn_error_set(r->error, RATION_EPARSE, (size_t)(at - r->whole), "%s; " EXAMPLES, what);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX. NULL, or the fault. */
static const char *decode(struct rn_slice text, char out[RN_URL_WORD])
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.data[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.data[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return "a % without two hexadecimal digits after it";
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= RN_URL_WORD)
            return "a user, password, name or value of more than 255 bytes";
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

static const char *parse_db(struct rn_slice text, unsigned *db)
{
    unsigned value = 0;
    size_t n = 0;

    for (; n < text.len && text.data[n] >= '0' && text.data[n] <= '9' && value <= DB_MAX; n++)
        value = value * 10 + (unsigned)(text.data[n] - '0');
    if (n == 0 || n < text.len || value > DB_MAX)
        return "a database that is not a number from 0 to 65535";
    *db = value;
    return NULL;
}

/* --- options ------------------------------------------------------------------------ */

static const char *parse_verify(const char *value, struct rn_url *out)
{
    static const char *const words[] = {
        [RN_URL_VERIFY_NAME] = "yes", [RN_URL_VERIFY_CA] = "ca", [RN_URL_VERIFY_NOT] = "no"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            out->verify = (enum rn_url_verify)i;
            return NULL;
        }
    }
    return "verify= takes yes, ca or no";
}

/* One NAME=VALUE. NULL, or the fault. */
static const char *parse_option(struct rn_slice option, struct rn_url *out)
{
    struct {
        const char *name;
        bool fits;
        char *to;
    } rows[] = {
        {"ca", out->tls, out->ca},
        {"cert", out->tls, out->cert},
        {"key", out->tls, out->key},
        {"sentinel_user", out->kind == RN_URL_SENTINEL, out->asker},
        {"sentinel_password", out->kind == RN_URL_SENTINEL, out->asker_password},
    };
    const char *equals = memchr(option.data, '=', option.len);
    struct rn_slice name = {option.data, equals ? (size_t)(equals - option.data) : option.len};
    struct rn_slice text = {equals ? equals + 1 : NULL, equals ? option.len - name.len - 1 : 0};
    char value[RN_URL_WORD];

    if (text.len == 0)
        return "an option without a value";
    if (rn_slice_is(name, "db") && strncmp(out->hosts[0], "unix:", 5) == 0)
        return parse_db(text, &out->db);
    const char *wrong = decode(text, value);
    if (wrong)
        return wrong;
    if (rn_slice_is(name, "verify") && out->tls)
        return parse_verify(value, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].fits && rn_slice_is(name, rows[i].name)) {
            memcpy(rows[i].to, value, sizeof value);
            return NULL;
        }
    }
    return "an unknown option for this kind of URL";
}

/* The options, from the question mark on; there may be none. */
static int parse_options(const struct reading *r, const char *at)
{
    while (*at == '?' || *at == '&') {
        size_t len = strcspn(++at, "&");
        const char *wrong = parse_option((struct rn_slice){at, len}, r->out);

        if (wrong)
            return fault(r, at, wrong);
        at += len;
    }
    if ((r->out->cert[0] == '\0') != (r->out->key[0] == '\0'))
        return fault(r, at, "a certificate without its key, or a key without its certificate");
    if (r->out->asker[0] != '\0' && r->out->asker_password[0] == '\0')
        return fault(r, at, "a user of Sentinel without a password");
    return 0;
}

/* --- hosts -------------------------------------------------------------------------- */

static int parse_unix(const struct reading *r, const char *path)
{
    struct rn_url *out = r->out;
    size_t len = strcspn(path, "?");

    if (path[0] != '/' || len < 2)
        return fault(r, path, "a unix socket without an absolute path");
    if (len + sizeof "unix:" > sizeof out->hosts[0])
        return fault(r, path, "the path of a unix socket that is too long");
    snprintf(out->hosts[0], sizeof out->hosts[0], "unix:%.*s", (int)len, path);
    out->host_count = 1;
    return parse_options(r, path + len);
}

static bool is_port(const char *text, const char *end)
{
    unsigned value = 0;

    for (const char *p = text; p < end; p++) {
        if (*p < '0' || *p > '9' || value > UINT16_MAX)
            return false;
        value = value * 10 + (unsigned)(*p - '0');
    }
    return value >= 1 && value <= UINT16_MAX;
}

/* One host with or without a port; `len` bytes. */
static int parse_host(const struct reading *r, const char *host, size_t len)
{
    const char *after = host + len, *bracket = memchr(host, ']', len);
    const char *name_end = bracket ? bracket : host; /* after the colons of an IPv6 address */
    const char *colon = memchr(name_end, ':', (size_t)(after - name_end));
    struct rn_url *out = r->out;
    const char *port = out->kind == RN_URL_SENTINEL ? ":26379" : ":6379";

    if (len == 0 || colon == host)
        return fault(r, host, "no host");
    if (len > 255)
        return fault(r, host, "a host of more than 255 bytes");
    if (strncmp(host, "unix", 4) == 0 && (len == 4 || host[4] == ':')) /* would be read as a path */
        return fault(r, host, "a host called unix: for a socket write redis+unix://");
    if (colon && !is_port(colon + 1, after))
        return fault(r, colon + 1, "a port that is not a number from 1 to 65535");
    if (out->host_count == RN_URL_HOSTS)
        return fault(r, host, "more than 16 hosts: a few are enough to find the others");
    snprintf(out->hosts[out->host_count++], RN_URL_ADDRESS, "%.*s%s", (int)len, host,
             colon ? "" : port);
    return 0;
}

static int parse_hosts(const struct reading *r, const char **at)
{
    for (;;) {
        size_t len = strcspn(*at, ",/?#");
        int failed = parse_host(r, *at, len);

        *at += failed == 0 ? len : 0;
        if (failed != 0 || **at != ',')
            return failed;
        if (r->out->kind == RN_URL_SINGLE)
            return fault(r, *at, "several hosts: only a cluster or Sentinel has them");
        ++*at;
    }
}

/* /MASTER before the database. */
static int parse_master(const struct reading *r, const char **at)
{
    if (**at != '/' || strcspn(*at + 1, "/?#") == 0)
        return fault(r, *at, "Sentinel without the name of a master");
    size_t len = strcspn(++*at, "/?#");
    const char *wrong = decode((struct rn_slice){*at, len}, r->out->master);

    if (wrong)
        return fault(r, *at, wrong);
    *at += len;
    return 0;
}

static int parse_tcp(const struct reading *r, const char *at)
{
    int failed = parse_hosts(r, &at);

    if (failed == 0 && r->out->kind == RN_URL_SENTINEL)
        failed = parse_master(r, &at);
    if (failed != 0)
        return failed;
    if (*at == '/' && at[1] != '\0' && at[1] != '?') {
        size_t len = strcspn(++at, "?");
        const char *wrong = r->out->kind == RN_URL_CLUSTER
                                ? "a database in a cluster, which has only one"
                                : parse_db((struct rn_slice){at, len}, &r->out->db);

        if (wrong)
            return fault(r, at, wrong);
        at += len;
    } else if (*at == '/') {
        at++;
    }
    return *at == '#' ? fault(r, at, "a #, which has no meaning here") : parse_options(r, at);
}

/* --- schemes ------------------------------------------------------------------------ */

static const struct scheme {
    const char *text;
    enum rn_url_kind kind;
    bool tls, local;
} schemes[] = {
    {"redis://", RN_URL_SINGLE, false, false},
    {"rediss://", RN_URL_SINGLE, true, false},
    {"redis+unix://", RN_URL_SINGLE, false, true},
    {"redis+cluster://", RN_URL_CLUSTER, false, false},
    {"rediss+cluster://", RN_URL_CLUSTER, true, false},
    {"redis+sentinel://", RN_URL_SENTINEL, false, false},
    {"rediss+sentinel://", RN_URL_SENTINEL, true, false},
};

static const struct scheme *find_scheme(const char *text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(text, schemes[i].text, strlen(schemes[i].text)) == 0)
            return &schemes[i];
    return NULL;
}

int rn_url_parse(const char *text, struct rn_url *out, struct ration_error *error)
{
    const struct reading r = {.whole = text, .out = out, .error = error};
    const struct scheme *scheme = find_scheme(text);

    if (!scheme)
        return fault(&r, text, "not the URL of a Redis");
    *out = (struct rn_url){.kind = scheme->kind, .tls = scheme->tls};
    const char *rest = text + strlen(scheme->text);
    /* The last @ before the path: a password may hold one. */
    const char *at = memrchr(rest, '@', strcspn(rest, "/?#"));

    if (at) {
        const char *wrong = parse_login((struct rn_slice){rest, (size_t)(at - rest)}, out);

        if (wrong)
            return fault(&r, rest, wrong);
        rest = at + 1;
    }
    return scheme->local ? parse_unix(&r, rest) : parse_tcp(&r, rest);
}
