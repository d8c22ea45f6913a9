/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration_server`: where rationd is, and how long its answer is waited for. Locations
 * that name the same one share it; each worker has one connection to each.
 */
#include "nginx/link.h"
#include "nginx/module.h"

#define DEFAULT_PORT 6380
#define DEFAULT_TIMEOUT_MS 20
#define TIMEOUT_MAX_MS 60000

/* --- the directive ------------------------------------------------------------------- */

static char *bad_timeout(ngx_conf_t *cf, ngx_str_t *word)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"; write timeout=TIME, from 1ms to 60s, such as "
                       "timeout=20ms",
                       word);
    return NGX_CONF_ERROR;
}

static char *read_timeout(ngx_conf_t *cf, struct rn_ngx_location *location)
{
    ngx_str_t *words = cf->args->elts, value;
    ngx_int_t ms;

    location->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (cf->args->nelts == 2)
        return NGX_CONF_OK;
    if (words[2].len <= 8 || ngx_strncmp(words[2].data, "timeout=", 8) != 0)
        return bad_timeout(cf, &words[2]);
    value = (ngx_str_t){words[2].len - 8, words[2].data + 8};
    ms = ngx_parse_time(&value, 0);
    if (ms == NGX_ERROR || ms < 1 || ms > TIMEOUT_MAX_MS)
        return bad_timeout(cf, &words[2]);
    location->timeout_ms = (ngx_msec_t)ms;
    return NGX_CONF_OK;
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
    return location->server ? read_timeout(cf, location) : NGX_CONF_ERROR;
}

/* --- workers ------------------------------------------------------------------------------ */

ngx_int_t rn_ngx_servers_open(const struct rn_ngx_main *main, ngx_cycle_t *cycle)
{
    struct rn_ngx_server **all = main->servers.elts;

    for (ngx_uint_t i = 0; i < main->servers.nelts; i++) {
        struct rn_ngx_link *link = ngx_pcalloc(cycle->pool, sizeof *link);

        if (!link)
            return NGX_ERROR;
        link->server = all[i];
        link->worker = main->worker;
        link->log = cycle->log;
        all[i]->link = link;
        rn_ngx_link_open(link);
    }
    return NGX_OK;
}

void rn_ngx_servers_close(const struct rn_ngx_main *main)
{
    struct rn_ngx_server **all = main->servers.elts;

    for (ngx_uint_t i = 0; i < main->servers.nelts; i++)
        if (all[i]->link)
            rn_ngx_link_close(all[i]->link);
}
