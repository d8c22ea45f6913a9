/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why there is no TLS with somebody, in words.
 */
#ifndef RN_CLI_CLIENT_TLS_ERROR_H
#define RN_CLI_CLIENT_TLS_ERROR_H

#include "cli/client/tls_config.h"

struct ssl_st;

/* After a call of OpenSSL's that failed, whose errors are still there: "its certificate has
 * expired: 2026-11-01T00:00:00Z". `host` is whom it should have been for. */
void rn_distrust_explain(const struct ssl_st *ssl, const struct rn_trust *trust, const char *host,
                         char problem[RN_TRUST_PROBLEM]);

#endif
