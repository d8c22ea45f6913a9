/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS in a build without OpenSSL: nobody is believed, and so nobody comes as far as
 * the other functions.
 */
#include <stdio.h>

#include "cli/client/tls_connection.h"

struct rn_trust *rn_trust_new(const struct rn_trust_files *files, char problem[RN_TRUST_PROBLEM])
{
    (void)files;
    snprintf(problem, RN_TRUST_PROBLEM,
             "this build has no TLS: it was made without OpenSSL; leave out https:// or rediss://, "
             "or build ration with it");
    return NULL;
}

void rn_trust_free(struct rn_trust *trust)
{
    (void)trust;
}

struct rn_tunnel *rn_tunnel_new(const struct rn_trust *trust, int fd, const char *host)
{
    (void)trust, (void)fd, (void)host;
    return NULL;
}

void rn_tunnel_free(struct rn_tunnel *tunnel)
{
    (void)tunnel;
}

int rn_tunnel_begin(struct rn_tunnel *tunnel)
{
    (void)tunnel;
    return -1;
}

ssize_t rn_tunnel_send(struct rn_tunnel *tunnel, const void *data, size_t len)
{
    (void)tunnel, (void)data, (void)len;
    return -1;
}

ssize_t rn_tunnel_receive(struct rn_tunnel *tunnel, void *data, size_t size)
{
    (void)tunnel, (void)data, (void)size;
    return -1;
}

short rn_tunnel_wants(const struct rn_tunnel *tunnel)
{
    (void)tunnel;
    return 0;
}

bool rn_tunnel_has_more(const struct rn_tunnel *tunnel)
{
    (void)tunnel;
    return false;
}

const char *rn_tunnel_problem(const struct rn_tunnel *tunnel)
{
    (void)tunnel;
    return "";
}
