/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets from files, and the tokens of callers. */
#ifndef RN_RATIOND_SECRETS_H
#define RN_RATIOND_SECRETS_H

#include "rationd/options.h"

/* The line of a file, without its end; from malloc. Warns in the log of a file that everybody
 * can read. NULL: the error says what is wrong. */
char *rn_secrets_read_file(const char *path, struct ration_error *error);

/* The tokens of the ruleset and the admin_token, into options->tokens. False after saying on
 * stderr what is wrong. */
bool rn_secrets_read_tokens(struct rn_rationd_options *options, const struct rn_ruleset *ruleset);

/* Reads the files of tokens again. A token whose file is unusable stays as it is; the log says
 * so. In the control thread. */
void rn_secrets_reload_tokens(struct rn_token_guard *guard);

#endif
