/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directive `ration_server`: where rationd is, how to connect, and how long to wait for
 * an answer. Locations that name the same server in the same way share its connections.
 */
#include "nginx/module.h"
#include "nginx/tls.h"

#define TLS_SCHEME "tls://"
#define DEFAULT_PORT 6380
#define DEFAULT_TIMEOUT_MS 50
#define TIMEOUT_MAX_MS 60000
#define CONNECTIONS_MAX 64

enum parameter {
    TIMEOUT,
    CONNECTIONS,
    PASSWORD_FILE, /* from here on: parameters that make it another server */
    TRUSTED,
    NAME,
    CERTIFICATE,
    KEY,
    PARAMETERS,
};

static const struct rn_slice prefixes[PARAMETERS] = {
    [TIMEOUT] = RN_SLICE_INIT("timeout="),
    [CONNECTIONS] = RN_SLICE_INIT("connections="),
    [PASSWORD_FILE] = RN_SLICE_INIT("password_file="),
    [TRUSTED] = RN_SLICE_INIT("ssl_trusted_certificate="),
    [NAME] = RN_SLICE_INIT("ssl_name="),
    [CERTIFICATE] = RN_SLICE_INIT("ssl_certificate="),
    [KEY] = RN_SLICE_INIT("ssl_certificate_key="),
};

/* The directive as written. Of a parameter, what follows the name. */
struct given {
    ngx_str_t address;
    ngx_str_t values[PARAMETERS]; /* empty: not given */
};

_Static_assert(PARAMETERS - PASSWORD_FILE == RN_NGX_HOW, "parameters that make it another server");

/* --- parameters ------------------------------------------------------------------------------ */

static char *refuse_parameter(ngx_conf_t *cf, ngx_str_t *word)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"; there are timeout=TIME, from 1ms to 60s, "
                       "connections=NUMBER, from 1 to 64, password_file=FILE and, for tls://, "
                       "ssl_trusted_certificate=FILE, ssl_name=NAME, ssl_certificate=FILE and "
                       "ssl_certificate_key=FILE, each once",
                       word);
    return NGX_CONF_ERROR;
}

static char *read_word(ngx_conf_t *cf, ngx_str_t *word, struct given *given)
{
    for (size_t i = 0; i < PARAMETERS; i++) {
        size_t len = prefixes[i].len;

        if (!rn_slice_starts_with(rn_ngx_slice(*word), prefixes[i]))
            continue;
        if (given->values[i].len != 0 || word->len == len)
            break;
        given->values[i] = (ngx_str_t){word->len - len, word->data + len};
        return NGX_CONF_OK;
    }
    return refuse_parameter(cf, word);
}

/* The word that a value belongs to. */
static char *refuse_value(ngx_conf_t *cf, const struct given *given, enum parameter parameter)
{
    size_t len = prefixes[parameter].len;
    ngx_str_t word = {given->values[parameter].len + len, given->values[parameter].data - len};

    return refuse_parameter(cf, &word);
}

/* --- the server ------------------------------------------------------------------------------ */

static bool is_same(const ngx_str_t *a, const ngx_str_t *b)
{
    return rn_slice_equal(rn_ngx_slice(*a), rn_ngx_slice(*b));
}

/* NULL: not named before. */
static struct rn_ngx_server *find(const ngx_array_t *servers, const struct given *given)
{
    struct rn_ngx_server **all = servers->elts;

    for (ngx_uint_t i = 0; i < servers->nelts; i++) {
        bool same = is_same(&all[i]->name, &given->address);

        for (size_t j = PASSWORD_FILE; j < PARAMETERS; j++)
            same = same && is_same(&all[i]->how[j - PASSWORD_FILE], &given->values[j]);
        if (same)
            return all[i];
    }
    return NULL;
}

