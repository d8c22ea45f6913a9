/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of this worker to a rationd. The log gets one line for each change of
 * state, however many connections there are. One connection is enough for a rationd that
 * answers at once. One that asks Redis answers the commands of a connection one after the
 * other: then several connections are faster.
 */
#include "nginx/link.h"
#include "nginx/module.h"

void rn_ngx_server_found(struct rn_ngx_server *server, ngx_log_t *log)
{
    server->up++;
    if (!server->logged || !server->logged_up) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0, "ration: rationd at \"%V\" answers", &server->name);
    }
    server->logged = server->logged_up = true;
}

void rn_ngx_server_lost(struct rn_ngx_server *server, ngx_log_t *log,
                        const struct rn_ngx_loss *loss)
{
    ngx_uint_t level = loss->lasting ? NGX_LOG_ERR : NGX_LOG_WARN;

    if (server->up > 0)
        return;
    if (!server->logged || server->logged_up) {
        ngx_log_error(level, log, loss->error,
                      "ration: rationd at \"%V\" %s; until it answers again rules decide by "
                      "on_store_failure",
                      &server->name, loss->why);
    }
    server->logged = true;
    server->logged_up = false;
}

struct rn_ngx_link *rn_ngx_server_pick(const struct rn_ngx_server *server)
{
    struct rn_ngx_link *best = NULL;

    for (ngx_uint_t i = 0; i < server->connections; i++) {
        struct rn_ngx_link *link = &server->links[i];

        if (rn_ngx_link_can_ask(link) && (!best || rn_ngx_link_load(link) < rn_ngx_link_load(best)))
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

void rn_ngx_servers_end_by(const struct rn_ngx_main *main, ngx_msec_t ms)
{
    struct rn_ngx_server **all = main->servers.elts;

    for (ngx_uint_t i = 0; i < main->servers.nelts; i++)
        for (ngx_uint_t j = 0; all[i]->links && j < all[i]->connections; j++)
            rn_ngx_rationd_line_end_by(&all[i]->links[j], ms);
}
