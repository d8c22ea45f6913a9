/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing the rules of a limiter.
 */
#ifndef RN_LIMITER_RELOAD_H
#define RN_LIMITER_RELOAD_H

#include "limiter/book.h"

struct ration;

/* Puts a ruleset in place at a time of the caller's and takes it, also when it
 * fails: RATION_ENOMEM, the current rules stay. May wait. */
int rn_reload_install(struct ration *r, struct rn_ruleset *ruleset, int64_t now_ns);

#endif