/* Certificates name hosts or addresses, never Unix sockets. */
static ngx_int_t set_up_tls(ngx_conf_t *cf, struct rn_ngx_server *server, const struct given *given,
                            const ngx_url_t *url)
{
    ngx_str_t host = url->host;

    if (url->family == AF_UNIX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": Unix sockets do not need TLS; write unix:PATH", &server->name);
        return NGX_ERROR;
    }
    if (host.len > 2 && host.data[0] == '[') /* nginx keeps the brackets of [::1] */
        host = (ngx_str_t){host.len - 2, host.data + 1};
    server->tls =
        rn_ngx_tls_new(cf, &(struct rn_ngx_tls_given){
                               .trusted = given->values[TRUSTED],
                               .name = given->values[NAME].len != 0 ? given->values[NAME] : host,
                               .certificate = given->values[CERTIFICATE],
                               .key = given->values[KEY]});
    return server->tls ? NGX_OK : NGX_ERROR;
}

/* Without TLS a certificate would have no effect, and seem to protect. */
static ngx_int_t refuse_certificates(ngx_conf_t *cf, const struct given *given)
{
    for (size_t i = TRUSTED; i < PARAMETERS; i++) {
        if (given->values[i].len == 0)
            continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%*s\" is for an address with TLS; write " TLS_SCHEME "%V",
                           prefixes[i].len - 1, prefixes[i].data, &given->address);
        return NGX_ERROR;
    }
    return NGX_OK;
}

/* NULL after logging what is wrong. */
static struct rn_ngx_server *add(ngx_conf_t *cf, struct rn_ngx_main *main,
                                 const struct given *given)
{
    struct rn_ngx_server **entry = ngx_array_push(&main->servers);
    struct rn_ngx_server *server = ngx_pcalloc(cf->pool, sizeof *server);
    ngx_str_t file = given->values[PASSWORD_FILE];
    bool tls = rn_slice_starts_with(rn_ngx_slice(given->address), RN_SLICE(TLS_SCHEME));
    size_t skip = tls ? sizeof TLS_SCHEME - 1 : 0;
    ngx_url_t url;

    if (!entry || !server)
        return NULL;
    *entry = server;
    server->name = given->address;
    server->connections = 1;
    ngx_memcpy(server->how, &given->values[PASSWORD_FILE], sizeof server->how);
    ngx_memzero(&url, sizeof url);
    url.url = (ngx_str_t){given->address.len - skip, given->address.data + skip};
    url.default_port = DEFAULT_PORT;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"%V\"; write off, unix:PATH or host:port, such as "
                           "127.0.0.1:6380, or tls://host:port",
                           url.err ? url.err : "no address", &server->name);
        return NULL;
    }
    server->addresses = url.addrs;
    server->address_count = url.naddrs;
    if ((tls ? set_up_tls(cf, server, given, &url) : refuse_certificates(cf, given)) != NGX_OK ||
        (file.len != 0 && rn_ngx_password_read(cf, file, &server->password) != NGX_OK))
        return NULL;
    return server;
}

char *rn_ngx_server_read(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct rn_ngx_location *location = conf;
    struct rn_ngx_main *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_ration_module);
    ngx_str_t *words = cf->args->elts;
    struct given given = {.address = words[1]};
    ngx_str_t *timeout = &given.values[TIMEOUT], *connections = &given.values[CONNECTIONS];
    ngx_int_t ms = DEFAULT_TIMEOUT_MS, n = 1;

    (void)command;
    if (location->server != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    if (rn_slice_is(rn_ngx_slice(words[1]), "off")) {
        location->server = NULL;
        return cf->args->nelts == 2 ? NGX_CONF_OK : "is off and has a parameter";
    }
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++)
        if (read_word(cf, &words[i], &given) != NGX_CONF_OK)
            return NGX_CONF_ERROR;
    if (timeout->len != 0)
        ms = ngx_parse_time(timeout, 0);
    if (connections->len != 0)
        n = ngx_atoi(connections->data, connections->len);
    if (ms == NGX_ERROR || ms < 1 || ms > TIMEOUT_MAX_MS)
        return refuse_value(cf, &given, TIMEOUT);
    if (n == NGX_ERROR || n < 1 || n > CONNECTIONS_MAX)
        return refuse_value(cf, &given, CONNECTIONS);
    location->timeout_ms = (ngx_msec_t)ms;
    location->server = find(&main->servers, &given);
    if (!location->server)
        location->server = add(cf, main, &given);
    if (!location->server)
        return NGX_CONF_ERROR;
    if (location->server->connections < (ngx_uint_t)n) /* the largest number of all locations */
        location->server->connections = (ngx_uint_t)n;
    return NGX_CONF_OK;
}
