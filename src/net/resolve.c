/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "net/loop.h"

struct rn_resolve {
    uv_getaddrinfo_t request;
    struct rn_loop *loop;
    rn_resolve_done *done; /* NULL: cancelled */
    void *arg;
};

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct rn_resolve *resolve = request->data;
    struct rn_address addresses[RN_RESOLVE_MAX];
    size_t n = 0;

    for (const struct addrinfo *a = found; status == 0 && a && n < RN_RESOLVE_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof addresses->to)
            continue;
        addresses[n] = (struct rn_address){.len = a->ai_addrlen};
        memcpy(&addresses[n++].to, a->ai_addr, a->ai_addrlen);
    }
    rn_loop_update(resolve->loop);
    if (resolve->done)
        resolve->done(resolve->arg, addresses, n,
                      status != 0 ? uv_strerror(status) : "the name has no address");
    uv_freeaddrinfo(found);
    free(resolve);
}

struct rn_resolve *rn_resolve_begin(struct rn_loop *loop, const char *name, rn_resolve_done *done,
                                    void *arg)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const char *colon = strrchr(name, ':');
    struct rn_resolve *resolve = calloc(1, sizeof *resolve);
    char host[256];

    if (resolve && colon && (size_t)(colon - name) < sizeof host) {
        memcpy(host, name, (size_t)(colon - name));
        host[colon - name] = '\0';
        *resolve = (struct rn_resolve){.loop = loop, .done = done, .arg = arg};
        resolve->request.data = resolve;
        if (uv_getaddrinfo(&loop->uv, &resolve->request, on_found, host, colon + 1, &hints) == 0)
            return resolve;
    }
    free(resolve);
    return NULL;
}

void rn_resolve_cancel(struct rn_resolve *resolve)
{
    if (!resolve)
        return;
    resolve->done = NULL;
    uv_cancel((uv_req_t *)&resolve->request); /* works if no thread has begun the query */
}
