/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate of a server: loading it, reloading it when its files change, and which
 * listeners use it. A connection takes the current certificate when it is accepted, under
 * a mutex, and keeps it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/log.h"
#include "net/server_internal.h"

/* Reads the files and takes their certificate, for new connections. */
static int take_files(struct rn_server *server, struct ration_error *error)
{
    struct rn_tls_files files = {.cert = server->tls_paths[0],
                                 .key = server->tls_paths[1],
                                 .client_ca = server->tls_paths[2],
                                 .only_13 = server->tls_only_13};
    struct rn_tls *tls, *former;
    int failed = rn_tls_new(&files, &tls, error);

    if (failed != 0)
        return failed;
    pthread_mutex_lock(&server->tls_lock);
    former = server->tls;
    server->tls = tls;
    pthread_mutex_unlock(&server->tls_lock);
    rn_tls_unref(former);
    rn_log(rn_tls_is_outdated(tls) ? RN_LOG_WARN : RN_LOG_INFO,
           rn_tls_is_outdated(tls) ? "tls.outdated" : "tls.loaded",
           RN_LOG_TEXT("cert", rn_slice_of(files.cert)),
           RN_LOG_TEXT("ends", rn_slice_of(rn_tls_ends(tls))));
    return 0;
}

bool rn_server_tls_reload(struct rn_server *server)
{
    struct ration_error error;

    if (!server->tls || take_files(server, &error) == 0)
        return true;
    rn_log(RN_LOG_ERROR, "tls.refused", RN_LOG_TEXT("reason", rn_slice_of(error.text)),
           RN_LOG_TEXT("kept", RN_SLICE("the former certificate")));
    return false;
}

static void on_change(void *arg)
{
    rn_server_tls_reload(arg);
}

int rn_server_tls_load(struct rn_server *server, const struct rn_tls_files *files,
                       struct ration_error *error)
{
    const char *const paths[] = {files->cert, files->key, files->client_ca};

    assert(!server->tls);
    for (size_t i = 0; i < RN_TLS_PATHS; i++)
        if (paths[i] && !(server->tls_paths[i] = strdup(paths[i])))
            return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    server->tls_only_13 = files->only_13;
    /* Watched before they are read, so that no change is missed between. */
    if (rn_watch_set(&server->tls_watch, paths, files->client_ca ? 3 : 2, on_change, server) != 0)
        rn_log(RN_LOG_WARN, "tls.unwatched",
               RN_LOG_TEXT("advice", RN_SLICE("send SIGHUP after a change")));
    return take_files(server, error);
}

void rn_server_tls_enable(struct rn_server *server, const char *name)
{
    struct rn_listener *listener = server->listeners;

    assert(server->tls);
    while (listener && strcmp(listener->name, name) != 0)
        listener = listener->next;
    assert(listener);
    listener->secure = true;
}

void rn_server_tls_done(struct rn_server *server)
{
    rn_tls_unref(server->tls);
    for (size_t i = 0; i < RN_TLS_PATHS; i++)
        free(server->tls_paths[i]);
    pthread_mutex_destroy(&server->tls_lock);
}
