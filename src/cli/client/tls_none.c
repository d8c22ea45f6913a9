/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS in a build without OpenSSL: rn_cli_tls_config_new fails, so that the other functions are
 * never called.
 */
#include <stdio.h>

#include "cli/client/tls.h"

struct rn_cli_tls_config *rn_cli_tls_config_new(const struct rn_cli_tls_files *files,
                                                char problem[RN_CLI_TLS_PROBLEM])
{
    (void)files;
    snprintf(problem, RN_CLI_TLS_PROBLEM,
             "this build has no TLS: it was made without OpenSSL; leave out https:// or rediss://, "
             "or build ration with it");
    return NULL;
}

void rn_cli_tls_config_free(struct rn_cli_tls_config *config)
{
    (void)config;
}

struct rn_cli_tls *rn_cli_tls_new(const struct rn_cli_tls_config *config, int fd, const char *host)
{
    (void)config, (void)fd, (void)host;
    return NULL;
}

void rn_cli_tls_free(struct rn_cli_tls *tls)
{
    (void)tls;
}

int rn_cli_tls_begin(struct rn_cli_tls *tls)
{
    (void)tls;
    return -1;
}

ssize_t rn_cli_tls_send(struct rn_cli_tls *tls, const void *data, size_t len)
{
    (void)tls, (void)data, (void)len;
    return -1;
}

ssize_t rn_cli_tls_receive(struct rn_cli_tls *tls, void *data, size_t size)
{
    (void)tls, (void)data, (void)size;
    return -1;
}

bool rn_cli_tls_has_more(const struct rn_cli_tls *tls)
{
    (void)tls;
    return false;
}
