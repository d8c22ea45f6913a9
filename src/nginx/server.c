/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration_server`: where rationd is, and how long its answer is waited for. Locations
 * that name the same one share it. One connection of each worker is enough for a
 * rationd that answers at once; one that asks Redis answers those of a connection one
 * after the other, and wants several.
 */
#include "nginx/link.h"
#include "nginx/module.h"

#define DEFAULT_PORT 6380
#define DEFAULT_TIMEOUT_MS 20
#define TIMEOUT_MAX_MS 60000
#define CONNECTIONS_MAX 64

/* --- the directive ------------------------------------------------------------------- */

static char *refuse_parameter(ngx_conf_t *cf, ngx_str_t *word)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"; there are timeout=TIME, from 1ms to 60s, and "
                       "connections=NUMBER, from 1 to 64",
                       word);
    return NGX_CONF_ERROR;
}

/* What follows the name; data NULL: it is another parameter. */
static ngx_str_t value_of(ngx_str_t word, struct rn_slice name)
{
    if (!rn_slice_starts_with(rn_ngx_slice(word), name))
        return (ngx_str_t){0, NULL};
    return (ngx_str_t){word.len - name.len, word.data + name.len};
}

static char *read_parameter(ngx_conf_t *cf, ngx_str_t *word, struct rn_ngx_location *location)
{
    ngx_str_t timeout = value_of(*word, RN_SLICE("timeout="));
    ngx_str_t connections = value_of(*word, RN_SLICE("connections="));
    ngx_int_t n;

    if (timeout.len != 0) {
        n = ngx_parse_time(&timeout, 0);
        if (n == NGX_ERROR || n < 1 || n > TIMEOUT_MAX_MS)
            return refuse_parameter(cf, word);
        location->timeout_ms = (ngx_msec_t)n;
        return NGX_CONF_OK;
    }
    n = connections.len != 0 ? ngx_atoi(connections.data, connections.len) : NGX_ERROR;
    if (n == NGX_ERROR || n < 1 || n > CONNECTIONS_MAX)
        return refuse_parameter(cf, word);
    if (location->server->connections < (ngx_uint_t)n) /* whoever wants most of them */
        location->server->connections = (ngx_uint_t)n;
    return NGX_CONF_OK;
}

static char *read_parameters(ngx_conf_t *cf, struct rn_ngx_location *location)
{
    ngx_str_t *words = cf->args->elts;
    char *answer = NGX_CONF_OK;

    location->timeout_ms = DEFAULT_TIMEOUT_MS;
    for (ngx_uint_t i = 2; i < cf->args->nelts && answer == NGX_CONF_OK; i++)
        answer = read_parameter(cf, &words[i], location);
    return answer;
}

/* NULL: not named before. */
static struct rn_ngx_server *find(const ngx_array_t *servers, ngx_str_t name)
{
    struct rn_ngx_server **all = servers->elts;

    for (ngx_uint_t i = 0; i < servers->nelts; i++)
        if (rn_slice_equal(rn_ngx_slice(all[i]->name), rn_ngx_slice(name)))
            return all[i];
    return NULL;
}

static struct rn_ngx_server *add(ngx_conf_t *cf, struct rn_ngx_main *main, ngx_str_t name)
{
    struct rn_ngx_server **place = ngx_array_push(&main->servers);
    struct rn_ngx_server *server = ngx_pcalloc(cf->pool, sizeof *server);
    ngx_url_t url;

    if (!place || !server)
        return NULL;
    *place = server;
    ngx_memzero(&url, sizeof url);
    url.url = name;
    url.default_port = DEFAULT_PORT;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"%V\"; write off, unix:PATH or host:port, such as "
                           "127.0.0.1:6380",
                           url.err ? url.err : "no address", &name);
        return NULL;
    }
    server->name = name;
    server->addresses = url.addrs;
    server->address_count = url.naddrs;
    server->connections = 1;
    return server;
}

char *rn_ngx_server_read(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct rn_ngx_location *location = conf;
    struct rn_ngx_main *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_ration_module);
    ngx_str_t *words = cf->args->elts;

    (void)command;
    if (location->server != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    if (rn_slice_is(rn_ngx_slice(words[1]), "off")) {
        location->server = NULL;
        return cf->args->nelts == 2 ? NGX_CONF_OK : "is off and has a parameter";
    }
    location->server = find(&main->servers, words[1]);
    if (!location->server)
        location->server = add(cf, main, words[1]);
    return location->server ? read_parameters(cf, location) : NGX_CONF_ERROR;
}

/* --- workers ------------------------------------------------------------------------------ */

struct rn_ngx_link *rn_ngx_server_pick(const struct rn_ngx_server *server)
{
    struct rn_ngx_link *best = NULL;

    for (ngx_uint_t i = 0; i < server->connections; i++) {
        struct rn_ngx_link *link = &server->links[i];

        if (rn_ngx_link_can_ask(link) && (!best || rn_ngx_link_owed(link) < rn_ngx_link_owed(best)))
            best = link;
    }
    return best;
}

ngx_int_t rn_ngx_servers_open(const struct rn_ngx_main *main, ngx_cycle_t *cycle)
{
    struct rn_ngx_server **all = main->servers.elts;

    ngx_time_update(); /* a worker that starts has the time of its master */
    for (ngx_uint_t i = 0; i < main->servers.nelts; i++) {
        struct rn_ngx_server *server = all[i];

        server->links = calloc(server->connections, sizeof *server->links);
        if (!server->links)
            return NGX_ERROR;
        for (ngx_uint_t j = 0; j < server->connections; j++) {
            server->links[j].server = server;
            server->links[j].worker = main->worker;
            server->links[j].log = cycle->log;
            rn_ngx_link_open(&server->links[j]);
        }
    }
    return NGX_OK;
}

void rn_ngx_servers_close(const struct rn_ngx_main *main)
{
    struct rn_ngx_server **all = main->servers.elts;

    for (ngx_uint_t i = 0; i < main->servers.nelts; i++) {
        for (ngx_uint_t j = 0; all[i]->links && j < all[i]->connections; j++)
            rn_ngx_link_close(&all[i]->links[j]);
        free(all[i]->links);
        all[i]->links = NULL;
    }
}
