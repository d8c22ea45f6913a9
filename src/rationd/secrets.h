/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in files, and tokens of callers. */
#ifndef RN_RATIOND_SECRETS_H
#define RN_RATIOND_SECRETS_H

#include "rationd/options.h"

/* Reads the only line of a file, without its newline; from malloc. Logs a warning if every user can
 * read the file. NULL: `error` says why. */
char *rn_secrets_read_file(const char *path, struct ration_error *error);

/* Puts the tokens of the ruleset and admin_token into options->tokens. False after an error message
 * on stderr. */
bool rn_secrets_read_tokens(struct rn_rationd_options *options, const struct rn_ruleset *ruleset);

/* Reads the token files again. If a file is unusable, the old token stays, and the log says so.
 * Control thread only. */
void rn_secrets_reload_tokens(struct rn_token_guard *guard);

#endif
