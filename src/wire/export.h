/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of clients as CSV (RFC 4180) and JSON. The admin port and `ration usage` write the same.
 */
#ifndef RN_WIRE_EXPORT_H
#define RN_WIRE_EXPORT_H

#include <ration/usage.h>

#include "wire/members.h"

/* The line of a CSV file that names the columns. */
void rn_export_titles(struct rn_buf *out);
/* One line of CSV. Names of clients are written as they are, byte by byte: also those that are not
 * UTF-8, and those that a spreadsheet would take for a formula. */
void rn_export_csv(struct rn_buf *out, const struct ration_usage *usage);

/* The members of an open object. A name that JSON cannot hold has a member "client_hex" besides,
 * with its exact bytes: one that is not UTF-8, or has a NUL. */
void rn_export_json(struct rn_members *m, const struct ration_usage *usage);
/* Whether a JSON string can hold the name exactly. */
bool rn_export_is_text(struct rn_slice name);
/* Two digits for each byte. */
void rn_export_hex(struct rn_buf *out, struct rn_slice name);
/* The bytes of such digits, appended to `out`. False: not pairs of hexadecimal digits. */
bool rn_export_unhex(struct rn_buf *out, struct rn_slice digits);

/* What to bill: admitted and corrected together. */
int64_t rn_export_units(const struct ration_usage *usage);

#endif
